//! A node that runs: its replicas, its inboxes, and how a batch goes through it.
//!
//! A [`NodeCell`] has a `setup` until its graph starts. Then `bind` makes what is `live`, of which only
//! the replicas and the order of batches change. An activation enters the strand, looks for room in the
//! inboxes that the node fills, and is granted things of pools. If one of these fails, it parks there and
//! gives back the others. Else it has a replica for itself, takes a batch under the lock of each inbox,
//! and delivers what the node has emitted after the batch. There are never more activations than replicas.
//!
//! The order of an `ordered` node: a batch gets its number in the same lock in which it is taken, and is
//! delivered under that lock. One whose turn has not come is held, and counted in the node's word
//! ([`Begun`]), so that the graph does not end before. Panics of the user's code, of clones and of
//! destructors stay in here: they fail the graph.

use crate::error::{Error, GraphError};
use crate::lane::{Filled, Lane, Waiter, lock};
use crate::lock::Lock;
use crate::node::{Cx, Node, Receive};
use crate::pool::PoolUse;
use crate::port::{Flush, Outputs, Way};
use crate::schedule::{Cell, Core};
use crate::strand::Strand;
use crate::times::{Busy, For};
use crate::trace::{self, Arrival};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// The most data of a batch.
const BATCH: usize = 256;
/// A batch of at least this many data is timed, and each batch of a node that may not have as many.
const TIMED: usize = 8;
/// The time that a batch should take at most, so that what it emits is not kept long.
const BATCH_NS: u64 = 10_000;
/// The default capacity of an inbox.
pub(crate) const INBOX: usize = 256;

/// Asked before each batch.
pub(crate) type AnyRoom = Box<dyn Fn() -> bool + Send + Sync>;

/// Called once if the graph ends before its time.
pub(crate) type Cancel = Box<dyn Fn() + Send + Sync>;

/// How a node is to run.
pub(crate) struct Config {
    pub(crate) replicas: usize,
    pub(crate) capacity: usize,
    pub(crate) priority: i32,
    pub(crate) dedicated: bool,
    pub(crate) ordered: bool,
    /// True of a node that runs when one of the inboxes that it fills has room, instead of all.
    pub(crate) any_room: Option<AnyRoom>,
    pub(crate) pools: Vec<PoolUse>,
    pub(crate) strand: Option<Arc<Strand>>,
    pub(crate) cancel: Option<Cancel>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            replicas: 1,
            capacity: INBOX,
            priority: 0,
            dedicated: false,
            ordered: false,
            any_room: None,
            pools: Vec::new(),
            strand: None,
            cancel: None,
        }
    }
}

/// An inbox of a node, with its type erased.
pub(crate) trait Inbox<N: Node>: Send + Sync {
    /// A buffer for batches.
    fn buffer(&self) -> Box<dyn Any + Send>;
    /// Takes up to `most` data into a buffer. Returns how many, and the number of the first of all ever
    /// taken.
    fn take(&self, most: usize, core: &Arc<Core>, into: &mut dyn Any) -> (usize, u64);
    /// Gives the data of a buffer to a node.
    fn give(&self, data: &mut dyn Any, node: &mut N, out: &mut N::Out, cx: &mut Cx<'_>) -> Result<(), Error>;
    fn clear(&self, core: &Arc<Core>);
    fn set_capacity(&self, capacity: usize);
    fn filled(&self) -> Filled;
    /// What tells it from others, see `trace.rs`.
    fn key(&self) -> u64;
    fn as_any(&self) -> &dyn Any;
}

/// Which function of a node an inbox's data go to.
pub(crate) trait Accept<N: Node, T>: Send + Sync + 'static {
    fn accept(node: &mut N, datum: T, out: &mut N::Out, cx: &mut Cx<'_>) -> Result<(), Error>;
}

/// To `receive`.
pub(crate) struct ByReceive;

impl<N: Receive<T>, T> Accept<N, T> for ByReceive {
    #[inline]
    fn accept(node: &mut N, datum: T, out: &mut N::Out, cx: &mut Cx<'_>) -> Result<(), Error> {
        node.receive(datum, out, cx)
    }
}

pub(crate) struct Typed<T, A>(pub(crate) Arc<Lane<T>>, pub(crate) PhantomData<fn() -> A>);

impl<N: Node, T: Send + 'static, A: Accept<N, T>> Inbox<N> for Typed<T, A> {
    fn buffer(&self) -> Box<dyn Any + Send> {
        Box::new(VecDeque::<T>::new())
    }

