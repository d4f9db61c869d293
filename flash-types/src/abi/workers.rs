//! The extension `workers` of a backend: its threads run work of the host when they have none of their own.

/// Name of the extension; its version is 1.
pub const WORKERS_EXTENSION: &str = "workers";

/// The extension `workers`, version 1, of a backend: threads that run work of the host. Since minor version
/// 7.
#[repr(C)]
pub struct Workers {
    /// Size of this struct in the backend.
    pub struct_size: u32,
    /// How many threads there are, started or not.
    pub count: u32,
    /// Announces work for up to `count` threads. Threads that are awake with nothing to do count, and others
    /// are woken for the rest. If `count` is greater than the number of threads, each of them looks, whatever
    /// the others do. It is called from any thread, after [`WorkerHost::news`] has changed, with the
    /// same `host` every time, and neither blocks nor calls back. 1: enough threads look at the work, or all
    /// do when they are done with what they run. 0: no thread can be had.
    pub wake: Option<unsafe extern "C" fn(host: *const WorkerHost, count: u32) -> u32>,
}

/// The host as a worker thread sees it. Lives for ever. Since minor version 7.
#[repr(C)]
pub struct WorkerHost {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// A number that is read atomically and changes whenever there is new work. A thread that has made known
    /// that it is about to sleep looks at it once more, with a full fence between the two.
    pub news: *const u32,
    /// Runs all work there is on the calling thread. 1 if there was any. Only a thread of the backend that
    /// runs nothing else calls it.
    pub serve: Option<unsafe extern "C" fn() -> u32>,
    /// Lets another thread run the work there is. Called by a thread that was woken and cannot take the work,
    /// since it waits for something else.
    pub pass_on: Option<unsafe extern "C" fn()>,
}

// SAFETY: the struct is never written; what it points to lives for ever and is atomic.
unsafe impl Sync for WorkerHost {}
// SAFETY: as above.
unsafe impl Send for WorkerHost {}
