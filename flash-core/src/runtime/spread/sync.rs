//! What [`lane`](super::lane) takes from `std`, and how its threads live. The models have another file of
//! this name, over loom.

use super::lane::Changed;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::park;

use std::sync::OnceLock;
use std::thread::Thread;
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

/// A lane's thread, started when it is wanted first.
#[derive(Default)]
pub(super) struct Server(OnceLock<Option<Thread>>);

impl Server {
    /// The thread; `None`: the system gives none.
    pub fn get(&self, name: &str, serve: impl FnOnce() + Send + 'static) -> Option<&Thread> {
        let start = || {
            let builder = std::thread::Builder::new().name(name.to_owned());
            builder.spawn(serve).ok().map(|handle| handle.thread().clone())
        };
        self.0.get_or_init(start).as_ref()
    }
}

/// Lanes' threads serve as long as the process lives.
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
