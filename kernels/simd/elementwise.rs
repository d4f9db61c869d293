//! A result element by element from two arrays.

use super::{InstructionSet, Number};

/// Bytes of a result from which on its stores go past the caches. What is stored the usual way is read
/// first, which costs a third of the bandwidth; but what fits into the caches may be wanted there.
const PAST_CACHES: u64 = 8 << 20;

/// `c[i] = op(a[i], b[i])`, for a run of a result of `n` elements. `op` is inlined always.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(crate) fn elementwise<I: InstructionSet, T: Number>(
    n: u64,
    (a, b, c): (&[T], &[T], &mut [T]),
    op: impl Fn(T, T) -> T + Copy,
) {
    assert!(
        a.len() == c.len() && b.len() == c.len(),
        "expected arrays of one length, found {}, {} and {} elements",
        a.len(),
        b.len(),
        c.len()
    );
    if n.saturating_mul(size_of::<T>() as u64) < PAST_CACHES {
        return plain(a, b, c, op);
    }
    #[cfg(target_arch = "x86_64")]
    past_caches(a, b, c, op);
    #[cfg(not(target_arch = "x86_64"))]
    plain(a, b, c, op);
}

#[inline(always)]
fn plain<T: Number>(a: &[T], b: &[T], c: &mut [T], op: impl Fn(T, T) -> T) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        *c = op(*a, *b);
    }
}

/// Elements that are stored at once past the caches: one or two whole cache lines.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 16;

/// Whole cache lines are stored past the caches.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn past_caches<T: Number>(a: &[T], b: &[T], c: &mut [T], op: impl Fn(T, T) -> T + Copy) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    let head = c.as_ptr().align_offset(64).min(c.len());
    let ((a_head, a), (b_head, b), (c_head, c)) = (a.split_at(head), b.split_at(head), c.split_at_mut(head));
    plain(a_head, b_head, c_head, op);
    let ((a, a_tail), (b, b_tail), (c, c_tail)) =
        (a.as_chunks::<LINE>(), b.as_chunks::<LINE>(), c.as_chunks_mut::<LINE>());
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        let line: [T; LINE] = std::array::from_fn(|l| op(a[l], b[l]));
        let (from, to) = (line.as_ptr().cast::<__m128i>(), c.as_mut_ptr().cast::<__m128i>());
        for part in 0..size_of_val(&line) / size_of::<__m128i>() {
            // SAFETY: both have this part, and `to` is aligned to 64 bytes: `c` is so behind its head. Every
            // x86-64 has these instructions.
            unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) };
        }
    }
    plain(a_tail, b_tail, c_tail, op);
    // Such stores are in no order with others: whoever is told that the run is done must see them.
    // SAFETY: every x86-64 has it.
    unsafe { _mm_sfence() };
}
