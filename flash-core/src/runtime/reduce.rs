//! Accumulators: partial results per block of the index table, and their merge.
//!
//! [`blocks`], [`fill`], [`merge`] and [`fold`] are the whole of a reduction, on any device. For every phase,
//! `blocks` defines how its rows are cut, `fill` makes an accumulator per block, the kernel runs, `merge`
//! merges them into one, `fold` combines that with the result. Where the rows run, and in how many pieces,
//! does not matter as long as a block is in one piece.

use super::facts::KernelFacts;
use crate::devices::host_handles;
use crate::error::Error;
use crate::kernel::views::Operation;
use crate::nested::KernelMark;
use flash_backend::caught;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use flash_types::index::SpaceRef;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// The cut of a phase's rows for one accumulator. The last block may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Rows in a block, a power of two.
    pub rows: u64,
    /// Number of blocks; 0 if there are no rows.
    pub count: u64,
}

/// Fewer rows than this are not worth an accumulator of their own.
const LEAST_ROWS: u64 = 1 << 12;
/// More blocks than this exceed the number of threads.
const MOST_BLOCKS: u64 = 1 << 8;
/// Bytes of all partial results, about.
const MOST_BYTES: u64 = 16 << 20;

/// The blocks of a phase of `rows` rows, for an accumulator of `len` elements of `element_size` bytes.
///
/// A function of these three numbers alone: results, to the last bit, depend on it. A block has at least
/// as many rows as the accumulator has elements, so that filling and merging cost no more than the rows.
pub(crate) fn blocks(rows: u64, len: u64, element_size: u64) -> Blocks {
    let most = (MOST_BYTES / len.saturating_mul(element_size).max(1)).clamp(1, MOST_BLOCKS);
    let least = rows.div_ceil(most).max(len).max(LEAST_ROWS);
    let rows_per_block = least.checked_next_power_of_two().unwrap_or(1 << 63);
    Blocks { rows: rows_per_block, count: rows.div_ceil(rows_per_block) }
}

/// Runs code of an operation, which may be the user's.
fn guarded(body: impl FnOnce()) -> Result<(), Error> {
    let marked = || {
        let _mark = KernelMark::set();
        body();
    };
    caught(marked).map_err(|panic| Error::Backend {
        code: Code::Kernel,
        text: format!("the operation of a reduction panicked: {panic}"),
    })
}

/// Writes `n` identities.
///
/// # Errors
/// [`Error::Backend`] if the operation panics.
///
/// # Safety
/// There is room for `n` elements of the operation's, aligned.
pub(crate) unsafe fn fill(operation: &Operation, to: *mut u8, n: usize) -> Result<(), Error> {
    // SAFETY: the caller vouches.
    guarded(|| unsafe { operation.fill(to, n) })
}

/// Merges the accumulators of `count` blocks into one, as [`Operation::merge`] does.
///
/// # Errors
/// [`Error::Backend`] if the operation panics.
///
/// # Safety
/// `partials` has `count * len` initialised elements of the operation's, aligned, without another user.
pub(crate) unsafe fn merge(
    operation: &Operation,
    partials: *mut u8,
    count: usize,
    len: usize,
) -> Result<(), Error> {
    // SAFETY: the caller vouches.
    guarded(|| unsafe { operation.merge(partials, count, len) })
}

/// Combines the outcome of a phase with the result: `result = combine(result, outcome)`.
///
/// # Errors
/// [`Error::Backend`] if the operation panics.
///
/// # Safety
/// Both have `len` initialised elements of the operation's, aligned. They do not overlap, and nothing else
/// writes them, or reads the result.
pub(crate) unsafe fn fold(
    operation: &Operation,
    result: *mut u8,
    outcome: *const u8,
    len: usize,
) -> Result<(), Error> {
    // SAFETY: the caller vouches.
    guarded(|| unsafe { operation.combine(result, outcome, len) })
}

/// An accumulator of the launch: its argument, and the places of its result and its partial results.
struct Target<'p> {
    argument: usize,
    operation: &'p Operation,
    result: *mut u8,
    offset: usize,
    blocks: Blocks,
}

