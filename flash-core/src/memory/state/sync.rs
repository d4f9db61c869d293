//! The names that [`word`](super::word) imports from `std`, and the place where waiters park. The models have
//! another file of this name, over loom.

use super::word::Slot;
pub(super) use crate::memory::fast_path::asleep;
pub(super) use flash_backend::fork::is_child;
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

static PARKING: [Slot; 16] = [const { Slot { lock: Mutex::new(()), wake: Condvar::new() } }; 16];

/// Calls `f` with the slot of an address.
pub(super) fn with_slot<R>(address: usize, f: impl FnOnce(&Slot) -> R) -> R {
    f(&PARKING[(address >> 6) % PARKING.len()])
}

/// Waits a moment; false: it is time to park.
pub(super) fn spin(round: u32) -> bool {
    if round < 64 {
        std::hint::spin_loop();
    } else if round < 96 {
        std::thread::yield_now();
    } else {
        return false;
    }
    true
}
