//! Inputs of a graph: where data come in.

use crate::cell::Gates;
use crate::error::PushError;
use crate::graph::{Begins, EdgeFrom};
use crate::lane::Waiter;
use crate::port::{Origin, Port};
use crate::schedule::Core;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// An input of a graph, for data of one type: [`Run::push`](crate::Run::push).
pub struct Input<T> {
    pub(crate) cell: Arc<InputCell<T>>,
}

impl<T: Send + 'static> Input<T> {
    pub(crate) fn new(index: u32) -> Input<T> {
        let port = Arc::new(Port::new(Origin::Input(index)));
        Input { cell: Arc::new(InputCell { port, closed: AtomicBool::new(false), feeds: OnceLock::new() }) }
    }
}

impl<T: Send + 'static> EdgeFrom for Input<T> {
    type Item = T;
    fn begins(&self) -> Begins<'_, T> {
        Begins(&self.cell.port)
    }
}

pub(crate) struct InputCell<T> {
    port: Arc<Port<T>>,
    closed: AtomicBool,
    /// The component at the end of each of its edges.
    feeds: OnceLock<Box<[u32]>>,
}

pub(crate) trait AnyInput: Send + Sync {
    fn bind(&self, core: &Arc<Core>);
    fn close(&self, core: &Arc<Core>);
}

impl<T: Send + 'static> AnyInput for InputCell<T> {
    fn bind(&self, core: &Arc<Core>) {
        self.port.bind(core, &Gates::default());
        let component = |node: u32| core.nodes[node as usize].component;
        let _ = self.feeds.set(self.port.targets().iter().map(|target| component(target.node)).collect());
    }

    fn close(&self, core: &Arc<Core>) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            core.inputs.fetch_sub(1, Ordering::AcqRel);
            self.feeds.get().into_iter().flatten().for_each(|&component| core.feed_ended(component));
        }
    }
}

impl<T: Send + 'static> InputCell<T> {
    /// The core of the graph, if it is still open to this input.
    #[inline]
    fn is_open(&self, core: &Arc<Core>) -> bool {
        !core.has_failed() && !self.closed.load(Ordering::Acquire)
    }

    /// The number of data that all nodes at the ends of its edges have room for.
    #[inline]
    fn room(&self) -> usize {
        self.port.targets().iter().map(|target| target.lane.room()).min().unwrap_or(0)
    }

    /// Helps until there is room. False if the input is closed first.
    #[inline]
    fn wait_for_room(&self, core: &Arc<Core>) -> bool {
        if self.room() > 0 {
            return true;
        }
        core.pushing.fetch_add(1, Ordering::AcqRel);
        let open = core.help(|_| {
            if !self.is_open(core) {
                return Some(false);
            }
            let targets = self.port.targets();
            let waits = targets.iter().any(|target| target.lane.wait_for_room(Waiter::Outside, || ()));
            (!waits).then_some(true)
        });
        core.pushing.fetch_sub(1, Ordering::AcqRel);
        open
    }

    #[inline]
    pub(crate) fn push(&self, core: &Arc<Core>, datum: T) -> Result<(), PushError<T>> {
        if !self.is_open(core) || !self.wait_for_room(core) {
            return Err(PushError::Closed(datum));
        }
        self.deliver(core, datum)
    }

    pub(crate) fn try_push(&self, core: &Arc<Core>, datum: T) -> Result<(), PushError<T>> {
        if !self.is_open(core) {
            return Err(PushError::Closed(datum));
        }
        if self.room() == 0 {
            return Err(PushError::Full(datum));
        }
        self.deliver(core, datum)
    }

    #[inline]
    fn deliver(&self, core: &Arc<Core>, datum: T) -> Result<(), PushError<T>> {
        match self.port.targets() {
            [only] => core.deliver_one(only, datum).map_err(PushError::Closed),
            _ => {
                self.port.deliver(&mut VecDeque::from([datum]), false);
                Ok(())
            }
        }
    }

    /// Pushes all of them; the error has the number of those that were pushed.
    pub(crate) fn push_all(
        &self,
        core: &Arc<Core>,
        data: impl IntoIterator<Item = T>,
    ) -> Result<(), PushError<usize>> {
        let (mut data, mut buffer, mut pushed) = (data.into_iter().peekable(), VecDeque::new(), 0);
        while data.peek().is_some() {
            if !self.is_open(core) || !self.wait_for_room(core) {
                return Err(PushError::Closed(pushed));
            }
            buffer.extend(data.by_ref().take(self.room().clamp(1, crate::cell::INBOX)));
            pushed += buffer.len();
            self.port.deliver(&mut buffer, false);
        }
        Ok(())
    }
}
