//! Pipelines behind guards: they have their place in the order and are counted in the words of their
//! memories, and are made ready when the guards that conflict have been released.
//!
//! A pipeline counts itself first, then enters this list and looks at its memories under the list's lock. A
//! guard is released first, and if its thread finds pipelines counted it searches the list. So of the two the
//! later one sees the other. Whatever takes a pipeline out of the list has it alone: the last guard that is
//! released, or the end of the pipeline's patience.
//!
//! The models include this file, too.

use super::sync::{Mutex, MutexGuard};
use super::table::Ticket;

/// A pipeline that waits for guards.
pub(crate) trait BehindGuards: Send {
    /// Its place in the order.
    fn ticket(&self) -> Ticket;
    /// True if it touches a memory.
    fn touches(&self, memory: u64) -> bool;
    /// True if no guard conflicts with it.
    fn is_free(&self) -> bool;
}

/// The list.
pub(crate) struct Behind<P>(Mutex<Vec<P>>);

impl<P> Default for Behind<P> {
    fn default() -> Behind<P> {
        Behind(Mutex::new(Vec::new()))
    }
}

impl<P: BehindGuards> Behind<P> {
    fn lock(&self) -> MutexGuard<'_, Vec<P>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Enters a pipeline, which is counted in its memories. It comes back if no guard conflicts any more.
    pub fn enter(&self, pipeline: P) -> Option<P> {
        let mut list = self.lock();
        if pipeline.is_free() {
            return Some(pipeline);
        }
        list.push(pipeline);
        None
    }

    /// A guard of a memory was released: takes out the pipelines that no guard holds up now.
    pub fn released(&self, memory: u64) -> Vec<P> {
        let mut list = self.lock();
        list.extract_if(.., |pipeline| pipeline.touches(memory) && pipeline.is_free()).collect()
    }

    /// Takes out a pipeline. `None`: it is free, or was taken out before.
    pub fn give_up(&self, ticket: Ticket) -> Option<P> {
        let mut list = self.lock();
        let at = list.iter().position(|pipeline| pipeline.ticket() == ticket)?;
        Some(list.swap_remove(at))
    }
}
