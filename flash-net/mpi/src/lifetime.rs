//! A process's start and end among the others of its job: what it waits for, and for how long.

use crate::find::Launched;
use crate::transport::MpiTransport;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How long all processes have to start.
pub(crate) const START: Duration = Duration::from_secs(60);
/// How long they have to end together.
pub(crate) const END: Duration = Duration::from_secs(5);

/// Keeps this process to its part of the processors that the launcher has left to all of a host: two
/// processes that both use all of them are slower than each on its own. One that the launcher has bound stays
/// so.
pub(crate) fn divide(launched: &Launched) {
    let cpus = flash_net::cpus();
    let Some((rank, size)) = launched.local else { return };
    // SAFETY: a question to the system.
    let parent = unsafe { libc::getppid() };
    if size < 2 || cpus.is_empty() || flash_net::cpus_of(parent as u32) != cpus {
        return;
    }
    let (rank, size) = (rank as usize, size as usize);
    let part = match size > cpus.len() {
        true => vec![cpus[rank % cpus.len()]],
        false => cpus[rank * cpus.len() / size..(rank + 1) * cpus.len() / size].to_vec(),
    };
    // A system that refuses leaves it on all of them.
    let _ = flash_net::keep_to(&part);
}

/// Calls a function that initializes MPI, and undoes what that has `SIGUSR1` do. By it MPICH's launcher says
/// that a process was lost; the library then asks which, and crashes at times. Losses are noticed without it.
pub(crate) fn without_its_signal<T>(initialize: impl FnOnce() -> T) -> T {
    let now = || {
        // SAFETY: zeros are valid, and the answer has the type that is expected.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGUSR1, std::ptr::null(), &raw mut now);
            now.sa_sigaction
        }
    };
    let before = now();
    let result = initialize();
    if matches!(before, libc::SIG_DFL | libc::SIG_IGN) && now() != before {
        // SAFETY: the signal is ignored; the handler was the library's.
        unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    }
    result
}

/// Calls a function that waits for other processes; ends the process if that takes longer.
pub(crate) fn within<T>(limit: Duration, launched: &Launched, call: &str, wait: impl FnOnce() -> T) -> T {
    let text = format!(
        "FLASH: rank {} has waited for {} s for the other processes of its job to start MPI: does the program of each call {call}?\n",
        launched.rank,
        limit.as_secs()
    );
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    let seen = done.clone();
    let watched = std::thread::Builder::new().name("flash-mpi-start".into()).spawn(move || {
        let (is_done, changed) = &*seen;
        let lock = is_done.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(lock, limit, |is_done| !*is_done);
        if waited.is_ok_and(|(_, waited)| waited.timed_out()) {
            end_with(&text);
        }
    });
    let result = wait();
    *done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    done.1.notify_all();
    if let Ok(thread) = watched {
        let _ = thread.join();
    }
    result
}

/// Ends the process at once, as nothing else can.
pub(crate) fn end_with(text: &str) -> ! {
    // SAFETY: a text of that length; and the process ends.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(1)
    }
}

static ENDPOINT: OnceLock<&'static MpiTransport> = OnceLock::new();

/// Lets an endpoint say to the others that this process ends, when it does.
pub(crate) fn at_end(endpoint: &'static MpiTransport) {
    if ENDPOINT.set(endpoint).is_ok() {
        // SAFETY: a function for the process's end, which is called once.
        unsafe { libc::atexit(leave) };
    }
}

/// True if an endpoint is here.
pub(crate) fn is_here() -> bool {
    ENDPOINT.get().is_some()
}

extern "C" fn leave() {
    if let Some(endpoint) = ENDPOINT.get() {
        endpoint.leave();
    }
}
