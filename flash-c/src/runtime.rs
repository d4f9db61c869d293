//! Runtimes, their devices, and what was found.

use crate::error::{Failure, call};
use crate::handle::{get, give, kind, place, take};
use crate::status::*;
use crate::text;
use flash_core::{Context, RuntimeObj};
use serde_json::Value as Json;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// A runtime: some devices, and what is prepared for them. Any thread may use it, several at once.
pub struct RuntimeHandle {
    _opaque: [u8; 0],
}

/// What its handle points to.
pub struct Runtime {
    runtime: RuntimeObj,
    /// Texts of each device.
    devices: OnceLock<Vec<DeviceTexts>>,
}

kind!(Runtime, 1, "runtime");

struct DeviceTexts {
    id: CString,
    name: CString,
    vendor: CString,
    version: CString,
    class: CString,
}

/// A device of a runtime. Its texts are valid until the runtime is closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceReport {
    /// Its id, such as `ALL_CPU:0`: a runtime key that selects just this device.
    pub id: *const c_char,
    /// Its name, for people.
    pub name: *const c_char,
    /// Its manufacturer.
    pub vendor: *const c_char,
    /// The version of its driver or backend.
    pub version: *const c_char,
    /// `cpu`, `gpu`, `fpga` or `other`.
    pub kind: *const c_char,
    /// Bytes of its memory; 0: unknown.
    pub memory_bytes: u64,
    /// Work items that run at the same time, roughly; threads of a CPU.
    pub threads: u32,
    /// 1: it works in the host's memory; 0: it has a memory of its own.
    pub host_memory: u32,
}

impl Runtime {
    /// The runtime itself.
    pub fn object(&self) -> &RuntimeObj {
        &self.runtime
    }

    fn texts(&self) -> Result<&[DeviceTexts], Failure> {
        if self.devices.get().is_none() {
            let devices = self.runtime.devices().iter().map(|device| {
                let info = device.info();
                let class = serde_json::to_value(info.class).ok();
                let class = class.and_then(|class| Some(class.as_str()?.to_lowercase()));
                Ok(DeviceTexts {
                    id: text::for_c(device.id())?,
                    name: text::for_c(&info.name)?,
                    vendor: text::for_c(&info.vendor)?,
                    version: text::for_c(&info.version)?,
                    class: text::for_c(&class.unwrap_or_else(|| "other".to_owned()))?,
                })
            });
            let _ = self.devices.set(devices.collect::<Result<_, Failure>>()?);
        }
        Ok(self.devices.get().map_or(&[], |devices| devices))
    }
}

/// The context of these settings; without any that of the process.
fn context(settings: serde_json::Map<String, Json>) -> Result<Context, Failure> {
    if settings.is_empty() {
        return Ok(Context::default());
    }
    let mut builder = Context::builder();
    for (name, value) in settings {
        builder = match value {
            Json::String(text) => builder.set(&name, text),
            other => builder.set(&name, other),
        };
    }
    Ok(builder.build()?)
}

/// Says that this program may be started again as an agent of its own, for keys such as `OPENCL@agent`: a
/// driver that crashes there is an error of a launch. In a process that was started for that, it does not
/// return. It stands at the beginning of `main`: an agent runs what comes before it.
#[unsafe(no_mangle)]
pub extern "C" fn flash_agent_here() -> i32 {
    call(|| {
        flash_core::agent_here();
        Ok(())
    })
}

/// Opens the runtime of a key: a group (`ALL_ACCEL`, or `ALL`: the best of everything; `ALL_CPU`), a backend
/// (`NVIDIA_GPU`), a device (`NVIDIA_GPU:1`), or a list with commas. To be closed with `flash_runtime_close`.
///
/// `settings` is NULL, for those of the environment, or an object in JSON with settings of this runtime, as
/// in `{"plugin_path": "/opt/plugins", "cpu.devices": 2}`. `docs/c.md` lists them. Plugins are looked for in
/// `plugin_path`, else in the environment's `FLASH_BACKEND_PATH`, else in the folder `flash-backends` beside
/// `libflash.so`.
///
/// Errors: `KEY`, whose text lists the available keys and, for each plugin found but not usable, the reason;
/// `SETTING`; `TEXT`; `POINTER` if `key` or `runtime` is NULL.
///
/// # Safety
/// Texts end with NUL; `runtime` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_runtime_open(
    key: *const c_char,
    settings: *const c_char,
    runtime: *mut *mut RuntimeHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let key = text::required(key, "a runtime key")?;
            let opened = context(text::object(settings, "settings")?)?.runtime(key)?;
            give(Runtime { runtime: opened, devices: OnceLock::new() }, runtime)
        }
    })
}

