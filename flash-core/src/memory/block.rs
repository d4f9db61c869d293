//! Blocks of the host's memory: where an array's bytes are, and which of them count as the host's. A block is
//! owned by one memory, and which thread may touch what is in it is ruled by that memory's
//! [`state`](super::state). Where it begins, and on which pages, is decided in `host_allocation.rs`.

use super::host_budget;
use super::reserved::Reserved;
use super::shared_pages::SharedPages;
use crate::devices::host_handles;
use flash_backend::host_allocation::{
    self, ALIGNMENT, HostAllocation, LARGE, ask, in_front, is_placed, room,
};
use std::alloc::{Layout, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A block of the host's memory, freed on drop.
pub(crate) struct HostBlock {
    data: *mut u8,
    source: Source,
    /// All of it can be written to.
    whole: AtomicBool,
    /// Bytes of it that count as the host's, see [`host_budget`](super::host_budget).
    committed: AtomicU64,
}

/// Where a block is from.
enum Source {
    /// The allocator.
    Heap(HostAllocation),
    /// The allocator; it stays the host's as long as it lives.
    Fixed(HostAllocation),
    /// A mapping of its own, and the number of bytes of data in it.
    Reserved(Reserved, usize),
    /// Devices of other processes, which have it in their memory.
    Shared(Arc<SharedPages>),
    /// Memory that is freed elsewhere.
    Lent,
}

// SAFETY: an address; which thread may touch the memory there is not ruled by a block.
unsafe impl Send for HostBlock {}
// SAFETY: as above.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    fn new(data: *mut u8, source: Source, whole: bool) -> HostBlock {
        let block = HostBlock { data, source, whole: AtomicBool::new(whole), committed: AtomicU64::new(0) };
        if whole {
            block.count(|_| u64::MAX);
        }
        block
    }

    /// Zeroed memory; dangling if the layout has no size; `None` if the system has too little.
    pub fn zeroed(layout: Layout) -> Option<HostBlock> {
        if layout.size() == 0 {
            return Some(HostBlock::lent(std::ptr::without_provenance_mut(layout.align())));
        }
        let heap = HostAllocation::zeroed(layout)?;
        Some(HostBlock::new(heap.data(), Source::Heap(heap), true))
    }

    /// Zeroed memory that the program has an address of: nothing of it is [given back](Self::give_back).
    pub fn fixed(layout: Layout) -> Option<HostBlock> {
        if layout.size() == 0 {
            return HostBlock::zeroed(layout);
        }
        HostBlock::in_devices_memory(layout).or_else(|| {
            let heap = HostAllocation::zeroed(layout)?;
            Some(HostBlock::new(heap.data(), Source::Fixed(heap), true))
        })
    }

    /// Zeroed memory that devices of other processes have, too; `None` if there are none.
    fn in_devices_memory(layout: Layout) -> Option<HostBlock> {
        if layout.align() > ALIGNMENT {
            return None;
        }
        let pages = SharedPages::in_place(layout.size())?;
        Some(HostBlock::new(pages.address(), Source::Shared(Arc::new(pages)), true))
    }

    /// Zeroed memory that the host can read and that takes no room until it is [committed](Self::commit).
    /// Where it is not large, or the system cannot do that, it is as of [`zeroed`](Self::zeroed). Devices
    /// that can have its pages have them, too.
    pub fn reserved(layout: Layout) -> Option<HostBlock> {
        if !is_placed(layout) {
            return HostBlock::in_devices_memory(layout).or_else(|| HostBlock::zeroed(layout));
        }
        let room = room(layout, true)?;
        let large = || if layout.size() >= LARGE { Reserved::new(room) } else { None };
        let Some(reserved) = Reserved::with_shared_pages(room).or_else(large) else {
            return HostBlock::zeroed(layout);
        };
        let base = reserved.base();
        ask(base, reserved.bytes());
        let data = base.wrapping_add(in_front(base, layout, true));
        let block = HostBlock::new(data, Source::Reserved(reserved, layout.size()), false);
        // What is small is not worth being looked up.
        match layout.size() >= LARGE || block.commit(0..layout.size()) {
            true => Some(block),
            false => HostBlock::zeroed(layout),
        }
    }

    /// The pages that devices have, too, and the first byte of the data in them.
    pub fn shared(&self) -> Option<(&Arc<SharedPages>, usize)> {
        match &self.source {
            Source::Reserved(reserved, _) => {
                Some((reserved.shared()?, self.data.addr() - reserved.base().addr()))
            }
            Source::Shared(pages) => Some((pages, 0)),
            _ => None,
        }
    }

    /// Zeroed memory, as a vector would allocate it.
    pub fn zeroed_or_abort(layout: Layout) -> HostBlock {
        HostBlock::zeroed(layout).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// The memory of a vector whose first `in_front` elements come before the array's.
    pub fn of_vec<T>(vec: Vec<T>, in_front: usize) -> HostBlock {
        let mut vec = ManuallyDrop::new(vec);
        let layout = Layout::array::<T>(vec.capacity()).expect("the vector has this layout");
        assert!(in_front <= vec.len(), "what is in front of the array is in the vector");
        let base = vec.as_mut_ptr();
        // By the pointer to all of it: what is written by that is no foreign write to the data.
        let data = base.wrapping_add(in_front).cast();
        match layout.size() {
            0 => HostBlock::lent(data),
            // SAFETY: the vector allocated it with this layout, and does not free it.
            _ => HostBlock::new(
                data,
                Source::Heap(unsafe { HostAllocation::new(base.cast(), data, layout) }),
                true,
            ),
        }
    }

    /// True if this is the memory of a `Vec<T>` from its first element on.
    pub fn is_of_vec<T>(&self) -> bool {
        matches!(&self.source, Source::Heap(heap) if heap.is_of_vec::<T>())
    }

    /// The vector whose memory [this is](Self::is_of_vec), with `len` elements.
    ///
    /// # Safety
    /// The first `len` elements are there and initialised, and nothing else refers to them.
    ///
    /// # Panics
    /// If it is the memory of no `Vec<T>`.
    pub unsafe fn into_vec<T>(mut self, len: usize) -> Vec<T> {
        self.leave();
        match std::mem::replace(&mut self.source, Source::Lent) {
            // SAFETY: the caller vouches.
            Source::Heap(heap) => unsafe { heap.into_vec(len) },
            _ => panic!("memory of a vector"),
        }
    }

    /// Memory that is freed elsewhere.
    pub fn lent(data: *mut u8) -> HostBlock {
        HostBlock::new(data, Source::Lent, true)
    }

    /// The first byte.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// False for memory that is freed elsewhere.
    pub fn is_ours(&self) -> bool {
        !matches!(self.source, Source::Lent)
    }

    /// The allocation's beginning, before what is in front of the data, and its size in bytes.
    fn all(&self) -> (*mut u8, usize) {
        match &self.source {
            Source::Heap(heap) | Source::Fixed(heap) => heap.all(),
            Source::Reserved(reserved, _) => (reserved.base(), reserved.bytes()),
            Source::Shared(pages) => (self.data, pages.bytes()),
            Source::Lent => (self.data, 0),
        }
    }

    fn bytes(&self) -> u64 {
        self.all().1 as u64
    }

    /// True if all of it can be written to. That lasts until something is [given back](Self::give_back).
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Bytes of it that count as the host's.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Changes how many bytes of it count as the host's. Returns how many fewer they are.
    fn count(&self, change: impl Fn(u64) -> u64) -> u64 {
        let all = self.bytes();
        if all < LARGE as u64 {
            return 0;
        }
        let next = |before: u64| Some(change(before).min(all));
        let before = self.committed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        let now = change(before).min(all);
        host_budget::change(before, now);
        before.saturating_sub(now)
    }

    /// True if these bytes of the data are writable and counted already.
    pub fn is_counted(&self, range: &Range<usize>) -> bool {
        let all = self.bytes();
        range.is_empty() || self.is_whole() && (all < LARGE as u64 || self.committed() == all)
    }

    /// Makes the bytes `range` of the data writable. False: the system has no memory for them.
    pub fn commit(&self, range: Range<usize>) -> bool {
        if self.is_counted(&range) {
            return true;
        }
        let Source::Reserved(reserved, size) = &self.source else {
            self.count(|before| before.saturating_add(range.len() as u64));
            return true;
        };
        let in_front = self.data.addr() - reserved.base().addr();
        let Some(bytes) = reserved.commit(in_front + range.start..in_front + range.end) else { return false };
        if reserved.shared().is_some() || range.start == 0 && range.end >= *size {
            self.count(|_| u64::MAX);
            self.whole.store(true, Ordering::Release);
        } else {
            self.count(|before| before.saturating_add(bytes as u64));
        }
        true
    }

    /// Gives back the memory of the bytes `range` of the data, as far as it is whole pages, which read as
    /// zeros then. Returns how many bytes are counted less.
    ///
    /// # Safety
    /// Nothing refers to these bytes, and nothing that is in them is needed.
    pub unsafe fn give_back(&self, range: Range<usize>) -> u64 {
        if matches!(self.source, Source::Fixed(_)) || self.shared().is_some() {
            return 0;
        }
        let (base, _) = self.all();
        let in_front = self.data.addr() - base.addr();
        let range = in_front + range.start..in_front + range.end;
        host_handles::forget(base.wrapping_add(range.start), range.len());
        if cfg!(test) && matches!(self.source, Source::Heap(..)) {
            // A read of it shows.
            // SAFETY: as the caller says; the range lies in the allocation.
            unsafe { std::ptr::write_bytes(base.add(range.start), 0xdb, range.len()) };
        }
        let bytes = match &self.source {
            Source::Reserved(reserved, size) => {
                self.whole.store(false, Ordering::Release);
                // What is in front of the data, and behind it, goes with them.
                let start = if range.start == in_front { 0 } else { range.start };
                let end = if range.end >= in_front + size { reserved.bytes() } else { range.end };
                let range = start..end;
                // SAFETY: as the caller says.
                unsafe { reserved.give_back(range) }
            }
            // SAFETY: as the caller says; the range lies in the allocation.
            Source::Heap(heap) => unsafe { drop_pages(heap.all().0, range) },
            Source::Fixed(_) | Source::Shared(_) | Source::Lent => 0,
        };
        self.count(|before| before.saturating_sub(bytes as u64))
    }
}

