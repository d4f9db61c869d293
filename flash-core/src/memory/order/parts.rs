//! Guards of parts of a memory, beside writers of other parts.
//!
//! The word of a memory (`memory/state`) counts pending pipelines, and says whether guards of parts are
//! alive. The elements are in the [`Order`] and in the memory's [`Parts`].
//!
//! A pipeline lines up first, and then counts itself in the word: a thread that finds it counted finds it in
//! its line. A guard of a part enters the list and the word under the list's lock. If a pipeline is pending
//! that writes, it does so under the order's lock as well, after it has searched the line. A pipeline that
//! finds guards of parts counts itself under the list's lock, after it has searched the list. So of a
//! pipeline and a guard that conflict, the later one sees the other.
//!
//! The models include this file, too.

use super::sync::{Condvar, Mutex, MutexGuard, is_child};
use super::table::{Extent, Order};
use super::{Refused, State};
use smallvec::SmallVec;
use std::time::Instant;

/// The parts that live guards of a memory read.
pub(crate) struct Parts<E> {
    list: Mutex<List<E>>,
    /// Signalled when a guard is released, if a thread waits for that.
    released: Condvar,
}

struct List<E> {
    parts: SmallVec<[E; 1]>,
    /// Number of threads that wait for a release.
    waiting: u32,
}

impl<E> Default for Parts<E> {
    fn default() -> Parts<E> {
        let list = List { parts: SmallVec::new(), waiting: 0 };
        Parts { list: Mutex::new(list), released: Condvar::new() }
    }
}

/// The host will read a part of a memory within a call: waits for launches, and for pending pipelines that
/// write some of it. It ends with [`State::release_read`]. True if the memory is tracked. `wait` returns when
/// no such pipeline was there for a moment. Fails with [`Refused::Borrowed`], and as `wait` does.
pub(crate) fn read<E: Extent>(
    state: &State,
    order: &Order<E>,
    memory: u64,
    part: &E,
    wait: impl Fn() -> Result<(), Refused>,
) -> Result<bool, Refused> {
    loop {
        match state.launch_read() {
            Err(Refused::Pending) if is_child() => return Err(Refused::Forked),
            Err(Refused::Pending) => {}
            other => return other,
        }
        if let Some(tracked) = order.beside(memory, part, || state.read_beside()) {
            return Ok(tracked);
        }
        wait()?;
    }
}

impl<E: Extent + PartialEq> Parts<E> {
    fn lock(&self) -> MutexGuard<'_, List<E>> {
        self.list.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The host will read a part of a memory: waits for launches, and for pending pipelines that write some
    /// of it, with `wait` as in [`read`]. True if the memory is tracked. Fails with [`Refused::Borrowed`],
    /// and as `wait` does.
    pub fn guard(
        &self,
        state: &State,
        order: &Order<E>,
        memory: u64,
        part: E,
        wait: impl Fn() -> Result<(), Refused>,
    ) -> Result<bool, Refused> {
        loop {
            let mut list = self.lock();
            let taken = match state.guard_part(!list.parts.is_empty()) {
                Ok(tracked) => Some(tracked),
                Err(refused @ (Refused::Borrowed | Refused::Forked)) => return Err(refused),
                Err(Refused::Pending) if is_child() => return Err(Refused::Forked),
                Err(Refused::Pending) => order.beside(memory, &part, || state.guard_part_beside()),
            };
            if let Some(tracked) = taken {
                list.parts.push(part);
                return Ok(tracked);
            }
            drop(list);
            wait()?;
        }
    }

    /// The host will read a part of what guards of this thread read. True if the memory is tracked.
    pub fn guard_again(&self, state: &State, part: E) -> bool {
        let mut list = self.lock();
        list.parts.push(part);
        state.guard_part_again()
    }

    /// The host has read it. True if pipelines that write are counted, which may wait for that.
    pub fn release(&self, state: &State, part: &E) -> bool {
        let mut list = self.lock();
        if let Some(at) = list.parts.iter().position(|other| other == part) {
            list.parts.swap_remove(at);
        }
        if list.waiting > 0 {
            self.released.notify_all();
        }
        state.release_guard_part(list.parts.is_empty())
    }

    /// Waits until no guard of a part conflicts with a write of `written`. False: one still does at that
    /// time.
    pub fn after_guards(&self, written: &E, until: Instant) -> bool {
        let mut list = self.lock();
        while list.parts.iter().any(|part| part.overlaps(written)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            list.waiting += 1;
            list = self.released.wait_timeout(list, left).unwrap_or_else(|e| e.into_inner()).0;
            list.waiting -= 1;
        }
        true
    }

    /// Fails with [`Refused::Borrowed`] if a live guard conflicts with a write of `written`.
    pub fn look(&self, state: &State, written: &E) -> Result<(), Refused> {
        match state.look(true) {
            Err(Refused::Pending) => match self.lock().parts.iter().any(|part| part.overlaps(written)) {
                true => Err(Refused::Borrowed),
                false => Ok(()),
            },
            other => other,
        }
    }

    /// A pipeline that has lined up, to write some of a memory, counts itself in the word. Fails with
    /// [`Refused::Borrowed`] if a guard that conflicts is alive.
    pub fn pend(&self, state: &State, written: &E) -> Result<(), Refused> {
        loop {
            match state.pend_write(false) {
                Err(Refused::Pending) => {}
                other => return other,
            }
            let list = self.lock();
            if list.parts.is_empty() {
                continue;
            }
            if list.parts.iter().any(|part| part.overlaps(written)) {
                return Err(Refused::Borrowed);
            }
            return state.pend_write(true);
        }
    }

    /// The same beside guards that conflict. True if there are any, which are waited for later.
    pub fn pend_behind(&self, state: &State, written: &E) -> bool {
        let list = self.lock();
        state.pend_behind(true) || list.parts.iter().any(|part| part.overlaps(written))
    }
}
