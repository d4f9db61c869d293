//! Discovery of devices and their limits.

use crate::device::OpenClDevice;
use crate::failure::Call;
use flash_backend::offload::ProgramCache;
use flash_backend::{Class, DeviceInfo, Failure, HostSettings, Unavailable, physical_cpus};
use opencl3::device::{
    CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU,
    CL_DEVICE_TYPE_GPU, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, Device,
};
use opencl3::error_codes::{
    CL_DEVICE_NOT_FOUND, CL_PLATFORM_NOT_FOUND_KHR, DLOPEN_FUNCTION_NOT_AVAILABLE, DLOPEN_RUNTIME_LOAD_FAILED,
};
use opencl3::platform::{Platform, get_platforms};
use std::thread::available_parallelism;

/// The limits of a device, as it reports them.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Limits {
    /// Bytes of all parameters of a kernel.
    pub parameter_bytes: usize,
    /// Work items in a work-group.
    pub work_group_size: usize,
    /// Bytes of one buffer.
    pub buffer_bytes: u64,
    /// Bytes to which a sub-buffer is aligned.
    pub alignment: usize,
    /// Work-groups that run at the same time.
    pub compute_units: u32,
    /// Bytes of local memory of a work-group.
    pub local_bytes: u64,
    /// It works in the host's memory: nothing is copied.
    pub in_place: bool,
    /// Copies go through pinned memory: the device's memory is separate from the host's.
    pub pinned: bool,
    /// Version of SPIR-V that it takes; empty: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub spir_v: String,
}

/// A device as it was found.
pub(crate) struct Found {
    pub device: Device,
    pub info: DeviceInfo,
    pub limits: Limits,
    pub platform: String,
    pub extensions: String,
    /// Versions of everything that compiles for it: programs of other versions are not used.
    pub driver: String,
    /// Kernels check the indices of their elements.
    pub check_bounds: bool,
    /// Its compiler takes the option with which it tells of parameters.
    pub tells_parameters: bool,
    /// Its compiler can round `/` and `sqrt` of `float` correctly.
    pub rounds_divisions: bool,
}

