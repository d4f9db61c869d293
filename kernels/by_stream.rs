//! What a vendor's library keeps for each stream of a device.

use flash_core::kernel::Failure;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// States of a library by stream. They are never dropped: streams live for ever.
pub(crate) struct ByStream<S>(Mutex<Option<HashMap<u64, S>>>);

impl<S> ByStream<S> {
    pub const fn new() -> ByStream<S> {
        ByStream(Mutex::new(None))
    }

    /// Calls `body` with a stream's state, which only it uses meanwhile. The first call has it made.
    ///
    /// # Errors
    /// Those of `make` and `body`.
    pub fn with(
        &self,
        stream: u64,
        make: impl FnOnce() -> Result<S, Failure>,
        body: impl FnOnce(&mut S) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match states.get_or_insert_default().entry(stream) {
            Entry::Occupied(known) => body(known.into_mut()),
            Entry::Vacant(free) => body(free.insert(make()?)),
        }
    }
}

/// The driver's form of a stream's number.
pub(crate) fn stream_of(number: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number as usize)
}
