//! Pinned host memory: memory that a device has registered, so that copies to and from it go at full speed.
//! Registration takes about as long as a copy, so it is done for large arrays that were copied once and are
//! copied again.

use super::DeviceMemory;
use crate::devices::take_error;
use crate::memory::ArrayInner;
use flash_types::abi::{Buffer, SPACE_HOST};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smaller arrays are copied through memory that is pinned already.
const LEAST: u64 = 4 << 20;

/// The host's memory of an array, as devices know it: one for each that large copies went to or came from.
#[derive(Default)]
pub(crate) struct PinnedByDevices(Mutex<Vec<Pinned>>);

/// As the memory of one device knows it.
struct Pinned {
    memory: &'static DeviceMemory,
    /// Bytes that were copied between the two.
    moved: u64,
    /// Once it was registered; `None` inside: the device does not register it.
    buffer: Option<Option<Buffer>>,
}

impl PinnedByDevices {
    fn lock(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Devices forget where the array is on the host. No copy from or to there is in flight.
    pub fn forget(&self) {
        self.lock().clear();
    }
}

impl ArrayInner {
    /// Counts bytes that are about to be copied between the host and a device's copy of an array.
    pub fn note_copy(&self, memory: &'static DeviceMemory, bytes: u64) {
        let all = self.len() as u64 * self.element_size();
        if all < LEAST || !self.is_ours() || !self.is_whole() {
            return;
        }
        let mut known = self.pinned.lock();
        let at = known.iter().position(|pinned| std::ptr::eq(pinned.memory, memory)).unwrap_or_else(|| {
            known.push(Pinned { memory, moved: 0, buffer: None });
            known.len() - 1
        });
        let pinned = &mut known[at];
        if pinned.moved >= all && pinned.buffer.is_none() {
            // The array's memory stays longer than this.
            pinned.buffer = Some(register(memory, self.data(), all));
        }
        pinned.moved += bytes;
    }
}

/// Tells a device of memory of the host. `None`: it does not want to know it; copies are slower then, and
/// nothing else.
///
/// The memory stays until the buffer was freed.
#[cold]
pub(super) fn register(memory: &'static DeviceMemory, data: *mut u8, bytes: u64) -> Option<Buffer> {
    let device = memory.device();
    let mut buffer = Buffer { space: SPACE_HOST, reserved: 0, handle: 0 };
    // SAFETY: a device of this vtable and a variable of ours; the memory stays, as the caller says.
    let outcome =
        unsafe { take_error(device.api.register_host?(device.raw, data.cast(), bytes, &mut buffer)) };
    outcome.ok().map(|()| buffer)
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(Some(buffer)) = self.buffer.take() {
            self.memory.free(buffer);
        }
    }
}
