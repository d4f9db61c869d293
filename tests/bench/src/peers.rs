//! The peers in C and C++: compiled on this machine, for this machine, and loaded
//! into this process so that their turns interleave with FLASH's.
//!
//! A shared library is kept beside the executable under a name that says what it was
//! made from (source, flags, compiler, processor), so it is compiled once. A peer that
//! cannot be had is left out aloud; with `CI=true` it is an error.
//!
//! # Spinning
//!
//! gcc's OpenMP is measured as it is fastest: between launches its threads spin. They
//! must not spin into FLASH's turns, so they are told to spin for [`SPIN`] and then to
//! sleep, far longer than a launch takes and far shorter than the pause between turns
//! (`stats::PAUSE`). libgomp counts pauses of the processor, 4 to 50 ns each, so the
//! count is measured; it reads the count once, when it is loaded. oneTBB's threads spin
//! for microseconds.

use std::ffi::{c_int, c_long, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;

use crate::diffusion::Diffusion;
use crate::doors::Stencils;
use crate::graph::FlowGraph;
use crate::nbody::NBody;
use crate::overhead::Shares;
use crate::portability::c::{self, Kernels};
use crate::tasks::{OpenMpTasks, StarPu, TbbTasks};
use crate::tasks_jacobi::OpenMpJacobi;

/// How long OpenMP's threads spin before they sleep.
const SPIN: Duration = Duration::from_millis(5);

/// Every peer that this machine can have. They are called from the thread that
/// loaded them, one at a time.
#[derive(Default)]
pub struct Peers {
    /// Launches and barriers of gcc's OpenMP.
    pub openmp: Option<OpenMp>,
    /// Launches of oneTBB.
    pub tbb: Option<Tbb>,
    /// Tasks of oneTBB.
    pub tasks: Option<TbbTasks>,
    /// Tasks of gcc's OpenMP.
    pub openmp_tasks: Option<OpenMpTasks>,
    /// Jacobi's method in C, over gcc's OpenMP.
    pub jacobi: Option<OpenMpJacobi>,
    /// Tasks of StarPU.
    pub starpu: Option<StarPu>,
    /// Flow graphs of oneTBB.
    pub graph: Option<FlowGraph>,
    /// Streaming loops in C, over gcc's OpenMP.
    pub stream: Option<Stream>,
    /// Gravity in C, over gcc's OpenMP.
    pub nbody: Option<NBody>,
    /// Particle diffusion in C, on one thread.
    pub diffusion: Option<Diffusion>,
    /// Stencils in C, over gcc's OpenMP.
    pub stencils: Option<Stencils>,
    /// The same kernels for every dispatcher.
    pub overhead: Option<Shares>,
    /// The kernels of the library in C, over gcc's OpenMP.
    pub kernels: Option<(Kernels<f32>, Kernels<f64>)>,
}

impl Peers {
    /// Compiles and loads them. Call this first in `main`: OpenMP's settings go into
    /// the environment, which no other thread may be reading.
    ///
    /// # Errors
    ///
    /// If this process has more than one thread, or with `CI=true` if a peer cannot be
    /// had.
    pub fn load() -> Result<Self> {
        if !cfg!(target_os = "linux") {
            eprintln!("peers: all are left out: they are measured on Linux");
            return Ok(Self::default());
        }
        set_environment()?;
        let cache = cache()?;
        Ok(Self {
            openmp: or_without("gcc's OpenMP", OpenMp::load(&cache))?,
            tbb: or_without("oneTBB", Tbb::load(&cache))?,
            tasks: or_without("oneTBB's tasks", TbbTasks::load(&cache))?,
            openmp_tasks: or_without("gcc's OpenMP tasks", OpenMpTasks::load(&cache))?,
            jacobi: or_without("Jacobi's method in C over gcc's OpenMP", OpenMpJacobi::load(&cache))?,
            starpu: or_without("StarPU", StarPu::load(&cache))?,
            graph: or_without("oneTBB's flow graph", FlowGraph::load(&cache))?,
            stream: or_without("C over gcc's OpenMP", Stream::load(&cache))?,
            nbody: or_without("N-body in C over gcc's OpenMP", NBody::load(&cache))?,
            diffusion: or_without("diffusion in C", Diffusion::load(&cache))?,
            stencils: or_without("stencils in C over gcc's OpenMP", Stencils::load(&cache))?,
            overhead: or_without("kernels over OpenMP and oneTBB", Shares::load(&cache))?,
            kernels: or_without("the kernels in C over gcc's OpenMP", c::load(&cache))?,
        })
    }
}

/// The folder of compiled peers.
pub fn cache() -> Result<PathBuf> {
    let cache = env::current_exe()?.with_file_name("peers");
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    Ok(cache)
}

/// The peer; none if it cannot be had, which is said, and is an error with `CI=true`.
pub fn or_without<T>(peer: &str, loaded: Result<T>) -> Result<Option<T>> {
    match loaded {
        Ok(peer) => Ok(Some(peer)),
        Err(error) if env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false")) => {
            Err(error.context(format!("with CI set every peer must be there, also {peer}")))
        }
        Err(error) => {
            eprintln!("peers: {peer} is left out (`cargo xtask bench` installs it): {error:#}");
            Ok(None)
        }
    }
}

