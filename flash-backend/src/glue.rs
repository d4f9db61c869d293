//! From the [`Backend`] trait to the vtable: one `extern "C"` function per slot, generic over the backend.
//!
//! No panic of a backend leaves a slot: where a slot returns an error, it becomes one of the host
//! (`entry`), elsewhere the answer is 0, or nothing. The host vouches for what it passes: devices, kernels
//! and events are those that this backend gave.
//!
//! Devices are *cells*, which are leaked, as is each list of them: both stay valid after a device has
//! gone. A kernel is a box, made by `prepare` and dropped by `release`. An event is the host's from
//! `Event::into_raw` to `event_release`.
//!
//! `Instance::found` is locked while a backend looks for devices, its `Devices` while it says what has
//! changed. No other slot takes a lock of this module: many threads use a device at once.

use crate::backend::{Backend, Changes, Class, Device, Launch, Upcoming};
use crate::event::{Event, Kind};
use crate::failure::Failure;
use crate::fork::{self, Forked};
use crate::host::host_api;
use crate::host_settings::{Asked, HostSettings};
use crate::panics::caught;
use crate::workers::{self, get_extension};
use flash_types::Code;
use flash_types::abi::{self, BackendApi, Str, Submission};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A backend that is linked in. Made by `register_backend!`.
pub struct BackendEntry {
    /// Makes its vtable.
    pub api: fn() -> &'static BackendApi,
    /// The module that registers it, as `module_path!` gives it: it begins with the crate's name.
    pub module: &'static str,
}

inventory::collect!(BackendEntry);

/// Where a backend keeps its devices. Made by `register_backend!`.
pub struct Instance<B: Backend> {
    api: OnceLock<BackendApi>,
    workers: workers::Slot,
    agent: OnceLock<abi::agent::Agent>,
    /// What it has found so far. The lock is held while it looks for devices.
    found: Mutex<Vec<&'static Found<B>>>,
}

/// What a backend has found under some settings.
struct Found<B: Backend> {
    asked: Asked,
    /// As the backend said before they were looked for.
    generation: u64,
    outcome: Result<Mutex<Devices<B>>, String>,
}

/// The devices that are there. Cells are leaked, so that those that have gone stay valid.
struct Devices<B: Backend> {
    cells: Vec<&'static Cell<B::Device>>,
    /// As the backend said when `cells` were brought up to date.
    generation: u64,
    /// Pointers to the cells, for the host.
    raw: &'static [*mut abi::Device],
}

// SAFETY: the pointers point to `cells`, which are shared and Sync.
unsafe impl<B: Backend> Send for Devices<B> {}

struct Cell<D> {
    device: D,
    info: abi::DeviceInfo,
    spaces: Vec<abi::MemorySpace>,
}

