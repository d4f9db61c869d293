//! Strands: nodes of which one at a time runs, and the state that they share.

use crate::lane::{Waiter, lock};
use crate::schedule::Core;
use crate::times::For;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// State that several nodes share. They are on one strand: at most one of them runs at a time, and the others
/// wait without a thread. Clones are the same state.
///
/// [`Graph::shared`](crate::Graph::shared) makes one, [`NodeRef::on`](crate::NodeRef::on) puts a node on it.
pub struct Shared<S> {
    pub(crate) strand: Arc<Strand>,
    state: Arc<Mutex<S>>,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared { strand: self.strand.clone(), state: self.state.clone() }
    }
}

impl<S> Shared<S> {
    pub(crate) fn new(state: S) -> Shared<S> {
        Shared { strand: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// Calls `body` with the state. A node that is on the strand never waits for it.
    pub fn with<R>(&self, body: impl FnOnce(&mut S) -> R) -> R {
        body(&mut lock(&self.state))
    }
}

#[derive(Default)]
pub(crate) struct Strand(Mutex<Turn>);

#[derive(Default)]
struct Turn {
    taken: bool,
    waiters: VecDeque<u32>,
}

impl Strand {
    /// Enters, or lets the activation wait for its turn.
    pub(crate) fn enter(&self, core: &Core, node: u32) -> bool {
        let mut turn = lock(&self.0);
        if turn.taken {
            core.park(node, For::Room);
            turn.waiters.push_back(node);
            return false;
        }
        turn.taken = true;
        true
    }

    pub(crate) fn leave(&self, core: &Arc<Core>) {
        let next = {
            let mut turn = lock(&self.0);
            turn.taken = false;
            turn.waiters.pop_front()
        };
        next.into_iter().for_each(|node| core.unpark(Waiter::Node(node)));
    }
}
