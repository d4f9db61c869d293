//! A device of this process, reached through the vtable of its backend, as the host has it.
//!
//! The controller names buffers by numbers, and is not trusted: [`LocalDevice::checked`], `copy`, `put`
//! and `get` compare boxes with the bytes of buffers and of shared memory before a slot is called.
//! Launches and copies own what they use (`Arc<Held>`): `free` takes the number away, and the buffer is
//! freed when its last user is done.
//!
//! Threads: the agent's thread checks, and gives what may take long to the device's worker
//! ([`LocalDevice::later`]), which runs jobs in order. [`LocalDevice::submit`] may be called on either. It
//! calls `over` once: on that thread, or on the backend's thread that says that the launch's event has
//! fired. `buffers` is the only lock, held to look a number up, to add or to remove one.

use super::signature::Signature;
use super::{library, lock};
use crate::wire::{
    Bounds, LaunchImage, OwnedLaunch, RemoteDevice, RemoteSpace, Shape, Side, bad, failed, owned,
};
use flash_backend::abi::{
    self, BackendApi, Buffer, CopyBox, Implementation, MemorySpace, RegisteredDevice, SPACE_HOST, Str,
};
use flash_backend::host_allocation::HostAllocation;
use flash_backend::host_memory::copy_addresses;
use flash_backend::offload::Worker;
use flash_backend::{Class, Code, DeviceInfo, Failure, caught, cpu_has, has_library};
use flash_net::SharedMemory;
use std::alloc::Layout;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A launch that is expected to take less is run by the thread that took its frame.
const SHORT: Duration = Duration::from_micros(20);
/// A copy of up to this many bytes in the host's memory is made by that thread.
const SHORT_COPY: usize = 256 << 10;

/// The device, for as long as the process lives.
pub(super) struct LocalDevice {
    id: String,
    api: &'static BackendApi,
    raw: *mut abi::Device,
    info: DeviceInfo,
    spaces: Vec<MemorySpace>,
    /// Of spaces that are not the host's, by the controller's numbers.
    buffers: Mutex<HashMap<u64, Arc<Held>>>,
    worker: Worker,
    /// Jobs of the worker that have not ended.
    jobs: AtomicU32,
}

// SAFETY: devices may be used from any thread, as the plugin interface says.
unsafe impl Send for LocalDevice {}
// SAFETY: as above.
unsafe impl Sync for LocalDevice {}

/// A buffer of a device; freed when nothing uses it any more.
pub(super) struct Held {
    device: &'static LocalDevice,
    buffer: Buffer,
    bytes: u64,
    /// What it is in, if it is in the host's memory.
    host: Option<HostAllocation>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.host.is_none()
            && let Some(free) = self.device.api.free
        {
            // SAFETY: a buffer that `alloc` gave, with no other user.
            let _ = outcome(unsafe { free(self.device.raw, self.buffer) });
        }
    }
}

/// A kernel that the device has prepared.
pub(super) struct Kernel {
    device: &'static LocalDevice,
    raw: *mut abi::Kernel,
    signature: Signature,
    /// Picoseconds that an item took last; 0: unknown.
    pace: AtomicU32,
}

// SAFETY: kernels may be used from any thread, as the plugin interface says.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Drop for Kernel {
    fn drop(&mut self) {
        if let Some(release) = self.device.api.release {
            // SAFETY: the device's, with no other user.
            unsafe { release(self.device.raw, self.raw) };
        }
    }
}

impl Kernel {
    pub fn is_of(&self, device: &LocalDevice) -> bool {
        std::ptr::eq(self.device, device)
    }

    /// True if a launch of it returns when it is done.
    pub fn is_synchronous(&self) -> bool {
        self.device.info.synchronous
    }

    /// True if this number of items takes less than [`SHORT`].
    pub fn is_short(&self, items: u64) -> bool {
        match self.pace.load(Relaxed) {
            0 => false,
            pace => u128::from(items) * u128::from(pace) < SHORT.as_nanos() * 1000,
        }
    }

    /// That number of items took this many nanoseconds.
    pub fn took(&self, items: u64, nanoseconds: u64) {
        let pace = nanoseconds.saturating_mul(1000) / items.max(1);
        self.pace.store(u32::try_from(pace).unwrap_or(u32::MAX).max(1), Relaxed);
    }
}

