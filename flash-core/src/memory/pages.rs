//! Large arrays on large pages: fewer faults when they are first used, and fewer misses of the address cache where
//! they are used in no order. Linux has them for who asks, where it is set to `madvise` (or `always`).

/// Arrays of so many bytes are worth it.
const WORTH: usize = 4 << 20;

/// A vector with room for so many elements, to become an array.
pub(super) fn vec<T>(capacity: usize) -> Vec<T> {
    let mut vec: Vec<T> = Vec::with_capacity(capacity);
    ask(vec.as_mut_ptr().cast(), vec.capacity().saturating_mul(size_of::<T>()));
    vec
}

/// Asks for large pages for memory that was just allocated and has not been used. A wish: nothing fails.
pub(crate) fn ask(data: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= WORTH {
        /// A large page, or a part of one: a multiple of every other size of page.
        const PAGE: usize = 2 << 20;
        let skipped = data.align_offset(PAGE);
        let whole = bytes.saturating_sub(skipped) / PAGE * PAGE;
        // SAFETY: whole pages inside the allocation; the advice changes nothing that is in them.
        unsafe { libc::madvise(data.wrapping_add(skipped).cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (data, bytes, WORTH);
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use crate::FlashMemory;

    /// True if the system said for the pages in the middle of an array that large ones were asked for.
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
