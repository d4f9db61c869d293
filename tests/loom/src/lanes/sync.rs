//! The names that the lanes import from `std`, from loom. No thread spins before it sleeps, and each call of
//! a helper starts a thread.

use super::lane::{Blocked, Changed, Lane};
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

use loom::thread::JoinHandle;

loom::lazy_static! {
    static ref CHANGED: Changed = Changed {
        epoch: AtomicU32::new(0),
        sleepers: AtomicU32::new(0),
        lock: Mutex::new(()),
        wake: Condvar::new(),
    };
    static ref BLOCKED: Blocked = Blocked { count: AtomicU32::new(0), lanes: Mutex::new(Vec::new()) };
    static ref HELPERS: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
}

pub(super) fn changed() -> &'static Changed {
    &CHANGED
}

pub(super) fn blocked() -> &'static Blocked {
    &BLOCKED
}

pub(super) fn call(lane: &'static Lane) -> bool {
    spawn(move || lane.help());
    true
}

pub(super) fn helps(_: &'static Lane) -> bool {
    true
}

/// Starts a thread for which [`join`] waits.
pub(super) fn spawn(body: impl FnOnce() + 'static) {
    let thread = loom::thread::spawn(body);
    HELPERS.lock().unwrap().push(thread);
}

/// Waits for the helpers.
pub(super) fn join() {
    loop {
        let helpers = std::mem::take(&mut *HELPERS.lock().unwrap());
        if helpers.is_empty() {
            return;
        }
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
    }
}

/// No process forks here.
pub(super) fn before_sleep() {}

pub(super) fn spin(_: u32) -> bool {
    false
}
