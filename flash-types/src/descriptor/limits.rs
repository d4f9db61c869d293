//! Attributes that set limits: on time, on waiting, and on concurrency.

use super::Attribute;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::time::Duration;

/// The time that a submission may take, from when it begins to run: an option of one submission, or, as an
/// option of a runtime, of each. One that takes longer has failed with
/// `Error::Timeout`, and what it should have written is poisoned.
///
/// A kernel cannot be stopped. A `Handle` reports the timeout when the time is up, while the
/// memories stay busy until the kernel has stopped; `exec` reports it after that.
///
/// # Examples
/// ```
/// use flash_core::descriptor::{Attributes, Timeout};
/// use std::time::Duration;
/// let mut options = Attributes::default();
/// options.set(Timeout(Duration::from_secs(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeout(pub Duration);

/// How long a launch waits for guards of the host that other threads hold on its memories, 1 s if nothing is
/// said: an option of a runtime or a submission; of a pipeline, the shortest counts. If one is still alive
/// then, the launch fails with `Error::Borrowed` and has done nothing. 0 refuses at
/// once.
///
/// A thread that holds a guard never waits for one: its launch is refused at once. `exec_async` does not
/// wait. Its pipeline does, in its place in the order.
///
/// # Examples
/// ```
/// use flash_core::descriptor::{Attributes, Patience};
/// use std::time::Duration;
/// let mut options = Attributes::default();
/// options.set(Patience(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience(pub Duration);

/// The number of pipelines of a runtime that may be in flight: `exec_async` waits while it is reached. An
/// option of a runtime; it counts pipelines of the runtime that `options` returns and its clones.
///
/// # Examples
/// ```
/// use flash_core::descriptor::{Attributes, InFlight};
/// let mut options = Attributes::default();
/// options.set(InFlight(8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight(pub usize);

#[typetag::serde]
impl Attribute for Timeout {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn for_backends(&self) -> bool {
        false
    }
}

#[typetag::serde]
impl Attribute for Patience {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn for_backends(&self) -> bool {
        false
    }
}

#[typetag::serde]
impl Attribute for InFlight {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn for_backends(&self) -> bool {
        false
    }
}
