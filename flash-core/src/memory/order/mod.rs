//! The order of pending pipelines, and guards of parts of memories: two that touch different elements of a
//! memory do not wait for each other.

mod parts;
mod sync;
mod table;
#[cfg(test)]
mod tests;

pub(super) use parts::Parts;
pub(crate) use table::{Extent, Order, Ticket, Touch};

use super::ArrayInner;
use super::region::Region;
use super::state::{Refused, State};
use crate::error::Error;
use std::ops::Range;
use std::sync::LazyLock;

/// The order of all pipelines of the process.
pub(crate) static ORDER: LazyLock<Order<Region>> = LazyLock::new(Order::default);

/// Its lock is free in a child of `fork`.
pub(super) fn watch_forks() {
    crate::fork::hold(ORDER.table());
}

impl Extent for Region {
    fn overlaps(&self, other: &Region) -> bool {
        Region::overlaps(self, other)
    }

    fn contains(&self, other: &Region) -> bool {
        Region::contains(self, other)
    }
}

impl ArrayInner {
    /// The host will read a part: waits for launches, and for pending pipelines that write some of it. True
    /// if the memory is tracked.
    ///
    /// # Errors
    /// [`Error::Borrowed`].
    pub fn guard_part(&self, range: Range<u64>) -> Result<bool, Error> {
        let part = Region::of_range(&self.grid(), range);
        Ok(self.parts.guard(&self.state, &ORDER, self.id(), part)?)
    }

    /// The host has read a part.
    pub fn release_guard_part(&self, range: Range<u64>) {
        self.parts.release(&self.state, &Region::of_range(&self.grid(), range));
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
}
