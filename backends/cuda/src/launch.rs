//! One launch: parameters, blocks, phases.

use crate::device::DeviceFacts;
use crate::kernel::{CudaKernel, Entry, ModuleKernel, State};
use crate::queue::{Commands, Function, Shape, Work, Writing};
use flash_core::Code;
use flash_core::abi::Arg;
use flash_core::backend::offload::{LaunchWords, Parameter, carried, numbers, offset, two_buffers};
use flash_core::backend::{Event, Failure, Launch};

/// The option, and the attribute, for the number of threads in a block.
const WORK_GROUP_SIZE: &str = "work_group_size";

/// The option for the bytes of dynamic shared memory of a block.
const SHARED_MEMORY: &str = "shared_memory_bytes";

/// Threads of a warp.
const WARP: u64 = 32;
/// Threads of a block that keep a multiprocessor busy.
const BUSY: u64 = 256;
/// Threads of a block along its third dimension that every device takes.
const PLANES: u64 = 64;

/// The blocks that a submission, or else its implementation, asks for. If either asks for anything, blocks
/// have one dimension.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Wanted {
    block: Option<u32>,
    shared: u32,
}

impl ModuleKernel {
    /// Puts a launch into the queue.
    pub(crate) fn submit(
        &self,
        known: &'static DeviceFacts,
        launch: &Launch<'_, CudaKernel>,
    ) -> Result<Option<Event>, Failure> {
        let [block, shared] = numbers(launch, [WORK_GROUP_SIZE, SHARED_MEMORY])?;
        let mut state = self.state();
        self.check_option(block)?;
        let wanted = match (block.or(self.spec.work_group_size), shared.unwrap_or(0)) {
            (None, 0) => Wanted::default(),
            (block, shared) => {
                let line = state.line(known, self)?;
                let shared = line.allow_shared(known, &self.title, shared)?;
                let block = block.map(|size| self.check_block(known, line, size));
                Wanted { block: block.transpose()?, shared }
            }
        };
        if launch.phases().is_empty() {
            return Ok(None);
        }
        let opened = known.opened()?;
        let mut writing = opened.queue.write();
        let start = if launch.profiled() { Some(writing.start()?) } else { None };
        let outcome = match self.spec.cooperating {
            _ if self.spec.grid_barrier => {
                self.runs_of_phases(known, launch, &mut state, wanted, &mut writing)
            }
            true => self.phases(known, launch, &mut state, wanted, &mut writing),
            false => self.whole(known, launch, &mut state, wanted, &mut writing),
        };
        if let Err(failure) = outcome {
            writing.abandon();
            return Err(failure);
        }
        let done = match start {
            Some(start) => writing.end_timed(start)?,
            None => writing.end(),
        };
        Ok(done.map(Event::new))
    }

    /// A kernel that declares the size of its blocks relies on it; one that does not declares nothing.
    fn check_option(&self, option: Option<u64>) -> Result<(), Failure> {
        let (Some(size), Some(own)) = (option, self.spec.work_group_size) else { return Ok(()) };
        if size == own {
            return Ok(());
        }
        let text = format!(
            "{}: expected a work-group of {own} threads, for which the kernel is written, found {WORK_GROUP_SIZE} = {size}: leave the option out",
            self.title
        );
        Err(Failure::new(Code::Invalid, text))
    }