    #[inline]
    fn take(&self, most: usize, core: &Arc<Core>, into: &mut dyn Any) -> (usize, u64) {
        let into = into.downcast_mut().expect("a buffer that this inbox made");
        self.0.take(most, into, |waiter| core.unpark(waiter))
    }

    #[inline]
    fn give(&self, data: &mut dyn Any, node: &mut N, out: &mut N::Out, cx: &mut Cx<'_>) -> Result<(), Error> {
        let data: &mut VecDeque<T> = data.downcast_mut().expect("a buffer that this inbox made");
        data.drain(..).try_for_each(|datum| A::accept(node, datum, out, cx))
    }

    fn clear(&self, core: &Arc<Core>) {
        self.0.clear(true, |waiter| core.unpark(waiter));
    }

    fn set_capacity(&self, capacity: usize) {
        self.0.set_capacity(capacity);
    }

    fn filled(&self) -> Filled {
        self.0.filled()
    }

    fn key(&self) -> u64 {
        trace::key(&self.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An inbox that a node fills.
pub(crate) trait Gate: Send + Sync {
    fn filled(&self) -> Filled;
    fn room(&self) -> usize;
    fn capacity(&self) -> usize;
    /// As [`Lane::wait_for_room`].
    fn wait(&self, core: &Core, node: u32) -> bool;
    /// As `wait`, for one that waits for several, with the number of its wait.
    fn wait_for_any(&self, node: u32, wait: u32) -> bool;
}

impl<T: Send> Gate for Lane<T> {
    fn filled(&self) -> Filled {
        Lane::filled(self)
    }

    fn room(&self) -> usize {
        Lane::room(self)
    }

    fn capacity(&self) -> usize {
        Lane::capacity(self)
    }

    fn wait(&self, core: &Core, node: u32) -> bool {
        self.wait_for_room(Waiter::Node(node), || core.park(node, For::Room))
    }

    fn wait_for_any(&self, node: u32, wait: u32) -> bool {
        self.wait_for_room(Waiter::Any(node, wait), || ())
    }
}

/// The inboxes that a node fills, with the nodes that they belong to.
pub(crate) type Gates = RefCell<SmallVec<[(u32, Arc<dyn Gate>); 1]>>;

/// A node in its graph.
pub(crate) struct NodeCell<N: Node> {
    pub(crate) setup: Mutex<Setup<N>>,
    live: OnceLock<Live<N>>,
}

/// What a node has until its graph starts.
pub(crate) struct Setup<N: Node> {
    pub(crate) config: Config,
    pub(crate) inboxes: Vec<Arc<dyn Inbox<N>>>,
    /// Makes the replicas when the graph starts.
    make: Option<Make<N>>,
}

/// The outputs as the graph has them, and what makes a replica.
pub(crate) struct Make<N: Node> {
    pub(crate) out: N::Out,
    pub(crate) replica: Box<dyn FnMut(usize) -> N + Send>,
}

/// What a node has while its graph runs.
struct Live<N: Node> {
    /// Most nodes have one.
    replicas: SmallVec<[Seat<N>; 1]>,
    inboxes: Box<[Arc<dyn Inbox<N>>]>,
    gates: SmallVec<[(u32, Arc<dyn Gate>); 1]>,
    any_room: Option<AnyRoom>,
    pools: Box<[PoolUse]>,
    strand: Option<Arc<Strand>>,
    order: Option<Mutex<Order<N::Out>>>,
}

/// Where a replica is, while its graph runs.
struct Seat<N: Node> {
    replica: Lock<Option<Replica<N>>>,
    /// Added to by the thread that has the lock.
    busy: Busy,
}

struct Replica<N: Node> {
    node: N,
    out: N::Out,
    number: usize,
    /// Of the inboxes; made for the first batch.
    buffers: Box<[Box<dyn Any + Send>]>,
    grants: Box<[usize]>,
    /// The number of data of a batch.
    batch: usize,
    /// Nanoseconds of a datum in the last batch that was timed.
    each: u64,
    /// Batches so far.
    turn: usize,
}

/// The outputs of batches, in the order in which the batches were taken.
struct Order<O> {
    taken: u64,
    emitted: u64,
    held: BTreeMap<u64, (O, Begun)>,
}

/// What a node has begun, and emits when the batches before it have been emitted.
struct Begun {
    core: Arc<Core>,
    node: u32,
}

impl Begun {
    fn new(core: &Arc<Core>, node: u32) -> Begun {
        core.begin_later(node);
        Begun { core: core.clone(), node }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.core.end_later(self.node);
    }
}

impl<N: Node> NodeCell<N> {
    pub(crate) fn new(make: Make<N>) -> NodeCell<N> {
        let setup = Setup { config: Config::default(), inboxes: Vec::new(), make: Some(make) };
        NodeCell { setup: Mutex::new(setup), live: OnceLock::new() }
    }

    fn live(&self) -> &Live<N> {
        self.live.get().expect("the graph has started")
    }

    /// Calls a function of a node and turns its panic, or its error, into the graph's. True if it went well.
    fn guarded(
        core: &Arc<Core>,
        node: u32,
        replica: usize,
        body: impl FnOnce() -> Result<(), Error>,
    ) -> bool {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => core.node_failed(node, replica, &error),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                let text = text.unwrap_or_else(|| "a panic without a text".into());
                let name = core.nodes[node as usize].name.clone();
                core.fail(GraphError::Panicked { node: name, replica, text });
                // What it was raised with may panic when dropped.
                std::mem::forget(panic);
            }
        }
        false
    }

    /// Calls `start` or `finish` of every replica.
    fn each(
        &self,
        core: &Arc<Core>,
        node: u32,
        call: fn(&mut N, &mut N::Out, &mut Cx<'_>) -> Result<(), Error>,
    ) {
        let live = self.live();
        for seat in &live.replicas {
            seat.replica.with(|replica| {
                let Some(replica) = replica.as_mut().filter(|_| !core.has_failed()) else { return };
                let Replica { node: user, out, number, grants, .. } = replica;
                let (number, pools) = (*number, &live.pools);
                let mut cx = Cx { core, node, replica: number, pools, grants, batch: 0, made: 0 };
                let _span = flash_trace::is_on().then(|| trace::call(cx.name(), number, 0));
                Self::guarded(core, node, number, || {
                    call(user, out, &mut cx)?;
                    out.flush(Flush(Way::Deliver(true)));
                    Ok(())
                });
            });
        }
    }
}

impl<N: Node> Live<N> {
    /// True if the activation may run and emit, into room for this many data. If not, it waits.
    fn passes(&self, core: &Arc<Core>, node: u32) -> Option<usize> {
        let mut least = usize::MAX;
        let any_room = self.any_room.as_ref().is_some_and(|any_room| any_room());
        if any_room {
            least = self.widest();
            if least == 0 && self.wait_for_any(core, node) {
                return None;
            }
            least = least.max(1);
        }
        for (_, gate) in self.gates.iter().filter(|_| !any_room) {
            let room = gate.room();
            if room == 0 && gate.wait(core, node) {
                return None;
            }
            least = least.min(room.max(1));
        }
        for (i, used) in self.pools.iter().enumerate() {
            if !used.pool.grant(used.count, core, node) {
                self.pools[..i].iter().for_each(|used| used.pool.release(used.count));
                return None;
            }
        }
        Some(least)
    }

    /// The greatest room of the inboxes that it fills.
    fn widest(&self) -> usize {
        self.gates.iter().map(|(_, gate)| gate.room()).max().unwrap_or(usize::MAX)
    }

    /// Lets an activation wait until one inbox has room. False if one has, and it goes on.
    fn wait_for_any(&self, core: &Arc<Core>, node: u32) -> bool {
        let wait = core.park_for_any(node);
        let waits = self.gates.iter().all(|(_, gate)| gate.wait_for_any(node, wait));
        waits || !core.goes_on(node, wait)
    }

    /// The graph has failed: batches that wait for their turn, which may not come, are dropped. A thread that
    /// has the lock now does it afterwards.
    fn drop_held(&self) {
        let Some(order) = &self.order else { return };
        let held = match order.try_lock() {
            Ok(mut order) => std::mem::take(&mut order.held),
            Err(TryLockError::Poisoned(order)) => std::mem::take(&mut order.into_inner().held),
            Err(TryLockError::WouldBlock) => return,
        };
        // A datum's destructor may panic; the others are dropped nevertheless.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(held)));
    }

    /// Calls `body` with a replica that no other activation has. There are no more activations than replicas.
    #[inline]
    fn with_replica<R>(&self, mut body: impl FnMut(&mut Option<Replica<N>>) -> R) -> R {
        if let [only] = &*self.replicas {
            return only.replica.with(body);
        }
        loop {
            if let Some(result) = self.replicas.iter().find_map(|seat| seat.replica.try_with(&mut body)) {
                return result;
            }
            std::hint::spin_loop();
        }
    }
}

impl<N: Node> Replica<N> {
    /// Takes a batch, and gives it to the node. Returns the number of data.
    #[inline]
    fn run(&mut self, live: &Live<N>, core: &Arc<Core>, index: u32, room: usize) -> usize {
        let most = if live.pools.is_empty() { self.batch.min(room) } else { 1 };
        let (mut taken, mut sequence, mut arrival) = (0, 0, Arrival { inbox: 0, first: 0 });
        self.turn = self.turn.wrapping_add(1);
        let inboxes = live.inboxes.len();
        if self.buffers.is_empty() {
            self.buffers = live.inboxes.iter().map(|inbox| inbox.buffer()).collect();
        }
        {
            let mut order = live.order.as_ref().map(lock);
            for i in 0..inboxes {
                let i = if inboxes == 1 { 0 } else { (i + self.turn) % inboxes };
                if taken < most {
                    let (count, first) = live.inboxes[i].take(most - taken, core, &mut *self.buffers[i]);
                    if taken == 0 {
                        arrival = Arrival { inbox: i, first };
                    }
                    taken += count;
                }
            }
            if taken > 0
                && let Some(order) = &mut order
            {
                (sequence, order.taken) = (order.taken, order.taken + 1);
            }
        }
        if taken == 0 {
            return 0;
        }
        if live.replicas.len() > 1 {
            // The next activation counts what is left.
            core.nodes[index as usize].word.take(taken as u32);
        }
        let entry = &core.nodes[index as usize];
        let _span =
            flash_trace::is_on().then(|| trace::batch(entry, (self.number, taken), &live.inboxes, arrival));
        // Looking at the clock takes longer than a datum may.
        let timed = self.batch < TIMED || taken >= TIMED || self.turn.is_multiple_of(64);
        let start = timed.then(Instant::now);
        let Replica { node, out, number, buffers, grants, .. } = self;
        let (number, pools) = (*number, &live.pools);
        grants.iter_mut().zip(pools).for_each(|(grant, used)| *grant = used.count);
        let mut cx = Cx { core, node: index, replica: number, pools, grants, batch: most, made: 0 };
        let good = NodeCell::<N>::guarded(core, index, number, || {
            live.inboxes
                .iter()
                .zip(&mut *buffers)
                .try_for_each(|(inbox, buffer)| inbox.give(&mut **buffer, node, out, &mut cx))
        });
        let done = cx.made.max(taken);
        let busy = start.map_or(self.each * done as u64, |start| start.elapsed().as_nanos() as u64);
        live.replicas[number].busy.add(busy);
        if start.is_some() {
            self.each = (busy / done as u64).max(1);
            self.batch = (BATCH_NS / self.each).clamp(1, BATCH as u64) as usize;
        }
        if good {
            // Copies for several edges are the user's code, too.
            NodeCell::<N>::guarded(core, index, number, || {
                match &live.order {
                    None => self.out.flush(Flush(Way::Deliver(true))),
                    Some(order) => self.in_order(order, sequence, core, index),
                }
                Ok(())
            });
        }
        taken
    }

    /// Emits what the batch of this number made, or keeps it until its turn.
    fn in_order(&mut self, order: &Mutex<Order<N::Out>>, number: u64, core: &Arc<Core>, index: u32) {
        // They end when the lock is free, also if a copy for another edge panics.
        let mut late = Vec::new();
        let mut order = lock(order);
        if order.emitted != number {
            let empty = self.out.replica(false);
            let held = (std::mem::replace(&mut self.out, empty), Begun::new(core, index));
            order.held.insert(number, held);
            return;
        }
        // With the lock: the next batch must not overtake this one.
        self.out.flush(Flush(Way::Deliver(false)));
        order.emitted += 1;
        loop {
            let next = order.emitted;
            let Some((mut out, begun)) = order.held.remove(&next) else { break };
            late.push(begun);
            out.flush(Flush(Way::Deliver(false)));
            order.emitted += 1;
        }
    }
}

impl<N: Node> Cell for NodeCell<N> {
    fn bind(&self, core: &Arc<Core>) {
        let (mut config, inboxes, Make { mut out, mut replica }) = {
            let mut setup = lock(&self.setup);
            let Some(make) = setup.make.take() else { return };
            (std::mem::take(&mut setup.config), std::mem::take(&mut setup.inboxes), make)
        };
        let gates = Gates::default();
        out.flush(Flush(Way::Bind(core, &gates)));
        let mut gates = gates.into_inner();
        gates.sort_by_key(|(node, _)| *node);
        gates.dedup_by(|(_, a), (_, b)| Arc::ptr_eq(a, b));
        let pools: Box<[PoolUse]> = std::mem::take(&mut config.pools).into();
        let order = Order { taken: 0, emitted: 0, held: BTreeMap::new() };
        let replicas = (0..config.replicas).map(|number| {
            let replica = Replica {
                node: replica(number),
                out: out.replica(!config.ordered),
                number,
                buffers: Box::default(),
                grants: vec![0; pools.len()].into(),
                batch: 1,
                each: 0,
                turn: 0,
            };
            Seat { replica: Lock::new(Some(replica)), busy: Busy::default() }
        });
        let live = Live {
            replicas: replicas.collect(),
            inboxes: inboxes.into(),
            gates,
            any_room: config.any_room.take(),
            pools,
            strand: config.strand.take(),
            order: config.ordered.then(|| Mutex::new(order)),
        };
        let _ = self.live.set(live);
    }

    fn start(&self, core: &Arc<Core>, node: u32) {
        self.each(core, node, N::start);
    }

    fn activate(&self, core: &Arc<Core>, node: u32) {
        let live = self.live();
        if let Some(strand) = &live.strand
            && !strand.enter(core, node)
        {
            return;
        }
        let Some(room) = live.passes(core, node) else {
            return live.strand.iter().for_each(|strand| strand.leave(core));
        };
        let taken = live.with_replica(|replica| {
            // None: the graph has ended meanwhile.
            let Some(replica) = replica else { return 0 };
            let taken = replica.run(live, core, node, room);
            for (used, &left) in live.pools.iter().zip(&replica.grants) {
                used.pool.release(if taken > 0 { left } else { used.count });
            }
            taken as u32
        });
        live.strand.iter().for_each(|strand| strand.leave(core));
        if core.has_failed() {
            live.drop_held();
        }
        core.settle(node, taken, if live.replicas.len() > 1 { 0 } else { taken });
    }

    fn finish(&self, core: &Arc<Core>, node: u32) {
        self.each(core, node, N::finish);
        if flash_trace::is_on() {
            trace::empty(&core.nodes[node as usize], &self.live().inboxes);
        }
        core.finished(node);
    }

    fn refuse(&self, core: &Arc<Core>) {
        if let Some(live) = self.live.get() {
            live.drop_held();
            live.inboxes.iter().for_each(|inbox| inbox.clear(core));
        }
    }

    fn clear(&self, core: &Arc<Core>) {
        let Some(live) = self.live.get() else { return };
        live.inboxes.iter().for_each(|inbox| inbox.clear(core));
        live.pools.iter().for_each(|used| used.pool.forget(core));
        live.drop_held();
        for seat in &live.replicas {
            let replica = seat.replica.with(Option::take);
            // The destructor of a node may panic.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(replica)));
        }
    }

    fn waits(&self, core: &Core) -> Option<String> {
        let live = self.live.get()?;
        let pending: usize = live.inboxes.iter().map(|inbox| inbox.filled().len).sum();
        if pending > 0 {
            if let Some((node, gate)) = live.gates.iter().find(|(_, gate)| gate.room() == 0) {
                let name = &core.nodes[*node as usize].name;
                let capacity = gate.capacity();
                return Some(format!(
                    "has {pending} data and waits for room in the inbox of `{name}`, which holds {capacity}"
                ));
            }
            if let Some(used) = live.pools.iter().find(|used| used.pool.free() < used.count) {
                let (name, capacity) = (used.pool.name(), used.pool.capacity());
                let (count, free) = (used.count, used.pool.free());
                return Some(format!(
                    "has {pending} data and waits for {count} of pool `{name}`, which has {free} of {capacity} free"
                ));
            }
        }
        live.replicas.iter().find_map(|seat| {
            seat.replica
                .try_with(|replica| replica.as_ref().and_then(|replica| replica.node.holds()))
                .flatten()
        })
    }

    fn busy(&self) -> Duration {
        self.live.get().iter().flat_map(|live| &live.replicas).map(|seat| seat.busy.so_far()).sum()
    }

    fn inboxes(&self) -> Vec<Filled> {
        self.live.get().iter().flat_map(|live| &live.inboxes).map(|inbox| inbox.filled()).collect()
    }
}

impl Core {
    /// A node returned an error.
    #[cold]
    pub(crate) fn node_failed(self: &Arc<Core>, node: u32, replica: usize, error: &Error) {
        let (node, text) = (self.nodes[node as usize].name.clone(), error.to_string());
        self.fail(GraphError::Failed { node, replica, text });
    }
}
