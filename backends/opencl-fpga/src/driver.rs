//! What the toolkit for kernel languages asks of OpenCL.

use crate::counted::Counted;
use crate::device::OpenClDevice;
use crate::kernel::{self, State};
use crate::program;
use crate::queue::{Alone, Commands};
use crate::table::Table;
use flash_backend::Code;
use flash_backend::offload::{
    ArgBuffer, Call, Driver, FAULT_WORDS, Function, GroupLimits, Kernel, KernelSpec, Limits, Programs, Range,
};
use flash_backend::{Class, Event, Failure, Launch};
use opencl3::program::Program;
use std::path::Path;
use std::ptr::null;

/// Default size of a work-group.
const GROUP: u64 = 256;
/// The same for a box: enough that the cost of a work-group itself is small.
const GRID_GROUP: u64 = 1024;
/// Runs of work items for each unit of a CPU: several, since other programs may take some of its time.
const RUNS: u64 = 4;
/// Work items of the widest registers.
const VECTOR: u64 = 16;

impl Driver for OpenClDevice {
    type Program = Counted<Program>;
    type Function = kernel::Function;
    type Table = Table;
    type Commands<'d> = Commands<'d>;

    const SOURCES: &'static [&'static str] = &["cl", "c"];
    const BINARIES: &'static [&'static str] = &["aocx", "bin", "spv"];
    /// Compilers for CPUs use whole vectors.
    const CONSECUTIVE: bool = true;
    const CHOOSES_GROUPS: bool = true;

    fn limits(&self) -> Limits<'_> {
        let limits = &self.found.limits;
        Limits {
            device: &self.found.info.name,
            space: self.space,
            parameter_bytes: limits.parameter_bytes,
            group_bytes: limits.local_bytes,
            alignment: limits.alignment as u64,
            begins_anywhere: true,
            groups: [usize::MAX as u64; 3],
            grid_barriers: false,
            check_bounds: self.found.check_bounds,
        }
    }

    fn programs(&self) -> &Programs<OpenClDevice> {
        &self.programs
    }

    fn version(&self) -> String {
        format!("{}\n{}", self.found.driver, self.found.info.name)
    }

    /// An image needs an FPGA; `requires` names extensions.
    fn check(&self, spec: &KernelSpec, file: Option<(&Path, &str)>) -> Result<(), Failure> {
        let (title, name) = (&spec.title, &self.found.info.name);
        if let Some((path, "aocx")) = file
            && self.found.info.class != Class::Fpga
        {
            let text = format!("{title}: expected an FPGA for {path:?}, found {name}");
            return Err(Failure::new(Code::Unsupported, text));
        }
        let has = |extension: &str| self.found.extensions.split_whitespace().any(|there| there == extension);
        let doubles = spec.descriptor.arguments.iter().any(|a| a.element.name.contains("f64"));
        let mut needs = spec.requires.iter().map(String::as_str).chain(doubles.then_some("cl_khr_fp64"));
        let Some(missing) = needs.find(|extension| !has(extension)) else { return Ok(()) };
        let text = format!("{title}: expected a device with {missing}, found {name}, which lacks it");
        Err(Failure::new(Code::Unsupported, text))
    }

    fn compile(&self, spec: &KernelSpec, source: &str) -> Result<(Counted<Program>, Vec<u8>), Failure> {
        program::compile(self, spec, source)
    }

    fn load(&self, spec: &KernelSpec, kept: &[u8]) -> Result<Counted<Program>, Failure> {
        program::load(self, spec, kept)
    }

    fn load_binary(&self, spec: &KernelSpec, binary: &[u8]) -> Result<Counted<Program>, Failure> {
        program::of_binary(self, spec, binary)
    }

    fn function(
        &self,
        spec: &KernelSpec,
        program: &Counted<Program>,
    ) -> Result<(kernel::Function, GroupLimits), Failure> {
        kernel::Function::new(self, spec, program)
    }

    /// All units are busy, in groups of the size that the device prefers.
    fn group_of_line(&self, function: &Function<Self>, threads: u64, _added: u64) -> Result<u64, Failure> {
        let multiple = function.driver.multiple;
        let share = threads.div_ceil(self.units()).next_multiple_of(multiple);
        Ok(share.min(GROUP.next_multiple_of(multiple).min(function.limits.threads)))
    }

    /// Groups of whole vectors along dimension 0, and of as many rows as fit.
    fn group_of_box(&self, function: &Function<Self>, extents: [u64; 3]) -> Result<[u64; 3], Failure> {
        let share = extents.iter().product::<u64>().div_ceil(self.units()).next_multiple_of(VECTOR);
        let most = share.clamp(1, GRID_GROUP.min(function.limits.threads));
        let pieces = extents[0].div_ceil(most).max(1);
        let along = extents[0].div_ceil(pieces).max(1).next_multiple_of(VECTOR).min(most);
        Ok([along, (most / along).min(extents[1]).max(1), 1])
    }

    /// On a CPU as many as leave all units busy.
    fn items_per_thread(&self, items: u64, least: u64) -> u64 {
        let runs = if self.is_cpu() { RUNS * u64::from(self.found.info.threads) } else { items };
        items.div_ceil(runs.max(1)).next_multiple_of(least)
    }

    fn begin(&self, timed: bool, awaited: bool) -> Result<Commands<'_>, Failure> {
        Ok(self.opened()?.kernels.begin(timed, awaited))
    }

    fn repeat(
        &self,
        kernel: &Kernel<Self>,
        launch: &Launch<'_, Kernel<Self>>,
        commands: &mut Commands<'_>,
    ) -> Result<bool, Failure> {
        let mut alone = commands.alone(self.places(self.opened()?));
        let state = kernel.first().driver.state(&alone);
        let Some(range) = state.range_of(launch) else { return Ok(false) };
        run(kernel, &mut alone, &state, &range)?;
        Ok(true)
    }

    fn copy(
        &self,
        from: ArgBuffer<'_>,
        to: ArgBuffer<'_>,
        bytes: usize,
        commands: &mut Commands<'_>,
    ) -> Result<(), Failure> {
        let mut alone = commands.alone(self.places(self.opened()?));
        let mut whole = |of: ArgBuffer<'_>| alone.buffer(self.place(ArgBuffer { begin: 0, ..of }, 0));
        let (now, next) = (whole(from)?, whole(to)?);
        let (from, to) = (from.begin as usize, to.begin as usize);
        // `cl3` declares it safe; here it is: both have the argument's elements and stay until the launch is
        // done.
        alone.push("clEnqueueCopyBuffer", |opencl, queue, event| {
            opencl.clEnqueueCopyBuffer(queue, now, next, from, to, bytes, 0, null(), event)
        })
    }

    fn call(
        &self,
        call: &Call<'_, Self>,
        written: Option<&Table>,
        commands: &mut Commands<'_>,
    ) -> Result<(), Failure> {
        commands.keep_pace()?;
        let mut alone = commands.alone(self.places(self.opened()?));
        let mut state = call.function.driver.state(&alone);
        state.set_all(self, call, written.map(Table::to_write), &mut alone)?;
        run(call.kernel, &mut alone, &state, &call.range)?;
        if call.may_repeat() {
            state.keep(call.launch, call.range);
        }
        Ok(())
    }

    fn table(&self, words: &[u64]) -> Result<Table, Failure> {
        Table::new(self, words)
    }

    fn free_table(&self, table: Table) {
        drop(table);
    }

    fn read(
        &self,
        table: &Table,
        at: usize,
        commands: &mut Commands<'_>,
    ) -> Result<[u64; FAULT_WORDS], Failure> {
        table.read(self, at, commands)
    }

    fn end(&self, commands: Commands<'_>) -> Result<Option<Event>, Failure> {
        commands.end()
    }

    fn abandon(&self, commands: Commands<'_>) {
        commands.abandon();
    }
}

