//! Tables that kernels write to: what a fault has left is read when a launch ends.
//!
//! A device that works in the host's memory has a table there, too: reading it is no command. The memory is
//! freed after a wait for the kernels that write to it. Without such a wait it is never freed.

use crate::counted::{Counted, Memory};
use crate::device::OpenClDevice;
use crate::kernel::table_of;
use crate::places::over;
use crate::queue::Commands;
use flash_backend::Failure;
use flash_backend::offload::FAULT_WORDS;
use opencl3::memory::CL_MEM_READ_WRITE;
use opencl3::types::CL_FALSE;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Words of a cache line, on which buffers over the host's memory begin.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A table on the device.
pub struct Table {
    memory: Counted<Memory>,
    /// Its words, in the host's memory; behind `memory`, which is over them and is dropped before.
    words: Option<Words>,
}

/// Words of a table in the host's memory.
struct Words {
    lines: *mut [Line],
    /// Kernels may write to them.
    used: AtomicBool,
}

// SAFETY: the table's own allocation, which is read by one thread after kernels have ended.
unsafe impl Send for Words {}

impl Words {
    fn new(words: &[u64]) -> Words {
        let line = |words: &[u64]| {
            let mut line = Line([0; 8]);
            line.0[..words.len()].copy_from_slice(words);
            line
        };
        let lines: Box<[Line]> = words.chunks(8).map(line).collect();
        Words { lines: Box::into_raw(lines), used: AtomicBool::new(false) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if !*self.used.get_mut() {
            // SAFETY: made in `new`, and no kernel uses it any more.
            drop(unsafe { Box::from_raw(self.lines) });
        }
    }
}

impl Table {
    pub(crate) fn new(device: &OpenClDevice, words: &[u64]) -> Result<Table, Failure> {
        if !device.in_place() {
            return Ok(Table { memory: table_of(device, words, CL_MEM_READ_WRITE)?, words: None });
        }
        let words = Words::new(words);
        let (address, bytes) = (words.lines.cast::<u8>().expose_provenance(), 64 * words.lines.len());
        Ok(Table { memory: over(&device.opened()?.context, address, bytes)?, words: Some(words) })
    }

    /// For a kernel that writes to it.
    pub(crate) fn to_write(&self) -> &Memory {
        if let Some(words) = &self.words {
            words.used.store(true, Relaxed);
        }
        &self.memory
    }

    /// Waits for the kernels so far, and reads the words from `at` on.
    pub(crate) fn read(
        &self,
        device: &OpenClDevice,
        at: usize,
        commands: &mut Commands<'_>,
    ) -> Result<[u64; FAULT_WORDS], Failure> {
        let Some(words) = &self.words else { return self.copy(device, at, commands) };
        commands.finish()?;
        words.used.store(false, Relaxed);
        // SAFETY: the table has these words, and no kernel writes to it any more.
        Ok(unsafe { words.lines.cast::<u64>().add(at).cast::<[u64; FAULT_WORDS]>().read_volatile() })
    }

    /// The same of a table in a memory of the device's own.
    fn copy(
        &self,
        device: &OpenClDevice,
        at: usize,
        commands: &mut Commands<'_>,
    ) -> Result<[u64; FAULT_WORDS], Failure> {
        // Where the wait fails the device may still write to it.
        let words = Box::leak(Box::new([0; FAULT_WORDS]));
        let (from, bytes) = (8 * at, size_of_val(words));
        let mut alone = commands.alone(device.places(device.opened()?));
        // `cl3` declares it safe; here it is: the table has these words, and the place stays until the wait
        // has ended.
        alone.push("clEnqueueReadBuffer", |opencl, queue, event| {
            let to = words.as_mut_ptr().cast();
            opencl.clEnqueueReadBuffer(queue, self.memory.get(), CL_FALSE, from, bytes, to, 0, null(), event)
        })?;
        drop(alone);
        commands.finish()?;
        // SAFETY: leaked above, and nothing else refers to it any more.
        Ok(*unsafe { Box::from_raw(std::ptr::from_mut(words)) })
    }
}
