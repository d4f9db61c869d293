//! Device memory, pools, and pinned host memory.

use super::context::current;
use super::stream::stream_of;
use super::{In, Out, driver};
use crate::machine::context::of_device;
use crate::machine::handles::{Handles, lock};
use crate::machine::settings::settings;
use crate::machine::space::{self, Block, Owner};
use crate::machine::stream::{Job, Stream};
use crate::machine::{Answer, context::Context};
use cudarc::driver::sys::{
    CUdeviceptr, CUmemAccessDesc, CUmemLocationType, CUmemPool_attribute as Attribute, CUmemPoolProps,
    CUmemoryPool, CUpointer_attribute as PointerAttribute, CUresult, CUstream,
};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};

/// A pool of memory of a device.
struct Pool {
    device: usize,
    number: usize,
    /// Bytes that are allocated from it, and their maximum.
    used: Mutex<[u64; 2]>,
    threshold: Mutex<u64>,
}

static POOLS: Handles<Pool> = Handles::new();

impl Pool {
    fn new(device: usize) -> Arc<Pool> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, SeqCst);
        Arc::new(Pool { device, number, used: Mutex::default(), threshold: Mutex::default() })
    }

    /// All pools ever made, by number: memory is returned to them when streams reach the free.
    fn all() -> &'static Mutex<HashMap<usize, Arc<Pool>>> {
        static ALL: LazyLock<Mutex<HashMap<usize, Arc<Pool>>>> = LazyLock::new(Mutex::default);
        &ALL
    }

    fn allocate(&self, bytes: usize) -> Answer<u64> {
        let address = space::allocate(Owner::Device(self.device), bytes, Some(self.number))?;
        let mut used = lock(&self.used);
        used[0] += bytes as u64;
        used[1] = used[1].max(used[0]);
        Ok(address)
    }
}

/// The initial pool of a device.
fn default_pool(context: &Context) -> CUmemoryPool {
    static DEFAULT: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);
    let mut all = lock(&DEFAULT);
    let handle = all.entry(context.device).or_insert_with(|| add(Pool::new(context.device)).addr());
    std::ptr::without_provenance_mut(*handle)
}

fn add(pool: Arc<Pool>) -> CUmemoryPool {
    lock(Pool::all()).insert(pool.number, pool.clone());
    POOLS.add(pool)
}

fn from_pool(pool: &Pool, bytes: usize, stream: &Stream) -> Answer<u64> {
    if bytes == 0 || lock(&stream.capture).is_some() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    pool.allocate(bytes)
}

/// Subtracts a block from its pool's bytes.
fn give_back(block: &Block) {
    if let Some(pool) = block.pool.and_then(|pool| lock(Pool::all()).get(&pool).cloned()) {
        lock(&pool.used)[0] -= block.range.end - block.range.start;
    }
}

/// Layouts of the allocations of `cuMemHostAlloc`.
static PINNED: LazyLock<Mutex<HashMap<u64, Layout>>> = LazyLock::new(Mutex::default);

fn pinned(bytes: usize) -> Answer<*mut c_void> {
    let layout = Layout::from_size_align(bytes, 4096).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc(layout) };
    if start.is_null() {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    // SAFETY: fresh memory of `bytes` bytes.
    unsafe { start.write_bytes(space::FRESH, bytes) };
    space::take_in(Owner::Pinned, start as u64, bytes)?;
    lock(&PINNED).insert(start as u64, layout);
    Ok(start.cast())
}

/// Removes a host block that begins at this address and that no kernel uses any more.
fn leave(context: &'static Context, address: u64, owner: Owner) -> Answer {
    match space::find(address) {
        Some(block) if block.owner == owner && block.range.start == address => {}
        _ => return Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    }
    let synchronized = context.synchronize();
    space::remove(address);
    synchronized
}

