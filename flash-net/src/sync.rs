//! The names of std that the mailbox and the doorbell use, and the futex. Their loom models put others in
//! their place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use std::ptr::null;
use std::time::Duration;

/// As loom's: its model sees each access.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// Sleeps while `word` has the value `seen`, at most this long. May return early.
///
/// The futex is not private: the word may lie in memory of several processes.
pub(crate) fn futex_wait(word: &AtomicU32, seen: u32, at_most: Option<Duration>) {
    let limit = at_most.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: the word and the limit live through the call. Each way that it can end (woken, another value,
    // late, interrupted) is an early return.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
}

/// Wakes all threads, of all processes, that sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call, which changes no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
