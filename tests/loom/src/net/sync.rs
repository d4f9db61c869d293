//! What `mailbox.rs`, `doorbell.rs` and `waiters.rs` import, from loom; and the futex, which sleeps without a
//! limit: a wake-up that is lost is a deadlock, which loom reports.

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

use loom::sync::{Condvar, Mutex};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

loom::lazy_static! {
    /// The system's lock of a futex, under which it compares the value and queues the thread.
    static ref QUEUE: Mutex<()> = Mutex::new(());
    static ref WOKEN: Condvar = Condvar::new();
}

pub(crate) fn futex_wait(word: &AtomicU32, seen: u32, _at_most: Option<Duration>) {
    let queue = QUEUE.lock().unwrap();
    if word.load(Relaxed) == seen {
        drop(WOKEN.wait(queue).unwrap());
    }
}

pub(crate) fn futex_wake(_word: &AtomicU32) {
    drop(QUEUE.lock().unwrap());
    WOKEN.notify_all();
}
