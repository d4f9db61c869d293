//! The doors: the traits through which CPU code is called. [`CpuTeam`](super::CpuTeam) is in `team`.

use super::index::Rank;
use super::{Index, KernelDefinition, Span};
use crate::nested::{KernelMark, mark};
use flash_backend::__host::discard;
use flash_types::abi;
use flash_types::index::SpaceRef;
use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// One work item at a time. The loop is generated around it, so that the compiler vectorises the
/// body where it can.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `item` implementation of this kernel for these element types",
    note = "write `#[kernel(for(..))] impl CpuItem<Definition<'_, T>> for {Self} {{ fn item(..) }}`, and list only element types that the impl covers"
)]
pub trait CpuItem<D: KernelDefinition> {
    /// Computes one work item.
    fn item(index: D::Index, args: D::Item<'_>);
}

/// A run of work items with consecutive values of dimension 0: for explicit SIMD.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `span` implementation of this kernel for these element types",
    note = "write `#[kernel(for(..))] impl CpuSpan<Definition<'_, T>> for {Self} {{ fn span(..) }}`, and list only element types that the impl covers"
)]
pub trait CpuSpan<D: KernelDefinition> {
    /// Computes `run.len()` work items.
    fn span(run: <D::Index as Rank>::Span, args: D::Span<'_>);

    /// Calls `share`, which calls `span` for every run of a thread's share of a launch. An implementation for
    /// certain instructions may do so in a function that has them (`#[target_feature]`). What is inlined into
    /// that, `span` and the loop around it, is compiled for them, and no values are passed from run to run.
    /// It checks whether the CPU has them, once per share:
    ///
    /// ```
    /// # fn wide<R>(share: impl FnOnce() -> R) -> R {
    /// #[cfg(target_arch = "x86_64")]
    /// if is_x86_feature_detected!("avx2") {
    ///     #[target_feature(enable = "avx2")]
    ///     fn with<R>(share: impl FnOnce() -> R) -> R {
    ///         share()
    ///     }
    ///     // SAFETY: this CPU has the instructions.
    ///     return unsafe { with(share) };
    /// }
    /// share()
    /// # }
    /// ```
    #[inline(always)]
    fn around<R>(share: impl FnOnce() -> R) -> R {
        share()
    }
}

/// Once per phase, and once per subspace if it takes [parts](CpuWhole::PARTS): for libraries that have
/// threads of their own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `whole` implementation of this kernel for these element types",
    note = "write `#[kernel(for(..))] impl CpuWhole<Definition<'_, T>> for {Self} {{ fn whole(..) }}`, and list only element types that the impl covers"
)]
pub trait CpuWhole<D: KernelDefinition> {
    /// True: it computes parts of a launch, too, so that a launch may be cut over several devices. Every
    /// `Item`, and the own elements of a [`Phased`](super::views::Phased), are then a slice *of the space*:
    /// from the first to the last element that the values of its dimensions name, even if the launch is not
    /// cut. The element of an index is found relative to the start of [`Space::values`].
    ///
    /// False: it gets all of every array, indices count from the array's first element, and its launches run
    /// whole, on one device.
    ///
    /// ```
    /// use flash_core::kernel::views::{Item, Read, Row, Write};
    /// use flash_core::kernel::{CpuWhole, Index, Space, Threads};
    /// use flash_core::{KernelDefinition, kernel};
    ///
    /// /// Each row the other way round.
    /// #[derive(KernelDefinition)]
    /// #[kernel(name = "doc.turn", dims(row), part_by(row))]
    /// struct Turn<'a> {
    ///     width: u64,
    ///     from: Item<'a, Read<Row<f32>>>,
    ///     to: Item<'a, Write<Row<f32>>>,
    /// }
    ///
    /// struct Library;
    ///
    /// #[kernel]
    /// impl CpuWhole<Turn<'_>> for Library {
    ///     const PARTS: bool = true;
    ///     fn whole(space: Space<'_, Index<1>>, k: TurnWhole<'_>, _: Threads<'_>) {
    ///         let (first, width) = (space.values(0).start, k.width as usize);
    ///         space.for_each(|at| {
    ///             // Row `first` of the array is the slices' first.
    ///             let row = (at[0] - first) * width..(at[0] - first + 1) * width;
    ///             k.to[row.clone()].copy_from_slice(&k.from[row.clone()]);
    ///             k.to[row].reverse();
    ///         });
    ///     }
    /// }
    /// ```
    ///
    /// [`PartBy`](crate::descriptor::PartBy) describes what is cut.
    const PARTS: bool = false;

