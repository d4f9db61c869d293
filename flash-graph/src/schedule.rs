//! A graph that runs: its nodes, what is ready, and the threads that run it.
//!
//! Ready activations stand in a queue per priority. Threads that wait for something of the graph take from
//! it, and workers of the process that were called. A thread that publishes an activation calls another only
//! if none looks for work already, and if there is more than it will take itself. A thread that waits and
//! sleeps comes before a worker. `signal.rs` sees to it that no activation is left lying.

use crate::cell::Cancel;
use crate::component::Component;
use crate::dedicated::Dedicated;
use crate::error::GraphError;
use crate::guard;
use crate::lane::{Filled, Waiter, lock};
use crate::port::Target;
use crate::signal::{Call, Seen, Signal};
use crate::times::{For, Waits};
use crate::trace;
use crate::word::{After, Word};
use crate::workers;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use flash_core::runtime::pipelines_wait;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Marks the activation that finishes a node.
const FINISH: u32 = 1 << 31;
/// A worker that is here serves this many activations, and then looks for other work of the process.
const SERVED: usize = 256;
/// Looks of a thread that finds nothing, and pauses between them: some 200 us.
const LOOKS: usize = 80;
pub(crate) const PAUSES: usize = 128;
/// Looks at one single activation before a worker takes it: its publisher is usually about to.
const KEPT: usize = 4;

/// A node of a graph that runs.
pub(crate) struct Entry {
    pub(crate) word: CachePadded<Word>,
    pub(crate) name: String,
    pub(crate) cell: Arc<dyn Cell>,
    pub(crate) replicas: u32,
    /// Its place among the priorities, 0 the highest.
    pub(crate) level: u32,
    pub(crate) component: u32,
    /// It is in a cycle, which has a count of its own.
    pub(crate) cyclic: bool,
    /// Threads outside take what comes here.
    pub(crate) is_exit: bool,
    pub(crate) dedicated: Option<Arc<Dedicated>>,
    /// Activations that wait for room, a pool or a strand.
    pub(crate) parked: AtomicU32,
    /// Waits for one of several inboxes that have ended.
    pub(crate) waits: AtomicU32,
    /// How long activations have waited.
    pub(crate) waited: Waits,
}

/// What a node does, with its type erased.
pub(crate) trait Cell: Send + Sync {
    /// Fixes edges, and makes the replicas.
    fn bind(&self, core: &Arc<Core>);
    /// Calls `start` of each replica.
    fn start(&self, core: &Arc<Core>, node: u32);
    /// Runs a batch.
    fn activate(&self, core: &Arc<Core>, node: u32);
    /// Calls `finish` of each replica.
    fn finish(&self, core: &Arc<Core>, node: u32);
    /// The graph has failed: data are dropped, and what comes is refused.
    fn refuse(&self, core: &Arc<Core>);
    /// Drops the replicas and all data.
    fn clear(&self, core: &Arc<Core>);
    /// What keeps it from running, or what it still holds.
    fn waits(&self, core: &Core) -> Option<String>;
    /// Its inboxes.
    fn inboxes(&self) -> Vec<Filled>;
    /// How long its replicas have run, all together.
    fn busy(&self) -> Duration;
}

pub(crate) struct Core {
    pub(crate) nodes: Box<[Entry]>,
    pub(crate) components: Box<[Component]>,
    /// Components that have not ended.
    pub(crate) open: AtomicUsize,
    /// Inputs that are not closed.
    pub(crate) inputs: AtomicUsize,
    pub(crate) ready: Box<[ArrayQueue<u32>]>,
    pub(crate) started: AtomicBool,
    pub(crate) failed: AtomicBool,
    failure: Mutex<Option<GraphError>>,
    cancels: Mutex<Vec<Cancel>>,
    pub(crate) deadline: Option<(Instant, Duration)>,
    /// Which threads are here.
    pub(crate) signal: CachePadded<Signal>,
    /// Changes with everything that a waiting thread may wait for.
    pub(crate) changes: AtomicU32,
    /// Changes with every activation that runs.
    ran: AtomicU32,
    /// The last worker was called in vain (`guard.rs`), and whether the graph is watched therefore.
    in_vain: AtomicBool,
    watched: AtomicBool,
    /// Changes whenever threads that sleep are woken.
    pub(crate) wakes: Mutex<u32>,
    pub(crate) woken: Condvar,
    /// Threads that wait in `push`.
    pub(crate) pushing: AtomicUsize,
}

