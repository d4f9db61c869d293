//! The thread team: the caller and the workers of a rayon pool, and a way to
//! dispatch to them that goes past rayon's queues. README.md says why it is as
//! it is; `mailbox.rs`, `turn.rs` and `crew.rs` are the protocol, which is
//! model-checked.

mod crew;
mod mailbox;
mod place;
mod shares;
mod sync;
#[cfg(test)]
mod tests;
mod turn;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crew::{Crew, Spin};
use mailbox::{Calls, Job, Rows};
use place::Place;
use shares::Shape;
use turn::{MyTurn, Turn};

/// Below this many predicted nanoseconds a single phase runs on the caller:
/// half of it is what a second thread saves, a launch costs about 0.3 us.
const SMALL_LAUNCH: f32 = 1_000.0;
/// The same for each of several phases, which cost a barrier each, 0.15 us.
const SMALL_PHASE: f32 = 400.0;
/// Predicted nanoseconds beyond which a parked worker is worth waking: a wake
/// takes 20 to 100 us, and about 5 of them from the caller.
const WAKE: f32 = 60_000.0;
/// After this long in a launch of unknown cost, parked workers are woken.
const WAKE_AFTER: Duration = Duration::from_micros(30);
/// Nanoseconds of a share beyond which it is cut into chunks.
const LONG_SHARE: f32 = 20_000.0;
/// Nanoseconds of the smallest chunk of a share, the last: some ten times what
/// claiming it costs, and all the others are larger.
const CHUNK: f32 = 1_000.0;
/// At most `1 << LOG_CHUNKS` chunks in a share.
const LOG_CHUNKS: u32 = 6;
/// Chunks of a share of unknown cost: without them a first launch of few, long
/// items could not be shared with workers that come late.
const LOG_CHUNKS_UNKNOWN: u32 = 4;
/// Phases of one dispatch; a launch of more is several.
const MAX_PHASES: u64 = 1 << 32;
/// More than any machine has; far from where the cuts would overflow.
const MAX_THREADS: usize = 1 << 16;
/// Polls of a lingering worker between looks at the clock.
const POLLS_PER_CLOCK: u32 = 64;

/// What a launch runs.
///
/// The team calls `run` for every row of every phase once, except after a
/// `false`. Neither method may unwind: on a worker that aborts the process.
pub trait Work: Sync {
    /// The rows of phase `k`. The same on every call.
    fn phase(&self, k: u64) -> Range<u64>;

    /// Runs `rows`, which are not empty, of `phase`. May be called at the same
    /// time for other rows of the same phase. `false` stops the launch.
    fn run(&self, phase: u64, rows: Range<u64>) -> bool;
}

/// What is known of a launch's cost and shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Nanoseconds that one row takes on one thread; 0: unknown.
    pub ns_per_item: f32,
    /// Never run on the caller alone for being small, and wake parked workers
    /// at once. For tests and benchmarks.
    pub force_parallel: bool,
    /// Shares begin at multiples of this many rows from the phase's start. A
    /// power of two; another number is rounded up to one.
    pub align: u64,
}

/// A team of `threads` threads: whoever calls [`Team::run`], and workers.
pub struct Team {
    threads: usize,
    linger: Duration,
    /// Bytes of the stacks of its threads; 0: as usual.
    stack_size: usize,
    /// Made by the first launch that is not small.
    shared: OnceLock<Arc<Shared>>,
    /// Made by the first launch that wakes workers; None if it cannot be.
    pool: OnceLock<Option<ThreadPool>>,
    /// For libraries with parallelism of their own: as many threads as the team has, the caller not
    /// among them. Made by the first `install`.
    library_pool: OnceLock<Option<ThreadPool>>,
}

/// What the workers keep alive while they are in their loops.
struct Shared {
    turn: Turn,
    crew: Crew,
    /// Where the worker of each slot runs; the caller's is not used.
    places: Box<[Place]>,
    /// More threads than cores: spinning takes the core from a thread that has
    /// something to do.
    crowded: bool,
    linger: Duration,
}

impl Team {
    /// A team of `threads` threads, the caller's included (at least 1), whose
    /// workers stay for `linger` after a launch. Starts no thread yet.
    pub fn new(threads: usize, linger: Duration) -> Team {
        Team {
            threads: threads.clamp(1, MAX_THREADS),
            linger,
            stack_size: 0,
            shared: OnceLock::new(),
            pool: OnceLock::new(),
            library_pool: OnceLock::new(),
        }
    }

