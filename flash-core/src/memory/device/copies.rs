//! Copies by devices, and which device is lost where one fails.
//!
//! A device whose last copy said that it is lost counts as lost until one succeeds. Where two devices take
//! part, each is asked: only what a lost one had alone is poisoned.

use super::DeviceMemory;
use crate::devices::{After, take_error};
use crate::error::Error;
use flash_types::Code;
use flash_types::abi::{self, Buffer};
use std::sync::atomic::Ordering::Relaxed;

impl DeviceMemory {
    /// Begins to copy a box with this device's `copy_box`.
    ///
    /// # Safety
    /// The box lies inside both buffers, and nothing else touches it from `after` on until the result is
    /// waited for, or dropped.
    pub(in crate::memory) unsafe fn copy_box(
        &'static self,
        from: Buffer,
        to: Buffer,
        shape: &abi::CopyBox,
        after: &[After],
    ) -> Result<CopyInFlight, Error> {
        let copy = self.device.api.copy_box.ok_or_else(|| self.no_slot("copy_box"))?;
        let waits = After::in_queue_of(after, self.device)?;
        let mut event = std::ptr::null_mut();
        // SAFETY: a device of this vtable; the caller vouches for the boxes.
        let outcome = unsafe {
            take_error(copy(self.device.raw, from, to, shape, waits.as_ptr(), waits.len(), &mut event))
        };
        self.heard(&outcome);
        outcome.map(|()| CopyInFlight { memory: self, event, ends: None })
    }

    /// The same, between the memories of two devices, of which this one copies. Where the copy says that a
    /// device is lost, each is asked by an empty copy whether it is.
    ///
    /// # Safety
    /// As [`copy_box`](Self::copy_box).
    pub(in crate::memory) unsafe fn copy_box_between(
        &'static self,
        ends: [(&'static DeviceMemory, Buffer); 2],
        shape: &abi::CopyBox,
    ) -> Result<CopyInFlight, Error> {
        let [(_, from), (_, to)] = ends;
        // SAFETY: the caller vouches.
        match unsafe { self.copy_box(from, to, shape, &[]) } {
            Ok(mut copy) => {
                copy.ends = Some(ends);
                Ok(copy)
            }
            Err(error) => {
                self.find_lost(&error, ends);
                Err(error)
            }
        }
    }

    /// Finds out which device a failed copy between two says is lost: else it is the one that has copied.
    #[cold]
    fn find_lost(&self, error: &Error, ends: [(&'static DeviceMemory, Buffer); 2]) {
        if !matches!(error, Error::Backend { code: Code::DeviceLost, .. }) {
            return;
        }
        let empty = abi::CopyBox {
            extent: [0; 3],
            source_offset: 0,
            source_stride: [0; 2],
            destination_offset: 0,
            destination_stride: [0; 2],
        };
        for (memory, buffer) in ends {
            // SAFETY: there is nothing to copy; the buffers live as long as the copy that has failed.
            let _ = unsafe { memory.copy_box(buffer, buffer, &empty, &[]) }.map(CopyInFlight::wait);
        }
        if !ends.iter().any(|(memory, _)| memory.is_lost()) {
            self.lost.store(true, Relaxed);
        }
    }

    /// Records from the outcome of a copy whether the device answers.
    fn heard(&self, outcome: &Result<(), Error>) {
        let lost = matches!(outcome, Err(Error::Backend { code: Code::DeviceLost, .. }));
        self.lost.store(lost, Relaxed);
    }

    /// True if it did not answer at its last copy.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }
}

/// A copy that may be in flight.
#[must_use = "a copy is done, and known to be well, when it was waited for"]
pub(crate) struct CopyInFlight {
    memory: &'static DeviceMemory,
    /// NULL: it is complete.
    event: *mut abi::Event,
    /// The two devices that it is between, and their buffers.
    ends: Option<[(&'static DeviceMemory, Buffer); 2]>,
}

impl CopyInFlight {
    /// What the device that copies works on; `None`: it is complete.
    pub fn work(&self) -> Option<After> {
        (!self.event.is_null()).then_some(After { device: self.memory.device, event: self.event })
    }

    /// Returns when it is complete.
    pub fn wait(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let event = std::mem::replace(&mut self.event, std::ptr::null_mut());
        if event.is_null() {
            return Ok(());
        }
        let api = self.memory.device.api;
        let outcome = match api.event_wait {
            // SAFETY: an event of this vtable, which is not released yet.
            Some(wait) => unsafe { take_error(wait(event)) },
            None => Err(self.memory.no_slot("event_wait")),
        };
        if let Some(release) = api.event_release {
            // SAFETY: as above, and it has no other user.
            unsafe { release(event) };
        }
        self.memory.heard(&outcome);
        if let (Err(error), Some(ends)) = (&outcome, self.ends) {
            self.memory.find_lost(error, ends);
        }
        outcome
    }
}

impl Drop for CopyInFlight {
    /// Its buffers may be freed after it.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
