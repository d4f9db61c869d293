//! Devices that work in the host's memory and keep something of each argument, such as a handle of the driver's.

use crate::backend::DeviceHandle;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

static KEEPERS: RwLock<Vec<&'static DeviceHandle>> = RwLock::new(Vec::new());
/// There are some.
static ANY: AtomicBool = AtomicBool::new(false);

/// A device that wants to know of memory that goes, before anything is launched on it.
pub(crate) fn add(device: &'static DeviceHandle) {
    KEEPERS.write().unwrap_or_else(|e| e.into_inner()).push(device);
    ANY.store(true, Ordering::Release);
}

/// Memory that may be given back from now on, and that no launch uses.
#[inline]
pub(crate) fn forget(data: *mut u8, bytes: usize) {
    // Who launched something with it knew of the device, and is done.
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

/// Zeroed memory of the host that a run has for itself.
pub(crate) struct Scratch(Box<[u128]>);

impl Scratch {
    pub fn zeroed(bytes: usize) -> Scratch {
        Scratch(vec![0; bytes.div_ceil(size_of::<u128>())].into_boxed_slice())
    }

    pub fn data(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        forget(self.data(), size_of_val(&self.0[..]));
    }
}
