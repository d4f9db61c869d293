//! The time of a round trip to a child rank beside that of its kernel: `cargo run --release -p flash-c2mpi
//! --example round_trip`. What is between them is the paper's T1, as the arrays are unified and on the host.

#![allow(clippy::undocumented_unsafe_blocks)] // arrays of this function, and calls of `mpix.h`

use flash_c2mpi::c::calls::*;
use flash_c2mpi::c::messages::*;
use flash_c2mpi::c::object::*;
use flash_c2mpi::c::status::SUCCESS;
use flash_c2mpi::c::types::*;
use flash_core::descriptor::ElementType;
use flash_core::get_runtime;
use flash_core::memory::{AnyMemory, AnyType};
use flash_core::runtime::AnyArgument;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;

/// Nanoseconds of a call: the least of some means.
fn time(mut call: impl FnMut()) -> f64 {
    let mean = |_| {
        let begin = Instant::now();
        (0..20_000).for_each(|_| call());
        begin.elapsed().as_nanos() as f64 / 20_000.0
    };
    (0..40).map(mean).fold(f64::INFINITY, f64::min)
}

fn main() {
    let float = AnyType::new(&ElementType::of::<f32>()).unwrap();
    let whole = AnyType::new(&ElementType::of::<u64>()).unwrap();
    let kernel = get_runtime("ALL_CPU:0").unwrap().bind("flash.ewmm").unwrap();
    assert_eq!(unsafe { MPIX_Initialize(null_mut(), null_mut()) }, SUCCESS);
    let (mut child, mut info) = (0, null_mut());
    unsafe {
        flash_c2mpi::c::info::MPIX_Info_create(&mut info);
        flash_c2mpi::c::info::MPIX_Info_set(info, c"key".as_ptr(), c"ALL_CPU:0".as_ptr());
        assert_eq!(MPIX_Claim_int(c"EWMM".as_ptr(), None, info, &mut child), SUCCESS);
    }
    for n in [64u64, 4096] {
        let count = n.to_ne_bytes();
        let memories = [(); 3].map(|()| AnyMemory::fixed(float, &[n]).unwrap());
        let [a, b, c] = memories.each_ref().map(AnyArgument::Memory);
        let arguments = [AnyArgument::Scalar(whole, &count), a, b, c];
        let direct = time(|| kernel.launch(&arguments[..], [n as usize]).unwrap());

        let trip = |unified: bool| {
            let mut obj = null_mut();
            let mut own = vec![0.0f32; 3 * n as usize];
            unsafe {
                MPIX_ComputeObj_create(&mut obj);
                MPIX_ComputeObj_scalar(obj, (&raw const n).cast(), UINT64_T);
                for at in 0..3 {
                    let mut place: *mut c_void = own[at * n as usize..].as_mut_ptr().cast();
                    if unified {
                        MPIX_Alloc_mem(4 * n as isize, null_mut(), (&raw mut place).cast());
                    }
                    assert_eq!(MPIX_ComputeObj_vector(obj, place, n, FLOAT), SUCCESS);
                }
            }
            time(|| unsafe {
                assert_eq!(MPIX_Send(obj.cast(), 1, COMPUTE_OBJ, child, 0, COMM_WORLD), SUCCESS);
                assert_eq!(MPIX_Recv(obj.cast(), 1, COMPUTE_OBJ, child, 0, COMM_WORLD, null_mut()), SUCCESS);
            })
        };
        let (unified, external) = (trip(true), trip(false));
        println!(
            "n = {n}: direct {direct:.0} ns, round trip {unified:.0} ns, T1 {:.0} ns; external arrays {external:.0} ns",
            unified - direct
        );
    }
}
