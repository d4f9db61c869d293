//! How a backend says that something does not work: at all on this machine, or this once.

use flash_types::Code;

/// The reason why a backend cannot be used on this machine: expected, found, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

/// A failure on a device.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text} ({code})")]
#[non_exhaustive]
pub struct Failure {
    /// Its kind.
    pub code: Code,
    /// What was expected, what was found, where, and what to do.
    pub text: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(code: Code, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into() }
    }

    /// Of a launch that has stopped because the host asked for that.
    pub fn cancelled() -> Failure {
        Failure::new(Code::Cancelled, "stopped")
    }

    /// Of what a device cannot do.
    pub fn unsupported(what: &str) -> Failure {
        Failure::new(Code::Unsupported, format!("this device does not support {what}"))
    }
}