/// What a slot returned.
fn outcome(error: *mut abi::Error) -> Result<(), Failure> {
    // SAFETY: an error of the host, which this takes, or NULL.
    if error.is_null() { Ok(()) } else { Err(unsafe { Failure::of_host(error) }) }
}

fn missing(slot: &str) -> Failure {
    Failure::new(Code::Unsupported, format!("the backend has no slot `{slot}`"))
}

/// The devices of the program's registry; those of a backend alone, if this is to serve no others.
///
/// # Errors
/// Those of the host, and of a device that does not say what it is.
pub(super) fn all(key: Option<&str>) -> Result<Vec<LocalDevice>, Failure> {
    unsafe extern "C" fn visit(argument: *mut c_void, found: *const RegisteredDevice) -> *mut abi::Error {
        // SAFETY: the list below; the device lives for the call, what it names for ever.
        unsafe {
            let found = &*found;
            (*argument.cast::<Vec<(String, *const BackendApi, *mut abi::Device)>>()).push((
                found.id.text(),
                found.api,
                found.device,
            ));
        }
        std::ptr::null_mut()
    }
    let registry = library::registry()?;
    let mut found: Vec<(String, *const BackendApi, *mut abi::Device)> = Vec::new();
    let list = (&raw mut found).cast();
    // SAFETY: the functions take the list as their argument, for the call.
    outcome(unsafe {
        match key {
            Some(key) => {
                let each = registry.devices_of.ok_or_else(|| missing("devices_of"))?;
                each(Str::new(key), visit, list)
            }
            None => registry.devices.ok_or_else(|| missing("devices"))?(visit, list),
        }
    })?;
    // SAFETY: vtables and devices of the registry live for ever.
    found.into_iter().map(|(id, api, raw)| unsafe { LocalDevice::new(id, &*api, raw) }).collect()
}

impl LocalDevice {
    /// # Safety
    /// A device of this vtable, which the host has checked.
    unsafe fn new(
        id: String,
        api: &'static BackendApi,
        raw: *mut abi::Device,
    ) -> Result<LocalDevice, Failure> {
        // SAFETY: the caller vouches; the variables are ours, and the texts of a device live for ever.
        let (info, spaces) = unsafe {
            let mut info: abi::DeviceInfo = std::mem::zeroed();
            info.struct_size = size_of::<abi::DeviceInfo>() as u32;
            outcome(api.device_info.ok_or_else(|| missing("device_info"))?(raw, &mut info))?;
            let (mut spaces, mut count) = (std::ptr::null(), 0);
            if let Some(list) = api.spaces {
                outcome(list(raw, &mut spaces, &mut count))?;
            }
            let spaces = if count == 0 { &[][..] } else { std::slice::from_raw_parts(spaces, count) };
            (DeviceInfo::from_abi(&info), spaces.to_vec())
        };
        Ok(LocalDevice {
            id,
            api,
            raw,
            info,
            spaces,
            buffers: Mutex::default(),
            worker: Worker::new("flash-agent"),
            jobs: AtomicU32::new(0),
        })
    }

    /// Its id in this process.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Bytes of its buffers.
    pub fn bytes(&self) -> u64 {
        lock(&self.buffers).values().map(|held| held.bytes).sum()
    }

    /// As the controller learns of it.
    pub fn remote(&self) -> Result<RemoteDevice, Failure> {
        let info = serde_json::to_string(&self.info).map_err(|why| bad(why.to_string()))?;
        let space = |space: &MemorySpace| RemoteSpace {
            id: space.id,
            kind: space.kind,
            numa_node: space.numa_node,
            bytes: space.size,
            alignment: space.alignment,
        };
        Ok(RemoteDevice {
            id: self.id.clone(),
            info,
            // SAFETY: texts of a vtable live for ever.
            target: unsafe { self.api.target.text() },
            spaces: self.spaces.iter().map(space).collect(),
        })
    }