impl HostBlock {
    /// It is no block of an array's any more.
    fn leave(&self) {
        let (base, bytes) = self.all();
        host_handles::forget(base, bytes);
        self.count(|_| 0);
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Gives back the whole pages inside some bytes of an allocation. They read as zeros then, if they are memory
/// of this process alone. Returns how many bytes that are.
///
/// # Safety
/// The bytes lie in the allocation, nothing refers to them, and nothing that is in them is needed.
unsafe fn drop_pages(base: *mut u8, range: Range<usize>) -> usize {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let page = super::reserved::page();
        let begin = (base.addr() + range.start).next_multiple_of(page) - base.addr();
        let end = ((base.addr() + range.end) / page * page).saturating_sub(base.addr());
        if begin < end {
            // SAFETY: whole pages inside the bytes for which the caller vouches.
            let outcome = unsafe { libc::madvise(base.add(begin).cast(), end - begin, libc::MADV_DONTNEED) };
            return if outcome == 0 { end - begin } else { 0 };
        }
    }
    let _ = (base, range);
    0
}

/// A vector with room for `capacity` elements that is to become an array, and the number of elements in
/// front, which it has already. The array begins where a large one should if the size of an element divides
/// 16 bytes, else near it.
pub(super) fn vec<T: bytemuck::Zeroable>(capacity: usize) -> (Vec<T>, usize) {
    let size = size_of::<T>();
    let placed = capacity.saturating_mul(size) >= host_allocation::PLACED;
    let room = if placed { host_allocation::PAGE.div_ceil(size) } else { 0 };
    let mut vec: Vec<T> = Vec::with_capacity(capacity.saturating_add(room));
    ask(vec.as_mut_ptr().cast(), vec.capacity().saturating_mul(size));
    if placed {
        let in_front = host_allocation::to_next_place(vec.as_mut_ptr().cast()) / size;
        vec.extend(std::iter::repeat_with(T::zeroed).take(in_front));
    }
    let in_front = vec.len();
    (vec, in_front)
}

#[cfg(test)]
mod tests {
    use crate::FlashMemory;
    use flash_backend::host_allocation::{ALIGNMENT, PAGE, PLACED};
    use flash_backend::host_memory::HostBuffers;
    use flash_types::abi::SPACE_HOST;

