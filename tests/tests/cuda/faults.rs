//! Errors on a device.

use crate::kernels::Scale;
use crate::{devices, with_emulated};
use flash::prelude::*;
use flash_core::descriptor::Attributes;

/// A kernel that writes outside all allocations.
const ASTRAY: &str = "extern \"C\" __global__ void astray(float a, const float *x, float *y) {
    y[1ull << 40] = a + x[0];
}";

fn arrays(n: usize) -> [FlashMemory<f32>; 2] {
    [FlashMemory::from(vec![2.0f32; n]), FlashMemory::from(vec![1.0f32; n])]
}

#[test]
fn a_kernel_that_goes_astray_loses_the_device_and_nothing_else() {
    let test = "faults::a_kernel_that_goes_astray_loses_the_device_and_nothing_else";
    for device in devices(test) {
        let rt = get_runtime(&device).unwrap();
        let [x, y] = arrays(100);
        let astray = || Implementation::source(ASTRAY, "astray");
        let error = rt.submit(Scale::of(3.0, &x, &y)).options(astray()).exec([100]).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{device}: {error}");
        let error = rt.submit(Scale::of(3.0, &x, &y)).exec([100]).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)") || error.contains("poisoned"), "{error}");
        // Others go on, with data that is on the host.
        let [x, y] = arrays(100);
        get_runtime("ALL_CPU").unwrap().submit(Scale::of(3.0, &x, &y)).exec([100]).unwrap();
        assert_eq!(*y.read().unwrap(), [7.0; 100]);
    }
}

