//! The programs of the OpenCL implementations in plain `opencl3`, with no framework: a backend that builds
//! them, sets their parameters, and takes the time of enqueueing a kernel and waiting for it alone.
//! Accumulators in the host's memory are cleared before, and added up afterwards, in that time. Where the
//! device cannot use that memory it copies the arrays once; results stay there.

use super::last;
use super::sums::{Blocks, Sums};
use anyhow::Result;
use flash_backend::offload::{KernelSpec, LaunchWords, Parameter, Payload};
use flash_backend::{
    Backend, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, host_memory, physical_cpus,
};
use flash_backend::{Code, register_backend};
use flash_core::abi::{self, Arg};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_CPU, Device};
use opencl3::error_codes::ClError;
use opencl3::kernel::{Kernel, set_kernel_arg};
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, ClMem as _};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use std::ffi::c_void;
use std::sync::Mutex;

/// Work items of a work-group, where the kernel does not say.
const GROUP: usize = 256;

/// The backend.
struct ByHand;

// SAFETY: the kernels are enqueued once, in the call, over all rows of the one phase. On devices with a
// memory of their own the arrays of the host are only read: what should have been written keeps what it had.
unsafe impl Backend for ByHand {
    const KEY: &'static str = "BENCH_OPENCL";
    const DESCRIPTION: &'static str = "runs kernels in plain OpenCL, and takes the time";
    const TARGET: &'static str = "opencl";
    type Device = ByHandDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<ByHandDevice>, Unavailable> {
        let platforms = get_platforms().map_err(|error| Unavailable(format!("no OpenCL: {error}")))?;
        let ids = platforms.iter().flat_map(|p| p.get_devices(CL_DEVICE_TYPE_CPU).unwrap_or_default());
        let devices = ids.map(|id| ByHandDevice::open(Device::new(id)));
        devices.collect::<Result<_, ClError>>().map_err(|error| Unavailable(format!("no OpenCL: {error}")))
    }
}

register_backend!(ByHand);

/// A device, with all that a launch takes.
pub struct ByHandDevice {
    device: Device,
    context: Context,
    queue: CommandQueue,
    /// True if it uses the host's memory: both sides then have the very same arrays.
    in_place: bool,
    name: String,
}

impl ByHandDevice {
    fn open(device: Device) -> Result<ByHandDevice, ClError> {
        let context = Context::from_device(&device)?;
        // As the backend's: with times.
        #[allow(deprecated)]
        // SAFETY: the context is the device's.
        let queue = unsafe { CommandQueue::create(&context, device.id(), CL_QUEUE_PROFILING_ENABLE)? };
        let in_place = device.host_unified_memory()?;
        let name = device.name()?.trim().to_owned();
        Ok(ByHandDevice { device, context, queue, in_place, name })
    }
}

/// A kernel, and what its parameters were set to.
pub struct Prepared {
    spec: KernelSpec,
    /// Of a device that uses the host's memory.
    sums: Option<Sums>,
    parameters: Vec<Parameter>,
    multiple: usize,
    most: usize,
    units: usize,
    set: Mutex<Set>,
}

struct Set {
    kernel: Kernel,
    /// For simple launches.
    simple: Option<Kernel>,
    told: LaunchWords,
    is_simple: bool,
    /// Addresses and bytes of the arrays that the buffers were made of, and the table.
    arrays: Vec<(usize, usize)>,
    table: Vec<u64>,
    /// Of the arrays and the table.
    buffers: Vec<Buffer<u8>>,
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Invalid, format!("plain OpenCL: {error}"))
}

