//! The backends and their devices.
//!
//! Both backends have the same type of device; `discover` sorts FPGAs from the others. A device is found
//! without a context. Context, queues and buffers are made when it is first used
//! ([`OpenClDevice::opened`]), and stay. One that works in the host's memory (`in_place`) gets arrays
//! where they are. It is checked when it is opened that it and the host see each other's writes. All
//! others have buffers of OpenCL, and copies.
//!
//! Any thread may call a device. It has no lock itself: programs, the queue of kernels and buffers have
//! theirs.

use crate::buffers::Buffers;
use crate::counted;
use crate::discover::{self, Found};
use crate::event::{self, enqueue_barrier};
use crate::failure::Call;
use crate::places::{Place, Places, over};
use crate::queue::{self, Queue};
use flash_backend::Code;
use flash_backend::abi;
use flash_backend::host_memory;
use flash_backend::offload::{ArgBuffer, Kernel, Once, ProgramCache, Programs};
use flash_backend::{
    Backend, Class, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, Upcoming,
};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue, retain_command_queue};
use opencl3::context::Context;
use std::ffi::c_void;
use std::sync::Arc;

/// Every OpenCL device except FPGAs.
pub struct OpenCl;

// SAFETY: `launch` enqueues every row of every phase once, the phases one after the other in one in-order
// queue, whose events fire after the commands; kernels get the buffers of their arguments and no others.
unsafe impl Backend for OpenCl {
    const KEY: &'static str = "OPENCL";
    const DESCRIPTION: &'static str = "OpenCL devices";
    const TARGET: &'static str = "opencl";
    const KEEPS_HOST: bool = true;
    type Device = OpenClDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<OpenClDevice>, Unavailable> {
        discover::devices(false, settings)
    }
}

/// FPGAs, and their emulator.
pub struct IntelFpga;

// SAFETY: as `OpenCl`.
unsafe impl Backend for IntelFpga {
    const KEY: &'static str = "INTEL_FPGA";
    const DESCRIPTION: &'static str = "FPGAs through OpenCL";
    const TARGET: &'static str = "opencl";
    const KEEPS_HOST: bool = true;
    type Device = OpenClDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<OpenClDevice>, Unavailable> {
        discover::devices(true, settings)
    }
}

/// A device.
pub struct OpenClDevice {
    /// Its memory space.
    pub(crate) space: u32,
    pub(crate) found: Found,
    pub(crate) programs: Programs<OpenClDevice>,
    opened: Once<Opened>,
    /// Host buffers of a device that works in the host's memory.
    host: host_memory::HostBuffers,
}

/// Created when the device is first used.
pub(crate) struct Opened {
    pub context: Context,
    pub kernels: Arc<Queue>,
    pub buffers: Arc<Buffers>,
}

impl OpenClDevice {
    pub(crate) fn new(space: u32, found: Found, cache: ProgramCache) -> OpenClDevice {
        let space = if found.limits.in_place { abi::SPACE_HOST } else { space };
        let host = host_memory::HostBuffers::of_space(space);
        OpenClDevice { space, found, programs: Programs::new(cache), opened: Once::default(), host }
    }

    /// Context and queues.
    pub(crate) fn opened(&self) -> Result<&Opened, Failure> {
        self.opened.get_or_make(|| self.open())
    }

    fn open(&self) -> Result<Opened, Failure> {
        let device = &self.found.device;
        #[cfg(target_os = "linux")]
        crate::svml::load(&self.found.platform);
        let context = Context::from_device(device).call("clCreateContext")?;
        // Deprecated since OpenCL 2.0, but the only way that all versions have.
        #[allow(deprecated)]
        let queue = || {
            // SAFETY: the context is of this device.
            unsafe { CommandQueue::create(&context, device.id(), CL_QUEUE_PROFILING_ENABLE) }
                .call("clCreateCommandQueue")
        };
        let kernels = queue()?;
        let copies = match self.is_cpu() {
            // It gains nothing by copies beside kernels, and one queue needs no events in between.
            true => {
                // SAFETY: a live queue, which is released once more than it would be.
                unsafe { retain_command_queue(kernels.get()) }.call("clRetainCommandQueue")?;
                CommandQueue::new(kernels.get(), 0)
            }
            false => queue()?,
        };
        let buffers = Buffers::new(copies, &self.found.limits);
        if self.in_place() {
            check_in_place(&self.found.info.name, &context, &buffers)?;
        }
        Ok(Opened { context, kernels: Queue::new(kernels, self.found.info.class == Class::Fpga), buffers })
    }

