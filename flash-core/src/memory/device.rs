//! The memories of devices: buffers, their cache, the budget, and evictions when it is used up.
//!
//! A [`DeviceMemory`] is made once per main space of a backend and lives as long as the process. New bytes
//! are counted before they are allocated, and only while the budget has room; to make room, cached buffers
//! are freed first, then copies without users are evicted. A [`DeviceBuffer`] is all zeros when it is given
//! out, or is overwritten by a copy as a whole ([`Unfilled`]), and goes back to the cache when its last
//! owner drops it. Only a holder of an array that has locked its directory makes, replaces or drops the
//! array's copy.
//!
//! Locks, in this order: a memory's state word, its directory, `pool`. A thread that holds `pool` locks
//! nothing else. An eviction may run while a directory is locked, and locks others: it takes their words
//! first, with `try_evict`, which does not wait. [`DeviceMemory::lose`] is for threads that have locked no
//! directory but those of memories that they hold; others call `note_loss`, and [`settle_losses`] when
//! theirs is unlocked.

mod copies;
mod pinned;
mod room;
mod spaces;
pub(super) mod staging;
#[cfg(test)]
pub(super) mod tests;

use super::ArrayInner;
use super::directory::{Directory, Place};
use super::shared_pages::{self, SharedPages};
use super::transfer::{Counters, End, Transfer, Transfers};
use crate::devices::{DeviceHandle, take_error};
use crate::error::Error;
pub(crate) use copies::CopyInFlight;
use flash_types::Code;
use flash_types::abi::{Buffer, SPACE_HOST};
pub(super) use pinned::PinnedByDevices;
pub(super) use room::Taker;
use spaces::Spaces;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

/// The memory of a device that is not the host's: one or several memory spaces of its backend. Devices with
/// the same main space share all of it. Lives for ever.
///
/// Locks: a thread that locks a directory holds its memory's state word, and may then lock `pool`; a thread
/// that holds `pool` locks nothing else. An eviction locks the directory of another memory, of which it is
/// the only holder, so that no thread waits for it there.
pub(crate) struct DeviceMemory {
    place: Place,
    device: &'static DeviceHandle,
    spaces: Spaces,
    budget: AtomicU64,
    pool: Mutex<Pool>,
    /// It did not answer at its last copy.
    lost: AtomicBool,
    /// How often its contents were lost.
    losses: AtomicU32,
    /// They were, and its arrays do not know yet.
    is_loss_noted: AtomicBool,
    pub(super) counters: Counters,
}

#[derive(Default)]
struct Pool {
    /// Unused buffers, by their size in bytes.
    free: BTreeMap<u64, Vec<Buffer>>,
    /// Bytes of all of those.
    cached: u64,
    /// Bytes of buffers in use.
    used: u64,
    copies: Vec<Entry>,
    /// `copies` is searched for dropped ones when it has grown to this length.
    prune_at: usize,
}

/// A copy of a memory on this device.
struct Entry {
    header: Weak<ArrayInner>,
    /// The copy shares it.
    last_use: LastUse,
}

/// A buffer in the memory of a device; returns to the cache when it is dropped.
pub(crate) struct DeviceBuffer {
    memory: &'static DeviceMemory,
    raw: Buffer,
    bytes: u64,
    /// The memory's losses when it was taken into use.
    losses: AtomicU32,
    /// The pages of a host block, which it is: then it is not the memory's to give to others.
    shared: Option<Arc<SharedPages>>,
}

/// A device's copy of an array.
#[derive(Debug)]
pub(crate) struct DeviceCopy {
    /// Shared by threads that compute with it while others may replace the copy.
    buffer: Arc<DeviceBuffer>,
    /// The elements that it has room for.
    range: Range<u64>,
    last_use: LastUse,
}

/// The time of a copy's last use; its clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct LastUse(Arc<AtomicU64>);

