//! Fibers: stacks on which tasks run, so that a task can be left in its middle and gone on with later.
//!
//! A fiber runs one task after another, without a switch between them. Only a task that waits switches: the
//! fiber is kept by what it waits for, and the thread goes on with another fiber. A fiber is tied to the
//! thread that made it, because code on its stack may have taken the address of a thread-local, or hold a
//! guard or an `Rc`. Its stack is as large as that of a worker, so what runs there runs here; memory is
//! taken when it is first used.
//!
//! A fiber also runs a function of its own, a coroutine, instead of tasks: see `coroutine.rs`.
//!
//! *Invariant.* A fiber is resumed by its own thread only, and while it is suspended one thing only refers
//! to it: the thread's list of idle ones, its list of those that wait for a turn, a `Waiter`, mail, or a
//! `Coroutine`.

use crate::jobs::Root;
use crate::thread::Own;
use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::ptr::{self, NonNull};

/// Why a fiber went back to its thread's loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Back {
    /// Its task waits; what it waits for sends the fiber as mail.
    Waits,
    /// Its task goes on at the next turn.
    GivesWay,
    /// It has no task, and the thread has something other to do than the next one.
    Turns,
    /// It has no task, and found none.
    NothingToDo,
    /// Its coroutine is left in its middle.
    Suspends,
    /// Its coroutine has returned.
    Returned,
}

/// What a fiber runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Tasks,
    Coroutine,
    /// A coroutine that was dropped, and only unwinds.
    Cancelled,
}

type Inner = Coroutine<NonNull<Fiber>, Back, (), DefaultStack>;

pub(crate) struct Fiber {
    coroutine: UnsafeCell<Inner>,
    yielder: Cell<*const Yielder<NonNull<Fiber>, Back>>,
    /// All of its stack; the first page is not to be touched.
    stack: Range<usize>,
    /// Below this address, too little is left of its stack for another task.
    deep: usize,
    /// The root of its task, while that waits.
    root: Cell<Root>,
    pub(crate) role: Cell<Role>,
    /// The coroutine that it runs when it is resumed, instead of tasks.
    pub(crate) function: Cell<Option<Box<dyn FnOnce()>>>,
    ends: Cell<bool>,
}

/// A task begins on the stack of the one that waits for it if more than this part is left of that.
const RESERVE: usize = 4;

impl Fiber {
    /// `None`: there is no memory for its stack.
    #[cold]
    pub(crate) fn new() -> Option<NonNull<Fiber>> {
        let stack = DefaultStack::new(flash_core::workers::stack_size()).ok()?;
        let all = stack.limit().get()..stack.base().get();
        let deep = all.start + all.len() / RESERVE;
        let coroutine = UnsafeCell::new(Coroutine::with_stack(stack, main));
        let fiber = Box::new(Fiber {
            coroutine,
            yielder: Cell::new(ptr::null()),
            stack: all,
            deep,
            root: Cell::new(0),
            role: Cell::new(Role::Tasks),
            function: Cell::new(None),
            ends: Cell::new(false),
        });
        Some(NonNull::from(Box::leak(fiber)))
    }

    /// Runs it until it comes back.
    ///
    /// # Safety
    /// It is alive, this thread's, and suspended; nothing else resumes it.
    #[inline]
    pub(crate) unsafe fn resume(fiber: NonNull<Fiber>) -> Back {
        // SAFETY: the caller vouches. What runs inside uses the yielder only, never the coroutine.
        let coroutine = unsafe { &mut *fiber.as_ref().coroutine.get() };
        match coroutine.resume(fiber) {
            CoroutineResult::Yield(back) => back,
            CoroutineResult::Return(()) => unreachable!("a fiber returns when `end` lets it"),
        }
    }

    /// Frees it.
    ///
    /// # Safety
    /// As for [`resume`](Self::resume); and it is in [`main`], without a task.
    pub(crate) unsafe fn end(fiber: NonNull<Fiber>) {
        // SAFETY: the caller vouches.
        unsafe {
            fiber.as_ref().ends.set(true);
            let ended = (*fiber.as_ref().coroutine.get()).resume(fiber);
            debug_assert!(matches!(ended, CoroutineResult::Return(())));
            drop(Box::from_raw(fiber.as_ptr()));
        }
    }

    /// Leaves the fiber that runs, until it is resumed.
    ///
    /// # Safety
    /// It is the one that runs on this thread.
    #[inline]
    pub(crate) unsafe fn leave(&self, back: Back) {
        // SAFETY: `main` stored it, and it lives as long as `main` runs, which it does below on this stack.
        unsafe { (*self.yielder.get()).suspend(back) };
    }

    /// The root of the task that it was left in.
    pub(crate) fn root(&self) -> Root {
        self.root.get()
    }

    /// Notes the root of the task that it is about to be left in.
    pub(crate) fn belongs_to(&self, root: Root) {
        self.root.set(root);
    }

    /// The page below its stack.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.stack.start..self.stack.start + page()
    }

    /// Bytes of its stack.
    pub(crate) fn stack_size(&self) -> usize {
        self.stack.len() - page()
    }

    /// True if little of its stack is left.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        stack_pointer() < self.deep
    }
}

/// Bytes of a page.
pub(crate) fn page() -> usize {
    // SAFETY: it asks for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// About where the stack is.
#[inline]
pub(crate) fn stack_pointer() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

/// The address above which the calling thread's own stack has room for a task.
pub(crate) fn room_of_thread() -> usize {
    let stack = flash_core::workers::own_stack();
    stack.start + stack.len() / RESERVE
}

/// What a fiber runs: tasks, or a coroutine.
fn main(yielder: &Yielder<NonNull<Fiber>, Back>, first: NonNull<Fiber>) {
    // SAFETY: `resume` and `end` pass the fiber itself, which lives until this function has returned.
    let fiber = unsafe { first.as_ref() };
    fiber.yielder.set(yielder);
    // A fiber is resumed by its own thread only.
    let own = Own::here();
    let mut jobs = 0;
    while !fiber.ends.get() {
        if let Some(function) = fiber.function.take() {
            function();
            yielder.suspend(Back::Returned);
            continue;
        }
        let back = loop {
            match own.next() {
                Some(job) => own.execute(job),
                None => break Back::NothingToDo,
            }
            if own.should_turn(&mut jobs) {
                break Back::Turns;
            }
        };
        yielder.suspend(back);
    }
}