    /// Computes all work items of `space`, on the given `threads`: a library on rayon
    /// [inside](Threads::install) of them, a loop of its own [over](Threads::each) them.
    fn whole(space: Space<'_, D::Index>, args: D::Whole<'_>, threads: Threads<'_>);
}

/// The work items of one phase of one subspace.
pub struct Space<'a, I> {
    pub(super) space: SpaceRef<'a>,
    pub(super) rows: Range<u64>,
    pub(super) phase: u64,
    pub(super) names: &'static [&'static str],
    pub(super) rank: std::marker::PhantomData<I>,
}

impl<I: Rank> Space<'_, I> {
    /// Number of work items.
    pub fn len(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of the phase.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Number of values of a dimension of the subspace.
    pub fn extent(&self, dimension: usize) -> u64 {
        self.space.dims()[dimension].count
    }

    /// From the smallest to the largest value that a dimension has in the subspace, in any phase.
    pub fn values(&self, dimension: usize) -> Range<usize> {
        let values = self.space.value_range(dimension);
        values.start as usize..values.end as usize
    }

    /// Some of the work items: those at `rows`, counted from the phase's first. See
    /// [`Accumulators::into_blocks`](super::views::Accumulators::into_blocks).
    ///
    /// # Panics
    /// If there are no such rows.
    #[track_caller]
    pub fn part(&self, rows: Range<u64>) -> Space<'_, I> {
        assert!(rows.start <= rows.end && rows.end <= self.len(), "rows {rows:?} of {}", self.len());
        let first = self.rows.start;
        Space { rows: first + rows.start..first + rows.end, rank: std::marker::PhantomData, ..*self }
    }

    /// Calls `body` with the index of every work item.
    pub fn for_each(&self, mut body: impl FnMut(I)) {
        let mut runs = I::runs(self.space, self.rows.clone());
        while let Some(patch) = I::next_patch(&mut runs, self.names) {
            for run in (0..patch.runs).map(|i| patch.run(i)) {
                for i in 0..run.count {
                    body(run.first.along(run.dimension, run.step, i));
                }
            }
        }
    }
}

/// The threads that a `whole` implementation may use.
#[derive(Clone, Copy)]
pub struct Threads<'a> {
    pub(super) raw: Option<&'a abi::Threads>,
}

// SAFETY: the interface allows calls of its functions from any thread.
unsafe impl Send for Threads<'_> {}
// SAFETY: as above.
unsafe impl Sync for Threads<'_> {}

