//! One worker's mailbox: the launch it is asked to take part in, and whether the worker is there to read it.
//! It is one cache line, so that a post is one transfer.
//!
//! A letter is a sequence lock: only the thread that has the team's turn writes, and the worker reads. A
//! letter may be stale by the time it is read. That is harmless, because a letter allows nothing: what allows
//! a thread to touch a launch is a ticket (see `crew.rs`), and the tickets of a finished launch are gone.

use std::ptr;

use super::shares::Shape;
use super::sync::{AtomicPtr, AtomicU8, AtomicU64, Ordering, fence};

/// The rows of a phase as they come through [`Calls`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The work of a launch with its type erased. `extern "C"`: a panic that reaches the boundary aborts, because
/// a thread that left a launch by unwinding would leave the others waiting, or running on a dead stack frame.
pub(crate) struct Calls {
    /// # Safety
    /// The first argument is the `data` that belongs to this table, alive.
    pub(crate) phase: unsafe extern "C" fn(*const (), u64) -> Rows,
    /// # Safety
    /// As `phase`.
    pub(crate) run: unsafe extern "C" fn(*const (), u64, Rows) -> bool,
}

/// A launch as its participants see it.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    /// The ticket before the first of this launch, the same on every slot.
    pub(crate) base: u64,
    pub(crate) phases: u64,
    pub(crate) shape: Shape,
    /// Bit s: slot s was not there when the launch began, so any thread may take its share at once. Slots
    /// beyond 63 always count as there.
    pub(crate) absent: u64,
    pub(crate) data: *const (),
    pub(crate) calls: &'static Calls,
}

impl Job {
    /// Tickets of this launch on each slot.
    pub(crate) fn tickets(&self) -> u64 {
        self.phases << self.shape.log_chunks
    }

    pub(crate) fn is_absent(&self, slot: usize) -> bool {
        slot < 64 && self.absent >> slot & 1 != 0
    }
}

/// What a worker finds.
pub(crate) enum Letter {
    /// Nothing since the last one, or one that is being written.
    None,
    /// Give the thread back to rayon.
    Leave(u64),
    /// Take part in this launch, if it is still running.
    Join(u64, Job),
}

/// No loop runs for this slot, and none was sent for.
const PARKED: u8 = 0;
/// A loop was sent for, through rayon.
const WAKING: u8 = 1;
/// A loop is running: it polls the mailbox or takes part in a launch.
const AWAKE: u8 = 2;

