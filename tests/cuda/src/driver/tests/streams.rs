//! Work begins late, ends in order, and is waited for.

use super::*;
use cudarc::driver::sys::{CUevent, CUmemorytype};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pinned host memory, filled with a number.
fn pinned(count: usize, value: u32) -> *mut u32 {
    let mut start = null_mut();
    ok!(cuMemHostAlloc(Out(&mut start), 4 * count, 0));
    let start: *mut u32 = start.cast();
    for at in 0..count {
        // SAFETY: that many were allocated.
        unsafe { start.add(at).write(value) };
    }
    start
}

fn read(start: *mut u32) -> u32 {
    // SAFETY: memory of `pinned`, which the driver writes as a whole word.
    unsafe { start.read_volatile() }
}

/// Blocks a stream: work after it does not run until it is dropped.
struct Gate {
    open: &'static AtomicBool,
}

impl Gate {
    fn new(device: &Device) -> Gate {
        /// # Safety
        ///
        /// The data is an `AtomicBool` that stays.
        unsafe extern "C" fn pass(data: *mut c_void) {
            // SAFETY: the caller's promise.
            let open = unsafe { &*data.cast::<AtomicBool>() };
            while !open.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        // It is leaked, so that a test may fail while the stream reads it.
        let open = Box::leak(Box::new(AtomicBool::new(false)));
        ok!(cuLaunchHostFunc(device.stream, Some(pass), open.as_ptr().cast()));
        Gate { open }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open.store(true, Ordering::Release);
    }
}

fn event() -> CUevent {
    let mut event = null_mut();
    ok!(cuEventCreate(Out(&mut event), 0));
    event
}

#[test]
fn a_result_is_old_until_somebody_waits() {
    let device = Device::new(0);
    let (own, address) = (pinned(1, 1), device.upload(&[2u32]));
    let (event, gate) = (event(), Gate::new(&device));
    ok!(cuMemcpyDtoHAsync_v2(own.cast(), address, 4, device.stream));
    ok!(cuEventRecord(event, device.stream));
    assert_eq!(call!(cuEventQuery(event)), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(call!(cuStreamQuery(device.stream)), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(read(own), 1, "it was not waited for");
    drop(gate);
    ok!(cuEventSynchronize(event));
    assert_eq!(read(own), 2);
    ok!(cuEventQuery(event));
    ok!(cuMemFreeHost(own.cast()));
}

#[test]
fn events_are_asked_on_threads_that_have_a_context() {
    let (device, event) = (Device::new(0), event());
    ok!(cuEventRecord(event, device.stream));
    ok!(cuEventSynchronize(event));
    ok!(cuEventQuery(event));
    let event = event.addr();
    let elsewhere = std::thread::spawn(move || {
        let event = std::ptr::without_provenance_mut(event);
        [call!(cuEventQuery(event)), call!(cuEventSynchronize(event))]
    });
    assert_eq!(elsewhere.join().unwrap(), [CUresult::CUDA_ERROR_INVALID_CONTEXT; 2]);
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs_and_other_memory_before() {
    let device = Device::new(0);
    let (own, mut plain, address) = (pinned(1, 1), [1u32], device.allocate(8));
    let gate = Gate::new(&device);
    ok!(cuMemcpyHtoDAsync_v2(address, own.cast(), 4, device.stream));
    ok!(cuMemcpyHtoDAsync_v2(address + 4, plain.as_ptr().cast(), 4, device.stream));
    // SAFETY: memory of `pinned`; that the copy reads it late is the test.
    unsafe { own.write_volatile(7) };
    std::hint::black_box(&mut plain)[0] = 8;
    drop(gate);
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(device.download::<u32>(address, 2), [7, 1]);
    ok!(cuMemFreeHost(own.cast()));
}

#[test]
fn streams_wait_for_events_of_others() {
    let (device, other) = (Device::new(0), Device::new(0));
    let (own, address) = (pinned(1, 5), device.upload(&[0u32, 0]));
    let event = event();
    ok!(cuMemcpyHtoDAsync_v2(address, own.cast(), 4, device.stream));
    ok!(cuEventRecord(event, device.stream));
    ok!(cuStreamWaitEvent(other.stream, event, 0));
    ok!(cuMemcpyDtoDAsync_v2(address + 4, address, 4, other.stream));
    assert_eq!(other.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(device.download::<u32>(address, 2), [5, 5]);
    ok!(cuMemFreeHost(own.cast()));
    let later = self::event();
    ok!(cuEventRecord(later, other.stream));
    ok!(cuEventSynchronize(later));
    let mut milliseconds = -1.0;
    ok!(cuEventElapsedTime_v2(Out(&mut milliseconds), event, later));
    assert!(milliseconds > 0.0);
    ok!(cuEventDestroy_v2(later));
    assert_eq!(call!(cuEventQuery(later)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn the_default_stream_waits_for_streams_that_block() {
    let device = Device::new(0);
    let mut blocking = null_mut();
    ok!(cuStreamCreate(Out(&mut blocking), 0));
    let address = device.upload(&[0u32; 2]);
    ok!(cuMemsetD32Async(address, 3, 1, blocking));
    ok!(cuMemcpyDtoDAsync_v2(address + 4, address, 4, null_mut()));
    ok!(cuMemsetD32Async(address, 4, 1, blocking));
    ok!(cuStreamSynchronize(blocking));
    assert_eq!(device.download::<u32>(address, 2), [4, 3]);
    ok!(cuStreamDestroy_v2(blocking));
}

#[test]
fn memory_of_a_pool_goes_when_its_stream_comes_there() {
    let device = Device::new(12);
    let (mut pool, mut address, mut used) = (null_mut(), 0, 1u64);
    ok!(cuDeviceGetDefaultMemPool(Out(&mut pool), 12));
    ok!(cuMemAllocAsync(Out(&mut address), 64, device.stream));
    ok!(cuMemsetD8Async(address, 9, 64, device.stream));
    let own = pinned(16, 0);
    ok!(cuMemcpyDtoHAsync_v2(own.cast(), address, 64, device.stream));
    ok!(cuMemFreeAsync(address, device.stream));
    assert_eq!(call!(cuMemFreeAsync(address, device.stream)), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(read(own), 0x0909_0909);
    ok!(cuMemPoolGetAttribute(pool, 7, Out(&mut used)));
    assert_eq!(used, 0);
    assert_eq!(call!(cuMemsetD8Async(address, 9, 64, device.stream)), CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn boxes_are_copied_row_by_row() {
    let device = Device::new(0);
    // Of 4 x 5 x 6 bytes, the box at (1, 2, 3) of 2 x 2 x 2, to (0, 1, 0) of 3 x 4 x 2.
    let from: Vec<u8> = (0..120).collect();
    let (source, target) = (device.upload(&from), device.upload(&[0u8; 24]));
    let mut copied = empty_box();
    copied.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copied.srcDevice = source;
    (copied.srcXInBytes, copied.srcY, copied.srcZ, copied.srcPitch, copied.srcHeight) = (1, 2, 3, 4, 5);
    copied.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copied.dstDevice = target;
    (copied.dstXInBytes, copied.dstY, copied.dstZ, copied.dstPitch, copied.dstHeight) = (0, 1, 0, 3, 4);
    (copied.WidthInBytes, copied.Height, copied.Depth) = (2, 2, 2);
    ok!(cuMemcpy3DAsync_v2(In(&copied), device.stream));
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    let mut expected = [0u8; 24];
    for z in 0..2 {
        for y in 0..2 {
            for x in 0..2 {
                expected[x + 3 * (y + 1) + 12 * z] = (x + 1 + 4 * (y + 2) + 20 * (z + 3)) as u8;
            }
        }
    }
    assert_eq!(device.download::<u8>(target, 24), expected);
    copied.Depth = 4;
    assert_eq!(call!(cuMemcpy3DAsync_v2(In(&copied), device.stream)), CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn a_function_of_the_host_is_called_in_its_turn() {
    /// # Safety
    ///
    /// The data is a `u32` of pinned memory.
    unsafe extern "C" fn double(data: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { *data.cast::<u32>() *= 2 };
    }
    let device = Device::new(0);
    let (own, address) = (pinned(1, 0), device.upload(&[21u32]));
    ok!(cuMemcpyDtoHAsync_v2(own.cast(), address, 4, device.stream));
    ok!(cuLaunchHostFunc(device.stream, Some(double), own.cast()));
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(read(own), 42);
    ok!(cuMemFreeHost(own.cast()));
}

#[test]
fn a_kernel_uses_registered_memory_of_the_host() {
    let device = Device::new(0);
    let mut own = vec![1u32; 4];
    ok!(cuMemHostRegister_v2(own.as_mut_ptr().cast(), 16, 0));
    let again = call!(cuMemHostRegister_v2(own.as_mut_ptr().cast(), 4, 0));
    assert_eq!(again, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    let body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
        ld.global.u32 %r2, [%d1]; add.s32 %r2, %r2, %r1; st.global.u32 [%d1], %r2;";
    let function = device.function(&kernel(1, body), "k");
    device.run(function, 1, 4, &[own.as_mut_ptr().addr() as u64]);
    ok!(cuMemHostUnregister(own.as_mut_ptr().cast()));
    assert_eq!(own, [1, 2, 3, 4]);
}
