//! What comes and goes leaves nothing behind: neither memory nor OpenCL's objects.

use crate::kernels::Scale;
use crate::{Objects, devices};
use flash::prelude::*;

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn buffers_that_come_and_go_leave_nothing_behind() {
    const BYTES: usize = 1 << 18;
    flash_tests::in_process(&[("FLASH_OPENCL_COPY", "1"), ("FLASH_CACHE_LIMIT", "0")], || {
        for device in devices("launches::buffers_that_come_and_go_leave_nothing_behind") {
            let rt = get_runtime(&device).unwrap();
            let before_all = Objects::of(&device, "buffers");
            let cycle = |bytes: usize| {
                let n = bytes / 4;
                let (x, y) = (FlashMemory::from(vec![1.0f32; n]), FlashMemory::<f32>::zeroed(n));
                rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named("text")).exec([n]).unwrap();
                assert_eq!(y.read_range(n - 1..).unwrap()[0], 3.0);
            };
            // Sizes differ, so that the cache of buffers has to let some go: all it may keep is 1 MiB.
            let memory = rt.devices()[0];
            assert!(memory.set_memory_budget(4 * BYTES as u64));
            (0..100).for_each(|i| cycle(BYTES / 2 + 1024 * (i % 100)));
            let before = resident();
            (0..1_000).for_each(|i| cycle(BYTES / 2 + 1024 * (i % 100)));
            let grown = resident().saturating_sub(before);
            assert!(grown < 8 << 20, "{device}: {grown} bytes more after 1,000 cycles of two buffers");
            let buffers = Objects::of(&device, "buffers");
            let kept = buffers.live() - before_all.live();
            assert!(
                buffers.made - before_all.made >= 1_000,
                "{device}: the cache has let none go: {buffers:?}"
            );
            // Two stages, a table of the kernel's, and what the budget has room for.
            assert!(kept <= 3 + 8, "{device}: {kept} of them are still there: {buffers:?}");
        }
    });
}

#[test]
fn ten_thousand_launches_leave_nothing_behind() {
    const LAUNCHES: u64 = 10_000;
    // Nothing is loaded from disk meanwhile.
    flash_tests::in_process(&[("FLASH_CACHE_LIMIT", "0")], || {
        for device in devices("leaks::ten_thousand_launches_leave_nothing_behind") {
            let rt = get_runtime(&device).unwrap();
            let (x, y) = (FlashMemory::from(vec![1.0f32; 64]), FlashMemory::<f32>::zeroed(64));
            let launches = |n: u64| {
                let submit = || rt.submit(Scale::of(1.0, &x, &y)).options(Implementation::named("text"));
                (0..n).for_each(|_| submit().exec([64]).unwrap());
            };
            let objects =
                || ["buffers", "events", "kernels", "programs"].map(|kind| Objects::of(&device, kind));
            launches(1_000);
            let (before, memory) = (objects(), resident());
            launches(LAUNCHES);
            let (after, grown) = (objects(), resident().saturating_sub(memory));
            assert!(grown < 4 << 20, "{device}: {grown} bytes more after {LAUNCHES} launches");
            assert!(after[1].made - before[1].made >= LAUNCHES, "{device}: {before:?}, {after:?}");
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.live(), after.live(), "{device}: {before:?}, {after:?}");
            }
            assert_eq!(y.get(63).unwrap(), (LAUNCHES + 1_000) as f32, "{device}");
        }
    });
}