/// What a graph is made of when it starts.
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Entry>,
    pub(crate) components: Vec<Component>,
    pub(crate) inputs: usize,
    pub(crate) levels: usize,
    pub(crate) limit: Option<Duration>,
    pub(crate) cancels: Vec<Cancel>,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Arc<Core> {
        // Each node may be ready as often as it has replicas, and once to finish.
        let most: usize = parts.nodes.iter().map(|node| node.replicas as usize + 2).sum();
        let ready = (0..parts.levels).map(|_| ArrayQueue::new(most.next_power_of_two())).collect();
        Arc::new(Core {
            open: AtomicUsize::new(parts.components.len()),
            nodes: parts.nodes.into(),
            components: parts.components.into(),
            inputs: AtomicUsize::new(parts.inputs),
            ready,
            started: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            cancels: Mutex::new(parts.cancels),
            deadline: parts.limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit))),
            signal: CachePadded::default(),
            changes: AtomicU32::new(0),
            ran: AtomicU32::new(0),
            in_vain: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            wakes: Mutex::new(0),
            woken: Condvar::new(),
            pushing: AtomicUsize::new(0),
        })
    }

    /// Nodes have started: threads may come.
    pub(crate) fn open_to_threads(self: &Arc<Core>) {
        self.started.store(true, Ordering::Release);
        self.call(false);
    }

    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    pub(crate) fn failure(&self) -> Option<GraphError> {
        lock(&self.failure).clone()
    }

    /// Ends the graph before its time. The first reason stays.
    #[cold]
    pub(crate) fn fail(self: &Arc<Core>, error: GraphError) {
        {
            let mut failure = lock(&self.failure);
            if failure.is_some() || self.is_done() {
                return;
            }
            *failure = Some(error);
        }
        self.failed.store(true, Ordering::SeqCst);
        for cancel in std::mem::take(&mut *lock(&self.cancels)) {
            // A hook that panics must not keep the others from being called.
            let _ = catch_unwind(AssertUnwindSafe(&*cancel));
        }
        for node in &self.nodes {
            // A datum whose destructor panics must not keep the others.
            let _ = catch_unwind(AssertUnwindSafe(|| node.cell.refuse(self)));
        }
        self.notify();
    }

    /// Delivers data along an edge. They are counted after they are there; a cycle counts them before.
    #[inline]
    pub(crate) fn deliver<T>(
        self: &Arc<Core>,
        target: &Target<T>,
        data: &mut VecDeque<T>,
        last: bool,
    ) -> bool {
        let (node, count) = (&self.nodes[target.node as usize], data.len() as u32);
        if node.cyclic && !self.components[node.component as usize].count.add(count) {
            data.clear();
            return false;
        }
        let left = trace::now();
        let put = target.lane.put_all(data);
        left.inspect(|left| trace::delivered(node, &target.lane, put.first, count as usize, *left));
        self.delivered(target.node, count, put.awaited, last)
    }

    /// As [`deliver`](Self::deliver), of one datum. It comes back if the node has ended.
    #[inline]
    pub(crate) fn deliver_one<T>(self: &Arc<Core>, target: &Target<T>, datum: T) -> Result<(), T> {
        let node = &self.nodes[target.node as usize];
        if node.cyclic && !self.components[node.component as usize].count.add(1) {
            return Err(datum);
        }
        let left = trace::now();
        let put = target.lane.put(datum);
        left.inspect(|left| trace::delivered(node, &target.lane, put.first, 1, *left));
        match self.delivered(target.node, 1, put.awaited, false) {
            true => Ok(()),
            // Nothing else takes what is in the inbox of a node that has ended.
            false => target.lane.take_one(|_| ()).map_or(Ok(()), Err),
        }
    }

    #[inline]
    fn delivered(self: &Arc<Core>, index: u32, count: u32, awaited: bool, last: bool) -> bool {
        let node = &self.nodes[index as usize];
        if node.is_exit {
            match awaited {
                true => self.notify(),
                false => self.hint(),
            }
            return true;
        }
        let after = node.word.add(count, node.replicas);
        self.follow(index, after, last);
        after != After::Ended
    }

    /// More work for a node that is not an edge's: a source has more.
    pub(crate) fn again(self: &Arc<Core>, index: u32) {
        self.delivered(index, 1, false, true);
    }

    /// Does what a change of a node's word asks for.
    #[inline]
    fn follow(self: &Arc<Core>, index: u32, after: After, last: bool) {
        match after {
            After::Nothing | After::Ended => {}
            After::Activations(count) => (0..count).for_each(|_| self.publish(index, last)),
            After::Ends => self.node_ends(index),
        }
    }

    /// The node's last activation is due.
    #[cold]
    pub(crate) fn node_ends(self: &Arc<Core>, index: u32) {
        match self.nodes[index as usize].is_exit {
            true => self.nodes[index as usize].cell.finish(self, index),
            false => self.publish(index | FINISH, true),
        }
    }

    /// Lets a node of a cycle finish.
    pub(crate) fn finish_in_cycle(self: &Arc<Core>, index: u32) {
        self.nodes[index as usize].word.finish();
        self.publish(index | FINISH, true);
    }

    /// An activation has run: `taken` data are done with, of which `uncounted` are still counted as pending.
    #[inline]
    pub(crate) fn settle(self: &Arc<Core>, index: u32, taken: u32, uncounted: u32) {
        let node = &self.nodes[index as usize];
        if self.has_failed() {
            return self.abandon(index);
        }
        let after = node.word.settle(uncounted);
        self.follow(index, after, true);
        if node.cyclic && taken > 0 {
            self.count_down(node.component, taken);
        }
    }

    /// A node, which runs, will emit something after it has settled.
    pub(crate) fn begin_later(&self, index: u32) {
        let node = &self.nodes[index as usize];
        node.word.begin();
        if node.cyclic {
            self.components[node.component as usize].count.hold();
        }
    }

    /// What was begun is emitted.
    pub(crate) fn end_later(self: &Arc<Core>, index: u32) {
        let node = &self.nodes[index as usize];
        let after = node.word.emitted();
        if self.has_failed() {
            // The activation that would have finished the node is counted, and never runs.
            return if after == After::Ends { self.abandon(index) } else { self.notify() };
        }
        self.follow(index, after, false);
        if node.cyclic {
            self.count_down(node.component, 1);
        }
    }

    /// The activation that finishes a node has run.
    pub(crate) fn finished(self: &Arc<Core>, index: u32) {
        let node = &self.nodes[index as usize];
        if self.has_failed() {
            return self.abandon(index);
        }
        let after = node.word.settle(0);
        self.follow(index, after, true);
        match node.cyclic {
            true => self.count_down(node.component, 1),
            false => self.component_ended(node.component),
        }
    }

    fn abandon(&self, index: u32) {
        self.nodes[index as usize].word.abandon();
        self.notify();
    }

    /// An activation waits for something else than a thread.
    pub(crate) fn park(&self, index: u32, of: For) {
        self.nodes[index as usize].waited.begins(of);
        self.nodes[index as usize].parked.fetch_add(1, Ordering::AcqRel);
    }

    /// An activation waits for one of several things. Returns the number of its wait.
    pub(crate) fn park_for_any(&self, index: u32) -> u32 {
        self.park(index, For::Room);
        self.nodes[index as usize].waits.load(Ordering::Acquire)
    }

    /// Ends a wait for one of several things. False if it had ended.
    pub(crate) fn goes_on(&self, index: u32, wait: u32) -> bool {
        let node = &self.nodes[index as usize];
        let next = wait.wrapping_add(1);
        let ends = node.waits.compare_exchange(wait, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if ends {
            node.waited.ends(For::Room);
            node.parked.fetch_sub(1, Ordering::AcqRel);
        }
        ends
    }

    /// What an activation, or a thread outside, waited for may be there.
    pub(crate) fn unpark(self: &Arc<Core>, waiter: Waiter) {
        match waiter {
            Waiter::Outside => self.notify(),
            Waiter::Any(index, wait) => {
                if self.goes_on(index, wait) {
                    self.publish(index, false);
                }
            }
            Waiter::Node(index) => self.unparked(index, For::Room),
            Waiter::Pool(index) => self.unparked(index, For::Pool),
        }
    }

    fn unparked(self: &Arc<Core>, index: u32, of: For) {
        self.nodes[index as usize].waited.ends(of);
        self.nodes[index as usize].parked.fetch_sub(1, Ordering::AcqRel);
        self.publish(index, false);
    }

    /// Lets an activation run.
    #[inline]
    fn publish(self: &Arc<Core>, activation: u32, last: bool) {
        let node = &self.nodes[(activation & !FINISH) as usize];
        if let Some(dedicated) = &node.dedicated {
            return dedicated.push(activation);
        }
        let pushed = self.ready[node.level as usize].push(activation);
        debug_assert!(pushed.is_ok(), "no more activations than there is room for");
        let seen = self.signal.news();
        let mine = last && self.ready() <= 1;
        if !(seen.is_looked_after() || mine || self.is_watched(seen)) {
            self.call(last);
        }
    }

    /// True if a single activation is left to the threads that are here, and looked after.
    #[inline]
    fn is_watched(&self, seen: Seen) -> bool {
        !seen.sleeps()
            && self.watched.load(Ordering::Relaxed)
            && self.in_vain.load(Ordering::Relaxed)
            && self.ready() <= 1
    }

    /// The number of activations that have run, nearly.
    pub(crate) fn ran(&self) -> u32 {
        self.ran.load(Ordering::Relaxed)
    }

    /// A tick of the thread that watches. None if it need not any more, else what has run.
    pub(crate) fn keeps_watch(self: &Arc<Core>, before: u32) -> Option<u32> {
        let ran = self.ran();
        if self.is_done() || self.has_failed() {
            return None;
        }
        if ran != before {
            return Some(ran);
        }
        self.watched.store(false, Ordering::Relaxed);
        // A publisher from now on sees that; the queue has what others have published.
        self.signal.news();
        if self.ready() > 0 {
            self.in_vain.store(false, Ordering::Relaxed);
            self.call(false);
        }
        None
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.iter().map(ArrayQueue::len).sum()
    }

    /// Calls a thread if one is needed. With `last` this thread takes one activation itself.
    #[inline(never)]
    pub(crate) fn call(self: &Arc<Core>, last: bool) {
        if !self.started.load(Ordering::Relaxed) || self.ready() <= usize::from(last) {
            return;
        }
        if self.in_vain.load(Ordering::Relaxed)
            && self.ready() == 1
            && !self.signal.seen().sleeps()
            && (self.watched.swap(true, Ordering::AcqRel) || guard::watch(self))
        {
            return;
        }
        match self.signal.call(workers::most()) {
            Call::None => {}
            Call::Sleeper => self.wake(),
            Call::Worker => workers::call(self.clone()),
        }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<u32> {
        self.ready.iter().find_map(ArrayQueue::pop)
    }

    /// Runs an activation.
    #[inline]
    pub(crate) fn run(self: &Arc<Core>, activation: u32) {
        let index = activation & !FINISH;
        self.ran.store(self.ran().wrapping_add(1), Ordering::Relaxed);
        if self.has_failed() {
            return self.abandon(index);
        }
        let cell = &self.nodes[index as usize].cell;
        match activation & FINISH {
            0 => cell.activate(self, index),
            _ => cell.finish(self, index),
        }
    }

    /// Serves the graph, on a worker that was called. True if it is to be called again at once.
    pub(crate) fn serve(self: &Arc<Core>) -> bool {
        self.signal.arrive();
        let mut left = SERVED;
        loop {
            while left > 0
                && let Some(activation) = self.pop()
            {
                // This thread no longer looks, so another may be needed.
                if self.ready() > 0 && !self.signal.seen().is_looked_after() {
                    self.call(false);
                }
                self.run(activation);
                left -= 1;
            }
            if left == 0 || !self.look() {
                break;
            }
        }
        self.in_vain.store(left == SERVED, Ordering::Relaxed);
        self.signal.leave();
        if self.ready() == 0 {
            return false;
        }
        match self.signal.call(workers::most()) {
            Call::None => false,
            Call::Sleeper => {
                self.wake();
                false
            }
            Call::Worker => true,
        }
    }

    /// Looks for work for a while. False if there is none.
    fn look(&self) -> bool {
        self.signal.look();
        let mut kept = 0;
        for _ in 0..LOOKS {
            match self.ready() {
                0 => kept = 0,
                1 if kept < KEPT => kept += 1,
                _ => break,
            }
            // A launch of this very graph may wait for a worker.
            if self.is_done() || self.has_failed() || pipelines_wait() {
                break;
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        self.signal.look_away();
        self.ready() > 0
    }

    /// A hint for threads that spin: two changes at once may look like one.
    #[inline]
    fn hint(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Something that a thread may wait for has changed: those that sleep are woken.
    #[inline]
    pub(crate) fn notify(&self) {
        self.hint();
        if self.signal.news().sleeps() {
            self.wake();
        }
    }

    #[cold]
    pub(crate) fn wake(&self) {
        {
            let mut wakes = lock(&self.wakes);
            *wakes = wakes.wrapping_add(1);
        }
        self.woken.notify_all();
    }
}
