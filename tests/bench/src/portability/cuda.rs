//! The programs of the CUDA implementations in plain CUDA, with no framework: a backend that compiles them,
//! and takes the time of launching a kernel and waiting for it alone. It copies the arrays once; results stay
//! on the device.

use super::last;
use crate::driver::{Driver, Function, call};
use anyhow::Result;
use cudarc::driver::sys::{CUdeviceptr, cuDeviceGetCount, cuInit, cuMemFree_v2, cuMemcpyHtoD_v2};
use cudarc::driver::sys::{cuOccupancyMaxPotentialBlockSize, is_culib_present};
use flash_backend::offload::{KernelSpec, LaunchWords, Parameter, Payload, queue_function};
use flash_backend::{
    Backend, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, host_memory, physical_cpus,
};
use flash_backend::{Code, register_backend};
use flash_core::abi::{self, Arg};
use std::ffi::c_void;
use std::sync::Mutex;

/// The backend.
struct ByHand;

// SAFETY: the kernels are launched once, in the call, over all rows of the one phase. The arrays of the host
// are only read: what should have been written keeps what it had.
unsafe impl Backend for ByHand {
    const KEY: &'static str = "BENCH_CUDA";
    const DESCRIPTION: &'static str = "runs kernels in plain CUDA, and takes the time";
    const TARGET: &'static str = "cuda";
    type Device = ByHandDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<ByHandDevice>, Unavailable> {
        let devices = || -> Result<Vec<ByHandDevice>> {
            let mut count = 0;
            // SAFETY: the library is there, and a variable of ours.
            unsafe {
                call("cuInit", cuInit(0))?;
                call("cuDeviceGetCount", cuDeviceGetCount(&mut count))?;
            }
            (0..count).map(|ordinal| Ok(ByHandDevice { driver: Driver::new(ordinal)?, ordinal })).collect()
        };
        // SAFETY: the library is loaded and its constructors run, as for any use of CUDA.
        if !unsafe { is_culib_present() } {
            return Err(Unavailable("no CUDA: there is no libcuda.so.1".into()));
        }
        devices().map_err(|error| Unavailable(format!("no CUDA: {error}")))
    }
}

register_backend!(ByHand);

/// A device.
pub struct ByHandDevice {
    driver: Driver,
    ordinal: i32,
}

/// A kernel, and what its parameters were set to.
pub struct Prepared {
    spec: KernelSpec,
    parameters: Vec<Parameter>,
    function: Function,
    /// For boxes.
    grid: Option<Function>,
    /// Threads of a block with which most of them run at the same time.
    preferred: u64,
    set: Mutex<Set>,
}

/// Threads of a block of a box: a warp along its rows, and some rows.
const BLOCK: [u64; 2] = [32, 8];

#[derive(Default)]
struct Set {
    told: LaunchWords,
    /// Addresses and bytes of the arrays that are on the device, the table the last.
    arrays: Vec<(usize, usize)>,
    table: Vec<u64>,
    /// Where they are there.
    places: Vec<CUdeviceptr>,
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Invalid, format!("plain CUDA: {error}"))
}