    /// Lets the device's thread do something, after what it was given before. `rests` is called when threads
    /// of this process have computed for the device, and have nothing more to do.
    pub fn later(&'static self, job: impl FnOnce() + Send + 'static, rests: impl FnOnce() + Send + 'static) {
        self.jobs.fetch_add(1, AcqRel);
        self.worker.run(Box::new(move || {
            let _ = caught(job);
            if self.jobs.fetch_sub(1, AcqRel) == 1 && self.info.class == Class::Cpu {
                rests();
            }
        }));
    }

    /// True if threads of this process compute for it.
    pub fn computes(&self) -> bool {
        self.info.class == Class::Cpu && !self.is_idle()
    }

    /// True if its thread has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.jobs.load(Acquire) == 0
    }

    pub fn prepare(&'static self, implementation: &'static Implementation) -> Result<Kernel, Failure> {
        let signature = Signature::of(implementation)?;
        let (slot, mut raw) = (self.api.prepare.ok_or_else(|| missing("prepare"))?, std::ptr::null_mut());
        // SAFETY: a device of this vtable, and our own variable.
        outcome(unsafe { slot(self.raw, implementation, &mut raw) })?;
        if raw.is_null() {
            return Err(Failure::new(Code::Invalid, "expected a kernel from `prepare`, found NULL"));
        }
        Ok(Kernel { device: self, raw, signature, pace: AtomicU32::new(0) })
    }

    pub fn preload(&self, implementation: &'static Implementation) {
        if let Some(preload) = self.api.preload {
            // SAFETY: a device of this vtable.
            unsafe { preload(self.raw, implementation) };
        }
    }

    pub fn has(&self, kind: u32, name: &str) -> bool {
        match (self.api.has, kind) {
            // SAFETY: a device of this vtable, and a text that lives for the call.
            (Some(has), _) => unsafe { has(self.raw, kind, Str::new(name)) != 0 },
            (None, abi::HAS_FEATURE) => cpu_has(name),
            (None, abi::HAS_LIBRARY) => has_library(name),
            _ => false,
        }
    }

    pub fn query(&self, key: &str) -> Result<String, Failure> {
        let (slot, mut value) = (self.api.query.ok_or_else(|| missing("query"))?, std::ptr::null_mut());
        // SAFETY: a device of this vtable, and our own variable; the text lives for the call.
        outcome(unsafe { slot(self.raw.cast_const().cast(), Str::new(key), &mut value) })?;
        // The answer is the text of an error.
        match outcome(value) {
            Err(answer) => Ok(answer.text),
            Ok(()) => Err(Failure::new(Code::Invalid, "expected an answer to `query`, found NULL")),
        }
    }

    pub fn alloc(&'static self, space: u32, number: u64, bytes: u64) -> Result<(), Failure> {
        let (buffer, host) = if space == SPACE_HOST && self.info.host_memory {
            let block = of_host(bytes)?;
            (host_buffer(block.data()), Some(block))
        } else {
            let slot = self.api.alloc.ok_or_else(|| missing("alloc"))?;
            let mut buffer = Buffer { space: 0, reserved: 0, handle: 0 };
            // SAFETY: a device of this vtable, and our own variable.
            outcome(unsafe { slot(self.raw, space, bytes, &mut buffer) })?;
            (buffer, None)
        };
        let held = Arc::new(Held { device: self, buffer, bytes, host });
        match lock(&self.buffers).insert(number, held) {
            None => Ok(()),
            Some(_) => Err(bad(format!("buffer {number} was allocated twice"))),
        }
    }

    pub fn free(&self, number: u64) {
        let freed = lock(&self.buffers).remove(&number);
        drop(freed);
    }

    pub fn free_all(&self) {
        let freed = std::mem::take(&mut *lock(&self.buffers));
        drop(freed);
    }

    /// A buffer by the controller's number.
    pub fn held(&self, number: u64) -> Result<Arc<Held>, Failure> {
        let held = lock(&self.buffers).get(&number).cloned();
        held.ok_or_else(|| bad(format!("there is no buffer {number}")))
    }

    fn has_addresses(&self, space: u32) -> bool {
        space == SPACE_HOST || self.spaces.iter().any(|known| known.id == space && known.host_visible != 0)
    }

    /// A launch, checked, with what it keeps alive.
    ///
    /// # Errors
    /// What does not fit.
    pub fn checked(
        &self,
        memory: Option<&SharedMemory>,
        kernel: &Kernel,
        launch: &LaunchImage<'_>,
    ) -> Result<OwnedLaunch, Failure> {
        let bounds = OfDevice { device: self, memory, kept: RefCell::default() };
        let mut launch = owned(launch, &bounds)?;
        launch.keep(bounds.kept.into_inner());
        kernel.signature.check(&launch)?;
        Ok(launch)
    }

    /// A copy, checked, with what it keeps alive.
    pub fn copy(
        &'static self,
        memory: Option<&SharedMemory>,
        from: Side,
        to: Side,
        shape: Shape,
    ) -> Result<Copy, Failure> {
        let mut kept = Vec::new();
        let mut end = |side: Side, which: usize| {
            let touched = shape.bytes(which)?;
            match side {
                Side::Shared(offset) => {
                    let memory = memory.ok_or_else(|| bad("memory that is not shared".into()))?;
                    let bytes = touched.end - touched.start;
                    // Modulo 2^64, as a part's first element may be before the memory.
                    let first = offset.wrapping_add(touched.start);
                    memory.pointer(first, bytes).map_err(|error| failed(&error))?;
                    let handle = (memory.base().expose_provenance() as u64).wrapping_add(offset);
                    Ok(Buffer { space: SPACE_HOST, reserved: 0, handle })
                }
                Side::Buffer(number) => {
                    let held = self.held(number)?;
                    held.check(&touched)?;
                    let buffer = held.buffer;
                    kept.push(held);
                    Ok(buffer)
                }
            }
        };
        let (from, to) = (end(from, 0)?, end(to, 1)?);
        Ok(Copy { device: self, from, to, shape: shape.to_box(), _kept: kept, _block: None })
    }

    /// Copies to a buffer what came, if nothing the device was given comes before that, and the buffer is the
    /// host's memory. Else the result is a copy to be run.
    pub fn put(
        &'static self,
        number: u64,
        shape: Shape,
        came: &[u8],
        is_next: bool,
    ) -> Result<Option<Copy>, Failure> {
        let held = self.held(number)?;
        let (there, to) = (shape.bytes(0)?, shape.bytes(1)?);
        if there.end > came.len() as u64 || to.end > held.bytes {
            return Err(bad(format!(
                "bytes {there:?} of {} that came, to {to:?} of a buffer of {}",
                came.len(),
                held.bytes
            )));
        }
        let shape = shape.to_box();
        if held.host.is_some() && is_next {
            // SAFETY: both boxes were checked; the controller has the buffer for itself, and what it was used
            // for before is over.
            unsafe { copy_addresses(came.as_ptr().expose_provenance() as u64, held.buffer.handle, &shape) };
            return Ok(None);
        }
        let block = of_host(came.len() as u64)?;
        // SAFETY: a block of that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(came.as_ptr(), block.data(), came.len()) };
        let (from, to) = (host_buffer(block.data()), held.buffer);
        Ok(Some(Copy { device: self, from, to, shape, _kept: vec![held], _block: Some(block) }))
    }

    /// A copy of a box of a buffer that is to be sent.
    pub fn get(&'static self, number: u64, shape: Shape) -> Result<Get, Failure> {
        /// No answer brings more.
        const MOST: u64 = 1 << 30;
        let held = self.held(number)?;
        let (from, to) = (shape.bytes(0)?, shape.bytes(1)?);
        if from.end > held.bytes || to.end > MOST {
            return Err(bad(format!(
                "bytes {from:?} of a buffer of {}, to {to:?} of at most {MOST}",
                held.bytes
            )));
        }
        let is_same = shape.is_gapless(0) && shape.is_gapless(1) && shape.offsets[1] == 0;
        let block = match held.host.is_some() && is_same {
            true => None,
            false => Some(of_host(to.end)?),
        };
        Ok(Get { held, shape: shape.to_box(), bytes: to.end as usize, block })
    }

    /// Submits a launch and calls `over` when it has ended, with the nanoseconds when it began and ended.
    pub fn submit(
        &'static self,
        kernel: &Arc<Kernel>,
        launch: Arc<OwnedLaunch>,
        flag: Arc<AtomicU32>,
        over: impl FnOnce(Result<(u64, u64), Failure>) + Send + 'static,
    ) {
        let Some(slot) = self.api.submit else { return over(Err(missing("submit"))) };
        let (mut nanoseconds, mut event) = (0u64, std::ptr::null_mut());
        let submission = abi::Submission {
            struct_size: size_of::<abi::Submission>() as u32,
            flags: launch.flags,
            kernel: kernel.raw,
            space: launch.space(),
            args: launch.args().as_ptr(),
            arg_count: launch.args().len() as u32,
            wait_count: 0,
            waits: std::ptr::null(),
            signal: if self.info.synchronous { std::ptr::null_mut() } else { &raw mut event },
            nanoseconds: &raw mut nanoseconds,
            attributes: launch.attributes().as_ptr(),
            attribute_count: launch.attributes().len(),
            phase_begin: launch.phases.start,
            phase_end: launch.phases.end,
            stop: flag.as_ptr().cast_const(),
            like: 0,
        };
        let start = now();
        // SAFETY: a device and a kernel of this vtable; what the submission points to lives for the call, its
        // flag and its arrays until `over` is called: their owners go along.
        let outcome = outcome(unsafe { slot(self.raw, &submission) });
        if event.is_null() || outcome.is_err() {
            let end = if nanoseconds > 0 { start + nanoseconds } else { now() };
            drop(launch);
            return over(outcome.map(|()| (start, end)));
        }
        let pending = Pending {
            device: self,
            event,
            start,
            _kernel: kernel.clone(),
            _launch: launch,
            _flag: flag,
            over,
        };
        pending.wait();
    }
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A launch that goes on after `submit`, with what it needs.
struct Pending<F> {
    device: &'static LocalDevice,
    event: *mut abi::Event,
    start: u64,
    _kernel: Arc<Kernel>,
    _launch: Arc<OwnedLaunch>,
    _flag: Arc<AtomicU32>,
    over: F,
}