    /// True if it is the CPU, also as an emulator.
    pub(crate) fn is_cpu(&self) -> bool {
        self.found.info.class == Class::Cpu || self.found.info.emulated
    }

    /// True if it works in the host's memory.
    pub(crate) fn in_place(&self) -> bool {
        self.found.limits.in_place
    }

    /// A lookup of the places of arguments, for a launch that is about to be enqueued.
    pub(crate) fn places<'d>(&self, opened: &'d Opened) -> Places<'d> {
        match self.in_place() {
            true => Places::Host(&opened.context, &opened.buffers),
            false => Places::Device(&opened.buffers, Vec::new()),
        }
    }

    /// The place of a buffer in a launch of `items` items.
    pub(crate) fn place(&self, buffer: ArgBuffer<'_>, items: u64) -> Place {
        match self.in_place() {
            true => Place::host(buffer.address().expose_provenance(), buffer.arg, items),
            false => Place::device(buffer.handle() as usize, buffer.begin as usize),
        }
    }

    fn check_space(&self, space: u32) -> Result<(), Failure> {
        if space == self.space {
            return Ok(());
        }
        Err(Failure::new(
            Code::Invalid,
            format!("memory space {space}: there is only space {}, the device's", self.space),
        ))
    }
}

/// Checks that a device's commands and the host see each other's writes in a buffer over host memory,
/// wherever it begins. OpenCL lets a device have a copy; devices that work in place must not.
fn check_in_place(name: &str, context: &Context, buffers: &Buffers) -> Result<(), Failure> {
    let mut words = [1u32; 16];
    let bytes = size_of_val(&words[1..]);
    let address = words[1..].as_mut_ptr().expose_provenance();
    let buffer = over(context, address, bytes)?;
    buffers.fill(buffer.get(), 2, bytes)?;
    // SAFETY: words of this function; the device no longer uses them.
    let seen = unsafe { std::ptr::with_exposed_provenance::<u32>(address + 4).read_volatile() };
    // SAFETY: as above.
    unsafe { std::ptr::with_exposed_provenance_mut::<u32>(address + 8).write_volatile(3) };
    let mut found = [0u32; 15];
    buffers.read(buffer.get(), &mut found)?;
    if seen == 0x0202_0202 && found[1..3] == [seen, 3] {
        return Ok(());
    }
    Err(Failure::new(
        Code::Unsupported,
        format!(
            "{name}: expected a device that works in the host's memory, as it says it does, found one that works in a copy: set FLASH_OPENCL_COPY=1, and data are copied for it"
        ),
    ))
}

impl Device for OpenClDevice {
    type Kernel = Kernel<OpenClDevice>;