impl OpenClDevice {
    fn units(&self) -> u64 {
        u64::from(self.found.limits.compute_units.max(1))
    }
}

/// Enqueues a kernel whose parameters are set.
fn run(
    kernel: &Kernel<OpenClDevice>,
    alone: &mut Alone<'_, '_>,
    state: &State,
    range: &Range,
) -> Result<(), Failure> {
    let (offset, threads) = (range.begin.map(|at| at as usize), range.threads().map(|n| n as usize));
    let local = range.group.map(|group| group.map(|n| n as usize));
    // `cl3` declares it safe; here it is: the queue and the kernel are of the device, all parameters are set,
    // and the buffers that they name stay until the launch is done.
    let outcome = alone.push("clEnqueueNDRangeKernel", |opencl, queue, event| {
        opencl.clEnqueueNDRangeKernel(
            queue,
            state.kernel.get(),
            range.dimensions as u32,
            offset.as_ptr(),
            threads.as_ptr(),
            local.as_ref().map_or(null(), |local| local.as_ptr()),
            0,
            null(),
            event,
        )
    });
    outcome.map_err(|failure| {
        let (title, items) = (&kernel.spec.title, threads.iter().product::<usize>());
        let text = format!("{title}: {items} work items in groups of {local:?}: {}", failure.text);
        Failure::new(failure.code, text)
    })
}
