//! One launch: parameters, work-groups, phases.

use crate::counted::{Counted, Memory};
use crate::device::{OpenClDevice, Opened};
use crate::kernel::{Compiled, OpenClKernel, State};
use crate::places::Places;
use crate::queue::{Alone, Commands};
use flash_core::Code;
use flash_core::abi::{self, Arg};
use flash_core::backend::offload::{
    FAULT_WORDS, KernelSpec, LaunchWords, Parameter, carried, numbers, offset, two_buffers,
};
use flash_core::backend::{Event, Failure, Launch};
use opencl3::error_codes::{CL_INVALID_WORK_GROUP_SIZE, error_text};
use opencl3::types::CL_FALSE;
use std::ptr::null;

/// The option, and the attribute, for the number of work items in a work-group.
const WORK_GROUP_SIZE: &str = "work_group_size";

/// Default size of a work-group.
const GROUP: usize = 256;
/// The same for a box: enough that the cost of a work-group itself is small.
const GRID_GROUP: usize = 1024;
/// Runs of work items for each unit of a CPU: several, since other programs may take some of its time.
const RUNS: u64 = 4;
/// Work items of the widest registers.
const VECTOR: usize = 16;

/// An OpenCL index space of up to three dimensions.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    dimensions: usize,
    offset: [usize; 3],
    global: [usize; 3],
    /// `None`: the driver chooses.
    local: Option<[usize; 3]>,
}

impl OpenClKernel {
    /// Enqueues a launch.
    pub(crate) fn submit(
        &self,
        device: &OpenClDevice,
        launch: &Launch<'_, OpenClKernel>,
    ) -> Result<Option<Event>, Failure> {
        let [wanted] = numbers(launch, [WORK_GROUP_SIZE])?;
        let wanted = wanted.or(self.spec.work_group_size).map(|size| size as usize);
        let phases = launch.phases();
        if phases.is_empty() {
            return Ok(None);
        }
        let opened = device.opened()?;
        let mut commands = opened.kernels.begin(launch.profiled(), launch.is_awaited());
        let outcome = match self.spec.cooperating {
            true => self.phases((device, opened), launch, wanted, &mut commands),
            false => self.whole((device, opened), launch, wanted, &mut commands),
        };
        if let Err(failure) = outcome {
            commands.abandon();
            return Err(failure);
        }
        commands.end()
    }

    /// Repeats the latest launch, for which all parameters are set. False: this is another launch.
    fn again(
        &self,
        (device, opened): (&OpenClDevice, &Opened),
        launch: &Launch<'_, OpenClKernel>,
        commands: &mut Commands<'_>,
    ) -> Result<bool, Failure> {
        if launch.has_attributes() {
            return Ok(false);
        }
        let mut alone = commands.alone(device.places(opened));
        let state = self.only().state(&alone);
        let Some(range) = state.range_of(launch) else { return Ok(false) };
        self.run(&mut alone, &state, &range)?;
        Ok(true)
    }

