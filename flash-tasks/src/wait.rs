//! Waiting: a fiber is left, and a thread outside of fibers runs tasks or sleeps.

use crate::fiber::{Back, Fiber};
use crate::task::State;
use crate::thread::{Own, Ready, Shared};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// One wait of one fiber or thread. It is on the stack that waits.
pub(crate) struct Waiter {
    done: AtomicBool,
    fiber: Option<NonNull<Fiber>>,
    thread: &'static Shared,
}

// SAFETY: other threads only `signal`.
unsafe impl Sync for Waiter {}

impl Waiter {
    pub(crate) fn new(own: &'static Own) -> Waiter {
        let fiber = if can_leave(own) { NonNull::new(own.fiber.get().cast_mut()) } else { None };
        Waiter { done: AtomicBool::new(false), fiber, thread: own.shared }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Ends the wait.
    ///
    /// # Safety
    /// Once per wait, which lasts until now. The waiter is not touched afterwards.
    pub(crate) unsafe fn signal(this: *const Waiter) {
        // SAFETY: the wait lasts, so it is alive. A fiber goes on when it gets the mail, and a thread when it
        // sees `done`: what is used later is copied before.
        let (fiber, thread) = unsafe { ((*this).fiber, (*this).thread) };
        // SAFETY: as above.
        unsafe { &*this }.done.store(true, Ordering::Release);
        match fiber {
            Some(fiber) => thread.send(Ready(fiber)),
            None => thread.call(),
        }
    }

    /// Returns after [`signal`](Self::signal), which is called by what this was given to.
    pub(crate) fn wait(&self, own: &'static Own) {
        match self.fiber {
            // Only mail resumes it.
            Some(_) => leave(own, Back::Waits),
            None if !forbidden() => own.wait_outside(self),
            None => {
                while !self.is_done() {
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
            }
        }
    }
}

/// True if this thread is in a fiber that may be left now.
pub(crate) fn can_leave(own: &Own) -> bool {
    !own.fiber.get().is_null() && !own.stays.get() && !forbidden()
}

/// True where no other task may run on this thread. In a kernel, its launch would stay on the device. While a
/// panic unwinds, the thread's count of panics would be seen by the other task.
pub(crate) fn forbidden() -> bool {
    flash_core::workers::in_kernel() || std::thread::panicking()
}

/// Calls `f` without suspending the calling task: what waits in it keeps the thread, and runs tasks only of
/// the scope, join or graph that it waits for.
///
/// For code that waits in a way of its own and calls back meanwhile, such as a parallel iterator of rayon
/// whose jobs use tasks. While rayon waits on a thread, it runs its own jobs there, and cannot let a
/// suspended task of that thread go on. If such a job left the stack, the thread might begin a task that then
/// waits for the job to end.
///
/// # Examples
/// ```
/// use rayon::prelude::*;
/// let sum = flash_tasks::scope(|s| {
///     let task = s.spawn(|| {
///         flash_tasks::unsuspended(|| {
///             let both = |i| flash_tasks::join(|| i, || 2 * i);
///             (0..100_u64).into_par_iter().map(both).map(|(a, b)| a + b).sum::<u64>()
///         })
///     });
///     task.wait()
/// })??;
/// assert_eq!(sum, 14_850);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn unsuspended<R>(f: impl FnOnce() -> R) -> R {
    struct Before(&'static Own, bool);
    impl Drop for Before {
        fn drop(&mut self) {
            self.0.stays.set(self.1);
        }
    }
    let own = Own::here();
    let _before = Before(own, own.stays.replace(true));
    f()
}

/// Leaves this thread's fiber.
pub(crate) fn leave(own: &'static Own, back: Back) {
    let context = own.context.get();
    // SAFETY: the task is the one that runs here, in this fiber.
    unsafe {
        let task = context.task.as_ref();
        task.inspect(|task| task.tell(State::Suspended));
        (*own.fiber.get()).belongs_to(context.root);
        (*own.fiber.get()).leave(back);
        own.context.set(context);
        task.inspect(|task| task.tell(State::Resumed));
    }
}

/// Lets other tasks run on this thread, if it is in a task. Outside of one, it yields the core.
pub fn yield_now() {
    let own = Own::here();
    if can_leave(own) {
        leave(own, Back::GivesWay);
    } else {
        std::thread::yield_now();
    }
}

/// Waits for an operation that something other than a task carries out: `poll` is called until it returns
/// `Ready`. In a task, other tasks run between the calls; with nothing else to do, the thread sleeps between
/// them for longer and longer, up to half a millisecond.
///
/// # Examples
/// ```
/// use std::sync::mpsc::channel;
/// use std::task::Poll;
/// let (send, receive) = channel();
/// let answer = flash_tasks::scope(|s| {
///     let task = s.spawn(move || {
///         flash_tasks::until(|| receive.try_recv().map_or(Poll::Pending, Poll::Ready))
///     });
///     send.send(42).unwrap();
///     task.wait()
/// })??;
/// assert_eq!(answer, 42);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn until<T>(mut poll: impl FnMut() -> Poll<T>) -> T {
    let mut polls = 0_u32;
    loop {
        if let Poll::Ready(value) = poll() {
            return value;
        }
        let own = Own::here();
        if can_leave(own) {
            leave(own, Back::GivesWay);
            continue;
        }
        polls += 1;
        match polls {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(u64::from(polls - 255).min(500))),
        }
    }
}
