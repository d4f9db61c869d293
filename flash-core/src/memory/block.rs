//! Memory of the host that we allocate: where it begins, and on which pages it is.
//!
//! A CPU that looks for the store that a load has to wait for compares the addresses within a page. Of two large arrays that
//! begin at the same place of their pages, as an allocator gives them, what is loaded of one seems to be what was just
//! stored of the other, and waits. So large arrays begin at places of their own.
//!
//! Large pages take fewer faults when they are first used, and fewer misses of the address cache where they are used in
//! no order. Linux has them for who asks, where it is set to `madvise` (or `always`).

use super::host_handles;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of what we allocate ourselves: a cache line, and the widest vector register.
pub(crate) const ALIGNMENT: usize = 64;

/// The largest alignment with which large memory comes zeroed from the system, and is not written to before
/// somebody uses it.
const SYSTEM_ALIGNMENT: usize = 16;

/// Addresses are compared within so many bytes.
const PAGE: usize = 4096;

/// Arrays of so many bytes get a place of their own, for which up to a page is left free.
const PLACED: usize = 64 << 10;

/// Arrays of so many bytes are worth large pages.
const WORTH: usize = 4 << 20;

/// A block of the host's memory, freed on drop.
pub(crate) struct HostBlock {
    data: *mut u8,
    /// What was allocated, and how.
    base: *mut u8,
    layout: Layout,
}

// SAFETY: an address; who may touch what is there is not ruled by a block.
unsafe impl Send for HostBlock {}
// SAFETY: as above.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Zeroed memory; dangling if the layout has no size; `None` if there is not so much.
    pub fn zeroed(layout: Layout) -> Option<HostBlock> {
        if layout.size() == 0 {
            return Some(HostBlock::lent(std::ptr::without_provenance_mut(layout.align())));
        }
        let placed = layout.size() >= PLACED && layout.align() <= ALIGNMENT;
        let room = layout.size().checked_add(if placed { PAGE } else { layout.align() })?;
        let whole = Layout::from_size_align(room, SYSTEM_ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let base = unsafe { alloc_zeroed(whole) };
        if base.is_null() {
            return None;
        }
        ask(base, whole.size());
        let in_front = if placed { to_next_place(base) } else { base.align_offset(layout.align()) };
        Some(HostBlock { data: base.wrapping_add(in_front), base, layout: whole })
    }

    /// Zeroed memory, as a vector would allocate it.
    pub fn zeroed_or_abort(layout: Layout) -> HostBlock {
        HostBlock::zeroed(layout).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// A vector's memory, that begins behind so many elements.
    pub fn of_vec<T>(vec: Vec<T>, in_front: usize) -> HostBlock {
        let mut vec = ManuallyDrop::new(vec);
        let layout = Layout::array::<T>(vec.capacity()).expect("the vector has this layout");
        let data = vec[in_front..].as_mut_ptr().cast();
        HostBlock { data, base: vec.as_mut_ptr().cast(), layout }
    }

    /// Somebody else's: nobody frees a block without size.
    pub fn lent(data: *mut u8) -> HostBlock {
        HostBlock { data, base: data, layout: Layout::new::<()>() }
    }

    /// The first byte.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// False for somebody else's.
    pub fn is_ours(&self) -> bool {
        self.layout.size() != 0
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if self.is_ours() {
            host_handles::forget(self.base, self.layout.size());
            // SAFETY: allocated with this layout by `zeroed` or by the vector that was taken.
            unsafe { dealloc(self.base, self.layout) };
        }
    }
}

/// A vector with room for so many elements, to become an array: behind those that it has, whose number comes with it. That
/// begins where a large array should if the size of elements divides 16 bytes, else near it.
pub(super) fn vec<T: bytemuck::Zeroable>(capacity: usize) -> (Vec<T>, usize) {
    let size = size_of::<T>();
    let placed = capacity.saturating_mul(size) >= PLACED;
    let room = if placed { PAGE.div_ceil(size) } else { 0 };
    let mut vec: Vec<T> = Vec::with_capacity(capacity.saturating_add(room));
    ask(vec.as_mut_ptr().cast(), vec.capacity().saturating_mul(size));
    if placed {
        let in_front = to_next_place(vec.as_mut_ptr().cast()) / size;
        vec.extend(std::iter::repeat_with(T::zeroed).take(in_front));
    }
    let in_front = vec.len();
    (vec, in_front)
}

/// Bytes, less than a page, to where the next array begins: one of the 64 lines of a page, at least five away, in either
/// direction, from those of the nine arrays before it.
fn to_next_place(base: *mut u8) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let place = NEXT.fetch_add(19 * ALIGNMENT, Ordering::Relaxed);
    place.wrapping_sub(base.addr()) % PAGE
}

