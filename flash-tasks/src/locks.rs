//! A mutex, a condition variable and a semaphore for tasks: a task that waits is suspended, and its thread
//! runs others. Threads outside of tasks may use them, too: they run tasks of their scope, or sleep.
//!
//! All three are fair: the one that has waited longest goes on first. What is released goes straight to it,
//! so a `Waiter` is signalled once, by what took it out of a queue.

use crate::thread::{Own, lock};
use crate::wait::Waiter;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Waiters, the first one first.
#[derive(Default)]
struct Queue(VecDeque<*const Waiter>);

// SAFETY: a waiter in the queue waits until it is signalled, and that any thread may do.
unsafe impl Send for Queue {}

impl Queue {
    /// Takes the first one out. It is to be signalled.
    fn pop(&mut self) -> Option<First> {
        self.0.pop_front().map(First)
    }
}

/// A waiter that was taken out of its queue.
struct First(*const Waiter);

impl First {
    fn goes_on(self) {
        // SAFETY: it waits until it is signalled, and only this has it.
        unsafe { Waiter::signal(self.0) };
    }
}

/// Waits in a queue, which `enter` puts the waiter into unless there is nothing to wait for.
fn wait_in(enter: impl FnOnce(*const Waiter) -> bool) {
    let own = Own::here();
    let waiter = Waiter::new(own);
    if enter(&waiter) {
        waiter.wait(own);
    }
}

/// A value that one task has at a time, also across points where it is suspended.
///
/// It has no poison: a task that panics while it has the value leaves it as it is.
///
/// # Examples
/// ```
/// use flash_tasks::{Mutex, scope, yield_now};
/// let total = Mutex::new(0);
/// scope(|s| {
///     for i in 0..100 {
///         let total = &total;
///         drop(s.spawn(move || {
///             let mut total = total.lock();
///             let before = *total;
///             yield_now(); // others run, but none has the value
///             *total = before + i;
///         }));
///     }
/// })?;
/// assert_eq!(total.into_inner(), 4950);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    state: std::sync::Mutex<Locked>,
    value: UnsafeCell<T>,
}

#[derive(Default)]
struct Locked {
    locked: bool,
    queue: Queue,
}

// SAFETY: one guard at a time gives access to the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A mutex that is free.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { state: Default::default(), value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the value. A task that has it already would wait for ever.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        wait_in(|waiter| {
            let mut state = lock(&self.state);
            if state.locked {
                state.queue.0.push_back(waiter);
            }
            std::mem::replace(&mut state.locked, true)
        });
        MutexGuard { mutex: self, here: PhantomData }
    }

    /// The value, if no other has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let taken = std::mem::replace(&mut lock(&self.state).locked, true);
        (!taken).then_some(MutexGuard { mutex: self, here: PhantomData })
    }

    /// The value, which nothing else refers to.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn unlock(&self) {
        let mut state = lock(&self.state);
        // The next one has it from now on.
        let next = state.queue.pop();
        state.locked = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.goes_on();
        }
    }
}

impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("Mutex").field(&&*value).finish(),
            None => f.write_str("Mutex(locked)"),
        }
    }
}

/// The value of a [`Mutex`], until it is dropped.
#[must_use = "the mutex is free again when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Not to be sent to another thread, like the standard library's.
    here: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives a shared value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: only the guard gives access, and there is one.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

/// Waits for a change of what a [`Mutex`] holds.
///
/// # Examples
/// ```
/// use flash_tasks::{Condvar, Mutex, scope};
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// scope(|s| {
///     drop(s.spawn(|| drop(changed.wait_while(ready.lock(), |ready| !*ready))));
///     *ready.lock() = true;
///     changed.notify_all();
/// })?;
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
#[derive(Default)]
pub struct Condvar {
    queue: std::sync::Mutex<Queue>,
}

impl Condvar {
    /// One that nothing waits for.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Frees the mutex, waits to be notified, and waits for the mutex. It never returns without a
    /// notification.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex;
        wait_in(|waiter| {
            lock(&self.queue).0.push_back(waiter);
            // Freed after the waiter is in the queue: a notification from now on finds it.
            drop(guard);
            true
        });
        mutex.lock()
    }

    /// [`wait`](Self::wait)s until `condition` is false for the value.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Lets the one that has waited longest go on.
    pub fn notify_one(&self) {
        let first = lock(&self.queue).pop();
        if let Some(first) = first {
            first.goes_on();
        }
    }

    /// Lets all that wait go on.
    pub fn notify_all(&self) {
        let mut all = std::mem::take(&mut *lock(&self.queue));
        while let Some(first) = all.pop() {
            first.goes_on();
        }
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condvar").field("waiting", &lock(&self.queue).0.len()).finish()
    }
}

/// A number of permits, for tasks of which only that many may go on at once.
///
/// # Examples
/// ```
/// use flash_tasks::{Semaphore, scope, yield_now};
/// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
/// let (two, inside, most) = (Semaphore::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
/// scope(|s| {
///     for _ in 0..20 {
///         drop(s.spawn(|| {
///             let _permit = two.acquire();
///             most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
///             yield_now();
///             inside.fetch_sub(1, SeqCst);
///         }));
///     }
/// })?;
/// assert!(most.into_inner() <= 2);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
#[derive(Debug)]
pub struct Semaphore {
    state: std::sync::Mutex<Permits>,
}

struct Permits {
    free: usize,
    queue: Queue,
}

impl std::fmt::Debug for Permits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} free, {} waiting", self.free, self.queue.0.len())
    }
}

impl Semaphore {
    /// A semaphore with `permits` free permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore { state: std::sync::Mutex::new(Permits { free: permits, queue: Queue::default() }) }
    }

    /// Waits for a permit, which is free again when what is returned is dropped.
    pub fn acquire(&self) -> Permit<'_> {
        wait_in(|waiter| {
            let mut state = lock(&self.state);
            let none = state.free == 0;
            if none {
                state.queue.0.push_back(waiter);
            } else {
                state.free -= 1;
            }
            none
        });
        Permit(self)
    }

    /// A permit, if one is free.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let mut state = lock(&self.state);
        state.free = state.free.checked_sub(1)?;
        Some(Permit(self))
    }

    /// Adds a permit: for semaphores that count events, whose [`Permit`]s are [kept](Permit::keep).
    pub fn release(&self) {
        let mut state = lock(&self.state);
        let next = state.queue.pop();
        if next.is_none() {
            state.free += 1;
        }
        drop(state);
        if let Some(next) = next {
            next.goes_on();
        }
    }
}

/// A permit of a [`Semaphore`], until it is dropped.
#[must_use = "the permit is free again when this is dropped"]
#[derive(Debug)]
pub struct Permit<'a>(&'a Semaphore);

impl Permit<'_> {
    /// Uses the permit up: there is one less from now on.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
