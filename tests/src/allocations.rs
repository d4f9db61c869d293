//! Counts what a test's own thread allocates.
//!
//! A test binary makes [`Counting`] its `#[global_allocator]`; each thread has a counter of its own, so that
//! what other threads allocate meanwhile is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of each thread.
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; a counter without a destructor is all
// that is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller vouches.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller vouches.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller vouches.
        unsafe { System.realloc(at, layout, size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Allocations of this thread meanwhile: the fewest of several tries. On a machine with other users, a worker
/// of the team may have parked, and is woken by a message.
pub fn fewest(mut body: impl FnMut()) -> u64 {
    let mut once = || {
        let before = COUNT.get();
        body();
        COUNT.get() - before
    };
    (0..10).map(|_| once()).min().unwrap_or(0)
}
