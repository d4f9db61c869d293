//! What a graph records while a trace is going on: a span for each batch, an arrow to it from the batch that
//! brought its first datum, and the lengths of queues.

use crate::cell::Inbox;
use crate::lane::Lane;
use crate::node::Node;
use crate::schedule::Entry;
use flash_trace::hooks::{self, Category, Span};
use std::sync::Arc;
use std::time::Instant;

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

/// A node has ended: its queues are empty, whatever threads that met there have recorded last.
#[cold]
pub(crate) fn empty<N: Node>(node: &Entry, inboxes: &[Arc<dyn Inbox<N>>]) {
    inboxes.iter().for_each(|inbox| hooks::queue(&node.name, inbox.key(), 0));
}

/// The time, if it is needed for [`delivered`].
#[inline]
pub(crate) fn now() -> Option<Instant> {
    flash_trace::is_on().then(Instant::now)
}

/// Data have been put into an inbox of a node, where `first` ever came before them. They left before that.
#[cold]
pub(crate) fn delivered<T>(node: &Entry, lane: &Lane<T>, first: u64, count: usize, left: Instant) {
    if !node.is_exit {
        hooks::data_out(std::any::type_name::<T>(), key(lane), first, count, left);
        hooks::queue(&node.name, key(lane), lane.len());
    }
}
