//! The traits that authors of backends implement, and the launches that they get.
//!
//! Whether a backend is linked in or comes as a plugin, the runtime reaches it through one vtable,
//! [`abi::BackendApi`], which [`register_backend!`](crate::register_backend) makes from a [`Backend`].

use crate::event::Event;
use crate::failure::{Failure, Unavailable};
use crate::features::cpu_has;
use crate::host::host_api;
use crate::host_settings::HostSettings;
use crate::library;
use crate::workers::WorkerThreads;
use flash_types::abi;
use flash_types::index::SpaceRef;
use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of device. Implement it, `register_backend!(MyBackend)`, and either link the crate into the program
/// or put `export_plugin!(my_backend)` into a cdylib, which exports what it registers and what `my_backend`
/// does.
///
/// # Safety
/// Devices do what a launch says and nothing else: `submit` runs every row of the space exactly once, phase
/// by phase, touches memory through the arguments only, and returns (or fires its event) after all of it is
/// done and visible. Safe kernels rely on it.
pub unsafe trait Backend: Sized + 'static {
    /// Runtime key, such as `MY_ACCEL`.
    const KEY: &'static str;
    /// Text for display.
    const DESCRIPTION: &'static str;
    /// The kind of implementations that its devices run, unless they list their own: the name of a kernel
    /// language, or any other that implementations give (`#[kernel(target = "..")]`).
    const TARGET: &'static str;
    /// Its devices keep state for the host arrays that they work in, until [`Device::forget_host`].
    const KEEPS_HOST: bool = false;
    /// Its devices have kernels of their own: [`Device::resolve_kernel`] is asked.
    const OWN_KERNELS: bool = false;
    /// The type of its devices.
    type Device: Device;
    /// Looks for the driver and its devices, under the settings of a context. Called when a program first
    /// needs them, once more for each context in which a setting has another value that an earlier call
    /// asked for, and after an error when [`generation`](Self::generation) has changed.
    fn probe(settings: &HostSettings<'_>) -> Result<Vec<Self::Device>, Unavailable>;
    /// Its threads, if they run work of the host when they have none of their own. Asked after `probe` has
    /// succeeded.
    fn workers() -> Option<&'static dyn WorkerThreads> {
        None
    }

    /// If this process was started to serve its devices to another one: the function that does it, see
    /// [`abi::agent::Agent`].
    fn agent() -> Option<fn() -> Result<(), Failure>> {
        None
    }

    /// If it has agents with the devices of other backends: the function that is told which one is wanted, as
    /// `KEY@AGENT`, see [`abi::agent::Agent`]. [`generation`](Self::generation) changes with that.
    fn isolate() -> Option<fn(&str)> {
        None
    }

    /// Changes whenever devices come or go. It is asked when a program makes a runtime, so it must be quick.
    fn generation() -> u64 {
        0
    }

    /// What has changed since it was asked last, or since [`probe`](Self::probe). `known` are the devices
    /// that were there then. Called when [`generation`](Self::generation) has changed.
    fn changes(_known: &[&Self::Device]) -> Changes<Self::Device> {
        Changes::default()
    }

    /// The devices that a runtime key selects, as indices into `devices`, those that are there; `suffix` is
    /// what stands behind the backend's key and a colon. `None`: a number or a class selects, as in
    /// `NVIDIA_GPU:0`.
    ///
    /// # Errors
    /// What was expected and found; no index: there is no such device.
    fn resolve(_suffix: &str, _devices: &[&Self::Device]) -> Option<Result<Vec<usize>, Failure>> {
        None
    }
}

/// Devices that came and went.
#[derive(Debug)]
pub struct Changes<D> {
    /// Indices of devices that have gone. Runtimes that have one keep it: whatever it is asked to do fails
    /// with [`Code::DeviceLost`](flash_types::Code::DeviceLost).
    pub gone: Vec<usize>,
    /// New devices, which get new numbers.
    pub new: Vec<D>,
}

impl<D> Default for Changes<D> {
    /// None.
    fn default() -> Changes<D> {
        Changes { gone: Vec::new(), new: Vec::new() }
    }
}

