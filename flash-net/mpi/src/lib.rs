//! FLASH's transport over MPI.
//!
//! The library of MPI is opened when a launcher of MPI (`mpirun`, `mpiexec`, `srun`) has started the process,
//! and never else: nothing is linked, no header is needed, and one program runs with Open MPI, MPICH, Intel
//! MPI, and what has the standard interface of MPI 5. See [`library()`] for which library it is, [`Mpi`] for
//! what is called of it, [`MpiTransport`] for the frames, and [`Launcher`] for starting processes.
//!
//! # What is relied on
//!
//! - **Nothing that another peer sends.** Sources, tags, lengths and counts are checked; a peer that sends
//!   what no peer sends is lost. What is *in* frames, users check.
//! - **A full peer is an answer.** A peer that takes no frames gets a bounded number of them.
//! - **Waiting threads take frames.** There is no thread of the transport's own.
//! - **Processes end at any time.** On the same host that is noticed by the system; on another one by silence
//!   ([`flash_net::Detector`]), or by an error of MPI. `MPI_Finalize` is called when all are there, and never
//!   after a loss, as it would wait for ever.
//!
//! Linux only.

mod family;
mod find;
mod functions;
mod hello;
mod launch;
mod library;
mod lifetime;
mod nap;
mod near;
mod ordinary;
mod outbox;
mod receiver;
mod transport;

pub use family::{Family, MPICH_HANDLES, Numbers, STANDARD_HANDLES};
pub use find::{Launched, RANK_VARIABLES, launched, library};
pub use launch::{Host, Hosts, Launcher, Start};
pub use library::{Channel, Mpi};
pub use ordinary::{Arrival, Ranks, Transfer, TransferError, is_equal, until};
pub use transport::{Joining, MpiTransport};

/// Why there is no MPI: expected, found, what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct MpiError(String);

impl MpiError {
    pub(crate) fn new(text: impl Into<String>) -> MpiError {
        MpiError(text.into())
    }
}
