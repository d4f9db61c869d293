//! Inboxes: a queue of data of one type before a node, with a capacity, and the activations that wait until
//! there is room.
//!
//! A queue is emptied in batches, so its lock is taken per batch. Only `len` is read without it.

use std::cmp::Ordering as Compared;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The lock of something that stays whole when a thread panics with it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What waits for something: the activation of a node, or threads outside the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Waiter {
    Node(u32),
    Outside,
}

/// How urgent a datum is; the greatest comes first.
pub(crate) type Urgency<T> = Box<dyn Fn(&T) -> i64 + Send + Sync>;

pub(crate) struct Lane<T> {
    state: Mutex<Inside<T>>,
    /// The number of data in the queue.
    len: AtomicUsize,
    /// At most this many data before whoever fills it waits.
    capacity: AtomicUsize,
    urgency: OnceLock<Urgency<T>>,
}

struct Inside<T> {
    queue: VecDeque<T>,
    /// Instead of `queue`, if there is an urgency.
    heap: BinaryHeap<Ranked<T>>,
    /// The number of data ever put into the heap: of equally urgent ones the older comes first.
    ranked: u64,
    waiters: Vec<Waiter>,
    /// What is put in is dropped.
    refuses: bool,
    longest: usize,
}

struct Ranked<T>(i64, std::cmp::Reverse<u64>, T);

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Ranked<T> {}
impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Compared> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Compared {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl<T> Lane<T> {
    pub(crate) fn new(capacity: usize) -> Lane<T> {
        let inside = Inside {
            queue: VecDeque::new(),
            heap: BinaryHeap::new(),
            ranked: 0,
            waiters: Vec::new(),
            refuses: false,
            longest: 0,
        };
        let (state, len) = (Mutex::new(inside), AtomicUsize::new(0));
        Lane { state, len, capacity: AtomicUsize::new(capacity), urgency: OnceLock::new() }
    }

    /// Sets its capacity, before it is used.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Lets the most urgent datum come first, before it is used. False if that was set before.
    pub(crate) fn set_urgency(&self, urgency: Urgency<T>) -> bool {
        self.urgency.set(urgency).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The greatest number of data that it has held.
    pub(crate) fn longest(&self) -> usize {
        lock(&self.state).longest
    }

    fn changed(&self, inside: &mut Inside<T>) {
        let len = inside.queue.len() + inside.heap.len();
        inside.longest = inside.longest.max(len);
        self.len.store(len, Ordering::Relaxed);
    }

    /// Puts all data of a buffer in, and leaves it empty.
    #[inline]
    pub(crate) fn put_all(&self, data: &mut VecDeque<T>) {
        let mut inside = lock(&self.state);
        if inside.refuses {
            drop(inside);
            data.clear();
            return;
        }
        match self.urgency.get() {
            None if inside.queue.is_empty() => std::mem::swap(&mut inside.queue, data),
            None => inside.queue.append(data),
            Some(urgency) => data.drain(..).for_each(|datum| inside.rank(urgency, datum)),
        }
        self.changed(&mut inside);
    }

    /// Puts one datum in.
    #[inline]
    pub(crate) fn put(&self, datum: T) {
        let mut inside = lock(&self.state);
        if inside.refuses {
            return;
        }
        match self.urgency.get() {
            None => inside.queue.push_back(datum),
            Some(urgency) => inside.rank(urgency, datum),
        }
        self.changed(&mut inside);
    }

    /// Takes up to `most` data into an empty buffer. What waits for room is handed to `wake`, without the
    /// lock.
    #[inline]
    pub(crate) fn take(&self, most: usize, into: &mut VecDeque<T>, wake: impl FnMut(Waiter)) -> usize {
        let mut inside = lock(&self.state);
        if self.urgency.get().is_some() {
            while into.len() < most
                && let Some(Ranked(_, _, datum)) = inside.heap.pop()
            {
                into.push_back(datum);
            }
        } else if inside.queue.len() <= most && into.is_empty() {
            std::mem::swap(&mut inside.queue, into);
        } else {
            let count = most.min(inside.queue.len());
            into.extend(inside.queue.drain(..count));
        }
        let taken = into.len();
        if taken == 0 {
            return 0;
        }
        self.changed(&mut inside);
        self.wake_if_room(inside, wake);
        taken
    }

    /// Takes one datum, as [`take`](Self::take).
    pub(crate) fn take_one(&self, wake: impl FnMut(Waiter)) -> Option<T> {
        let mut inside = lock(&self.state);
        let datum = match inside.queue.pop_front() {
            None => inside.heap.pop().map(|ranked| ranked.2),
            datum => datum,
        }?;
        self.changed(&mut inside);
        self.wake_if_room(inside, wake);
        Some(datum)
    }

    #[inline]
    fn wake_if_room(&self, mut inside: MutexGuard<'_, Inside<T>>, wake: impl FnMut(Waiter)) {
        if !inside.waiters.is_empty() && self.len() < self.capacity() {
            let waiters = std::mem::take(&mut inside.waiters);
            drop(inside);
            waiters.into_iter().for_each(wake);
        }
    }

    /// How many data there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity().saturating_sub(self.len())
    }

    /// Enters what waits for room. False if there is some. `entered` is called with the lock, so before the
    /// waiter can be woken.
    pub(crate) fn wait_for_room(&self, waiter: Waiter, entered: impl FnOnce()) -> bool {
        let mut inside = lock(&self.state);
        if self.room() > 0 || inside.refuses {
            return false;
        }
        entered();
        inside.waiters.push(waiter);
        true
    }

    /// Drops all data; with `refuses` also all that come. What waits for room is woken.
    pub(crate) fn clear(&self, refuses: bool, wake: impl FnMut(Waiter)) {
        let mut inside = lock(&self.state);
        inside.refuses |= refuses;
        let dropped = (std::mem::take(&mut inside.queue), std::mem::take(&mut inside.heap));
        self.changed(&mut inside);
        self.wake_if_room(inside, wake);
        // Their destructors may call anything.
        drop(dropped);
    }
}

impl<T> Inside<T> {
    fn rank(&mut self, urgency: &Urgency<T>, datum: T) {
        self.ranked += 1;
        self.heap.push(Ranked(urgency(&datum), std::cmp::Reverse(self.ranked), datum));
    }
}
