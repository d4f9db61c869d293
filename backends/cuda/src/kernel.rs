//! Kernels: implementations prepared for one device.

use crate::device::DeviceFacts;
use crate::failure::Call;
use crate::queue::Function;
use cudarc::driver::sys::{
    CUdeviceptr, CUfunction_attribute as Attribute, CUresult, cuFuncGetAttribute, cuFuncGetParamInfo,
    cuFuncSetAttribute, cuMemAllocAsync, cuMemFreeAsync, cuMemcpyDtoH_v2, cuMemcpyHtoDAsync_v2,
    cuMemsetD32Async, cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxPotentialBlockSize,
};
use flash_core::Code;
use flash_core::abi::{self, QueueFn};
use flash_core::backend::Failure;
use flash_core::backend::offload::{FAULT_WORDS, KernelSpec, LaunchWords, Parameter, Payload};
use std::sync::{Arc, Mutex, MutexGuard};

/// A kernel, for one device.
pub enum CudaKernel {
    /// Code for the device.
    Module(Box<ModuleKernel>),
    /// A function of the host, which puts its work into the stream itself.
    Function(QueueFn),
}

/// A kernel of a module.
pub struct ModuleKernel {
    pub(crate) spec: KernelSpec,
    pub(crate) title: Arc<str>,
    pub(crate) parameters: Vec<Parameter>,
    /// The text of a source that takes `FLASH_GRID`, for its other program.
    text: String,
    state: Mutex<State>,
}

/// The part that changes from launch to launch.
pub(crate) struct State {
    pub told: LaunchWords,
    /// The program with `FLASH_GRID`, if the kernel takes it: for boxes.
    pub grid: Option<Entry>,
    /// The program for every launch. If there is one for boxes, this one is compiled at its first use.
    line: Option<Entry>,
    /// The latest tables on the device, the most recently used at the end.
    tables: Vec<Table>,
    /// Counters of grid barriers, and how many of them are used.
    counters: Option<(CUdeviceptr, usize)>,
}

/// A function of a module, and its limits.
pub(crate) struct Entry {
    pub function: Function,
    /// Threads of a block, at most.
    pub most: u32,
    /// Bytes of static shared memory of every block.
    fixed: u32,
    /// Bytes of dynamic shared memory that it may use.
    shared: u32,
    /// The block size for the most resident threads, with the shared memory that is given first.
    preferred: Option<(u32, u32)>,
    /// The resident blocks of a block size and an amount of shared memory.
    resident: Option<((u32, u32), u32)>,
}

/// Words that launches read on the device.
struct Table {
    words: Vec<u64>,
    buffer: CUdeviceptr,
}

/// Tables kept per kernel: one per phase of a short cycle of phases.
const TABLES: usize = 8;

/// Counters zeroed together.
const COUNTERS: usize = 1024;

/// Bytes of shared memory that every block may have without an attribute: of its own, and added by a launch.
const SHARED: u32 = 48 << 10;

/// Endings of files that CUDA takes.
const FILES: [&str; 6] = ["cu", "cuh", "c", "ptx", "cubin", "fatbin"];

/// Of those, programs that need no compiler of CUDA C++.
const BINARIES: [&str; 3] = ["ptx", "cubin", "fatbin"];

impl ModuleKernel {
    pub(crate) fn new(
        known: &'static DeviceFacts,
        implementation: &'static abi::Implementation,
    ) -> Result<ModuleKernel, Failure> {
        let (spec, payload) = read(known, implementation)?;
        spec.check_parameter_bytes(known.found.limits.parameter_bytes, &known.found.info.name)?;
        let (mut grid, mut line, mut text) = (None, None, String::new());
        match (payload, spec.for_grid()) {
            (Payload::Source(source), Some(spec)) => {
                text.clone_from(&source);
                grid = Some(Entry::new(known, &spec, Payload::Source(source))?);
            }
            (payload, _) => line = Some(Entry::new(known, &spec, payload)?),
        }
        let state = State { told: LaunchWords::default(), grid, line, tables: Vec::new(), counters: None };
        Ok(ModuleKernel {
            title: spec.title.as_str().into(),
            parameters: spec.parameters(),
            text,
            state: Mutex::new(state),
            spec,
        })
    }

