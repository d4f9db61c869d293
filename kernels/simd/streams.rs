//! Loops over arrays that are beyond the caches.

/// Places of an array that a loop goes through at the same time, on CPUs where memory gives more to several
/// streams than to one.
pub(super) const STREAMS: usize = 4;

/// Bytes of a stream, before the next ones begin. On a Sapphire Rapids `vdp` then reads at the rate of reads
/// alone, at 0.93 of it with one stream, and at 0.88 with streams of 512 KiB; `ewmm` goes through 1.15 to 1.2
/// times as much as with one stream.
pub(super) const STREAM: usize = 32 << 10;

/// Bytes between the prefetch of elements and their use.
const AHEAD: usize = 2048;

/// Calls `each` with the first of `step` elements of every stream, for the elements below the result, each
/// once. The others, fewer than all streams have at a time, are left.
///
/// # Panics
/// If a stream is not whole steps.
#[inline(always)]
pub(super) fn streams<T>(elements: usize, step: usize, mut each: impl FnMut([usize; STREAMS])) -> usize {
    let stream = STREAM / size_of::<T>();
    assert!(stream.is_multiple_of(step), "expected streams of whole steps");
    let end = elements / (STREAMS * stream) * (STREAMS * stream);
    for first in (0..end).step_by(STREAMS * stream) {
        for next in (0..stream).step_by(step) {
            each(side_by_side(first + next, stream));
        }
    }
    end
}

/// One position per stream, at a stream's distance from each other.
#[inline(always)]
pub(super) fn side_by_side(first: usize, stride: usize) -> [usize; STREAMS] {
    std::array::from_fn(|number| first + number * stride)
}

/// Prefetches the cache line that a loop uses soon, which uses this element now; it may be outside all
/// arrays.
#[inline(always)]
pub(super) fn ask_ahead<T>(now: *const T) {
    prefetch(now.wrapping_byte_add(AHEAD));
}

/// Prefetches the cache line of an element, which may be outside all arrays.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 has it, and it may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_below_the_result_is_gone_through_once() {
        let whole = STREAMS * STREAM / 8;
        for elements in [0, 1, whole - 1, whole, whole + 1, 3 * whole + 77] {
            let mut seen = vec![0u8; elements];
            let end = streams::<f64>(elements, 16, |all| {
                for at in all {
                    seen[at..at + 16].iter_mut().for_each(|seen| *seen += 1);
                }
            });
            assert_eq!(end, elements / whole * whole);
            assert!(seen[..end].iter().all(|seen| *seen == 1) && seen[end..].iter().all(|seen| *seen == 0));
        }
    }
}
