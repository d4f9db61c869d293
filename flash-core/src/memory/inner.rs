//! The part of a memory that all its handles share. A thread may touch its elements as `state` lets it; the
//! rest is locked, atomic, or never changes.

use super::block::HostBlock;
use super::device::LastUse;
use super::device::PinnedByDevices;
use super::directory::{Directory, Place};
use super::guard::GuardSites;
use super::host_budget;
use super::order::Parts;
use super::region::Region;
use super::residence::PublishedResidence;
use super::shared_pages::{self, SharedPages};
use super::state::State;
use crate::error::Error;
use flash_backend::host_allocation::ALIGNMENT;
use flash_types::descriptor::Element;
use smallvec::SmallVec;
use std::alloc::Layout;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

/// The data, shape and state of one memory.
pub(crate) struct ArrayInner {
    pub state: State,
    /// The directory. `None`: all of it is on the host, as long as the state is not tracked. Dropped before
    /// `first`, which devices may know.
    pub(super) directory: Mutex<Option<Box<Directory>>>,
    /// The devices that may know the host's memory of it. It outlives their copies, as a program that writes
    /// the array on the host ends these in every round. Dropped before `first`, too.
    pub(super) pinned: PinnedByDevices,
    /// Signalled when a copy that the directory expected has arrived, or will not come.
    pub(super) arrived: Condvar,
    id: u64,
    first: HostBlock,
    len: usize,
    /// Bytes of one element.
    element_size: usize,
    /// Empty: no shape was given.
    shape: SmallVec<[u64; 4]>,
    /// The second buffer for phased arguments, made when first needed. Its elements are touched only by a
    /// holder of the state as a writer, and only those that it holds.
    second: OnceLock<HostBlock>,
    second_layout: Layout,
    /// When the host last had some of it committed or fetched.
    pub(super) host_use: AtomicU64,
    /// The published residence: what the directory says, where that is short.
    pub home: PublishedResidence,
    /// Bytes that the host fetches at least: the setting of the context that moved the memory last.
    pub(super) granule: AtomicU32,
    /// Guards of parts.
    pub(super) parts: Parts<Region>,
    /// Where all guards were made.
    pub(super) sites: GuardSites,
    /// Functions of the host that complete later, and use the host's memory of it meanwhile.
    lent: AtomicU32,
    /// Set if the elements are the offsets of rows: numbers that do not decrease, and that nothing writes any
    /// more. The last one.
    pub(super) end_of_rows: OnceLock<u64>,
    /// Itself, for finding it later if it still exists.
    me: Weak<ArrayInner>,
}

// SAFETY: the data are plain old data of a Send + Sync type; which thread may touch them when is ruled by
// `state`.
unsafe impl Send for ArrayInner {}
// SAFETY: as above.
unsafe impl Sync for ArrayInner {}

/// Bytes that the host fetches at least around what it reads of a memory on a device, unless a setting says
/// otherwise.
pub(crate) const GRANULE: u32 = 64 * 1024;

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The layout of an array; `None` if it is larger than memory can be.
pub(super) fn aligned<T>(len: usize) -> Option<Layout> {
    Layout::array::<T>(len).ok().and_then(aligned_to_devices)
}

/// A layout with the alignment that devices like; `None` if it is larger than memory can be.
pub(super) fn aligned_to_devices(layout: Layout) -> Option<Layout> {
    layout.align_to(ALIGNMENT).ok()
}

