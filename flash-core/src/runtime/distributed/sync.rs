//! The names that [`lane`](super::lane) imports from `std`, and how its helpers are called. The models have
//! another file of this name, over loom.

use super::lane::{Blocked, Changed, Lane, Runs};
use crate::workers::{self, Source, blocking};
pub(super) use flash_backend::fork::before_sleep;
use std::collections::VecDeque;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// Counts the tasks that are done.
pub(super) fn changed() -> &'static Changed {
    static CHANGED: Changed = Changed {
        epoch: AtomicU32::new(0),
        sleepers: AtomicU32::new(0),
        lock: Mutex::new(()),
        wake: Condvar::new(),
    };
    &CHANGED
}

/// Lanes that helpers have left.
pub(super) fn blocked() -> &'static Blocked {
    static BLOCKED: Blocked = Blocked { count: AtomicU32::new(0), lanes: Mutex::new(Vec::new()) };
    &BLOCKED
}

/// Lanes whose tasks compute, for which helpers were called.
static CALLED: Mutex<VecDeque<&'static Lane>> = Mutex::new(VecDeque::new());

/// What the workers ask.
struct Lanes;

static REGISTERED: LazyLock<workers::Registration> = LazyLock::new(|| workers::register(Arc::new(Lanes)));

impl Source for Lanes {
    fn run_one(&self) -> bool {
        let lane = CALLED.lock().unwrap_or_else(|e| e.into_inner()).pop_front();
        lane.map(Lane::help).is_some()
    }
}

/// Calls a helper: a worker, if the lane's tasks compute, or a thread that may wait for a device. False:
/// there is none.
pub(super) fn call(lane: &'static Lane) -> bool {
    if !lane.computes() {
        blocking::serve_device(Box::new(move || lane.help()));
        return true;
    }
    LazyLock::force(&REGISTERED);
    let waiting = {
        let mut called = CALLED.lock().unwrap_or_else(|e| e.into_inner());
        called.push_back(lane);
        called.len()
    };
    workers::announce(waiting)
}

/// Whether a helper is of use to callers that drive the lane. The only worker would take their processor, and
/// where there is one, so would a thread that copies, or looks whether a device is done.
pub(super) fn helps(lane: &'static Lane) -> bool {
    static CPUS: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    match lane.runs {
        Runs::Here => workers::count() > 1,
        Runs::Waited => true,
        Runs::Alone | Runs::InQueue => *CPUS > 1,
    }
}

/// A caller waits a moment; false: it is time to sleep.
pub(super) fn spin(round: u32) -> bool {
    if round < 64 {
        std::hint::spin_loop();
    } else if round < 128 {
        std::thread::yield_now();
    } else {
        return false;
    }
    true
}