/// Runs a launch with accumulators: `send` runs some phases with the arguments that it is given. Phases are
/// run one by one, and merged one after the other.
pub(super) fn run(
    kernel: &KernelFacts,
    space: SpaceRef<'_>,
    args: &mut [Arg],
    mut send: impl FnMut(&[Arg], Range<u64>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut targets: SmallVec<[Target<'_>; 4]> = SmallVec::new();
    for (argument, (arg, spec)) in args.iter().zip(&kernel.arguments).enumerate() {
        if let Some(operation) = &spec.operation {
            let (result, blocks) = (arg.data.cast::<u8>(), Blocks { rows: 1, count: 0 });
            targets.push(Target { argument, operation, result, offset: 0, blocks });
            if arg.access == abi::ACCESS_WRITE {
                // SAFETY: the argument's elements, which the launch holds as a writer, or borrows.
                unsafe { fill(operation, result, arg.len as usize)? };
            }
        }
    }
    let of_phase = |phase, arg: &Arg| {
        let rows: Range<u64> = space.phase(phase);
        blocks(rows.end - rows.start, arg.len, u64::from(arg.element_size))
    };
    // If there is one block, and the initial content does not count, the block is the result's own memory.
    let is_result = |arg: &Arg| arg.access == abi::ACCESS_WRITE && of_phase(0, arg).count == 1;
    if space.phases() == 1 && targets.iter().all(|target| is_result(&args[target.argument])) {
        for target in &targets {
            let arg = &mut args[target.argument];
            arg.row_len = of_phase(0, arg).rows;
        }
        return send(args, 0..1);
    }
    let mut scratch = Scratch::take();
    for phase in 0..space.phases() {
        let (mut bytes, mut align) = (0, LINE);
        for target in &mut targets {
            let arg = &args[target.argument];
            target.blocks = of_phase(phase, arg);
            align = align.max(target.operation.align);
            (target.offset, bytes) = place(bytes, align, target.blocks.count, arg)?;
        }
        let base = scratch.reserve(bytes, align)?;
        for target in &targets {
            let arg = &mut args[target.argument];
            // SAFETY: the place of this target's blocks, inside the reserved memory, and aligned.
            let partials = unsafe { base.add(target.offset) };
            // SAFETY: as above.
            unsafe { fill(target.operation, partials, target.blocks.count as usize * arg.len as usize)? };
            (arg.data, arg.row_len) = (partials.cast(), target.blocks.rows);
        }
        send(args, phase..phase + 1)?;
        for target in &targets {
            let (len, count) = (args[target.argument].len as usize, target.blocks.count as usize);
            // SAFETY: filled above, and the kernel no longer uses them. The result is the argument's own
            // elements, as above.
            unsafe {
                let partials = base.add(target.offset);
                merge(target.operation, partials, count, len)?;
                fold(target.operation, target.result, partials, len)?;
            }
        }
    }
    Ok(())
}

/// The beginning and the end of `count` blocks of an argument that come after `bytes` bytes.
fn place(bytes: usize, align: usize, count: u64, arg: &Arg) -> Result<(usize, usize), Error> {
    let begin = bytes.checked_next_multiple_of(align);
    let size = u128::from(count) * u128::from(arg.len) * u128::from(arg.element_size);
    let end = begin.zip(usize::try_from(size).ok()).and_then(|(begin, size)| begin.checked_add(size));
    begin.zip(end).ok_or_else(|| out_of_memory(size))
}

#[cold]
fn out_of_memory(bytes: impl std::fmt::Display) -> Error {
    Error::Backend {
        code: Code::OutOfMemory,
        text: format!(
            "the partial results of a reduction need {bytes} bytes, which the host has not: reduce into a shorter array"
        ),
    }
}

/// Accumulators of different arguments share no cache line.
const LINE: usize = 64;
/// A thread keeps at most this many bytes.
const KEPT: usize = 64 << 20;

/// A cache line, as the unit of memory.
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE]);

thread_local! {
    static SCRATCH: Cell<Lines> = const { Cell::new(Lines(Vec::new())) };
}

/// Uninitialised memory: only the vector's capacity is used.
#[derive(Default)]
struct Lines(Vec<Line>);

impl Drop for Lines {
    fn drop(&mut self) {
        host_handles::forget(self.0.as_mut_ptr().cast(), self.0.capacity() * LINE);
    }
}

/// Memory for partial results. It goes back to the thread on drop, so that a repeated launch allocates
/// nothing.
struct Scratch(Lines);

impl Scratch {
    fn take() -> Scratch {
        Scratch(SCRATCH.try_with(Cell::take).unwrap_or_default())
    }