impl ArrayInner {
    /// An array of zeros of a layout.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn zeroed(
        len: usize,
        element_size: usize,
        layout: Layout,
        shape: SmallVec<[u64; 4]>,
    ) -> Result<Arc<ArrayInner>, Error> {
        let block = HostBlock::reserved(layout).ok_or_else(|| out_of_memory(layout.size() as u64))?;
        Ok(ArrayInner::of_block(block, len, element_size, layout, shape))
    }

    /// An array of zeros that the host may write, on pages that devices have, too. `None`: there are no such
    /// pages, or the array is too large for them.
    pub fn on_shared_pages<T: Element>(len: usize) -> Option<Arc<ArrayInner>> {
        let layout = aligned::<T>(len).filter(|_| shared_pages::is_offered())?;
        let array = ArrayInner::zeroed(len, size_of::<T>(), layout, SmallVec::new()).ok()?;
        (array.twin().is_some() && array.commit(0..len as u64).is_ok()).then_some(array)
    }

    /// An array of zeros on the host's memory that stays where it is, and is not given back before the array
    /// goes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn fixed(
        len: usize,
        element_size: usize,
        layout: Layout,
        shape: SmallVec<[u64; 4]>,
    ) -> Result<Arc<ArrayInner>, Error> {
        let block = HostBlock::fixed(layout).ok_or_else(|| out_of_memory(layout.size() as u64))?;
        Ok(ArrayInner::of_block(block, len, element_size, layout, shape))
    }

    /// The elements of a vector after the first `in_front`.
    pub fn of_vec<T: Element>(vec: Vec<T>, in_front: usize) -> Arc<ArrayInner> {
        let len = vec.len() - in_front;
        let layout = aligned::<T>(len).unwrap_or_else(|| {
            panic!("an array of {len} elements of {} bytes is larger than memory", size_of::<T>())
        });
        let first = HostBlock::of_vec(vec, in_front);
        host_budget::make_room(0);
        ArrayInner::of_block(first, len, size_of::<T>(), layout, SmallVec::new())
    }

    /// Memory of the host with another owner, lent for the time of a run. It is not freed.
    pub fn lent(data: *mut u8, len: usize, element_size: usize, shape: &[u64]) -> Arc<ArrayInner> {
        ArrayInner::of_block(HostBlock::lent(data), len, element_size, Layout::new::<()>(), shape.into())
    }

    fn of_block(
        first: HostBlock,
        len: usize,
        element_size: usize,
        second_layout: Layout,
        shape: SmallVec<[u64; 4]>,
    ) -> Arc<ArrayInner> {
        let state = State::new();
        if !first.is_whole() {
            state.track();
        }
        Arc::new_cyclic(|me| ArrayInner {
            state,
            id: next_id(),
            first,
            len,
            element_size,
            shape,
            second: OnceLock::new(),
            second_layout,
            directory: Mutex::new(None),
            pinned: PinnedByDevices::default(),
            arrived: Condvar::new(),
            host_use: AtomicU64::new(0),
            home: PublishedResidence::default(),
            granule: AtomicU32::new(GRANULE),
            parts: Parts::default(),
            sites: GuardSites::default(),
            lent: AtomicU32::new(0),
            end_of_rows: OnceLock::new(),
            me: me.clone(),
        })
    }

    /// Sets how many bytes the host fetches at least, before a launch of a context with this setting.
    #[inline]
    pub fn set_granule(&self, bytes: u32) {
        // Launches of one context only read it.
        if self.granule.load(Ordering::Relaxed) != bytes {
            self.granule.store(bytes, Ordering::Relaxed);
        }
    }

    /// The same memory in another shape of as many elements, with an empty directory. If it has other
    /// handles, it comes back unchanged.
    pub fn with_shape(
        this: Arc<ArrayInner>,
        shape: SmallVec<[u64; 4]>,
    ) -> Result<Arc<ArrayInner>, Arc<ArrayInner>> {
        let header = Arc::try_unwrap(this)?;
        Ok(Arc::new_cyclic(|me| ArrayInner { shape, id: next_id(), me: me.clone(), ..header }))
    }

    /// True if [`into_vec`](Self::into_vec) is possible.
    pub fn is_of_vec<T: Element>(&self) -> bool {
        self.first.is_of_vec::<T>()
    }

    /// The vector that the array was made of. All of it is on the host, and its elements are of type `T`.
    ///
    /// # Panics
    /// If it was made of no `Vec<T>`.
    pub fn into_vec<T: Element>(self) -> Vec<T> {
        let ArrayInner { directory, pinned, first, len, element_size, .. } = self;
        assert_eq!(element_size, size_of::<T>(), "elements of the array's type");
        // Devices may know the block until these are gone.
        drop((directory, pinned));
        // SAFETY: an array is initialised, and this was the last handle to it; elements are plain data.
        unsafe { first.into_vec(len) }
    }

    /// The same bytes, or the first of them, as elements of another size, with an empty directory. If it has
    /// other handles, or too few bytes, it comes back unchanged.
    pub fn retyped(
        this: Arc<ArrayInner>,
        len: usize,
        element_size: usize,
        shape: SmallVec<[u64; 4]>,
    ) -> Result<Arc<ArrayInner>, Arc<ArrayInner>> {
        match len.checked_mul(element_size) {
            Some(bytes) if bytes <= this.second_layout.size() => {}
            _ => return Err(this),
        }
        let header = Arc::try_unwrap(this)?;
        Ok(Arc::new_cyclic(|me| ArrayInner {
            len,
            element_size,
            shape,
            id: next_id(),
            me: me.clone(),
            ..header
        }))
    }

    /// A function of the host uses the host's memory of it until [`end_lending`](Self::end_lending), without
    /// a hold. Before the hold that the function was called with is given back.
    pub fn lend(&self) {
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    /// The function is complete.
    pub fn end_lending(&self) {
        self.lent.fetch_sub(1, Ordering::Release);
    }

    /// True if the host's memory of it may not be given back, though nothing holds it.
    pub fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Acquire) > 0
    }

    /// Itself.
    pub fn weak(&self) -> Weak<ArrayInner> {
        self.me.clone()
    }

    /// Bytes of one element.
    #[inline]
    pub fn element_size(&self) -> u64 {
        self.element_size as u64
    }

    #[cfg(feature = "recordings")]
    /// An array of zeros whose elements have no type here: `element` is the layout of one.
    ///
    /// # Errors
    /// The length, if the bytes are more than an address space has.
    pub fn erased(len: usize, element: Layout, shape: SmallVec<[u64; 4]>) -> Result<Arc<ArrayInner>, usize> {
        let layout = element
            .size()
            .checked_mul(len)
            .and_then(|bytes| Layout::from_size_align(bytes, element.align().max(ALIGNMENT)).ok());
        let layout = layout.ok_or(len)?;
        Ok(ArrayInner::of_block(HostBlock::zeroed_or_abort(layout), len, element.size(), layout, shape))
    }

    /// A number that no other memory has, nor this one before its shape was changed.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// First element.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.first.data()
    }

    /// True if the host can write to all of it. Otherwise the memory is tracked.
    pub fn is_whole(&self) -> bool {
        self.first.is_whole()
    }

    /// The pages of its block that devices have, too, and the first byte of the array in them.
    pub(super) fn shared(&self) -> Option<(&Arc<SharedPages>, usize)> {
        self.first.shared()
    }

    /// The place that is the host's by another name: a memory of devices whose pages the array is on.
    pub fn twin(&self) -> Option<Place> {
        self.first.shared().map(|(pages, _)| pages.place())
    }

    /// Where what a place has is kept: the host's own block, for the host and its twin.
    #[inline]
    pub fn kept_at(&self, place: Place) -> Place {
        if place != Place::HOST && self.twin() == Some(place) { Place::HOST } else { place }
    }

    /// Makes a range of elements writable for the host, and keeps their contents. The caller holds the
    /// memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the system has no memory for them, even after host blocks of other arrays were
    /// given back.
    pub fn commit(&self, range: Range<u64>) -> Result<(), Error> {
        self.host_use.store(LastUse::now(), Ordering::Relaxed);
        let size = self.element_size;
        let bytes = range.start as usize * size..range.end as usize * size;
        let wanted = bytes.len() as u64;
        if !self.first.is_counted(&bytes) {
            host_budget::make_room(wanted);
        }
        if self.first.commit(bytes.clone()) {
            return Ok(());
        }
        host_budget::give_back(wanted);
        if self.first.commit(bytes) { Ok(()) } else { Err(out_of_memory(wanted)) }
    }

    /// Gives back the host's memory of a range of elements. Returns how many bytes that are.
    ///
    /// # Safety
    /// The caller holds the memory alone, and the range is current elsewhere, or needed nowhere.
    pub(super) unsafe fn uncommit(&self, range: Range<u64>) -> u64 {
        let size = self.element_size;
        // SAFETY: as the caller says.
        unsafe { self.first.give_back(range.start as usize * size..range.end as usize * size) }
    }

    /// Bytes of the host's memory that it takes, as the budget counts them.
    pub(super) fn committed(&self) -> u64 {
        self.first.committed()
    }

    /// False for memory with another owner.
    pub fn is_ours(&self) -> bool {
        self.first.is_ours()
    }

    /// Bytes that were allocated for its elements.
    pub fn bytes(&self) -> usize {
        self.second_layout.size()
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The second buffer.
    pub fn second(&self) -> *mut u8 {
        self.second.get_or_init(|| HostBlock::zeroed_or_abort(self.second_layout)).data()
    }
}

#[cold]
fn out_of_memory(wanted: u64) -> Error {
    Error::OutOfMemory { wanted, held: host_budget::committed() }
}
