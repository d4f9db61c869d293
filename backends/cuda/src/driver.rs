//! What the toolkit for kernel languages asks of CUDA.

use crate::device::CudaDevice;
use crate::kernel::{self, CudaKernel, Last, SHARED};
use crate::program::{self, Module};
use crate::queue::{Parameters, Shape, Work, Writing};
use cudarc::driver::sys::CUdeviceptr;
use flash_backend::Code;
use flash_backend::offload::{
    ArgBuffer, Call, Driver, FAULT_WORDS, Function, GroupLimits, Kernel, KernelSpec, Limits, Programs, Range,
    Value,
};
use flash_backend::{Event, Failure, Launch};
use std::path::Path;

/// Threads of a warp.
const WARP: u64 = 32;
/// Threads of a block that keep a multiprocessor busy.
const BUSY: u64 = 256;
/// Threads of a block along its third dimension that every device takes.
const PLANES: u64 = 64;

impl Driver for CudaDevice {
    type Program = Module;
    type Function = kernel::Function;
    type Table = CUdeviceptr;
    type Commands<'d> = Writing;

    const SOURCES: &'static [&'static str] = &["cu", "cuh", "c"];
    const BINARIES: &'static [&'static str] = &["ptx", "cubin", "fatbin"];
    /// Modules are never unloaded.
    const UNUSED_PROGRAMS: usize = usize::MAX;
    const ADDS_GROUP_MEMORY: bool = true;
    const GRID_BARRIERS: bool = true;

    fn limits(&self) -> Limits<'_> {
        let found = &self.0.found;
        Limits {
            device: &found.info.name,
            space: self.space(),
            parameter_bytes: found.limits.parameter_bytes,
            group_bytes: SHARED.into(),
            alignment: 1,
            begins_anywhere: false,
            groups: found.limits.grid,
            grid_barriers: found.limits.cooperative,
            check_bounds: found.check_bounds,
        }
    }

    fn programs(&self) -> &Programs<CudaDevice> {
        &self.0.programs
    }

    fn version(&self) -> String {
        let limits = &self.0.found.limits;
        format!("cuda\n{:?}\n{}", limits.capability, limits.driver)
    }

    /// `requires` names architectures: `sm_90`, or a later one.
    fn check(&self, spec: &KernelSpec, _: Option<(&Path, &str)>) -> Result<(), Failure> {
        let found = &self.0.found;
        let (major, minor) = found.limits.capability;
        let has = |wanted: &&String| {
            let number = wanted.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
            number.is_some_and(|number| number <= 10 * major + minor)
        };
        let Some(missing) = spec.requires.iter().find(|wanted| !has(wanted)) else { return Ok(()) };
        let text = format!(
            "{}: expected a device with {missing}, found {} with {}",
            spec.title, found.info.name, found.info.features
        );
        Err(Failure::new(Code::Unsupported, text))
    }

    fn compile(&self, spec: &KernelSpec, source: &str) -> Result<(Module, Vec<u8>), Failure> {
        program::compile(*self, spec, source)
    }

    fn load(&self, spec: &KernelSpec, kept: &[u8]) -> Result<Module, Failure> {
        program::load(*self, spec, kept)
    }

    fn load_binary(&self, spec: &KernelSpec, binary: &[u8]) -> Result<Module, Failure> {
        program::of_binary(*self, spec, binary)
    }

    fn function(
        &self,
        spec: &KernelSpec,
        module: &Module,
    ) -> Result<(kernel::Function, GroupLimits), Failure> {
        kernel::Function::new(*self, spec, module)
    }

    /// The number that keeps most threads of a multiprocessor busy, and fewer if some multiprocessor would be
    /// idle.
    fn group_of_line(&self, function: &Function<Self>, threads: u64, added: u64) -> Result<u64, Failure> {
        let most = function.limits.threads as u32;
        let mut block = u64::from(function.driver.preferred(*self, most, added as u32)?);
        let units = u64::from(self.0.found.limits.multiprocessors);
        while block >= 128 && block.is_multiple_of(64) && threads.div_ceil(block) < 2 * units {
            block /= 2;
        }
        Ok(block)
    }

    fn group_of_box(&self, function: &Function<Self>, extents: [u64; 3]) -> Result<[u64; 3], Failure> {
        Ok(block_of_box(extents, self.group_of_line(function, extents.iter().product(), 0)?))
    }

    fn add_group_memory(&self, function: &Function<Self>, bytes: u64) -> Result<(), Failure> {
        function.driver.allow_shared(*self, function.limits.bytes as u32, bytes)
    }

    fn resident_groups(&self, function: &Function<Self>, group: u64, added: u64) -> Result<u64, Failure> {
        function.driver.resident(*self, group as u32, added as u32).map(u64::from)
    }

    fn begin(&self, timed: bool, awaited: bool) -> Result<Writing, Failure> {
        self.0.opened()?.queue.write(timed, awaited)
    }

    fn repeat(
        &self,
        kernel: &Kernel<CudaDevice>,
        launch: &Launch<'_, CudaKernel>,
        writing: &mut Writing,
    ) -> Result<bool, Failure> {
        let function = &kernel.first().driver;
        match &function.state().last {
            Some(last) if last.launch.is_of(launch) => {
                last.push(function, kernel.scalars(launch), writing).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    fn copy(
        &self,
        from: ArgBuffer<'_>,
        to: ArgBuffer<'_>,
        bytes: usize,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let at = |buffer: ArgBuffer<'_>| buffer.handle() + buffer.begin;
        writing.push(Work::Copy(at(from), at(to), bytes), None, |_| ())
    }

    fn call(
        &self,
        call: &Call<'_, Self>,
        written: Option<&CUdeviceptr>,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        self.record(call, written.copied(), writing)
    }

    fn table(&self, words: &[u64]) -> Result<CUdeviceptr, Failure> {
        kernel::new(*self, words)
    }

    fn read(&self, table: &CUdeviceptr, at: usize, _: &mut Writing) -> Result<[u64; FAULT_WORDS], Failure> {
        kernel::read(*self, table + 8 * at as u64)
    }

    fn free_table(&self, table: CUdeviceptr) {
        // A device that cannot free memory any more has no use for it.
        let _ = kernel::free(*self, table);
    }

    fn end(&self, writing: Writing) -> Result<Option<Event>, Failure> {
        Ok(writing.end()?.map(Event::new))
    }

    fn abandon(&self, writing: Writing) {
        writing.abandon();
    }
}

impl CudaDevice {
    /// Records a call. `written`: the table that it writes to, if it does.
    fn record(
        &self,
        call: &Call<'_, Self>,
        written: Option<CUdeviceptr>,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        let function = &call.function.driver;
        // Held until it is recorded, so that no other launch frees its table, or uses its counter.
        let mut state = function.state();
        let table = written.map_or_else(|| state.on_device(*self, call.table), Ok)?;
        let work = work(call);
        let Some(phases) = call.phases else {
            if !call.may_repeat() {
                return writing.push(work, Some(&function.title), |to| parameters(call, &[table], to));
            }
            let mut last = state.last.take().unwrap_or_else(|| Last::of(work));
            last.parameters.clear();
            parameters(call, &[table], &mut last.parameters);
            last.work = work;
            last.push(function, std::iter::empty(), writing)?;
            state.last = last.launch.set(call.launch).map(|()| last);
            return Ok(());
        };
        let structs = state.on_device(*self, phases.words)?;
        let rest = [table, structs, phases.count, state.counter(*self)?];
        writing.push(work, Some(&function.title), |to| parameters(call, &rest, to))
    }
}

/// What a call launches.
fn work(call: &Call<'_, CudaDevice>) -> Work {
    let Range { groups, group, .. } = call.range;
    let shape = Shape {
        grid: groups.map(|blocks| blocks as u32),
        block: group.unwrap_or([1; 3]).map(|threads| threads as u32),
        shared: call.added as u32,
        cooperative: call.phases.is_some_and(|phases| phases.count > 1),
    };
    Work::Kernel(call.function.driver.function, shape)
}

/// Adds the parameters of a call; `rest`: the words behind the struct of `FLASH_ARGS`.
fn parameters(call: &Call<'_, CudaDevice>, rest: &[CUdeviceptr], to: &mut Parameters) {
    for value in call.values() {
        match value {
            Value::Bytes(bytes) => to.bytes(bytes),
            Value::Buffer(buffer) => to.words(&[buffer.handle() + buffer.begin]),
        }
    }
    if !call.words.is_empty() {
        to.words(call.words);
        rest.iter().for_each(|&word| to.words(&[word]));
    }
}

/// The block size for a box, of at most `most` threads. First a warp along dimension 0, as far as that goes,
/// since neighbours there are adjacent in memory; then rows up to [`BUSY`] threads; then planes while there
/// is room, since a stencil has neighbours in them, too; then more along dimension 0 if these are still few.
fn block_of_box(extents: [u64; 3], most: u64) -> [u64; 3] {
    // Up to `room`, if there are that many items.
    let along = |d: usize, room: u64| extents[d].min(room).next_power_of_two().min(room);
    let warp = along(0, WARP.min(most));
    let rows = along(1, (most.min(BUSY) / warp).max(1));
    let planes = along(2, (most / (warp * rows)).min(PLANES));
    let more = (most.min(BUSY) / (warp * rows * planes)).max(1);
    [warp * more.min(extents[0].div_ceil(warp)), rows, planes]
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
                    assert!((1..=most).contains(&threads) && block[2] <= PLANES, "{block:?}");
                }
            }
        }
    }
}
