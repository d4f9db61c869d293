//! Threads of a backend that run work of the host: the trait that a backend implements, and the extension
//! `workers` made from it.

use crate::glue::{self, BackendStatic};
use crate::panics::caught;
use flash_types::abi::agent::AGENT_EXTENSION;
use flash_types::abi::{self, Str, workers::WORKERS_EXTENSION};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that run work of the host when they have none of their own:
/// [`Backend::workers`](crate::Backend::workers).
pub trait WorkerThreads: Sync {
    /// The number of threads, started or not.
    fn count(&self) -> usize;

    /// Announces work for up to `count` threads. Threads that are awake with nothing to do count; others are
    /// woken for the rest. If `count` is greater than their number, each of them looks, whatever the others
    /// do. Neither blocks nor runs any of the work. False: no thread can be had.
    fn wake(&self, host: HostWork, count: usize) -> bool;
}

/// The work of the host, as a thread of the backend sees it.
#[derive(Clone, Copy)]
pub struct HostWork(&'static abi::workers::WorkerHost);

impl HostWork {
    /// # Safety
    /// `host` is a host's, which lives for ever.
    unsafe fn new(host: *const abi::workers::WorkerHost) -> Option<HostWork> {
        // SAFETY: the caller vouches.
        let host = unsafe { host.as_ref() }?;
        (!host.news.is_null() && host.serve.is_some() && host.pass_on.is_some()).then_some(HostWork(host))
    }

    /// A number that changes whenever there is new work. A thread that has made known that it is about to
    /// sleep looks at it once more, with a `SeqCst` fence between the two.
    #[inline]
    pub fn news(&self) -> u32 {
        // SAFETY: an aligned number that lives for ever and is only touched atomically.
        unsafe { AtomicU32::from_ptr(self.0.news.cast_mut()) }.load(Ordering::Acquire)
    }

    /// Runs all work there is. True if there was any. For a thread of the backend that runs nothing else:
    /// there must be no other work below it on the stack.
    pub fn serve(&self) -> bool {
        // SAFETY: `new` found the function, which catches its panics.
        self.0.serve.is_some_and(|serve| unsafe { serve() } != 0)
    }

    /// Lets another thread run the work there is: for a thread that was woken and cannot take it.
    pub fn pass_on(&self) {
        if let Some(pass_on) = self.0.pass_on {
            // SAFETY: as above.
            unsafe { pass_on() };
        }
    }
}

/// The extensions of a backend in Rust.
pub(crate) unsafe extern "C" fn get_extension<B: BackendStatic>(name: Str, version: u32) -> *const c_void {
    // SAFETY: the caller's text lives for the call.
    let name = unsafe { name.as_str() };
    if name == AGENT_EXTENSION && version == 1 {
        return glue::agent::<B>();
    }
    if name != WORKERS_EXTENSION || version != 1 {
        return std::ptr::null();
    }
    let made = caught(|| {
        let threads = B::workers()?;
        Some(B::instance().workers().get_or_init(|| abi::workers::Workers {
            struct_size: size_of::<abi::workers::Workers>() as u32,
            count: threads.count() as u32,
            wake: Some(wake::<B>),
        }))
    });
    made.ok().flatten().map_or(std::ptr::null(), |workers| std::ptr::from_ref(workers).cast())
}

unsafe extern "C" fn wake<B: BackendStatic>(host: *const abi::workers::WorkerHost, count: u32) -> u32 {
    // SAFETY: the host's struct, which lives for ever.
    let wake = || Some(B::workers()?.wake(unsafe { HostWork::new(host) }?, count as usize));
    u32::from(caught(wake).ok().flatten() == Some(true))
}

/// The place where a backend keeps its extension.
pub(crate) type Slot = OnceLock<abi::workers::Workers>;
