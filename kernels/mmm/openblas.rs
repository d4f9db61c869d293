//! The product by OpenBLAS, where that library is found at run time.

use super::cpu::Blocked;
use super::product::{Matrix, Product, Sizes};
use super::{Mmm, MmmWhole};
use crate::simd::Number;
use flash_core::fork;
use flash_core::kernel;
use flash_core::kernel::{CpuWhole, Index, Space, Threads, keep_float_state};
use libloading::Library;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

/// Multiplications up to which the library, whose threads have to be woken, is slower than [`Blocked`].
const SMALL: usize = 1 << 21;
/// Its name for the loader; `#[kernel]` below names it, too.
const LIBRARY: &str = "libopenblas.so.0";

/// An installed library is used, though [`Blocked`] is as fast on some CPUs and faster on others. Sizes that
/// it does not support are left to that.
///
/// The library has one number of threads for the whole process. A product sets its device's number, and
/// restores the program's when it is done: other callers of the library may see either meanwhile.
pub struct OpenBlas;

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
const ROW_MAJOR: c_int = 101;
const NOT_TRANSPOSED: c_int = 111;

struct OpenBlasLibrary {
    single: Gemm<f32>,
    double: Gemm<f64>,
    /// For the whole process.
    set_threads: unsafe extern "C" fn(c_int),
    threads: unsafe extern "C" fn() -> c_int,
}

impl OpenBlasLibrary {
    /// Loaded once.
    fn get() -> Option<&'static OpenBlasLibrary> {
        static LOADED: OnceLock<Option<OpenBlasLibrary>> = OnceLock::new();
        let load = || {
            fork::watch();
            // SAFETY: the loader's OpenBLAS may be loaded by any program; these are the types of its
            // functions, and it is never unloaded.
            unsafe {
                let library: &'static Library =
                    Box::leak(Box::new(keep_float_state(|| Library::new(LIBRARY)).ok()?));
                Some(OpenBlasLibrary {
                    single: *library.get(b"cblas_sgemm\0").ok()?,
                    double: *library.get(b"cblas_dgemm\0").ok()?,
                    set_threads: *library.get(b"openblas_set_num_threads\0").ok()?,
                    threads: *library.get(b"openblas_get_num_threads\0").ok()?,
                })
            }
        };
        LOADED.get_or_init(load).as_ref()
    }

    fn gemm<T: Number>(&self) -> Option<Gemm<T>> {
        use std::any::TypeId;
        // SAFETY: pointers to functions of the very same type.
        unsafe {
            if TypeId::of::<T>() == TypeId::of::<f32>() {
                Some(std::mem::transmute::<Gemm<f32>, Gemm<T>>(self.single))
            } else if TypeId::of::<T>() == TypeId::of::<f64>() {
                Some(std::mem::transmute::<Gemm<f64>, Gemm<T>>(self.double))
            } else {
                None
            }
        }
    }
}

#[kernel(for(f32, f64), name = "openblas", priority = 50, library = "libopenblas.so.0")]
impl<T: Number> CpuWhole<Mmm<'_, T>> for OpenBlas {
    const PARTS: bool = true;

    fn whole(space: Space<'_, Index<1>>, k: MmmWhole<'_, T>, threads: Threads<'_>) {
        let library = OpenBlasLibrary::get();
        let Some((library, gemm)) = library.and_then(|library| Some((library, library.gemm::<T>()?))) else {
            panic!(
                "flash.mmm: expected cblas_sgemm, cblas_dgemm, openblas_set_num_threads and openblas_get_num_threads in {LIBRARY}, and found not all of them: install OpenBLAS, or name another implementation"
            )
        };
        Product::of(&space, k, |product| match sizes(&product) {
            Some(sizes) => {
                let count = threads.count();
                threads.install(move || {
                    let _count = ThreadCount::set(library, c_int::try_from(count).unwrap_or(c_int::MAX));
                    multiply(gemm, product, sizes);
                });
            }
            None => Blocked::multiply(product, threads),
        });
    }
}

/// The sizes in the library's type. `None` if one is too large for it, for a product that this thread
/// finishes before others are woken, and in a child of `fork`, where the library's threads are not.
fn sizes<T: Number>(Product { m, n, k, a, b, c }: &Product<'_, T>) -> Option<Sizes<c_int>> {
    if m.saturating_mul(*n).saturating_mul(*k) <= SMALL || fork::is_child() {
        return None;
    }
    Sizes { m: *m, n: *n, k: *k, lda: a.leading, ldb: b.leading, ldc: c.leading }.to().ok()
}

fn multiply<T: Number>(
    gemm: Gemm<T>,
    Product { m: rows, n: columns, k: depth, a, b, c }: Product<'_, T>,
    Sizes { m, n, k, lda, ldb, ldc }: Sizes<c_int>,
) {
    // The elements that the library reads and writes exist.
    let needs = |rows: usize, columns: usize, leading: usize| (rows - 1) * leading + columns;
    let fits = |matrix: Matrix<'_, T>, rows, columns| {
        matrix.leading >= columns && matrix.elements.len() >= needs(rows, columns, matrix.leading)
    };
    let there = fits(a, rows, depth) && fits(b, depth, columns);
    assert!(
        there && c.leading >= columns && c.elements.len() >= needs(rows, columns, c.leading),
        "matrices as large as their sizes"
    );
    let (left, right, to) = (a.elements.as_ptr(), b.elements.as_ptr(), c.elements.as_mut_ptr());
    let none = NOT_TRANSPOSED;
    // SAFETY: the matrices have the elements that are read and written, as just asserted; the library may be
    // called from any thread.
    unsafe { gemm(ROW_MAJOR, none, none, m, n, k, T::ONE, left, lda, right, ldb, T::ZERO, to, ldc) };
}

/// The library's number of threads, while products run.
struct ThreadCount(&'static OpenBlasLibrary);

/// Running products, and the setting before the first of them. Products of several devices overlap: the last
/// one restores it.
static RUNNING: Mutex<(usize, c_int)> = Mutex::new((0, 0));

impl ThreadCount {
    fn set(library: &'static OpenBlasLibrary, threads: c_int) -> ThreadCount {
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
