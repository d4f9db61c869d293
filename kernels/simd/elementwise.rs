//! A result element by element from two arrays.

use super::streams::{ask_ahead, streams};
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
    past_caches::<O, I, T>(a, b, c);
}

#[inline(always)]
fn plain<O: Operation, T: Number>(a: &[T], b: &[T], c: &mut [T]) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        *c = O::of(*a, *b);
    }
}

/// Elements that are stored at once past the caches: one or two whole cache lines, and whole registers.
const LINE: usize = 16;

/// Whole cache lines are stored past the caches. The arrays are of one length.
#[inline(always)]
fn past_caches<O: Operation, I: InstructionSet, T: Number>(a: &[T], b: &[T], c: &mut [T]) {
    assert!(I::there(), "this CPU lacks the instructions");
    let head = c.as_ptr().align_offset(64).min(c.len());
    let ((a_head, a), (b_head, b), (c_head, c)) = (a.split_at(head), b.split_at(head), c.split_at_mut(head));
    plain::<O, T>(a_head, b_head, c_head);
    let (n, to) = (c.len(), c.as_mut_ptr());
    let line = |at: usize| {
        let (a, b) = (&a[at..][..LINE], &b[at..][..LINE]);
        ask_ahead(a.as_ptr());
        ask_ahead(b.as_ptr());
        for part in (0..LINE).step_by(I::Vector::<T>::LANES) {
            // SAFETY: the CPU has the instructions, as asserted. `c` is as long as `a`, which has this line, and is
            // aligned to 64 bytes, as many as the largest register has: it is so behind its head.
            unsafe {
                let of = |line: &[T]| I::Vector::<T>::load(line.as_ptr().add(part));
                O::of_registers(of(a), of(b)).stream(to.add(at + part));
            }
        }
    };
    let (end, lines) = (streams::<T>(n, LINE, |_, at| line(at)), n / LINE * LINE);
    for at in (end..lines).step_by(LINE) {
        line(at);
    }
    plain::<O, T>(&a[lines..], &b[lines..], &mut c[lines..]);
    // Whoever is told that the run is done must see them.
    in_order();
}
