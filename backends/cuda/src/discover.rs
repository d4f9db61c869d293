//! Discovery of devices and their limits.

use crate::device::CudaDevice;
use crate::failure::{Call, failed};
use cudarc::driver::sys::{
    self, CUdevice, CUdevice_attribute as Attribute, CUresult, cuDeviceGet, cuDeviceGetAttribute,
    cuDeviceGetCount, cuDeviceGetName, cuDeviceGetPCIBusId, cuDeviceTotalMem_v2, cuDriverGetVersion, cuInit,
};
use flash_backend::offload::ProgramCache;
use flash_backend::{Class, DeviceInfo, Failure, HostSettings, Unavailable, physical_cpus, physical_id};
use std::ffi::{CStr, c_char};

/// The oldest driver, as CUDA counts: that of version 12.8 has all functions that are called here.
const OLDEST: i32 = 12_080;

/// The limits of a device, and the properties that its programs depend on.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Limits {
    /// Version of CUDA that the driver knows: 1000 major + 10 minor.
    pub driver: i32,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    pub multiprocessors: u32,
    /// Threads of a block.
    pub block: u32,
    /// Blocks along x, y, z.
    pub grid: [u64; 3],
    /// Bytes of shared memory that a block may ask for.
    pub shared_bytes: u32,
    /// Bytes of all parameters of a kernel.
    pub parameter_bytes: usize,
    /// Kernels whose blocks may wait for each other.
    pub cooperative: bool,
}

/// A device as it was found.
pub(crate) struct Found {
    pub device: CUdevice,
    pub ordinal: usize,
    pub info: DeviceInfo,
    pub limits: Limits,
    /// Kernels check the indices of their elements.
    pub check_bounds: bool,
}

/// The devices of the machine.
pub(crate) fn devices(settings: &HostSettings<'_>) -> Result<Vec<CudaDevice>, Unavailable> {
    // SAFETY: the library is loaded and its constructors run, as for any use of CUDA.
    if !unsafe { sys::is_culib_present() } {
        return Err(Unavailable(
            "expected NVIDIA's driver library libcuda.so.1, found none: install the driver of the GPU".into(),
        ));
    }
    let why = |failure: Failure| Unavailable(failure.text);
    let driver = version()?;
    // SAFETY: called before any other function of the driver.
    match unsafe { cuInit(0) } {
        CUresult::CUDA_SUCCESS => {}
        CUresult::CUDA_ERROR_NO_DEVICE => return Err(none()),
        result => return Err(why(failed("cuInit", result))),
    }
    let (cache, check_bounds) = (ProgramCache::of_settings(settings)?, settings.checks_bounds());
    let mut count = 0;
    // SAFETY: a local variable.
    unsafe { cuDeviceGetCount(&mut count) }.call("cuDeviceGetCount").map_err(why)?;
    if count < 1 {
        return Err(none());
    }
    let device = |ordinal| -> Result<CudaDevice, Failure> {
        let mut device = 0;
        // SAFETY: a local variable.
        unsafe { cuDeviceGet(&mut device, ordinal) }.call("cuDeviceGet")?;
        Ok(CudaDevice::new(look_at(device, ordinal as usize, driver, check_bounds)?, cache.clone()))
    };
    let devices: Result<Vec<CudaDevice>, Failure> = (0..count).map(device).collect();
    let devices = devices.map_err(why)?;
    CudaDevice::introduce(&devices);
    Ok(devices)
}

fn none() -> Unavailable {
    Unavailable(
        "expected an NVIDIA GPU, found the driver alone: look at nvidia-smi and CUDA_VISIBLE_DEVICES".into(),
    )
}

/// The driver's version, if it is new enough.
fn version() -> Result<i32, Unavailable> {
    let mut version = 0;
    // SAFETY: a local variable; this needs no cuInit.
    unsafe { cuDriverGetVersion(&mut version) }
        .call("cuDriverGetVersion")
        .map_err(|failure| Unavailable(failure.text))?;
    let shown = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    if version < OLDEST {
        return Err(Unavailable(format!(
            "expected a driver for CUDA {} or newer, found one for {}: update the driver of the GPU",
            shown(OLDEST),
            shown(version)
        )));
    }
    Ok(version)
}

fn look_at(device: CUdevice, ordinal: usize, driver: i32, check_bounds: bool) -> Result<Found, Failure> {
    let get = |attribute: Attribute| -> Result<i32, Failure> {
        let mut value = 0;
        // SAFETY: a device that the driver gave, and a local variable.
        unsafe { cuDeviceGetAttribute(&mut value, attribute, device) }.call("cuDeviceGetAttribute")?;
        Ok(value)
    };
    let positive = |attribute: Attribute| get(attribute).map(|value| value.max(1) as u32);
    let capability = (
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?.max(0) as u32,
        get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?.max(0) as u32,
    );
    let multiprocessors = positive(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let threads = positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
    let kilohertz = get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
    let limits = Limits {
        driver,
        capability,
        multiprocessors,
        block: positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        grid: [
            u64::from(positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?),
            u64::from(positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?),
            u64::from(positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?),
        ],
        shared_bytes: positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        // Since compute capability 7.0 it is 32,764.
        parameter_bytes: if capability.0 >= 7 { 32_764 } else { 4096 },
        cooperative: get(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
    };
    let mut memory = 0;
    // SAFETY: as above.
    unsafe { cuDeviceTotalMem_v2(&mut memory, device) }.call("cuDeviceTotalMem")?;
    let name = text("cuDeviceGetName", |to, room| {
        // SAFETY: the text has `room` bytes.
        unsafe { cuDeviceGetName(to, room, device) }
    })?;
    let bus = text("cuDeviceGetPCIBusId", |to, room| {
        // SAFETY: as above.
        unsafe { cuDeviceGetPCIBusId(to, room, device) }
    })?;
    let emulated = name.starts_with("Emulated");
    let info = DeviceInfo {
        class: Class::Gpu,
        emulated,
        test: false,
        host_memory: false,
        threads: multiprocessors * threads,
        vendor: "NVIDIA".into(),
        version: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
        physical_id: if emulated { physical_cpus() } else { physical_id(&bus.to_lowercase()) },
        // A fused multiply-add per lane and cycle: single-precision lanes of a multiprocessor.
        rate_hint: 2.0 * lanes(capability) * f64::from(multiprocessors) * f64::from(kilohertz) * 1e3,
        memory_bytes: memory as u64,
        features: format!("sm_{}{}", capability.0, capability.1),
        name,
        waits_in_queue: true,
        ..DeviceInfo::default()
    };
    Ok(Found { device, ordinal, info, limits, check_bounds })
}

/// Single-precision lanes of a multiprocessor, by compute capability: the table "Arithmetic Instructions" of
/// the CUDA C++ Programming Guide.
fn lanes(capability: (u32, u32)) -> f64 {
    match capability {
        (7, _) | (8, 0) => 64.0,
        _ => 128.0,
    }
}

/// A text of up to 255 bytes that the driver writes.
fn text(call: &str, ask: impl FnOnce(*mut c_char, i32) -> CUresult) -> Result<String, Failure> {
    let mut bytes = [0 as c_char; 256];
    ask(bytes.as_mut_ptr(), 255).call(call)?;
    // SAFETY: the last byte is 0, whatever was written before it.
    Ok(unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().trim().to_owned())
}