    /// Loads an implementation's module, if that needs no compiler.
    pub(crate) fn preload(
        known: &'static DeviceFacts,
        implementation: &abi::Implementation,
    ) -> Result<(), Failure> {
        let (spec, payload) = read(known, implementation)?;
        known.programs.preload(known, &spec.for_grid().unwrap_or(spec), payload)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Entry {
    fn new(known: &'static DeviceFacts, spec: &KernelSpec, payload: Payload) -> Result<Entry, Failure> {
        let module = known.programs.get(known, spec, payload)?;
        let _current = known.opened()?.context.enter()?;
        let function = module.function(spec)?;
        check_parameters(spec, function)?;
        let most = get(function, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let most = most.clamp(1, known.found.limits.block);
        let fixed = get(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        spec.check_local_bytes(u64::from(fixed), 0, u64::from(SHARED), &known.found.info.name)?;
        Ok(Entry { function, most, fixed, shared: 0, preferred: None, resident: None })
    }

    /// The block size with which the most threads are resident, for this much dynamic shared memory.
    pub fn preferred(&mut self, known: &'static DeviceFacts, shared: u32) -> Result<u32, Failure> {
        if let Some((of, preferred)) = self.preferred
            && of == shared
        {
            return Ok(preferred);
        }
        let _current = known.opened()?.context.enter()?;
        let (mut least, mut preferred, function) = (0, 0, self.function.0);
        // SAFETY: local variables, and a function of the current context.
        unsafe {
            cuOccupancyMaxPotentialBlockSize(&mut least, &mut preferred, function, None, shared as usize, 0)
        }
        .call("cuOccupancyMaxPotentialBlockSize")?;
        let preferred = (preferred as u32).clamp(1, self.most);
        self.preferred = Some((shared, preferred));
        Ok(preferred)
    }

    /// The number of blocks of `block` threads that run at the same time.
    pub fn resident(&mut self, known: &'static DeviceFacts, block: u32, shared: u32) -> Result<u32, Failure> {
        if let Some((of, resident)) = self.resident
            && of == (block, shared)
        {
            return Ok(resident);
        }
        let _current = known.opened()?.context.enter()?;
        let (mut blocks, function) = (0, self.function.0);
        // SAFETY: a local variable, and a function of the current context.
        unsafe {
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, block as i32, shared as usize)
        }
        .call("cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        let resident = blocks.max(1) as u32 * known.found.limits.multiprocessors;
        self.resident = Some(((block, shared), resident));
        Ok(resident)
    }

    /// Allows it this much dynamic shared memory.
    pub fn allow_shared(
        &mut self,
        known: &'static DeviceFacts,
        title: &str,
        bytes: u64,
    ) -> Result<u32, Failure> {
        let most = u64::from(known.found.limits.shared_bytes.saturating_sub(self.fixed));
        if bytes > most {
            let text = format!(
                "{title}: expected up to {most} bytes of shared memory, the limit of {} beside {} of the kernel's own, found {bytes}",
                known.found.info.name, self.fixed
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        let bytes = bytes as u32;
        if bytes > SHARED.saturating_sub(self.fixed).max(self.shared) {
            let _current = known.opened()?.context.enter()?;
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of the current context.
            unsafe { cuFuncSetAttribute(self.function.0, attribute, bytes as i32) }
                .call("cuFuncSetAttribute")?;
            self.shared = bytes;
        }
        Ok(bytes)
    }
}

/// Reads an implementation's attributes and code, if it is for this device.
fn read(known: &DeviceFacts, implementation: &abi::Implementation) -> Result<(KernelSpec, Payload), Failure> {
    let mut spec = KernelSpec::read(implementation)?;
    let file = spec.file_of(implementation, &FILES)?;
    let (major, minor) = known.found.limits.capability;
    for wanted in &spec.requires {
        // `sm_90`: that architecture, or a later one.
        let number = wanted.strip_prefix("sm_").and_then(|digits| digits.parse::<u32>().ok());
        if number.is_none_or(|number| number > 10 * major + minor) {
            let info = &known.found.info;
            let text = format!(
                "{}: expected a device with {wanted}, found {} with {}",
                spec.title, info.name, info.features
            );
            return Err(Failure::new(Code::Unsupported, text));
        }
    }
    spec.with_checks(known.found.check_bounds);
    let payload = match file {
        // PTX is text, too.
        Some((_, ending)) if BINARIES.contains(&ending.as_str()) => {
            spec.payload(&abi::Implementation { kind: abi::KIND_EXT_BIN, ..*implementation })?
        }
        _ => spec.payload(implementation)?,
    };
    spec.limit_grid(known.found.limits.parameter_bytes);
    Ok((spec, payload))
}

fn get(function: Function, attribute: Attribute) -> Result<u32, Failure> {
    let mut value = 0;
    // SAFETY: a local variable, and a function that lives.
    unsafe { cuFuncGetAttribute(&mut value, attribute, function.0) }.call("cuFuncGetAttribute")?;
    Ok(value.max(0) as u32)
}

/// Compares a function's parameters with the definition's: the driver reads as many bytes as the function
/// has.
fn check_parameters(spec: &KernelSpec, function: Function) -> Result<(), Failure> {
    let expected = parameter_sizes(spec);
    let mut found = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: local variables, and a function that lives.
        match unsafe { cuFuncGetParamInfo(function.0, found.len(), &mut offset, &mut size) } {
            CUresult::CUDA_SUCCESS => found.push(size),
            // There are no more parameters.
            _ => break,
        }
    }
    if found.len() != expected.len() {
        return Err(spec.wrong_count(found.len()));
    }
    let differs = expected.iter().zip(&found).position(|(expected, found)| expected != found);
    let Some(number) = differs else { return Ok(()) };
    let [expected, found] = [expected[number], found[number]].map(|bytes| format!("{bytes} bytes"));
    Err(spec.wrong_parameter(number, &expected, &found))
}

/// Bytes of every parameter, including those of a kernel with several phases.
fn parameter_sizes(spec: &KernelSpec) -> Vec<usize> {
    let mut sizes = spec.parameter_sizes();
    if spec.grid_barrier {
        // FLASH_ARGS holds the phases, their number, and the barrier's counter.
        sizes.extend([8; 3]);
    }
    sizes
}

impl State {
    /// The program for every launch.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn line(
        &mut self,
        known: &'static DeviceFacts,
        kernel: &ModuleKernel,
    ) -> Result<&mut Entry, Failure> {
        let line = &mut self.line;
        match line {
            Some(entry) => Ok(entry),
            None => {
                let text = Payload::Source(kernel.text.clone());
                Ok(line.insert(Entry::new(known, &kernel.spec, text)?))
            }
        }
    }

    /// Words on the device; 0 if there are none.
    pub fn on_device(&mut self, known: &'static DeviceFacts, words: &[u64]) -> Result<CUdeviceptr, Failure> {
        if words.is_empty() {
            return Ok(0);
        }
        if let Some(at) = self.tables.iter().position(|table| table.words == words) {
            let table = self.tables.remove(at);
            let buffer = table.buffer;
            self.tables.push(table);
            return Ok(buffer);
        }
        let opened = known.opened()?;
        let current = opened.context.enter()?;
        let stream = opened.queue.stream().get();
        if self.tables.len() == TABLES {
            // It is freed after the launches that read it, which must be in the stream before that.
            opened.queue.before_other_work(&current)?;
            let oldest = self.tables.remove(0);
            // SAFETY: allocated below, and not read by anything that comes later in the stream.
            unsafe { cuMemFreeAsync(oldest.buffer, stream) }.call("cuMemFreeAsync")?;
        }
        let bytes = size_of_val(words);
        let mut buffer = 0;
        // SAFETY: a local variable, and a stream of the current context.
        unsafe { cuMemAllocAsync(&mut buffer, bytes, stream) }.call("cuMemAllocAsync")?;
        // SAFETY: both have `bytes` bytes; unpinned memory is read before the call returns.
        let copied = unsafe { cuMemcpyHtoDAsync_v2(buffer, words.as_ptr().cast(), bytes, stream) };
        copied.call("cuMemcpyHtoDAsync")?;
        self.tables.push(Table { words: words.to_vec(), buffer });
        Ok(buffer)
    }

    /// Waits for a launch with checked indices, and reads from its table whether one was outside.
    pub fn check_fault(
        &mut self,
        known: &'static DeviceFacts,
        spec: &KernelSpec,
        table: CUdeviceptr,
    ) -> Result<(), Failure> {
        let opened = known.opened()?;
        let current = opened.context.enter()?;
        let stream = opened.queue.stream();
        opened.queue.before_other_work(&current)?;
        stream.finish()?;
        let (mut words, fault) = ([0u64; FAULT_WORDS], table + 8 * spec.fault_at() as u64);
        let bytes = size_of_val(&words);
        // SAFETY: the table has these words, and the launch that wrote to them has ended.
        unsafe { cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), fault, bytes) }.call("cuMemcpyDtoH")?;
        // The next launch may get the same table.
        // SAFETY: as above.
        unsafe { cuMemsetD32Async(fault, 0, bytes / 4, stream.get()) }.call("cuMemsetD32Async")?;
        spec.check_fault(&words)
    }

    /// A counter that is 0 when the next launch begins.
    pub fn counter(&mut self, known: &'static DeviceFacts) -> Result<CUdeviceptr, Failure> {
        if let Some((counters, used)) = &mut self.counters
            && *used < COUNTERS
        {
            *used += 1;
            return Ok(*counters + 4 * (*used as u64 - 1));
        }
        let opened = known.opened()?;
        let current = opened.context.enter()?;
        let stream = opened.queue.stream().get();
        // They are zeroed after the launches that count with them.
        opened.queue.before_other_work(&current)?;
        let mut counters = self.counters.map_or(0, |(counters, _)| counters);
        if counters == 0 {
            // SAFETY: a local variable, and a stream of the current context.
            unsafe { cuMemAllocAsync(&mut counters, 4 * COUNTERS, stream) }.call("cuMemAllocAsync")?;
        }
        // SAFETY: the buffer has room for that many.
        unsafe { cuMemsetD32Async(counters, 0, COUNTERS, stream) }.call("cuMemsetD32Async")?;
        self.counters = Some((counters, 1));
        Ok(counters)
    }
}
