//! The guards of this thread.
//!
//! A guard is not `Send`, so the thread that made it releases it, and only that thread enters it here and
//! takes it out. A thread that holds a guard never waits for one, nor for a pipeline that does: what holds
//! that guard may wait for this thread. And what its guards read stays as it is, so that it reads that again
//! without waiting for anything.
//!
//! A guard that is forgotten stays here, as it stays counted in its memory's word. Memories are known by
//! their numbers, which no later memory gets.

use std::cell::RefCell;
use std::ops::Range;

struct OwnGuard {
    memory: u64,
    range: Range<u64>,
    written: bool,
}

thread_local! {
    static GUARDS: RefCell<Vec<OwnGuard>> = const { RefCell::new(Vec::new()) };
}

/// The result for the list of this thread; `none` at the thread's end.
fn with<R>(none: R, look: impl FnOnce(&mut Vec<OwnGuard>) -> R) -> R {
    GUARDS.try_with(|guards| look(&mut guards.borrow_mut())).unwrap_or(none)
}

/// True if this thread holds a guard.
pub(crate) fn any() -> bool {
    with(false, |guards| !guards.is_empty())
}

/// True if this thread holds a guard of some of a memory.
pub(crate) fn has(memory: u64) -> bool {
    with(false, |guards| guards.iter().any(|guard| guard.memory == memory))
}

/// True if a guard of this thread reads all of a range of a memory.
pub(super) fn reads(memory: u64, range: &Range<u64>) -> bool {
    let covers = |guard: &OwnGuard| {
        guard.memory == memory
            && !guard.written
            && guard.range.start <= range.start
            && range.end <= guard.range.end
    };
    with(false, |guards| guards.iter().any(covers))
}

/// This thread has made a guard.
pub(super) fn enter(memory: u64, range: Range<u64>, written: bool) {
    with((), |guards| guards.push(OwnGuard { memory, range, written }));
}

/// This thread releases a guard.
pub(super) fn leave(memory: u64, range: &Range<u64>, written: bool) {
    let is_it =
        |guard: &OwnGuard| guard.memory == memory && guard.range == *range && guard.written == written;
    with((), |guards| {
        if let Some(at) = guards.iter().rposition(is_it) {
            guards.swap_remove(at);
        }
    });
}
