//! The worker threads of the process, and the sources of their work. See README.md beside this file.
//!
//! There is one set of them. A backend supplies them (the CPU backend: rayon's), or the core starts one plain
//! thread. A worker asks the [`Source`]s when it has nothing else on its stack. Work that may wait for
//! something other than a processor runs on extra threads (`blocking.rs`).

pub(crate) mod blocking;
mod of_plugins;
mod plain;

use crate::devices::catalog::Catalog;
pub use blocking::is_extra;
use flash_backend::caught;
use flash_backend::fork;
pub use flash_backend::threads::{STACK_SIZE, own_stack, stack_size};
use flash_types::abi::workers::{WorkerHost, Workers};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Work for worker threads. Register it with [`register`], and call [`wake`] when there is some.
///
/// # Examples
/// ```
/// use flash_core::workers::{self, Source};
/// use std::sync::{Arc, Mutex, mpsc};
/// struct Numbers(Mutex<Vec<u32>>, mpsc::Sender<u32>);
/// impl Source for Numbers {
///     fn run_one(&self) -> bool {
///         let number = self.0.lock().unwrap().pop();
///         number.map(|number| self.1.send(number * number).unwrap()).is_some()
///     }
/// }
/// let (send, squares) = mpsc::channel();
/// let _registration = workers::register(Arc::new(Numbers(Mutex::new(vec![7]), send)));
/// workers::wake(1);
/// assert_eq!(squares.recv().unwrap(), 49);
/// ```
pub trait Source: Send + Sync {
    /// Runs one piece of work on this thread. False if there is none. It may launch, wait for handles and
    /// take guards, as on any other thread: it runs the pipelines that it waits for. It must not wait for
    /// other work of a source, as all workers may be waiting. A panic ends the piece, and is the source's to
    /// report.
    ///
    /// Where all workers are inside something else, it is called on an extra thread ([`is_extra`]): nothing
    /// may be left there for later.
    fn run_one(&self) -> bool;
}

type Sources = Arc<[Arc<dyn Source>]>;

static SOURCES: RwLock<Option<Sources>> = RwLock::new(None);

thread_local! {
    static RUNS_PIECES: Cell<bool> = const { Cell::new(false) };
}

/// True while the calling thread runs pieces of work: while it sleeps, there may be no other thread for those
/// that it waits for.
pub(crate) fn runs_pieces() -> bool {
    RUNS_PIECES.get()
}

/// Changes whenever there is new work.
static NEWS: News = News(AtomicU32::new(0));

/// A cache line of its own, and the next, which CPUs fetch along: what lies beside it is read at each launch.
#[repr(align(128))]
struct News(AtomicU32);

static HOST: WorkerHost = WorkerHost {
    struct_size: size_of::<WorkerHost>() as u32,
    reserved: 0,
    news: NEWS.0.as_ptr(),
    serve: Some(serve_for_backend),
    pass_on: Some(pass_on),
};

/// A source that workers ask until this is dropped.
#[must_use = "a source is asked until its registration is dropped"]
pub struct Registration(Arc<dyn Source>);

/// Lets workers ask a source. Sources registered before are asked first.
pub fn register(source: Arc<dyn Source>) -> Registration {
    change(|sources| sources.push(source.clone()));
    Registration(source)
}

impl Drop for Registration {
    /// Does not wait for a piece of work that is running.
    fn drop(&mut self) {
        change(|sources| sources.retain(|other| !Arc::ptr_eq(other, &self.0)));
    }
}

fn change(change: impl FnOnce(&mut Vec<Arc<dyn Source>>)) {
    let mut sources = SOURCES.write().unwrap_or_else(PoisonError::into_inner);
    let mut changed = sources.as_ref().map_or_else(Vec::new, |sources| sources.to_vec());
    change(&mut changed);
    *sources = Some(changed.into());
}

/// Announces work for up to `count` workers, and lets as many look for it. Workers that are awake and idle do
/// so at once. Others are woken for the rest, which takes some microseconds here and some tens until they
/// run. Busy workers look when they are done. In a child of `fork` there is none, and nothing happens.
pub fn wake(count: usize) {
    announce(count);
}

/// Lets every worker look for work, now or when it is done with what it runs: for work that one of them only
/// may do.
pub fn wake_all() {
    announce(u32::MAX as usize);
}

/// As [`wake`]; false if there is no thread at all.
pub(crate) fn announce(count: usize) -> bool {
    if fork::is_child() {
        return false;
    }
    NEWS.0.fetch_add(1, Ordering::SeqCst);
    match supplied() {
        // SAFETY: the backend's function, and this host, which lives for ever.
        Some(workers) => workers.wake.is_some_and(|wake| unsafe { wake(&HOST, count as u32) } != 0),
        None => plain::wake(),
    }
}

/// True while the calling thread runs a kernel, a function of the host in a pipeline, or a partition map:
/// where a launch is an error, and nothing may be left in its middle.
#[inline]
pub fn in_kernel() -> bool {
    crate::nested::in_kernel()
}

/// True while the calling thread runs a function of the host in a pipeline.
pub fn in_host_function() -> bool {
    crate::nested::in_host_function()
}

/// The number of workers, started or not.
pub fn count() -> usize {
    supplied().map_or(1, |workers| workers.count as usize)
}

/// The threads of a backend that the default context sees.
fn supplied() -> Option<&'static Workers> {
    static SUPPLIED: OnceLock<Option<&'static Workers>> = OnceLock::new();
    *SUPPLIED.get_or_init(|| Catalog::of_process().registry().workers())
}

unsafe extern "C" fn serve_for_backend() -> u32 {
    u32::from(serve())
}

unsafe extern "C" fn pass_on() {
    blocking::run(
        0,
        Box::new(|| {
            serve();
        }),
    );
}

/// Runs all work there is. True if there was any.
fn serve() -> bool {
    let sources = SOURCES.read().unwrap_or_else(PoisonError::into_inner).clone();
    let mut any = false;
    if let Some(sources) = sources {
        // Starts at the first source again after each piece: sources registered first come first.
        let one = |source: &Arc<dyn Source>| {
            // A panic ends the piece of work but not the thread, which is the backend's.
            caught(|| source.run_one()).unwrap_or(true)
        };
        let before = RUNS_PIECES.replace(true);
        while sources.iter().any(one) {
            any = true;
        }
        RUNS_PIECES.set(before);
    }
    any
}
