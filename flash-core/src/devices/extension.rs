//! The extension `registry` of the host's interface: a plugin sees the devices and implementations of the
//! program that loaded it, and adds implementations. A plugin has a registry of its own, which knows nothing
//! but itself.
//!
//! It shows the default context. Implementations that are added are seen by all contexts, in what they plan
//! from then on. While this thread looks for devices or asks a plugin what it brings, nothing can be listed.

use super::catalog::Catalog;
use super::registry::Registry;
use super::{DeviceHandle, loader};
use flash_backend::__host::{HOST, HostExtension};
use flash_types::abi::{self, Implementation, RegisteredDevice, RegistryApi, Str};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Version 1 of it.
static REGISTRY: RegistryApi = RegistryApi {
    struct_size: size_of::<RegistryApi>() as u32,
    reserved: 0,
    devices: Some(devices),
    implementations: Some(visit_implementations),
    add: Some(add),
    devices_of: Some(devices_of),
};

inventory::submit! {
    HostExtension { name: "registry", version: 1, table: || (&raw const REGISTRY).cast() }
}

static ADDED: Mutex<Vec<&'static Implementation>> = Mutex::new(Vec::new());
/// How often some were added. Changes with `ADDED` locked.
static GENERATION: AtomicU64 = AtomicU64::new(0);

fn lock() -> MutexGuard<'static, Vec<&'static Implementation>> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All implementations that plugins have added.
pub(super) fn implementations() -> Vec<&'static Implementation> {
    lock().clone()
}

/// Another number whenever implementations were added.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// This thread calls a plugin while it holds what a list of devices would need.
pub(super) struct Looking {
    before: bool,
}

impl Looking {
    pub fn begin() -> Looking {
        Looking { before: LOOKING.replace(true) }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        LOOKING.set(self.before);
    }
}

/// An error for a plugin that used an extension wrongly.
pub(crate) fn error(text: &str) -> *mut abi::Error {
    // SAFETY: the text lives for the call.
    HOST.error_create.map_or(null_mut(), |create| unsafe { create(abi::ERROR_INVALID, Str::new(text)) })
}

/// Calls `body` with the registry of the default context, unless this thread is making part of it.
fn with_registry(body: impl FnOnce(&'static Registry) -> *mut abi::Error) -> *mut abi::Error {
    match LOOKING.get() {
        false => body(Catalog::of_process().registry()),
        true => error(
            "expected a call after the plugin is loaded and its devices are found, found one from within its query, `probe`, `devices` or `open`: list devices and implementations later, when a kernel is prepared or from a thread of the plugin",
        ),
    }
}

unsafe extern "C" fn devices(
    visit: unsafe extern "C" fn(*mut c_void, *const RegisteredDevice) -> *mut abi::Error,
    argument: *mut c_void,
) -> *mut abi::Error {
    with_registry(|registry| visit_devices(registry.devices(), visit, argument))
}

unsafe extern "C" fn devices_of(
    key: Str,
    visit: unsafe extern "C" fn(*mut c_void, *const RegisteredDevice) -> *mut abi::Error,
    argument: *mut c_void,
) -> *mut abi::Error {
    // SAFETY: the caller's text lives for the call.
    with_registry(|registry| match registry.resolve(unsafe { key.as_str() }) {
        Ok(devices) => visit_devices(devices.into_iter(), visit, argument),
        Err(why) => error(&why.to_string()),
    })
}

fn visit_devices(
    devices: impl Iterator<Item = &'static DeviceHandle>,
    visit: unsafe extern "C" fn(*mut c_void, *const RegisteredDevice) -> *mut abi::Error,
    argument: *mut c_void,
) -> *mut abi::Error {
    for device in devices {
        let device = RegisteredDevice {
            struct_size: size_of::<RegisteredDevice>() as u32,
            reserved: 0,
            id: Str::new(device.id()),
            api: device.api,
            device: device.raw,
        };
        // SAFETY: the caller's function with its own argument; the device lives for the call, what it names
        // for ever.
        let error = unsafe { visit(argument, &device) };
        if !error.is_null() {
            return error;
        }
    }
    null_mut()
}

unsafe extern "C" fn visit_implementations(
    visit: unsafe extern "C" fn(*mut c_void, *const Implementation) -> *mut abi::Error,
    argument: *mut c_void,
) -> *mut abi::Error {
    with_registry(|registry| {
        for found in registry.implementations() {
            // SAFETY: the caller's function with its own argument; implementations live for ever.
            let error = unsafe { visit(argument, found.raw) };
            if !error.is_null() {
                return error;
            }
        }
        null_mut()
    })
}

unsafe extern "C" fn add(list: *const *const Implementation, count: usize) -> *mut abi::Error {
    if list.is_null() && count > 0 {
        return error(&format!("expected a list of {count} implementations, found NULL"));
    }
    let mut new = Vec::new();
    for i in 0..count {
        // SAFETY: the caller's list of as many, which live for ever.
        match unsafe { loader::implementation(*list.add(i)) } {
            Ok(implementation) => new.push(implementation),
            Err(outcome) => return error(&format!("implementation {i} of {count} to be added: {outcome}")),
        }
    }
    let mut added = lock();
    added.extend(new);
    GENERATION.fetch_add(1, Ordering::Release);
    null_mut()
}
