//! What the state waits with. The models have another file of this name, over loom.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Where waiters park.
pub struct Slot {
    lock: Mutex<()>,
    wake: Condvar,
}

static PARKING: [Slot; 16] = [const { Slot { lock: Mutex::new(()), wake: Condvar::new() } }; 16];

/// Calls `f` with the slot of an address.
pub fn with_slot<R>(address: usize, f: impl FnOnce(&Slot) -> R) -> R {
    f(&PARKING[(address >> 6) % PARKING.len()])
}

impl Slot {
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn wait(&self, guard: MutexGuard<'_, ()>) {
        drop(self.wake.wait(guard).unwrap_or_else(|e| e.into_inner()));
    }

    pub fn wake_all(&self) {
        drop(self.lock());
        self.wake.notify_all();
    }
}

/// Waits a moment; false: it is time to park.
pub fn spin(round: u32) -> bool {
    if round < 64 {
        std::hint::spin_loop();
    } else if round < 96 {
        std::thread::yield_now();
    } else {
        return false;
    }
    true
}
