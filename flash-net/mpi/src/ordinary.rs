//! Ordinary ranks: messages of a program's own between equal processes of MPI, in a communicator of their
//! own.
//!
//! A process has its MPI for one purpose: for agents ([`crate::MpiTransport`]), for these, or the program has
//! initialized it, and then these are beside what the program does with it. Which, is decided once.

use crate::MpiError;
use crate::find::{self, Launched};
use crate::library::{Lost, Mpi, Probed, Request};
use crate::lifetime::{START, divide, is_here, within, without_its_signal};
use crate::nap::nap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static RANKS: OnceLock<Result<Ranks, MpiError>> = OnceLock::new();

/// How long a waiting thread only looks, and how long it offers its processor; then it naps.
const SPIN: Duration = Duration::from_micros(20);
const YIELD: Duration = Duration::from_micros(200);
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// The processes of the job as ordinary ranks.
pub struct Ranks {
    mpi: Mpi,
    rank: u32,
    size: u32,
}

/// A send or a receive on its way. One that is dropped goes on, and its memory stays in use.
pub struct Transfer {
    request: Request,
    /// Of a receive it is looked at what has come.
    is_receive: bool,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// From which rank.
    pub source: u32,
    /// With which tag.
    pub tag: i32,
    /// How many bytes.
    pub bytes: usize,
}

/// Why a message is not sent or received.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The message was longer than the place for it, and is lost.
    #[error("{0}")]
    Truncated(String),
    /// What MPI says, or which thread may not call it.
    #[error("{0}")]
    Failed(String),
}

/// True if the program of this process has initialized MPI itself, or has ordinary ranks: the processes of
/// its job are equal, and none is an agent.
pub fn is_equal() -> bool {
    RANKS.get().is_some_and(Result::is_ok)
        || !is_here() && Mpi::of_this_process().is_some_and(|mpi| mpi.is_ok_and(|mpi| mpi.is_of_program()))
}

