//! The thread team: the caller and members of a rayon pool, and a dispatch to them that goes past rayon's
//! queues. README.md has the reasons. `mailbox.rs`, `turn.rs` and `crew.rs` are the protocol, which is
//! model-checked; `pool.rs` has the threads.

mod crew;
mod mailbox;
mod place;
mod pool;
mod shares;
mod sync;
#[cfg(test)]
mod tests;
mod turn;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mailbox::{Calls, Job, Mailbox, Rows};
pub(crate) use pool::Pool;
use shares::Shape;

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
    /// Never run it on the caller alone for being small, and wake parked workers at once. For tests and
    /// benchmarks.
    pub force_parallel: bool,
    /// Shares begin at multiples of this many rows from the phase's start. A
    /// power of two; another number is rounded up to one.
    pub align: u64,
}

/// A team of threads: the caller of [`Team::run`], and members of a pool.
pub struct Team {
    pool: Arc<Pool>,
    /// The team's number in its pool.
    number: usize,
}

impl Team {
    /// A team of a pool.
    pub(crate) fn of(pool: &Arc<Pool>, number: usize) -> Team {
        Team { pool: pool.clone(), number }
    }

    /// A team of `threads` threads, the caller's included, with a pool of its own.
    #[cfg(test)]
    fn new(threads: usize, linger: Duration) -> Team {
        Team::of(&Pool::own(threads, linger), 0)
    }

    /// Threads of the team, the caller's included.
    pub fn threads(&self) -> usize {
        self.pool.threads_of(self.number)
    }

    /// Runs phases `0..phases` of `work`. Phase k + 1 begins after phase k has drained, and sees what it
    /// wrote. The caller sees all of it. `false` if a `run` returned that: the rest of its phase may have
    /// been skipped then, and no later phase has begun.
    ///
    /// Runs on the caller alone if the launch is too small to share, or if the team is busy: with a launch of
    /// another host thread, or with the one that this call is made from.
    #[inline]
    pub fn run<W: Work>(&self, work: &W, phases: u64, estimate: Estimate) -> bool {
        if phases > MAX_PHASES {
            self.run_in_parts(work, phases, estimate)
        } else {
            self.run_part(work, phases, estimate)
        }
    }

    /// Runs `f` inside the rayon pool, with the team's members back in it, for code that has parallelism of
    /// its own. Launches meanwhile run on their caller alone. On a thread of the pool, or if there is no
    /// pool, `f` runs on the caller.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let team = &self.pool.shared().teams[self.number];
        let mut turn = team.turn.try_take();
        if let Some(turn) = &mut turn {
            team.dismiss(turn);
        }
        self.pool.install(f)
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
        if self.threads() > 1
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

    /// Runs the launch on the team. `None` if the caller should run it alone. `items` is the length of a
    /// typical phase.
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
        let shared = self.pool.shared();
        let team = &shared.teams[self.number];
        let mut turn = team.turn.try_take()?;
        let force = estimate.force_parallel;
        let known = estimate.ns_per_item > 0.0;
        let per_phase = as_f32(items) * estimate.ns_per_item;
        let (shape, absent, away, me) = {
            let (width, log_align) = width(self.threads(), items, estimate.align);
            let me =
                Some(shared.slot_of_caller(self.number)).filter(|&slot| slot < width as usize).unwrap_or(0);
            let (absent, away) = team.absent(me, width);
            let chunks = log_chunks(per_phase, items >> log_align, width, known || force);
            let shape = Shape { width, log_chunks: chunks as u8, log_align: log_align as u8 };
            (shape, absent, away, me)
        };

        // Parked workers are woken if that costs less than it saves, now or over the launches since the last
        // wake: a debt that has grown to a wake's price is paid, which is at most twice what knowing the
        // future would cost. A launch of unknown cost is begun and timed.
        let mut wake = false;
        let mut wake_later = false;
        if away > 0 {
            let saved = per_phase * as_f32(phases) / (shape.width - away) as f32;
            let debt = turn.ledger(|ledger| ledger.debt);
            if force || saved + as_f32(debt) > WAKE {
                wake = true;
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
        let to_wake = if wake { team.mark_for_waking(me, shape.width) } else { 0 };

        let mut job = Job { base: 0, phases, shape, absent, data, calls };
        let letter = turn.ledger(|ledger| {
            job.base = ledger.base;
            ledger.base = ledger.base.wrapping_add(job.tickets());
            ledger.letter += 2;
            ledger.letter
        });
        if to_wake > 0 {
            self.pool.fetch(to_wake);
        }
        // A worker that was awake may have parked without a look at the letter: a launch that would have
        // woken it looks once more.
        let long = per_phase * as_f32(phases) / shape.width as f32 > WAKE;
        if !wake_later && !long {
            // SAFETY: the turn is ours and its ledger was kept; the rest is
            // this function's contract.
            return Some(unsafe { team.crew.lead(me, letter, &job, || ()) });
        }
        let start = Instant::now();
        let mut looked = false;
        let between = || {
            if !looked && start.elapsed() > WAKE_AFTER {
                looked = true;
                Mailbox::before_look();
                let to_wake = team.mark_for_waking(me, shape.width);
                if to_wake > 0 {
                    self.pool.fetch(to_wake);
                }
            }
        };
        // SAFETY: as above.
        let finished = unsafe { team.crew.lead(me, letter, &job, between) };
        if wake_later {
            let took = start.elapsed().as_nanos() as u64;
            turn.ledger(|ledger| ledger.debt = if looked { 0 } else { ledger.debt + took });
        }
        Some(finished)
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team").field("threads", &self.threads()).finish_non_exhaustive()
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
        // Spaces that grow to the middle (wave fronts) begin with a phase that is not typical.
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

/// Signed: one instruction, where unsigned is a branch and three.
#[inline]
fn as_f32(count: u64) -> f32 {
    count.min(i64::MAX as u64).cast_signed() as f32
}

/// The number of shares of a phase, and log2 of the alignment. There are no more shares than aligned pieces:
/// the thread of an empty share would only make the barrier longer.
#[inline]
fn width(threads: usize, items: u64, align: u64) -> (u32, u32) {
    let log_align = align.clamp(1, 1 << 40).next_power_of_two().trailing_zeros();
    let pieces = items.div_ceil(1 << log_align);
    ((threads as u64).min(pieces).max(2) as u32, log_align)
}

/// log2 of the number of chunks of each share; all shares together have `pieces` aligned pieces.
#[inline]
fn log_chunks(per_phase: f32, pieces: u64, width: u32, known: bool) -> u32 {
    let share = per_phase / width as f32;
    let wanted = if !known {
        LOG_CHUNKS_UNKNOWN
    } else if share <= LONG_SHARE {
        return 0;
    } else {
        // n chunks are n^2 times the last.
        (((share / CHUNK).min(1e6) as u32).ilog2() / 2).min(LOG_CHUNKS)
    };
    let pieces_per_share = pieces / u64::from(width);
    wanted.min(pieces_per_share.max(1).ilog2())
}
