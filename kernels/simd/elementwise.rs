//! Element-wise results of two arrays.

use super::streams::{STREAMS, ask_ahead, side_by_side, streams};
use super::vector::in_order;
use super::{InstructionSet, Number, Vector, one_stream};
use std::mem::MaybeUninit;

/// Bytes of a result from which on its stores go past the caches. A usual store reads the line first, which
/// costs a third of the bandwidth; but a result that fits into the caches may be needed there.
pub(crate) const PAST_CACHES: u64 = 8 << 20;

/// An operation on two elements, and on registers of them.
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
pub(crate) fn elementwise<O: Operation, I: InstructionSet, T: Number>(n: u64, a: &[T], b: &[T], c: &mut [T]) {
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
        true => past_caches::<O, I, T, false>(a, b, c),
        false => past_caches::<O, I, T, true>(a, b, c),
    }
}

#[inline(always)]
fn plain<O: Operation, T: Number>(a: &[T], b: &[T], c: &mut [T]) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        *c = O::of(*a, *b);
    }
}

/// Bytes of a cache line, which is stored past the caches at once.
const LINE: usize = 64;

/// Lines whose results are in registers before the first of them is stored. A load from an array waits for a
/// recent store to another array at the same place of its page. On an EPYC (Zen 4), where arrays lay so and
/// were in the third-level cache, a loop in C that stored after each load was 1.4 to 2.9 times as slow.
const TOGETHER: usize = STREAMS;

/// The lines that begin at elements; `ASK`: prefetches those that follow soon.
///
/// # Safety
/// The CPU has the instructions, and these lines of the result are aligned to 64 bytes.
#[inline(always)]
unsafe fn lines<O: Operation, I: InstructionSet, T: Number, const ASK: bool>(
    at: [usize; TOGETHER],
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    let (elements, lanes) = (LINE / size_of::<T>(), I::Vector::<T>::LANES);
    let registers = elements / lanes;
    // As many as for 16 bytes, the smallest register.
    let mut results = [MaybeUninit::<I::Vector<T>>::uninit(); TOGETHER * LINE / 16];
    for line in 0..TOGETHER {
        let (a, b) = (&a[at[line]..][..elements], &b[at[line]..][..elements]);
        if ASK {
            ask_ahead(a.as_ptr());
            ask_ahead(b.as_ptr());
        }
        for part in 0..registers {
            // SAFETY: the caller vouches for the CPU; both have this line, which is whole registers.
            unsafe {
                let a = I::Vector::<T>::load(a.as_ptr().add(part * lanes));
                let b = I::Vector::<T>::load(b.as_ptr().add(part * lanes));
                results[line * registers + part].write(O::of_registers(a, b));
            }
        }
    }
    for line in 0..TOGETHER {
        let c = &mut c[at[line]..][..elements];
        for part in 0..registers {
            // SAFETY: the caller vouches for the CPU and for the alignment; the result has this line, and the
            // register was just written.
            unsafe {
                results[line * registers + part].assume_init().stream(c.as_mut_ptr().add(part * lanes))
            };
        }
    }
}

/// Whole cache lines are stored past the caches, some together: of one stream, or of several, with prefetch.
/// The arrays have one length.
#[inline(always)]
fn past_caches<O: Operation, I: InstructionSet, T: Number, const MANY: bool>(a: &[T], b: &[T], c: &mut [T]) {
    I::assert_there();
    let head = c.as_ptr().align_offset(LINE).min(c.len());
    let ((a_head, a), (b_head, b), (c_head, c)) = (a.split_at(head), b.split_at(head), c.split_at_mut(head));
    plain::<O, T>(a_head, b_head, c_head);
    let line = LINE / size_of::<T>();
    let mut end = 0;
    if MANY {
        // SAFETY: the CPU has the instructions, as asserted, and after its head `c` is aligned.
        end = streams::<T>(c.len(), line, |at| unsafe { lines::<O, I, T, MANY>(at, a, b, c) });
    }
    let whole = c.len() / (TOGETHER * line) * (TOGETHER * line);
    for at in (end..whole).step_by(TOGETHER * line) {
        // SAFETY: as above.
        unsafe { lines::<O, I, T, MANY>(side_by_side(at, line), a, b, c) };
    }
    plain::<O, T>(&a[whole..], &b[whole..], &mut c[whole..]);
    // A thread that is told that the run is done must see them.
    in_order();
}
