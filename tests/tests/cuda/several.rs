//! Several GPUs, and GPUs beside the CPU.

use crate::kernels::{Scale, Spread, Total};
use crate::{devices, has_driver, with_emulated};
use cudarc::driver::sys::{CUresult, cuDevicePrimaryCtxGetState};
use flash::kernels::nbody::{Accelerate, Simulate};
use flash::prelude::*;
use flash_backend::{Backend, Device, HostSettings};
use flash_backend_cuda::NvidiaGpu;

/// Runs the rest of a test with two devices.
fn with_two(test: &str, body: impl Fn(&RuntimeObj)) {
    if !has_driver(test) {
        return;
    }
    flash_tests::in_process_of(test, &[("FLASH_EMULATED_CUDA_DEVICES", "2")], || {
        let ids = devices(test);
        if ids.len() < 2 && flash_tests::emulated::on_gpu() {
            return flash_tests::skip(test, "no GPU beside the first");
        }
        assert_eq!(ids, ["NVIDIA_GPU:0", "NVIDIA_GPU:1"]);
        body(&get_runtime("NVIDIA_GPU").unwrap());
    });
}

#[test]
fn memory_of_the_host_is_pinned_for_all_devices_at_once() {
    let test = "several::memory_of_the_host_is_pinned_for_all_devices_at_once";
    with_two(test, |_| {
        let devices = NvidiaGpu::probe(&HostSettings::default()).unwrap();
        let mut memory = vec![0u8; 8 << 20];
        let mut pin = |device: usize, bytes| {
            // SAFETY: it lives until the end, when it is no longer registered.
            unsafe { devices[device].register_host(memory.as_mut_ptr(), bytes) }
        };
        let all = [pin(0, 8 << 20).unwrap(), pin(1, 8 << 20).unwrap()];
        // The first unregisters it, and the second still has it.
        devices[0].free(all[0]).unwrap();
        let again = pin(0, 4 << 20).unwrap();
        devices[1].free(all[1]).unwrap();
        devices[0].free(again).unwrap();
        assert!(devices[1].free(all[1]).is_err(), "no device has it any more");
        let last = pin(1, 4 << 20).unwrap();
        devices[1].free(last).unwrap();
    });
}

#[test]
fn a_device_that_is_not_used_is_not_opened() {
    let test = "several::a_device_that_is_not_used_is_not_opened";
    // A runtime of both would open both, to load programs that other tests have kept on disk.
    with_emulated(test, &[("FLASH_EMULATED_CUDA_DEVICES", "2")], || {
        let (x, y) = (FlashMemory::from(vec![2.0f32; 9]), FlashMemory::from(vec![1.0f32; 9]));
        get_runtime("NVIDIA_GPU:0").unwrap().submit(Scale::of(3.0, &x, &y)).exec([9]).unwrap();
        let is_open = |device| {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: local variables, after `cuInit`.
            let asked = unsafe { cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
            assert_eq!(asked, CUresult::CUDA_SUCCESS);
            active != 0
        };
        assert_eq!([0, 1].map(is_open), [true, false]);
    });
}

fn cells(n: usize) -> Vec<u64> {
    (0..n as u64).map(|i| i * i % 97).collect()
}

#[test]
fn two_devices_give_what_one_gives_and_copy_from_each_other() {
    let test = "several::two_devices_give_what_one_gives_and_copy_from_each_other";
    with_two(test, |both| {
        let one = get_runtime("NVIDIA_GPU:0").unwrap();
        let run = |rt: &RuntimeObj| {
            let memory = FlashMemory::from(cells(5_000));
            let shares = weights(rt.devices().iter().map(|_| 1));
            rt.submit(Spread::of(&memory)).options(shares).exec([5_000u64, 6]).unwrap();
            memory.read().unwrap().to_vec()
        };
        assert_eq!(run(both), run(&one));
        let between = both.devices().iter().map(|device| device.transfers().between_devices.bytes);
        assert!(between.sum::<u64>() > 0, "halos go from device to device");

        let (values, sum) = (FlashMemory::from(cells(3_000)), FlashMemory::from([5u64]));
        both.submit(Total::of(&values, &sum)).options(weights([1, 2])).exec([3_000]).unwrap();
        assert_eq!(sum.read().unwrap()[0], 5 + cells(3_000).iter().sum::<u64>());
        let (x, y) = (FlashMemory::from(vec![2.0f32; 999]), FlashMemory::from(vec![1.0f32; 999]));
        both.submit(Scale::of(3.0, &x, &y)).options(weights([1, 1])).exec([999]).unwrap();
        assert_eq!(*y.read().unwrap(), [7.0; 999]);
    });
}

/// Bodies of a small galaxy.
fn bodies(n: usize) -> (Vec<[f64; 3]>, Vec<f64>) {
    let number = |k: usize| (k * 7919 % 1009) as f64 / 1009.0;
    (
        (0..n).map(|i| [number(3 * i), number(3 * i + 1), number(3 * i + 2)]).collect(),
        (0..n).map(number).collect(),
    )
}

#[test]
fn bodies_move_as_they_do_on_the_cpu() {
    for device in devices("several::bodies_move_as_they_do_on_the_cpu") {
        let n = 300;
        let (at, mass) = bodies(n);
        let accelerations = |key: &str| {
            let (pos, mass) = (FlashMemory::from(at.clone()), FlashMemory::from(mass.clone()));
            let acc = FlashMemory::zeroed(n);
            let rt = get_runtime(key).unwrap();
            rt.submit(Accelerate::of(1.0, 1e-3, &pos, &mass, &acc)).exec([n]).unwrap();
            acc.read().unwrap().to_vec()
        };
        near(&accelerations(&device), &accelerations("ALL_CPU"), 1e-12);
        let positions = |key: &str| {
            let (pos, mass) = (FlashMemory::from(at.clone()), FlashMemory::from(mass.clone()));
            let (vel, acc) = (FlashMemory::zeroed(n), FlashMemory::zeroed(n));
            let rt = get_runtime(key).unwrap();
            rt.submit(Simulate::of(1.0, 1e-3, 1e-3, &mass, &pos, &vel, &acc)).exec([n, 2, 5]).unwrap();
            pos.read().unwrap().to_vec()
        };
        near(&positions(&device), &positions("ALL_CPU"), 1e-10);
        near(&positions(&format!("ALL_CPU,{device}")), &positions("ALL_CPU"), 1e-10);
    }
}

fn near(found: &[[f64; 3]], expected: &[[f64; 3]], relative: f64) {
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() <= relative * (1.0 + expected.abs()), "{found} {expected}");
    }
}
