//! Functions that are left in their middle and gone on with, by a scheduler of yours: [`Coroutine`],
//! [`suspend`].
//!
//! A coroutine has a stack of its own, one of those that tasks run on, and is tied to the thread that made
//! it. What waits for tasks inside a coroutine keeps the thread, as in [`unsuspended`](crate::unsuspended):
//! only [`suspend`] leaves it.
//!
//! *Invariant.* A coroutine is left where no scope, join or task of this crate is below it on its stack, so
//! what the thread notes of those ([`Own`]) is as it was when the coroutine was resumed.

use crate::fiber::{Back, Fiber, Role};
use crate::thread::{Context, Own};
use crate::wait::forbidden;
use flash_trace::hooks::on_stack;
use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::rc::Rc;

/// Where a coroutine is after it was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has called [`suspend`], and can be resumed.
    Suspended,
    /// Its function has returned.
    Returned,
}

/// Why [`suspend`] does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is suspended here: {0}")]
pub struct NotSuspended(&'static str);

type Payload = Box<dyn Any + Send>;

/// A function that runs on a stack of its own when it is resumed.
///
/// Dropped in its middle, it is unwound: [`suspend`] does not return, and what its stack holds is dropped.
///
/// # Examples
/// ```
/// use flash_tasks::coroutine::{Coroutine, Step, suspend};
/// use std::{cell::Cell, rc::Rc};
/// let steps = Rc::new(Cell::new(0));
/// let inner = steps.clone();
/// let mut counts = Coroutine::new(move || {
///     for step in 1..=2 {
///         inner.set(step);
///         suspend().unwrap();
///     }
/// })?;
/// assert_eq!((counts.resume(), steps.get()), (Step::Suspended, 1));
/// assert_eq!((counts.resume(), steps.get()), (Step::Suspended, 2));
/// assert_eq!(counts.resume(), Step::Returned);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Coroutine {
    /// `None`: it has returned.
    fiber: Option<NonNull<Fiber>>,
    /// What the thread had for tasks when the fiber began.
    own: *const Own,
    panic: Rc<Cell<Option<Payload>>>,
}

/// What a coroutine that is dropped unwinds with.
struct Cancelled;

impl Coroutine {
    /// A coroutine that has not begun.
    ///
    /// # Errors
    /// If there is no memory for its stack.
    pub fn new(function: impl FnOnce() + 'static) -> io::Result<Coroutine> {
        let own = Own::here();
        let idle = own.idle_fibers.borrow_mut().pop();
        let none = || {
            let why = "no memory for the stack of a coroutine: suspend fewer at once";
            io::Error::new(io::ErrorKind::OutOfMemory, why)
        };
        let fiber = idle.or_else(Fiber::new).ok_or_else(none)?;
        let panic = Rc::new(Cell::new(None));
        let caught = panic.clone();
        let function: Box<dyn FnOnce()> =
            Box::new(move || caught.set(catch_unwind(AssertUnwindSafe(function)).err()));
        // SAFETY: it was idle: it is alive, and nothing else refers to it.
        let idle = unsafe { fiber.as_ref() };
        idle.function.set(Some(function));
        idle.role.set(Role::Coroutine);
        Ok(Coroutine { fiber: Some(fiber), own, panic })
    }

    /// Runs it until it suspends or returns. A panic of its function goes on here.
    ///
    /// # Panics
    /// If it has returned before.
    pub fn resume(&mut self) -> Step {
        let fiber = self.fiber.expect("a coroutine that has returned was resumed");
        let step = self.enter(fiber);
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
        step
    }

    fn enter(&mut self, fiber: NonNull<Fiber>) -> Step {
        let own = Own::here();
        let before = (own.fiber.replace(fiber.as_ptr()), own.stays.replace(true));
        let context = own.context.replace(Context::NONE);
        // SAFETY: this is the fiber's thread, as a coroutine is not `Send`; it is suspended, and only this
        // coroutine refers to it.
        let back = on_stack(fiber.addr().get() as u64, || unsafe { Fiber::resume(fiber) });
        own.fiber.set(before.0);
        own.stays.set(before.1);
        own.context.set(context);
        match back {
            Back::Suspends => Step::Suspended,
            back => {
                debug_assert_eq!(back, Back::Returned, "a coroutine is left by `suspend` only");
                self.give_back();
                Step::Returned
            }
        }
    }

    /// Gives its fiber, which runs nothing, back to the thread.
    fn give_back(&mut self) {
        let Some(fiber) = self.fiber.take() else { return };
        let own = Own::here();
        // SAFETY: it is this thread's, is alive, runs nothing, and nothing else refers to it from here on.
        // The thread may have given back what it had for tasks, when it ends: then the fiber is of use no
        // more.
        unsafe {
            fiber.as_ref().role.set(Role::Tasks);
            match ptr::eq(self.own, own) {
                true => own.keep_idle(fiber),
                false => Fiber::end(fiber),
            }
        }
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        let Some(fiber) = self.fiber else { return };
        // SAFETY: it is alive, this thread's, and suspended.
        let suspended = unsafe { fiber.as_ref() };
        if let Some(function) = suspended.function.take() {
            // It has not begun.
            self.give_back();
            return drop(function);
        }
        suspended.role.set(Role::Cancelled);
        // `suspend` leaves it no more.
        let step = self.enter(fiber);
        debug_assert_eq!(step, Step::Returned);
        // What was thrown may panic when it is dropped.
        let panic = self.panic.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    }
}

/// Leaves the coroutine that runs here, until it is resumed. Does not return, but unwinds, where the
/// coroutine is dropped.
///
/// # Errors
/// Outside of a coroutine; in a scope, a join or a task inside it, in a kernel, and while a panic unwinds.
pub fn suspend() -> Result<(), NotSuspended> {
    let own = Own::here();
    // SAFETY: the fiber that runs here is alive.
    let fiber = unsafe { own.fiber.get().as_ref() };
    let Some(fiber) = fiber.filter(|fiber| fiber.role.get() != Role::Tasks) else {
        return Err(NotSuspended("expected to be in a coroutine"));
    };
    if own.context.get().root != 0 {
        return Err(NotSuspended("it is in a scope, a join or a task of flash-tasks: end that first"));
    }
    if forbidden() {
        return Err(NotSuspended("it is in a kernel, or a panic unwinds"));
    }
    if fiber.role.get() == Role::Coroutine {
        // SAFETY: it is the one that runs on this thread.
        unsafe { fiber.leave(Back::Suspends) };
    }
    match fiber.role.get() {
        Role::Cancelled => resume_unwind(Box::new(Cancelled)),
        _ => Ok(()),
    }
}
