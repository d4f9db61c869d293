//! The backend and its devices.

use crate::buffers::Buffers;
use crate::context::{Context, Stream};
use crate::copies::{Copied, Copies, Ends};
use crate::discover::{self, Found};
use crate::kernel::CudaKernel;
use crate::queue::{Done, Queue};
use cudarc::driver::sys::cuDeviceCanAccessPeer;
use flash_backend::Code;
use flash_backend::abi::{self, Buffer, CopyBox, QueueFn, SPACE_HOST};
use flash_backend::offload::{Kernel, Once, ProgramCache, Programs, call_queue_function, queue_function};
use flash_backend::{
    Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, Upcoming,
};
use std::sync::OnceLock;

/// Every NVIDIA GPU.
pub struct NvidiaGpu;

// SAFETY: `launch` puts every row of every phase once into one stream, the phases one after the other; its
// events fire after all of it; kernels get the buffers of their arguments and no others.
unsafe impl Backend for NvidiaGpu {
    const KEY: &'static str = "NVIDIA_GPU";
    const DESCRIPTION: &'static str = "NVIDIA GPUs through CUDA";
    const TARGET: &'static str = "cuda";
    type Device = CudaDevice;

    fn probe(settings: &HostSettings<'_>) -> Result<Vec<CudaDevice>, Unavailable> {
        discover::devices(settings)
    }
}

