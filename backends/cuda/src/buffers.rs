//! A device's buffers, from a pool of its own. Their handles are addresses on the device.

use crate::context::{Context, Current, Stream};
use crate::failure::{Call, failed};
use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult,
    cuMemAllocFromPoolAsync, cuMemFreeAsync, cuMemGetInfo_v2, cuMemHostRegister_v2, cuMemHostUnregister,
    cuMemPoolCreate, cuMemPoolSetAccess, cuMemPoolSetAttribute, cuMemsetD8Async,
};
use flash_backend::Code;
use flash_backend::Failure;
use std::collections::{BTreeMap, HashMap};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};

/// Bytes of freed memory that the pool keeps for the next buffer instead of returning them.
const KEPT: u64 = 256 << 20;

/// The buffers of a device.
pub(crate) struct Buffers {
    context: Context,
    pool: CUmemoryPool,
    live: Mutex<HashMap<CUdeviceptr, u64>>,
}

/// Pinned memory of the host, for all devices, by its first byte.
static PINNED: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());

struct Pinned {
    bytes: usize,
    /// Registrations that are not undone, by any device.
    count: usize,
    /// The context of the device that registered it.
    context: Context,
}

// SAFETY: a pool may be used from any thread.
unsafe impl Send for Buffers {}
// SAFETY: as above.
unsafe impl Sync for Buffers {}

