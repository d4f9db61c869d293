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

use super::sync::{Mutex, MutexGuard, is_child};
use super::table::{Extent, Order};
use super::{Refused, State};
use smallvec::SmallVec;

/// The parts that live guards of a memory read.
pub(crate) struct Parts<E>(Mutex<SmallVec<[E; 1]>>);

impl<E> Default for Parts<E> {
    fn default() -> Parts<E> {
        Parts(Mutex::new(SmallVec::new()))
    }
}

impl<E: Extent + PartialEq> Parts<E> {
    fn lock(&self) -> MutexGuard<'_, SmallVec<[E; 1]>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The host will read a part of a memory: waits for launches, and for pending pipelines that write some
    /// of it. True if the memory is tracked. Fails with [`Refused::Borrowed`].
    pub fn guard(&self, state: &State, order: &Order<E>, memory: u64, part: E) -> Result<bool, Refused> {
        loop {
            let mut parts = self.lock();
            let taken = match state.guard_part(!parts.is_empty()) {
                Ok(tracked) => Some(tracked),
                Err(refused @ (Refused::Borrowed | Refused::Forked)) => return Err(refused),
                Err(Refused::Pending) if is_child() => return Err(Refused::Forked),
                Err(Refused::Pending) => order.beside(memory, &part, || state.guard_part_beside()),
            };
            if let Some(tracked) = taken {
                parts.push(part);
                return Ok(tracked);
            }
            drop(parts);
            order.wait_beside(memory, &part);
        }
    }

    /// The host has read it.
    pub fn release(&self, state: &State, part: &E) {
        let mut parts = self.lock();
        if let Some(at) = parts.iter().position(|other| other == part) {
            parts.swap_remove(at);
        }
        if parts.is_empty() {
            state.release_guard_parts();
        }
    }

    /// Fails with [`Refused::Borrowed`] if a live guard conflicts with a write of `written`.
    pub fn look(&self, state: &State, written: &E) -> Result<(), Refused> {
        match state.look(true) {
            Err(Refused::Pending) => match self.lock().iter().any(|part| part.overlaps(written)) {
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
            let parts = self.lock();
            if parts.is_empty() {
                continue;
            }
            if parts.iter().any(|part| part.overlaps(written)) {
                return Err(Refused::Borrowed);
            }
            return state.pend_write(true);
        }
    }
}