impl Threads<'_> {
    /// The calling thread alone.
    pub const fn one() -> Threads<'static> {
        Threads { raw: None }
    }

    /// Number of threads; at least 1.
    pub fn count(&self) -> usize {
        self.raw.map_or(1, |t| t.count.max(1) as usize)
    }

    /// Calls `body` with parts of `0..count`, which together are all of it, each of them once. They run on
    /// all threads at the same time, including the calling one, like the work items of a launch, and begin as
    /// soon: after 0.3 us where threads are awake. Threads that sleep are woken if that pays: one of `count`
    /// takes about `ns` nanoseconds on one thread. 0 means unknown: it begins without them. A call inside
    /// `body` runs all of its parts on the calling thread, since the others are busy.
    ///
    /// # Panics
    /// If `body` does: with the first panic, when all parts that had begun are done. No further parts begin.
    ///
    /// ```
    /// # use flash_core as flash;
    /// use flash::kernel::Threads;
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let sum = AtomicUsize::new(0);
    /// Threads::one().each(100, 2.0, |part| _ = sum.fetch_add(part.sum(), Relaxed));
    /// assert_eq!(sum.into_inner(), 4950);
    /// ```
    pub fn each(&self, count: usize, ns: f32, body: impl Fn(Range<usize>) + Sync) {
        if count == 0 {
            return;
        }
        let there = |raw: &abi::Threads| raw.struct_size as usize >= size_of::<abi::Threads>();
        let Some((raw, each)) = self.raw.filter(|raw| there(raw)).and_then(|raw| Some((raw, raw.each?)))
        else {
            return body(0..count);
        };
        struct Job<B> {
            body: B,
            mark: u32,
            failed: AtomicBool,
            panic: Mutex<Option<Box<dyn Any + Send>>>,
        }
        unsafe extern "C" fn call<B: Fn(Range<usize>) + Sync>(data: *mut c_void, begin: u64, end: u64) {
            // SAFETY: `data` is the job below, which lives until `each` returns and which threads share.
            let job = unsafe { &*data.cast_const().cast::<Job<B>>() };
            if job.failed.load(Relaxed) {
                return;
            }
            // Possibly a thread other than the kernel's, but still inside the kernel.
            let _mark = KernelMark::as_on(job.mark);
            let part = begin as usize..end as usize;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (job.body)(part))) {
                job.failed.store(true, Relaxed);
                let mut first = job.panic.lock().unwrap_or_else(PoisonError::into_inner);
                match first.is_none() {
                    true => *first = Some(panic),
                    false => discard(panic),
                }
            }
        }
        fn call_of<B: Fn(Range<usize>) + Sync>(_: &Job<B>) -> unsafe extern "C" fn(*mut c_void, u64, u64) {
            call::<B>
        }
        let job = Job { body, mark: mark(), failed: AtomicBool::new(false), panic: Mutex::new(None) };
        // SAFETY: the backend calls the function with this pointer, on any threads, before it returns; the
        // job is `Sync`.
        unsafe { each(raw.context, count as u64, ns, call_of(&job), (&raw const job).cast_mut().cast()) };
        if let Some(panic) = job.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }

    /// Runs `body` inside the backend's thread pool, so that a library on rayon uses these threads and no
    /// others. Without a pool it runs on the calling thread.
    pub fn install<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        let Some((raw, install)) = self.raw.and_then(|t| Some((t, t.install?))) else {
            return body();
        };
        struct Job<B, R> {
            body: Option<B>,
            mark: u32,
            result: Option<std::thread::Result<R>>,
        }
        unsafe extern "C" fn call<B: FnOnce() -> R, R>(data: *mut c_void) {
            // SAFETY: `data` is the job below, which nothing else uses until `install` returns.
            let job = unsafe { &mut *data.cast::<Job<B, R>>() };
            if let Some(body) = job.body.take() {
                // Usually a thread other than the kernel's, but still inside the kernel.
                let _mark = KernelMark::as_on(job.mark);
                job.result = Some(catch_unwind(AssertUnwindSafe(body)));
            }
        }
        fn call_of<B: FnOnce() -> R, R>(_: &B) -> unsafe extern "C" fn(*mut c_void) {
            call::<B, R>
        }
        let function = call_of(&body);
        let mut job: Job<_, R> = Job { body: Some(body), mark: mark(), result: None };
        // SAFETY: the backend calls `function` once with this pointer before it returns; body and
        // result are Send.
        unsafe { install(raw.context, function, (&raw mut job).cast()) };
        match job.result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => panic!("the backend's thread pool did not run the body it was given"),
        }
    }
}

const _: () = {
    // The doors read as in the guide: these are the types of their arguments.
    fn _types<D: KernelDefinition<Index = Index<1>>, I: CpuSpan<D>>(run: Span<1>, args: D::Span<'_>) {
        I::span(run, args)
    }
};
