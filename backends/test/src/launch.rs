//! A launch: phase by phase, one run of rows after another; and a copy of all data of a launch, for one that
//! runs after the call that began it has returned.

use flash_backend::Code;
use flash_backend::abi::space::{
    BARRIER_LIST, DIM_VALUES, LOOP_FULL, LOOP_GROUP, LOOP_MEMBER, LOOP_REVERSED,
};
use flash_backend::abi::space::{Loop, Space, SpaceDim};
use flash_backend::abi::{self, Arg, Implementation, Part, Share};
use flash_backend::host_memory::AlignedBytes;
use flash_backend::index::SpaceRef;
use flash_backend::{Failure, Launch, is_stopped, run_rows};
use std::ops::Range;

/// An implementation for the CPU, which a device of this backend runs.
#[derive(Clone, Copy)]
pub struct TestKernel(&'static Implementation);

impl TestKernel {
    pub(crate) fn new(implementation: &'static Implementation) -> Result<TestKernel, Failure> {
        if implementation.share.is_none() && implementation.span.is_none() {
            return Err(Failure::new(
                Code::Invalid,
                "the implementation has no function for the CPU: expected `share` or `span`, found NULL in both",
            ));
        }
        Ok(TestKernel(implementation))
    }
}

/// Work items of the phases of a launch.
pub(crate) fn items(launch: &Launch<'_, TestKernel>) -> u64 {
    let (space, phases) = (launch.space(), launch.phases());
    if phases.is_empty() {
        return 0;
    }
    space.phase(phases.end - 1).end - space.phase(phases.start).start
}

/// Runs a launch while its caller waits.
pub(crate) fn run(launch: &Launch<'_, TestKernel>) -> Result<(), Failure> {
    let (kernel, space, share) = (*launch.kernel(), launch.space(), launch.share(0, 0..0));
    if launch.phased() {
        let (phases, stop) = (launch.phases(), launch.stop_flag());
        return run_phased(kernel, space, share, phases, stop, &mut launch.args().to_vec());
    }
    launch.phases().try_for_each(|phase| match launch.is_stopped() {
        true => Err(Failure::cancelled()),
        false => run_phase(kernel, space, share, phase, launch.args()),
    })
}

/// `share`: of this launch, with no rows yet.
fn run_phase(
    kernel: TestKernel,
    space: SpaceRef<'_>,
    share: Share,
    phase: u64,
    args: &[Arg],
) -> Result<(), Failure> {
    let rows = space.phase(phase);
    if rows.is_empty() {
        return Ok(());
    }
    let share = Share { phase, begin: rows.start, end: rows.end, ..share };
    // SAFETY: all rows of the phase, in one call, and the arguments of the launch.
    let error = unsafe { run_rows(kernel.0, &share, args.as_ptr()) };
    // SAFETY: an error of the host that loaded this backend.
    if error.is_null() { Ok(()) } else { Err(unsafe { Failure::of_host(error) }) }
}

/// As [`run_phase`], phase by phase. Arguments with two buffers: they change places after every phase, and
/// the contents end in the first.
fn run_phased(
    kernel: TestKernel,
    space: SpaceRef<'_>,
    share: Share,
    phases: Range<u64>,
    stop: *const u32,
    args: &mut [Arg],
) -> Result<(), Failure> {
    let count = phases.end - phases.start;
    for phase in phases {
        // SAFETY: the launch's, which is not over.
        if unsafe { is_stopped(stop) } {
            return Err(Failure::cancelled());
        }
        // Elements that no work item owns keep what they have.
        args.iter().filter(|arg| arg.flags & abi::ARG_FLAG_COVERED == 0).for_each(copy_over);
        run_phase(kernel, space, share, phase, args)?;
        args.iter_mut()
            .filter(|arg| two_buffers(arg))
            .for_each(|arg| std::mem::swap(&mut arg.data, &mut arg.next));
    }
    if count % 2 == 1 {
        // What was written last is in what was `next` at the beginning.
        args.iter().filter(|arg| arg.flags & abi::ARG_FLAG_NEXT_STAYS == 0).for_each(copy_over);
    }
    Ok(())
}

fn two_buffers(arg: &Arg) -> bool {
    arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0
}

/// Copies the first buffer of an argument with two into the second.
fn copy_over(arg: &Arg) {
    if two_buffers(arg) {
        let bytes = (arg.len * u64::from(arg.element_size)) as usize;
        // SAFETY: two buffers of this size, the launch's, and nothing of it runs.
        unsafe { std::ptr::copy_nonoverlapping(arg.data.cast::<u8>(), arg.next.cast::<u8>(), bytes) };
    }
}

/// A launch with all that it was told; only arrays are elsewhere.
pub(crate) struct OwnedLaunch {
    kernel: TestKernel,
    space: OwnedSpace,
    share: Share,
    phases: Range<u64>,
    /// Not 0 there: it is asked to stop.
    stop: *const u32,
    args: Vec<Arg>,
    // What the arguments point to.
    _scalars: Vec<AlignedBytes>,
    _strides: Vec<Vec<u64>>,
    // Boxed, so that the addresses that the arguments have stay.
    #[allow(clippy::vec_box)]
    _parts: Vec<Box<Part>>,
}

// SAFETY: pointers lead to what it owns, which never changes, and to arrays and the number that says stop,
// which the host keeps until the launch is complete, whatever thread runs it.
unsafe impl Send for OwnedLaunch {}

impl OwnedLaunch {
    pub fn of(launch: &Launch<'_, TestKernel>) -> OwnedLaunch {
        let mut args = launch.args().to_vec();
        let dimensions = launch.space().raw().ndims as usize;
        let (mut scalars, mut strides, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for arg in &mut args {
            if arg.kind == abi::ARG_SCALAR {
                // SAFETY: a scalar has that many bytes.
                let bytes = unsafe { copied(arg.data.cast::<u8>(), arg.element_size as usize) };
                let mut copy = AlignedBytes::of(&bytes);
                arg.data = copy.data().cast();
                scalars.push(copy);
            }
            // SAFETY: strides are one per dimension of the index space, or NULL.
            arg.strides = unsafe { keep(&mut strides, arg.strides, dimensions) };
            // SAFETY: NULL or a part that lives for the call.
            if let Some(part) = unsafe { arg.part.as_ref() } {
                let copy = Box::new(*part);
                arg.part = &raw const *copy;
                parts.push(copy);
            }
        }
        OwnedLaunch {
            kernel: *launch.kernel(),
            space: OwnedSpace::of(launch.space()),
            share: launch.share(0, 0..0),
            phases: launch.phases(),
            stop: launch.stop_flag(),
            args,
            _scalars: scalars,
            _strides: strides,
            _parts: parts,
        }
    }

    pub fn run(mut self) -> Result<(), Failure> {
        let space = &self.space.raw;
        let share = Share { space, ..self.share };
        // SAFETY: `OwnedSpace` has copies of all that its space points to.
        let space = unsafe { SpaceRef::new(space) };
        run_phased(self.kernel, space, share, self.phases, self.stop, &mut self.args)
    }
}

/// An index space with its lists.
struct OwnedSpace {
    raw: Space,
    // What it points to.
    _dims: Vec<SpaceDim>,
    _loops: Vec<Loop>,
    _lists: Vec<Vec<u64>>,
}

impl OwnedSpace {
    fn of(space: SpaceRef<'_>) -> OwnedSpace {
        let raw = *space.raw();
        let mut lists = Vec::new();
        // SAFETY: a space has that many dimensions and loops, with lists as their kinds say, which live for
        // the call.
        let (dims, loops) = unsafe {
            let mut dims = copied(raw.dims, raw.ndims as usize);
            let mut loops = copied(raw.loops, raw.nloops as usize);
            let groups: Vec<u64> = loops.iter().map(|l: &Loop| l.count).collect();
            for lp in &mut loops {
                let positions = dims[lp.dim as usize].count as usize;
                if lp.barrier == BARRIER_LIST {
                    lp.barriers = keep(&mut lists, lp.barriers, lp.nbarriers as usize);
                }
                if !matches!(lp.kind, LOOP_FULL | LOOP_REVERSED) {
                    lp.order = keep(&mut lists, lp.order, positions);
                }
                let groups = match lp.kind {
                    LOOP_GROUP => lp.count,
                    LOOP_MEMBER => groups[lp.group_loop as usize],
                    _ => continue,
                };
                lp.starts = keep(&mut lists, lp.starts, groups as usize + 1);
            }
            for dim in dims.iter_mut().filter(|dim: &&mut SpaceDim| dim.kind == DIM_VALUES) {
                dim.values = keep(&mut lists, dim.values, dim.count as usize);
            }
            (dims, loops)
        };
        let raw = Space { dims: dims.as_ptr(), loops: loops.as_ptr(), ..raw };
        OwnedSpace { raw, _dims: dims, _loops: loops, _lists: lists }
    }
}

/// # Safety
/// There are `len` elements, or none and then the pointer may be anything.
unsafe fn copied<T: Copy>(from: *const T, len: usize) -> Vec<T> {
    match len {
        0 => Vec::new(),
        // SAFETY: the caller vouches.
        _ => unsafe { std::slice::from_raw_parts(from, len) }.to_vec(),
    }
}

/// Copies a list, if it is not NULL, and keeps the copy. Returns its address.
///
/// # Safety
/// As [`copied`], or the pointer is NULL.
unsafe fn keep(kept: &mut Vec<Vec<u64>>, from: *const u64, len: usize) -> *const u64 {
    if from.is_null() {
        return from;
    }
    // SAFETY: the caller vouches.
    let copy = unsafe { copied(from, len) };
    let place = copy.as_ptr();
    kept.push(copy);
    place
}