/// Properties of a device. The default is a device of a single thread with unknown properties.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeviceInfo {
    /// Class.
    pub class: Class,
    /// Only an explicit key selects it.
    pub emulated: bool,
    /// For tests: only an explicit key selects it.
    pub test: bool,
    /// It uses host memory in place.
    pub host_memory: bool,
    /// Work items that run at the same time, roughly; threads of a CPU.
    pub threads: u32,
    /// Name for display.
    pub name: String,
    /// Its manufacturer.
    pub vendor: String,
    /// Version of driver or backend.
    pub version: String,
    /// What it is, physically: host and hardware, as [`physical_id`](crate::physical_id) makes it. Devices
    /// that are, or are parts of, the same are never used together in a group.
    pub physical_id: String,
    /// Rough single-precision rate in flop/s; 0: unknown.
    #[serde(deserialize_with = "number")]
    pub rate_hint: f64,
    /// Bytes; 0: unknown.
    pub memory_bytes: u64,
    /// Architecture or instruction sets, separated by commas.
    pub features: String,
    /// Kinds of implementations that it runs, the preferred one first. Empty: [`Backend::TARGET`].
    pub targets: Vec<String>,
    /// What selects it in a runtime key, behind the backend's key and a colon. Empty: its number.
    pub suffix: String,
    /// Work is done when [`Device::submit`] returns, so that a host gains nothing by running ahead of it.
    pub synchronous: bool,
    /// It runs functions of this process: those of implementations, and of shared libraries that a program
    /// gives.
    pub runs_functions: bool,
    /// It keeps what it makes of launches with a [number](Launch::like). Others have none.
    pub keeps_launches: bool,
    /// Its queues wait for its own work by themselves: [`Device::run_after`].
    pub waits_in_queue: bool,
    /// Another process has it. If that ends, a new one may take its place, without the buffers: to
    /// [clear](Device::clear) one finds out.
    pub remote: bool,
}

/// A number; JSON has null for one that is not finite.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(<Option<f64> as serde::Deserialize>::deserialize(from)?.unwrap_or(f64::NAN))
}

impl DeviceInfo {
    /// What a device said.
    ///
    /// # Safety
    /// The texts are readable.
    pub unsafe fn from_abi(raw: &abi::DeviceInfo) -> DeviceInfo {
        let flag = |flag: u32| raw.flags & flag != 0;
        // SAFETY: the caller vouches.
        unsafe {
            let targets = raw.targets.text();
            DeviceInfo {
                class: match raw.class {
                    abi::CLASS_CPU => Class::Cpu,
                    abi::CLASS_GPU => Class::Gpu,
                    abi::CLASS_FPGA => Class::Fpga,
                    _ => Class::Other,
                },
                emulated: flag(abi::DEVICE_EMULATED),
                test: flag(abi::DEVICE_TEST),
                host_memory: flag(abi::DEVICE_HOST_MEMORY),
                threads: raw.threads,
                name: raw.name.text(),
                vendor: raw.vendor.text(),
                version: raw.version.text(),
                physical_id: raw.physical_id.text(),
                rate_hint: raw.rate_hint,
                memory_bytes: raw.memory_bytes,
                features: raw.features.text(),
                targets: targets
                    .split(',')
                    .map(str::trim)
                    .filter(|t| !t.is_empty())
                    .map(str::to_owned)
                    .collect(),
                suffix: raw.suffix.text(),
                synchronous: flag(abi::DEVICE_SYNCHRONOUS),
                runs_functions: flag(abi::DEVICE_RUNS_FUNCTIONS),
                keeps_launches: flag(abi::DEVICE_KEEPS_LAUNCHES),
                waits_in_queue: flag(abi::DEVICE_WAITS_IN_QUEUE),
                remote: flag(abi::DEVICE_REMOTE),
            }
        }
    }
}

impl Default for DeviceInfo {
    fn default() -> DeviceInfo {
        DeviceInfo {
            class: Class::Other,
            emulated: false,
            test: false,
            host_memory: false,
            threads: 1,
            name: String::new(),
            vendor: String::new(),
            version: String::new(),
            physical_id: String::new(),
            rate_hint: 0.0,
            memory_bytes: 0,
            features: String::new(),
            targets: Vec::new(),
            suffix: String::new(),
            synchronous: false,
            runs_functions: false,
            keeps_launches: false,
            waits_in_queue: false,
            remote: false,
        }
    }
}

