//! The word of a task that says whether it has ended, and what its handle does.
//!
//! | value | meaning |
//! |---|---|
//! | 0 | open: it has not ended, the handle is there and does not wait |
//! | an address | open, and this waiter waits |
//! | `GONE` | open, and the handle was dropped |
//! | `DONE` | it has ended |
//!
//! The side that comes second frees the task: the handle that finds `DONE`, or the end that finds `GONE`.
//! Model-checked (`tests/loom`).

use super::sync::{AtomicUsize, Ordering};

const GONE: usize = 1;
const DONE: usize = 2;

pub(crate) struct Done(AtomicUsize);

/// What the end of a task finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handle {
    /// A handle that will look.
    Looks,
    /// A handle that waits, at this address.
    Waits(usize),
    /// No handle: the end frees the task.
    Gone,
}

impl Done {
    pub(crate) fn new() -> Done {
        Done(AtomicUsize::new(0))
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// The task has ended. Unless the handle was gone, the task must not be touched any more.
    #[inline]
    pub(crate) fn end(&self) -> Handle {
        match self.0.swap(DONE, Ordering::AcqRel) {
            0 => Handle::Looks,
            GONE => Handle::Gone,
            address => Handle::Waits(address),
        }
    }

    /// The handle waits, as the waiter at `address`. False: the task has ended.
    #[inline]
    pub(crate) fn wait(&self, address: usize) -> bool {
        self.0.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The handle is dropped. False: the task has ended, so the handle frees it.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.0.compare_exchange(0, GONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
