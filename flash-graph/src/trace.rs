//! What a graph records while a trace is going on: a span for each batch, an arrow to it from the batch that
//! brought its first datum, and the lengths of queues.

use crate::cell::Inbox;
use crate::lane::Lane;
use crate::node::Node;
use crate::schedule::Entry;
use flash_trace::hooks::{self, Category, Span};
use std::sync::Arc;

/// Tells a lane from others.
pub(crate) fn key<T>(lane: &Lane<T>) -> u64 {
    std::ptr::from_ref(lane).addr() as u64
}

/// A call of a node, for a number of data.
#[cold]
pub(crate) fn call(name: &str, replica: usize, data: usize) -> Span {
    hooks::begin(Category::Node, name, [replica as u64, data as u64])
}

/// Where a batch comes from.
pub(crate) struct Arrival {
    pub(crate) inbox: usize,
    /// The number of its first datum, of all that ever came there.
    pub(crate) first: u64,
}

/// A batch of a node has been taken from its inboxes.
#[cold]
pub(crate) fn batch<N: Node>(
    node: &Entry,
    (replica, data): (usize, usize),
    inboxes: &[Arc<dyn Inbox<N>>],
    Arrival { inbox, first }: Arrival,
) -> Span {
    let span = call(&node.name, replica, data);
    hooks::data_in(inboxes[inbox].key(), first);
    inboxes.iter().for_each(|inbox| hooks::queue(&node.name, inbox.key(), inbox.filled().len));
    span
}

/// Data have been put into an inbox of a node, of which `first` were there before, ever.
#[cold]
pub(crate) fn delivered<T>(node: &Entry, lane: &Lane<T>, first: u64, count: usize) {
    if !node.is_exit {
        hooks::data_out(std::any::type_name::<T>(), key(lane), first, count);
        hooks::queue(&node.name, key(lane), lane.len());
    }
}