/// A mailbox. Aligned to two lines, because the prefetcher fetches pairs.
#[repr(align(128))]
pub(crate) struct Mailbox {
    /// Even: the letter's number. Odd: a letter is being written.
    number: AtomicU64,
    base: AtomicU64,
    phases: AtomicU64,
    shape: AtomicU64,
    absent: AtomicU64,
    data: AtomicPtr<()>,
    /// NULL in a letter that says leave.
    calls: AtomicPtr<Calls>,
    presence: AtomicU8,
}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            base: AtomicU64::new(0),
            phases: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            absent: AtomicU64::new(0),
            data: AtomicPtr::new(ptr::null_mut()),
            calls: AtomicPtr::new(ptr::null_mut()),
            presence: AtomicU8::new(PARKED),
        }
    }

    /// Asks the worker to take part in `job`. Only with the turn; `number` is
    /// even, not 0, and greater than every one before.
    #[inline]
    pub(crate) fn post(&self, number: u64, job: &Job) {
        // Release on every field: a reader that sees one field of this letter
        // sees the odd number too, and so refuses the mixture. On x86 these
        // are plain stores, and none waits for the line.
        self.number.store(number - 1, Ordering::Relaxed);
        self.base.store(job.base, Ordering::Release);
        self.phases.store(job.phases, Ordering::Release);
        self.shape.store(job.shape.pack(), Ordering::Release);
        self.absent.store(job.absent, Ordering::Release);
        self.data.store(job.data.cast_mut(), Ordering::Release);
        let calls: *const Calls = job.calls;
        self.calls.store(calls.cast_mut(), Ordering::Release);
        self.number.store(number, Ordering::Release);
    }

    /// Asks the worker to leave. Only with the turn; `number` as in `post`.
    pub(crate) fn post_leave(&self, number: u64) {
        self.number.store(number - 1, Ordering::Relaxed);
        self.calls.store(ptr::null_mut(), Ordering::Release);
        self.number.store(number, Ordering::Release);
    }

    /// The letter after the one numbered `seen`, if there is one.
    #[inline]
    pub(crate) fn read(&self, seen: u64) -> Letter {
        let number = self.number.load(Ordering::Acquire);
        if number == seen || number % 2 == 1 {
            return Letter::None;
        }
        let base = self.base.load(Ordering::Acquire);
        let phases = self.phases.load(Ordering::Acquire);
        let shape = self.shape.load(Ordering::Acquire);
        let absent = self.absent.load(Ordering::Acquire);
        let data = self.data.load(Ordering::Acquire);
        let calls = self.calls.load(Ordering::Acquire);
        if self.number.load(Ordering::Relaxed) != number {
            return Letter::None;
        }
        if calls.is_null() {
            return Letter::Leave(number);
        }
        // SAFETY: the number was the same before and after, so every field is of one letter; `post` stored a
        // `&'static Calls`, seen through Acquire.
        let calls = unsafe { &*calls };
        let job = Job { base, phases, shape: Shape::unpack(shape), absent, data, calls };
        Letter::Join(number, job)
    }

    // The presence is a hint: no launch is lost or waits if it is stale, so Relaxed is enough. What must hold
    // is that a slot has one loop at a time. PARKED -> WAKING is for any thread, and the one that does it
    // must fetch the worker. The other changes are for the slot's own thread only, and no two of them leave
    // the same value.

    /// True if a worker polls this mailbox, or did a moment ago.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        self.presence.load(Ordering::Relaxed) == AWAKE
    }

    /// True if the worker has to be fetched. The caller must do that then.
    pub(crate) fn wake(&self) -> bool {
        self.presence.compare_exchange(PARKED, WAKING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// True if no worker polls this mailbox, and none was sent for.
    pub(crate) fn is_parked(&self) -> bool {
        self.presence.load(Ordering::Relaxed) == PARKED
    }

    /// Begins a loop. False if none was asked for. Only on the slot's thread.
    ///
    /// One rayon thread may be asked twice (two wakes, and the first one's job has not run yet), or in the
    /// middle of a loop (the kernel waits inside rayon, which runs what is queued meanwhile). The second job
    /// finds another state than WAKING and must not begin: it would wait for the first, which lies below it
    /// on the stack.
    pub(crate) fn arrive(&self) -> bool {
        let wanted = self.presence.load(Ordering::Relaxed) == WAKING;
        if wanted {
            self.presence.store(AWAKE, Ordering::Relaxed);
        }
        wanted
    }

    /// Ends a loop: the thread returns to rayon. Only on the slot's thread.
    pub(crate) fn park(&self) {
        self.presence.store(PARKED, Ordering::Relaxed);
    }

    // A short launch does not need its workers to come, but a long one does, and work of the host. So a
    // worker that has parked looks once more for both, and the thread that posted or brought something looks
    // afterwards for a worker that is parked. With a fence on both sides, one of the two sees the other.

    /// To be called after `park`: true if the worker has to go on, because there is a letter after the one
    /// numbered `seen`, or because `work` finds work of the host that the worker has not seen. It has been
    /// marked then. Only on the slot's thread.
    pub(crate) fn goes_on(&self, seen: u64, work: impl FnOnce() -> bool) -> bool {
        fence(Ordering::SeqCst);
        (!matches!(self.read(seen), Letter::None) || work()) && self.wake()
    }

    /// To be called between a post, or new work of the host, and the look for workers that have parked.
    pub(crate) fn before_look() {
        fence(Ordering::SeqCst);
    }
}
