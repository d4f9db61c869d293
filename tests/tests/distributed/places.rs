//! How much of the host's memory arrays take. (The memory of these devices is memory of this process, too.)

use crate::{ONE, TWO};
use flash::kernel::views::{Item, Read, Reduce, Sum, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Context, Error, kernel};
use flash_core::memory::{host_budget, set_host_budget};
use flash_tests::in_process;

#[derive(KernelDefinition)]
#[kernel(name = "places.fill", dims(i), part_by(i))]
struct Fill<'a> {
    to: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "places.sum", dims(i), part_by(i))]
struct Total<'a> {
    of: Item<'a, Read<u64>>,
    sum: Reduce<'a, Write<u64>, Sum>,
}

struct Plain;

#[kernel]
impl CpuItem<Fill<'_>> for Plain {
    fn item(at: Index<1>, k: FillItem<'_>) {
        k.to.set(at[0] as u64);
    }
}

#[kernel]
impl CpuItem<Total<'_>> for Plain {
    fn item(_: Index<1>, mut k: TotalItem<'_>) {
        k.sum.put(*k.of);
    }
}

const MIB: u64 = 1 << 20;

/// Memory that differs from run to run, such as stacks of threads.
const SLACK: u64 = 12 * MIB;

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Each device has the same share in every launch.
fn halves() -> RuntimeObj {
    let rt = flash_tests::runtime();
    let shares = vec![1.0; rt.devices().len()];
    rt.options(weights(shares))
}

/// Fills an array on a runtime's devices, and sums it there.
fn fill_and_sum(rt: &RuntimeObj, memory: &FlashMemory<u64>) {
    let (n, sum) = (memory.len(), FlashMemory::<u64>::zeroed(1));
    rt.submit(Fill::of(memory)).exec([n]).unwrap();
    rt.submit(Total::of(memory, &sum)).exec([n]).unwrap();
    assert_eq!(sum.get(0).unwrap(), n as u64 * (n as u64 - 1) / 2);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "asks Linux")]
fn an_array_that_only_devices_touch_adds_nothing_to_what_the_process_has() {
    for variables in [ONE, TWO] {
        in_process(variables, || {
            let rt = halves();
            fill_and_sum(&rt, &FlashMemory::zeroed(1000));
            let before = resident();
            let memory = FlashMemory::<u64>::zeroed(64 * MIB / 8);
            fill_and_sum(&rt, &memory);
            let devices = resident() - before;
            assert!((64 * MIB..64 * MIB + SLACK).contains(&devices), "{devices}");
            // The host reads it, and then has it, too.
            let last = memory.len() - 1;
            assert_eq!(memory.read().unwrap()[last], last as u64);
            assert!(resident() - before >= 128 * MIB);
        });
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "asks Linux")]
fn an_array_of_twice_the_budget_of_host_memory_over_two_devices() {
    in_process(TWO, || {
        set_host_budget(32 * MIB);
        assert_eq!(host_budget(), 32 * MIB);
        let rt = halves();
        fill_and_sum(&rt, &FlashMemory::zeroed(1000));
        let before = resident();
        let memory = FlashMemory::<u64>::zeroed(64 * MIB / 8);
        fill_and_sum(&rt, &memory);
        let (mut sum, step) = (0, 1 << 18);
        for begin in (0..memory.len()).step_by(step) {
            let piece = memory.read_range(begin..begin + step).unwrap();
            sum += piece.iter().sum::<u64>();
            drop(piece);
            let most = resident() - before;
            assert!(most < (64 + 32) * MIB + SLACK, "{most}");
        }
        let n = memory.len() as u64;
        assert_eq!(sum, n * (n - 1) / 2);
        // It is on the devices as before.
        fill_and_sum(&rt, &memory);
    });
}

/// Also that of a context, which may be made after the first arrays.
#[test]
fn the_setting_is_the_budget_until_the_program_says_another() {
    in_process(&[("FLASH_HOST_BUDGET", "67108864")], || {
        let _memory = FlashMemory::<u64>::zeroed(8 * MIB / 8);
        assert_eq!(host_budget(), 64 * MIB);
        let _context = Context::builder().set("host_budget", 48 * MIB).build().unwrap();
        assert_eq!(host_budget(), 48 * MIB);
        set_host_budget(32 * MIB);
        assert_eq!(host_budget(), 32 * MIB);
    });
}

#[test]
fn a_launch_for_which_the_host_has_no_memory_fails_and_the_next_does_not() {
    let promises = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if promises.trim() == "1" || cfg!(not(target_os = "linux")) {
        return;
    }
    let rt = get_runtime("ALL_CPU").unwrap();
    let memory = FlashMemory::<u64>::try_zeroed(1u64 << 42).unwrap();
    let error = rt.submit(Fill::of(&memory)).exec([4]).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { wanted, .. } if wanted == 1 << 45), "{error}");
    assert_eq!(memory.get(1 << 41).unwrap(), 0);
    fill_and_sum(&rt, &FlashMemory::zeroed(4 * MIB));
}