    /// Where in its page each of 32 arrays begins that are made one after the other, in cache lines.
    fn places<T>(mut make: impl FnMut() -> (usize, T)) -> Vec<usize> {
        let made: Vec<(usize, T)> = (0..if cfg!(miri) { 12 } else { 32 }).map(|_| make()).collect();
        let line = |(at, _): &(usize, T)| {
            assert_eq!(at % ALIGNMENT, 0);
            at % PAGE / ALIGNMENT
        };
        made.iter().map(line).collect()
    }

    #[track_caller]
    fn are_apart(mut places: Vec<usize>) {
        // Other tests take some offsets, too, so they are not all seen here.
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 8, "{places:?}");
    }

    #[test]
    fn large_arrays_begin_at_places_of_their_own() {
        const LARGE: usize = PLACED / 16;
        let at = |memory: FlashMemory<u128>| (memory.header().data().addr(), memory);
        are_apart(places(|| at(FlashMemory::zeroed(LARGE))));
        are_apart(places(|| at((0..LARGE).map(|i| i as u128).collect())));
        are_apart(places(|| at(FlashMemory::from(&[1; LARGE][..]))));
        let buffers = HostBuffers::default();
        are_apart(places(|| (buffers.alloc(SPACE_HOST, PLACED as u64).unwrap().handle as usize, ())));
    }