    /// Room for `bytes` bytes with this alignment. The old contents are lost.
    fn reserve(&mut self, bytes: usize, align: usize) -> Result<*mut u8, Error> {
        let lines = bytes.div_ceil(LINE) + if align > LINE { align / LINE } else { 0 };
        if self.0.0.capacity() < lines {
            self.0 = Lines::default();
            self.0.0.try_reserve_exact(lines).map_err(|_| out_of_memory(bytes))?;
        }
        let data = self.0.0.as_mut_ptr().cast::<u8>();
        // Inside: the room includes the alignment, if it is larger than a line.
        Ok(data.wrapping_add(data.align_offset(align)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.0.0.capacity() * LINE <= KEPT {
            let _ = SCRATCH.try_with(|kept| kept.set(std::mem::take(&mut self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::views::Operation;
    use proptest::prelude::*;

    #[test]
    fn blocks_are_fixed_numbers() {
        // A change of any of these changes the bits of results: note it in the change log.
        for ((rows, len, size), (per_block, count)) in [
            ((0, 1, 8), (4096, 0)),
            ((1, 1, 8), (4096, 1)),
            ((4096, 1, 8), (4096, 1)),
            ((4097, 1, 8), (4096, 2)),
            ((1_000_000, 1, 8), (4096, 245)),
            ((1 << 20, 1, 8), (4096, 256)),
            ((10_000_000, 1, 8), (65536, 153)),
            ((10_000_000, 256, 4), (65536, 153)),
            ((10_000_000, 65536, 4), (262_144, 39)),
            ((10_000_000, 1 << 20, 4), (4_194_304, 3)),
            ((10_000, 1 << 20, 4), (1 << 20, 1)),
            ((u64::MAX, 1, 8), (1 << 56, 256)),
            ((u64::MAX, u64::MAX, 8), (1 << 63, 2)),
        ] {
            assert_eq!(blocks(rows, len, size), Blocks { rows: per_block, count }, "{rows} {len} {size}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

        #[test]
        fn blocks_cover_all_rows_and_stay_small(rows: u64, shift in 1u32..64, len in 0u64..1 << 40, size in 0u64..64) {
            let rows = rows >> shift;
            let b = blocks(rows, len, size);
            prop_assert!(b.rows.is_power_of_two() && b.rows >= LEAST_ROWS && b.count <= MOST_BLOCKS);
            let covered = u128::from(b.rows) * u128::from(b.count);
            prop_assert!(covered >= u128::from(rows) && covered - u128::from(rows) < u128::from(b.rows));
            let bytes = u128::from(b.count) * u128::from(len) * u128::from(size);
            prop_assert!(b.count <= 1 || bytes <= u128::from(MOST_BYTES));
        }

        #[test]
        fn merging_keeps_the_order_and_takes_everything(count in 1usize..40, len in 0usize..4) {
            let mut partials: Vec<[u32; 2]> =
                (0..count as u32).flat_map(|b| (0..len).map(move |_| [b, b])).collect();
            // SAFETY: `count * len` elements of this type.
            unsafe { merge(&Operation::of_joined(), partials.as_mut_ptr().cast(), count, len).unwrap() };
            for joined in &partials[..len] {
                prop_assert_eq!(*joined, [0, count as u32 - 1]);
            }
        }
    }

    #[test]
    fn the_tree_is_that_of_the_documentation() {
        for count in 1..70usize {
            let values: Vec<f32> = (0..count).map(|i| 0.1 + i as f32 * 1e-3).collect();
            let mut level = values.clone();
            while level.len() > 1 {
                level =
                    level.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap()).collect();
            }
            let operation = Operation::named("Sum", "f32").unwrap();
            let mut partials = values;
            // SAFETY: `count` elements of this type.
            unsafe { merge(&operation, partials.as_mut_ptr().cast(), count, 1).unwrap() };
            assert_eq!(partials[0].to_bits(), level[0].to_bits(), "{count} blocks");
        }
    }

    #[test]
    fn an_operation_that_panics_is_an_error() {
        let mut two = [[0u32, 0], [7, 7]];
        // SAFETY: two elements of this type.
        let error = unsafe { merge(&Operation::of_joined(), two.as_mut_ptr().cast(), 2, 1) }.unwrap_err();
        assert!(error.to_string().contains("[0, 0] and [7, 7] are no neighbours"), "{error}");
    }

    #[test]
    fn scratch_is_aligned_and_comes_back() {
        let mut scratch = Scratch::take();
        for (bytes, align) in [(1, 64), (1000, 4096), (0, 64), (5000, 256)] {
            assert_eq!(scratch.reserve(bytes, align).unwrap() as usize % align, 0);
        }
        assert!(scratch.reserve(usize::MAX / 2, 64).unwrap_err().to_string().contains("shorter array"));
        scratch.reserve(5000, 64).unwrap();
        let data = scratch.0.0.as_ptr();
        drop(scratch);
        assert_eq!(Scratch::take().0.0.as_ptr(), data);
    }
}
