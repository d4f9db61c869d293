//! What a launch does when a device is slow, fails a command, has too little memory, or is lost.

use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Code, Error, kernel};
use flash_tests::in_process;
use std::time::{Duration, Instant};

#[derive(KernelDefinition)]
#[kernel(name = "failing.add", dims(i), part_by(i))]
struct Add<'a> {
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += 1;
    }
}

const N: usize = 1000;

fn memory() -> FlashMemory<u64> {
    FlashMemory::from(vec![1; N])
}

/// Launches it once.
fn add(rt: &RuntimeObj, memory: &FlashMemory<u64>) -> Result<(), Error> {
    rt.submit(Add::of(memory)).exec([memory.len()])
}

/// The variables of a process with test devices as these settings say.
fn devices(settings: &str) -> [(&str, &str); 2] {
    [("FLASH_TEST_KEY", "TEST"), ("FLASH_TEST", settings)]
}

#[test]
fn a_launch_that_fails_poisons_what_it_writes_and_the_next_one_runs() {
    in_process(&devices("fail=0:launch:2"), || {
        let rt = flash_tests::runtime();
        let (a, b) = (memory(), memory());
        add(&rt, &a).unwrap();
        let error = add(&rt, &a).unwrap_err().to_string();
        assert!(error.contains("TEST:0") && error.contains("Launch 2 fails"), "{error}");
        assert!(matches!(a.read(), Err(Error::Poisoned)));
        add(&rt, &b).unwrap();
        assert_eq!(*b.read().unwrap(), [2; N]);
        a.write().unwrap().fill(5);
        add(&rt, &a).unwrap();
        assert_eq!(*a.read().unwrap(), [6; N]);
    });
}

#[test]
fn a_copy_that_fails_is_an_error_of_the_launch_that_needs_it() {
    in_process(&devices("fail=0:copy:1"), || {
        let rt = flash_tests::runtime();
        let (a, b) = (memory(), memory());
        let error = add(&rt, &a).unwrap_err().to_string();
        assert!(error.contains("Copy 1 fails"), "{error}");
        add(&rt, &b).unwrap();
        assert_eq!(*b.read().unwrap(), [2; N]);
    });
}

#[test]
fn an_allocation_that_is_refused_is_tried_again_when_others_have_given_way() {
    in_process(&devices("fail=0:alloc:2"), || {
        let rt = flash_tests::runtime();
        let (a, b) = (memory(), memory());
        add(&rt, &a).unwrap();
        // The second array's buffer is refused once; the first array goes back to the host.
        add(&rt, &b).unwrap();
        assert!(rt.devices()[0].transfers().from_device.bytes >= 8 * N as u64);
        assert_eq!((a.get(0).unwrap(), b.get(N - 1).unwrap()), (2, 2));
    });
}

#[test]
fn an_array_that_a_device_has_no_room_for_goes_through_it_in_parts() {
    in_process(&devices("memory=64K"), || {
        let rt = flash_tests::runtime();
        assert_eq!(rt.devices()[0].info().memory_bytes, 64 << 10);
        let large = FlashMemory::from(vec![1u64; 1 << 15]);
        add(&rt, &large).unwrap();
        assert!(large.read().unwrap().iter().all(|value| *value == 2));
        let error = rt.submit(Add::of(&large)).options(Subspaces(1)).exec([1 << 15]).unwrap_err();
        assert!(error.to_string().contains("65536") && error.to_string().contains("262144"), "{error}");
    });
}

#[test]
fn a_lost_device_is_named_and_the_others_go_on() {
    // The array comes to it, is computed with, and goes back; then it is lost.
    in_process(&devices("devices=2 lose=1:4"), || {
        let rt = flash_tests::runtime();
        let second = rt.options(Devices::key("TEST:1"));
        let a = memory();
        add(&second, &a).unwrap();
        let error = add(&second, &a).unwrap_err();
        assert!(error.to_string().contains("TEST:1") && error.to_string().contains("is lost"), "{error}");
        // What was only there is gone.
        assert!(matches!(a.read(), Err(Error::Poisoned)));
        for _ in 0..2 {
            let error = add(&second, &memory()).unwrap_err();
            let Error::Launch(launch) = &error else { panic!("{error:?}") };
            assert!(matches!(launch.cause(), Error::Backend { code: Code::DeviceLost, .. }), "{error}");
        }
        let (first, b) = (rt.options(Devices::key("TEST:0")), memory());
        add(&first, &b).unwrap();
        assert_eq!(*b.read().unwrap(), [2; N]);
    });
}

#[test]
fn launches_and_copies_take_the_time_that_a_device_is_said_to_need() {
    in_process(&devices("ns=20000 rate=1000000"), || {
        let rt = flash_tests::runtime();
        let memory = memory();
        let start = Instant::now();
        add(&rt, &memory).unwrap();
        // 8000 bytes to the device, and 1000 items.
        assert!(start.elapsed() >= Duration::from_millis(8 + 20), "{:?}", start.elapsed());
        let start = Instant::now();
        assert_eq!(memory.get(0).unwrap(), 2);
        assert!(start.elapsed() >= Duration::from_millis(8), "{:?}", start.elapsed());
    });
}

/// The host goes on while a device computes: two devices of the same speed take no longer than one.
#[test]
fn slow_devices_compute_at_the_same_time() {
    in_process(&devices("devices=2 ns=100000"), || {
        let rt = flash_tests::runtime();
        let memories = [memory(), memory()];
        let both = |rt: &RuntimeObj| {
            let chain = rt.submit(Add::of(&memories[0])).options(Devices::key("TEST:0")).defer([N]);
            chain.submit(Add::of(&memories[1])).options(Devices::key("TEST:1")).defer([N])
        };
        both(&rt).exec().unwrap();
        let start = Instant::now();
        both(&rt).exec().unwrap();
        // 100 ms each.
        assert!(start.elapsed() < Duration::from_millis(190), "{:?}", start.elapsed());
        assert!(memories.iter().all(|memory| memory.get(0).unwrap() == 3));
    });
}

#[test]
fn a_setting_that_makes_no_sense_makes_the_backend_unavailable() {
    in_process(&[("FLASH_TEST", "devices=2 colour=red")], || {
        let error = get_runtime("TEST").map(drop).unwrap_err().to_string();
        assert!(error.contains("`TEST` is unavailable") && error.contains("colour=red"), "{error}");
    });
}
