//! A device as the runtime knows it: its id, what it is, and what may be asked of it.
//!
//! The registry makes one for each device that a backend gives, and none is ever freed.

use super::registry::RegisteredImplementation;
use super::reports::{DeviceReport, SpaceReport};
use super::{loader, spaces, take_error, words};
use crate::error::Error;
use flash_backend::{DeviceInfo, cpu_has, has_library};
use flash_types::Code;
use flash_types::abi::{self, BackendApi, Implementation, MemorySpace, Str};
use flash_types::descriptor::KernelDescriptor;
use smallvec::SmallVec;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a module above this one keeps for each device: one type of thing, or nothing.
#[derive(Default)]
pub(crate) struct Slot(OnceLock<Option<&'static (dyn Any + Send + Sync)>>);

impl Slot {
    /// What is kept; `make` makes it the first time.
    #[inline]
    pub fn get<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Option<&'static T>) -> Option<&'static T> {
        let kept = *self.0.get_or_init(|| make().map(|made| made as _));
        kept.map(|kept| kept.downcast_ref().expect("one module has this slot"))
    }
}

/// A device that a runtime can use.
pub struct DeviceHandle {
    pub(crate) api: &'static BackendApi,
    pub(crate) raw: *mut abi::Device,
    /// Address of the first of the devices that its backend found with it: those that know each other.
    pub(crate) found_with: usize,
    id: String,
    info: DeviceInfo,
    /// Its own implementations, by the addresses that its backend gave.
    resolved: Mutex<BTreeMap<usize, &'static Implementation>>,
    pub(crate) memory: Slot,
    pub(crate) lanes: Slot,
    /// True once its programs are being loaded early.
    pub(crate) preloaded: AtomicBool,
}

/// Work of a device, which something comes after: its event, as long as it is not given back.
#[derive(Clone, Copy)]
pub(crate) struct After {
    pub device: &'static DeviceHandle,
    pub event: *mut abi::Event,
}

impl After {
    /// Whether queues of the device wait for it by themselves.
    pub fn is_in_queue(self) -> bool {
        self.device.info.waits_in_queue
            // SAFETY: an event of this vtable, which is not given back.
            && self.device.api.event_in_queue.is_none_or(|is| unsafe { is(self.event) } != 0)
    }

    /// The events, for a queue of this device, which must be its own.
    pub fn in_queue_of(
        all: &[After],
        device: &DeviceHandle,
    ) -> Result<SmallVec<[*mut abi::Event; 4]>, Error> {
        let event = |after: &After| match std::ptr::eq(after.device, device) {
            true => Ok(after.event),
            false => Err(Error::Backend {
                code: Code::Invalid,
                text: format!(
                    "{} got an event of {} to wait for: please report it",
                    device.id, after.device.id
                ),
            }),
        };
        all.iter().map(event).collect()
    }
}

// SAFETY: the vtable's functions may be called from any thread with any device.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

impl DeviceHandle {
    /// A new one, for the device that its backend gave as the one of this number.
    ///
    /// # Safety
    /// A device of a checked vtable.
    pub(super) unsafe fn new(
        key: &str,
        number: usize,
        api: &'static BackendApi,
        raw: *mut abi::Device,
        found_with: usize,
    ) -> Result<&'static DeviceHandle, String> {
        // SAFETY: all zeros is a value of it.
        let mut info: abi::DeviceInfo = unsafe { std::mem::zeroed() };
        info.struct_size = size_of::<abi::DeviceInfo>() as u32;
        let slot = api.device_info.ok_or("a required slot is NULL")?;
        // SAFETY: the caller vouches for the device; the answer is an error of this host, and strings live
        // for ever.
        let (mut info, flags) = unsafe {
            take_error(slot(raw, &mut info)).map_err(words)?;
            (DeviceInfo::from_abi(&info), info.flags)
        };
        if info.targets.is_empty() {
            // SAFETY: strings of a vtable live for ever.
            info.targets.push(unsafe { api.target.text() });
        }
        if info.suffix.is_empty() {
            info.suffix = number.to_string();
        }
        let id = format!("{key}:{}", info.suffix);
        if !info.synchronous {
            check_queue(&id, flags, api)?;
        }
        Ok(Box::leak(Box::new(DeviceHandle {
            api,
            raw,
            found_with,
            id,
            info,
            resolved: Mutex::default(),
            memory: Slot::default(),
            lanes: Slot::default(),
            preloaded: AtomicBool::new(false),
        })))
    }

    /// The vtable of its backend, for the suite that calls its slots.
    #[doc(hidden)]
    pub fn api(&self) -> &'static BackendApi {
        self.api
    }

    /// The device, as its vtable knows it.
    #[doc(hidden)]
    pub fn raw(&self) -> *mut abi::Device {
        self.raw
    }

    /// Its id, such as `ALL_CPU:0`: a runtime key that selects just this one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether one of its completion events has fired, if its backend says so.
    ///
    /// # Safety
    /// The event is of this device, and was not given back.
    pub(crate) unsafe fn has_fired(&self, event: *mut abi::Event) -> bool {
        // SAFETY: the caller vouches.
        self.api.event_ready.is_some_and(|ready| unsafe { ready(event) } != 0)
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// A property that its backend knows by this name, as JSON.
    ///
    /// # Errors
    /// The backend's, if it knows none.
    pub fn query(&self, key: &str) -> Result<String, Error> {
        let no_answer = |code, why: &str| Error::Backend { code, text: format!("device {}: {why}", self.id) };
        let query = self.api.query.ok_or_else(|| no_answer(Code::Unsupported, "there is no slot `query`"))?;
        let mut value = std::ptr::null_mut();
        // SAFETY: a device of this vtable, and our own variable; the text lives for the call.
        unsafe { take_error(query(self.raw.cast_const().cast(), Str::new(key), &mut value))? };
        // SAFETY: the answer is an error object of this host, or NULL.
        match unsafe { take_error(value) } {
            Err(Error::Backend { text, .. }) => Ok(text),
            _ => Err(no_answer(Code::Invalid, "expected an answer to `query`, found NULL")),
        }
    }

    /// The vendor's own handle of the object that `kind` names, for code that shares the device with FLASH:
    /// `queue`, `context` and `device` of an OpenCL device, `stream`, `context` and `device` of CUDA's. It
    /// stays FLASH's, and valid as long as the process lives.
    ///
    /// # Errors
    /// The backend's, if it has none of this kind.
    pub fn native_handle(&self, kind: &str) -> Result<u64, Error> {
        let slot = self.api.native_handle.ok_or_else(|| Error::Backend {
            code: Code::Unsupported,
            text: format!("device {}: there is no slot `native_handle`", self.id),
        })?;
        let mut handle = 0;
        // SAFETY: a device of this vtable, a text that lives for the call, no object, and our own variable.
        unsafe { take_error(slot(self.raw, Str::new(kind), std::ptr::null(), &mut handle))? };
        Ok(handle)
    }

    /// The memory spaces that its backend lists: their kinds, sizes, and NUMA nodes. Empty if it lists none.
    pub fn memory_spaces(&self) -> Vec<MemorySpace> {
        spaces::listed(self).unwrap_or_default()
    }

    /// Bytes per second at which it copies from one memory space to another; `None` if it cannot, or does not
    /// say that it can; 0 if it does not say how fast.
    pub(crate) fn copies(&self, [from, to]: [u32; 2]) -> Option<f64> {
        let can = self.api.can_copy?;
        let mut rate = 0.0;
        // SAFETY: a device of this vtable and our own variable.
        (unsafe { can(self.raw, from, to, &mut rate) } == 1).then_some(rate)
    }

    /// The place of a target in its list; `None` if it does not run implementations of that target.
    pub(crate) fn preference(&self, target: &str) -> Option<usize> {
        self.info.targets.iter().position(|known| known == target)
    }

    /// True if its machine has a CPU feature.
    pub(crate) fn has_feature(&self, feature: &str) -> bool {
        self.has(abi::HAS_FEATURE, feature).unwrap_or_else(|| cpu_has(feature))
    }

    /// True if its machine has a shared library, by one of these names.
    pub(crate) fn has_library(&self, names: &str) -> bool {
        self.has(abi::HAS_LIBRARY, names).unwrap_or_else(|| has_library(names))
    }

    fn has(&self, kind: u32, name: &str) -> Option<bool> {
        // SAFETY: a device of this vtable, and a text that lives for the call.
        self.api.has.map(|has| unsafe { has(self.raw, kind, Str::new(name)) } != 0)
    }

    /// The implementation that the device itself has of a kernel.
    ///
    /// # Errors
    /// The backend's.
    pub(crate) fn resolve_kernel(
        &self,
        descriptor: &KernelDescriptor,
    ) -> Result<Option<RegisteredImplementation>, Error> {
        let Some(resolve) = self.api.resolve_kernel else { return Ok(None) };
        let (text, mut raw) = (descriptor.to_json(), std::ptr::null());
        // SAFETY: a device of this vtable, a text that lives for the call, our own variable.
        match unsafe { take_error(resolve(self.raw, Str::new(&text), &mut raw)) } {
            Err(Error::Backend { code: Code::Unsupported, .. }) => return Ok(None),
            outcome => outcome?,
        }
        if raw.is_null() {
            return Ok(None);
        }
        // Each is checked, and copied, once.
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = match resolved.get(&raw.addr()) {
            Some(checked) => checked,
            None => {
                // SAFETY: not NULL, and the slot's answer, which lives for ever.
                let checked = unsafe { loader::implementation(raw) }.map_err(|outcome| Error::Backend {
                    code: Code::Invalid,
                    text: format!("device {}, `resolve_kernel`: {outcome}", self.id),
                })?;
                resolved.entry(raw.addr()).or_insert(checked)
            }
        };
        Ok(Some(RegisteredImplementation { raw: checked, plugin: usize::MAX, resolved: true }))
    }

    pub(super) fn report(&self) -> DeviceReport {
        let value = |key: &str| Some((key.to_owned(), serde_json::from_str(&self.query(key).ok()?).ok()?));
        let properties = ["platform", "limits", "metrics"].into_iter().filter_map(value).collect();
        let spaces = self.memory_spaces().iter().map(SpaceReport::of).collect();
        DeviceReport { id: self.id.clone(), info: self.info.clone(), spaces, properties }
    }
}

impl std::fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.id)
    }
}

/// Checks a device whose work goes on after `submit`: that it runs submissions in order, and that the runtime
/// learns of their end without a thread that waits.
///
/// # Errors
/// What is missing, and what to do.
fn check_queue(id: &str, flags: u32, api: &BackendApi) -> Result<(), String> {
    if flags & abi::DEVICE_IN_ORDER == 0 {
        return Err(format!(
            "{id} may work on after `submit` (it lacks the flag FLASH_DEVICE_SYNCHRONOUS), and does not say that it \
             runs submissions in order, which the runtime relies on: set the flag FLASH_DEVICE_IN_ORDER, if it does, \
             or let it wait for the submission before"
        ));
    }
    let slots = [
        ("event_on_ready", api.event_on_ready.is_some()),
        ("event_wait", api.event_wait.is_some()),
        ("event_release", api.event_release.is_some()),
    ];
    match slots.iter().find(|(_, there)| !there) {
        None => Ok(()),
        Some((slot, _)) => Err(format!(
            "{id} may work on after `submit` (it lacks the flag FLASH_DEVICE_SYNCHRONOUS), and its backend lacks the \
             slot `{slot}`: set the flag, if work is done when `submit` returns, or add the slot"
        )),
    }
}
