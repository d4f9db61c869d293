//! Kernels that are functions of the host and use the vendor's own interface.

use crate::devices;
use cudarc::driver::sys::{CUresult, CUstream, cuMemcpyDtoDAsync_v2, cuMemsetD32Async};
use flash::kernel::views::{Item, Read, Write};
use flash::kernel::{DeviceCall, DeviceFunction};
use flash::prelude::*;
use flash_backend::Failure;
use flash_core::{Code, KernelDefinition, kernel};

/// Sets the first element to a number and the others to those of `from`.
#[derive(KernelDefinition)]
#[kernel(name = "cuda.first", dims(i))]
struct First<'a> {
    first: u32,
    from: Item<'a, Read<u32>>,
    to: Item<'a, Write<u32>>,
}

struct ByDriver;
struct Failing;
struct Panicking;

#[kernel(name = "driver", priority = 1)]
// SAFETY: two commands in the device's stream, in order, which read `from` and write all of `to`.
unsafe impl DeviceFunction<First<'_>> for ByDriver {
    const TARGET: &'static str = "cuda";

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let stream: CUstream = std::ptr::with_exposed_provenance_mut(call.native("stream")? as usize);
        let (first, from, to) = (call.scalar::<u32>(0)?, call.address(1)?, call.address(2)?);
        let items = call.dimensions()[0].end as usize;
        // SAFETY: the arrays have that many elements, and the stream is this device's.
        let results = unsafe {
            [cuMemcpyDtoDAsync_v2(to, from, 4 * items, stream), cuMemsetD32Async(to, first, 1, stream)]
        };
        match results.iter().find(|result| **result != CUresult::CUDA_SUCCESS) {
            None => Ok(()),
            Some(result) => Err(Failure::new(Code::Kernel, format!("{result:?}"))),
        }
    }
}

#[kernel]
// SAFETY: it does nothing.
unsafe impl DeviceFunction<First<'_>> for Failing {
    const TARGET: &'static str = "cuda";

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        assert!(call.scalar::<u64>(0).is_err() && call.address(0).is_err() && call.address(9).is_err());
        assert!(call.native("toaster").is_err());
        Err(Failure::new(Code::OutOfMemory, "the library has no room for its tables"))
    }
}

#[kernel]
// SAFETY: it does nothing.
unsafe impl DeviceFunction<First<'_>> for Panicking {
    const TARGET: &'static str = "cuda";

    fn enqueue(_: &DeviceCall<'_>) -> Result<(), Failure> {
        panic!("out of ideas")
    }
}

#[test]
fn a_function_puts_its_work_between_that_of_kernels() {
    for device in devices("library::a_function_puts_its_work_between_that_of_kernels") {
        let rt = get_runtime(&device).unwrap();
        let (a, b) = (FlashMemory::from((0..100u32).collect::<Vec<_>>()), FlashMemory::zeroed(100));
        let mut chain = rt.pipeline();
        for k in 0..10u32 {
            let (from, to) = if k % 2 == 0 { (&a, &b) } else { (&b, &a) };
            chain = chain.submit(First::of(7 + k, from, to)).defer([100]);
        }
        chain.exec().unwrap();
        let expected: Vec<u32> = [16].into_iter().chain(1..100).collect();
        assert_eq!(*a.read().unwrap(), expected, "{device}");
        // A part of a memory is found at its place.
        let (part, all) = (b.range(50..60).unwrap(), a.range(20..30).unwrap());
        rt.submit(First::of(1, part, all)).exec([10]).unwrap();
        assert_eq!(
            a.read().unwrap()[19..32],
            [19, 1, 51, 52, 53, 54, 55, 56, 57, 58, 59, 30, 31],
            "{device}"
        );
    }
}

#[test]
fn what_a_function_says_is_the_error_and_the_device_goes_on() {
    for device in devices("library::what_a_function_says_is_the_error_and_the_device_goes_on") {
        let rt = get_runtime(&device).unwrap();
        let arrays = || (FlashMemory::from([1u32, 2, 3]), FlashMemory::zeroed(3));
        for (name, words) in
            [("failing", "the library has no room for its tables"), ("panicking", "out of ideas")]
        {
            let (from, to) = arrays();
            let run = rt.submit(First::of(5, &from, &to)).options(Implementation::named(name));
            let error = run.exec([3]).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("cuda.first"), "{device}: {error}");
        }
        let (from, to) = arrays();
        rt.submit(First::of(5, &from, &to)).exec([3]).unwrap();
        assert_eq!(*to.read().unwrap(), [5, 2, 3], "{device}");
    }
}