impl LastUse {
    /// Counts uses, of all devices together; simultaneous uses may count as one.
    #[inline]
    pub fn now() -> u64 {
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        let now = CLOCK.load(Relaxed);
        CLOCK.store(now + 1, Relaxed);
        now
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    pub fn set(&self, now: u64) {
        self.0.store(now, Relaxed);
    }

    /// The copy was dropped.
    fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl PartialEq for LastUse {
    /// True for the same copy.
    fn eq(&self, other: &LastUse) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Sizes are multiples of this.
const ROUND: u64 = 256;

/// The memories of all devices that have their own, by place.
static MEMORIES: RwLock<Vec<&'static DeviceMemory>> = RwLock::new(Vec::new());

/// The memory that is a place; `None` for the host.
pub(crate) fn memory_of(place: Place) -> Option<&'static DeviceMemory> {
    let number = place.number()? as usize;
    MEMORIES.read().unwrap_or_else(|e| e.into_inner()).get(number).copied()
}

/// Arrays of which some device has a copy, or had one.
pub(super) fn copied() -> Vec<Arc<ArrayInner>> {
    let all = MEMORIES.read().unwrap_or_else(|e| e.into_inner()).clone();
    let mut found: Vec<Arc<ArrayInner>> = Vec::new();
    for memory in all {
        found.extend(memory.pool().copies.iter().filter_map(|entry| entry.header.upgrade()));
    }
    found.sort_by_key(|header| header.id());
    found.dedup_by_key(|header| header.id());
    found
}

/// Tells all arrays of losses that were noted. The caller has locked no directory.
#[cold]
pub(super) fn settle_losses() {
    let all = MEMORIES.read().unwrap_or_else(|e| e.into_inner()).clone();
    all.into_iter().filter(|memory| memory.is_loss_noted.swap(false, Relaxed)).for_each(DeviceMemory::lose);
}

impl PartialEq for DeviceMemory {
    fn eq(&self, other: &DeviceMemory) -> bool {
        self.place == other.place
    }
}

impl DeviceMemory {
    /// The memory of a device, made once per main space of its backend; `None` if the device uses the host's.
    pub fn of(device: &'static DeviceHandle) -> Option<&'static DeviceMemory> {
        if device.info().host_memory {
            return None;
        }
        let listed = device.memory_spaces();
        let space = spaces::main(&listed);
        let mut all = MEMORIES.write().unwrap_or_else(|e| e.into_inner());
        // Devices of other settings number their spaces anew.
        let siblings = all.iter().filter(|memory| {
            memory.device.found_with == device.found_with && std::ptr::eq(memory.device.api, device.api)
        });
        let mut siblings = siblings.copied();
        if let Some(shared) = siblings.clone().find(|one| space != SPACE_HOST && one.space() == space) {
            return Some(shared);
        }
        let is_taken = |space: u32| siblings.any(|one| one.spaces.has(space));
        let spaces = Spaces::of(device, &listed, is_taken);
        let known = spaces.bytes().unwrap_or(device.info().memory_bytes);
        let memory: &'static DeviceMemory = Box::leak(Box::new(DeviceMemory {
            place: Place::device(all.len() as u32),
            device,
            spaces,
            budget: AtomicU64::new(if known == 0 { u64::MAX } else { known }),
            pool: Mutex::default(),
            lost: AtomicBool::new(false),
            losses: AtomicU32::new(0),
            is_loss_noted: AtomicBool::new(false),
            counters: Counters::default(),
        }));
        all.push(memory);
        drop(all);
        if memory.outlives_devices() {
            shared_pages::offer(device, memory.space(), memory.place, memory.has_addresses());
        }
        Some(memory)
    }

    /// Its place.
    pub fn place(&self) -> Place {
        self.place
    }