/// Class of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Class {
    /// A CPU.
    Cpu,
    /// A GPU.
    Gpu,
    /// An FPGA.
    Fpga,
    /// Anything else.
    Other,
}

impl Class {
    /// Its name in runtime keys: `OPENCL:gpu` is every GPU of the backend `OPENCL`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Cpu => "cpu",
            Class::Gpu => "gpu",
            Class::Fpga => "fpga",
            Class::Other => "other",
        }
    }
}

/// A device. Only the first three functions are required; the others answer "unsupported", or nothing.
pub trait Device: Send + Sync + Sized + 'static {
    /// A prepared kernel implementation.
    type Kernel: Send + Sync + 'static;

    /// Its properties.
    fn info(&self) -> DeviceInfo;

    /// Prepares an implementation. `implementation` lives for ever.
    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Self::Kernel, Failure>;

    /// The implementation that it has of a kernel, beside those that are registered in this process;
    /// `descriptor` is a [`KernelDescriptor`](crate::descriptor::KernelDescriptor) as JSON. It competes with
    /// the others. Only asked if [`Backend::OWN_KERNELS`].
    fn resolve_kernel(&self, _descriptor: &str) -> Option<&'static abi::Implementation> {
        None
    }

    /// True if its machine has a CPU feature, by the name that Rust has for it. By default this machine is
    /// asked.
    fn has_feature(&self, feature: &str) -> bool {
        cpu_has(feature)
    }

    /// True if its machine has a shared library, by one of the names, with commas, that a loader knows it by.
    /// By default this process loads it.
    fn has_library(&self, names: &str) -> bool {
        library::has_library(names)
    }

    /// The implementation may be prepared soon: loads its program, if that needs no compiler. It is called on
    /// a thread of the host.
    fn preload(&self, _implementation: &'static abi::Implementation) {}

    /// Number of a kernel's image, for a device that has one image loaded at a time and takes long to load
    /// another; 0: none. Submissions of one image are put together where their order allows.
    fn image(&self, _kernel: &Self::Kernel) -> u64 {
        0
    }

    /// Memory of the host may be freed from now on: releases the state of arguments that began in these
    /// bytes. A launch in flight keeps what it needs. It is called only if [`Backend::KEEPS_HOST`], on any
    /// thread, also for memory that the device never saw.
    fn forget_host(&self, _pointer: *mut u8, _bytes: u64) {}

    /// Runs a kernel. `None`: it is done. What the launch depends on is complete, or its queue waits for that
    /// ([`run_after`](Self::run_after)).
    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure>;

    /// Lets what the device gets next run after work of its own, whose event has not fired: puts a command
    /// into the queue of that which waits for the event. False: it cannot, and the calling thread waits. Only
    /// asked if it [waits in its queues](DeviceInfo::waits_in_queue). The launch or copy comes right after it
    /// from the same thread; others may come between.
    fn run_after(&self, _event: &Event, _next: Upcoming) -> Result<bool, Failure> {
        Ok(false)
    }

    /// The number of work items up to which a launch of one phase need not come here. The host then calls the
    /// implementation's `share` on its own thread instead, which saves an indirect call. For devices that use
    /// host memory and would run so few items on the caller, too. It is asked after each launch that comes
    /// here, which is at least one in 256 of those, since the time of an item may change.
    fn inline_items(&self, _kernel: &Self::Kernel) -> u64 {
        0
    }

    /// Its memories.
    fn spaces(&self) -> Vec<abi::MemorySpace> {
        Vec::new()
    }

    /// Allocates zeroed memory.
    fn alloc(&self, _space: u32, _bytes: u64) -> Result<abi::Buffer, Failure> {
        Err(Failure::unsupported("allocation"))
    }

    /// Sets the `bytes` bytes of a buffer of [`alloc`](Self::alloc) to 0 and returns when that is done. The
    /// host calls it before another array gets the buffer, and frees it where this is not supported.
    ///
    /// # Safety
    /// The buffer was allocated with that many bytes, and nothing else uses it meanwhile.
    unsafe fn clear(&self, _buffer: abi::Buffer, _bytes: u64) -> Result<(), Failure> {
        Err(Failure::unsupported("clearing memory"))
    }

    /// The file in memory that a buffer of [`alloc`](Self::alloc) is in, as a descriptor, and where it begins
    /// there: on a page. Asked of memories that are the host process's own, and of buffers of at least 64
    /// KiB, whose last page no other buffer has a part of. The host may map these bytes at other addresses.
    fn shared_file(&self, _buffer: abi::Buffer) -> Result<(i32, u64), Failure> {
        Err(Failure::unsupported("memory in a file"))
    }

    /// Frees a buffer of `alloc` or `register_host`.
    fn free(&self, _buffer: abi::Buffer) -> Result<(), Failure> {
        Err(Failure::unsupported("allocation"))
    }

    /// Registers host memory with the device.
    ///
    /// # Safety
    /// `bytes` bytes at `pointer` stay valid until the buffer is freed.
    unsafe fn register_host(&self, _pointer: *mut u8, _bytes: u64) -> Result<abi::Buffer, Failure> {
        Err(Failure::unsupported("registering host memory"))
    }

    /// Copies a box between two buffers; it is copied on return.
    ///
    /// # Safety
    /// The boxes lie inside the buffers and nothing else touches them meanwhile.
    unsafe fn copy_box(
        &self,
        _from: abi::Buffer,
        _to: abi::Buffer,
        _shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        Err(Failure::unsupported("copies"))
    }

    /// Begins to copy a box between two buffers. `None`: it is copied, as it always is by default.
    ///
    /// # Safety
    /// As [`copy_box`](Self::copy_box), until the copy is complete.
    unsafe fn begin_copy(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<Option<Event>, Failure> {
        // SAFETY: the caller vouches for the boxes.
        unsafe { self.copy_box(from, to, shape) }.map(|()| None)
    }

    /// Bytes per second from one memory space to another, `None` if it cannot copy between them.
    fn can_copy(&self, _from: u32, _to: u32) -> Option<f64> {
        None
    }

    /// The vendor's own handle of a kind, such as `stream`, for libraries of the vendor. `buffer`: of a
    /// buffer of this device.
    fn native_handle(&self, kind: &str, _buffer: Option<abi::Buffer>) -> Result<u64, Failure> {
        Err(Failure::unsupported(&format!("native handles of kind `{kind}`")))
    }

    /// A property by name, as JSON.
    fn query(&self, _key: &str) -> Option<String> {
        None
    }
}

/// What a device gets next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upcoming {
    /// A launch.
    Launch,
    /// A copy between two memory spaces.
    Copy {
        /// Of the source.
        from: u32,
        /// Of the destination.
        to: u32,
    },
}