impl flash_backend::Device for ByHandDevice {
    type Kernel = Prepared;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            test: true,
            host_memory: true,
            name: self.name.clone(),
            vendor: "FLASH".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            physical_id: physical_cpus(),
            // The devices that are measured all are one, and get its implementations.
            features: "cpu".into(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Prepared, Failure> {
        let mut spec = KernelSpec::read(implementation)?;
        let Payload::Source(text) = spec.payload(implementation)? else {
            return Err(failure("expected a source, found a binary"));
        };
        let compile = |spec: &KernelSpec| {
            let source = spec.source(&text);
            let program = Program::create_and_build_from_source(&self.context, &source, &spec.build_options);
            Kernel::create(&program.map_err(failure)?, &spec.entry).map_err(failure)
        };
        let kernel = compile(&spec)?;
        let simple = spec.for_simple(true).as_ref().map(compile).transpose()?;
        let id = self.device.id();
        Ok(Prepared {
            sums: self.in_place.then(|| Sums::of(&spec.descriptor)).transpose()?,
            parameters: spec.parameters(),
            multiple: kernel.get_work_group_size_multiple(id).map_err(failure)?.max(1),
            most: kernel.get_work_group_size(id).map_err(failure)?,
            units: self.device.max_compute_units().map_err(failure)? as usize,
            set: Mutex::new(Set {
                kernel,
                simple,
                told: LaunchWords::default(),
                is_simple: false,
                arrays: Vec::new(),
                table: Vec::new(),
                buffers: Vec::new(),
            }),
            spec,
        })
    }

    fn submit(&self, launch: &Launch<'_, Prepared>) -> Result<Option<Event>, Failure> {
        let (kernel, args) = (launch.kernel(), launch.args());
        let mut set = kernel.set.lock().unwrap_or_else(|e| e.into_inner());
        kernel.spec.tell(launch.space(), 0, args, false, &mut set.told)?;
        set.told.as_grid();
        if let (Some(least), 0) = (kernel.spec.items_per_thread, set.told.block) {
            let run = set.told.items.div_ceil(4 * kernel.units as u64).next_multiple_of(least);
            set.told.in_runs(run);
        }
        set.is_simple = if kernel.spec.grid { set.told.grid.is_some() } else { set.told.consecutive };
        set.parameters(self, kernel, args).map_err(failure)?;
        let (items, block) = (set.told.items as usize, set.told.block as usize);
        let own = kernel.spec.work_group_size.map(|size| size as usize);
        let own = own.or(kernel.spec.items_per_thread.map(|_| 1));
        let (dimensions, global, local) = match (block, set.told.grid) {
            (0, Some(extents)) => {
                let [x, y, z] = extents.map(|extent| extent as usize);
                let share = items.div_ceil(kernel.units).next_multiple_of(16);
                let most = share.min(kernel.most.min(1024));
                let along = x.div_ceil(x.div_ceil(most)).next_multiple_of(16).min(most);
                let rows = (most / along).clamp(1, y);
                (3, [x.next_multiple_of(along), y.next_multiple_of(rows), z], [along, rows, 1])
            }
            (0, None) => {
                let most = GROUP.next_multiple_of(kernel.multiple).min(kernel.most);
                let share = items.div_ceil(kernel.units).next_multiple_of(kernel.multiple);
                let local = own.unwrap_or(share.min(most));
                (1, [(set.told.threads as usize).next_multiple_of(local), 1, 1], [local, 1, 1])
            }
            (block, _) => {
                let local = own.unwrap_or(1);
                (1, [local * items.div_ceil(block), 1, 1], [local, 1, 1])
            }
        };
        let run = || {
            // SAFETY: the parameters are set, and what they point to lives for the call, as do the sizes.
            let event = unsafe {
                self.queue.enqueue_nd_range_kernel(
                    set.kernel().get(),
                    dimensions,
                    std::ptr::null(),
                    global.as_ptr(),
                    local.as_ptr(),
                    &[],
                )
            };
            event?.wait()
        };
        let sums = kernel.sums.as_ref().map(|sums| sums.blocks(launch, set.told.items)).unwrap_or_default();
        let outcome = last::time(1, || {
            sums.iter().for_each(|sum| sum.clear(0));
            run()?;
            sums.iter().for_each(Blocks::add_up);
            Ok(())
        });
        // Adding them up once more gives the same.
        sums.iter().for_each(|sum| sum.clear(1));
        outcome.map_err(|error: ClError| failure(error)).map(|()| None)
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }
}

impl Set {
    /// The one that the backend has for such a launch.
    fn kernel(&self) -> &Kernel {
        self.simple.as_ref().filter(|_| self.is_simple).unwrap_or(&self.kernel)
    }

    /// Sets all parameters.
    fn parameters(&mut self, on: &ByHandDevice, kernel: &Prepared, args: &[Arg]) -> Result<(), ClError> {
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
        let mut table = self.told.table.clone();
        // A buffer has one byte at least.
        table.push(0);
        if self.arrays != arrays || self.table != table {
            self.buffers.clear();
            let of_table = (table.as_ptr() as usize, size_of_val(&table[..]));
            for (number, &(address, bytes)) in arrays.iter().chain([&of_table]).enumerate() {
                let shared = on.in_place && number < arrays.len();
                let from = if shared { CL_MEM_USE_HOST_PTR } else { CL_MEM_COPY_HOST_PTR };
                let (flags, address) = (CL_MEM_READ_WRITE | from, address as *mut c_void);
                // SAFETY: an array of the launch, or the table, which is copied, of that many bytes; commands
                // use the buffer only while there are such launches.
                self.buffers.push(unsafe { Buffer::<u8>::create(&on.context, flags, bytes, address)? });
            }
            (self.arrays, self.table) = (arrays, table);
        }
        let (mut array, mut number) = (0, 0);
        for parameter in &kernel.parameters {
            match *parameter {
                Parameter::Value(i) => {
                    let arg = &args[i];
                    self.set(number, arg.element_size as usize, arg.data)?;
                }
                Parameter::Array(_) | Parameter::Next(_) => {
                    let buffer = self.buffers[array].get();
                    self.set(number, size_of_val(&buffer), (&raw const buffer).cast())?;
                    array += 1;
                }
            }
            number += 1;
        }
        let (words, table) = (&self.told.words, self.buffers.last().expect("the table is there").get());
        self.set(number, size_of_val(&words[..]), words.as_ptr().cast())?;
        self.set(number + 1, size_of_val(&table), (&raw const table).cast())
    }

    /// Sets a parameter to a value of some bytes.
    fn set(&self, number: u32, bytes: usize, value: *const c_void) -> Result<(), ClError> {
        // SAFETY: a live kernel; the value has as many bytes, and they are copied.
        unsafe { set_kernel_arg(self.kernel().get(), number, bytes, value) }.map_err(ClError)
    }
}
