//! OpenBLAS, where that library is found at run time.
//!
//! The library has one number of threads for the whole process. A call sets its device's number, and restores
//! the program's when it is done: other callers of the library may see either meanwhile.
//!
//! The library chooses its code by the model of the CPU. One that is older than the model takes it for a CPU
//! of before, with narrower registers, and is two to eight times slower than blocks of our own: it is left
//! out then.

use crate::simd::{Number, register_bits};
use flash_core::fork;
use flash_core::kernel::Threads;
use flash_core::kernel::keep_float_state;
use libloading::Library;
use std::any::TypeId;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, OnceLock};

/// Its name for the loader; the `#[kernel]` of each implementation names it, too.
const LIBRARY: &str = "libopenblas.so.0";
/// Multiplications up to which the library, whose threads have to be woken, is slower than blocks of our own.
const SMALL: usize = 1 << 21;

/// CPUs without AVX2, by the library's names for its code.
const WITHOUT_AVX2: [&str; 19] = [
    "atom",
    "athlon",
    "banias",
    "barcelona",
    "bobcat",
    "bulldozer",
    "coppermine",
    "core2",
    "dunnington",
    "generic",
    "katmai",
    "nano",
    "nehalem",
    "northwood",
    "opteron",
    "penryn",
    "piledriver",
    "prescott",
    "sandybridge",
];

/// Those with registers of 512 bits.
const WITH_AVX512: [&str; 3] = ["skylakex", "cooperlake", "sapphirerapids"];

/// `cblas_sgemm`, `cblas_dgemm`: order, transpositions, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
type Gemm<T> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    T,
    *const T,
    c_int,
    *const T,
    c_int,
    T,
    *mut T,
    c_int,
);
/// `cblas_ssyrk`, `cblas_dsyrk`: order, triangle, transposition, n, k, alpha, a, lda, beta, c, ldc.
type Syrk<T> = unsafe extern "C" fn(c_int, c_int, c_int, c_int, c_int, T, *const T, c_int, T, *mut T, c_int);
/// `cblas_strsm`, `cblas_dtrsm`: order, side, triangle, transposition, diagonal, m, n, alpha, a, lda, b, ldb.
type Trsm<T> =
    unsafe extern "C" fn(c_int, c_int, c_int, c_int, c_int, c_int, c_int, T, *const T, c_int, *mut T, c_int);
/// `spotrf_`, `dpotrf_`: triangle, n, a, lda, info, and the length of the first text.
type Potrf<T> = unsafe extern "C" fn(*const c_char, *const c_int, *mut T, *const c_int, *mut c_int, usize);

pub(crate) const ROW_MAJOR: c_int = 101;
const NOT_TRANSPOSED: c_int = 111;
const TRANSPOSED: c_int = 112;
pub(crate) const LOWER: c_int = 122;

/// The library's number for a transposition.
pub(crate) fn transposition(is_transposed: bool) -> c_int {
    if is_transposed { TRANSPOSED } else { NOT_TRANSPOSED }
}

/// Its functions for numbers of a type.
pub(crate) struct Functions<T> {
    pub gemm: Gemm<T>,
    pub syrk: Syrk<T>,
    pub trsm: Trsm<T>,
    /// Of LAPACK, which the library may be without.
    pub potrf: Option<Potrf<T>>,
}

struct Loaded {
    single: Functions<f32>,
    double: Functions<f64>,
    /// For the whole process.
    set_threads: unsafe extern "C" fn(c_int),
    threads: unsafe extern "C" fn() -> c_int,
    /// Its code is for CPUs such as this one.
    suits: bool,
}

impl Loaded {
    /// Loaded once.
    fn get() -> Option<&'static Loaded> {
        static LOADED: OnceLock<Option<Loaded>> = OnceLock::new();
        let load = || {
            fork::watch();
            // SAFETY: the loader's OpenBLAS may be loaded by any program; these are the types of its
            // functions, and it is never unloaded.
            unsafe {
                let library: &'static Library =
                    Box::leak(Box::new(keep_float_state(|| Library::new(LIBRARY)).ok()?));
                Some(Loaded {
                    single: Functions {
                        gemm: *library.get(b"cblas_sgemm\0").ok()?,
                        syrk: *library.get(b"cblas_ssyrk\0").ok()?,
                        trsm: *library.get(b"cblas_strsm\0").ok()?,
                        potrf: library.get(b"spotrf_\0").ok().map(|function| *function),
                    },
                    double: Functions {
                        gemm: *library.get(b"cblas_dgemm\0").ok()?,
                        syrk: *library.get(b"cblas_dsyrk\0").ok()?,
                        trsm: *library.get(b"cblas_dtrsm\0").ok()?,
                        potrf: library.get(b"dpotrf_\0").ok().map(|function| *function),
                    },
                    set_threads: *library.get(b"openblas_set_num_threads\0").ok()?,
                    threads: *library.get(b"openblas_get_num_threads\0").ok()?,
                    suits: suits(&core_of(library), register_bits()),
                })
            }
        };
        LOADED.get_or_init(load).as_ref()
    }
}

