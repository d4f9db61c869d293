//! Outputs of a graph: where data leave it.

use crate::cell::Config;
use crate::graph::{EdgeTo, Ends, PlannedCell};
use crate::lane::{Filled, Lane, Waiter};
use crate::schedule::{Cell, Core};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An output of a graph: what comes to it, [`Run::results`](crate::Run::results) hands out.
pub struct Output<T> {
    pub(crate) cell: Arc<ExitCell<T>>,
    pub(crate) index: u32,
}

impl<T: Send + 'static> Output<T> {
    /// How many results wait to be taken, until the nodes that make them wait; as many as there are, unless
    /// this is called. A thread that pushes and takes no results must not push more than fit.
    pub fn inbox(self, capacity: usize) -> Self {
        self.cell.lane.set_capacity(capacity.max(1));
        self
    }
}

impl<T: Send + 'static> EdgeTo<T> for Output<T> {
    fn ends(&self) -> Ends<T> {
        Ends { node: self.index, lane: self.cell.lane.clone() }
    }
}

pub(crate) struct ExitCell<T> {
    lane: Arc<Lane<T>>,
    closed: AtomicBool,
}

impl<T: Send + 'static> ExitCell<T> {
    pub(crate) fn new() -> ExitCell<T> {
        let lane = Arc::new(Lane::new(usize::MAX));
        ExitCell { lane, closed: AtomicBool::new(false) }
    }

    /// A result, if there is one.
    #[inline]
    pub(crate) fn take(&self, core: &Arc<Core>) -> Option<T> {
        if self.lane.len() == 0 {
            return None;
        }
        self.lane.take_one(|waiter: Waiter| core.unpark(waiter))
    }

    /// A result, or that none comes any more; `None` if one may come. With `sleeps` the thread sleeps then,
    /// until it is notified.
    #[inline]
    pub(crate) fn next(&self, core: &Arc<Core>, sleeps: bool) -> Option<Option<T>> {
        if sleeps {
            self.lane.wait_for_data();
        }
        match self.take(core) {
            None if core.has_failed() => Some(None),
            // It was closed after the last result was there.
            None if self.closed.load(Ordering::Acquire) => Some(self.take(core)),
            None => None,
            result => Some(result),
        }
    }
}

impl<T: Send + 'static> Cell for ExitCell<T> {
    fn bind(&self, _: &Arc<Core>) {}

    fn start(&self, _: &Arc<Core>, _: u32) {}

    fn activate(&self, core: &Arc<Core>, node: u32) {
        core.settle(node, 0, 0);
    }

    fn finish(&self, core: &Arc<Core>, node: u32) {
        self.closed.store(true, Ordering::Release);
        core.finished(node);
        core.notify();
    }

    fn refuse(&self, core: &Arc<Core>) {
        self.lane.clear(true, |waiter| core.unpark(waiter));
    }

    fn clear(&self, core: &Arc<Core>) {
        self.refuse(core);
    }

    fn waits(&self, _: &Core) -> Option<String> {
        None
    }

    fn busy(&self) -> Duration {
        Duration::ZERO
    }

    fn inboxes(&self) -> Vec<Filled> {
        vec![self.lane.filled()]
    }
}

impl<T: Send + 'static> PlannedCell for ExitCell<T> {
    fn config<'a>(&self, look: &mut (dyn FnMut(&mut Config) + 'a)) {
        let capacity = self.lane.capacity();
        look(&mut Config { capacity, ..Config::default() });
    }

    fn as_cell(self: Arc<Self>) -> Arc<dyn Cell> {
        self
    }
}
