//! How a thread runs fibers: as a worker, or while it waits.
//!
//! *Invariant.* A thread that sleeps has made known how it is woken (`Shared::rest`) before its last look.

use crate::fiber::{Back, Fiber};
use crate::idle::Part;
use crate::jobs::{Job, NO_ROOT};
use crate::thread::{ACTIVITY, AWAKE, Context, IDLE, Own, PARKED, Ready, lock};
use crate::wait::Waiter;
use crate::workers::{LOOKS, beyond_limit};
use flash_core::workers;
use flash_trace::hooks::on_stack;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Tasks between looks at the clock, and at pending operations.
const TASKS_PER_LOOK: u32 = 32;
/// A thread that waits looks for tasks for this long before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// Fibers without a task that a thread keeps.
const IDLE_FIBERS: usize = 32;
/// The longest sleep between two looks at pending operations, with nothing else to do.
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

impl Own {
    /// True if a fiber should go back to the thread's loop before it takes the next job.
    #[inline]
    pub(crate) fn should_turn(&self, jobs: &mut u32) -> bool {
        *jobs += 1;
        if self.shared.has_mail.load(Ordering::Relaxed) || self.reached() {
            return true;
        }
        if !jobs.is_multiple_of(TASKS_PER_LOOK) {
            return false;
        }
        !self.waiting_turn.borrow().is_empty()
            || self.time_is_up()
            || (self.filter.get() == 0 && beyond_limit())
    }

    fn time_is_up(&self) -> bool {
        self.until.get().is_some_and(|until| Instant::now() >= until)
    }

    #[inline]
    fn reached(&self) -> bool {
        // SAFETY: `wait_outside` keeps it alive while it is set.
        unsafe { self.goal.get().as_ref() }.is_some_and(Waiter::is_done)
    }

    fn take_mail(&self) -> Option<Ready> {
        if !self.shared.has_mail.load(Ordering::Acquire) {
            return None;
        }
        let mut mail = lock(&self.shared.mail);
        let first = mail.pop_front();
        self.shared.has_mail.store(!mail.is_empty(), Ordering::Release);
        first
    }

    /// Lets this thread's fibers run until what it waits for is done, its time is up, or nothing is left.
    /// True in the last case.
    pub(crate) fn run(&'static self) -> bool {
        // Looks at pending operations in a row that found none done.
        let mut in_vain = 0_u32;
        loop {
            if self.reached() || self.time_is_up() {
                return false;
            }
            match self.take_mail() {
                Some(Ready(fiber)) => self.resume(fiber),
                None if self.filter.get() == 0 && beyond_limit() => {
                    if self.waiting_turn.borrow().is_empty() {
                        return true;
                    }
                }
                None => {
                    if self.run_fiber() {
                        // It ran something.
                        in_vain = 0;
                    } else if self.waiting_turn.borrow().is_empty() {
                        return true;
                    }
                }
            }
            let waiting = self.waiting_turn.borrow().len();
            for _ in 0..waiting {
                let Some(fiber) = self.waiting_turn.borrow_mut().pop_front() else { break };
                self.resume(fiber);
            }
            if waiting > 0 {
                in_vain += 1;
                self.pause(in_vain);
            }
        }
    }

