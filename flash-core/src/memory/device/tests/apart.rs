//! Three devices with memories of their own, which are memory of this process; copies fail on demand. The
//! last device copies to and from the host only.

use crate::memory::device::settle_losses;
use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::register_backend;
use flash_backend::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable};
use flash_types::Code;
use flash_types::abi;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// A fault of a copy.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Number of copies that succeed before it.
    pub after: u32,
    pub code: Code,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Makes a copy of this thread fail.
pub fn fault(fault: Option<Fault>) {
    FAULT.set(fault);
}

thread_local! {
    static LOST: Cell<u32> = const { Cell::new(0) };
}

/// Makes all copies of this thread from and to the device of this space fail, as if it were lost; 0: of none.
pub fn lose(space: u32) {
    LOST.set(space);
}

/// Bytes of each device's memory.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

pub fn limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// Bytes of each pinned range.
pub static PINNED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Budgets and counters are the process's: tests run one at a time.
pub fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let alone = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    // Resets what another test left.
    limit(u64::MAX);
    fault(None);
    lose(0);
    settle_losses();
    alone
}

struct Apart;

// SAFETY: nothing is launched on it.
unsafe impl Backend for Apart {
    const KEY: &'static str = "TEST_APART";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "none";
    type Device = ApartDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<ApartDevice>, Unavailable> {
        Ok((1..4)
            .map(|space| ApartDevice { buffers: HostBuffers::of_space(space), sizes: Mutex::default() })
            .collect())
    }
}

register_backend!(Apart);

struct ApartDevice {
    buffers: HostBuffers,
    /// Bytes of each buffer.
    sizes: Mutex<HashMap<u64, u64>>,
}

impl Device for ApartDevice {
    type Kernel = ();

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            emulated: true,
            test: true,
            name: "apart".into(),
            vendor: "FLASH".into(),
            version: "0".into(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, _: &'static abi::Implementation) -> Result<(), Failure> {
        Err(Failure::new(Code::Unsupported, "nothing runs here"))
    }

    fn submit(&self, _: &Launch<'_, ()>) -> Result<Option<Event>, Failure> {
        Err(Failure::new(Code::Unsupported, "nothing runs here"))
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        [abi::SPACE_HOST, self.buffers.space()].map(|id| host_memory::space(id, 0)).to_vec()
    }

    unsafe fn clear(&self, buffer: abi::Buffer, _bytes: u64) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.clear(buffer) }
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        let mut sizes = self.sizes.lock().unwrap();
        if sizes.values().sum::<u64>().saturating_add(bytes) > LIMIT.load(Relaxed) {
            return Err(Failure::new(Code::OutOfMemory, "no more"));
        }
        let buffer = self.buffers.alloc(space, bytes)?;
        sizes.insert(buffer.handle, bytes);
        Ok(buffer)
    }

    unsafe fn register_host(&self, pointer: *mut u8, bytes: u64) -> Result<abi::Buffer, Failure> {
        PINNED.lock().unwrap().push(bytes);
        Ok(self.buffers.register(pointer))
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        if buffer.space == abi::SPACE_HOST {
            PINNED.lock().unwrap().pop();
        }
        self.sizes.lock().unwrap().remove(&buffer.handle);
        self.buffers.free(buffer)
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        match FAULT.get() {
            Some(Fault { after: 0, code }) => return Err(Failure::new(code, "fails on purpose")),
            Some(Fault { after, code }) => FAULT.set(Some(Fault { after: after - 1, code })),
            None => {}
        }
        if LOST.get() != 0 && [from.space, to.space].contains(&LOST.get()) {
            return Err(Failure::new(Code::DeviceLost, "lost on purpose"));
        }
        let own = self.buffers.space();
        assert!([from.space, to.space].iter().all(|s| *s == 0 || *s == own || (*s < 3 && own < 3)));
        // SAFETY: the caller vouches for the boxes; all handles are addresses.
        unsafe { host_memory::copy_addresses(from.handle, to.handle, shape) };
        Ok(())
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        (self.buffers.space() < 3 && from < 3 && to < 3).then_some(1e9)
    }
}
