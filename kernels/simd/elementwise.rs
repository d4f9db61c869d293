//! A result element by element from two arrays.

use super::streams::{STREAMS, ask_ahead, one_stream, streams};
use super::vector::in_order;
use super::{InstructionSet, Number, Vector};

/// Bytes of a result from which on its stores go past the caches. What is stored the usual way is read
/// first, which costs a third of the bandwidth; but what fits into the caches may be wanted there.
const PAST_CACHES: u64 = 8 << 20;

/// What is done with two elements, and with registers of them.
pub(crate) trait Operation {
    fn of<T: Number>(a: T, b: T) -> T;

    /// # Safety
    /// The CPU has the register's instructions.
    unsafe fn of_registers<T: Number, V: Vector<T>>(a: V, b: V) -> V;
}

/// `c[i] = O::of(a[i], b[i])`, for a run of a result of `n` elements.
///
/// # Panics
/// If the lengths differ, or the CPU lacks the instructions.
#[inline(always)]
pub(crate) fn elementwise<O: Operation, I: InstructionSet, T: Number>(
    n: u64,
    (a, b, c): (&[T], &[T], &mut [T]),
) {
    assert!(
        a.len() == c.len() && b.len() == c.len(),
        "expected arrays of one length, found {}, {} and {} elements",
        a.len(),
        b.len(),
        c.len()
    );
    if n.saturating_mul(size_of::<T>() as u64) < PAST_CACHES {
        return plain::<O, T>(a, b, c);
    }
    match one_stream() {
        true => past_caches::<O, I, T, 1>(a, b, c),
        false => past_caches::<O, I, T, STREAMS>(a, b, c),
    }
}

#[inline(always)]
fn plain<O: Operation, T: Number>(a: &[T], b: &[T], c: &mut [T]) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        *c = O::of(*a, *b);
    }
}

/// Elements that are stored at once past the caches: one or two whole cache lines, and whole registers.
const LINE: usize = 16;

/// The line that begins at an element, of arrays of one length.
///
/// # Safety
/// The CPU has the instructions, and the line of the result is aligned to 64 bytes.
#[inline(always)]
unsafe fn line<O: Operation, I: InstructionSet, T: Number, const N: usize>(
    at: usize,
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    let (a, b, c) = (&a[at..][..LINE], &b[at..][..LINE], &mut c[at..][..LINE]);
    if N > 1 {
        ask_ahead(a.as_ptr());
        ask_ahead(b.as_ptr());
    }
    for part in (0..LINE).step_by(I::Vector::<T>::LANES) {
        // SAFETY: the caller vouches; all three have this line, which is whole registers, of 64 bytes at most.
        unsafe {
            let of = |line: &[T]| I::Vector::<T>::load(line.as_ptr().add(part));
            O::of_registers(of(a), of(b)).stream(c.as_mut_ptr().add(part));
        }
    }
}

/// Whole cache lines are stored past the caches, by so many streams; several ask ahead. The arrays are of one length.
#[inline(always)]
fn past_caches<O: Operation, I: InstructionSet, T: Number, const N: usize>(a: &[T], b: &[T], c: &mut [T]) {
    assert!(I::there(), "this CPU lacks the instructions");
    let head = c.as_ptr().align_offset(64).min(c.len());
    let ((a_head, a), (b_head, b), (c_head, c)) = (a.split_at(head), b.split_at(head), c.split_at_mut(head));
    plain::<O, T>(a_head, b_head, c_head);
    let lines = c.len() / LINE * LINE;
    // SAFETY: the CPU has the instructions, as asserted, and behind its head `c` is aligned.
    let end = streams::<T, N>(c.len(), LINE, |_, at| unsafe { line::<O, I, T, N>(at, a, b, c) });
    for at in (end..lines).step_by(LINE) {
        // SAFETY: as above.
        unsafe { line::<O, I, T, N>(at, a, b, c) };
    }
    plain::<O, T>(&a[lines..], &b[lines..], &mut c[lines..]);
    // Whoever is told that the run is done must see them.
    in_order();
}