impl Buffers {
    /// The buffers of a device, which the devices with the numbers `peers` may copy from.
    pub fn new(
        _: &Current,
        context: Context,
        ordinal: usize,
        peers: impl Iterator<Item = usize>,
    ) -> Result<Buffers, Failure> {
        let location = |device: usize| CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device as i32,
        };
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: location(ordinal),
            win32SecurityAttributes: null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = null_mut();
        // SAFETY: both live for the call.
        unsafe { cuMemPoolCreate(&mut pool, &properties) }.call("cuMemPoolCreate")?;
        let mut kept = KEPT;
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: this attribute is a u64.
        unsafe { cuMemPoolSetAttribute(pool, threshold, (&raw mut kept).cast()) }
            .call("cuMemPoolSetAttribute")?;
        let access = |device: usize| CUmemAccessDesc {
            location: location(device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let access: Vec<CUmemAccessDesc> = peers.map(access).collect();
        if !access.is_empty() {
            // SAFETY: `access` has that many descriptions, of devices that can reach this one. Otherwise
            // copies go through the host.
            let _ = unsafe { cuMemPoolSetAccess(pool, access.as_ptr(), access.len()) };
        }
        Ok(Buffers { context, pool, live: Mutex::default() })
    }

    fn live(&self) -> MutexGuard<'_, HashMap<CUdeviceptr, u64>> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The number of live buffers.
    pub fn count(&self) -> usize {
        self.live().len()
    }

    /// A zeroed buffer, allocated on return. `freeing`: the stream in which buffers are [freed](Self::free).
    pub fn alloc(&self, stream: Stream, freeing: Stream, bytes: u64) -> Result<CUdeviceptr, Failure> {
        let _current = self.context.enter()?;
        let mut buffer = 0;
        let room = bytes.max(1) as usize;
        // SAFETY: a local variable, a pool and a stream of the current context.
        let mut try_once = || unsafe { cuMemAllocFromPoolAsync(&mut buffer, room, self.pool, stream.get()) };
        let result = match try_once() {
            // Freed memory is available once its stream has reached the free.
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => freeing.finish().map(|()| try_once())?,
            result => result,
        };
        if result != CUresult::CUDA_SUCCESS {
            return Err(self.refused(bytes, result));
        }
        // SAFETY: the buffer has `room` bytes, and nothing else uses it yet.
        match unsafe { zero(stream, buffer, room) } {
            Ok(()) => {
                self.live().insert(buffer, bytes);
                Ok(buffer)
            }
            Err(failure) => {
                // SAFETY: nothing else has its address.
                let _ = unsafe { cuMemFreeAsync(buffer, stream.get()) };
                Err(failure)
            }
        }
    }

    /// Sets the bytes of a buffer to 0; that is done on return.
    ///
    /// # Safety
    /// Nothing else uses it meanwhile.
    pub unsafe fn clear(&self, stream: Stream, buffer: CUdeviceptr, bytes: u64) -> Result<(), Failure> {
        match self.live().get(&buffer) {
            Some(&room) if bytes <= room => {}
            _ => return Err(unknown(buffer)),
        }
        let _current = self.context.enter()?;
        // SAFETY: the buffer has that many bytes; the caller vouches for the rest.
        unsafe { zero(stream, buffer, bytes as usize) }
    }

    #[cold]
    fn refused(&self, bytes: u64, result: CUresult) -> Failure {
        let failure = failed("cuMemAllocFromPoolAsync", result);
        let (mut free, mut total) = (0, 0);
        // SAFETY: local variables.
        let known = unsafe { cuMemGetInfo_v2(&mut free, &mut total) } == CUresult::CUDA_SUCCESS;
        let there = if known { format!(", {free} of {total} bytes are free") } else { String::new() };
        Failure::new(failure.code, format!("a buffer of {bytes} bytes: {}{there}", failure.text))
    }

    /// Frees a buffer after all that is in a stream.
    pub fn free(&self, stream: Stream, buffer: CUdeviceptr) -> Result<(), Failure> {
        if self.live().remove(&buffer).is_none() {
            return Err(unknown(buffer));
        }
        let _current = self.context.enter()?;
        // SAFETY: allocated by `alloc`, and no longer in the table.
        unsafe { cuMemFreeAsync(buffer, stream.get()) }.call("cuMemFreeAsync")
    }

    fn pinned() -> MutexGuard<'static, BTreeMap<usize, Pinned>> {
        PINNED.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Pins memory of the host: copies to and from it go at full speed, and without the host.
    ///
    /// # Safety
    /// It stays allocated until [`unpin`](Self::unpin).
    pub unsafe fn pin(&self, data: *mut u8, bytes: usize) -> Result<(), Failure> {
        let mut pinned = Self::pinned();
        // The driver refuses a range that another device has registered.
        if let Some(known) = pinned.get_mut(&data.addr())
            && known.bytes >= bytes
        {
            known.count += 1;
            return Ok(());
        }
        let _current = self.context.enter()?;
        // SAFETY: the caller vouches for the range.
        let result = unsafe { cuMemHostRegister_v2(data.cast(), bytes, PORTABLE) };
        if result != CUresult::CUDA_SUCCESS {
            let failure = failed("cuMemHostRegister", result);
            return Err(Failure::new(failure.code, format!("pinning {bytes} bytes: {}", failure.text)));
        }
        pinned.insert(data.expose_provenance(), Pinned { bytes, count: 1, context: self.context });
        Ok(())
    }

    /// Unpins memory. False: it was not pinned.
    pub fn unpin(data: usize) -> Result<bool, Failure> {
        let mut pinned = Self::pinned();
        let Some(known) = pinned.get_mut(&data) else { return Ok(false) };
        known.count -= 1;
        if known.count > 0 {
            return Ok(true);
        }
        let context = known.context;
        pinned.remove(&data);
        let _current = context.enter()?;
        // SAFETY: registered by `pin`.
        unsafe { cuMemHostUnregister(std::ptr::with_exposed_provenance_mut(data)) }
            .call("cuMemHostUnregister")?;
        Ok(true)
    }

    /// True if a range of host memory is pinned.
    pub fn is_pinned(data: usize, bytes: usize) -> bool {
        let pinned = Self::pinned();
        let before = pinned.range(..=data).next_back();
        before.is_some_and(|(first, known)| data - first + bytes <= known.bytes)
    }
}

/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for all devices.
const PORTABLE: u32 = 1;

fn unknown(buffer: CUdeviceptr) -> Failure {
    Failure::new(Code::Invalid, format!("{buffer:#x} is no buffer of this device"))
}

/// Sets bytes to 0; that is done on return.
///
/// # Safety
/// The buffer has that many, its context is current, and nothing else uses it meanwhile.
unsafe fn zero(stream: Stream, buffer: CUdeviceptr, bytes: usize) -> Result<(), Failure> {
    // SAFETY: the caller vouches.
    unsafe { cuMemsetD8Async(buffer, 0, bytes, stream.get()) }.call("cuMemsetD8Async")?;
    stream.finish()
}