/// The same devices with options for everything that is submitted to the result, in `with`: a runtime of its
/// own, to be closed by itself.
///
/// `options` is an object in JSON, as in `{"Timeout": {"secs": 5, "nanos": 0}, "Devices": "ALL_CPU:0"}`.
/// `docs/c.md` lists them. NULL: none.
///
/// Errors: `OPTION` for a value that does not fit; `TEXT`; `POINTER`. A name that is no option is refused by
/// the first launch.
///
/// # Safety
/// `runtime` is a handle; `options` ends with NUL; `with` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_runtime_with(
    runtime: *const RuntimeHandle,
    options: *const c_char,
    with: *mut *mut RuntimeHandle,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            let of = get::<Runtime, _>(runtime)?;
            let runtime = of.runtime.options(text::options(options)?);
            give(Runtime { runtime, devices: OnceLock::new() }, with)
        }
    })
}

/// The number of devices of a runtime, at least 1.
///
/// Errors: `POINTER`.
///
/// # Safety
/// `runtime` is a handle; `count` is a place for the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_runtime_device_count(runtime: *const RuntimeHandle, count: *mut usize) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        unsafe {
            *place(count, "number of devices")? = get::<Runtime, _>(runtime)?.runtime.devices().len();
        }
        Ok(())
    })
}

/// Device `index` of a runtime, from 0: the best first.
///
/// Errors: `RANGE` if there is none of that index; `POINTER`.
///
/// # Safety
/// `runtime` is a handle; `report` is a place for the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_runtime_device(
    runtime: *const RuntimeHandle,
    index: usize,
    report: *mut DeviceReport,
) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (runtime, report) =
            unsafe { (get::<Runtime, _>(runtime)?, place(report, "report of a device")?) };
        let devices = runtime.runtime.devices();
        let (Some(device), Some(texts)) = (devices.get(index), runtime.texts()?.get(index)) else {
            let text = format!("expected the index of one of {} devices, found {index}", devices.len());
            return Err(Failure::new(STATUS_RANGE, text));
        };
        let info = device.info();
        *report = DeviceReport {
            id: texts.id.as_ptr(),
            name: texts.name.as_ptr(),
            vendor: texts.vendor.as_ptr(),
            version: texts.version.as_ptr(),
            kind: texts.class.as_ptr(),
            memory_bytes: info.memory_bytes,
            threads: info.threads,
            host_memory: u32::from(info.host_memory),
        };
        Ok(())
    })
}

/// Closes a runtime. NULL is allowed. Kernels, pipelines and memories of it go on living.
///
/// Errors: `POINTER` for what is no runtime, or closed already.
///
/// # Safety
/// `runtime` is NULL or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_runtime_close(runtime: *mut RuntimeHandle) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        drop(unsafe { take::<Runtime, _>(runtime)? });
        Ok(())
    })
}

/// Everything that was found, as JSON: a list of plugins and of what is linked in, each with its `key`,
/// `plugin` (the file, or `embedded`), `outcome` with the reason why one cannot be used, `devices`, and
/// `implementations` with the kernels' names. `settings` are those of `flash_runtime_open`. The text is to be
/// freed with `flash_text_free`.
///
/// Errors: `SETTING`; `TEXT`; `POINTER`.
///
/// # Safety
/// `settings` is NULL or ends with NUL; `json` is a place for a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_found(settings: *const c_char, json: *mut *mut c_char) -> i32 {
    call(|| {
        // SAFETY: the caller vouches.
        let (settings, json) = unsafe { (text::object(settings, "settings")?, place(json, "text")?) };
        let list = serde_json::to_string(&context(settings)?.list())
            .map_err(|error| Failure::new(STATUS_OTHER, format!("the list: {error}")))?;
        *json = text::for_c(&list)?.into_raw();
        Ok(())
    })
}

/// Frees a text of `flash_found`. NULL is allowed.
///
/// # Safety
/// The text is NULL, or of `flash_found` and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flash_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller vouches.
        drop(unsafe { CString::from_raw(text) });
    }
}
