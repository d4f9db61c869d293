//! Kernel functions: their limits, and what launches of them read on the device.

use crate::device::CudaDevice;
use crate::failure::Call as _;
use crate::program::Module;
use crate::queue::{self, Parameters, Work, Writing};
use cudarc::driver::sys::{
    CUdeviceptr, CUfunction, CUfunction_attribute as Attribute, CUresult, cuFuncGetAttribute,
    cuFuncGetParamInfo, cuFuncSetAttribute, cuMemAllocAsync, cuMemFreeAsync, cuMemcpyDtoH_v2,
    cuMemcpyHtoDAsync_v2, cuMemsetD32Async, cuOccupancyMaxActiveBlocksPerMultiprocessor,
    cuOccupancyMaxPotentialBlockSize,
};
use flash_backend::Code;
use flash_backend::Failure;
use flash_backend::abi::QueueFn;
use flash_backend::offload::{FAULT_WORDS, GroupLimits, Kernel, KernelSpec, Signature, Tables};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// A kernel, for one device.
pub enum CudaKernel {
    /// Code for the device.
    Module(Box<Kernel<CudaDevice>>),
    /// A function of the host, which puts its work into the stream itself.
    Function(QueueFn),
}

/// A function of a module.
pub struct Function {
    pub(crate) function: queue::Function,
    /// The kernel's title, for errors.
    pub(crate) title: Arc<str>,
    /// The block size for the most resident threads, and in the upper half the dynamic shared memory that it
    /// is for. 0: it is not known yet.
    preferred: AtomicU64,
    state: Mutex<State>,
}

/// The part that changes from launch to launch. A launch that uses it holds it until it is recorded.
#[derive(Default)]
pub(crate) struct State {
    /// Bytes of dynamic shared memory that it may use.
    shared: u32,
    /// The resident blocks of a block size and an amount of shared memory.
    resident: Option<((u32, u32), u32)>,
    tables: Tables<CUdeviceptr>,
    pub(crate) last: Option<Last>,
    /// Counters of grid barriers, and how many of them are used.
    counters: Option<(CUdeviceptr, usize)>,
}

/// The last launch that one may repeat which differs in nothing but its scalars: its command.
pub(crate) struct Last {
    pub launch: Signature<false>,
    pub work: Work,
    /// With the address of its table, which is kept until `last` is forgotten.
    pub parameters: Parameters,
}

impl Last {
    pub fn of(work: Work) -> Last {
        Last { launch: Signature::default(), work, parameters: Parameters::default() }
    }

    /// Records it, with other values of scalars at the parameters with these numbers.
    pub fn push<'v>(
        &self,
        function: &Function,
        scalars: impl Iterator<Item = (usize, &'v [u8])>,
        writing: &mut Writing,
    ) -> Result<(), Failure> {
        writing.push(self.work, Some(&function.title), |to| to.append(&self.parameters, scalars))
    }
}

/// Counters zeroed together.
const COUNTERS: usize = 1024;

/// Bytes of shared memory that every block may have without an attribute: of its own, and added by a launch.
pub(crate) const SHARED: u32 = 48 << 10;

