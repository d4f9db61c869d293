//! Pools: a bounded number of reusable things, such as tiles. A node that [takes](crate::NodeRef::takes) from
//! a pool runs only when there is something to take, so it never blocks.

use crate::lane::{Waiter, lock};
use crate::node::Cx;
use crate::schedule::Core;
use crate::times::For;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// At most `capacity` things that are made when first needed, and used again. Clones are the same pool; it
/// may serve several graphs.
pub struct Pool<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    name: String,
    capacity: usize,
    make: Box<dyn Fn() -> T + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// What is back, to be used again.
    items: Vec<T>,
    /// The number of those that are taken, or granted to an activation.
    out: usize,
    waiters: VecDeque<Waiting>,
}

/// A node that waits for a number of items.
struct Waiting {
    core: Arc<Core>,
    node: u32,
    count: usize,
}

/// A thing from a [`Pool`], to which it returns when this is dropped.
pub struct Pooled<T> {
    /// `None` only in `drop`.
    item: Option<T>,
    pool: Arc<Inner<T>>,
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Pool { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> Pool<T> {
    /// A pool. `make` is called once for each of the things, when it is first needed.
    pub fn new(name: &str, capacity: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Pool<T> {
        let state = Mutex::new(State { items: Vec::new(), out: 0, waiters: VecDeque::new() });
        Pool { inner: Arc::new(Inner { name: name.to_string(), capacity, make: Box::new(make), state }) }
    }

    /// The most things that it has.
    pub fn capacity(&self) -> usize {
        self.inner.capacity
    }

    /// The number of things that are neither taken nor granted to a node that runs.
    pub fn free(&self) -> usize {
        self.inner.capacity - lock(&self.inner.state).out
    }

    /// Takes one inside a node that [takes](crate::NodeRef::takes) from this pool.
    ///
    /// # Panics
    /// If the node does not take from this pool, or has taken all that it may for this datum.
    pub fn take(&self, cx: &mut Cx<'_>) -> Pooled<T> {
        let address = Arc::as_ptr(&self.inner).cast::<()>();
        let index = cx.pools.iter().position(|used| used.pool.address() == address);
        let Some(index) = index else {
            panic!(
                "node `{}` takes from pool `{}`, for which it has no `.takes(&pool, ..)`",
                cx.name(),
                self.inner.name
            );
        };
        assert!(
            cx.grants[index] > 0,
            "node `{}` takes more from pool `{}` than the {} for one datum of its `.takes(&pool, ..)`",
            cx.name(),
            self.inner.name,
            cx.pools[index].count
        );
        cx.grants[index] -= 1;
        Inner::item(&self.inner)
    }

    /// Takes one outside a graph, or where it is needed only now and then; `None` if none is free.
    pub fn try_take(&self) -> Option<Pooled<T>> {
        {
            let mut state = lock(&self.inner.state);
            if state.out == self.inner.capacity {
                return None;
            }
            state.out += 1;
        }
        Some(Inner::item(&self.inner))
    }

    pub(crate) fn used(&self, count: usize) -> PoolUse {
        PoolUse { pool: self.inner.clone(), count }
    }
}

impl<T> Inner<T> {
    /// One that is counted as taken.
    fn item(inner: &Arc<Inner<T>>) -> Pooled<T> {
        let item = lock(&inner.state).items.pop();
        // If making one panics, it counts as come back.
        let mut pooled = Pooled { item, pool: inner.clone() };
        pooled.item.get_or_insert_with(|| (inner.make)());
        pooled
    }

    /// `count` are free again, one of them used before. Wakes the nodes that they are enough for.
    fn put_back(&self, item: Option<T>, count: usize) {
        let mut state = lock(&self.state);
        state.items.extend(item);
        state.out -= count;
        let mut free = self.capacity - state.out;
        let mut woken = Vec::new();
        let mut i = 0;
        while i < state.waiters.len() && free > 0 {
            if state.waiters[i].count <= free {
                free -= state.waiters[i].count;
                woken.extend(state.waiters.remove(i));
            } else {
                i += 1;
            }
        }
        drop(state);
        woken.into_iter().for_each(|waiting| waiting.core.unpark(Waiter::Pool(waiting.node)));
    }
}

/// A pool that a node takes from.
pub(crate) struct PoolUse {
    pub(crate) pool: Arc<dyn AnyPool>,
    /// Things for each datum.
    pub(crate) count: usize,
}

pub(crate) trait AnyPool: Send + Sync {
    /// Grants a node some, or lets its activation wait for them.
    fn grant(&self, count: usize, core: &Arc<Core>, node: u32) -> bool;
    /// What was granted and not taken comes back.
    fn release(&self, count: usize);
    /// The nodes of a graph that has ended wait no more.
    fn forget(&self, core: &Arc<Core>);
    fn name(&self) -> &str;
    fn capacity(&self) -> usize;
    fn free(&self) -> usize;
    fn address(&self) -> *const ();
}

impl<T: Send + 'static> AnyPool for Inner<T> {
    fn grant(&self, count: usize, core: &Arc<Core>, node: u32) -> bool {
        let mut state = lock(&self.state);
        let granted = count <= self.capacity - state.out;
        if granted {
            state.out += count;
        } else {
            core.park(node, For::Pool);
            state.waiters.push_back(Waiting { core: core.clone(), node, count });
        }
        granted
    }

    fn release(&self, count: usize) {
        if count > 0 {
            self.put_back(None, count);
        }
    }

    fn forget(&self, core: &Arc<Core>) {
        lock(&self.state).waiters.retain(|waiting| !Arc::ptr_eq(&waiting.core, core));
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn free(&self) -> usize {
        self.capacity - lock(&self.state).out
    }

    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("it is here until it is dropped")
    }
}

impl<T> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("it is here until it is dropped")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        self.pool.put_back(self.item.take(), 1);
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