#[test]
fn more_memory_than_there_is_is_refused_with_its_size() {
    let test = "faults::more_memory_than_there_is_is_refused_with_its_size";
    with_little_memory(test, |device, there| {
        let rt = get_runtime(device).unwrap();
        let n = 1 << 10;
        let huge = FlashMemory::<f32>::zeroed((there / 4 + 1) as usize);
        let [x, y] = arrays(n);
        let part = huge.range(0..n).unwrap();
        // A part of it fits, all of it does not.
        rt.submit(Scale::of(3.0, part, &y)).exec([n]).unwrap();
        let run = rt.submit(Scale::of(3.0, &huge, huge.clone())).exec([huge.len()]);
        assert!(run.is_err(), "{device}: overlapping arguments");
        let other = FlashMemory::<f32>::zeroed(huge.len());
        let in_one_piece = rt.submit(Scale::of(3.0, &huge, &other)).options(Subspaces(1));
        let error = in_one_piece.exec([huge.len()]).unwrap_err().to_string();
        for part in [device, "bytes more are needed", "its budget is", "smaller arrays"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        rt.submit(Scale::of(3.0, &x, &y)).exec([n]).unwrap();
        assert_eq!(*y.read().unwrap(), vec![7.0; n], "{device}");
    });
}

#[test]
fn what_is_larger_than_the_memory_goes_through_it_in_parts() {
    let test = "faults::what_is_larger_than_the_memory_goes_through_it_in_parts";
    with_little_memory(test, |device, there| {
        let rt = get_runtime(device).unwrap();
        let n = (there / 4) as usize + 1;
        // The device has less memory than its budget: this array stays on it.
        let [x, y] = arrays(1 << 10);
        rt.submit(Scale::of(3.0, &x, &y)).exec([x.len()]).unwrap();
        let from = FlashMemory::<f32>::from((0..n).map(|i| (i % 1000) as f32).collect::<Vec<_>>());
        let to = FlashMemory::<f32>::zeroed(n);
        for times in 1..4 {
            rt.submit(Scale::of(2.0, &from, &to)).exec([n]).unwrap();
            let wrong = to
                .read()
                .unwrap()
                .iter()
                .enumerate()
                .position(|(i, found)| *found != times as f32 * 2.0 * (i % 1000) as f32);
            assert_eq!(wrong, None, "{device}, time {times}");
        }
    });
}

/// For each device of a driver whose devices have `there` bytes of memory.
fn with_little_memory(test: &str, body: impl Fn(&str, u64)) {
    with_emulated(test, &[("FLASH_EMULATED_CUDA_MEMORY", "4194304")], || {
        for device in devices(test) {
            let there = get_runtime(&device).unwrap().devices()[0].info().memory_bytes;
            assert_eq!(there, 4 << 20, "{device}");
            body(&device, there);
        }
    });
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_runs() {
    for device in devices("faults::options_that_cannot_be_are_refused_before_anything_runs") {
        let rt = get_runtime(&device).unwrap();
        let run = |key: &str, value: u64| {
            let [x, y] = arrays(100);
            let mut options = Attributes::default();
            options.set_by_name(key, value.into(), true);
            rt.submit(Scale::of(3.0, &x, &y))
                .options(options)
                .exec([100])
                .map(|()| assert_eq!(*y.read().unwrap(), [7.0; 100], "{device}"))
        };
        for (key, value) in
            [("work_group_size", 33), ("shared_memory_bytes", 4096), ("shared_memory_bytes", 60_000)]
        {
            run(key, value).unwrap();
        }
        for (key, value, words) in [
            ("work_group_size", 5000, "expected a work-group of up to"),
            ("work_group_size", 0, "expected a number from 1, found 0"),
            ("shared_memory_bytes", 1 << 30, "bytes of shared memory, the limit of"),
            ("colour", 1, "it knows work_group_size, shared_memory_bytes"),
        ] {
            let error = run(key, value).unwrap_err().to_string();
            assert!(error.contains(words), "{device}, {key}: {error}");
        }
        run("work_group_size", 64).unwrap();
    }
}

/// A call of the driver that fails once.
fn with_fault(test: &str, fault: &str, body: impl Fn(&str)) {
    with_emulated(test, &[("FLASH_EMULATED_CUDA_FAULT", fault)], || {
        for device in devices(test) {
            body(&device);
        }
    });
}

#[test]
fn a_launch_that_the_driver_refuses_is_its_own_error() {
    let test = "faults::a_launch_that_the_driver_refuses_is_its_own_error";
    with_fault(test, "cuLaunchKernel:2=701", |device| {
        let rt = get_runtime(device).unwrap();
        let [[x, y], [from, to]] = [arrays(10), arrays(10)];
        let chain = rt
            .submit(Scale::of(3.0, &x, &y))
            .defer([10])
            .submit(Scale::of(3.0, &from, &to))
            .defer([10])
            .submit(Scale::of(3.0, &x, &y))
            .defer([10]);
        let error = chain.exec().unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"), "{error}");
        assert!(error.contains("blocks of"), "{error}");
        assert_eq!(*y.read().unwrap(), [13.0; 10], "those beside it ran");
        assert!(to.read().is_err(), "what it should have written is poisoned");
        let [from, to] = arrays(10);
        rt.submit(Scale::of(3.0, &from, &to)).exec([10]).unwrap();
        assert_eq!(*to.read().unwrap(), [7.0; 10]);
    });
}

#[test]
fn a_graph_that_cannot_be_made_goes_launch_by_launch() {
    let test = "faults::a_graph_that_cannot_be_made_goes_launch_by_launch";
    with_fault(test, "cuGraphInstantiateWithFlags:1=2", |device| {
        let rt = get_runtime(device).unwrap();
        let [x, y] = arrays(10);
        for round in 1..6 {
            let mut chain = rt.pipeline();
            for _ in 0..20 {
                chain = chain.submit(Scale::of(1.0, &x, &y)).defer([10]);
            }
            chain.exec().unwrap();
            assert_eq!(*y.read().unwrap(), [1.0 + 40.0 * round as f32; 10]);
        }
    });
}

#[test]
fn a_copy_that_fails_is_an_error_with_the_call_and_its_code() {
    let test = "faults::a_copy_that_fails_is_an_error_with_the_call_and_its_code";
    with_fault(test, "cuMemcpyHtoDAsync:1=1", |device| {
        let rt = get_runtime(device).unwrap();
        let [x, y] = arrays(10);
        let error = rt.submit(Scale::of(3.0, &x, &y)).exec([10]).unwrap_err().to_string();
        assert!(error.contains("cuMemcpyHtoDAsync: CUDA_ERROR_INVALID_VALUE (1)"), "{error}");
        let [x, y] = arrays(10);
        rt.submit(Scale::of(3.0, &x, &y)).exec([10]).unwrap();
        assert_eq!(*y.read().unwrap(), [7.0; 10]);
    });
}