    /// Nothing but pending operations is left: gives way to other threads, for longer and longer.
    fn pause(&self, in_vain: u32) {
        match in_vain {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => {
                let part = self.part();
                ACTIVITY.leave(part);
                let sleep = Duration::from_micros(u64::from(in_vain - 255)).min(LONGEST_SLEEP);
                // Mail ends the sleep.
                self.parks();
                if !self.shared.has_mail.load(Ordering::Relaxed) {
                    std::thread::park_timeout(sleep);
                }
                self.shared.rest.store(AWAKE, Ordering::Relaxed);
                ACTIVITY.enter(part);
                LOOKS.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Lets a fiber without a task look for one. False if it found none.
    fn run_fiber(&'static self) -> bool {
        let idle = self.idle_fibers.borrow_mut().pop();
        match idle.or_else(Fiber::new) {
            Some(fiber) => self.go_on(fiber) != Back::NothingToDo,
            // No memory for another stack: the task runs on this thread's own, and waits there.
            None => match self.next() {
                Some(job) => {
                    let stays = self.stays.replace(true);
                    self.execute(job);
                    self.stays.set(stays);
                    self.context.set(Context::NONE);
                    true
                }
                None => false,
            },
        }
    }

    /// Goes on with a fiber that waited, unless it is of another root than this thread waits for. Such a one
    /// began before the wait: on top of it, it might wait for what comes after.
    fn resume(&'static self, fiber: NonNull<Fiber>) {
        let filter = self.filter.get();
        // SAFETY: the fiber is alive, and this thread's.
        if filter != 0 && unsafe { fiber.as_ref() }.root() != filter {
            return self.held.borrow_mut().push(fiber);
        }
        self.stops_searching();
        self.go_on(fiber);
    }

    fn go_on(&'static self, fiber: NonNull<Fiber>) -> Back {
        // An extra thread may end, so it leaves no task in its middle.
        let before = (self.fiber.replace(fiber.as_ptr()), self.stays.replace(workers::is_extra()));
        // SAFETY: the fiber is this thread's, does not run, and nothing else resumes it.
        let back = on_stack(fiber.addr().get() as u64, || unsafe { Fiber::resume(fiber) });
        self.fiber.set(before.0);
        self.stays.set(before.1);
        self.context.set(Context::NONE);
        match back {
            // What it waits for has it.
            Back::Waits => {}
            Back::GivesWay => self.waiting_turn.borrow_mut().push_back(fiber),
            // SAFETY: it has no task, and nothing refers to it.
            Back::Turns | Back::NothingToDo => unsafe { self.keep_idle(fiber) },
            Back::Suspends | Back::Returned => unreachable!("it runs tasks, and no coroutine"),
        }
        back
    }

    /// Keeps a fiber for later, or frees it.
    ///
    /// # Safety
    /// It is this thread's, suspended, has no task, and nothing else refers to it.
    pub(crate) unsafe fn keep_idle(&self, fiber: NonNull<Fiber>) {
        let mut idle = self.idle_fibers.borrow_mut();
        if idle.len() < IDLE_FIBERS {
            idle.push(fiber);
        } else {
            // SAFETY: the caller vouches.
            unsafe { Fiber::end(fiber) };
        }
    }

    /// Runs a job on this stack.
    #[inline]
    pub(crate) fn execute(&'static self, job: Job) {
        // SAFETY: a queued job is alive until it has run, and a queue gives it out once.
        unsafe {
            (job.0.as_ref().run)(job.0, self);
        }
    }

    /// Waits outside all fibers, or in one that is not to be left: runs tasks of the root meanwhile, and
    /// sleeps if there are none.
    pub(crate) fn wait_outside(&'static self, waiter: &Waiter) {
        let context = self.context.get();
        let before = (
            self.goal.replace(waiter),
            self.filter.replace(if context.root == 0 { NO_ROOT } else { context.root }),
        );
        let until = self.until.take();
        let rest = self.shared.rest.swap(AWAKE, Ordering::Relaxed);
        let mut since = None;
        let active = self.active.replace(true);
        if !active {
            ACTIVITY.enter(Part::WAITS);
        }
        while !waiter.is_done() {
            if !self.run() {
                since = None;
                continue;
            }
            if since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(waiter);
        }
        if !active {
            self.leaves();
        }
        self.waiting_turn.borrow_mut().extend(self.held.borrow_mut().drain(..));
        self.until.set(until);
        self.goal.set(before.0);
        self.filter.set(before.1);
        self.context.set(context);
        if rest == IDLE {
            // It is in a job of rayon's, and need not look at tasks when that ends.
            self.shared.rest.store(IDLE, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.shared.has_mail.load(Ordering::Relaxed) || !self.waiting_turn.borrow().is_empty() {
                workers::wake_all();
            }
        }
    }

    /// Sleeps, or lets rayon have the thread if it is one of rayon's: this wait is inside a job, and what it
    /// waits for may need a thread of rayon.
    fn rest(&self, waiter: &Waiter) {
        if rayon::current_thread_index().is_none() {
            return std::thread::park();
        }
        let (context, stays) = (self.context.get(), self.stays.replace(true));
        let mut sleep = Duration::from_micros(10);
        while !waiter.is_done() && !self.shared.has_mail.load(Ordering::SeqCst) {
            if rayon::yield_now() == Some(rayon::Yield::Executed) {
                break;
            }
            std::thread::park_timeout(sleep);
            if sleep == LONGEST_SLEEP {
                break;
            }
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
        self.stays.set(stays);
        self.context.set(context);
    }

    /// From now on this thread has to be unparked.
    fn parks(&self) {
        self.shared.filter.store(self.filter.get(), Ordering::Relaxed);
        self.shared.rest.store(PARKED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until what this thread waits for is done, it has mail, or there may be a task for it.
    #[cold]
    fn sleep(&self, waiter: &Waiter) {
        self.parks();
        ACTIVITY.change(self.part(), Part::SLEEPS);
        LOOKS.fetch_add(1, Ordering::Relaxed);
        // The last look.
        let bound = self.bound().is_some_and(|bound| bound.has(self.filter.get()));
        match self.next_of_any() {
            Some(job) => self.queue.push(job),
            None if bound || waiter.is_done() || self.shared.has_mail.load(Ordering::SeqCst) => {}
            None => self.rest(waiter),
        }
        self.shared.rest.store(AWAKE, Ordering::Relaxed);
        ACTIVITY.change(Part::SLEEPS, self.part());
        LOOKS.fetch_add(1, Ordering::Relaxed);
    }
}
