//! Inboxes: a queue of data of one type before a node, with a capacity, and the activations that wait until
//! there is room.
//!
//! A queue is emptied in batches, so its lock is taken per batch. Only `len` is read without it.

use crate::lock::Lock;
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
    /// The activation of a node that waits for things of a pool.
    Pool(u32),
    /// The activation of a node that waits for one of several inboxes, and the number of its wait.
    Any(u32, u32),
    Outside,
}

/// How urgent a datum is; the greatest comes first.
pub(crate) type Urgency<T> = Box<dyn Fn(&T) -> i64 + Send + Sync>;

pub(crate) struct Lane<T> {
    state: Lock<Inside<T>>,
    /// The number of data in the queue.
    len: AtomicUsize,
    /// At most this many data before what fills it waits.
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
    /// A thread sleeps until there are data.
    awaited: bool,
    /// What is put in is dropped.
    refuses: bool,
    longest: usize,
    /// The number of data ever taken out.
    taken: u64,
}

/// What has become of data that were put in.
pub(crate) struct Put {
    /// A thread sleeps until they are there.
    pub(crate) awaited: bool,
    /// The number of the first, of all that ever came.
    pub(crate) first: u64,
}

/// How full an inbox is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) len: usize,
    /// The most that it has held.
    pub(crate) longest: usize,
    pub(crate) room: usize,
    /// The number of data ever taken out.
    pub(crate) taken: u64,
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
            awaited: false,
            refuses: false,
            longest: 0,
            taken: 0,
        };
        let (state, len) = (Lock::new(inside), AtomicUsize::new(0));
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

    pub(crate) fn filled(&self) -> Filled {
        let (longest, taken) = self.state.with(|inside| (inside.longest, inside.taken));
        Filled { len: self.len(), longest, room: self.room(), taken }
    }

    #[inline]
    fn changed(&self, inside: &mut Inside<T>) {
        let len = inside.queue.len() + inside.heap.len();
        inside.longest = inside.longest.max(len);
        self.len.store(len, Ordering::Relaxed);
    }

    /// Puts all data of a buffer in, and leaves it empty.
    #[inline]
    pub(crate) fn put_all(&self, data: &mut VecDeque<T>) -> Put {
        let put = self.state.with(|inside| {
            let first = inside.ever();
            if inside.refuses {
                return Put { awaited: false, first };
            }
            match self.urgency.get() {
                None if inside.queue.is_empty() => std::mem::swap(&mut inside.queue, data),
                None => inside.queue.append(data),
                Some(urgency) => data.drain(..).for_each(|datum| inside.rank(urgency, datum)),
            }
            self.changed(inside);
            Put { awaited: std::mem::take(&mut inside.awaited), first }
        });
        // What was refused is dropped without the lock.
        data.clear();
        put
    }

    /// Puts one datum in, as [`put_all`](Self::put_all).
    #[inline]
    pub(crate) fn put(&self, datum: T) -> Put {
        let (refused, put) = self.state.with(|inside| {
            let first = inside.ever();
            if inside.refuses {
                return (Some(datum), Put { awaited: false, first });
            }
            match self.urgency.get() {
                None => inside.queue.push_back(datum),
                Some(urgency) => inside.rank(urgency, datum),
            }
            self.changed(inside);
            (None, Put { awaited: std::mem::take(&mut inside.awaited), first })
        });
        drop(refused);
        put
    }

    /// Lets what puts data in say that a thread sleeps until then. False if there are some.
    pub(crate) fn wait_for_data(&self) -> bool {
        self.state.with(|inside| {
            inside.awaited = self.len() == 0;
            inside.awaited
        })
    }

    /// Takes up to `most` data into an empty buffer. Returns how many, and the number of the first of all
    /// that ever came. What waits for room is handed to `wake`, without the lock.
    #[inline]
    pub(crate) fn take(&self, most: usize, into: &mut VecDeque<T>, wake: impl FnMut(Waiter)) -> (usize, u64) {
        let (taken, first, waiters) = self.state.with(|inside| {
            let mut first = inside.taken;
            if self.urgency.get().is_some() {
                while into.len() < most
                    && let Some(Ranked(_, number, datum)) = inside.heap.pop()
                {
                    if into.is_empty() {
                        first = number.0;
                    }
                    into.push_back(datum);
                }
            } else if inside.queue.len() <= most && into.is_empty() {
                std::mem::swap(&mut inside.queue, into);
            } else {
                let count = most.min(inside.queue.len());
                into.extend(inside.queue.drain(..count));
            }
            inside.taken += into.len() as u64;
            self.changed(inside);
            (into.len(), first, self.with_room(inside))
        });
        waiters.into_iter().for_each(wake);
        (taken, first)
    }

    /// Takes one datum, as [`take`](Self::take).
    #[inline]
    pub(crate) fn take_one(&self, wake: impl FnMut(Waiter)) -> Option<T> {
        let (datum, waiters) = self.state.with(|inside| {
            let datum = match inside.queue.pop_front() {
                None => inside.heap.pop().map(|ranked| ranked.2),
                datum => datum,
            };
            inside.taken += u64::from(datum.is_some());
            self.changed(inside);
            (datum, self.with_room(inside))
        });
        waiters.into_iter().for_each(wake);
        datum
    }

    /// Takes out the activations that wait for room, if there is some.
    #[inline]
    fn with_room(&self, inside: &mut Inside<T>) -> Vec<Waiter> {
        match !inside.waiters.is_empty() && self.room() > 0 {
            true => std::mem::take(&mut inside.waiters),
            false => Vec::new(),
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
        self.state.with(|inside| {
            let waits = self.room() == 0 && !inside.refuses;
            if waits {
                entered();
                // A thread outside asks again and again, and what waits for one of several is left behind.
                let same = |other: &&mut Waiter| match (waiter, other) {
                    (Waiter::Any(node, _), Waiter::Any(other, _)) => node == *other,
                    (Waiter::Outside, Waiter::Outside) => true,
                    _ => false,
                };
                match inside.waiters.iter_mut().find(same) {
                    Some(entry) => *entry = waiter,
                    None => inside.waiters.push(waiter),
                }
            }
            waits
        })
    }

    /// Drops all data; with `refuses` also all that come. What waits for room is woken.
    pub(crate) fn clear(&self, refuses: bool, wake: impl FnMut(Waiter)) {
        let (dropped, waiters) = self.state.with(|inside| {
            inside.refuses |= refuses;
            let dropped = (std::mem::take(&mut inside.queue), std::mem::take(&mut inside.heap));
            self.changed(inside);
            (dropped, self.with_room(inside))
        });
        waiters.into_iter().for_each(wake);
        // Their destructors may call anything.
        drop(dropped);
    }
}

impl<T> Inside<T> {
    fn rank(&mut self, urgency: &Urgency<T>, datum: T) {
        self.heap.push(Ranked(urgency(&datum), std::cmp::Reverse(self.ranked), datum));
        self.ranked += 1;
    }

    /// The number of data that ever came.
    fn ever(&self) -> u64 {
        self.taken + (self.queue.len() + self.heap.len()) as u64
    }
}
