//! What can be wrong with a topology.

use std::fmt;

/// A topology that cannot be read or united.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// JSON that is no topology.
    #[error("expected a topology as JSON, as `flash topology --json` writes it: {0}")]
    Json(serde_json::Error),
    /// A topology with more things of a kind than any machine has.
    #[error("expected at most 8192 {what}, found {count}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// A text that is no set of processors.
    #[error("expected a set of processors such as `0-3,8`, found `{0}`")]
    CpuSet(String),
    /// Two topologies describe one machine in different ways.
    #[error("both topologies have the host `{host}`, but they differ in its {part}: read both anew")]
    Differ {
        /// Its name.
        host: String,
        /// In what.
        part: &'static str,
    },
}

/// Something that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    pub(crate) host: String,
    pub(crate) what: Vec<String>,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no host for {}: {}", self.host, self.what.join("; "))
    }
}

impl std::error::Error for Lacking {}
