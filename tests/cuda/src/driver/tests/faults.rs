//! Errors of programs and their codes. Each test has a device of its own.

use super::*;
use crate::machine::space::FRESH;

/// Runs a kernel of one parameter on a device that it ruins, and returns how it ended. The device is lost
/// after it.
fn ending(ordinal: i32, body: &str, block: u32, parameter: impl FnOnce(&Device) -> u64) -> CUresult {
    let device = Device::new(ordinal);
    let function = device.function(&kernel(1, body), "k");
    let parameter = parameter(&device);
    assert_eq!(device.launch(function, 1, block, &[parameter]), CUresult::CUDA_SUCCESS);
    let result = device.wait();
    let mut address = 0;
    assert_eq!(call!(cuMemAlloc_v2(Out(&mut address), 8)), result, "it lasts");
    assert_eq!(call!(cuCtxSynchronize()), result, "it lasts");
    result
}

const STORE: &str = "ld.param.u64 %d1, [p0]; mov.u32 %r1, 1; st.global.u32 [%d1], %r1;";

#[test]
fn an_access_behind_an_allocation_is_illegal() {
    let result = ending(1, STORE, 1, |device| device.allocate(100) + 100);
    assert_eq!(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn an_access_that_is_half_behind_an_allocation_is_illegal() {
    let body = "ld.param.u64 %d1, [p0]; ld.global.v2.u64 {%d2, %d3}, [%d1];";
    let result = ending(2, body, 1, |device| device.allocate(24) + 16);
    assert_eq!(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn an_access_to_what_was_freed_is_illegal() {
    let result = ending(3, STORE, 1, |device| {
        let address = device.allocate(100);
        ok!(cuMemFree_v2(address));
        address
    });
    assert_eq!(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn an_access_to_memory_of_the_host_that_is_not_pinned_is_illegal() {
    let own = 0u32;
    let result = ending(4, STORE, 1, |_| (&raw const own).addr() as u64);
    assert_eq!(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn an_access_to_another_devices_memory_is_illegal_without_leave() {
    let result = ending(5, STORE, 1, |_| {
        let other = Device::new(0).allocate(4);
        Device::new(5);
        other
    });
    assert_eq!(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn an_address_between_two_elements_is_misaligned() {
    let result = ending(6, STORE, 1, |device| device.allocate(100) + 2);
    assert_eq!(result, CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
}

#[test]
fn a_barrier_that_some_threads_wait_at_elsewhere_ends_the_launch() {
    let body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 bra FEW; bar.sync 0; bra END;
        FEW: bar.sync 0; END: mov.u32 %r2, 0;";
    assert_eq!(ending(7, body, 32, |_| 0), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn a_shuffle_that_some_lanes_never_reach_ends_the_launch() {
    let body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 bra FEW;
        shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; FEW: bar.sync 0;";
    assert_eq!(ending(8, body, 32, |_| 0), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn shared_memory_ends_where_it_ends() {
    let body = ".shared .align 4 .b8 own[64]; mov.u32 %r1, own; ld.shared.u32 %r2, [%r1+64];";
    assert_eq!(ending(9, body, 1, |_| 0), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

/// Each thread writes a word of shared memory and reads that of the thread `distance` before it.
fn neighbours(between: &str, distance: u32) -> String {
    format!(
        ".shared .align 4 .b8 all[1024]; mov.u32 %r1, all; mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2;
        add.s32 %r3, %r1, %r3; st.shared.u32 [%r3], %r2; {between}
        setp.lt.u32 %p1, %r2, {distance}; @%p1 bra END; ld.shared.u32 %r4, [%r3-{}]; END: mov.u32 %r5, 0;",
        4 * distance
    )
}

#[test]
fn threads_of_different_warps_need_a_barrier_between_a_write_and_a_read() {
    let device = Device::new(0);
    device.run(device.function(&kernel(1, &neighbours("bar.sync 0;", 40)), "k"), 2, 64, &[0]);
    let result = ending(13, &neighbours("bar.warp.sync -1;", 40), 64, |_| 0);
    assert_eq!(result, CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn lanes_of_a_warp_need_to_meet_between_a_write_and_a_read() {
    let device = Device::new(0);
    device.run(device.function(&kernel(1, &neighbours("bar.warp.sync -1;", 1)), "k"), 1, 32, &[0]);
    assert_eq!(ending(14, &neighbours("", 1), 32, |_| 0), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn a_trap_ends_the_launch() {
    assert_eq!(ending(10, "trap;", 1, |_| 0), CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn fresh_memory_is_full_of_a_pattern_and_counted() {
    let device = Device::new(11);
    let [mut before, mut after, mut total] = [0; 3];
    ok!(cuMemGetInfo_v2(Out(&mut before), Out(&mut total)));
    let address = device.allocate(1000);
    assert_eq!(device.download::<u8>(address, 1000), vec![FRESH; 1000]);
    ok!(cuMemGetInfo_v2(Out(&mut after), Out(&mut total)));
    assert_eq!((before, after), (total, total - 1000));
    let mut huge = 0;
    assert_eq!(call!(cuMemAlloc_v2(Out(&mut huge), total)), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(call!(cuMemAlloc_v2(Out(&mut huge), 0)), CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemFree_v2(address));
    assert_eq!(call!(cuMemFree_v2(address)), CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn what_copies_lack_is_refused_at_once() {
    let device = Device::new(0);
    let (address, mut own) = (device.allocate(16), [0u8; 32]);
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(call!(cuMemcpyHtoD_v2(address, own.as_ptr().cast(), 17)), refused);
    assert_eq!(call!(cuMemcpyDtoH_v2(own.as_mut_ptr().cast(), address + 8, 9)), refused);
    assert_eq!(call!(cuMemcpyDtoH_v2(own.as_mut_ptr().cast(), 8, 1)), refused);
    ok!(cuMemcpyHtoD_v2(address, own.as_ptr().cast(), 16));
}

#[test]
fn launches_that_cannot_be_are_refused_at_once() {
    let device = Device::new(0);
    let function = device.function(&kernel(1, STORE).replace("\n{\n", "\n.maxntid 128, 1, 1\n{\n"), "k");
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(device.launch(function, 0, 1, &[0]), refused, "no blocks");
    assert_eq!(device.launch(function, 1, 0, &[0]), refused, "no threads");
    assert_eq!(device.launch(function, 1, 129, &[0]), refused, "more threads than it says");
    let shared = |bytes| {
        let mut parameter = std::ptr::null_mut();
        let stream = device.stream;
        call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, bytes, stream, &mut parameter, null_mut()))
    };
    assert_eq!(shared((48 << 10) + 1), refused, "more shared memory than without asking");
    let attribute =
        cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(call!(cuFuncSetAttribute(function, attribute as u32, 100 << 10)), refused);
    ok!(cuFuncSetAttribute(function, attribute as u32, 99 << 10));
    assert_eq!(device.launch(null_mut(), 1, 1, &[]), CUresult::CUDA_ERROR_INVALID_HANDLE);
    ok!(cuCtxSetCurrent(null_mut()));
    assert_eq!(device.launch(function, 1, 1, &[0]), CUresult::CUDA_ERROR_INVALID_CONTEXT);
}
