//! What ends a graph before its time.

use std::fmt;
use std::time::Duration;

/// What a node returns when it cannot go on. Any error becomes one by `?` or `into()`.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What has ended a graph, or kept it from starting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GraphError {
    /// A node returned an error.
    Failed {
        /// The node's name, with the scopes that it is in.
        node: String,
        /// Which of its replicas.
        replica: usize,
        /// The error's text.
        text: String,
    },
    /// A node panicked. It is not called again.
    Panicked {
        /// The node's name, with the scopes that it is in.
        node: String,
        /// Which of its replicas.
        replica: usize,
        /// The panic's text.
        text: String,
    },
    /// Nothing can run any more, though there are data.
    Stuck {
        /// Each node that waits, and for what.
        waits: Vec<String>,
    },
    /// The graph is not sound, so it was not started.
    Refused {
        /// What is wrong, one entry each.
        faults: Vec<String>,
    },
    /// [`Run::cancel`](crate::Run::cancel) was called.
    Cancelled,
    /// It took longer than its time limit.
    TimeLimit(Duration),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Failed { node, replica, text } => {
                write!(f, "node `{node}` (replica {replica}) failed: {text}")
            }
            GraphError::Panicked { node, replica, text } => {
                write!(f, "node `{node}` (replica {replica}) panicked: {text}")
            }
            GraphError::Stuck { waits } => write!(f, "the graph cannot go on: {}", waits.join("; ")),
            GraphError::Refused { faults } => write!(f, "the graph cannot start: {}", faults.join("; ")),
            GraphError::Cancelled => write!(f, "the graph was cancelled"),
            GraphError::TimeLimit(limit) => write!(f, "the graph took longer than its limit of {limit:?}"),
        }
    }
}

impl std::error::Error for GraphError {}

/// Why a datum was not pushed; it comes back.
#[derive(Clone, Copy, PartialEq)]
pub enum PushError<T> {
    /// The inbox of a node that it goes to is full (only from `try_push`).
    Full(T),
    /// The input is closed, or the graph has ended: [`Run::wait`](crate::Run::wait) says why.
    Closed(T),
}

impl<T> PushError<T> {
    /// The datum.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(datum) | PushError::Closed(datum) => datum,
        }
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "the inbox is full: take results, or push later",
            PushError::Closed(_) => "the input is closed, or the graph has ended: wait() says why",
        })
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> std::error::Error for PushError<T> {}