    /// A cooperating kernel: once per phase.
    fn phases(
        &self,
        (device, opened): (&OpenClDevice, &Opened),
        launch: &Launch<'_, OpenClKernel>,
        wanted: Option<usize>,
        commands: &mut Commands<'_>,
    ) -> Result<(), Failure> {
        if self.again((device, opened), launch, commands)? {
            return Ok(());
        }
        let (space, args, phases) = (launch.space(), launch.args(), launch.phases());
        // No lock is held while it waits.
        let mut told = std::mem::take(&mut *self.told());
        for (k, phase) in phases.clone().enumerate() {
            let odd = k % 2 == 1;
            commands.keep_pace()?;
            self.spec.tell(space, phase, args, odd, &mut told)?;
            // If a size of work-groups is given, they have one dimension.
            let grid = told.grid.filter(|_| wanted.is_none());
            if grid.is_some() {
                told.as_grid();
            }
            if let Some(least) = self.spec.items_per_thread
                && told.block == 0
            {
                told.in_runs(run(device, told.items, least));
            }
            let compiled = self.of(device, &told, grid.is_some())?;
            let mut alone = commands.alone(device.places(opened));
            for arg in args.iter().filter(|arg| two_buffers(arg) && arg.flags & abi::ARG_FLAG_COVERED == 0) {
                // Elements that no item owns keep their value.
                carry(&mut alone, device, arg, odd)?;
            }
            let mut state = compiled.state(&alone);
            self.parameters(device, &mut alone, args, odd, told.items, &mut state)?;
            state.set_told(device, &self.spec, self.parameters.len(), &told)?;
            let range = match grid {
                Some(extents) => self.grid(device, compiled, extents),
                None => self.line(device, compiled, &told, wanted)?,
            };
            self.run(&mut alone, &state, &range)?;
            if self.spec.check_bounds {
                let table = state.take_table();
                drop(state);
                drop(alone);
                self.check_fault(device.places(opened), table, commands)?;
                continue;
            }
            // Launches of the general program are rare.
            let is_simple = std::ptr::eq(compiled, self.only()) && !launch.has_attributes();
            if is_simple && phases == (0..1) && !args.iter().any(two_buffers) {
                state.keep(launch, range);
            }
        }
        *self.told() = told;
        if (phases.end - phases.start) % 2 == 1 {
            let stays = |arg: &&Arg| two_buffers(arg) && arg.flags & abi::ARG_FLAG_NEXT_STAYS == 0;
            let mut alone = commands.alone(device.places(opened));
            for arg in args.iter().filter(stays) {
                carry(&mut alone, device, arg, true)?;
            }
        }
        Ok(())
    }

