//! A timer: calls a function at a time, unless it is cancelled. It has one thread, started at the first use.
//!
//! Most alarms are cancelled long before their time, as those of launches with a `Timeout`. So one that is
//! cancelled leaves the thread asleep, and a new one wakes it only if it comes before the thread looks again.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, Once};
use std::time::Instant;

type Alarms = BTreeMap<(Instant, u64), Box<dyn FnOnce() + Send>>;

struct Timer {
    /// Alarms ever set.
    count: u64,
    alarms: Alarms,
    /// When the sleeping thread looks again; `None`: it is awake, or sleeps until it is woken.
    looks_at: Option<Instant>,
}

static TIMER: Mutex<Timer> = Mutex::new(Timer { count: 0, alarms: BTreeMap::new(), looks_at: None });
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Timer> {
    TIMER.lock().unwrap_or_else(|e| e.into_inner())
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
        let mut timer = lock();
        timer.count += 1;
        let key = (time, timer.count);
        timer.alarms.insert(key, Box::new(action));
        if timer.looks_at.is_none_or(|at| time < at) {
            CHANGED.notify_one();
        }
        Alarm(key)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let action = lock().alarms.remove(&self.0);
        drop(action);
    }
}

fn run() {
    let mut timer = lock();
    loop {
        let now = Instant::now();
        timer = match timer.alarms.first_entry() {
            None => CHANGED.wait(timer).unwrap_or_else(|e| e.into_inner()),
            Some(first) if first.key().0 <= now => {
                let action = first.remove();
                drop(timer);
                action();
                lock()
            }
            Some(first) => {
                let at = first.key().0;
                timer.looks_at = Some(at);
                let woken = CHANGED.wait_timeout(timer, at - now);
                let mut timer = woken.unwrap_or_else(|e| e.into_inner()).0;
                timer.looks_at = None;
                timer
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn alarms_come_in_order_whatever_was_set_and_cancelled_before() {
        // Where it takes so long to set them that the first has come before, they are set farther ahead.
        for step in [30, 300, 3_000, 30_000].map(Duration::from_millis) {
            let (told, heard) = channel();
            let now = Instant::now();
            let at = |time: Instant, name: u64| {
                let told = told.clone();
                Alarm::at(time, move || {
                    // The last round may be over.
                    let _ = told.send(name);
                })
            };
            // The thread sleeps until the first of them, which is cancelled; then an earlier and a later one.
            let far = at(now + Duration::from_secs(3600), 0);
            std::thread::sleep(Duration::from_millis(5));
            drop(far);
            let kept = [(2, 2), (1, 1), (3, 3)].map(|(steps, name)| at(now + step * steps, name));
            drop(at(now + step * 2, 0));
            if Instant::now() < now + step {
                for expected in 1..=3 {
                    assert_eq!(heard.recv_timeout(Duration::from_secs(300)), Ok(expected));
                }
                drop(kept);
                return;
            }
        }
        panic!("five alarms are not set within half a minute");
    }
}
