//! Pages of host blocks that are a memory of devices, too: those of agents of this host, which map the same
//! file. Why, and what was rejected, is in `README.md`.
//!
//! One memory of devices is the *source* of such pages: the first whose backend says in which file its
//! buffers are. From then on a host block of at least 64 KiB gets a buffer of it ([`SharedPages`]) and maps
//! the buffer's pages at its own address when it is committed. Nothing is copied between the two.
//!
//! A child of `fork` gets a private view of them, as of all other memory: what it writes stays its own.

use super::directory::Place;
use crate::devices::{DeviceHandle, take_error};
use flash_backend::host_allocation::ask;
use flash_backend::{fork, notice};
use flash_types::abi::Buffer;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The memory of devices that shared pages are of.
struct Source {
    device: &'static DeviceHandle,
    space: u32,
    place: Place,
    /// The system promises no more memory than it has, and would end a process that touches a page of a file
    /// for which there is none: pages are allocated before they are touched.
    is_strict: bool,
}

static SOURCE: OnceLock<Source> = OnceLock::new();

/// Where shared pages are mapped, for a child of `fork`: by the first address, what [`map`] was given.
static MAPPED: Mutex<BTreeMap<usize, Mapped>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy)]
struct Mapped {
    bytes: usize,
    file: i32,
    offset: u64,
}

fn mapped() -> MutexGuard<'static, BTreeMap<usize, Mapped>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest buffer that a backend is asked for: it has its pages for itself.
pub(super) const LEAST: usize = 64 << 10;

/// A buffer of the source, whose pages a host block maps; freed on drop.
pub(crate) struct SharedPages {
    source: &'static Source,
    buffer: Buffer,
    bytes: usize,
    file: i32,
    offset: u64,
}

/// Lets the memory of a device be the source, if it is in a file and there is no other source.
pub(super) fn offer(device: &'static DeviceHandle, space: u32, place: Place) {
    // Miri has no shared mappings.
    if cfg!(not(all(target_os = "linux", not(miri)))) || SOURCE.get().is_some() {
        return;
    }
    let promises = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let source = Source { device, space, place, is_strict: promises.trim() == "2" };
    let Some((buffer, _)) = source.alloc(LEAST) else { return };
    source.free(buffer);
    if SOURCE.set(source).is_ok() {
        // The last one that is added comes first: the lock is free in the child when the pages are mapped.
        fork::on_fork(keep_to_itself);
        fork::hold(&MAPPED);
        fork::watch();
    }
}

/// True if blocks get shared pages from now on.
pub(super) fn is_offered() -> bool {
    SOURCE.get().is_some()
}

impl Source {
    /// A buffer, and where it is in which file.
    fn alloc(&self, bytes: usize) -> Option<(Buffer, (i32, u64))> {
        let (api, raw) = (self.device.api, self.device.raw);
        let (mut buffer, mut file, mut offset) = (Buffer { space: 0, reserved: 0, handle: 0 }, -1, 0);
        let (alloc, find) = (api.alloc?, api.shared_file?);
        // SAFETY: a device of this vtable, one of its spaces, and local variables.
        unsafe { take_error(alloc(raw, self.space, bytes as u64, &mut buffer)) }.ok()?;
        // SAFETY: as above, and a buffer of the device.
        let found = unsafe { take_error(find(raw, buffer, &mut file, &mut offset)) };
        match found {
            Ok(()) if file >= 0 && offset.is_multiple_of(super::reserved::page() as u64) => {
                Some((buffer, (file, offset)))
            }
            _ => {
                self.free(buffer);
                None
            }
        }
    }

    fn free(&self, buffer: Buffer) {
        if let Some(free) = self.device.api.free {
            // SAFETY: `alloc` of this device gave it, and it has no users. After an error nothing can be
            // done: the buffer is gone.
            let _ = unsafe { take_error(free(self.device.raw, buffer)) };
        }
    }
}

impl SharedPages {
    /// Pages for `bytes` bytes; `None` if there is no source, or it has no more.
    pub fn take(bytes: usize) -> Option<SharedPages> {
        // A child of `fork` has a copy of the source's books, and would take what the parent takes.
        let source = SOURCE.get().filter(|_| bytes >= LEAST && !fork::is_child())?;
        let (buffer, (file, offset)) = source.alloc(bytes)?;
        Some(SharedPages { source, buffer, bytes, file, offset })
    }

    /// The place whose memory they are, too.
    pub fn place(&self) -> Place {
        self.source.place
    }

    /// The buffer of that memory, from byte `first` on.
    pub fn buffer(&self, first: usize) -> Buffer {
        Buffer { handle: self.buffer.handle + first as u64, ..self.buffer }
    }

    /// Maps them at an address in place of what is mapped there. False: the system has no memory for them,
    /// and what was there stays.
    ///
    /// # Safety
    /// As many bytes from `base` on, a page, are a mapping of the caller's that reads as zeros, like pages
    /// that were never touched; it calls [`unmap`](Self::unmap) before that ends.
    pub unsafe fn map(&self, base: *mut u8) -> bool {
        if self.source.is_strict && !allocate(self.file, self.offset, self.bytes) {
            return false;
        }
        let here = Mapped { bytes: self.bytes, file: self.file, offset: self.offset };
        // Not between the two: a child would write to the parent's pages.
        let mut all = mapped();
        // SAFETY: as the caller says.
        let is_mapped = unsafe { map(base, here, fork::is_child()) };
        if is_mapped {
            all.insert(base.expose_provenance(), here);
            ask(base, self.bytes);
        }
        is_mapped
    }

    /// Notes that they are mapped at an address no longer.
    pub fn unmap(&self, base: *mut u8) {
        mapped().remove(&base.addr());
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        // The parent has the buffer.
        if !fork::is_child() {
            self.source.free(self.buffer);
        }
    }
}

/// Allocates pages of a file. False: there is no memory for them.
#[cfg(all(target_os = "linux", not(miri)))]
fn allocate(file: i32, offset: u64, bytes: usize) -> bool {
    // SAFETY: a call on a descriptor.
    unsafe { libc::fallocate(file, 0, offset as libc::off_t, bytes as libc::off_t) == 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn allocate(_file: i32, _offset: u64, _bytes: usize) -> bool {
    false
}

/// # Safety
/// As `mmap` with `MAP_FIXED`: nothing of what is at `base` is needed any more, or the same is in the file.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn map(base: *mut u8, Mapped { bytes, file, offset }: Mapped, is_private: bool) -> bool {
    let kind = if is_private { libc::MAP_PRIVATE } else { libc::MAP_SHARED | libc::MAP_NORESERVE };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller vouches.
    let at = unsafe {
        libc::mmap(base.cast(), bytes, access, kind | libc::MAP_FIXED, file, offset as libc::off_t)
    };
    at != libc::MAP_FAILED
}

#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn map(_base: *mut u8, _: Mapped, _is_private: bool) -> bool {
    false
}

/// In a child of `fork`: maps all shared pages anew, for itself. It sees what the parent writes to a page
/// until it has written to it.
fn keep_to_itself() {
    for (base, here) in &*mapped() {
        let base = std::ptr::with_exposed_provenance_mut(*base);
        // SAFETY: the same pages of the same file at the same address.
        if !unsafe { map(base, *here, true) } {
            notice(format_args!(
                "a child of `fork` cannot map {} bytes of its parent's arrays for itself, and would write to \
                 the parent's",
                here.bytes
            ));
            std::process::abort();
        }
    }
}