    /// Sets the parameters of the definition.
    fn parameters(
        &self,
        device: &OpenClDevice,
        alone: &mut Alone<'_, '_>,
        args: &[Arg],
        odd: bool,
        items: u64,
        state: &mut State,
    ) -> Result<(), Failure> {
        for (number, &parameter) in self.parameters.iter().enumerate() {
            match parameter {
                Parameter::Value(argument) => {
                    let arg = &args[argument];
                    // SAFETY: a scalar's bytes live for the call.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(arg.data.cast::<u8>(), arg.element_size as usize)
                    };
                    state.set(&self.spec, number, bytes)?;
                }
                Parameter::Array(argument) | Parameter::Next(argument) => {
                    let arg = &args[argument];
                    // A cooperating kernel reads the offsets of its buffers from `FLASH_ARGS`.
                    let begin = if self.spec.cooperating { 0 } else { offset(arg).max(0) as usize };
                    let wanted = parameter == Parameter::Next(argument);
                    let place = device.place(argument, arg, items, begin, wanted != swapped(arg, odd))?;
                    state.set_place(&self.spec, number, place, alone)?;
                }
            }
        }
        Ok(())
    }

    /// The range of a cooperating kernel: one dimension; the kernel computes its index.
    fn line(
        &self,
        device: &OpenClDevice,
        compiled: &Compiled,
        told: &LaunchWords,
        wanted: Option<usize>,
    ) -> Result<Range, Failure> {
        let threads = usize::try_from(told.threads).unwrap_or(usize::MAX);
        let line = |local: usize, groups: usize| Range {
            dimensions: 1,
            offset: [0; 3],
            global: [local.saturating_mul(groups), 1, 1],
            local: Some([local, 1, 1]),
        };
        if self.spec.single_work_item {
            return Ok(line(1, 1));
        }
        let chosen = match (compiled.compiled, wanted) {
            (Some([local, 1, 1]), None) => Some(local),
            (_, wanted) => wanted,
        };
        if let Some(local) = chosen {
            self.spec.check_group(local as u64)?;
            check_group(&self.spec, device, compiled, local)?;
        }
        if told.block > 0 {
            // A work-group has an accumulator of its own, and its text is written for this many work items.
            let compiled_for = compiled.compiled.map_or(1, |size| size[0]);
            let written_for = self.spec.work_group_size.map_or(compiled_for, |size| size as usize);
            let local = chosen.unwrap_or(written_for);
            if local != written_for {
                return Err(Failure::new(
                    Code::Invalid,
                    format!(
                        "{}: expected a work-group of {written_for}, for which its accumulators are written, found one of {local}: leave {WORK_GROUP_SIZE} as it is",
                        self.spec.title
                    ),
                ));
            }
            return Ok(line(local, told.items.div_ceil(told.block) as usize));
        }
        let local = chosen.unwrap_or_else(|| {
            // All units are busy, in groups of the size that the device prefers.
            let units = device.found.limits.compute_units.max(1) as usize;
            let share = threads.div_ceil(units).next_multiple_of(compiled.multiple);
            let most = GROUP.next_multiple_of(compiled.multiple).min(compiled.most);
            // Threads that share a work item are in one group.
            let together = self.spec.threads_per_item as usize;
            (share.min(most) / together).max(1) * together
        });
        Ok(line(local, threads.div_ceil(local)))
    }

    /// The range of a box of work items, which may extend past it: in groups of whole vectors along dimension
    /// 0, and of as many rows as fit.
    fn grid(&self, device: &OpenClDevice, compiled: &Compiled, extents: [u64; 3]) -> Range {
        let extents = extents.map(|extent| extent as usize);
        // All units are busy.
        let units = device.found.limits.compute_units.max(1) as usize;
        let share = extents.iter().product::<usize>().div_ceil(units).next_multiple_of(VECTOR);
        let most = share.clamp(1, GRID_GROUP.min(compiled.most));
        let pieces = extents[0].div_ceil(most).max(1);
        let along = extents[0].div_ceil(pieces).max(1).next_multiple_of(VECTOR).min(most);
        let local = [along, (most / along).min(extents[1]).max(1), 1];
        let global = std::array::from_fn(|d| extents[d].next_multiple_of(local[d]));
        Range {
            dimensions: self.spec.descriptor.dimensions.len(),
            offset: [0; 3],
            global,
            local: Some(local),
        }
    }

    /// A kernel that does not cooperate: one launch over the index space itself, or by one work item.
    fn whole(
        &self,
        (device, opened): (&OpenClDevice, &Opened),
        launch: &Launch<'_, OpenClKernel>,
        wanted: Option<usize>,
        commands: &mut Commands<'_>,
    ) -> Result<(), Failure> {
        let mut range = self.plain_range(launch, device)?;
        if self.spec.single_work_item {
            if range.offset != [0; 3] {
                let found =
                    format!("an index space that begins with {:?}", &range.offset[..range.dimensions]);
                return Err(self.spec.not_plain(&found));
            }
            (range.global, range.local) = ([1; 3], Some([1; 3]));
        } else if let Some(size) = wanted {
            check_group(&self.spec, device, self.only(), size)?;
            if !range.global[0].is_multiple_of(size) {
                return Err(self.spec.not_plain(&format!(
                    "an extent of {} along the first dimension, which a work-group of {size} does not divide",
                    range.global[0]
                )));
            }
            range.local = Some([size, 1, 1]);
        }
        let mut alone = commands.alone(device.places(opened));
        let mut state = self.only().state(&alone);
        // It has no accumulators, whose number would depend on the items.
        self.parameters(device, &mut alone, launch.args(), false, 0, &mut state)?;
        self.run(&mut alone, &state, &range)
    }

    /// The index space as an OpenCL range, if it can be one.
    fn plain_range(
        &self,
        launch: &Launch<'_, OpenClKernel>,
        device: &OpenClDevice,
    ) -> Result<Range, Failure> {
        let space = self
            .spec
            .plain_space(launch, (!device.in_place()).then_some(device.found.limits.alignment as u64))?;
        if space.len() > 3 {
            return Err(self.spec.not_plain(&format!("{} dimensions", space.len())));
        }
        let mut range =
            Range { dimensions: space.len(), offset: [0; 3], global: [1; 3], local: self.only().compiled };
        for (d, values) in space.enumerate() {
            range.offset[d] = values.start as usize;
            range.global[d] = (values.end - values.start) as usize;
        }
        Ok(range)
    }

    /// Waits for a launch with checked indices, and reads from its table whether one was outside.
    fn check_fault(
        &self,
        places: Places<'_>,
        table: Option<Counted<Memory>>,
        commands: &mut Commands<'_>,
    ) -> Result<(), Failure> {
        let Some(table) = table else { return Ok(()) };
        // Where the wait fails the device may still write to it.
        let words = Box::leak(Box::new([0u64; FAULT_WORDS]));
        let (from, bytes) = (8 * self.spec.fault_at(), size_of_val(words));
        // The table has these words, and the place stays until the wait has ended.
        commands.alone(places).push("clEnqueueReadBuffer", |opencl, queue, event| {
            let to = words.as_mut_ptr().cast();
            opencl.clEnqueueReadBuffer(queue, table.get(), CL_FALSE, from, bytes, to, 0, null(), event)
        })?;
        commands.finish()?;
        // SAFETY: leaked above, and nothing else refers to it any more.
        let words = unsafe { Box::from_raw(std::ptr::from_mut(words)) };
        self.spec.check_fault(&words)
    }

    fn run(&self, alone: &mut Alone<'_, '_>, state: &State, range: &Range) -> Result<(), Failure> {
        // `cl3` declares it safe; here it is: the queue and the kernel are of the device, all parameters are
        // set, and the buffers that they name stay until the launch is done.
        let outcome = alone.push("clEnqueueNDRangeKernel", |opencl, queue, event| {
            opencl.clEnqueueNDRangeKernel(
                queue,
                state.kernel.get(),
                range.dimensions as u32,
                range.offset.as_ptr(),
                range.global.as_ptr(),
                range.local.as_ref().map_or(null(), |local| local.as_ptr()),
                0,
                null(),
                event,
            )
        });
        outcome.map_err(|failure| {
            let (title, items) = (&self.spec.title, range.global.iter().product::<usize>());
            let text =
                format!("{title}: {items} work items in groups of {:?}: {}", range.local, failure.text);
            Failure::new(failure.code, text)
        })
    }
}

