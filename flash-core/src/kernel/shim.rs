//! The functions that the doors register: the loop over work items around the kernel's body.

use super::index::{Rank, RankRun};
use super::instructions::for_this_cpu;
use super::outcome::Failed;
use super::{CpuItem, CpuSpan, CpuWhole, KernelDefinition, Space, Threads};
use crate::nested::KernelMark;
use flash_backend::__host::message;
use flash_types::abi::{self, Arg, Share};
use flash_types::index::SpaceRef;
use smallvec::SmallVec;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Turns a panic, or an error that a kernel returns, into one of the host.
#[inline]
unsafe fn guarded(share: &Share, body: impl FnOnce()) -> *mut abi::Error {
    let marked = || {
        let _mark = KernelMark::in_phase(share.phase);
        body();
    };
    match catch_unwind(AssertUnwindSafe(marked)) {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: `share.host` is the host's interface, which lives for ever.
        Err(payload) => unsafe { failed(share, payload) },
    }
}

#[cold]
unsafe fn failed(share: &Share, payload: Box<dyn Any + Send>) -> *mut abi::Error {
    let phase = share.phase;
    let text = match payload.downcast::<Failed>() {
        Ok(failed) => format!("the kernel failed in phase {phase}: {}", failed.0),
        Err(panic) => format!("the kernel panicked in phase {phase}: {}", message(panic)),
    };
    // SAFETY: the caller vouches for `host`.
    match unsafe { (*share.host).error_create } {
        // SAFETY: the text lives for the call.
        Some(create) => unsafe { create(abi::ERROR_KERNEL, abi::Str::new(&text)) },
        None => std::process::abort(),
    }
}

/// Calls `body` with the share's rows, block by block if the kernel has accumulators.
///
/// # Safety
/// The share has rows of the space, `args` are of this launch of `D`, and no block is shared.
#[inline(always)]
unsafe fn for_blocks<D: KernelDefinition>(
    space: SpaceRef<'_>,
    share: &Share,
    args: *const Arg,
    body: impl Fn(&D::Bound, Range<u64>),
) {
    // SAFETY: the caller vouches.
    let mut bound = unsafe { D::bind(args) };
    let (first, step) = if D::REDUCES.is_empty() {
        (share.begin, u64::MAX)
    } else {
        // SAFETY: the launch has these arguments.
        let step = D::REDUCES.iter().map(|&i| unsafe { (*args.add(i)).row_len }).min().unwrap_or(1).max(1);
        (space.phase(share.phase).start, step)
    };
    // One call of the body: it is inlined here, with what its items put on the stack.
    let mut begin = share.begin - first;
    while begin < share.end - first {
        let end = (begin / step + 1).saturating_mul(step).min(share.end - first);
        if !D::REDUCES.is_empty() {
            // SAFETY: rows of this share, in one block of every accumulator: blocks are powers of two.
            unsafe { D::block(&mut bound, &(begin..end)) };
        }
        body(&bound, first + begin..first + end);
        begin = end;
    }
}

/// Calls `body` with every run of some rows.
///
/// # Safety
/// The space has these rows.
#[inline(always)]
unsafe fn for_runs<D: KernelDefinition>(
    space: SpaceRef<'_>,
    rows: Range<u64>,
    body: impl Fn(RankRun<D::Index>),
) {
    // One call of the body for both cases. In a loop, the compiler takes it for hot and aligns the loops in
    // it. Otherwise a jump may lie across 32 bytes, which makes a loop half as fast on some CPUs.
    let (mut next, mut runs) = (D::Index::line(space, &rows, D::DIMENSIONS), None);
    if next.is_none() {
        next = D::Index::next_patch(runs.insert(D::Index::runs(space, rows)), D::DIMENSIONS);
    }
    while let Some(patch) = next {
        for i in 0..patch.runs {
            body(patch.run(i));
        }
        next = runs.as_mut().and_then(|runs| D::Index::next_patch(runs, D::DIMENSIONS));
    }
}

/// A run in pieces, each of one work item and of those after it that have the next values of dimension 0: how
/// many pieces, and of how many items. `adjacent`: see [`KernelDefinition::is_adjacent`].
#[inline(always)]
fn pieces<R: Rank>(run: &RankRun<R>, adjacent: bool) -> (usize, usize) {
    if adjacent && run.dimension == 0 && run.step == 1 { (1, run.count) } else { (run.count, 1) }
}

/// # Safety
/// The run's items are of the launch that `bound` is of, and have no other user. `adjacent` says what
/// [`KernelDefinition::is_adjacent`] does.
#[inline(always)]
unsafe fn item_run<D: KernelDefinition, I: CpuItem<D>>(
    bound: &D::Bound,
    run: &RankRun<D::Index>,
    adjacent: bool,
) {
    // One call of the body, so that it is inlined here, with the views that it gets.
    let (calls, len) = pieces(run, adjacent);
    for call in 0..calls {
        let index = run.first.along(run.dimension, run.step, call);
        // SAFETY: the index is a work item of this launch, the first of `len` with consecutive values of
        // dimension 0.
        let mut first = ManuallyDrop::new(unsafe { D::run(bound, index.as_slice()) });
        for i in 0..len {
            // SAFETY: i < len, and the item has no other user.
            I::item(index.along(0, 1, i), unsafe { D::item(&first, i) });
        }
        // SAFETY: it is not used again. A body that panics does not come here: its launch has no results, and
        // accumulators whose values nothing but the loop uses stay in registers.
        unsafe { ManuallyDrop::drop(&mut first) };
    }
}

