//! Devices and their attributes.

use super::{Out, driver};
use crate::machine::MULTIPROCESSORS;
use crate::machine::context::{contexts, initialize, of_device};
use crate::machine::settings::settings;
use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult, CUuuid};
use std::ffi::c_char;

/// Threads of a block, and of a multiprocessor.
pub(super) const BLOCK_THREADS: u32 = 1024;
pub(super) const THREADS: u32 = 1536;
/// Blocks of a multiprocessor.
pub(super) const BLOCKS: u32 = 16;
/// Bytes of shared memory: of a block, of a block with the attribute for more, and of a multiprocessor.
pub(super) const SHARED: u32 = 48 << 10;
pub(super) const SHARED_MOST: u32 = 99 << 10;
pub(super) const SHARED_ALL: u32 = 100 << 10;
/// Bytes of each block's shared memory that the system reserves.
pub(super) const SHARED_RESERVED: u32 = 1 << 10;
pub(super) const GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
pub(super) const BLOCK: [u32; 3] = [1024, 1024, 64];
/// Compute capability 8.1: no compiler has code for it, so that programs come as PTX.
const CAPABILITY: (u32, u32) = (8, 1);

fn attribute(attribute: u32, device: i32) -> Option<u32> {
    macro_rules! first {
        ($($name:ident => $value:expr,)*) => {
            $(if attribute == Attribute::$name as u32 { return Some($value); })*
        };
    }
    first! {
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => BLOCK_THREADS,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X => BLOCK[0],
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => BLOCK[1],
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => BLOCK[2],
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => GRID[0],
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y => GRID[1],
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => GRID[2],
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => SHARED,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_MOST,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => SHARED_ALL,
        CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => SHARED_RESERVED,
        CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => 64 << 10,
        CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        CU_DEVICE_ATTRIBUTE_MAX_PITCH => i32::MAX as u32,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK => 65_536,
        CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => 65_536,
        CU_DEVICE_ATTRIBUTE_CLOCK_RATE => 1_000_000,
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 1_000_000,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 256,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => 4 << 20,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => MULTIPROCESSORS,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => THREADS,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => BLOCKS,
        CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 2,
        CU_DEVICE_ATTRIBUTE_GPU_OVERLAP => 1,
        CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY => 1,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS => 1,
        CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING => 1,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => 1,
        CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH => 1,
        CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED => 1,
        CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED => 1,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM => 1,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => CAPABILITY.0,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => CAPABILITY.1,
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => device as u32 + 1,
        CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT => 512,
        CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT => 512,
    }
    // A known attribute that this device lacks.
    let known = (1..Attribute::CU_DEVICE_ATTRIBUTE_MAX as u32).contains(&attribute);
    known.then_some(0)
}

driver! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if settings().devices == 0 {
            return Err(CUresult::CUDA_ERROR_NO_DEVICE);
        }
        initialize();
    }

    fn cuDriverGetVersion(version: Out<i32>) {
        version.put(settings().version)?;
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        count.put(contexts()?.len() as i32)?;
    }

    fn cuDeviceGet(device: Out<i32>, ordinal: i32) {
        of_device(ordinal)?;
        device.put(ordinal)?;
    }

    fn cuDeviceGetName(name: Out<c_char>, room: i32, device: i32) {
        of_device(device)?;
        name.put_text("Emulated CUDA device", room)?;
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        of_device(device)?;
        bytes.put(settings().memory)?;
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute_: u32, device: i32) {
        of_device(device)?;
        let found = attribute(attribute_, device).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        value.put(found as i32)?;
    }

    fn cuDeviceGetPCIBusId(name: Out<c_char>, room: i32, device: i32) {
        of_device(device)?;
        name.put_text(&format!("0000:{:02X}:00.0", device + 1), room)?;
    }

    fn cuDeviceGetUuid_v2(uuid: Out<CUuuid>, device: i32) {
        of_device(device)?;
        let mut bytes = *b"emulated cuda  \0";
        bytes[15] = device as u8;
        uuid.put(CUuuid { bytes: bytes.map(|byte| byte as c_char) })?;
    }

    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        of_device(device)?;
        of_device(peer)?;
        can.put(i32::from(device != peer))?;
    }
}
