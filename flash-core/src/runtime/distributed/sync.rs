//! The names that [`lane`](super::lane) imports from `std`, and the life of its threads. The models have
//! another file of this name, over loom.

use super::lane::Changed;
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a lane's thread stays awake with nothing to do.
const LINGER: Duration = Duration::from_micros(50);

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

/// A lane's thread, started at the first need. False: it could not be started.
#[derive(Default)]
pub(super) struct Server(OnceLock<bool>);

impl Server {
    /// Starts it, if it does not run. True: it runs.
    pub fn start(&self, name: &str, serve: impl FnOnce() + Send + 'static) -> bool {
        let start = || std::thread::Builder::new().name(name.to_owned()).spawn(serve).is_ok();
        *self.0.get_or_init(start)
    }
}

/// True while lanes' threads serve: as long as the process lives.
pub(super) fn serves() -> bool {
    true
}

/// The time that a lane's thread waits for more before it sleeps.
pub(super) struct Linger(Instant);

impl Linger {
    pub fn begin() -> Linger {
        Linger(Instant::now())
    }

    /// Waits a moment; false: it is time to sleep.
    pub fn goes_on(&self) -> bool {
        let goes_on = self.0.elapsed() < LINGER;
        if goes_on {
            std::thread::yield_now();
        }
        goes_on
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