impl<B: Backend> Instance<B> {
    /// Empty.
    #[allow(clippy::new_without_default)] // only for statics
    pub const fn new() -> Instance<B> {
        Instance {
            api: OnceLock::new(),
            workers: OnceLock::new(),
            agent: OnceLock::new(),
            found: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn workers(&self) -> &workers::Slot {
        &self.workers
    }
}

/// The static that belongs to a backend. Implemented by `register_backend!`.
///
/// # Safety
/// `instance` gives the same instance every time.
pub unsafe trait BackendStatic: Backend {
    /// The instance.
    fn instance() -> &'static Instance<Self>;
}

/// An error made by the host.
#[cold]
fn raise(failure: &Failure) -> *mut abi::Error {
    // SAFETY: the host's interface lives for ever, the text for the call.
    match unsafe { (*host_api()).error_create } {
        // SAFETY: as above.
        Some(create) => unsafe { create(failure.code.raw(), Str::new(&failure.text)) },
        None => std::process::abort(),
    }
}

/// Runs a slot: errors and panics become errors of the host.
#[inline]
fn entry(name: &str, body: impl FnOnce() -> Result<(), Failure>) -> *mut abi::Error {
    let body = || match body() {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => raise(&failure),
    };
    caught(body).unwrap_or_else(|panic| raise(&panicked(name, &panic)))
}

#[cold]
fn panicked(name: &str, panic: &str) -> Failure {
    Failure::new(Code::Panic, format!("the backend panicked in `{name}`: {panic}"))
}

/// The vtable of `B`.
pub fn api<B: BackendStatic>() -> &'static BackendApi {
    B::instance().api.get_or_init(|| BackendApi {
        struct_size: size_of::<BackendApi>() as u32,
        flags: 0,
        key: Str::new(B::KEY),
        description: Str::new(B::DESCRIPTION),
        probe: Some(probe::<B>),
        devices: Some(devices::<B>),
        device_info: Some(device_info::<B>),
        prepare: Some(prepare::<B>),
        release: Some(release::<B>),
        submit: Some(submit::<B>),
        target: Str::new(B::TARGET),
        get_extension: Some(get_extension::<B>),
        query: Some(query_device::<B>),
        generation: Some(generation::<B>),
        spaces: Some(spaces::<B>),
        alloc: Some(alloc::<B>),
        free: Some(free::<B>),
        register_host: Some(register_host::<B>),
        copy_box: Some(copy_box::<B>),
        can_copy: Some(can_copy::<B>),
        event_create: Some(event_create),
        event_signal: Some(event_signal),
        event_ready: Some(event_ready),
        event_wait: Some(event_wait),
        event_on_ready: Some(event_on_ready),
        event_times: Some(event_times),
        event_release: Some(event_release),
        native_handle: Some(native_handle::<B>),
        inline_items: Some(inline_items::<B>),
        preload: Some(preload::<B>),
        image: Some(image::<B>),
        forget_host: if B::KEEPS_HOST { Some(forget_host::<B>) } else { None },
        open: Some(open::<B>),
        resolve: Some(resolve::<B>),
        resolve_kernel: if B::OWN_KERNELS { Some(resolve_kernel::<B>) } else { None },
        has: Some(has::<B>),
        clear: Some(clear::<B>),
        shared_file: Some(shared_file::<B>),
        event_in_queue: Some(event_in_queue),
    })
}

/// The devices under some settings: those of an earlier call that asked for nothing that is another now.
fn find<B: BackendStatic>(settings: HostSettings<'_>) -> &'static Result<Mutex<Devices<B>>, String> {
    let mut found = B::instance().found.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = B::generation();
    let holds = |known: &Found<B>| known.outcome.is_ok() || known.generation == generation;
    let known = found.iter().filter(|known| holds(known));
    if let Some(known) = known.into_iter().find(|known| settings.agree_with(&known.asked)) {
        return &known.outcome;
    }
    let outcome = Devices::look(&settings).map(Mutex::new);
    let asked = settings.into_asked();
    let new: &'static Found<B> = Box::leak(Box::new(Found { asked, generation, outcome }));
    found.push(new);
    &new.outcome
}

impl<B: Backend> Devices<B> {
    fn look(settings: &HostSettings<'_>) -> Result<Devices<B>, String> {
        let generation = B::generation();
        let devices = B::probe(settings).map_err(|unavailable| unavailable.0)?;
        let cells: Vec<_> = devices.into_iter().map(cell).collect();
        let raw = pointers(&cells);
        Ok(Devices { cells, generation, raw })
    }

    /// Takes in what has changed since.
    fn update(&mut self) {
        let generation = B::generation();
        if generation == self.generation {
            return;
        }
        let known: Vec<&B::Device> = self.cells.iter().map(|cell| &cell.device).collect();
        let Changes { gone, new } = B::changes(&known);
        let mut at = 0..;
        self.cells.retain(|_| at.next().is_some_and(|i: usize| !gone.contains(&i)));
        self.cells.extend(new.into_iter().map(cell));
        (self.generation, self.raw) = (generation, pointers(&self.cells));
    }
}

/// The extension `agent`.
pub(crate) fn agent<B: BackendStatic>() -> *const c_void {
    let made = B::instance().agent.get_or_init(|| abi::agent::Agent {
        struct_size: size_of::<abi::agent::Agent>() as u32,
        is_agent: u32::from(caught(B::agent).ok().flatten().is_some()),
        serve: Some(serve::<B>),
        isolate: B::isolate().map(|_| isolate::<B> as _),
    });
    std::ptr::from_ref(made).cast()
}

unsafe extern "C" fn serve<B: BackendStatic>() -> *mut abi::Error {
    entry("serve", || B::agent().map_or(Ok(()), |serve| serve()))
}

unsafe extern "C" fn isolate<B: BackendStatic>(key: Str) {
    // SAFETY: the caller's text lives for the call.
    let key = unsafe { key.as_str() };
    let _ = caught(|| B::isolate().map(|isolate| isolate(key)));
}

/// A list for the host, which lives for ever: there is one per change.
fn pointers<D>(cells: &[&'static Cell<D>]) -> &'static [*mut abi::Device] {
    let pointers = cells.iter().map(|&cell| std::ptr::from_ref(cell).cast_mut().cast());
    pointers.collect::<Vec<_>>().leak()
}

fn cell<D: Device>(device: D) -> &'static Cell<D> {
    let info = device.info();
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let text = |text: String| Str::new(text.leak());
    let info = abi::DeviceInfo {
        struct_size: size_of::<abi::DeviceInfo>() as u32,
        class: match info.class {
            Class::Cpu => abi::CLASS_CPU,
            Class::Gpu => abi::CLASS_GPU,
            Class::Fpga => abi::CLASS_FPGA,
            Class::Other => abi::CLASS_OTHER,
        },
        flags: flag(info.emulated, abi::DEVICE_EMULATED)
            | flag(info.test, abi::DEVICE_TEST)
            | flag(info.host_memory, abi::DEVICE_HOST_MEMORY)
            | flag(info.synchronous, abi::DEVICE_SYNCHRONOUS)
            | flag(info.runs_functions, abi::DEVICE_RUNS_FUNCTIONS)
            | flag(info.keeps_launches, abi::DEVICE_KEEPS_LAUNCHES)
            | flag(info.waits_in_queue, abi::DEVICE_WAITS_IN_QUEUE)
            | flag(info.remote, abi::DEVICE_REMOTE)
            | abi::DEVICE_IN_ORDER,
        threads: info.threads,
        name: text(info.name),
        vendor: text(info.vendor),
        version: text(info.version),
        physical_id: text(info.physical_id),
        rate_hint: info.rate_hint,
        memory_bytes: info.memory_bytes,
        features: text(info.features),
        targets: text(info.targets.join(",")),
        suffix: text(info.suffix),
    };
    let spaces = device.spaces();
    Box::leak(Box::new(Cell { device, info, spaces }))
}

/// # Safety
/// `device` was given by `devices::<B>`.
#[inline]
unsafe fn cell_of<B: Backend>(device: *mut abi::Device) -> &'static Cell<B::Device> {
    // SAFETY: the cells are leaked.
    unsafe { &*device.cast_const().cast() }
}

unsafe extern "C" fn probe<B: BackendStatic>() -> *mut abi::Error {
    // SAFETY: the variables are ours, and there are no settings.
    unsafe { open::<B>(std::ptr::null(), 0, &mut std::ptr::null(), &mut 0) }
}

unsafe extern "C" fn devices<B: BackendStatic>(
    devices: *mut *const *mut abi::Device,
    count: *mut usize,
) -> *mut abi::Error {
    // SAFETY: the host's variables, and there are no settings.
    unsafe { open::<B>(std::ptr::null(), 0, devices, count) }
}

unsafe extern "C" fn open<B: BackendStatic>(
    settings: *const abi::Attr,
    setting_count: usize,
    devices: *mut *const *mut abi::Device,
    count: *mut usize,
) -> *mut abi::Error {
    entry("open", || {
        // SAFETY: the host's settings live for the call.
        match find::<B>(unsafe { HostSettings::new(settings, setting_count) }) {
            Ok(found) => {
                // What panicked meanwhile has changed nothing, or all.
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.update();
                // SAFETY: the host's variables.
                unsafe { (*devices, *count) = (found.raw.as_ptr(), found.raw.len()) };
                Ok(())
            }
            Err(reason) => Err(Failure::new(Code::Unavailable, reason.clone())),
        }
    })
}

unsafe extern "C" fn generation<B: Backend>() -> u64 {
    caught(B::generation).unwrap_or(0)
}

unsafe extern "C" fn resolve<B: Backend>(
    suffix: Str,
    devices: *const *mut abi::Device,
    count: usize,
    selected: *mut usize,
    selected_count: *mut usize,
) -> *mut abi::Error {
    entry("resolve", || {
        // SAFETY: the host's text, and devices of this backend.
        let (suffix, devices): (&str, Vec<&B::Device>) = unsafe {
            let device = |i| &cell_of::<B>(*devices.add(i)).device;
            (suffix.as_str(), (0..count).map(device).collect())
        };
        let found =
            B::resolve(suffix, &devices).unwrap_or_else(|| Err(Failure::unsupported("keys of its own")))?;
        if found.len() > count || found.iter().any(|&i| i >= count) {
            let text = format!("`resolve` selects devices {found:?} of {count}");
            return Err(Failure::new(Code::Invalid, text));
        }
        // SAFETY: the host's variable, and its room for `count` numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr(), selected, found.len());
            *selected_count = found.len();
        }
        Ok(())
    })
}

unsafe extern "C" fn resolve_kernel<B: Backend>(
    device: *mut abi::Device,
    descriptor: Str,
    implementation: *mut *const abi::Implementation,
) -> *mut abi::Error {
    entry("resolve_kernel", || {
        // SAFETY: a device of this backend, the host's text and variable.
        unsafe {
            let found = cell_of::<B>(device).device.resolve_kernel(descriptor.as_str());
            *implementation = found.map_or(std::ptr::null(), std::ptr::from_ref);
        }
        Ok(())
    })
}

unsafe extern "C" fn has<B: Backend>(device: *mut abi::Device, kind: u32, name: Str) -> u32 {
    let has = || {
        // SAFETY: a device of this backend, the host's text.
        let (device, name) = unsafe { (&cell_of::<B>(device).device, name.as_str()) };
        match kind {
            abi::HAS_FEATURE => device.has_feature(name),
            abi::HAS_LIBRARY => device.has_library(name),
            _ => false,
        }
    };
    u32::from(caught(has).unwrap_or(false))
}

unsafe extern "C" fn device_info<B: Backend>(
    device: *mut abi::Device,
    info: *mut abi::DeviceInfo,
) -> *mut abi::Error {
    entry("device_info", || {
        // SAFETY: a device of this backend; the host's struct has at least `struct_size` bytes.
        unsafe {
            let known = &cell_of::<B>(device).info;
            let bytes = ((*info).struct_size as usize).min(size_of::<abi::DeviceInfo>());
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(known).cast::<u8>(), info.cast::<u8>(), bytes);
        }
        Ok(())
    })
}

