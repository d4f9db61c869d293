//! The tree of tasks: what has not ended below a scope or a task.
//!
//! A task ends when its body and all tasks that it spawned have ended; then its parent learns of it. What a
//! body spawns is counted by its own thread without an atomic instruction, and the ends of these are
//! subtracted from a number that is far above 0 until the body itself has ended.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

/// Above any number of tasks.
const OPEN: i64 = 1 << 48;

/// A scope, a task, or a run of a graph.
#[repr(C)]
pub(crate) struct Node {
    /// `OPEN` while the body runs, less the tasks below that have ended; then the number of those that have
    /// not.
    pending: AtomicI64,
    /// Tasks that the body has spawned on its own thread.
    spawned: Cell<i64>,
    /// Called once everything has ended. It returns the parent, which is told next.
    complete: unsafe fn(*const Node) -> *const Node,
}

impl Node {
    pub(crate) const fn new(complete: unsafe fn(*const Node) -> *const Node) -> Node {
        Node { pending: AtomicI64::new(OPEN), spawned: Cell::new(0), complete }
    }

    /// Counts a task that the body spawns. Only on the body's thread, while it runs.
    #[inline]
    pub(crate) fn spawns(&self) {
        self.spawned.set(self.spawned.get() + 1);
    }

    /// Takes that back, for a task that has ended without telling.
    #[inline]
    pub(crate) fn ends_here(&self) {
        self.spawned.set(self.spawned.get() - 1);
    }

    /// Counts a task that another thread spawns. The node must not complete meanwhile.
    pub(crate) fn spawns_elsewhere(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// The body has ended. True if all below has, too; else the last of them completes the node.
    #[inline]
    pub(crate) fn body_ended(&self) -> bool {
        let spawned = self.spawned.get();
        // What others spawned below a task is counted at its scope: see `Scope::spawn`.
        if spawned == 0 && self.pending.load(Ordering::Acquire) == OPEN {
            return true;
        }
        let left = OPEN - spawned;
        self.pending.fetch_sub(left, Ordering::AcqRel) == left
    }

    /// One task below `node` has ended.
    ///
    /// # Safety
    /// The node is alive, and was told of the task's beginning.
    pub(crate) unsafe fn child_ended(mut node: *const Node) {
        while !node.is_null() {
            // SAFETY: it has not completed, as it still counts the child.
            if unsafe { &*node }.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            // SAFETY: this was the last one below, and the body has ended.
            node = unsafe { Node::completed(node) };
        }
    }

    /// Completes a node below which nothing is left. Returns its parent, which is to be told.
    ///
    /// # Safety
    /// Once, after the last of all below has ended.
    #[inline]
    pub(crate) unsafe fn completed(node: *const Node) -> *const Node {
        // SAFETY: the caller vouches; the function belongs to the node.
        unsafe { ((*node).complete)(node) }
    }

    /// For nodes without a parent.
    pub(crate) const NO_PARENT: *const Node = ptr::null();
}
