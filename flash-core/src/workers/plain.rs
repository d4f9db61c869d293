//! The one worker thread of a program whose backends supply none.
//!
//! The thread sleeps on a condition variable. Under the lock, it looks at the news for the last time and
//! stores `asleep`. A waker changes the news, then takes the lock and looks at `asleep`. So one of the two
//! sees the other.

use super::{NEWS, serve};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long the thread stays awake with nothing to do.
const LINGER: Duration = Duration::from_micros(200);

static ASLEEP: Mutex<bool> = Mutex::new(false);
static WOKEN: Condvar = Condvar::new();

fn asleep() -> MutexGuard<'static, bool> {
    ASLEEP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the thread if it sleeps, and starts it if there is none. False if the system gives none.
pub(super) fn wake() -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    let start = || flash_backend::threads::thread("flash-worker").spawn(work).is_ok();
    let started = *STARTED.get_or_init(start);
    if started && std::mem::take(&mut *asleep()) {
        WOKEN.notify_one();
    }
    started
}

fn work() {
    loop {
        let mut since = Instant::now();
        let mut seen = NEWS.0.load(Ordering::SeqCst).wrapping_sub(1);
        while since.elapsed() < LINGER {
            let news = NEWS.0.load(Ordering::SeqCst);
            if news != seen {
                seen = news;
                if serve() {
                    since = Instant::now();
                }
            }
            std::thread::yield_now();
        }
        let mut sleeps = asleep();
        *sleeps = NEWS.0.load(Ordering::SeqCst) == seen;
        while *sleeps {
            sleeps = WOKEN.wait(sleeps).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