    /// The same with this many bytes of stack for each thread that it starts; 0: as many as threads usually have.
    pub fn with_stack_size(mut self, bytes: usize) -> Team {
        self.stack_size = bytes;
        self
    }

    /// Threads of the team, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs phases `0..phases` of `work`. Phase k + 1 begins after phase k has
    /// drained and sees what it wrote; the caller sees all of it. `false` if a
    /// `run` said so: the rest of that phase may then have been skipped, and
    /// no later one has begun.
    ///
    /// Runs on the caller alone if the launch is too small to share, or if the
    /// team is busy: with another host thread's launch, or with the one that
    /// this call is made from.
    #[inline]
    pub fn run<W: Work>(&self, work: &W, phases: u64, estimate: Estimate) -> bool {
        if phases > MAX_PHASES {
            self.run_in_parts(work, phases, estimate)
        } else {
            self.run_part(work, phases, estimate)
        }
    }

    /// Runs `f` inside a rayon pool of as many threads as the team has, with the
    /// workers parked, for code that has parallelism of its own; launches
    /// meanwhile run on their caller alone. If the pool cannot be had, `f` runs
    /// on the caller.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let build = || self.build_pool(self.threads, "flash-lib");
        let Some(pool) = self.library_pool.get_or_init(build) else {
            return f();
        };
        let shared = self.shared();
        let mut turn = shared.turn.try_take();
        if let Some(turn) = &mut turn {
            shared.dismiss(turn);
        }
        pool.install(f)
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get_or_init(|| Arc::new(Shared::new(self.threads, self.linger)))
    }

    fn pool(&self) -> Option<&ThreadPool> {
        self.pool.get_or_init(|| self.build_pool(self.threads - 1, "flash-cpu")).as_ref()
    }

    fn build_pool(&self, threads: usize, name: &'static str) -> Option<ThreadPool> {
        let mut builder = ThreadPoolBuilder::new();
        if self.stack_size > 0 {
            builder = builder.stack_size(self.stack_size);
        }
        // 0 threads would be as many as there are cores.
        let builder = builder.num_threads(threads.max(1));
        builder.thread_name(move |index| format!("{name}-{}", index + 1)).build().ok()
    }

    #[cold]
    fn run_in_parts<W: Work>(&self, work: &W, phases: u64, estimate: Estimate) -> bool {
        let mut first = 0;
        while first < phases {
            let count = MAX_PHASES.min(phases - first);
            if !self.run_part(&Onward { work, first }, count, estimate) {
                return false;
            }
            first += count;
        }
        true
    }

    #[inline]
    fn run_part<W: Work>(&self, work: &W, phases: u64, estimate: Estimate) -> bool {
        if self.threads > 1
            && phases > 0
            && let Some(items) = worth_sharing(work, phases, estimate)
        {
            let data: *const W = work;
            // SAFETY: `work` outlives the call, is `Sync`, and the table is its
            // type's.
            let shared = unsafe { self.dispatch(data.cast(), &Erased::<W>::CALLS, phases, items, estimate) };
            if let Some(finished) = shared {
                return finished;
            }
        }
        run_alone(work, phases)
    }

    /// Runs the launch on the team; None if the caller should run it alone.
    /// `items` is the length of a typical phase.
    ///
    /// # Safety
    /// `data` is alive, may be used by several threads and belongs to `calls`.
    unsafe fn dispatch(
        &self,
        data: *const (),
        calls: &'static Calls,
        phases: u64,
        items: u64,
        estimate: Estimate,
    ) -> Option<bool> {
        let shared: &Arc<Shared> = self.shared();
        let mut turn = shared.turn.try_take()?;
        let force = estimate.force_parallel;
        let known = estimate.ns_per_item > 0.0;
        let per_phase = as_f32(items) * estimate.ns_per_item;
        let (shape, absent, away) = {
            let (width, log_align) = width(self.threads, items, estimate.align);
            let (absent, away) = shared.absent(width);
            let chunks = log_chunks(per_phase, items >> log_align, width, known || force);
            let shape = Shape { width, log_chunks: chunks as u8, log_align: log_align as u8 };
            (shape, absent, away)
        };

        // Parked workers: wake them if that costs less than what they save,
        // now or over the launches since the last wake (a debt that has grown
        // to a wake's price is paid: at most twice what knowing the future
        // would cost). What is unknown is begun and timed.
        let mut wake = None;
        let mut wake_later = false;
        if away > 0 {
            let saved = per_phase * as_f32(phases) / (shape.width - away) as f32;
            let debt = turn.ledger(|ledger| ledger.debt);
            if force || saved + as_f32(debt) > WAKE {
                wake = self.pool();
                turn.ledger(|ledger| ledger.debt = 0);
            } else if known {
                turn.ledger(|ledger| ledger.debt += saved as u64);
                if away + 1 == shape.width {
                    return None;
                }
            } else {
                wake_later = true;
            }
        }
        let mut to_wake = 0;
        if wake.is_some() {
            to_wake = shared.mark_for_waking(shape.width);
        }

        let mut job = Job { base: 0, phases, shape, absent, data, calls };
        let letter = turn.ledger(|ledger| {
            job.base = ledger.base;
            ledger.base = ledger.base.wrapping_add(job.tickets());
            ledger.letter += 2;
            ledger.letter
        });
        if let Some(pool) = wake
            && to_wake > 0
        {
            shared.fetch(pool, to_wake);
        }
        if !wake_later {
            // SAFETY: the turn is ours and its ledger was kept; the rest is
            // this function's contract.
            return Some(unsafe { shared.crew.lead(letter, &job, || ()) });
        }
        let start = Instant::now();
        let mut woken = false;
        let between = || {
            if !woken && start.elapsed() > WAKE_AFTER {
                woken = true;
                if let Some(pool) = self.pool() {
                    let to_wake = shared.mark_for_waking(shape.width);
                    shared.fetch(pool, to_wake);
                }
            }
        };
        // SAFETY: as above.
        let finished = unsafe { shared.crew.lead(letter, &job, between) };
        let took = start.elapsed().as_nanos() as u64;
        turn.ledger(|ledger| ledger.debt = if woken { 0 } else { ledger.debt + took });
        Some(finished)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // The pool ends once its threads are back.
        if let Some(shared) = self.shared.get()
            && let Some(mut turn) = shared.turn.try_take()
        {
            shared.dismiss(&mut turn);
        }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("threads", &self.threads)
            .field("linger", &self.linger)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn new(threads: usize, linger: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = threads > cores;
        let spin = if crowded {
            Spin { before_help: 16, before_yield: 32 }
        } else {
            Spin { before_help: 64, before_yield: 1_000 }
        };
        let places = (0..threads).map(|_| Place::default()).collect();
        Self { turn: Turn::new(), crew: Crew::new(threads, spin), places, crowded, linger }
    }

    /// Which of slots `1..width` have no worker polling, and how many.
    #[inline]
    fn absent(&self, width: u32) -> (u64, u32) {
        let mut mask = 0;
        let mut away = 0;
        for slot in 1..width as usize {
            if !self.crew.mailbox(slot).is_awake() {
                away += 1;
                if slot < 64 {
                    mask |= 1 << slot;
                }
            }
        }
        (mask, away)
    }

    /// Marks the parked ones of slots `1..width`; says how many there were.
    #[cold]
    fn mark_for_waking(&self, width: u32) -> usize {
        (1..width as usize).filter(|&slot| self.crew.mailbox(slot).wake()).count()
    }

    /// Fetches the `count` workers that were marked. To every pool thread, of
    /// which those that are not marked do nothing: rayon does not address one
    /// thread, and slot s must always be the same thread, so that an item is.
    #[cold]
    fn fetch(self: &Arc<Self>, pool: &ThreadPool, count: usize) {
        let (shared, here) = (Arc::clone(self), Place::here());
        let attend = move |context: rayon::BroadcastContext<'_>| {
            let slot = context.index() + 1;
            shared.places[slot].arrived();
            shared.crew.attend(slot, shared.linger());
        };
        if count <= 2 && pool.current_num_threads() <= 4 {
            self.keep_off(here);
            pool.spawn_broadcast(attend);
        } else {
            // Each thread costs some system calls: let the first woken pay.
            let shared = Arc::clone(self);
            pool.spawn(move || {
                shared.keep_off(here);
                rayon::spawn_broadcast(attend);
            });
        }
    }

    /// Keeps those that are not awake off a core, until they are. One that may be on that core itself leaves it at once.
    #[cold]
    fn keep_off(&self, core: i32) {
        let away = (1..self.places.len()).filter(|&slot| !self.crew.mailbox(slot).is_awake());
        away.for_each(|slot| self.places[slot].keep_off(core));
    }

    /// Sends lingering workers back to rayon.
    fn dismiss(&self, turn: &mut MyTurn<'_>) {
        let letter = turn.ledger(|ledger| {
            ledger.letter += 2;
            ledger.letter
        });
        self.crew.dismiss(letter);
    }

    /// How a worker waits for the next launch: it spins, then yields between
    /// polls, then gives up.
    fn linger(&self) -> impl FnMut(bool) -> bool {
        let limit = self.linger;
        let spin = if self.crowded { Duration::ZERO } else { limit / 2 };
        let mut polls = 0_u32;
        let mut since = None;
        let mut yielding = false;
        move |served| {
            if served {
                polls = 0;
                since = None;
                yielding = false;
                return true;
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_CLOCK) {
                let waited = since.get_or_insert_with(Instant::now).elapsed();
                if waited >= limit {
                    return false;
                }
                yielding = waited >= spin;
            }
            if yielding {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            true
        }
    }
}

