//! Components: a node that is in no cycle, or all nodes of one. A component closes when everything that feeds
//! it has ended, and ends when it is closed, holds no data, and its nodes have finished.

use crate::schedule::Core;
use crate::word::{After, Count};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Component {
    /// Of a cycle; a node by itself has its word.
    pub(crate) count: Count,
    pub(crate) nodes: SmallVec<[u32; 2]>,
    pub(crate) cyclic: bool,
    /// Components and inputs that feed it and have not ended, one for each edge.
    pub(crate) feeds: AtomicU32,
    /// The component at the end of each edge that leaves it.
    pub(crate) downstream: SmallVec<[u32; 2]>,
    /// Nodes of a cycle that have finished.
    pub(crate) finished: AtomicU32,
}

impl Core {
    /// One of the edges to a component brings nothing more.
    pub(crate) fn feed_ended(self: &Arc<Core>, component: u32) {
        if self.components[component as usize].feeds.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close(component);
        }
    }

    /// Closes a component to which no edge brings anything.
    pub(crate) fn close(self: &Arc<Core>, index: u32) {
        let component = &self.components[index as usize];
        if component.cyclic {
            if component.count.close() {
                self.finish_next(index);
            }
        } else if self.nodes[component.nodes[0] as usize].word.close() == After::Ends {
            self.node_ends(component.nodes[0]);
        }
    }

    /// `count` data of a cycle are done with.
    #[inline]
    pub(crate) fn count_down(self: &Arc<Core>, component: u32, count: u32) {
        if self.components[component as usize].count.sub(count) {
            self.finish_next(component);
        }
    }

    /// A cycle is closed and empty: its next node finishes, which may fill it again.
    fn finish_next(self: &Arc<Core>, index: u32) {
        let component = &self.components[index as usize];
        match component.nodes.get(component.finished.fetch_add(1, Ordering::AcqRel) as usize) {
            Some(&node) => {
                component.count.hold();
                self.finish_in_cycle(node);
            }
            None => self.component_ended(index),
        }
    }

    /// All nodes of a component have finished.
    pub(crate) fn component_ended(self: &Arc<Core>, index: u32) {
        let downstream = &self.components[index as usize].downstream;
        downstream.iter().for_each(|&component| self.feed_ended(component));
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify();
        }
    }
}