/// What one work item does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// Nothing: the compiler may remove the loop, not the launch.
    Empty,
    /// Nothing, but once per item: in C `asm volatile("" ::: "memory")`, in Rust
    /// `asm!("", options(nostack, preserves_flags))`.
    Touched,
}

type LaunchNs = unsafe extern "C" fn(c_int, c_long, c_int, c_long) -> f64;
type BarrierNs = unsafe extern "C" fn(c_int, c_long, c_int, c_long, c_long) -> f64;
type SharedLaunchNs = unsafe extern "C" fn(c_int, c_long, c_int, c_long, *mut f64, *mut f64, *mut f64);
/// Called with `data` and rows `begin..end`, by several threads at once.
pub type Share = unsafe extern "C" fn(*mut c_void, c_long, c_long);
/// Threads, rows, what borders of shares are multiples of, a function, and its `data`.
pub type EachShare = unsafe extern "C" fn(c_int, c_long, c_long, Share, *mut c_void);
type TasksNs = unsafe extern "C" fn(c_int, c_long, c_long) -> f64;
type BeginNs = unsafe extern "C" fn(c_int, c_long, c_long) -> f64;
type Triad = unsafe extern "C" fn(c_int, c_long, *mut f64, *const f64, *const f64, f64);

/// Functions that keep state without locks are called by one thread.
type OneThread = PhantomData<*const ()>;

/// `dispatch_openmp.c`.
pub struct OpenMp {
    launch_ns: LaunchNs,
    barrier_ns: BarrierNs,
    /// Calls a function with even shares of some rows, one for each thread.
    pub each_share: EachShare,
    _one_thread: OneThread,
}

impl OpenMp {
    fn load(cache: &Path) -> Result<Self> {
        let library = OPENMP.load(cache)?;
        // SAFETY: the signatures are those of the functions in dispatch_openmp.c, and
        // `load` keeps the library for ever.
        unsafe {
            Ok(Self {
                launch_ns: *library.get::<LaunchNs>(b"omp_launch_ns\0")?,
                barrier_ns: *library.get::<BarrierNs>(b"omp_barrier_ns\0")?,
                each_share: *library.get::<EachShare>(b"omp_each_share\0")?,
                _one_thread: PhantomData,
            })
        }
    }

    /// Nanoseconds per blocking launch (`parallel for`, static) of `items` items.
    pub fn launch_ns(&self, threads: usize, items: usize, item: Item, launches: usize) -> f64 {
        // SAFETY: the function takes any counts and touches no memory of ours; `self`
        // stays on one thread.
        unsafe { (self.launch_ns)(int(threads), long(items), touch(item), long(launches)) }
    }

