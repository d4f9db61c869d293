//! Threads of a node's own, on which it may block.

use crate::lane::lock;
use crate::schedule::Core;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The activations of a node that has threads of its own.
#[derive(Default)]
pub(crate) struct Dedicated {
    state: Mutex<State>,
    changed: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    activations: VecDeque<u32>,
    stopped: bool,
}

impl Dedicated {
    /// Starts the threads, as many as the node has replicas.
    pub(crate) fn start(self: &Arc<Dedicated>, core: &Arc<Core>, name: &str, count: u32) {
        for _ in 0..count {
            let (here, served) = (self.clone(), core.clone());
            let body = move || {
                while let Some(activation) = here.next() {
                    served.run(activation);
                }
            };
            match Builder::new().name(name.into()).spawn(body) {
                Ok(thread) => lock(&self.threads).push(thread),
                Err(error) => core.fail(crate::GraphError::Failed {
                    node: name.into(),
                    replica: 0,
                    text: format!("cannot start its thread: {error}"),
                }),
            }
        }
    }

    pub(crate) fn push(&self, activation: u32) {
        lock(&self.state).activations.push_back(activation);
        self.changed.notify_one();
    }

    fn next(&self) -> Option<u32> {
        let mut state = lock(&self.state);
        loop {
            if let Some(activation) = state.activations.pop_front() {
                return Some(activation);
            }
            if state.stopped {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads, once the graph has ended.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // Panics of nodes are caught; one of the library itself ended the thread.
            let _ = thread.join();
        }
    }
}