    /// A device that has it.
    pub fn device(&self) -> &'static DeviceHandle {
        self.device
    }

    /// Its main memory space, from which and to which the others copy like it.
    pub fn space(&self) -> u32 {
        self.spaces.main()
    }

    /// Handles of its buffers are addresses in this process.
    pub fn has_addresses(&self) -> bool {
        self.spaces.have_addresses()
    }

    /// Bytes that may be used, including those in the cache.
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Sets the budget. Memory in use beyond it stays until the next allocation.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Relaxed);
    }

    /// Bytes of buffers in use.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.pool().used
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Bytes of a buffer for `bytes` bytes.
    pub fn rounded(bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(ROUND).unwrap_or(u64::MAX)
    }

    /// A zeroed buffer of at least this many bytes: one of the cache if there is one that is hardly larger.
    /// Makes room where the budget ends. What a kernel promised to write and did not is then 0, and nothing
    /// of another array.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`] if it does not fit; those of the backend.
    pub fn alloc(&'static self, bytes: u64) -> Result<DeviceBuffer, Error> {
        self.take(bytes, true)
    }

    /// The same. Not `zeroed`: it may have what another array left.
    fn take(&'static self, bytes: u64, zeroed: bool) -> Result<DeviceBuffer, Error> {
        let bytes = DeviceMemory::rounded(bytes.max(1));
        let used = match self.cached(bytes) {
            Some(buffer) => Some(buffer),
            None => self.make_room(bytes)?,
        };
        let bytes = match used {
            None => bytes,
            Some(buffer) if !zeroed && self.keeps_buffers() => return Ok(buffer),
            Some(buffer) if self.clear(&buffer)? => return Ok(buffer),
            // Its bytes stay claimed.
            Some(buffer) => self.give_up(buffer),
        };
        match self.alloc_claimed(bytes) {
            Ok(raw) => Ok(self.buffer(raw, bytes)),
            Err(error) => {
                self.pool().used -= bytes;
                Err(match error {
                    Error::Backend { code: Code::OutOfMemory, text } => self.too_little(bytes, text),
                    other => other,
                })
            }
        }
    }

    fn alloc_claimed(&self, bytes: u64) -> Result<Buffer, Error> {
        match self.alloc_new(bytes) {
            Err(Error::Backend { code: Code::OutOfMemory, .. }) => {
                // The device has less memory than the budget: evicts as much as possible.
                self.evict(bytes)?;
                self.trim(u64::MAX);
                self.alloc_new(bytes)
            }
            other => other,
        }
    }

    /// Sets the bytes of a buffer without users to 0. False: the device cannot.
    fn clear(&self, buffer: &DeviceBuffer) -> Result<bool, Error> {
        let Some(clear) = self.device.api.clear else { return Ok(false) };
        // SAFETY: `alloc` of this device gave the buffer, with that many bytes, and it has no users.
        match unsafe { take_error(clear(self.device.raw, buffer.raw, buffer.bytes)) } {
            // It may be one from before the device was lost.
            Err(Error::Backend { code: Code::Unsupported | Code::DeviceLost, .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// False: its device is in another process, and if that has ended, another is in its place, which has
    /// none of the buffers. To clear one finds that out.
    fn keeps_buffers(&self) -> bool {
        !self.device.info().remote
    }

    /// Frees a buffer; returns its bytes.
    fn give_up(&self, buffer: DeviceBuffer) -> u64 {
        let buffer = ManuallyDrop::new(buffer);
        self.free_allocated(buffer.raw, buffer.bytes);
        buffer.bytes
    }

    fn cached(&'static self, bytes: u64) -> Option<DeviceBuffer> {
        let mut pool = self.pool();
        let (&size, buffers) = pool.free.range_mut(bytes..=bytes.saturating_add(bytes / 8)).next()?;
        let raw = buffers.pop()?;
        if buffers.is_empty() {
            pool.free.remove(&size);
        }
        pool.cached -= size;
        pool.used += size;
        drop(pool);
        Some(self.buffer(raw, size))
    }

    fn buffer(&'static self, raw: Buffer, bytes: u64) -> DeviceBuffer {
        DeviceBuffer { memory: self, raw, bytes, losses: self.losses().into(), shared: None }
    }

    fn alloc_new(&self, bytes: u64) -> Result<Buffer, Error> {
        let alloc = self.device.api.alloc.ok_or_else(|| self.no_slot("alloc"))?;
        self.spaces.alloc(bytes, |space| {
            let mut buffer = Buffer { space, reserved: 0, handle: 0 };
            // SAFETY: a device of this vtable, one of its spaces, and a local variable.
            unsafe { take_error(alloc(self.device.raw, space, bytes, &mut buffer))? };
            Ok(buffer)
        })
    }

    /// Frees what `alloc_new` gave.
    fn free_allocated(&self, buffer: Buffer, bytes: u64) {
        self.spaces.freed(buffer.space, bytes);
        self.free(buffer);
    }

    fn free(&self, buffer: Buffer) {
        if let Some(free) = self.device.api.free {
            // SAFETY: `alloc` of this device gave it, and it has no users. After an error (the device is
            // lost) nothing can be done: the buffer is gone.
            let _ = unsafe { take_error(free(self.device.raw, buffer)) };
        }
    }

    /// The error of a slot that a device with a memory of its own must have.
    pub(super) fn no_slot(&self, slot: &str) -> Error {
        Error::Backend {
            code: Code::Unsupported,
            text: format!(
                "device {} has a memory of its own and no slot `{slot}`: its backend must have one",
                self.device.id()
            ),
        }
    }

    /// Arrays of which it has copies, with the times of their last uses.
    fn copied(&self) -> Vec<(u64, Arc<ArrayInner>)> {
        let mut found = Vec::new();
        self.pool().copies.retain(|entry| match entry.header.upgrade() {
            Some(header) => {
                found.push((entry.last_use.get(), header));
                true
            }
            None => false,
        });
        found
    }

    /// The device is lost; [`settle_losses`] has to follow.
    #[cold]
    pub(super) fn note_loss(&self) {
        self.is_loss_noted.store(!self.outlives_devices(), Relaxed);
    }

    /// The device is lost, and what was in its memory. Elements that were current only there are poisoned,
    /// and no array without users keeps a copy there: the device may come back, with an empty memory. The
    /// caller has locked no directory but those of memories that it holds.
    #[cold]
    pub fn lose(&'static self) {
        self.losses.fetch_add(1, Relaxed);
        // Of what lies in the cache, too.
        self.trim(u64::MAX);
        for (_, header) in self.copied() {
            // What uses an array that is in use finds out by itself.
            if header.state.try_evict() {
                header.lose(self.place);
                header.end_evict();
            }
        }
    }

    fn losses(&self) -> u32 {
        self.losses.load(Relaxed)
    }

    /// True if a lost device leaves it as it is.
    pub fn outlives_devices(&self) -> bool {
        self.spaces.outlive_devices()
    }

    /// Ensures that a device has a buffer with room for a range of elements. One that is too small is
    /// replaced by one over both ranges. Then the old one is returned, which has to live until its current
    /// elements were [moved](ReplacedCopy::transfer).
    ///
    /// The caller holds the memory and has its directory.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc).
    pub fn reserve(
        &'static self,
        header: &ArrayInner,
        directory: &mut Directory,
        range: Range<u64>,
    ) -> Result<Option<ReplacedCopy>, Error> {
        let now = LastUse::now();
        if header.twin() == Some(self.place) {
            self.know(header, directory, now)?;
            return Ok(None);
        }
        let range = match directory.copy(self.place) {
            // Nothing is in it, and the device may have come back without it.
            Some(_) if directory.has_lost_buffer(self.place) => {
                header.home.leave();
                directory.set_copy(self.place, None);
                range
            }
            Some(copy) => {
                copy.last_use.set(now);
                if range.is_empty() || copy.has_room(&range) {
                    return Ok(None);
                }
                // The buffer that is too small may have users among other holders.
                header.home.leave();
                copy.range.start.min(range.start)..copy.range.end.max(range.end)
            }
            None => range,
        };
        let buffer = Arc::new(self.alloc((range.end - range.start) * header.element_size())?);
        Ok(match self.set_copy(header, directory, DeviceCopy::new(buffer, range, now)) {
            Some(old) => {
                let to = End::of(header, directory, self.place)?;
                let transfer = Transfer::between(header, directory.grid(), old.end(), to);
                Some(ReplacedCopy { old, transfer })
            }
            None => None,
        })
    }

    /// The same where it has none, and one copy is to bring all of the range.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc).
    pub fn reserve_to_fill(
        &'static self,
        header: &ArrayInner,
        directory: &mut Directory,
        range: Range<u64>,
    ) -> Result<Unfilled, Error> {
        debug_assert!(header.twin() != Some(self.place) && directory.copy(self.place).is_none());
        let buffer = Arc::new(self.take((range.end - range.start) * header.element_size(), false)?);
        self.set_copy(header, directory, DeviceCopy::new(buffer.clone(), range, LastUse::now()));
        Ok(Unfilled(Some(buffer)))
    }

    /// Returns the copy before.
    fn set_copy(
        &'static self,
        header: &ArrayInner,
        directory: &mut Directory,
        copy: DeviceCopy,
    ) -> Option<DeviceCopy> {
        self.enlist(Entry { header: header.weak(), last_use: copy.last_use.clone() });
        let old = directory.set_copy(self.place, Some(copy));
        header.state.track();
        old
    }

    /// Lets the devices of the host's twin know the pages of an array. They take nothing of the budget, and
    /// there is nothing to evict.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the system has no memory for the pages.
    fn know(&'static self, header: &ArrayInner, directory: &mut Directory, now: u64) -> Result<(), Error> {
        if let Some(copy) = directory.copy(self.place) {
            copy.last_use.set(now);
            return Ok(());
        }
        let all = 0..header.len() as u64;
        // From here on the host sees what devices write.
        header.commit(all.clone())?;
        let Some((shared, first)) = header.shared() else { return Ok(()) };
        let buffer = DeviceBuffer {
            memory: self,
            raw: shared.buffer(first),
            bytes: 0,
            losses: self.losses().into(),
            shared: Some(shared.clone()),
        };
        directory.set_copy(self.place, Some(DeviceCopy::new(Arc::new(buffer), all, now)));
        header.state.track();
        Ok(())
    }

    fn enlist(&self, entry: Entry) {
        let mut pool = self.pool();
        if pool.copies.len() >= pool.prune_at {
            pool.copies.retain(|e| e.header.strong_count() > 0 && !e.last_use.is_orphaned());
            pool.prune_at = 64.max(2 * pool.copies.len());
        }
        pool.copies.push(entry);
    }

    /// True if both are of one backend that found them together: the numbers of its spaces mean the same
    /// then.
    pub(super) fn is_found_with(&self, other: &DeviceMemory) -> bool {
        std::ptr::eq(self.device.api, other.device.api) && self.device.found_with == other.device.found_with
    }
}

impl DeviceHandle {
    /// Its memory; `None` if it uses the host's.
    #[inline]
    pub(crate) fn memory(&'static self) -> Option<&'static DeviceMemory> {
        self.memory.get(|| DeviceMemory::of(self))
    }

    /// The copies to and from its memory since the process began. All zeros for a device that uses the host's
    /// memory: there is nothing to copy.
    pub fn transfers(&'static self) -> Transfers {
        self.memory().map_or_else(Transfers::default, DeviceMemory::transfers)
    }

    /// Bytes of its memory that FLASH may use: by default all it has (or no limit, where that is
    /// unknown). `None` if it uses the host's memory.
    pub fn memory_budget(&'static self) -> Option<u64> {
        self.memory().map(DeviceMemory::budget)
    }

    /// Sets how many bytes of its memory FLASH may use, for the whole process. What exceeds it is given up at
    /// the next allocation. Copies that are not in use go first, the longest unused before others; what is
    /// current only there is copied to the host before. False, and nothing is done, if the device uses the
    /// host's memory.
    pub fn set_memory_budget(&'static self, bytes: u64) -> bool {
        self.memory().map(|memory| memory.set_budget(bytes)).is_some()
    }
}

/// A copy that was replaced by a larger one.
pub(crate) struct ReplacedCopy {
    /// Lives until its contents are moved.
    pub old: DeviceCopy,
    /// From the old buffer to the new one.
    pub transfer: Transfer,
}

/// A buffer that was not cleared, since one copy is to bring all that it is for: until that is
/// [done](Self::filled), it may have what another array left. Where it is dropped before, the copy has
/// failed, and the buffer counts as one whose contents were lost: another takes its place, as later launches
/// may write to it, and not all of it.
#[derive(Default)]
pub(crate) struct Unfilled(Option<Arc<DeviceBuffer>>);

impl Unfilled {
    /// The copy has succeeded.
    pub fn filled(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfilled {
    #[inline]
    fn drop(&mut self) {
        if let Some(buffer) = self.0.take() {
            buffer.losses.fetch_sub(1, Relaxed);
        }
    }
}

impl DeviceBuffer {
    pub fn raw(&self) -> Buffer {
        self.raw
    }

    /// True if its memory has lost its contents since it was taken into use.
    fn is_lost(&self) -> bool {
        self.losses.load(Relaxed) != self.memory.losses()
    }
}

impl DeviceCopy {
    /// In a buffer for these elements, used at that time.
    fn new(buffer: Arc<DeviceBuffer>, range: Range<u64>, now: u64) -> DeviceCopy {
        DeviceCopy { buffer, range, last_use: LastUse(Arc::new(AtomicU64::new(now))) }
    }

    /// Its buffer.
    pub fn raw(&self) -> Buffer {
        self.buffer.raw
    }

    /// The elements that it has room for, counted in the array.
    pub fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// True if it has room for these elements.
    pub fn has_room(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes
    }

    /// Keeps its buffer alive, whatever becomes of the copy.
    pub fn keep(&self) -> Arc<DeviceBuffer> {
        self.buffer.clone()
    }

    /// True if its buffer is kept.
    pub fn is_kept(&self) -> bool {
        Arc::strong_count(&self.buffer) > 1
    }

    /// True if its contents were lost.
    pub fn is_lost(&self) -> bool {
        self.buffer.is_lost()
    }

    /// The memory that it is in.
    #[inline]
    pub fn memory(&self) -> &'static DeviceMemory {
        self.buffer.memory
    }

    /// The time of its last use.
    pub fn last_use(&self) -> &LastUse {
        &self.last_use
    }

    /// One end of a transfer.
    pub fn end(&self) -> End {
        End { memory: Some(self.buffer.memory), buffer: self.buffer.raw, origin: self.range.start }
    }
}

impl std::fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes on {:?}", self.bytes, self.memory.device)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.shared.is_some() {
            return;
        }
        let is_lost = self.is_lost();
        let mut pool = self.memory.pool();
        pool.used -= self.bytes;
        if is_lost {
            drop(pool);
            return self.memory.free_allocated(self.raw, self.bytes);
        }
        pool.cached += self.bytes;
        pool.free.entry(self.bytes).or_default().push(self.raw);
    }
}