    /// Nanoseconds per phase of `items` items that ends in a barrier, `phases` of them
    /// in one parallel region; mean of `launches` regions.
    pub fn barrier_ns(
        &self,
        threads: usize,
        items: usize,
        item: Item,
        phases: usize,
        launches: usize,
    ) -> f64 {
        let (phases, launches) = (long(phases), long(launches));
        // SAFETY: as in `launch_ns`.
        unsafe { (self.barrier_ns)(int(threads), long(items), touch(item), phases, launches) }
    }
}

/// `dispatch_tbb.cpp`.
pub struct Tbb {
    launch_ns: SharedLaunchNs,
    tasks_ns: TasksNs,
    begin_ns: BeginNs,
    _one_thread: OneThread,
}

/// What a launch of oneTBB costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TbbLaunch {
    /// Nanoseconds per launch, over all launches.
    pub all_ns: f64,
    /// Nanoseconds per launch in which every thread took part; NaN if there was none.
    pub shared_ns: f64,
    /// Which part of all launches these were, 0 to 1.
    pub shared_part: f64,
}

impl Tbb {
    fn load(cache: &Path) -> Result<Self> {
        let library = TBB.load(cache)?;
        // SAFETY: the signatures are those of the functions in dispatch_tbb.cpp, and `load`
        // keeps the library for ever.
        unsafe {
            Ok(Self {
                launch_ns: *library.get::<SharedLaunchNs>(b"tbb_launch_ns\0")?,
                tasks_ns: *library.get::<TasksNs>(b"tbb_tasks_ns\0")?,
                begin_ns: *library.get::<BeginNs>(b"tbb_begin_ns\0")?,
                _one_thread: PhantomData,
            })
        }
    }

    /// A blocking launch (`parallel_for`, static partitioner) of `items` items.
    pub fn launch(&self, threads: usize, items: usize, item: Item, launches: usize) -> TbbLaunch {
        let (threads, items, launches) = (int(threads), long(items), long(launches));
        let mut launch = TbbLaunch::default();
        // SAFETY: the function writes the three figures, which outlive the call, and
        // `self` stays on one thread.
        unsafe {
            (self.launch_ns)(
                threads,
                items,
                touch(item),
                launches,
                &mut launch.all_ns,
                &mut launch.shared_ns,
                &mut launch.shared_part,
            );
        }
        launch
    }

    /// Nanoseconds per `task_group` of `tasks` empty tasks, with the wait for all of them.
    pub fn tasks_ns(&self, threads: usize, tasks: usize, groups: usize) -> f64 {
        // SAFETY: the function takes any counts and touches no memory of ours; `self`
        // stays on one thread.
        unsafe { (self.tasks_ns)(int(threads), long(tasks), long(groups)) }
    }

    /// Nanoseconds from an `enqueue` until its task begins while the caller computes, the median of `starts`;
    /// it computes for `rest` before each.
    pub fn begin_ns(&self, threads: usize, starts: usize, rest: Duration) -> f64 {
        // SAFETY: as in `tasks_ns`.
        unsafe { (self.begin_ns)(int(threads), long(starts), long(rest.as_nanos() as usize)) }
    }
}

/// `triad.c`. Each call is one pass; the caller keeps the time.
pub struct Stream {
    triad_plain: Triad,
    triad_nt: Triad,
    _one_thread: OneThread,
}

impl Stream {
    fn load(cache: &Path) -> Result<Self> {
        let library = STREAM.load(cache)?;
        // SAFETY: the signatures are those of the functions in triad.c, and `load` keeps
        // the library for ever.
        unsafe {
            Ok(Self {
                triad_plain: *library.get::<Triad>(b"triad_plain\0")?,
                triad_nt: *library.get::<Triad>(b"triad_nt\0")?,
                _one_thread: PhantomData,
            })
        }
    }

    /// a = b + s c on `threads` threads, as OpenMP's simd loop.
    pub fn triad_plain(&self, threads: usize, a: &mut [f64], b: &[f64], c: &[f64], s: f64) {
        triad(self.triad_plain, threads, a, b, c, s);
    }

    /// a = b + s c on `threads` threads, with non-temporal stores.
    pub fn triad_nt(&self, threads: usize, a: &mut [f64], b: &[f64], c: &[f64], s: f64) {
        triad(self.triad_nt, threads, a, b, c, s);
    }
}