/// The devices of a backend: FPGAs, or all others.
pub(crate) fn devices(fpga: bool, settings: &HostSettings<'_>) -> Result<Vec<OpenClDevice>, Unavailable> {
    let cache = ProgramCache::of_settings(settings)?;
    let platforms = get_platforms().map_err(|error| Unavailable(no_platforms(error.0)))?;
    let (mut devices, mut reasons, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for platform in platforms {
        let name = platform.name().unwrap_or_else(|_| "a platform without a name".into());
        if is_fpga(&name) == fpga {
            match devices_of(&platform, &name, settings) {
                Ok(found) => devices.extend(found),
                Err(failure) => reasons.push(format!("{name}: {}", failure.text)),
            }
        }
        names.push(name);
    }
    if devices.is_empty() {
        let what = if fpga { "an FPGA" } else { "an OpenCL device" };
        reasons.insert(0, format!("expected {what}, found none on the platforms {}", names.join(", ")));
        return Err(Unavailable(reasons.join("; ")));
    }
    let device = |(number, found)| OpenClDevice::new(1 + number as u32, found, cache.clone());
    Ok(devices.into_iter().enumerate().map(device).collect())
}

fn no_platforms(code: i32) -> String {
    match code {
        DLOPEN_RUNTIME_LOAD_FAILED => {
            "expected the OpenCL loader libOpenCL.so.1, found none: install it (ocl-icd-libopencl1) and a device's runtime".into()
        }
        CL_PLATFORM_NOT_FOUND_KHR => {
            "expected an OpenCL platform, found the loader alone: install a device's runtime, or look at OCL_ICD_VENDORS".into()
        }
        DLOPEN_FUNCTION_NOT_AVAILABLE => {
            "expected an OpenCL loader, found a library without clGetPlatformIDs: look at OPENCL_DYLIB_PATH".into()
        }
        code => crate::failure::failed("clGetPlatformIDs", code).text,
    }
}

fn is_fpga(platform: &str) -> bool {
    platform.contains("FPGA")
}

fn devices_of(platform: &Platform, name: &str, settings: &HostSettings<'_>) -> Result<Vec<Found>, Failure> {
    let ids = match platform.get_devices(CL_DEVICE_TYPE_ALL) {
        Err(error) if error.0 == CL_DEVICE_NOT_FOUND => return Ok(Vec::new()),
        ids => ids.call("clGetDeviceIDs")?,
    };
    ids.into_iter().map(|id| look_at(Device::new(id), platform, name, settings)).collect()
}

fn look_at(
    device: Device,
    platform: &Platform,
    platform_name: &str,
    settings: &HostSettings<'_>,
) -> Result<Found, Failure> {
    let (copy, check_bounds) = (settings.flag("opencl.copy"), settings.checks_bounds());
    let extensions = device.extensions().call("clGetDeviceInfo")?;
    let kind = device.dev_type().call("clGetDeviceInfo")?;
    let emulated = platform_name.contains("Emulat");
    let class = match kind {
        _ if is_fpga(platform_name) && kind & CL_DEVICE_TYPE_ACCELERATOR != 0 => Class::Fpga,
        _ if kind & CL_DEVICE_TYPE_CPU != 0 => Class::Cpu,
        _ if kind & CL_DEVICE_TYPE_GPU != 0 => Class::Gpu,
        _ => Class::Other,
    };
    let name = text(device.name().call("clGetDeviceInfo")?, "OpenCL device");
    let driver = device.driver_version().call("clGetDeviceInfo")?;
    let version = device.version().call("clGetDeviceInfo")?;
    let compute_units = device.max_compute_units().call("clGetDeviceInfo")?;
    let unified = device.host_unified_memory().unwrap_or(false);
    // A CPU works in the host's memory, and so does a device that takes any host address. Devices before
    // OpenCL 2.0 do not know the second query.
    let shares_memory = kind & CL_DEVICE_TYPE_CPU != 0 && unified
        || device.svm_mem_capability() & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM != 0;
    let limits = Limits {
        parameter_bytes: device.max_parameter_size().call("clGetDeviceInfo")?,
        work_group_size: device.max_work_group_size().call("clGetDeviceInfo")?,
        buffer_bytes: device.max_mem_alloc_size().call("clGetDeviceInfo")?,
        // It is given in bits.
        alignment: (device.mem_base_addr_align().call("clGetDeviceInfo")? as usize / 8).max(1),
        compute_units,
        local_bytes: device.local_mem_size().call("clGetDeviceInfo")?,
        in_place: !copy && shares_memory,
        // An emulator copies in the same memory.
        pinned: copy || !unified && !emulated,
        // Devices before OpenCL 2.1 do not know the query. FPGA platforms may report a version, and then take
        // none.
        spir_v: device.il_version().ok().filter(|_| !is_fpga(platform_name)).unwrap_or_default(),
    };
    let info = DeviceInfo {
        class,
        emulated,
        test: false,
        host_memory: limits.in_place,
        threads: compute_units.max(1),
        vendor: text(device.vendor().call("clGetDeviceInfo")?, "unknown"),
        version: format!("{version}, driver {driver}"),
        physical_id: physical_id(&device, class, emulated, &name),
        rate_hint: rate(&device, class, compute_units),
        memory_bytes: device.global_mem_size().call("clGetDeviceInfo")?,
        features: features(&version, &extensions, !limits.spir_v.is_empty(), class == Class::Cpu || emulated),
        name,
        waits_in_queue: true,
        ..DeviceInfo::default()
    };
    let platform_version = platform.version().unwrap_or_default();
    let tells_parameters = since_1_2(&version);
    let rounds_divisions =
        device.single_fp_config().is_ok_and(|config| config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0);
    let driver = format!("{platform_name} {platform_version} / {version} / {driver}");
    let platform = platform_name.to_owned();
    Ok(Found {
        device,
        info,
        limits,
        platform,
        extensions,
        driver,
        check_bounds,
        tells_parameters,
        rounds_divisions,
    })
}

/// Whether a version, `OpenCL 1.2 ..`, is 1.2 or later.
fn since_1_2(version: &str) -> bool {
    let number = version.split_whitespace().nth(1).and_then(|number| {
        let (major, minor) = number.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    number.is_some_and(|number| number >= (1, 2))
}

fn text(text: String, otherwise: &str) -> String {
    match text.trim() {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    }
}

/// The identity of the hardware, the same for all drivers: the CPU, also as an emulator, or a place on the
/// bus.
fn physical_id(device: &Device, class: Class, emulated: bool, name: &str) -> String {
    if class == Class::Cpu || emulated {
        return physical_cpus();
    }
    if let Ok(bus) = device.pcibusinfokhr_intel() {
        return flash_backend::physical_id(&format!(
            "{:04x}:{:02x}:{:02x}.{:x}",
            bus.pci_domain, bus.pci_bus, bus.pci_device, bus.pci_function
        ));
    }
    if let (Ok(bus), Ok(slot)) = (device.pci_bus_id_nv(), device.pci_slot_id_nv()) {
        // Slot: device and function in one number.
        return flash_backend::physical_id(&format!("0000:{bus:02x}:{:02x}.{:x}", slot >> 3, slot & 7));
    }
    flash_backend::physical_id(&format!("opencl:{name}:{:x}", device.id() as usize))
}

/// Rough flop/s in single precision: a fused multiply-add per lane and cycle.
fn rate(device: &Device, class: Class, compute_units: u32) -> f64 {
    let lanes = match class {
        // Twice the width of one unit, as the CPU backend counts, and a bit less, for copies within the same
        // memory.
        Class::Cpu => 2.0 * 0.8 * f64::from(device.native_vector_width_float().unwrap_or(4)),
        Class::Gpu => 64.0,
        _ => return 0.0,
    };
    let compute_units = match class {
        // It may count processors that this process does not have.
        Class::Cpu => compute_units.min(available_parallelism().map_or(1, |all| all.get() as u32)),
        _ => compute_units,
    };
    let megahertz = f64::from(device.max_clock_frequency().unwrap_or(0));
    2.0 * lanes * f64::from(compute_units) * megahertz * 1e6
}

/// The features that kernels can require.
fn features(version: &str, extensions: &str, spir_v: bool, cpu: bool) -> String {
    let mut features = Vec::new();
    if let Some(number) = version.split_whitespace().nth(1) {
        features.push(format!("opencl{number}"));
    }
    let known = [
        ("cl_khr_fp64", "fp64"),
        ("cl_khr_fp16", "fp16"),
        ("cl_khr_int64_base_atomics", "int64-atomics"),
        ("cl_khr_subgroups", "subgroups"),
    ];
    features.extend(spir_v.then(|| "spir-v".to_owned()));
    features.extend(cpu.then(|| "cpu".to_owned()));
    let has = |extension: &str| extensions.split_whitespace().any(|there| there == extension);
    features.extend(known.iter().filter(|(extension, _)| has(extension)).map(|(_, name)| (*name).to_owned()));
    features.join(",")
}
