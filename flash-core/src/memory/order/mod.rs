//! The order of pending pipelines, and guards of parts of memories: two that touch different elements of a
//! memory do not wait for each other.

mod behind;
mod parts;
mod sync;
mod table;
#[cfg(test)]
mod tests;

use behind::Behind;
pub(crate) use behind::BehindGuards;
pub(super) use parts::Parts;
pub(crate) use table::{DeviceNumber, Extent, Order, Start, Ticket, Touch};

use super::region::Region;
use super::state::{Refused, State};
use super::{ArrayInner, own_guards};
use crate::workers;
use flash_backend::fork;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;

/// The order of all pipelines of the process.
pub(crate) static ORDER: LazyLock<Order<Region>> = LazyLock::new(Order::default);

/// How the runtime waits for the turn of a place in the order, and leaves it: it runs the pipelines before it
/// that have not begun. Set before the first pipeline is pending.
pub(crate) static TAKE_TURN: OnceLock<fn(Ticket)> = OnceLock::new();

/// Its lock is free in a child of `fork`.
pub(super) fn watch_forks() {
    fork::hold(ORDER.table());
}

impl Extent for Region {
    fn overlaps(&self, other: &Region) -> bool {
        Region::overlaps(self, other)
    }

    fn contains(&self, other: &Region) -> bool {
        Region::contains(self, other)
    }
}

/// A pipeline in the list of [`BEHIND`].
pub(crate) trait AfterGuards: BehindGuards {
    /// The last guard that conflicts was released.
    fn resume(self: Box<Self>);
    /// Its patience is at its end.
    fn give_up(self: Box<Self>);
}

/// All pipelines of the process that wait for guards.
static BEHIND: LazyLock<Behind<Box<dyn AfterGuards>>> = LazyLock::new(Behind::default);

impl BehindGuards for Box<dyn AfterGuards> {
    fn ticket(&self) -> Ticket {
        (**self).ticket()
    }

    fn touches(&self, memory: u64) -> bool {
        (**self).touches(memory)
    }

    fn is_free(&self) -> bool {
        (**self).is_free()
    }
}

/// A pipeline that is counted in its memories, beside guards that conflict: resumes it when they are
/// released, perhaps before this returns.
pub(crate) fn resume_after_guards(pipeline: Box<dyn AfterGuards>) {
    ORDER.behind_guards(pipeline.ticket());
    if let Some(free) = BEHIND.enter(pipeline) {
        free.resume();
    }
}

/// The end of a pipeline's patience: gives it up, if it still waits for guards.
pub(crate) fn give_up_guards(ticket: Ticket) {
    if let Some(pipeline) = BEHIND.give_up(ticket) {
        pipeline.give_up();
    }
}

impl ArrayInner {
    /// The host will read a range, or write all: waits for launches, and for pending pipelines that conflict.
    /// True if the memory is tracked.
    ///
    /// # Errors
    /// [`Refused::Borrowed`]: a guard conflicts, or this thread holds one and would wait for a pipeline that
    /// waits for guards.
    pub(super) fn guard(&self, range: &Range<u64>, written: bool) -> Result<bool, Refused> {
        let all = *range == (0..self.len() as u64);
        let holds = own_guards::any();
        if holds && !written && own_guards::reads(self.id(), range) {
            return Ok(match all {
                true => self.state.guard_again(),
                false => self.parts.guard_again(&self.state, self.part(range)),
            });
        }
        let wait = || self.wait_for_pending(range, written, holds);
        if !all {
            return self.parts.guard(&self.state, &ORDER, self.id(), self.part(range), wait);
        }
        if !holds && !workers::runs_pieces() {
            return if written { self.state.guard_write() } else { self.state.guard_read() };
        }
        loop {
            match self.state.guard_now(written) {
                Err(Refused::Pending) => wait()?,
                other => return other,
            }
        }
    }

    /// Waits until no pending pipeline writes a range; `written`: or reads it. A worker runs those that have
    /// not begun: all others may be waiting, too.
    fn wait_for_pending(&self, range: &Range<u64>, written: bool, holds: bool) -> Result<(), Refused> {
        let part = self.part(range);
        match TAKE_TURN.get() {
            Some(take_turn) if workers::runs_pieces() && !fork::is_child() => {
                let written = written.then(|| part.clone());
                let turn = ORDER.line_up(&[Touch { memory: self.id(), touched: part, written }], []);
                if holds && ORDER.is_behind_guards(turn) {
                    ORDER.withdraw(turn);
                    return Err(Refused::Borrowed);
                }
                take_turn(turn);
                Ok(())
            }
            _ => ORDER.wait_beside(self.id(), &part, written, holds),
        }
    }

    /// The host no longer reads a range, or has written all; `tracked`: the memory is from now on.
    pub(super) fn release_guard(&self, range: &Range<u64>, written: bool, tracked: bool) {
        let is_awaited = match *range == (0..self.len() as u64) {
            true if written => self.state.release_guard_write(tracked),
            true => self.state.release_guard_read(),
            false => self.parts.release(&self.state, &self.part(range)),
        };
        if is_awaited && !fork::is_child() {
            BEHIND.released(self.id()).into_iter().for_each(AfterGuards::resume);
        }
    }

    /// A call of the host will read a range: it counts as a launch that reads, until `release_read` of the
    /// state. Waits as a guard does. True if the memory is tracked.
    ///
    /// # Errors
    /// As [`guard`](Self::guard).
    pub(super) fn begin_read(&self, range: &Range<u64>) -> Result<bool, Refused> {
        let wait = || self.wait_for_pending(range, false, own_guards::any());
        parts::read(&self.state, &ORDER, self.id(), &self.part(range), wait)
    }

    fn part(&self, range: &Range<u64>) -> Region {
        Region::of_range(&self.grid(), range.clone())
    }

    /// The result that [`pend`](Self::pend) would have now.
    ///
    /// # Errors
    /// [`Refused::Borrowed`] if a guard that conflicts is alive.
    pub fn look(&self, written: Option<&Region>) -> Result<(), Refused> {
        match written {
            Some(written) => self.parts.look(&self.state, written),
            None => self.state.look(false),
        }
    }

    /// A pipeline that has lined up counts itself in the word; `written`: the region that it writes, if any.
    ///
    /// # Errors
    /// [`Refused::Borrowed`] if a guard that conflicts is alive.
    pub fn pend(&self, written: Option<&Region>) -> Result<(), Refused> {
        match written {
            Some(written) => self.parts.pend(&self.state, written),
            None => self.state.pend_read(),
        }
    }

    /// The same beside guards that conflict. True if there are any, which are waited for later.
    pub fn pend_behind(&self, written: Option<&Region>) -> bool {
        match written {
            Some(written) => self.parts.pend_behind(&self.state, written),
            None => self.state.pend_behind(false),
        }
    }

    /// Waits until no guard conflicts with a launch that reads it, or writes it, or a region of it. The
    /// caller holds nothing. False: one still does at that time.
    pub fn after_guards(&self, written: bool, region: Option<&Region>, until: Instant) -> bool {
        self.state.after_guards(written, until)
            && region.is_none_or(|region| self.parts.after_guards(region, until))
    }
}