/// True if the host asks a launch with this flag to stop.
///
/// # Safety
/// It is the [flag](Launch::stop_flag) of a launch that is not over.
#[inline]
pub unsafe fn is_stopped(flag: *const u32) -> bool {
    // SAFETY: the caller vouches; all access to it is atomic.
    !flag.is_null() && unsafe { AtomicU32::from_ptr(flag.cast_mut()) }.load(Ordering::Relaxed) != 0
}

/// One launch on one device.
pub struct Launch<'a, K> {
    pub(crate) raw: &'a abi::Submission,
    pub(crate) kernel: &'a K,
}

impl<'a, K> Launch<'a, K> {
    /// The result of `prepare`.
    #[inline]
    pub fn kernel(&self) -> &'a K {
        self.kernel
    }

    /// The index space with its order and phases.
    #[inline]
    pub fn space(&self) -> SpaceRef<'a> {
        // SAFETY: the space of a submission lives for the call.
        unsafe { SpaceRef::new(&*self.raw.space) }
    }

    pub(crate) fn raw_space(&self) -> *const abi::space::Space {
        self.raw.space
    }

    /// The arguments.
    #[inline]
    pub fn args(&self) -> &'a [abi::Arg] {
        if self.raw.arg_count == 0 {
            return &[];
        }
        // SAFETY: a submission has that many arguments, which live for the call.
        unsafe { std::slice::from_raw_parts(self.raw.args, self.raw.arg_count as usize) }
    }

    /// True if it is plain: no options, no time, no second buffers.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.raw.attribute_count == 0 && self.raw.flags & !(abi::SUBMIT_PART | abi::SUBMIT_WAITED) == 0
    }

    /// True if there are options for the backend.
    #[inline]
    pub fn has_attributes(&self) -> bool {
        self.raw.attribute_count != 0
    }

    /// Options for the backend: name, value as JSON, and whether an unknown one must be refused.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a str, bool)> {
        let raw = self.raw;
        (0..raw.attribute_count).map(|i| {
            // SAFETY: a submission has that many attributes, which live for the call.
            unsafe {
                let attribute = &*raw.attributes.add(i);
                let (key, value) = (attribute.key.as_str(), attribute.value.as_str());
                (key, value, attribute.required != 0)
            }
        })
    }

    /// True if the host waits for it at once: the event that `submit` returns has no other use.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.raw.signal.is_null()
    }

    /// True if a thread of the host waits for the event that `submit` returns before long, and asks for no
    /// callback.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        self.raw.flags & abi::SUBMIT_WAITED != 0
    }

    /// True if the kernel's time is asked for.
    #[inline]
    pub fn profiled(&self) -> bool {
        self.raw.flags & abi::SUBMIT_PROFILE != 0
    }

    /// True if some argument is [`abi::ARG_PHASED`].
    #[inline]
    pub fn phased(&self) -> bool {
        self.raw.flags & abi::SUBMIT_PHASED != 0
    }

    /// True if the space is a part of the launch's; other parts run elsewhere.
    #[inline]
    pub fn is_part(&self) -> bool {
        self.raw.flags & abi::SUBMIT_PART != 0
    }

    /// True if the calling thread is to run all of it, without help.
    #[inline]
    pub fn is_on_caller(&self) -> bool {
        self.raw.flags & abi::SUBMIT_ON_CALLER != 0
    }

    /// The phases to run.
    #[inline]
    pub fn phases(&self) -> std::ops::Range<u64> {
        self.raw.phase_begin..self.raw.phase_end
    }

    /// True if the host asks it to stop: then what has not begun is left out, and the launch fails with
    /// [`Failure::cancelled`]. A backend asks as often as it likes, from any thread until the launch is over.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        // SAFETY: the flag of this launch, which lives until it is over.
        unsafe { is_stopped(self.stop_flag()) }
    }

    /// The number that [`is_stopped`] reads, or NULL; it lives until the launch is over.
    #[inline]
    pub fn stop_flag(&self) -> *const u32 {
        let end = std::mem::offset_of!(abi::Submission, stop) + size_of::<*const u32>();
        // An older host's struct is shorter.
        if (self.raw.struct_size as usize) < end { std::ptr::null() } else { self.raw.stop }
    }

    /// 0, or a number that all launches have that are the same as this one, but for what is in their arrays.
    #[inline]
    pub fn like(&self) -> u64 {
        let end = std::mem::offset_of!(abi::Submission, like) + size_of::<u64>();
        // An older host's struct is shorter.
        if (self.raw.struct_size as usize) < end { 0 } else { self.raw.like }
    }

    /// Reports the kernel's time, if it is asked for.
    #[inline]
    pub fn report(&self, nanoseconds: u64) {
        if self.profiled() {
            self.report_unasked(nanoseconds);
        }
    }

    /// Reports the kernel's time, asked for or not: a host that shares launches out by it does not count what
    /// passes until it has the answer.
    #[inline]
    pub fn report_unasked(&self, nanoseconds: u64) {
        if !self.raw.nanoseconds.is_null() {
            // SAFETY: the host's variable, which lives for the call.
            unsafe { *self.raw.nanoseconds = nanoseconds };
        }
    }

    /// The description of some rows for a CPU kernel's functions.
    #[inline(always)] // built in place: copies of it stall on the stores just made
    pub fn share(&self, phase: u64, rows: std::ops::Range<u64>) -> abi::Share {
        abi::Share {
            struct_size: size_of::<abi::Share>() as u32,
            arg_count: self.raw.arg_count,
            host: host_api(),
            space: self.raw.space,
            phase,
            begin: rows.start,
            end: rows.end,
            threads: std::ptr::null(),
        }
    }
}