/// Asks for large pages for memory that was just allocated and has not been used. A wish: nothing fails.
fn ask(data: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= WORTH {
        /// A large page, or a part of one: a multiple of every other size of page.
        const LARGE: usize = 2 << 20;
        let skipped = data.align_offset(LARGE);
        let whole = bytes.saturating_sub(skipped) / LARGE * LARGE;
        // SAFETY: whole pages inside the allocation; the advice changes nothing that is in them.
        unsafe { libc::madvise(data.wrapping_add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (data, bytes, WORTH);
}

#[cfg(test)]
mod tests {
    use crate::FlashMemory;
    use crate::abi::SPACE_HOST;
    use crate::backend::host_memory::HostBuffers;

    /// Where in its page each of many arrays begins that are made one behind the other, in cache lines.
    fn places<T>(mut make: impl FnMut() -> (usize, T)) -> Vec<usize> {
        let made: Vec<(usize, T)> = (0..32).map(|_| make()).collect();
        let line = |(at, _): &(usize, T)| {
            assert_eq!(at % super::ALIGNMENT, 0);
            at % super::PAGE / super::ALIGNMENT
        };
        made.iter().map(line).collect()
    }

    #[track_caller]
    fn are_apart(mut places: Vec<usize>) {
        // Other tests take some, too: not all.
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 8, "{places:?}");
    }

    #[test]
    fn large_arrays_begin_at_places_of_their_own() {
        const LARGE: usize = super::PLACED / 16;
        let at = |memory: FlashMemory<u128>| (memory.header().data().addr(), memory);
        are_apart(places(|| at(FlashMemory::zeroed(LARGE))));
        are_apart(places(|| at((0..LARGE).map(|i| i as u128).collect())));
        are_apart(places(|| at(FlashMemory::from(&[1; LARGE][..]))));
        let buffers = HostBuffers::default();
        are_apart(places(|| (buffers.alloc(SPACE_HOST, super::PLACED as u64).unwrap().handle as usize, ())));
    }

    #[test]
    fn arrays_of_any_elements_are_what_was_put_in() {
        are_what_was_put_in::<3>(1000);
        are_what_was_put_in::<771>(super::PLACED);
        are_what_was_put_in::<5000>(super::PLACED);
        let nothing: FlashMemory<()> = std::iter::repeat_n((), 1000).collect();
        assert_eq!(nothing.len(), 1000);
    }

    /// Elements, of which it says that they are so many.
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

    /// Arrays of about so many bytes, and of fewer, whose elements have `N`.
    fn are_what_was_put_in<const N: usize>(bytes: usize) {
        for len in [0, 1, bytes / N, bytes / N + 1, 2 * bytes / N] {
            let expected: Vec<[u8; N]> = (0..len).map(|i| [i as u8; N]).collect();
            let counted: FlashMemory<[u8; N]> = expected.iter().copied().collect();
            assert_eq!(*counted.read().unwrap(), expected[..]);
            // Nobody knows how many come, or somebody is wrong.
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
        // Miri ends if the system has not as much as it is asked for.
        let asked = if cfg!(miri) { u64::MAX } else { 1 << 62 };
        for bytes in [u64::MAX, u64::MAX / 2, i64::MAX as u64 - 63, asked] {
            assert!(buffers.alloc(SPACE_HOST, bytes).is_err(), "{bytes}");
        }
        assert_eq!(buffers.bytes(buffers.alloc(SPACE_HOST, 100_000).unwrap()), 100_000);
    }

    /// True if the system said for the pages in the middle of an array that large ones were asked for.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn asked(memory: &FlashMemory<u8>) -> bool {
        let middle = memory.header().data() as usize + memory.len() / 2;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let word = line.split(' ').next().unwrap();
            let range = word.split_once('-').map(|(a, b)| [a, b].map(|hex| usize::from_str_radix(hex, 16)));
            match range {
                Some([Ok(begin), Ok(end)]) => inside = (begin..end).contains(&middle),
                _ if inside && word == "VmFlags:" => return line.split(' ').any(|flag| flag == "hg"),
                _ => {}
            }
        }
        panic!("the array is mapped nowhere")
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