// SAFETY: events may be used from any thread, as the plugin interface says.
unsafe impl<F: Send> Send for Pending<F> {}

impl<F: FnOnce(Result<(u64, u64), Failure>) + Send + 'static> Pending<F> {
    /// Calls `over` when the event has fired, on any thread.
    fn wait(self) {
        unsafe extern "C" fn fired<F: FnOnce(Result<(u64, u64), Failure>) + Send + 'static>(
            pending: *mut c_void,
        ) {
            // SAFETY: the box below, which comes here once.
            let pending = unsafe { Box::from_raw(pending.cast::<Pending<F>>()) };
            let _ = caught(|| pending.end());
        }
        let Some(on_ready) = self.device.api.event_on_ready else { return self.end() };
        let event = self.event;
        let pending = Box::into_raw(Box::new(self));
        // SAFETY: an event of this vtable, and a function that takes the box, once.
        let refused = unsafe { on_ready(event, fired::<F>, pending.cast()) };
        if !refused.is_null() {
            // SAFETY: an error of the host; and the box, which nothing else takes then.
            unsafe {
                drop(Failure::of_host(refused));
                Box::from_raw(pending).end();
            }
        }
    }

    fn end(self) {
        let api = self.device.api;
        let waited = match api.event_wait {
            // SAFETY: an event of this vtable, which has fired or is waited for.
            Some(wait) => outcome(unsafe { wait(self.event) }),
            None => Err(missing("event_wait")),
        };
        let (mut start, mut end) = (0, 0);
        // SAFETY: an event of this vtable, our own variables; nothing uses it afterwards.
        let timed = unsafe {
            let timed =
                api.event_times.is_some_and(|times| outcome(times(self.event, &mut start, &mut end)).is_ok());
            if let Some(release) = api.event_release {
                release(self.event);
            }
            timed
        };
        let times = if timed { (start, end) } else { (self.start, now()) };
        (self.over)(waited.map(|()| times));
    }
}

