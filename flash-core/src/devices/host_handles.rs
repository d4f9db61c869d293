//! Devices that work in the host's memory and keep state for each argument, such as a handle of the driver.

use super::DeviceHandle;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

static KEEPERS: RwLock<Vec<&'static DeviceHandle>> = RwLock::new(Vec::new());
/// True if there are such devices.
static ANY: AtomicBool = AtomicBool::new(false);

/// Adds a device that must be told when memory is freed, before anything is launched on it.
pub(crate) fn add(device: &'static DeviceHandle) {
    KEEPERS.write().unwrap_or_else(|e| e.into_inner()).push(device);
    ANY.store(true, Ordering::Release);
}

/// Memory may be freed from now on. Concurrent readers of the same slice are not affected: devices keep the
/// state that a launch in flight needs.
#[inline]
pub fn forget(data: *mut u8, bytes: usize) {
    // A thread that launched something with it knew of the device, and is done.
    if bytes != 0 && ANY.load(Ordering::Acquire) {
        tell(data, bytes);
    }
}

#[cold]
fn tell(data: *mut u8, bytes: usize) {
    for device in &*KEEPERS.read().unwrap_or_else(|e| e.into_inner()) {
        if let Some(forget) = device.api.forget_host {
            // SAFETY: a device of this vtable; it only compares addresses.
            unsafe { forget(device.raw, data.cast(), bytes as u64) };
        }
    }
}

/// Zeroed host memory for one run. It may be moved while its memory is used.
pub(crate) struct Scratch(*mut [u128]);

impl Scratch {
    pub fn zeroed(bytes: usize) -> Scratch {
        Scratch(Box::into_raw(vec![0; bytes.div_ceil(size_of::<u128>())].into_boxed_slice()))
    }

    pub fn data(&self) -> *mut u8 {
        self.0.cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        forget(self.data(), self.0.len() * size_of::<u128>());
        // SAFETY: made from a box by `zeroed`, and the run that used it is over.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
