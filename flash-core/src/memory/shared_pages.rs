//! Pages of host blocks that are a memory of devices, too: those of agents of this host, which map the same
//! file. Why, and what was rejected, is in `README.md`.
//!
//! One memory of devices is the *source* of such pages: the first whose backend says in which file its
//! buffers are. From then on a host block of at least 64 KiB gets a buffer of it ([`SharedPages`]) and maps
//! the buffer's pages at its own address when it is committed. A smaller one, and one that stays where it is,
//! lies in the buffer. Nothing is copied between the two.
//!
//! A child of `fork` gets a private view of them, as of all other memory: what it writes stays its own.

use super::directory::Place;
use super::reserved::page;
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
    /// Its buffers' handles are addresses of this process.
    has_addresses: bool,
    /// The system promises no more memory than it has, and would end a process that touches a page of a file
    /// for which there is none: pages are allocated before they are touched.
    is_strict: bool,
}

static SOURCE: OnceLock<Source> = OnceLock::new();

/// Where shared pages are mapped, for a child of `fork`: by the first address, what of which file is there.
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

/// The smallest buffer that has its pages for itself.
pub(super) const LEAST: usize = 64 << 10;

/// A buffer of the source, whose pages a host block maps; freed on drop.
pub(crate) struct SharedPages {
    source: &'static Source,
    buffer: Buffer,
    bytes: usize,
    file: i32,
    offset: u64,
    /// The array lies in the buffer, whose pages are not mapped elsewhere.
    is_in_place: bool,
}

/// Lets the memory of a device be the source, if it is in a file and there is no other source.
/// `has_addresses`: its buffers' handles are addresses of this process.
pub(super) fn offer(device: &'static DeviceHandle, space: u32, place: Place, has_addresses: bool) {
    // Miri has no shared mappings.
    if cfg!(not(all(target_os = "linux", not(miri)))) || SOURCE.get().is_some() {
        return;
    }
    let promises = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let source = Source { device, space, place, has_addresses, is_strict: promises.trim() == "2" };
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
            Ok(()) if file >= 0 && (bytes < LEAST || offset.is_multiple_of(page() as u64)) => {
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
        Some(SharedPages { source, buffer, bytes, file, offset, is_in_place: false })
    }

    /// Zeroed bytes in pages that may have other arrays' bytes, too, at an address that the source has given.
    /// `None` also if the source gives none, or if pages have to be allocated before they are touched.
    pub fn in_place(bytes: usize) -> Option<SharedPages> {
        let may = |source: &&Source| source.has_addresses && !source.is_strict && !fork::is_child();
        let source = SOURCE.get().filter(may).filter(|_| bytes > 0)?;
        let (buffer, (file, offset)) = source.alloc(bytes)?;
        let is_mapped = (buffer.handle.wrapping_sub(offset)).is_multiple_of(page() as u64);
        if buffer.handle == 0 || !is_mapped {
            source.free(buffer);
            return None;
        }
        let pages = SharedPages { source, buffer, bytes, file, offset, is_in_place: true };
        mapped().insert(buffer.handle as usize, Mapped { bytes, file, offset });
        Some(pages)
    }

    /// Where they are, if they are [in place](Self::in_place).
    pub fn address(&self) -> *mut u8 {
        debug_assert!(self.is_in_place, "others are where they are mapped");
        std::ptr::with_exposed_provenance_mut(self.buffer.handle as usize)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
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
        if self.is_in_place {
            self.unmap(self.address());
        }
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
/// until it has written to it; of those that several arrays are in, it has a copy at once.
fn keep_to_itself() {
    let mut done = 0;
    for (base, here) in &*mapped() {
        // Whole pages, of which the block before may have the first.
        let begin = (base / page() * page()).max(done);
        let end = (base + here.bytes).next_multiple_of(page());
        if begin >= end {
            continue;
        }
        done = end;
        // Modulo 2^64: the first page may begin before the block.
        let offset = here.offset.wrapping_add(begin as u64).wrapping_sub(*base as u64);
        let at = std::ptr::with_exposed_provenance_mut::<u8>(begin);
        // SAFETY: the same pages of the same file at the same addresses.
        if !unsafe { map(at, Mapped { bytes: end - begin, offset, ..*here }, true) } {
            notice(format_args!(
                "a child of `fork` cannot map {} bytes of its parent's arrays for itself, and would write to \
                 the parent's",
                here.bytes
            ));
            std::process::abort();
        }
        if here.bytes < LEAST {
            for page in (0..end - begin).step_by(page()) {
                // SAFETY: a page that was just mapped for this process alone, which has one thread.
                unsafe { at.add(page).write_volatile(at.add(page).read_volatile()) };
            }
        }
    }
}