impl Function {
    /// The function of a kernel, whose parameters are right.
    pub(crate) fn new(
        device: CudaDevice,
        spec: &KernelSpec,
        module: &Module,
    ) -> Result<(Function, GroupLimits), Failure> {
        let _current = device.0.opened()?.context.enter()?;
        let function = module.function(spec)?;
        check_parameters(spec, function)?;
        let most = get(function, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let limits = GroupLimits {
            threads: most.clamp(1, device.0.found.limits.block).into(),
            compiled: None,
            bytes: get(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?.into(),
        };
        let (function, title) = (queue::Function(function), spec.title.as_str().into());
        Ok((Function { function, title, preferred: AtomicU64::new(0), state: Mutex::default() }, limits))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The block size, of at most `most` threads, with which the most threads are resident, for this much
    /// dynamic shared memory.
    pub(crate) fn preferred(&self, device: CudaDevice, most: u32, shared: u32) -> Result<u32, Failure> {
        let kept = self.preferred.load(Relaxed);
        if kept != 0 && (kept >> 32) as u32 == shared {
            return Ok(kept as u32);
        }
        let _current = device.0.opened()?.context.enter()?;
        let (mut least, mut preferred, function) = (0, 0, self.function.0);
        // SAFETY: local variables, and a function of the current context.
        unsafe {
            cuOccupancyMaxPotentialBlockSize(&mut least, &mut preferred, function, None, shared as usize, 0)
        }
        .call("cuOccupancyMaxPotentialBlockSize")?;
        let preferred = (preferred as u32).clamp(1, most);
        self.preferred.store(u64::from(shared) << 32 | u64::from(preferred), Relaxed);
        Ok(preferred)
    }

    /// The number of blocks of `block` threads that run at the same time.
    pub(crate) fn resident(&self, device: CudaDevice, block: u32, shared: u32) -> Result<u32, Failure> {
        let mut state = self.state();
        if let Some((of, resident)) = state.resident
            && of == (block, shared)
        {
            return Ok(resident);
        }
        let _current = device.0.opened()?.context.enter()?;
        let (mut blocks, function) = (0, self.function.0);
        // SAFETY: a local variable, and a function of the current context.
        unsafe {
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, block as i32, shared as usize)
        }
        .call("cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        let resident = blocks.max(1) as u32 * device.0.found.limits.multiprocessors;
        state.resident = Some(((block, shared), resident));
        Ok(resident)
    }

    /// Allows it this much dynamic shared memory, beside `fixed` bytes of its own.
    pub(crate) fn allow_shared(&self, device: CudaDevice, fixed: u32, bytes: u64) -> Result<(), Failure> {
        let most = u64::from(device.0.found.limits.shared_bytes.saturating_sub(fixed));
        if bytes > most {
            let text = format!(
                "{}: expected up to {most} bytes of shared memory, the limit of {} beside {fixed} of the kernel's own, found {bytes}",
                self.title, device.0.found.info.name
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        let (bytes, mut state) = (bytes as u32, self.state());
        if bytes > SHARED.saturating_sub(fixed).max(state.shared) {
            let _current = device.0.opened()?.context.enter()?;
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of the current context.
            unsafe { cuFuncSetAttribute(self.function.0, attribute, bytes as i32) }
                .call("cuFuncSetAttribute")?;
            state.shared = bytes;
        }
        Ok(())
    }
}

fn get(function: CUfunction, attribute: Attribute) -> Result<u32, Failure> {
    let mut value = 0;
    // SAFETY: a local variable, and a function that lives.
    unsafe { cuFuncGetAttribute(&mut value, attribute, function) }.call("cuFuncGetAttribute")?;
    Ok(value.max(0) as u32)
}

/// Compares a function's parameters with the definition's: the driver reads as many bytes as the function
/// has.
fn check_parameters(spec: &KernelSpec, function: CUfunction) -> Result<(), Failure> {
    let expected = parameter_sizes(spec);
    let mut found = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: local variables, and a function that lives.
        match unsafe { cuFuncGetParamInfo(function, found.len(), &mut offset, &mut size) } {
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
    /// The address of a table on the device; 0 if it is empty.
    pub fn on_device(&mut self, device: CudaDevice, words: &[u64]) -> Result<CUdeviceptr, Failure> {
        if words.is_empty() {
            return Ok(0);
        }
        if let Some(&table) = self.tables.get(words) {
            return Ok(table);
        }
        if let Some(oldest) = self.tables.make_room() {
            // It may have this table.
            self.last = None;
            free(device, oldest)?;
        }
        let table = new(device, words)?;
        self.tables.add(words, table);
        Ok(table)
    }

    /// A counter that is 0 when the next launch begins.
    pub fn counter(&mut self, device: CudaDevice) -> Result<CUdeviceptr, Failure> {
        if let Some((counters, used)) = &mut self.counters
            && *used < COUNTERS
        {
            *used += 1;
            return Ok(*counters + 4 * (*used as u64 - 1));
        }
        let opened = device.0.opened()?;
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

/// Words in new memory on the device.
pub(crate) fn new(device: CudaDevice, words: &[u64]) -> Result<CUdeviceptr, Failure> {
    let opened = device.0.opened()?;
    let _current = opened.context.enter()?;
    let (stream, bytes, mut buffer) = (opened.queue.stream().get(), size_of_val(words), 0);
    // SAFETY: a local variable, and a stream of the current context.
    unsafe { cuMemAllocAsync(&mut buffer, bytes, stream) }.call("cuMemAllocAsync")?;
    // SAFETY: both have `bytes` bytes; unpinned memory is read before the call returns.
    let copied = unsafe { cuMemcpyHtoDAsync_v2(buffer, words.as_ptr().cast(), bytes, stream) };
    copied.call("cuMemcpyHtoDAsync")?;
    Ok(buffer)
}

/// Frees words of [`new`], after the launches that read them.
pub(crate) fn free(device: CudaDevice, words: CUdeviceptr) -> Result<(), Failure> {
    let opened = device.0.opened()?;
    let current = opened.context.enter()?;
    // They must be in the stream before that.
    opened.queue.before_other_work(&current)?;
    // SAFETY: allocated by `new`, and not read by anything that comes later in the stream.
    unsafe { cuMemFreeAsync(words, opened.queue.stream().get()) }.call("cuMemFreeAsync")
}

/// Waits for all launches, and reads what one has written.
pub(crate) fn read(device: CudaDevice, from: CUdeviceptr) -> Result<[u64; FAULT_WORDS], Failure> {
    let opened = device.0.opened()?;
    let current = opened.context.enter()?;
    opened.queue.before_other_work(&current)?;
    opened.queue.stream().finish()?;
    let mut words = [0u64; FAULT_WORDS];
    // SAFETY: the launch's table has these words, and the launch has ended.
    unsafe { cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), from, size_of_val(&words)) }.call("cuMemcpyDtoH")?;
    Ok(words)
}