/// The type of a launch's work as a table of functions.
struct Erased<W>(PhantomData<W>);

impl<W: Work> Erased<W> {
    const CALLS: Calls = Calls { phase: Self::phase, run: Self::run };

    /// # Safety
    /// `data` is a `W`, alive.
    unsafe extern "C" fn phase(data: *const (), k: u64) -> Rows {
        // SAFETY: by the contract; `W: Sync` lets any thread have it.
        let work = unsafe { &*data.cast::<W>() };
        let Range { start, end } = work.phase(k);
        Rows { start, end }
    }

    /// # Safety
    /// `data` is a `W`, alive.
    unsafe extern "C" fn run(data: *const (), k: u64, rows: Rows) -> bool {
        // SAFETY: as in `phase`.
        let work = unsafe { &*data.cast::<W>() };
        work.run(k, rows.start..rows.end)
    }
}

/// `work` from phase `first` on.
struct Onward<'a, W> {
    work: &'a W,
    first: u64,
}

impl<W: Work> Work for Onward<'_, W> {
    fn phase(&self, k: u64) -> Range<u64> {
        self.work.phase(self.first + k)
    }

    fn run(&self, phase: u64, rows: Range<u64>) -> bool {
        self.work.run(self.first + phase, rows)
    }
}

#[inline]
fn run_alone<W: Work>(work: &W, phases: u64) -> bool {
    for k in 0..phases {
        let rows = work.phase(k);
        if !rows.is_empty() && !work.run(k, rows) {
            return false;
        }
    }
    true
}