/// # Safety
/// As [`item_run`].
#[inline(always)]
unsafe fn span_run<D: KernelDefinition, I: CpuSpan<D>>(
    bound: &D::Bound,
    run: &RankRun<D::Index>,
    adjacent: bool,
) {
    let (calls, len) = pieces(run, adjacent);
    for i in 0..calls {
        let index = run.first.along(run.dimension, run.step, i);
        // SAFETY: the index is a work item of this launch, the first of `len` with consecutive values of
        // dimension 0, none of which has another user.
        let mut first = ManuallyDrop::new(unsafe { D::run(bound, index.as_slice()) });
        // SAFETY: as above.
        I::span(index.span(len), unsafe { D::span(&first, len) });
        // SAFETY: as in `item_run`.
        unsafe { ManuallyDrop::drop(&mut first) };
    }
}

/// Calls `body` with every run of a share, and with [`KernelDefinition::is_adjacent`]. Always inlined, with
/// everything that it calls, into functions for instructions that not every CPU has.
///
/// # Safety
/// As [`item_share`].
#[inline(always)]
unsafe fn all_runs<D: KernelDefinition>(
    share: &Share,
    args: *const Arg,
    body: impl Fn(&D::Bound, &RankRun<D::Index>, bool),
) {
    // SAFETY: the space lives for the call.
    let space = unsafe { SpaceRef::new(&*share.space) };
    // SAFETY: these are rows of the launch, with no other user; the arguments live for the call.
    unsafe {
        for_blocks::<D>(
            space,
            share,
            args,
            #[inline(always)]
            |bound, rows| {
                let adjacent = D::is_adjacent(bound);
                for_runs::<D>(
                    space,
                    rows,
                    #[inline(always)]
                    |run| body(bound, &run, adjacent),
                );
            },
        );
    }
}

/// The `item` door: one call of `I::item` per work item.
///
/// # Safety
/// `share` and `args` describe a launch of `D` whose proofs hold, and no other call has the same rows
/// of the same phase.
pub unsafe extern "C" fn item_share<D: KernelDefinition, I: CpuItem<D>>(
    share: *const Share,
    args: *const Arg,
) -> *mut abi::Error {
    // SAFETY: the caller vouches for `share`.
    let share = unsafe { &*share };
    let body = || {
        // By value: it is passed in registers.
        for_this_cpu(
            #[inline(always)]
            move || {
                // SAFETY: the caller vouches; each run is of this launch, and has no other user.
                unsafe {
                    all_runs::<D>(
                        share,
                        args,
                        #[inline(always)]
                        |bound, run, adjacent| item_run::<D, I>(bound, run, adjacent),
                    );
                }
            },
        );
    };
    // SAFETY: `share.host` lives for ever.
    unsafe { guarded(share, body) }
}

/// The `span` door: one call of `I::span` per run along dimension 0.
///
/// # Safety
/// As [`item_share`].
pub unsafe extern "C" fn span_share<D: KernelDefinition, I: CpuSpan<D>>(
    share: *const Share,
    args: *const Arg,
) -> *mut abi::Error {
    // SAFETY: the caller vouches for `share`.
    let share = unsafe { &*share };
    let body = || {
        I::around(
            #[inline(always)]
            || {
                // SAFETY: as in `item_share`.
                unsafe {
                    all_runs::<D>(
                        share,
                        args,
                        #[inline(always)]
                        |bound, run, adjacent| span_run::<D, I>(bound, run, adjacent),
                    );
                }
            },
        );
    };
    // SAFETY: `share.host` lives for ever.
    unsafe { guarded(share, body) }
}

/// The `whole` door: one call of `I::whole`.
///
/// # Safety
/// As [`item_share`], and the rows are all rows of the phase, in this space. If there are other parts of the
/// launch, `I::PARTS` is true, and between the elements of this one in an array there are none of another.
pub unsafe extern "C" fn whole_share<D: KernelDefinition, I: CpuWhole<D>>(
    share: *const Share,
    args: *const Arg,
) -> *mut abi::Error {
    // SAFETY: the caller vouches for `share`.
    let share = unsafe { &*share };
    let body = || {
        // SAFETY: space, arguments and threads live for the call; they are of a launch of D.
        let (space, mut bound, raw) =
            unsafe { (SpaceRef::new(&*share.space), D::bind(args), share.threads.as_ref()) };
        // SAFETY: all rows of the phase, and nothing else of the launch runs.
        unsafe { D::block(&mut bound, &(0..share.end - share.begin)) };
        let values: SmallVec<[Range<u64>; 4]> = (0..D::Index::N).map(|dim| space.value_range(dim)).collect();
        let values = I::PARTS.then_some(&values[..]);
        let space = Space {
            space,
            rows: share.begin..share.end,
            phase: share.phase,
            names: D::DIMENSIONS,
            rank: std::marker::PhantomData,
        };
        // SAFETY: these are the values of the space. Either nothing else of the launch runs, or it is one of
        // several parts. The latter is so only if the implementation declares `PARTS`, and its own elements
        // lie in it without gaps.
        I::whole(space, unsafe { D::whole(&bound, values) }, Threads { raw });
    };
    // SAFETY: `share.host` lives for ever.
    unsafe { guarded(share, body) }
}