impl flash_backend::Device for ByHandDevice {
    type Kernel = Prepared;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            test: true,
            host_memory: true,
            name: format!("NVIDIA_GPU:{}", self.ordinal),
            vendor: "FLASH".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            physical_id: physical_cpus(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Prepared, Failure> {
        // Of such there is no direct call; another implementation may do.
        let unsupported = |text: &str| Err(Failure::new(Code::Unsupported, format!("plain CUDA: {text}")));
        if queue_function(implementation).is_some() {
            return unsupported("expected a source, found a function, which calls a library");
        }
        let mut spec = KernelSpec::read(implementation)?;
        if !spec.cooperating || spec.grid_barrier {
            return unsupported("expected a kernel that cooperates, and is launched for one phase");
        }
        let Payload::Source(text) = spec.payload(implementation)? else {
            return unsupported("expected a source, found a binary");
        };
        self.driver.enter().map_err(failure)?;
        let compile = |spec: &KernelSpec| {
            let source = spec.source(&text);
            self.driver.compile(&source, "kernel.cu", &spec.entry, &spec.build_options).map_err(failure)
        };
        let function = compile(&spec)?;
        let grid = spec.for_grid().as_ref().map(compile).transpose()?;
        let (mut least, mut preferred) = (0, 0);
        // SAFETY: variables of ours, and a function of the current context.
        let asked =
            unsafe { cuOccupancyMaxPotentialBlockSize(&mut least, &mut preferred, function.0, None, 0, 0) };
        call("cuOccupancyMaxPotentialBlockSize", asked).map_err(failure)?;
        let (parameters, preferred) = (spec.parameters(), preferred.max(1) as u64);
        Ok(Prepared { parameters, function, grid, preferred, set: Mutex::default(), spec })
    }

    fn submit(&self, launch: &Launch<'_, Prepared>) -> Result<Option<Event>, Failure> {
        let (kernel, args) = (launch.kernel(), launch.args());
        let mut set = kernel.set.lock().unwrap_or_else(|e| e.into_inner());
        kernel.spec.tell(launch.space(), 0, args, false, &mut set.told)?;
        set.copy(&self.driver, kernel, args).map_err(failure)?;
        let Set { told, places, .. } = &mut *set;
        let line = |blocks: u64, threads: u64| ([blocks, 1, 1], [threads, 1, 1]);
        let (blocks, threads) = match (kernel.spec.work_group_size, told.block) {
            (_, 0) if let Some([x, y, z]) = told.grid => {
                told.as_grid();
                ([x.div_ceil(BLOCK[0]), y.div_ceil(BLOCK[1]), z], [BLOCK[0], BLOCK[1], 1])
            }
            (own, 0) => {
                let size = own.unwrap_or_else(|| kernel.block_for(told.threads, self.driver.multiprocessors));
                line(told.threads.div_ceil(size), size)
            }
            (own, rows) => line(told.items.div_ceil(rows), own.unwrap_or(1)),
        };
        let function = kernel.grid.filter(|_| told.grid.is_some()).unwrap_or(kernel.function);
        let [blocks, threads] = [blocks, threads].map(|of| of.map(|count| count as u32));
        // The driver reads what it takes as writable.
        let mut at = places.iter().map(|place| std::ptr::from_ref(place).cast_mut().cast::<c_void>());
        let mut parameters: Vec<*mut c_void> = Vec::new();
        for parameter in &kernel.parameters {
            parameters.push(match *parameter {
                Parameter::Value(i) => args[i].data.cast(),
                Parameter::Array(_) | Parameter::Next(_) => at.next().expect("every array is there"),
            });
        }
        parameters.push(told.words.as_ptr().cast_mut().cast());
        parameters.extend(at);
        let run = || {
            // SAFETY: all parameters, of the sizes that the definition has; the arrays are there in full.
            unsafe { self.driver.launch(function, blocks, threads, &mut parameters)? };
            self.driver.finish()
        };
        last::time(1, run).map_err(failure)?;
        Ok(None)
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }
}

impl Prepared {
    /// Threads of a block, where the kernel does not say: fewer if some multiprocessor would have nothing to
    /// do.
    fn block_for(&self, threads: u64, multiprocessors: u32) -> u64 {
        let mut block = self.preferred;
        while block >= 128
            && block.is_multiple_of(64)
            && threads.div_ceil(block) < 2 * u64::from(multiprocessors)
        {
            block /= 2;
        }
        let share = self.spec.threads_per_item;
        (block / share).max(1) * share
    }
}

impl Set {
    /// Copies the arrays and the table to the device, if they are other ones than those that are there.
    fn copy(&mut self, driver: &Driver, kernel: &Prepared, args: &[Arg]) -> Result<()> {
        let array = |parameter: &Parameter| match *parameter {
            Parameter::Value(_) => None,
            Parameter::Array(i) | Parameter::Next(i) => {
                let arg = &args[i];
                // One per block of rows.
                let accumulators = match arg.kind {
                    abi::ARG_REDUCE => self.told.items.div_ceil(arg.row_len),
                    _ => 1,
                };
                let bytes = arg.len * accumulators * u64::from(arg.element_size);
                Some((arg.data as usize, bytes as usize))
            }
        };
        let arrays: Vec<(usize, usize)> = kernel.parameters.iter().filter_map(array).collect();
        driver.enter()?;
        if self.arrays == arrays && self.table == self.told.table && !self.places.is_empty() {
            return Ok(());
        }
        for place in self.places.drain(..) {
            // SAFETY: allocated below, and no kernel uses it any more: all are waited for.
            call("cuMemFree", unsafe { cuMemFree_v2(place) })?;
        }
        self.table.clone_from(&self.told.table);
        let of_table = (self.table.as_ptr() as usize, size_of_val(&self.table[..]));
        for &(address, bytes) in arrays.iter().chain([&of_table]) {
            let place = driver.allocate(bytes)?;
            self.places.push(place);
            if bytes > 0 {
                // SAFETY: an array of the launch, or the table, of that many bytes, which are copied in the
                // call.
                call("cuMemcpyHtoD", unsafe { cuMemcpyHtoD_v2(place, address as *const c_void, bytes) })?;
            }
        }
        self.arrays = arrays;
        Ok(())
    }
}