unsafe extern "C" fn prepare<B: Backend>(
    device: *mut abi::Device,
    implementation: *const abi::Implementation,
    kernel: *mut *mut abi::Kernel,
) -> *mut abi::Error {
    entry("prepare", || {
        fork::watch();
        // SAFETY: a device of ours; the host keeps implementations for ever.
        let prepared = unsafe { cell_of::<B>(device).device.prepare(&*implementation)? };
        // SAFETY: the host's variable.
        unsafe { *kernel = Box::into_raw(Box::new(prepared)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn release<B: Backend>(_device: *mut abi::Device, kernel: *mut abi::Kernel) {
    let _ = caught(|| {
        if !kernel.is_null() {
            // SAFETY: made by `prepare`, released once.
            drop(unsafe { Box::from_raw(kernel.cast::<<B::Device as Device>::Kernel>()) });
        }
    });
}

unsafe extern "C" fn inline_items<B: Backend>(device: *mut abi::Device, kernel: *mut abi::Kernel) -> u64 {
    let items = || {
        // SAFETY: a device of this backend, and a kernel made by its `prepare`.
        let (device, kernel) = unsafe { (&cell_of::<B>(device).device, &*kernel.cast_const().cast()) };
        device.inline_items(kernel)
    };
    caught(items).unwrap_or(0)
}

unsafe extern "C" fn preload<B: Backend>(
    device: *mut abi::Device,
    implementation: *const abi::Implementation,
) {
    // SAFETY: a device of this backend; the host keeps implementations for ever.
    let preload = || unsafe { cell_of::<B>(device).device.preload(&*implementation) };
    // An error here recurs when it is prepared, and is reported then.
    let _ = caught(preload);
}

unsafe extern "C" fn image<B: Backend>(device: *mut abi::Device, kernel: *mut abi::Kernel) -> u64 {
    let image = || {
        // SAFETY: a device of this backend, and a kernel made by its `prepare`.
        let (device, kernel) = unsafe { (&cell_of::<B>(device).device, &*kernel.cast_const().cast()) };
        device.image(kernel)
    };
    caught(image).unwrap_or(0)
}

unsafe extern "C" fn forget_host<B: Backend>(device: *mut abi::Device, pointer: *mut c_void, bytes: u64) {
    // SAFETY: a device of this backend.
    let forget = || unsafe { cell_of::<B>(device).device.forget_host(pointer.cast(), bytes) };
    // If it keeps something after all, that costs memory only.
    let _ = caught(forget);
}

unsafe extern "C" fn submit<B: Backend>(
    device: *mut abi::Device,
    submission: *const Submission,
) -> *mut abi::Error {
    entry("submit", || {
        // SAFETY: the host's submission lives for the call.
        let raw = unsafe { &*submission };
        // SAFETY: a device of this backend.
        let cell = unsafe { cell_of::<B>(device) };
        if raw.wait_count != 0 {
            // SAFETY: the submission has that many events.
            unsafe { wait_for(cell, Upcoming::Launch, raw.waits, raw.wait_count as usize)? };
        }
        // SAFETY: made by `prepare` of the same backend.
        let kernel = unsafe { &*raw.kernel.cast_const().cast::<<B::Device as Device>::Kernel>() };
        let event = cell.device.submit(&Launch { raw, kernel })?;
        if !raw.signal.is_null() {
            // SAFETY: the host's variable.
            unsafe { *raw.signal = event.map_or(std::ptr::null_mut(), Event::into_raw) };
        } else if let Some(event) = event {
            wait_and_release(event)?;
        }
        Ok(())
    })
}

/// Waits for an event that the host does not get.
#[inline]
fn wait_and_release(event: Event) -> Result<(), Failure> {
    let outcome = caught(|| wait_here(|| event.ready(), || event.wait()));
    release_event(event);
    outcome.unwrap_or_else(|panic| Err(panicked("event_wait", &panic)))
}

/// Waits for a device, unless its thread or queue is the parent's of this child of `fork`.
#[inline]
fn wait_here(
    ready: impl FnOnce() -> bool,
    wait: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    if fork::is_child() && !ready() {
        return Err(Failure::new(Code::Unavailable, Forked.to_string()));
    }
    wait()
}

/// Drops an event. A panic here does not tell whether the work is done.
fn release_event(event: Event) {
    let _ = caught(|| drop(event));
}

/// Waits for events, or lets the queue of what comes next wait for them.
///
/// # Safety
/// `waits` points to `count` events of Rust backends.
#[cold]
unsafe fn wait_for<D: Device>(
    cell: &Cell<D>,
    next: Upcoming,
    waits: *const *mut abi::Event,
    count: usize,
) -> Result<(), Failure> {
    let in_queue = cell.info.flags & abi::DEVICE_WAITS_IN_QUEUE != 0;
    for i in 0..count {
        // SAFETY: the caller vouches; the event stays the host's.
        let event = ManuallyDrop::new(unsafe { Event::from_raw(*waits.add(i)) });
        if !in_queue || event.ready() || !cell.device.run_after(&event, next)? {
            event.wait()?;
        }
    }
    Ok(())
}

unsafe extern "C" fn spaces<B: Backend>(
    device: *mut abi::Device,
    spaces: *mut *const abi::MemorySpace,
    count: *mut usize,
) -> *mut abi::Error {
    // SAFETY: a device of this backend, the host's variables.
    entry("spaces", || unsafe {
        let known = &cell_of::<B>(device).spaces;
        (*spaces, *count) = (known.as_ptr(), known.len());
        Ok(())
    })
}

unsafe extern "C" fn alloc<B: Backend>(
    device: *mut abi::Device,
    space: u32,
    bytes: u64,
    buffer: *mut abi::Buffer,
) -> *mut abi::Error {
    // SAFETY: a device of this backend, the host's variable.
    entry("alloc", || unsafe {
        *buffer = cell_of::<B>(device).device.alloc(space, bytes)?;
        Ok(())
    })
}

unsafe extern "C" fn free<B: Backend>(device: *mut abi::Device, buffer: abi::Buffer) -> *mut abi::Error {
    // SAFETY: a device of this backend.
    entry("free", || unsafe { cell_of::<B>(device) }.device.free(buffer))
}

unsafe extern "C" fn shared_file<B: Backend>(
    device: *mut abi::Device,
    buffer: abi::Buffer,
    file: *mut i32,
    offset: *mut u64,
) -> *mut abi::Error {
    entry("shared_file", || {
        // SAFETY: a device of this backend, and variables of the host.
        unsafe { (*file, *offset) = cell_of::<B>(device).device.shared_file(buffer)? };
        Ok(())
    })
}

unsafe extern "C" fn clear<B: Backend>(
    device: *mut abi::Device,
    buffer: abi::Buffer,
    bytes: u64,
) -> *mut abi::Error {
    // SAFETY: a device of this backend, and a buffer that the host has for itself.
    entry("clear", || unsafe { cell_of::<B>(device).device.clear(buffer, bytes) })
}

unsafe extern "C" fn native_handle<B: Backend>(
    device: *mut abi::Device,
    kind: Str,
    object: *const c_void,
    handle: *mut u64,
) -> *mut abi::Error {
    // SAFETY: a device of this backend; the object is one of its buffers, or NULL; the host's variable and
    // text.
    entry("native_handle", || unsafe {
        let buffer = object.cast::<abi::Buffer>().as_ref().copied();
        *handle = cell_of::<B>(device).device.native_handle(kind.as_str(), buffer)?;
        Ok(())
    })
}

unsafe extern "C" fn register_host<B: Backend>(
    device: *mut abi::Device,
    pointer: *mut c_void,
    bytes: u64,
    buffer: *mut abi::Buffer,
) -> *mut abi::Error {
    // SAFETY: a device of this backend, the host's variable; the host keeps the memory.
    entry("register_host", || unsafe {
        *buffer = cell_of::<B>(device).device.register_host(pointer.cast(), bytes)?;
        Ok(())
    })
}

unsafe extern "C" fn copy_box<B: Backend>(
    device: *mut abi::Device,
    source: abi::Buffer,
    destination: abi::Buffer,
    shape: *const abi::CopyBox,
    waits: *const *mut abi::Event,
    wait_count: usize,
    signal: *mut *mut abi::Event,
) -> *mut abi::Error {
    entry("copy_box", || {
        // SAFETY: the host's events, a device of this backend, boxes that the host vouches for.
        unsafe {
            let cell = cell_of::<B>(device);
            if wait_count != 0 {
                wait_for(
                    cell,
                    Upcoming::Copy { from: source.space, to: destination.space },
                    waits,
                    wait_count,
                )?;
            }
            if signal.is_null() {
                return cell.device.copy_box(source, destination, &*shape);
            }
            let event = cell.device.begin_copy(source, destination, &*shape)?;
            *signal = event.map_or(std::ptr::null_mut(), Event::into_raw);
        }
        Ok(())
    })
}

unsafe extern "C" fn can_copy<B: Backend>(
    device: *mut abi::Device,
    from: u32,
    to: u32,
    rate: *mut f64,
) -> u32 {
    caught(|| {
        // SAFETY: a device of this backend.
        let hint = unsafe { cell_of::<B>(device) }.device.can_copy(from, to);
        if let (Some(hint), false) = (hint, rate.is_null()) {
            // SAFETY: the host's variable.
            unsafe { *rate = hint };
        }
        u32::from(hint.is_some())
    })
    .unwrap_or(0)
}

unsafe extern "C" fn query_device<B: Backend>(
    object: *const c_void,
    key: Str,
    value: *mut *mut abi::Error,
) -> *mut abi::Error {
    entry("query", || {
        // SAFETY: a device of this backend, the host's text and variable.
        unsafe {
            let key = key.text();
            match cell_of::<B>(object.cast_mut().cast()).device.query(&key) {
                Some(text) => *value = raise(&Failure::new(Code::Other, text)),
                None => {
                    return Err(Failure::new(
                        Code::Unsupported,
                        format!("this device has no property `{key}`"),
                    ));
                }
            }
        }
        Ok(())
    })
}

/// # Safety
/// `event` is of [`Event::into_raw`], and not released.
unsafe fn event_of<'a>(event: *mut abi::Event) -> &'a Kind {
    // SAFETY: the caller vouches.
    unsafe { &*event.cast_const().cast() }
}

unsafe extern "C" fn event_create(_device: *mut abi::Device, event: *mut *mut abi::Event) -> *mut abi::Error {
    // SAFETY: the host's variable.
    unsafe { *event = Event::of_host().into_raw() };
    std::ptr::null_mut()
}

unsafe extern "C" fn event_signal(event: *mut abi::Event, error: *mut abi::Error) -> *mut abi::Error {
    entry("event_signal", || {
        // SAFETY: an error of the host.
        let outcome = if error.is_null() { Ok(()) } else { Err(unsafe { Failure::of_host(error) }) };
        // SAFETY: an event of this backend.
        match unsafe { event_of(event) } {
            Kind::User(user) if user.signal(outcome) => Ok(()),
            Kind::User(_) => Err(Failure::new(Code::Invalid, "the event has fired already")),
            Kind::Device(_) => {
                Err(Failure::new(Code::Invalid, "only events made by event_create can be signalled"))
            }
        }
    })
}

unsafe extern "C" fn event_in_queue(event: *mut abi::Event) -> u32 {
    // SAFETY: an event of this backend.
    caught(|| u32::from(unsafe { event_of(event) }.completion().in_queue())).unwrap_or(0)
}

unsafe extern "C" fn event_ready(event: *mut abi::Event) -> u32 {
    // SAFETY: an event of this backend.
    caught(|| u32::from(unsafe { event_of(event) }.completion().ready())).unwrap_or(0)
}

unsafe extern "C" fn event_wait(event: *mut abi::Event) -> *mut abi::Error {
    entry("event_wait", || {
        // SAFETY: an event of this backend.
        let completion = unsafe { event_of(event) }.completion();
        wait_here(|| completion.ready(), || completion.wait())
    })
}

unsafe extern "C" fn event_on_ready(
    event: *mut abi::Event,
    callback: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
) -> *mut abi::Error {
    struct Call(unsafe extern "C" fn(*mut c_void), *mut c_void);
    // SAFETY: the host allows its callback on any thread.
    unsafe impl Send for Call {}
    impl Call {
        fn run(self) {
            // SAFETY: called once, after the event, as the host asked.
            unsafe { (self.0)(self.1) }
        }
    }
    entry("event_on_ready", || {
        let call = Call(callback, context);
        // SAFETY: an event of this backend.
        unsafe { event_of(event) }.completion().on_ready(Box::new(move || call.run()));
        Ok(())
    })
}

unsafe extern "C" fn event_times(event: *mut abi::Event, start: *mut u64, end: *mut u64) -> *mut abi::Error {
    entry("event_times", || {
        // SAFETY: an event of this backend.
        match unsafe { event_of(event) }.completion().times() {
            Some(times) => {
                // SAFETY: the host's variables.
                unsafe { (*start, *end) = times };
                Ok(())
            }
            None => Err(Failure::new(Code::Unsupported, "this event keeps no times")),
        }
    })
}

unsafe extern "C" fn event_release(event: *mut abi::Event) {
    if !event.is_null() {
        // SAFETY: of `into_raw`, released once.
        release_event(unsafe { Event::from_raw(event) });
    }
}