struct OfDevice<'a> {
    device: &'a LocalDevice,
    memory: Option<&'a SharedMemory>,
    /// The buffers that were asked for.
    kept: RefCell<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl Bounds for OfDevice<'_> {
    fn shared(&self) -> (usize, u64) {
        // Only devices that work in the host's memory work there.
        let memory = self.memory.filter(|_| self.device.info.host_memory);
        memory.map_or((0, 0), |memory| (memory.base().expose_provenance(), memory.bytes()))
    }

    fn buffer(&self, number: u64) -> Option<(Buffer, u64, bool)> {
        let held = self.device.held(number).ok()?;
        let found = (held.buffer, held.bytes, self.device.has_addresses(held.buffer.space));
        self.kept.borrow_mut().push(held);
        Some(found)
    }
}

impl Held {
    /// # Errors
    /// Bytes that it does not have.
    pub fn check(&self, bytes: &Range<u64>) -> Result<(), Failure> {
        match bytes.end <= self.bytes {
            true => Ok(()),
            false => Err(bad(format!("bytes {bytes:?} of a buffer of {}", self.bytes))),
        }
    }

    /// Sets its bytes to 0.
    pub fn clear(&self) -> Result<(), Failure> {
        if let Some(block) = &self.host {
            // SAFETY: a block of that many bytes, which the controller has for itself.
            unsafe { block.data().write_bytes(0, self.bytes as usize) };
            return Ok(());
        }
        let clear = self.device.api.clear.ok_or_else(|| missing("clear"))?;
        // SAFETY: a buffer of the device, of that many bytes, which the controller has for itself.
        outcome(unsafe { clear(self.device.raw, self.buffer, self.bytes) })
    }
}

