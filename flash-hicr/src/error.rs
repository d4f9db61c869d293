//! What can fail.

use crate::slot::Key;
use crate::{Space, Tag};
use flash_net::{Loss, NetError};
use std::sync::Arc;

/// Why an operation of a manager failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An instance is gone.
    #[error("{0}")]
    Lost(Box<Loss>),
    /// Bytes outside of a slot.
    #[error("{side} bytes {offset} to {offset} + {bytes} of {slot}: expected a range of its {size} bytes")]
    Bounds {
        /// `copies from` or `copies to`, and the like.
        side: &'static str,
        /// Which slot.
        slot: String,
        /// The first byte.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Bytes of the slot.
        size: u64,
    },
    /// Nothing connects two memories.
    #[error("nothing connects {from} with {to}: {why}")]
    Unconnected {
        /// The source's memory.
        from: String,
        /// The destination's.
        to: String,
        /// What to do.
        why: &'static str,
    },
    /// A memory space that the manager does not have.
    #[error("there is no memory space {found} here: expected one of {known:?}")]
    NoSpace {
        /// What was asked for.
        found: Space,
        /// The spaces of the manager.
        known: Vec<String>,
    },
    /// No global slot of that name.
    #[error("there is no global slot with key {key} in the exchange with tag {tag}: its keys are {known:?}")]
    NoKey {
        /// The exchange.
        tag: Tag,
        /// What was asked for.
        key: Key,
        /// The keys of the exchange.
        known: Vec<Key>,
    },
    /// Something that a manager refuses, or does not do.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked for.
        what: String,
        /// Expected, found, and what to do.
        why: String,
    },
    /// A template asks for more than there is.
    #[error("no instance for this template: {0}")]
    Lacking(#[from] flash_topology::Lacking),
    /// What came from another instance is not what a correct one sends.
    #[error("{from} sent what no correct instance sends: {found}")]
    Protocol {
        /// Which one.
        from: String,
        /// Expected and found.
        found: String,
    },
    /// A called function failed there.
    #[error("`{name}` on instance {on} failed: {text}")]
    Call {
        /// The function.
        name: String,
        /// The instance that ran it.
        on: u32,
        /// Its error, or its panic's message.
        text: String,
    },
    /// A function of this process panicked.
    #[error("{what} panicked: {text}")]
    Panicked {
        /// Which function.
        what: String,
        /// The panic's message.
        text: String,
    },
    /// A task failed.
    #[error("task `{name}` failed: {why}")]
    Task {
        /// Its name.
        name: String,
        /// Its function's error or panic; or that of a task that it comes after.
        why: Arc<Error>,
    },
    /// The transport's.
    #[error("{0}")]
    Net(NetError),
    /// The runtime's.
    #[error("{0}")]
    Flash(#[from] flash_core::Error),
    /// A topology from elsewhere that is none.
    #[error("{0}")]
    Topology(#[from] flash_topology::Error),
}

impl From<NetError> for Error {
    fn from(error: NetError) -> Error {
        match error {
            NetError::Lost(loss) => Error::Lost(loss),
            other => Error::Net(other),
        }
    }
}

impl Error {
    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Refused { what: what.into(), why: why.into() }
    }
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "not with a text".to_owned())
}
