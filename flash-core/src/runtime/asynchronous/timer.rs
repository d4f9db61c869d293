//! A timer: calls a function at a time, unless it is cancelled. It has one thread, started at the first use.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, Once};
use std::time::Instant;

type Alarms = BTreeMap<(Instant, u64), Box<dyn FnOnce() + Send>>;

static ALARMS: Mutex<(u64, Alarms)> = Mutex::new((0, BTreeMap::new()));
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, (u64, Alarms)> {
    ALARMS.lock().unwrap_or_else(|e| e.into_inner())
}

/// A future call; cancelled when dropped.
pub(super) struct Alarm((Instant, u64));

impl Alarm {
    /// Calls `action` at `time`, on the timer's thread: it must not block. If no thread can be started it is
    /// not called.
    pub fn at(time: Instant, action: impl FnOnce() + Send + 'static) -> Alarm {
        static THREAD: Once = Once::new();
        THREAD.call_once(|| {
            let _ = std::thread::Builder::new().name("flash-timer".into()).spawn(run);
        });
        let mut alarms = lock();
        alarms.0 += 1;
        let key = (time, alarms.0);
        alarms.1.insert(key, Box::new(action));
        CHANGED.notify_one();
        Alarm(key)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let action = lock().1.remove(&self.0);
        drop(action);
    }
}

fn run() {
    let mut alarms = lock();
    loop {
        let now = Instant::now();
        alarms = match alarms.1.first_entry() {
            None => CHANGED.wait(alarms).unwrap_or_else(|e| e.into_inner()),
            Some(first) if first.key().0 <= now => {
                let action = first.remove();
                drop(alarms);
                action();
                lock()
            }
            Some(first) => {
                let left = first.key().0 - now;
                CHANGED.wait_timeout(alarms, left).unwrap_or_else(|e| e.into_inner()).0
            }
        };
    }
}