/// The library's functions, for a call of some threads.
pub(crate) struct OpenBlas<T: 'static> {
    functions: &'static Functions<T>,
    loaded: &'static Loaded,
}

impl<T: Number> OpenBlas<T> {
    /// # Panics
    /// If the library lacks functions: the kernel fails.
    pub fn get(kernel: &str) -> OpenBlas<T> {
        let Some(loaded) = Loaded::get() else {
            panic!(
                "{kernel}: expected cblas_?gemm, cblas_?syrk, cblas_?trsm, openblas_set_num_threads and openblas_get_num_threads in {LIBRARY}, and found not all of them: install OpenBLAS, or name another implementation"
            )
        };
        let of = TypeId::of::<T>();
        let functions = if of == TypeId::of::<f32>() {
            (&raw const loaded.single).cast::<Functions<T>>()
        } else {
            assert!(of == TypeId::of::<f64>(), "{kernel}: numbers of the library");
            (&raw const loaded.double).cast::<Functions<T>>()
        };
        // SAFETY: the functions are of the very same type, and live for ever.
        OpenBlas { functions: unsafe { &*functions }, loaded }
    }

    /// False for so few multiplications that this thread has done them before others are woken, in a child of
    /// `fork`, where the library's threads are not, and where the library has no code for such a CPU.
    pub fn pays(&self, multiplications: usize) -> bool {
        multiplications > SMALL && self.loaded.suits && !fork::is_child()
    }

    /// True if it has LAPACK.
    pub fn has_potrf(&self) -> bool {
        self.functions.potrf.is_some()
    }

    /// Calls `body` where the library has as many threads as the kernel.
    pub fn call(&self, threads: Threads<'_>, body: impl FnOnce(&Functions<T>) + Send) {
        let (functions, loaded, count) = (self.functions, self.loaded, threads.count());
        threads.install(move || {
            let _count = ThreadCount::set(loaded, c_int::try_from(count).unwrap_or(c_int::MAX));
            body(functions);
        });
    }
}

/// The CPU that the code of a library is for, in its words. Empty if it does not say so.
///
/// # Safety
/// It is OpenBLAS.
unsafe fn core_of(library: &Library) -> String {
    // SAFETY: the caller vouches; the function has this type, and returns a text of the library's own.
    unsafe {
        let name = library.get::<unsafe extern "C" fn() -> *const c_char>(b"openblas_get_corename\0");
        let name = name.map_or(std::ptr::null(), |name| name());
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Whether code for CPUs of a name uses registers as wide as a CPU has; true if there is no name.
fn suits(core: &str, bits: u32) -> bool {
    let core = core.to_ascii_lowercase();
    let is_of = |names: &[&str]| names.iter().any(|name| core.starts_with(name));
    match bits {
        512 => core.is_empty() || is_of(&WITH_AVX512),
        256 => !is_of(&WITHOUT_AVX2),
        _ => true,
    }
}

/// The library's number of threads, while calls run.
struct ThreadCount(&'static Loaded);

/// Running calls, and the setting before the first of them. Those of several devices overlap: the last one
/// restores it.
static RUNNING: Mutex<(usize, c_int)> = Mutex::new((0, 0));

impl ThreadCount {
    fn set(library: &'static Loaded, threads: c_int) -> ThreadCount {
        let mut running = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: these functions of the library may be called from any thread.
        unsafe {
            if running.0 == 0 {
                running.1 = (library.threads)();
            }
            if running.1 != threads || running.0 > 0 {
                (library.set_threads)(threads);
            }
        }
        running.0 += 1;
        ThreadCount(library)
    }
}

impl Drop for ThreadCount {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
        running.0 -= 1;
        // SAFETY: as above.
        unsafe {
            if running.0 == 0 && (self.0.threads)() != running.1 {
                (self.0.set_threads)(running.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::suits;

    #[test]
    fn code_for_older_cpus_is_left_out() {
        for core in ["Prescott", "PRESCOTT", "Nehalem", "Sandybridge", "Opteron_SSE3"] {
            assert!(!suits(core, 256) && !suits(core, 512), "{core}");
            assert!(suits(core, 128), "{core}");
        }
        for core in ["Haswell", "Zen"] {
            assert!(suits(core, 256) && !suits(core, 512), "{core}");
        }
        for core in ["SkylakeX", "Cooperlake", "SapphireRapids", ""] {
            assert!(suits(core, 256) && suits(core, 512), "{core}");
        }
        assert!(suits("neoversev1", 128));
    }
}
