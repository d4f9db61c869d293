//! Pinned host memory: memory that a device has registered, so that copies to and from it go at full speed.
//! Registration takes about as long as a copy, so it is done for large arrays that were copied once and are
//! copied again.

use super::DeviceMemory;
use crate::devices::take_error;
use crate::memory::ArrayInner;
use flash_types::abi::{Buffer, SPACE_HOST};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Smaller arrays are copied through memory that is pinned already.
const LEAST: u64 = 4 << 20;

/// The host's side of a device's copy of an array.
pub(crate) struct Pinned {
    memory: &'static DeviceMemory,
    /// Bytes that were copied between the two.
    moved: AtomicU64,
    /// `None` inside: the device does not register it.
    buffer: OnceLock<Option<Buffer>>,
}

impl Pinned {
    pub fn new(memory: &'static DeviceMemory) -> Pinned {
        Pinned { memory, moved: AtomicU64::new(0), buffer: OnceLock::new() }
    }

    /// Counts bytes that are about to be copied between the host and this copy of an array.
    pub fn note(&self, header: &ArrayInner, bytes: u64) {
        let all = header.len() as u64 * header.element_size();
        if all < LEAST || !header.is_ours() || !header.is_whole() {
            return;
        }
        let before = self.moved.fetch_add(bytes, Relaxed);
        if before >= all {
            // The array's memory stays longer than its copies, and this with them.
            self.buffer.get_or_init(|| register(self.memory, header.data(), all));
        }
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

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pinned: {:?}", self.buffer)
    }
}