/// Work items of a thread that has several: on a CPU as many as leave all units busy.
fn run(device: &OpenClDevice, items: u64, least: u64) -> u64 {
    let runs = if device.is_cpu() { RUNS * u64::from(device.found.info.threads) } else { items };
    items.div_ceil(runs.max(1)).next_multiple_of(least)
}

/// Refuses a work-group that the kernel or the device cannot have.
fn check_group(
    spec: &KernelSpec,
    device: &OpenClDevice,
    compiled: &Compiled,
    size: usize,
) -> Result<(), Failure> {
    let most = compiled.most.min(device.found.limits.work_group_size);
    let text = match compiled.compiled {
        Some(compiled) if compiled != [size, 1, 1] => {
            format!("of {compiled:?} work items, for which the kernel was compiled")
        }
        _ if size > most => {
            format!("of up to {most} work items, the limit of {}", device.found.info.name)
        }
        _ => return Ok(()),
    };
    let title = &spec.title;
    let refused = error_text(CL_INVALID_WORK_GROUP_SIZE);
    let text = format!(
        "{title}: expected a work-group {text}, found one of {size}, for which clEnqueueNDRangeKernel has {refused} ({CL_INVALID_WORK_GROUP_SIZE}): set {WORK_GROUP_SIZE}"
    );
    Err(Failure::new(Code::Invalid, text))
}

/// True if the second buffer of an argument has its values at the beginning of the phase.
fn swapped(arg: &Arg, odd: bool) -> bool {
    odd && two_buffers(arg)
}

/// Copies a phased argument's elements to its other buffer. `odd`: they are in the second now.
fn carry(alone: &mut Alone<'_, '_>, device: &OpenClDevice, arg: &Arg, odd: bool) -> Result<(), Failure> {
    // In the host's memory both begin with element 0.
    let [from, to] = if device.in_place() { [0; 2] } else { carried(arg, odd).map(|byte| byte as usize) };
    let bytes = (arg.len * u64::from(arg.element_size)) as usize;
    if bytes == 0 {
        return Ok(());
    }
    let mut buffer = |second| alone.buffer(device.place(0, arg, 0, 0, second)?);
    let now = swapped(arg, odd);
    let (now, next) = (buffer(now)?, buffer(!now)?);
    // As above: both have the argument's elements and stay until the launch is done.
    alone.push("clEnqueueCopyBuffer", |opencl, queue, event| {
        opencl.clEnqueueCopyBuffer(queue, now, next, from, to, bytes, 0, null(), event)
    })
}