    #[test]
    fn arrays_of_any_elements_are_what_was_put_in() {
        are_what_was_put_in::<3>(if cfg!(miri) { 60 } else { 1000 });
        are_what_was_put_in::<771>(PLACED);
        are_what_was_put_in::<5000>(PLACED);
        let nothing: FlashMemory<[u8; 0]> = std::iter::repeat_n([], 1000).collect();
        assert_eq!(nothing.len(), 1000);
    }

    /// An iterator that claims to have this many elements.
    struct ExactLength<I>(I, usize);

    impl<I: Iterator> Iterator for ExactLength<I> {
        type Item = I::Item;

        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.1, Some(self.1))
        }
    }

    /// Arrays of about `bytes` bytes, and of fewer, with elements of `N` bytes.
    fn are_what_was_put_in<const N: usize>(bytes: usize) {
        for len in [0, 1, bytes / N, bytes / N + 1, 2 * bytes / N] {
            let expected: Vec<[u8; N]> = (0..len).map(|i| [i as u8; N]).collect();
            let counted: FlashMemory<[u8; N]> = expected.iter().copied().collect();
            assert_eq!(*counted.read().unwrap(), expected[..]);
            // An iterator of unknown length, and one that is wrong about it.
            let grown: FlashMemory<[u8; N]> = expected.iter().copied().filter(|_| true).collect();
            assert_eq!(*grown.read().unwrap(), expected[..]);
            for said in [0, len.saturating_sub(1), len + 1] {
                let told: FlashMemory<[u8; N]> = ExactLength(expected.iter().copied(), said).collect();
                assert_eq!(*told.read().unwrap(), expected[..]);
            }
            assert_eq!(*FlashMemory::from(&expected[..]).read().unwrap(), expected[..]);
            let zeros = FlashMemory::<[u8; N]>::zeroed(len);
            assert!(zeros.len() == len && zeros.read().unwrap().iter().all(|&element| element == [0; N]));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let buffers = HostBuffers::default();
        // Miri ends if the system has less than it is asked for.
        let asked = if cfg!(miri) { u64::MAX } else { 1 << 62 };
        for bytes in [u64::MAX, u64::MAX / 2, i64::MAX as u64 - 63, asked] {
            assert!(buffers.alloc(SPACE_HOST, bytes).is_err(), "{bytes}");
        }
        assert_eq!(buffers.bytes(buffers.alloc(SPACE_HOST, 100_000).unwrap()), 100_000);
    }

    /// True if the system says that large pages were asked for in the middle of an array.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn asked(memory: &FlashMemory<u8>) -> bool {
        let middle = memory.header().data() as usize + memory.len() / 2;
        crate::memory::reserved::tests::mapping(middle).has("hg")
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn large_arrays_ask_for_large_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        const LARGE: usize = 64 << 20;
        assert!(asked(&FlashMemory::zeroed(LARGE)));
        let counted: FlashMemory<u8> = (0..LARGE).map(|i| i as u8).collect();
        assert!(asked(&counted));
        assert!(asked(&FlashMemory::from(&counted.read().unwrap()[..])));
        assert!(!asked(&FlashMemory::zeroed(1 << 20)));
    }
}