fn triad(f: Triad, threads: usize, a: &mut [f64], b: &[f64], c: &[f64], s: f64) {
    let n = a.len();
    assert!(b.len() == n && c.len() == n, "triad takes arrays of one length");
    // SAFETY: the three arrays have the length given, and `a` is borrowed alone.
    unsafe { f(int(threads), long(n), a.as_mut_ptr(), b.as_ptr(), c.as_ptr(), s) }
}

/// As C's `int`.
pub fn int(count: usize) -> c_int {
    c_int::try_from(count).expect("a count fits C's int")
}

/// As C's `long`.
pub fn long(count: usize) -> c_long {
    c_long::try_from(count).expect("a count fits C's long")
}

fn touch(item: Item) -> c_int {
    c_int::from(item == Item::Touched)
}

/// Gives libgomp, before it is loaded, the settings of a measurement: threads that
/// spin for [`SPIN`], bound to no core (libgomp would bind this thread too, and with it
/// every thread that FLASH starts). matrixmultiply gets as many threads as the others.
fn set_environment() -> Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    ensure!(
        threads == 1,
        "peers are loaded before any thread is started (expected 1 thread, found {threads}): \
         they set the environment"
    );
    let processors = std::thread::available_parallelism()?;
    // SAFETY: no other thread is there to read or write the environment.
    unsafe {
        for name in [
            "OMP_WAIT_POLICY",
            "OMP_NUM_THREADS",
            "OMP_THREAD_LIMIT",
            "OMP_DYNAMIC",
            "OMP_PROC_BIND",
            "OMP_PLACES",
            "GOMP_CPU_AFFINITY",
        ] {
            env::remove_var(name);
        }
        env::set_var("GOMP_SPINCOUNT", spin_count().to_string());
        env::set_var("MATMUL_NUM_THREADS", processors.to_string());
    }
    Ok(())
}

/// How many pauses of the processor last [`SPIN`].
fn spin_count() -> u64 {
    const PAUSES: u32 = 10_000;
    let measure = || {
        let start = Instant::now();
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        start.elapsed()
    };
    let fastest = (0..5).map(|_| measure()).min().unwrap_or(SPIN);
    let pause = fastest.as_secs_f64() / f64::from(PAUSES);
    (SPIN.as_secs_f64() / pause.max(1e-9)) as u64
}

/// A source file of a peer and how its experts compile it.
pub struct Source {
    pub name: &'static str,
    pub text: &'static str,
    pub compiler: &'static str,
    pub flags: &'static [&'static str],
    pub libraries: &'static [&'static str],
}

const OPENMP: Source = Source {
    name: "dispatch_openmp.c",
    text: include_str!("../peers/dispatch_openmp.c"),
    compiler: "gcc",
    flags: &["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"],
    libraries: &[],
};

const STREAM: Source = Source {
    name: "triad.c",
    text: include_str!("../peers/triad.c"),
    compiler: "gcc",
    // Of its own accord gcc takes half of AVX-512's width.
    flags: &[
        "-O3",
        "-march=native",
        "-mprefer-vector-width=512",
        "-funroll-loops",
        "-fopenmp",
        "-fPIC",
        "-shared",
    ],
    libraries: &[],
};

const TBB: Source = Source {
    name: "dispatch_tbb.cpp",
    text: include_str!("../peers/dispatch_tbb.cpp"),
    compiler: "g++",
    flags: &["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared"],
    libraries: &["-ltbb"],
};