/// The items of a typical phase, unless the launch is too small to share.
#[inline]
fn worth_sharing<W: Work>(work: &W, phases: u64, estimate: Estimate) -> Option<u64> {
    let mut items = length(&work.phase(0));
    if phases > 1 {
        // Spaces that grow to the middle (wave fronts) begin with a phase that
        // says nothing.
        items = items.max(length(&work.phase(phases / 2)));
    }
    if items < 2 || items <= estimate.align {
        return None;
    }
    let small = if phases == 1 { SMALL_LAUNCH } else { SMALL_PHASE };
    let predicted = as_f32(items) * estimate.ns_per_item;
    let known_small = estimate.ns_per_item > 0.0 && predicted < small;
    (!known_small || estimate.force_parallel).then_some(items)
}

#[inline]
fn length(rows: &Range<u64>) -> u64 {
    rows.end.saturating_sub(rows.start)
}

/// Signed: that is one instruction, unsigned is a branch and three.
#[inline]
fn as_f32(count: u64) -> f32 {
    count.min(i64::MAX as u64).cast_signed() as f32
}

/// Shares of a phase, and log2 of the alignment. No more shares than aligned
/// pieces: the thread of an empty share only makes the barrier longer.
#[inline]
fn width(threads: usize, items: u64, align: u64) -> (u32, u32) {
    let log_align = align.clamp(1, 1 << 40).next_power_of_two().trailing_zeros();
    let pieces = items.div_ceil(1 << log_align);
    ((threads as u64).min(pieces).max(2) as u32, log_align)
}

/// log2 of the chunks of a share, of which all have `pieces` aligned pieces.
#[inline]
fn log_chunks(per_phase: f32, pieces: u64, width: u32, known: bool) -> u32 {
    let share = per_phase / width as f32;
    let wanted = if !known {
        LOG_CHUNKS_UNKNOWN
    } else if share <= LONG_SHARE {
        return 0;
    } else {
        // n of them are n^2 of the last.
        (((share / CHUNK).min(1e6) as u32).ilog2() / 2).min(LOG_CHUNKS)
    };
    let pieces_per_share = pieces / u64::from(width);
    wanted.min(pieces_per_share.max(1).ilog2())
}