/// A copy that was asked for.
pub(super) struct Copy {
    device: &'static LocalDevice,
    from: Buffer,
    to: Buffer,
    shape: CopyBox,
    _kept: Vec<Arc<Held>>,
    _block: Option<HostAllocation>,
}

impl Copy {
    pub fn run(&self) -> Result<(), Failure> {
        if (self.from.space, self.to.space) == (SPACE_HOST, SPACE_HOST) {
            // SAFETY: both boxes lie in memory of this host that is kept; handles there are addresses.
            unsafe { copy_addresses(self.from.handle, self.to.handle, &self.shape) };
            return Ok(());
        }
        let copy = self.device.api.copy_box.ok_or_else(|| missing("copy_box"))?;
        // SAFETY: both boxes lie in their buffers, which are kept; nothing is waited for, and the call
        // returns when it is done.
        outcome(unsafe {
            copy(self.device.raw, self.from, self.to, &self.shape, std::ptr::null(), 0, std::ptr::null_mut())
        })
    }
}

/// A box whose bytes are to be sent.
pub(super) struct Get {
    held: Arc<Held>,
    shape: CopyBox,
    bytes: usize,
    /// Where they are copied to. `None`: they lie one after the other in a buffer that is the host's memory.
    block: Option<HostAllocation>,
}

impl Get {
    /// The bytes. After all that was asked for before.
    pub fn run(&self) -> Result<&[u8], Failure> {
        let Get { held, shape, bytes, block } = self;
        let first = match block {
            None => std::ptr::with_exposed_provenance::<u8>(held.buffer.handle as usize)
                .wrapping_add(shape.source_offset as usize),
            Some(block) => {
                let (from, to) = (held.buffer, host_buffer(block.data()));
                let device = held.device;
                Copy { device, from, to, shape: *shape, _kept: Vec::new(), _block: None }.run()?;
                block.data().cast_const()
            }
        };
        // SAFETY: bytes of a buffer that were checked, or a block of that many; all are set, and nothing
        // writes them while the controller has not got them.
        Ok(unsafe { std::slice::from_raw_parts(first, *bytes) })
    }

    /// True if that is done sooner than the device's thread is woken, and nothing comes before it.
    pub fn is_short(&self) -> bool {
        self.held.host.is_some() && self.bytes <= SHORT_COPY && self.held.device.is_idle()
    }
}

/// A block of the host's memory, of zeros.
fn of_host(bytes: u64) -> Result<HostAllocation, Failure> {
    let layout = usize::try_from(bytes.max(1)).ok().and_then(|n| Layout::from_size_align(n, 64).ok());
    layout.and_then(HostAllocation::zeroed).ok_or_else(|| {
        Failure::new(Code::OutOfMemory, format!("{bytes} bytes of an agent's host memory were refused"))
    })
}

/// Memory of the host, as a buffer.
fn host_buffer(data: *mut u8) -> Buffer {
    Buffer { space: SPACE_HOST, reserved: 0, handle: data.expose_provenance() as u64 }
}