driver! {
    fn cuMemAlloc_v2(address: Out<CUdeviceptr>, bytes: usize) {
        let context = current()?;
        address.put(space::allocate(Owner::Device(context.device), bytes, None)?)?;
    }

    fn cuMemFree_v2(address: CUdeviceptr) {
        let context = current()?;
        if address == 0 {
            return Ok(());
        }
        give_back(&space::announce(address)?);
        let synchronized = context.synchronize();
        space::remove(address);
        synchronized?;
    }

    fn cuMemAllocAsync(address: Out<CUdeviceptr>, bytes: usize, stream: CUstream) {
        let (context, stream) = (current()?, stream_of(stream)?);
        let pool = POOLS.get(default_pool(context))?;
        address.put(from_pool(&pool, bytes, &stream)?)?;
    }

    fn cuMemAllocFromPoolAsync(address: Out<CUdeviceptr>, bytes: usize, pool: CUmemoryPool, stream: CUstream) {
        current()?;
        let (pool, stream) = (POOLS.get(pool)?, stream_of(stream)?);
        address.put(from_pool(&pool, bytes, &stream)?)?;
    }

    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        current()?;
        let stream = stream_of(stream)?;
        if lock(&stream.capture).is_some() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if address == 0 {
            return Ok(());
        }
        give_back(&space::announce(address)?);
        stream.put(Job::Free(address));
    }

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let used = space::used(current()?.device);
        free.put(settings().memory - used)?;
        total.put(settings().memory)?;
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<CUmemoryPool>, device: i32) {
        pool.put(default_pool(of_device(device)?))?;
    }

    fn cuMemPoolCreate(pool: Out<CUmemoryPool>, properties: In<CUmemPoolProps>) {
        let location = properties.get()?.location;
        if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        pool.put(add(Pool::new(of_device(location.id)?.device)))?;
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        POOLS.remove(pool)?;
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, _keep: usize) {
        POOLS.get(pool)?;
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, access: In<CUmemAccessDesc>, count: usize) {
        POOLS.get(pool)?;
        for access in access.get_all(count)? {
            of_device(access.location.id)?;
        }
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: u32, value: In<u64>) {
        let pool = POOLS.get(pool)?;
        match attribute {
            x if x == Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32 => *lock(&pool.threshold) = value.get()?,
            // Policies of reuse: here memory is never reused.
            1..=3 => {}
            x if x == Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH as u32 => {
                let mut used = lock(&pool.used);
                used[1] = used[0];
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: u32, value: Out<u64>) {
        let pool = POOLS.get(pool)?;
        let used = *lock(&pool.used);
        match attribute {
            x if x == Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32 => value.put(*lock(&pool.threshold))?,
            x if x == Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT as u32
                || x == Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as u32 => value.put(used[0])?,
            x if x == Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH as u32
                || x == Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as u32 => value.put(used[1])?,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuMemHostAlloc(start: Out<*mut c_void>, bytes: usize, _flags: u32) {
        current()?;
        start.put(pinned(bytes)?)?;
    }

    fn cuMemAllocHost_v2(start: Out<*mut c_void>, bytes: usize) {
        current()?;
        start.put(pinned(bytes)?)?;
    }

    fn cuMemFreeHost(start: *mut c_void) {
        let context = current()?;
        let address = start.addr() as u64;
        let left = leave(context, address, Owner::Pinned);
        let layout = lock(&PINNED).remove(&address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: `pinned` allocated it with this layout, and it is no longer in the list.
        unsafe { dealloc(start.cast(), layout) };
        left?;
    }

    fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, _flags: u32) {
        current()?;
        space::take_in(Owner::Registered, start.addr() as u64, bytes)?;
    }

    fn cuMemHostUnregister(start: *mut c_void) {
        let context = current()?;
        leave(context, start.addr() as u64, Owner::Registered)?;
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<CUdeviceptr>, start: *mut c_void, flags: u32) {
        current()?;
        let host = start.addr() as u64;
        let block = space::find(host).filter(|block| matches!(block.owner, Owner::Pinned | Owner::Registered));
        if block.is_none() || flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        address.put(host)?;
    }

    fn cuPointerGetAttribute(data: Out<u64>, attribute: u32, address: CUdeviceptr) {
        let block = space::find(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // An int, unless the name says otherwise.
        let int = Out(data.0.cast::<u32>());
        let (host, device) = match block.owner {
            Owner::Device(device) | Owner::Module(device) => (false, device),
            Owner::Pinned | Owner::Registered => (true, 0),
        };
        match attribute {
            x if x == PointerAttribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32 => int.put(if host { 1 } else { 2 })?,
            x if x == PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32 => int.put(device as u32)?,
            x if x == PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER as u32 => data.put(address)?,
            x if x == PointerAttribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR as u32 => data.put(block.range.start)?,
            x if x == PointerAttribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE as u32 => {
                data.put(block.range.end - block.range.start)?;
            }
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    }
}
