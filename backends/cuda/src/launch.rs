//! One launch: parameters, blocks, phases.

use crate::device::Known;
use crate::kernel::{CudaKernel, ModuleKernel, State};
use crate::queue::{Commands, Shape, Work, Writing};
use flash_core::Code;
use flash_core::abi::Arg;
use flash_core::backend::offload::{Parameter, carried, numbers, offset, two_buffers};
use flash_core::backend::{Event, Failure, Launch};

/// The option, and the attribute, that says how many threads are in a block.
const WORK_GROUP_SIZE: &str = "work_group_size";

/// The option that says how many bytes of dynamic shared memory a block has.
const SHARED_MEMORY: &str = "shared_memory_bytes";

/// What a submission, or else its implementation, wants.
#[derive(Clone, Copy)]
struct Wanted {
    block: Option<u32>,
    shared: u32,
}

impl ModuleKernel {
    /// Puts a launch into the queue.
    pub(crate) fn submit(
        &self,
        known: &'static Known,
        launch: &Launch<'_, CudaKernel>,
    ) -> Result<Option<Event>, Failure> {
        let [block, shared] = numbers(launch, [WORK_GROUP_SIZE, SHARED_MEMORY])?;
        let mut state = self.state();
        let shared = shared.map_or(Ok(0), |bytes| self.allow_shared(known, &mut state, bytes))?;
        self.check_option(block)?;
        let block = block.or(self.spec.work_group_size).map(|size| self.check_block(known, size));
        let wanted = Wanted { block: block.transpose()?, shared };
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
            false => self.whole(known, launch, wanted, &mut writing),
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

    /// A kernel that says how many threads its blocks have counts on them; one that does not care says nothing.
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

    fn check_block(&self, known: &Known, size: u64) -> Result<u32, Failure> {
        self.spec.check_group(size)?;
        if size <= u64::from(self.most) {
            return Ok(size as u32);
        }
        let text = format!(
            "{}: expected a work-group of up to {} threads, the limit of {} for this kernel, found one of {size}: set {WORK_GROUP_SIZE}",
            self.title, self.most, known.found.info.name
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// A cooperating kernel: once per phase.
    fn phases(
        &self,
        known: &'static Known,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let (space, args, phases) = (launch.space(), launch.args(), launch.phases());
        for (k, phase) in phases.clone().enumerate() {
            let odd = k % 2 == 1;
            for arg in args.iter().filter(|arg| two_buffers(arg) && !is_covered(arg)) {
                // Elements that no item owns keep what they have.
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
            let shape = self.line(known, state, wanted)?;
            writing.push(Work::Kernel(self.function, shape), &self.title, |commands| {
                self.parameters(known, args, odd, commands)?;
                commands.words(&state.told.words);
                commands.words(&[address]);
                Ok(())
            })?;
        }
        if (phases.end - phases.start) % 2 == 1 {
            for arg in args.iter().filter(|arg| two_buffers(arg) && !stays(arg)) {
                self.carry(known, arg, true, writing)?;
            }
        }
        Ok(())
    }

    /// Adds the parameters that are the definition's.
    fn parameters(
        &self,
        known: &Known,
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
                    // One that cooperates is told where its buffers begin.
                    let begin = if self.spec.cooperating { 0 } else { offset(&args[argument]).max(0) as u64 };
                    commands.words(&[place + begin]);
                }
            }
        }
        Ok(())
    }

    /// The blocks of a cooperating kernel: along one dimension, which the kernel takes apart.
    fn line(&self, known: &Known, state: &State, wanted: Wanted) -> Result<Shape, Failure> {
        let threads = state.told.threads;
        let (block, grid) = match (self.spec.single_work_item, state.told.block) {
            (true, _) => (1, 1),
            (false, 0) => {
                let block = wanted.block.unwrap_or_else(|| self.block_for(known, threads));
                (block, threads.div_ceil(u64::from(block)))
            }
            (false, rows) => (wanted.block.unwrap_or(1), state.told.items.div_ceil(rows)),
        };
        let most = known.found.limits.grid[0];
        if grid > most {
            let text = format!(
                "{}: expected up to {most} blocks, the limit of {}, found {grid} of {block} threads for {threads} in all: cut the launch, or set {WORK_GROUP_SIZE}",
                self.title, known.found.info.name
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        Ok(Shape {
            grid: [grid as u32, 1, 1],
            block: [block, 1, 1],
            shared: wanted.shared,
            cooperative: false,
        })
    }

    /// Threads of a block that nobody has said anything of: as many as keep most threads of a multiprocessor busy,
    /// and fewer if some multiprocessor would have nothing to do.
    fn block_for(&self, known: &Known, threads: u64) -> u32 {
        let mut block = self.preferred;
        let units = u64::from(known.found.limits.multiprocessors);
        while block >= 128 && block.is_multiple_of(64) && threads.div_ceil(u64::from(block)) < 2 * units {
            block /= 2;
        }
        // Threads that share a work item are in one block.
        let share = self.spec.threads_per_item.min(u64::from(self.most)) as u32;
        (block / share).max(1) * share
    }

    /// A kernel that does not cooperate: once, over the index space itself.
    fn whole(
        &self,
        known: &'static Known,
        launch: &Launch<'_, CudaKernel>,
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
        let most = || self.block_for(known, extents[0]);
        let block = match (wanted.block, self.spec.bounds_checked) {
            (block, true) => block.unwrap_or_else(most),
            (Some(block), false) if !extents[0].is_multiple_of(u64::from(block)) => {
                return Err(self.spec.not_plain(&format!(
                    "an extent of {} along the first dimension, which a work-group of {block} does not divide (or say `bounds_checked`)",
                    extents[0]
                )));
            }
            (Some(block), false) => block,
            // No thread is behind the end: the kernel need not look.
            (None, false) => divisor(extents[0], most()),
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
        writing.push(Work::Kernel(self.function, shape), &self.title, |commands| {
            self.parameters(known, launch.args(), false, commands)
        })
    }

    /// Copies a phased argument's elements to its other buffer. `odd`: they are in the second now.
    fn carry(&self, known: &Known, arg: &Arg, odd: bool, writing: &mut Writing) -> Result<(), Failure> {
        let bytes = (arg.len * u64::from(arg.element_size)) as usize;
        if bytes == 0 {
            return Ok(());
        }
        let ([from, to], [now, next]) = (carried(arg, odd), places(known, 0, arg, odd)?);
        writing.push(Work::Copy(now + from, next + to, bytes), &self.title, |_| Ok(()))
    }

    /// A cooperating kernel that goes through several phases itself: once for as many as have the same table.
    fn runs_of_phases(
        &self,
        known: &'static Known,
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

    /// Some phases as one launch: with several, of as many blocks as run at the same time.
    fn run_of_phases(
        &self,
        known: &'static Known,
        launch: &Launch<'_, CudaKernel>,
        state: &mut State,
        wanted: Wanted,
        run: &Run,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        if run.threads == 0 {
            return Ok(());
        }
        let block = wanted.block.unwrap_or_else(|| self.block_for(known, run.threads));
        let most = match run.count > 1 {
            true => u64::from(self.resident(known, state, block, wanted.shared)?),
            false => known.found.limits.grid[0],
        };
        let shape = Shape {
            // The threads go on with the next items where there are more.
            grid: [run.threads.div_ceil(u64::from(block)).min(most) as u32, 1, 1],
            block: [block, 1, 1],
            shared: wanted.shared,
            cooperative: run.count > 1,
        };
        let table = state.on_device(known, &run.table)?;
        let structs = state.on_device(known, &run.structs)?;
        let counter = state.counter(known)?;
        writing.push(Work::Kernel(self.function, shape), &self.title, |commands| {
            self.parameters(known, launch.args(), false, commands)?;
            commands.words(&run.structs[..run.structs.len() / run.count]);
            [table, structs, run.count as u64, counter].iter().for_each(|&word| commands.words(&[word]));
            Ok(())
        })
    }
}

/// Phases that are one launch.
#[derive(Default)]
struct Run {
    count: usize,
    /// Of the largest.
    threads: u64,
    /// What the kernel is told of each, one behind the other, and the table that all have.
    structs: Vec<u64>,
    table: Vec<u64>,
}

impl Run {
    fn clear(&mut self) {
        (self.count, self.threads) = (0, 0);
        self.structs.clear();
    }
}

/// Phases of one launch at most.
const PHASES: usize = 4096;

/// True if in every phase every element is some item's own.
fn is_covered(arg: &Arg) -> bool {
    arg.flags & flash_core::abi::ARG_FLAG_COVERED != 0
}

/// True if what the last phase wrote stays where it is.
fn stays(arg: &Arg) -> bool {
    arg.flags & flash_core::abi::ARG_FLAG_NEXT_STAYS != 0
}

/// The addresses of an argument's buffers: as the phase began, and the one that takes its writes.
fn places(known: &Known, number: usize, arg: &Arg, odd: bool) -> Result<[u64; 2], Failure> {
    let data = known.place(number, arg)?;
    if !two_buffers(arg) {
        return Ok([data, 0]);
    }
    let next = arg.next.addr() as u64;
    Ok(if odd { [next, data] } else { [data, next] })
}

/// The largest number up to `most` that divides `extent`.
fn divisor(extent: u64, most: u32) -> u32 {
    (1..=most).rev().find(|&size| extent.is_multiple_of(u64::from(size))).unwrap_or(1)
}
