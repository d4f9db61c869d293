//! Ordinary ranks: messages of a program's own between equal processes of MPI, and what these do together, in
//! communicators of their own.
//!
//! A process has its MPI for one purpose: for agents ([`crate::MpiTransport`]), for these, or the program has
//! initialized it, and then these are beside what the program does with it. Which, is decided once.

use crate::MpiError;
use crate::find::{self, Launched};
use crate::functions::{Collective, Request};
use crate::library::{Channel, Lost, Mpi, Probed, count};
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

    /// True if a thread that the program does not know may send and receive.
    pub fn take_own_thread(&self) -> bool {
        self.mpi.takes_own_thread().unwrap_or(false)
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
        channel: Channel,
        (from, bytes): (*const u8, usize),
        to: u32,
        tag: i32,
    ) -> Result<Transfer, TransferError> {
        self.check(to)?;
        // SAFETY: the caller vouches.
        let request = unsafe { self.mpi.send_on(channel, (from, bytes), to, tag) };
        Ok(Transfer { request: request.map_err(TransferError::Failed)?, is_receive: false })
    }

    /// Begins to receive at most this many bytes on [`Channel::Elements`]. Without a tag: with any.
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
        let (_, tag) = self.mpi.wanted(None, tag);
        // SAFETY: the caller vouches.
        let request = unsafe { self.mpi.receive(into, bytes, from, tag) }.map_err(TransferError::Failed)?;
        Ok(Transfer { request, is_receive: true })
    }

    /// Begins to receive what comes next on a channel, if it is there, into the place that is given for its
    /// bytes, and how many that has room for. Without a rank: from any.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// As for [`receive`](Ranks::receive).
    pub unsafe fn take(
        &self,
        channel: Channel,
        (from, tag): (Option<u32>, Option<i32>),
        place: impl FnOnce(usize) -> (*mut u8, usize),
    ) -> Result<Option<(Arrival, Transfer)>, TransferError> {
        self.check(from.unwrap_or(0))?;
        let wanted = self.mpi.wanted(from, tag);
        // SAFETY: the caller vouches.
        let taken = unsafe { self.mpi.take(channel, wanted, place) }.map_err(TransferError::Failed)?;
        Ok(taken.map(|(probed, request)| (arrival(probed), Transfer { request, is_receive: true })))
    }

    /// All wait for each other. Like all that is done together, it is begun in the same order by each.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn barrier(&self) -> Result<(), TransferError> {
        // SAFETY: it has no memory.
        unsafe { self.together(0, Collective::Barrier) }
    }

    /// The root's bytes go to all.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// There are that many bytes, which nothing else uses.
    pub unsafe fn broadcast(&self, data: *mut u8, bytes: usize, root: u32) -> Result<(), TransferError> {
        let bytes = count(bytes).map_err(TransferError::Failed)?;
        // SAFETY: the caller vouches.
        unsafe { self.together(root, Collective::Broadcast { data, bytes, root: root as c_int }) }
    }

    /// The root gets the bytes of all, as many of each, in the order of their ranks.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// There are that many bytes, and at the root room for those of all.
    pub unsafe fn gather(
        &self,
        from: *const u8,
        bytes: usize,
        into: *mut u8,
        root: u32,
    ) -> Result<(), TransferError> {
        let bytes = count(bytes).map_err(TransferError::Failed)?;
        // SAFETY: the caller vouches.
        unsafe { self.together(root, Collective::Gather { from, bytes, into, root: root as c_int }) }
    }

    /// Each gets its part of the root's bytes, as many each, in the order of their ranks.
    ///
    /// # Errors
    /// See [`TransferError`].
    ///
    /// # Safety
    /// There are parts for all at the root, and room for one.
    pub unsafe fn scatter(
        &self,
        from: *const u8,
        into: *mut u8,
        bytes: usize,
        root: u32,
    ) -> Result<(), TransferError> {
        let bytes = count(bytes).map_err(TransferError::Failed)?;
        // SAFETY: the caller vouches.
        unsafe { self.together(root, Collective::Scatter { from, into, bytes, root: root as c_int }) }
    }

    /// # Safety
    /// All memory that it names is there until it is over, which this waits for.
    unsafe fn together(&self, root: u32, what: Collective) -> Result<(), TransferError> {
        self.check(root)?;
        // SAFETY: the caller vouches.
        let request = unsafe { self.mpi.collective(what) }.map_err(TransferError::Failed)?;
        self.wait(Transfer { request, is_receive: false }).map(drop)
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

    /// What comes next on a channel, which is not received. Without a rank or a tag: with any.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub fn probe_now(
        &self,
        channel: Channel,
        (from, tag): (Option<u32>, Option<i32>),
    ) -> Result<Option<Arrival>, TransferError> {
        self.check(from.unwrap_or(0))?;
        let found = self.mpi.probe_on(channel, self.mpi.wanted(from, tag));
        Ok(found.map_err(TransferError::Failed)?.map(arrival))
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
///
/// # Errors
/// That of a look.
pub fn until<T, E>(mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<T, E> {
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