/// A device. There is one for each GPU, for ever.
#[derive(Clone, Copy)]
pub struct CudaDevice(pub(crate) &'static DeviceFacts);

/// A device's limits, its programs, and what its first use opens.
pub(crate) struct DeviceFacts {
    pub found: Found,
    pub programs: Programs<CudaDevice>,
    opened: Once<Opened>,
}

/// Created when the device is first used.
pub(crate) struct Opened {
    pub context: Context,
    pub queue: Queue,
    pub copies: Copies,
    pub buffers: Buffers,
}

/// All devices of the process, so that one can find the source of a copy between two of them.
static DEVICES: OnceLock<Vec<CudaDevice>> = OnceLock::new();

impl CudaDevice {
    pub(crate) fn new(found: Found, cache: ProgramCache) -> CudaDevice {
        let known = DeviceFacts { found, programs: Programs::new(cache), opened: Once::default() };
        CudaDevice(Box::leak(Box::new(known)))
    }

    /// Registers the devices, so that each finds the others.
    pub(crate) fn introduce(devices: &[CudaDevice]) {
        let _ = DEVICES.set(devices.to_vec());
    }

    /// Number of its memory space: 0 is the host's.
    pub(crate) fn space(self) -> u32 {
        1 + self.0.found.ordinal as u32
    }

    /// The device of a memory space.
    fn of_space(space: u32) -> Option<CudaDevice> {
        DEVICES.get()?.iter().copied().find(|device| device.space() == space)
    }

    /// Calls a function of the host, which puts its work into the stream, once per phase.
    fn call(&self, function: QueueFn, launch: &Launch<'_, CudaKernel>) -> Result<Option<Event>, Failure> {
        let opened = self.0.opened()?;
        if let Some((key, ..)) = launch.attributes().find(|(.., required)| *required) {
            let text =
                format!("the option `{key}` is marked as required, and a function of the host's knows none");
            return Err(Failure::new(Code::Unsupported, text));
        }
        let done = opened.queue.other(launch.profiled(), || {
            launch.phases().try_for_each(|phase| call_queue_function(self, function, launch, phase))
        })?;
        Ok(Some(Event::new(done)))
    }

    fn check_space(self, space: u32) -> Result<(), Failure> {
        if space == self.space() {
            return Ok(());
        }
        let own = self.space();
        let text = format!("memory space {space}: there is only space {own}, the device's");
        Err(Failure::new(Code::Invalid, text))
    }
}

impl DeviceFacts {
    /// Context, streams, memory.
    pub fn opened(&'static self) -> Result<&'static Opened, Failure> {
        self.opened.get_or_make(|| self.open())
    }

    fn open(&self) -> Result<Opened, Failure> {
        let context = Context::retain(self.found.device)?;
        let current = context.enter()?;
        let (stream, copies) = (Stream::new(&current)?, Copies::new(&current, context)?);
        let peers = self.peers().map(|peer| peer.found.ordinal);
        let buffers = Buffers::new(&current, context, self.found.ordinal, peers)?;
        Ok(Opened { context, queue: Queue::new(context, stream), copies, buffers })
    }

    /// The devices that reach this one's memory.
    fn peers(&self) -> impl Iterator<Item = &'static DeviceFacts> {
        let own = self.found.device;
        DEVICES.get().into_iter().flatten().map(|device| device.0).filter(move |peer| {
            let mut can = 0;
            // SAFETY: devices that the driver gave, and a local variable.
            peer.found.device != own
                && unsafe { cuDeviceCanAccessPeer(&mut can, peer.found.device, own) }
                    == cudarc::driver::sys::CUresult::CUDA_SUCCESS
                && can != 0
        })
    }
}

impl Device for CudaDevice {
    type Kernel = CudaKernel;

    fn run_after(&self, event: &Event, next: Upcoming) -> Result<bool, Failure> {
        let opened = self.0.opened()?;
        let current = opened.context.enter()?;
        let copies = match next {
            Upcoming::Launch => None,
            Upcoming::Copy { to, .. } => Some(opened.copies.stream(to == SPACE_HOST)),
        };
        match (copies, event.completion::<Done>(), event.completion::<Copied>()) {
            (Some(stream), Some(launch), _) => launch.before(&current, stream),
            (Some(stream), _, Some(copy)) => copy.event.before(&current, stream).map(|()| true),
            (None, _, Some(copy)) => opened.queue.wait_for(&current, &copy.event).map(|()| true),
            // Launches are in one stream, unless it is another device's; or a thread copies.
            (None, _, None) | (_, None, None) => Ok(false),
        }
    }

    fn info(&self) -> DeviceInfo {
        self.0.found.info.clone()
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<CudaKernel, Failure> {
        match queue_function(implementation) {
            Some(function) => Ok(CudaKernel::Function(function)),
            None => Kernel::new(self, implementation).map(|kernel| CudaKernel::Module(kernel.into())),
        }
    }

    fn preload(&self, implementation: &'static abi::Implementation) {
        // An error here recurs when it is prepared, and is reported then.
        if queue_function(implementation).is_none() {
            let _ = Kernel::preload(self, implementation);
        }
    }

    fn submit(&self, launch: &Launch<'_, CudaKernel>) -> Result<Option<Event>, Failure> {
        match launch.kernel() {
            CudaKernel::Module(kernel) => kernel.submit(self, launch),
            CudaKernel::Function(function) => self.call(*function, launch),
        }
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![abi::MemorySpace {
            struct_size: size_of::<abi::MemorySpace>() as u32,
            id: self.space(),
            kind: 0,
            numa_node: -1,
            size: self.0.found.info.memory_bytes,
            host_visible: 0,
            alignment: 256,
        }]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        self.check_space(space)?;
        let opened = self.0.opened()?;
        let handle = opened.buffers.alloc(opened.copies.up.stream, opened.queue.stream(), bytes)?;
        Ok(Buffer { space, reserved: 0, handle })
    }

    unsafe fn clear(&self, buffer: Buffer, bytes: u64) -> Result<(), Failure> {
        self.check_space(buffer.space)?;
        let opened = self.0.opened()?;
        // SAFETY: the caller vouches.
        unsafe { opened.buffers.clear(opened.copies.up.stream, buffer.handle, bytes) }
    }

    fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        if buffer.space == SPACE_HOST {
            return match Buffers::unpin(buffer.handle as usize)? {
                true => Ok(()),
                false => {
                    let text = format!("{:#x} was not registered with this device", buffer.handle);
                    Err(Failure::new(Code::Invalid, text))
                }
            };
        }
        self.check_space(buffer.space)?;
        let opened = self.0.opened()?;
        opened.buffers.free(opened.queue.stream(), buffer.handle)
    }

    unsafe fn register_host(&self, pointer: *mut u8, bytes: u64) -> Result<Buffer, Failure> {
        // SAFETY: the caller vouches for the range.
        unsafe { self.0.opened()?.buffers.pin(pointer, bytes as usize)? };
        Ok(Buffer { space: SPACE_HOST, reserved: 0, handle: pointer.expose_provenance() as u64 })
    }

    unsafe fn copy_box(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
        // SAFETY: the caller vouches for the boxes, until this returns.
        match unsafe { self.begin_copy(from, to, shape)? } {
            Some(copy) => copy.wait(),
            None => Ok(()),
        }
    }

    unsafe fn begin_copy(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Option<Event>, Failure> {
        let own = self.space();
        let peer = CudaDevice::of_space(from.space).filter(|peer| peer.space() != own);
        let ends = match (from.space, to.space) {
            (SPACE_HOST, to_space) if to_space == own => {
                Ends::Up(std::ptr::with_exposed_provenance(from.handle as usize), to.handle)
            }
            (from_space, SPACE_HOST) if from_space == own => {
                Ends::Down(from.handle, std::ptr::with_exposed_provenance_mut(to.handle as usize))
            }
            (from_space, to_space) if from_space == own && to_space == own => {
                Ends::Inside(from.handle, to.handle)
            }
            (_, to_space) if let (Some(peer), true) = (peer, to_space == own) => {
                Ends::Peer(peer.0.opened()?.context, from.handle, to.handle)
            }
            (from_space, to_space) => {
                let text = format!(
                    "a copy from memory space {from_space} to {to_space}: this device copies to and from {own}, its own, and 0, the host's, and to its own from other GPUs'"
                );
                return Err(Failure::new(Code::Invalid, text));
            }
        };
        let opened = self.0.opened()?;
        // SAFETY: the caller vouches for the boxes, until the copy is complete.
        unsafe { opened.copies.copy(ends, shape) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        let own = self.space();
        let own_or_host = |space| space == own || space == SPACE_HOST;
        match (from, to) {
            (from, to) if from == own && to == own => Some(500e9),
            (from, to) if own_or_host(from) && own_or_host(to) => (from != to).then_some(20e9),
            (from, to) => (to == own && CudaDevice::of_space(from).is_some()).then_some(20e9),
        }
    }

    /// `stream`: that of kernels, `context`, `device`, and `buffer`: its address.
    fn native_handle(&self, kind: &str, buffer: Option<Buffer>) -> Result<u64, Failure> {
        let opened = self.0.opened()?;
        match (kind, buffer) {
            ("stream", None) => Ok(opened.queue.stream().get().expose_provenance() as u64),
            ("context", None) => Ok(opened.context.get().expose_provenance() as u64),
            ("device", None) => Ok(self.0.found.device as u64),
            ("buffer", Some(buffer)) => self.check_space(buffer.space).map(|()| buffer.handle),
            _ => {
                let text = format!(
                    "a native handle of kind `{kind}`: this device has `stream`, `context` and `device`, and `buffer` of a buffer"
                );
                Err(Failure::new(Code::Unsupported, text))
            }
        }
    }

    /// `limits`; `ordinal`: its number for CUDA; `buffers`: the number of the runtime's buffers; and
    /// `architecture`.
    fn query(&self, key: &str) -> Option<String> {
        match key {
            "limits" => serde_json::to_string(&self.0.found.limits).ok(),
            "ordinal" => Some(self.0.found.ordinal.to_string()),
            "buffers" => {
                let count = self.0.opened.get();
                Some(count.map_or(0, |opened| opened.buffers.count()).to_string())
            }
            "architecture" => Some(serde_json::Value::from(&*self.0.found.info.features).to_string()),
            _ => None,
        }
    }
}