impl Source {
    /// Compiles where needed, and loads for the life of the process: threads of the
    /// peer's runtime keep running in it.
    pub fn load(&self, cache: &Path) -> Result<&'static Library> {
        let file = self.compile(cache)?;
        // SAFETY: the library was compiled from our source; its initialisers and those
        // of the runtimes it links make no demands.
        let library =
            unsafe { Library::new(&file) }.with_context(|| format!("cannot load {}", file.display()))?;
        Ok(Box::leak(Box::new(library)))
    }

    /// The shared library's file in `cache`, made if it is not there.
    pub fn compile(&self, cache: &Path) -> Result<PathBuf> {
        self.compile_with(cache, &[])
    }

    /// The same with more arguments for the compiler, which are known at run time alone; a program where
    /// the flags are those of a program.
    pub fn compile_with(&self, cache: &Path, more: &[String]) -> Result<PathBuf> {
        let stem = format!("{}-{:016x}", self.name, self.fingerprint(more)?);
        let library = cache.join(format!("{stem}.so"));
        if library.exists() {
            return Ok(library);
        }
        // The compiler tells C from C++ by the end of the name.
        let source = cache.join(format!("{:016x}-{}", self.fingerprint(more)?, self.name));
        fs::write(&source, self.text).with_context(|| format!("cannot write {}", source.display()))?;
        // Under another name first: a library that is there is whole.
        let unfinished = cache.join(format!("{stem}-{}", std::process::id()));
        let compiled = Command::new(self.compiler)
            .args(self.flags)
            .arg("-o")
            .arg(&unfinished)
            .arg(&source)
            .args(more)
            .args(self.libraries)
            .output()
            .with_context(|| format!("{} does not start", self.compiler))?;
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr);
            let reason = said
                .lines()
                .find(|line| line.contains("error") || line.contains("cannot find"))
                .unwrap_or(&said);
            bail!("{} does not compile {}: {reason}", self.compiler, self.name);
        }
        fs::rename(&unfinished, &library)?;
        Ok(library)
    }

    /// Differs where the compiled code may differ.
    fn fingerprint(&self, more: &[String]) -> Result<u64> {
        let version = Command::new(self.compiler)
            .arg("--version")
            .output()
            .with_context(|| format!("{} is not installed", self.compiler))?;
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let native = |kind: &str| {
            let line = processor.lines().find(|line| line.starts_with(kind));
            line.unwrap_or_default().to_owned()
        };
        let mut hasher = DefaultHasher::new();
        (self.name, self.text, self.flags, self.libraries, more).hash(&mut hasher);
        (version.stdout, native("model name"), native("flags")).hash(&mut hasher);
        Ok(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test's own, removed with everything in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Result<Self> {
            let folder = env::temp_dir().join(format!("flash-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder)?;
            Ok(Self(folder))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    const RIGHT: Source = Source {
        name: "right.c",
        text: "int one(void) { return 1; }",
        compiler: "cc", // which Rust links with
        flags: &["-fPIC", "-shared"],
        libraries: &[],
    };

    #[test]
    fn a_library_is_compiled_once_and_again_when_its_source_changes() -> Result<()> {
        let cache = Folder::new("peers-once")?;
        let first = RIGHT.compile(&cache.0)?;
        let made = first.metadata()?.modified()?;
        assert_eq!(RIGHT.compile(&cache.0)?, first);
        assert_eq!(first.metadata()?.modified()?, made);
        let changed = Source { text: "int two(void) { return 2; }", ..RIGHT };
        assert_ne!(changed.compile(&cache.0)?, first);
        Ok(())
    }

    #[test]
    fn a_source_that_does_not_compile_says_which_and_why() -> Result<()> {
        let cache = Folder::new("peers-wrong")?;
        let wrong = Source { name: "wrong.c", text: "#include <no_such_header.h>\n", ..RIGHT };
        let error = wrong.compile(&cache.0).unwrap_err().to_string();
        assert!(error.starts_with("cc does not compile wrong.c: "), "{error}");
        assert!(error.contains("no_such_header.h"), "{error}");
        Ok(())
    }

    #[test]
    fn a_compiler_that_is_not_there_is_named() -> Result<()> {
        let cache = Folder::new("peers-none")?;
        let none = Source { compiler: "no-such-compiler", ..RIGHT };
        let error = none.compile(&cache.0).unwrap_err();
        assert_eq!(error.to_string(), "no-such-compiler is not installed");
        Ok(())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn peers_are_not_loaded_beside_other_threads() {
        let load = || Peers::load().map(|_| ()).unwrap_err().to_string();
        let error = std::thread::spawn(load).join().unwrap();
        assert!(error.contains("before any thread is started"), "{error}");
    }
}