impl Ranks {
    /// The ordinary ranks of this process's job, once per process: of the MPI that the program has
    /// initialized, else of the launcher that has started it (`given`, or the launcher's library).
    ///
    /// All processes of the job call this, and wait for each other. If those of a launcher do not within a
    /// minute, the process ends with an error. They divide the processors of a host among them where the
    /// launcher has not.
    ///
    /// # Errors
    /// Why there are none: expected, found.
    pub fn join(given: Option<&Path>) -> Result<&'static Ranks, MpiError> {
        RANKS.get_or_init(|| Ranks::find(given)).as_ref().map_err(Clone::clone)
    }

    fn find(given: Option<&Path>) -> Result<Ranks, MpiError> {
        if is_here() {
            return Err(MpiError::new(
                "the other processes of this job of MPI are agents, with which FLASH has begun already",
            ));
        }
        if let Some(mpi) = Mpi::of_this_process().transpose()?.filter(Mpi::is_of_program) {
            let (rank, size) = mpi.attach()?;
            mpi.part()?;
            return Ok(Ranks { mpi, rank, size });
        }
        let Some(launched) = find::launched() else {
            return Err(MpiError::new(
                "no launcher of MPI (mpirun, mpiexec, srun) has started several processes of this program, and it has not initialized MPI itself",
            ));
        };
        let mpi = find::library(given, &launched)?;
        divide(&launched);
        let (rank, size) = within(START, &launched, "MPIX_Initialize", || start(&mpi, &launched))?;
        // SAFETY: a function for the process's end, which is called once.
        unsafe { libc::atexit(finalize) };
        Ok(Ranks { mpi, rank, size })
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    fn check(&self, rank: u32) -> Result<(), TransferError> {
        self.mpi.check_thread().map_err(TransferError::Failed)?;
        match rank < self.size {
            true => Ok(()),
            false => Err(TransferError::Failed(format!(
                "expected a rank from 0 to {}, found {rank}",
                self.size - 1
            ))),
        }
    }

    /// Begins to send.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// The bytes stay, and are not written, until the transfer is over.
    pub unsafe fn send(
        &self,
        from: *const u8,
        bytes: usize,
        to: u32,
        tag: i32,
    ) -> Result<Transfer, TransferError> {
        self.check(to)?;
        // SAFETY: the caller vouches.
        let request = unsafe { self.mpi.send(from, bytes, to, tag) }.map_err(TransferError::Failed)?;
        Ok(Transfer { request, is_receive: false })
    }

    /// Begins to receive at most this many bytes. Without a tag: with any.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// The place stays, and nothing else uses it, until the transfer is over.
    pub unsafe fn receive(
        &self,
        into: *mut u8,
        bytes: usize,
        from: u32,
        tag: Option<i32>,
    ) -> Result<Transfer, TransferError> {
        self.check(from)?;
        let tag: c_int = tag.unwrap_or(self.mpi.any_tag());
        // SAFETY: the caller vouches.
        let request = unsafe { self.mpi.receive(into, bytes, from, tag) }.map_err(TransferError::Failed)?;
        Ok(Transfer { request, is_receive: true })
    }

    /// What has come, if a transfer is over, and then it is not asked again: of a send, nothing.
    ///
    /// # Errors
    /// See [`TransferError`]; it is over, too.
    pub fn test(&self, transfer: &mut Transfer) -> Result<Option<Arrival>, TransferError> {
        self.mpi.check_thread().map_err(TransferError::Failed)?;
        if transfer.is_receive {
            let received = self.mpi.received(&mut transfer.request).map_err(|lost| match lost {
                Lost::Truncated(text) => TransferError::Truncated(text),
                Lost::Other(text) => TransferError::Failed(text),
            });
            return Ok(received?.map(arrival));
        }
        let is_over = self.mpi.test(&mut transfer.request).map_err(TransferError::Failed)?;
        Ok(is_over.then_some(Arrival { source: self.rank, tag: 0, bytes: 0 }))
    }

    /// Waits until a transfer is over.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn wait(&self, mut transfer: Transfer) -> Result<Arrival, TransferError> {
        until(|| self.test(&mut transfer))
    }

    /// What comes next from a rank, which is not received. Without a tag: with any.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn probe_now(&self, from: u32, tag: Option<i32>) -> Result<Option<Arrival>, TransferError> {
        self.check(from)?;
        let tag = tag.unwrap_or(self.mpi.any_tag());
        Ok(self.mpi.probe_tag(from as c_int, tag).map_err(TransferError::Failed)?.map(arrival))
    }

    /// Waits for what [`probe_now`](Ranks::probe_now) says.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn probe(&self, from: u32, tag: Option<i32>) -> Result<Arrival, TransferError> {
        until(|| self.probe_now(from, tag))
    }
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ranks({} of {}, {:?})", self.rank, self.size, self.mpi)
    }
}

fn arrival(Probed { source, tag, bytes }: Probed) -> Arrival {
    Arrival { source: source as u32, tag, bytes: usize::try_from(bytes).unwrap_or_default() }
}

/// Initializes a library as its launcher says.
fn start(mpi: &Mpi, launched: &Launched) -> Result<(u32, u32), MpiError> {
    let started = without_its_signal(|| mpi.initialize())?;
    if started != (launched.rank, launched.size) {
        return Err(MpiError::new(format!(
            "{} ({}): expected rank {} of {}, as the launcher says, found {started:?}: this library is not the launcher's; say which is with FLASH_MPI_LIB",
            mpi.path().display(),
            mpi.version(),
            launched.rank,
            launched.size
        )));
    }
    mpi.part()?;
    Ok(started)
}

/// Looks until there is something: at once, then with the processor offered to others, then with naps, as MPI
/// has nothing to sleep on.
fn until<T>(mut look: impl FnMut() -> Result<Option<T>, TransferError>) -> Result<T, TransferError> {
    let begin = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        match begin.elapsed() {
            waited if waited < SPIN => std::hint::spin_loop(),
            waited if waited < YIELD => std::thread::yield_now(),
            waited => nap((waited / 16).clamp(NAPS[0], NAPS[1])),
        }
    }
}

extern "C" fn finalize() {
    if let Some(Ok(ranks)) = RANKS.get() {
        ranks.mpi.finalize();
    }
}
