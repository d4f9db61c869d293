//! Worker threads, from two sides. The extension `workers` of a backend: its threads run work of the host
//! when they have none of their own. The extension `workers` of the host: the process's worker threads run
//! work of a plugin.

use super::Error;
use core::ffi::c_void;

/// Name of both extensions; their version is 1.
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

/// Work of a plugin for the worker threads of the process. Opaque.
#[repr(C)]
pub struct WorkSource {
    _opaque: [u8; 0],
}

/// The worker threads of the process, for plugins: the extension `workers`, version 1, of
/// [`HostApi::get_extension`](super::HostApi::get_extension). All functions may be called from any thread.
/// Since minor version 13.
#[repr(C)]
pub struct WorkSourcesApi {
    /// Size of this struct in the host.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Lets workers ask `run_one(context)` from now on, on any thread and on several at once, until `remove`.
    /// It runs one piece of work on the calling thread, and answers 1; or 0 if there is none. A piece does
    /// not wait for other work of workers, as all of them may be waiting. What waits for something other than
    /// a processor belongs on a thread of the plugin's own. A worker asks when it has nothing else to do.
    pub add: Option<
        unsafe extern "C" fn(
            run_one: unsafe extern "C" fn(context: *mut c_void) -> u32,
            context: *mut c_void,
            source: *mut *mut WorkSource,
        ) -> *mut Error,
    >,
    /// No worker asks it any more when this returns: it waits for pieces that run. Not from within one of
    /// them, which is an error. The source is not used afterwards, unless there was an error.
    pub remove: Option<unsafe extern "C" fn(source: *mut WorkSource) -> *mut Error>,
    /// Announces work for up to `count` workers: those that are awake and idle look at once, and others are
    /// woken for the rest. Call it after the work is there.
    pub wake: Option<unsafe extern "C" fn(count: u32)>,
}