    fn check_block(&self, known: &DeviceFacts, entry: &Entry, size: u64) -> Result<u32, Failure> {
        self.spec.check_group(size)?;
        if size <= u64::from(entry.most) {
            return Ok(size as u32);
        }
        let text = format!(
            "{}: expected a work-group of up to {} threads, the limit of {} for this kernel, found one of {size}: set {WORK_GROUP_SIZE}",
            self.title, entry.most, known.found.info.name
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// A cooperating kernel: once per phase.
    fn phases(
        &self,
        known: &'static DeviceFacts,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let (space, args, phases) = (launch.space(), launch.args(), launch.phases());
        for (k, phase) in phases.clone().enumerate() {
            let odd = k % 2 == 1;
            for arg in args.iter().filter(|arg| two_buffers(arg) && !is_covered(arg)) {
                // Elements that no item owns keep their value.
                self.carry(known, arg, odd, writing)?;
            }
            self.spec.tell(space, phase, args, odd, &mut state.told)?;
            if state.told.items == 0 {
                continue;
            }
            let table = std::mem::take(&mut state.told.table);
            let address = state.on_device(known, &table);
            state.told.table = table;
            let address = address?;
            let (function, shape) = match self.grid(known, state, wanted)? {
                Some(grid) => grid,
                None => self.line(known, state, wanted)?,
            };
            writing.push(Work::Kernel(function, shape), &self.title, |commands| {
                self.parameters(known, args, odd, commands)?;
                commands.words(&state.told.words);
                commands.words(&[address]);
                Ok(())
            })?;
            if self.spec.check_bounds {
                state.check_fault(known, &self.spec, address)?;
            }
        }
        if (phases.end - phases.start) % 2 == 1 {
            for arg in args.iter().filter(|arg| two_buffers(arg) && !stays(arg)) {
                self.carry(known, arg, true, writing)?;
            }
        }
        Ok(())
    }

    /// Adds the parameters of the definition.
    fn parameters(
        &self,
        known: &DeviceFacts,
        args: &[Arg],
        odd: bool,
        commands: &mut Commands,
    ) -> Result<(), Failure> {
        for &parameter in &self.parameters {
            match parameter {
                Parameter::Value(argument) => {
                    let arg = &args[argument];
                    // SAFETY: a scalar's bytes live for the call.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(arg.data.cast::<u8>(), arg.element_size as usize)
                    };
                    commands.parameter(bytes);
                }
                Parameter::Array(argument) | Parameter::Next(argument) => {
                    let [now, next] = places(known, argument, &args[argument], odd)?;
                    let place = if parameter == Parameter::Next(argument) { next } else { now };
                    // A cooperating kernel reads the offsets of its buffers from `FLASH_ARGS`.
                    let begin = if self.spec.cooperating { 0 } else { offset(&args[argument]).max(0) as u64 };
                    commands.words(&[place + begin]);
                }
            }
        }
        Ok(())
    }

    /// The program and blocks for a box of a cooperating kernel, in as many dimensions. `None`: it is no box,
    /// or the device has no such grid.
    fn grid(
        &self,
        known: &'static DeviceFacts,
        state: &mut State,
        wanted: Wanted,
    ) -> Result<Option<(Function, Shape)>, Failure> {
        let State { told, grid, .. } = state;
        let (Some(entry), Some(extents), true) = (grid, told.grid, wanted == Wanted::default()) else {
            return Ok(None);
        };
        let block = block_of_box(extents, self.block_for(known, entry, wanted, told.items)?);
        let blocks: [u64; 3] = std::array::from_fn(|d| extents[d].div_ceil(block[d]));
        if blocks.iter().zip(known.found.limits.grid).any(|(&blocks, most)| blocks > most) {
            return Ok(None);
        }
        told.as_grid();
        let (grid, block) = (blocks.map(|blocks| blocks as u32), block.map(|threads| threads as u32));
        Ok(Some((entry.function, Shape { grid, block, shared: 0, cooperative: false })))
    }

    /// The program and blocks for any launch of a cooperating kernel, in one dimension; the kernel computes
    /// its index.
    fn line(
        &self,
        known: &'static DeviceFacts,
        state: &mut State,
        wanted: Wanted,
    ) -> Result<(Function, Shape), Failure> {
        let LaunchWords { threads, items, block: rows, .. } = state.told;
        let entry = state.line(known, self)?;
        let (block, grid) = match (self.spec.single_work_item, rows) {
            (true, _) => (1, 1),
            (false, 0) => {
                let block = self.block_for(known, entry, wanted, threads)?;
                (block, threads.div_ceil(u64::from(block)))
            }
            (false, rows) => (wanted.block.unwrap_or(1), items.div_ceil(rows)),
        };
        let most = known.found.limits.grid[0];
        if grid > most {
            let text = format!(
                "{}: expected up to {most} blocks, the limit of {}, found {grid} of {block} threads for {threads} in all: cut the launch, or set {WORK_GROUP_SIZE}",
                self.title, known.found.info.name
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        let shape = Shape {
            grid: [grid as u32, 1, 1],
            block: [block, 1, 1],
            shared: wanted.shared,
            cooperative: false,
        };
        Ok((entry.function, shape))
    }

    /// Threads of a block: the number asked for. By default, the number that keeps most threads of a
    /// multiprocessor busy, and fewer if some multiprocessor would be idle.
    fn block_for(
        &self,
        known: &'static DeviceFacts,
        entry: &mut Entry,
        wanted: Wanted,
        threads: u64,
    ) -> Result<u32, Failure> {
        if let Some(block) = wanted.block {
            return Ok(block);
        }
        let mut block = entry.preferred(known, wanted.shared)?;
        let units = u64::from(known.found.limits.multiprocessors);
        while block >= 128 && block.is_multiple_of(64) && threads.div_ceil(u64::from(block)) < 2 * units {
            block /= 2;
        }
        // Threads that share a work item are in one block.
        let share = self.spec.threads_per_item.min(u64::from(entry.most)) as u32;
        Ok((block / share).max(1) * share)
    }

    /// A kernel that does not cooperate: one launch over the index space itself.
    fn whole(
        &self,
        known: &'static DeviceFacts,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let space = self.spec.plain_space(launch, Some(1))?;
        // Dimensions behind the third are folded into it.
        let mut extents = [1u64; 3];
        for (d, values) in space.enumerate() {
            if values.start != 0 {
                let found = format!("dimension {d} from {} on, where CUDA counts from 0", values.start);
                return Err(self.spec.not_plain(&found));
            }
            let at = d.min(2);
            extents[at] = extents[at].saturating_mul(values.end);
        }
        if extents.contains(&0) {
            return Ok(());
        }
        let entry = state.line(known, self)?;
        let most = self.block_for(known, entry, wanted, extents[0])?;
        let block = match (wanted.block, self.spec.bounds_checked) {
            (_, true) => most,
            (Some(block), false) if !extents[0].is_multiple_of(u64::from(block)) => {
                return Err(self.spec.not_plain(&format!(
                    "an extent of {} along the first dimension, which a work-group of {block} does not divide (or say `bounds_checked`)",
                    extents[0]
                )));
            }
            (Some(block), false) => block,
            // No thread is past the end: the kernel need not check.
            (None, false) => divisor(extents[0], most),
        };
        let blocks = [extents[0].div_ceil(u64::from(block)), extents[1], extents[2]];
        let most = known.found.limits.grid;
        if let Some(d) = (0..3).find(|&d| blocks[d] > most[d]) {
            let found = format!("{} blocks along dimension {d}, where {} is the limit", blocks[d], most[d]);
            return Err(self.spec.not_plain(&found));
        }
        let shape = Shape {
            grid: blocks.map(|blocks| blocks as u32),
            block: [block, 1, 1],
            shared: wanted.shared,
            cooperative: false,
        };
        writing.push(Work::Kernel(entry.function, shape), &self.title, |commands| {
            self.parameters(known, launch.args(), false, commands)
        })
    }

    /// Copies a phased argument's elements to its other buffer. `odd`: they are in the second now.
    fn carry(&self, known: &DeviceFacts, arg: &Arg, odd: bool, writing: &mut Writing) -> Result<(), Failure> {
        let bytes = (arg.len * u64::from(arg.element_size)) as usize;
        if bytes == 0 {
            return Ok(());
        }
        let ([from, to], [now, next]) = (carried(arg, odd), places(known, 0, arg, odd)?);
        writing.push(Work::Copy(now + from, next + to, bytes), &self.title, |_| Ok(()))
    }

    /// A cooperating kernel that loops over phases itself: one launch for each run of phases with the same
    /// table.
    fn runs_of_phases(
        &self,
        known: &'static DeviceFacts,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let mut run = Run::default();
        for phase in launch.phases() {
            self.spec.tell(launch.space(), phase, launch.args(), false, &mut state.told)?;
            let joins = run.count < PHASES && known.found.limits.cooperative && run.table == state.told.table;
            if run.count > 0 && !joins {
                self.run_of_phases(known, launch, state, wanted, &run, writing)?;
                run.clear();
            }
            if run.count == 0 {
                run.table.clone_from(&state.told.table);
            }
            run.count += 1;
            run.threads = run.threads.max(state.told.threads);
            run.structs.extend_from_slice(&state.told.words);
        }
        self.run_of_phases(known, launch, state, wanted, &run, writing)
    }

    /// Launches a run of phases at once. If it has several, all of its blocks must be resident.
    fn run_of_phases(
        &self,
        known: &'static DeviceFacts,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        run: &Run,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        if run.threads == 0 {
            return Ok(());
        }
        let entry = state.line(known, self)?;
        let block = self.block_for(known, entry, wanted, run.threads)?;
        let most = match run.count > 1 {
            true => u64::from(entry.resident(known, block, wanted.shared)?),
            false => known.found.limits.grid[0],
        };
        let function = entry.function;
        let shape = Shape {
            // If there are more items, the threads take several.
            grid: [run.threads.div_ceil(u64::from(block)).min(most) as u32, 1, 1],
            block: [block, 1, 1],
            shared: wanted.shared,
            cooperative: run.count > 1,
        };
        let table = state.on_device(known, &run.table)?;
        let structs = state.on_device(known, &run.structs)?;
        let counter = state.counter(known)?;
        writing.push(Work::Kernel(function, shape), &self.title, |commands| {
            self.parameters(known, launch.args(), false, commands)?;
            commands.words(&run.structs[..run.structs.len() / run.count]);
            [table, structs, run.count as u64, counter].iter().for_each(|&word| commands.words(&[word]));
            Ok(())
        })?;
        if self.spec.check_bounds { state.check_fault(known, &self.spec, table) } else { Ok(()) }
    }
}

/// Phases that are one launch.
#[derive(Default)]
struct Run {
    count: usize,
    /// Threads of the largest phase.
    threads: u64,
    /// The kernel's words for each phase, one after the other, and the table that all share.
    structs: Vec<u64>,
    table: Vec<u64>,
}

impl Run {
    fn clear(&mut self) {
        (self.count, self.threads) = (0, 0);
        self.structs.clear();
    }
}

/// Most phases of one launch.
const PHASES: usize = 4096;

/// True if in every phase every element is some item's own.
fn is_covered(arg: &Arg) -> bool {
    arg.flags & flash_core::abi::ARG_FLAG_COVERED != 0
}

/// True if what the last phase wrote stays in its buffer.
fn stays(arg: &Arg) -> bool {
    arg.flags & flash_core::abi::ARG_FLAG_NEXT_STAYS != 0
}

/// The addresses of an argument's buffers: the one read in this phase, and the one written.
fn places(known: &DeviceFacts, number: usize, arg: &Arg, odd: bool) -> Result<[u64; 2], Failure> {
    let data = known.place(number, arg)?;
    if !two_buffers(arg) {
        return Ok([data, 0]);
    }
    let next = arg.next.addr() as u64;
    Ok(if odd { [next, data] } else { [data, next] })
}

/// The block size for a box, of at most `most` threads. First a warp along dimension 0, as far as that goes,
/// since neighbours there are adjacent in memory; then rows up to [`BUSY`] threads; then planes while there
/// is room, since a stencil has neighbours in them, too; then more along dimension 0 if these are still few.
fn block_of_box(extents: [u64; 3], most: u32) -> [u64; 3] {
    let most = u64::from(most);
    // Up to `room`, if there are that many items.
    let along = |d: usize, room: u64| extents[d].min(room).next_power_of_two().min(room);
    let warp = along(0, WARP.min(most));
    let rows = along(1, (most.min(BUSY) / warp).max(1));
    let planes = along(2, (most / (warp * rows)).min(PLANES));
    let more = (most.min(BUSY) / (warp * rows * planes)).max(1);
    [warp * more.min(extents[0].div_ceil(warp)), rows, planes]
}

/// The largest number up to `most` that divides `extent`.
fn divisor(extent: u64, most: u32) -> u32 {
    (1..=most).rev().find(|&size| extent.is_multiple_of(u64::from(size))).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_box_is_a_warp_wide_and_then_has_rows_and_planes_and_more_warps() {
        for (extents, most, block) in [
            ([4096, 4096, 1], 1024, [32, 8, 1]),
            ([256, 256, 256], 1024, [32, 8, 4]),
            ([100, 100, 100], 768, [32, 8, 3]),
            ([100, 100, 100], 128, [32, 4, 1]),
            ([2500, 3, 2], 1024, [32, 4, 2]),
            ([1 << 40, 1, 1], 1024, [256, 1, 1]),
            ([100, 1, 1], 1024, [128, 1, 1]),
            ([3, 2500, 2], 1024, [4, 64, 2]),
            ([1, 1, 1 << 40], 1024, [1, 1, 64]),
            ([7, 1, 100], 1024, [8, 1, 64]),
            ([40, 40, 40], 24, [24, 1, 1]),
            ([40, 40, 40], 1, [1, 1, 1]),
            ([1, 1, 1], 1024, [1, 1, 1]),
        ] {
            assert_eq!(block_of_box(extents, most), block, "{extents:?}, {most}");
        }
    }

    #[test]
    fn a_block_of_a_box_has_no_more_threads_than_there_may_be() {
        for most in [1, 5, 32, 96, 640, 1024] {
            for x in 1..70 {
                for (y, z) in [(1, 1), (2, 90), (31, 3), (33, 1), (1000, 7), (1, 5000)] {
                    let block = block_of_box([x, y, z], most);
                    let threads: u64 = block.iter().product();
                    assert!((1..=u64::from(most)).contains(&threads) && block[2] <= PLANES, "{block:?}");
                }
            }
        }
    }
}