    fn info(&self) -> DeviceInfo {
        self.found.info.clone()
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Kernel<OpenClDevice>, Failure> {
        Kernel::new(self, implementation)
    }

    fn preload(&self, implementation: &'static abi::Implementation) {
        // An error here recurs when it is prepared, and is reported then.
        let _ = Kernel::preload(self, implementation);
    }

    /// The image of an FPGA is a program.
    fn image(&self, kernel: &Kernel<OpenClDevice>) -> u64 {
        if self.found.info.class == Class::Fpga { kernel.program_number() } else { 0 }
    }

    fn forget_host(&self, pointer: *mut u8, bytes: u64) {
        // A device that was not opened has none.
        if let Some(opened) = self.opened.get() {
            opened.kernels.forget(pointer.addr()..pointer.addr().saturating_add(bytes as usize));
        }
    }

    fn submit(&self, launch: &Launch<'_, Kernel<OpenClDevice>>) -> Result<Option<Event>, Failure> {
        launch.kernel().submit(self, launch)
    }

    fn run_after(&self, event: &Event, next: Upcoming) -> Result<bool, Failure> {
        let launch = event.completion::<queue::Done>().map(queue::Done::last);
        let Some(last) = launch.or_else(|| event.completion::<event::Done>().map(|copy| &copy.command))
        else {
            // A copy by a thread.
            return Ok(false);
        };
        let opened = self.opened()?;
        let queue = match next {
            Upcoming::Launch => opened.kernels.raw(),
            Upcoming::Copy { .. } => opened.buffers.queue().get(),
        };
        if last.command_queue().is_ok_and(|of| of == queue) {
            return Ok(true);
        }
        // A driver may hold commands back until their own queue is flushed.
        last.flush();
        let barrier = match next {
            Upcoming::Launch => opened.kernels.wait_for(last),
            Upcoming::Copy { .. } => enqueue_barrier(queue, last),
        };
        // A driver need not take an event of another context.
        Ok(barrier.is_ok())
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![abi::MemorySpace {
            struct_size: size_of::<abi::MemorySpace>() as u32,
            id: self.space,
            kind: 0,
            numa_node: -1,
            size: self.found.info.memory_bytes,
            host_visible: u32::from(self.in_place()),
            // OpenCL's buffers are aligned for its largest type.
            alignment: if self.in_place() { 64 } else { 128 },
        }]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        if self.in_place() {
            return self.host.alloc(space, bytes);
        }
        self.check_space(space)?;
        let opened = self.opened()?;
        let buffer = opened.buffers.alloc(&opened.context, bytes)?;
        Ok(abi::Buffer { space, reserved: 0, handle: buffer as usize as u64 })
    }

    unsafe fn clear(&self, buffer: abi::Buffer, bytes: u64) -> Result<(), Failure> {
        if self.in_place() {
            // SAFETY: the caller vouches.
            return unsafe { self.host.clear(buffer) };
        }
        self.check_space(buffer.space)?;
        self.opened()?.buffers.clear(buffer.handle, bytes)
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        if self.in_place() {
            let bytes = self.host.bytes(buffer);
            self.forget_host(std::ptr::without_provenance_mut(buffer.handle as usize), bytes);
            return self.host.free(buffer);
        }
        self.check_space(buffer.space)?;
        self.opened()?.buffers.free(buffer.handle)
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        // SAFETY: the caller vouches for the boxes, until this returns.
        match unsafe { self.begin_copy(from, to, shape)? } {
            Some(copy) => copy.wait(),
            None => Ok(()),
        }
    }

    unsafe fn begin_copy(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<Option<Event>, Failure> {
        if self.in_place() {
            // SAFETY: the caller vouches for the boxes.
            return unsafe { host_memory::copy_box(from, to, shape) }.map(|()| None);
        }
        if self.can_copy(from.space, to.space).is_none() {
            return Err(Failure::new(
                Code::Invalid,
                format!(
                    "a copy from memory space {} to {}: this device copies between {}, its own, and 0, the host's",
                    from.space, to.space, self.space
                ),
            ));
        }
        let Opened { context, buffers, .. } = self.opened()?;
        // SAFETY: the caller vouches for the boxes, until the copy is complete.
        unsafe { buffers.copy_box(context, from, to, shape) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        let known = |space| space == self.space || space == abi::SPACE_HOST;
        let inside = known(from) && known(to) && (from == self.space || to == self.space);
        inside.then_some(10e9)
    }

    /// `queue`: that of kernels, `context` and `device`. The backend keeps the ownership.
    fn native_handle(&self, kind: &str, _: Option<abi::Buffer>) -> Result<u64, Failure> {
        let opened = self.opened()?;
        let handle = |object: *mut c_void| Ok(object.expose_provenance() as u64);
        match kind {
            "queue" => handle(opened.kernels.raw()),
            "context" => handle(opened.context.get()),
            "device" => handle(self.found.device.id()),
            _ => {
                let text = format!(
                    "a native handle of kind `{kind}`: this device has `queue`, `context` and `device`"
                );
                Err(Failure::new(Code::Unsupported, text))
            }
        }
    }

    /// `platform`, `extensions`, `driver`, `limits`; `buffers`: the number of the runtime's buffers; and
    /// `objects`: the numbers of OpenCL objects that this process has made and released.
    fn query(&self, key: &str) -> Option<String> {
        let json = |text: &str| Some(serde_json::Value::from(text).to_string());
        match key {
            "platform" => json(&self.found.platform),
            "extensions" => json(&self.found.extensions),
            "driver" => json(&self.found.driver),
            "limits" => serde_json::to_string(&self.found.limits).ok(),
            "objects" => Some(counted::report()),
            "buffers" => Some(self.opened().map_or(0, |opened| opened.buffers.count()).to_string()),
            _ => None,
        }
    }
}
