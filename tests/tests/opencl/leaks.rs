//! Memory and OpenCL's objects are released after use.

use crate::kernels::{Scale, Total, Wrap};
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
        for device in devices("leaks::buffers_that_come_and_go_leave_nothing_behind") {
            let rt = get_runtime(&device).unwrap();
            let before_all = Objects::of(&device, "buffers");
            let cycle = |bytes: usize| {
                let n = bytes / 4;
                let (x, y) = (FlashMemory::from(vec![1.0f32; n]), FlashMemory::<f32>::zeroed(n));
                rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named("text")).exec([n]).unwrap();
                assert_eq!(y.read_range(n - 1..).unwrap()[0], 3.0);
            };
            // Sizes differ, so that the cache of buffers has to free some: it may keep at most 1 MiB.
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
            // Two stages, the kernel's latest tables, and what the budget has room for.
            assert!(kept <= 2 + 8 + 8, "{device}: {kept} of them are still there: {buffers:?}");
        }
    });
}

#[test]
fn ten_thousand_launches_leave_nothing_behind() {
    const LAUNCHES: u64 = 10_000;
    // No program is loaded from disk meanwhile.
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

#[test]
fn programs_of_texts_that_come_and_go_are_released() {
    const TEXTS: u64 = 80;
    // No program is loaded from disk meanwhile.
    flash_tests::in_process(&[("FLASH_CACHE_LIMIT", "0")], || {
        for device in devices("leaks::programs_of_texts_that_come_and_go_are_released") {
            let rt = get_runtime(&device).unwrap();
            let run = |number: u64| {
                let text = format!(
                    "__kernel void scale(float a, __global const float *x, __global float *y) {{ y[get_global_id(0)] += a * x[get_global_id(0)] + {number}; }}"
                );
                let (x, y) = (FlashMemory::from(vec![2.0f32; 8]), FlashMemory::<f32>::zeroed(8));
                rt.submit(Scale::of(3.0, &x, &y))
                    .options(Implementation::source(text, "scale"))
                    .exec([8])
                    .unwrap();
                assert_eq!(*y.read().unwrap(), [6.0 + number as f32; 8], "{device}");
            };
            // The definition's own implementations are prepared in any case.
            run(TEXTS);
            let before = Objects::of(&device, "programs");
            (0..TEXTS).for_each(run);
            let after = Objects::of(&device, "programs");
            assert_eq!(after.made - before.made, TEXTS, "{device}");
            // Plans are kept for the latest options, and some programs that have no kernel any more.
            assert!(after.live() - before.live() <= 32 + 32 + 1, "{device}: {after:?}");
            run(0);
            run(TEXTS - 1);
            assert_eq!(
                Objects::of(&device, "programs").made - after.made,
                1,
                "{device}: only the first is gone"
            );
        }
    });
}

#[test]
fn what_is_kept_of_the_hosts_arrays_goes_with_them() {
    // No program is loaded from disk meanwhile.
    flash_tests::in_process(&[("FLASH_CACHE_LIMIT", "0")], || {
        for device in devices("leaks::what_is_kept_of_the_hosts_arrays_goes_with_them") {
            let rt = get_runtime(&device).unwrap();
            if !rt.devices()[0].info().host_memory {
                continue;
            }
            let (mut x, mut y) = (vec![1.0f32; 256], vec![0.0f32; 256]);
            let cycle = |i: usize, x: &mut [f32], y: &mut [f32]| {
                let n = 100 + i % 7;
                let text = || Implementation::named("text");
                // Memories, ranges of them, slices, second buffers of both, accumulators.
                let (from, to) = (FlashMemory::from(vec![1.0f32; n]), FlashMemory::<f32>::zeroed(n));
                rt.submit(Scale::of(3.0, &from, &to)).options(text()).exec([n]).unwrap();
                let (part, other) = (from.range(i % 9..i % 9 + 50).unwrap(), to.range(..50).unwrap());
                rt.submit(Scale::of(1.0, part, other)).options(text()).exec([50]).unwrap();
                assert_eq!(to.read().unwrap()[48..52], [4.0, 4.0, 3.0, 3.0], "{device}, {i}");
                rt.submit(Scale::of(1.0, &x[..n], &mut y[..n])).options(text()).exec([n]).unwrap();
                assert_eq!(y[99], (i + 1) as f32, "{device}");
                let cells = FlashMemory::from([1u64, 2, 3]);
                rt.submit(Wrap::of(&cells)).exec([3, 3]).unwrap();
                assert_eq!(*cells.read().unwrap(), [4, 5, 6], "{device}, {i}");
                let mut slice = [1u64, 2, 3];
                rt.submit(Wrap::of(&mut slice[..])).exec([3, 3]).unwrap();
                assert_eq!(slice, [4, 5, 6], "{device}, {i}");
                let sum = FlashMemory::from([0u64]);
                rt.submit(Total::of(&cells, &sum)).exec([3]).unwrap();
                assert_eq!(sum.get(0).unwrap(), 15, "{device}, {i}");
                x[0] = 1.0;
            };
            (0..10).for_each(|i| cycle(i, &mut x, &mut y));
            let before = Objects::of(&device, "buffers");
            (10..500).for_each(|i| cycle(i, &mut x, &mut y));
            let after = Objects::of(&device, "buffers");
            assert!(after.made - before.made >= 490 * 8, "{device}: {before:?}, {after:?}");
            // A thread keeps its accumulators' memory, and a kernel its tables.
            assert!(after.live() <= before.live() + 2, "{device}: {before:?}, {after:?}");
        }
    });
}
