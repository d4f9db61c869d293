//! The results of kernels: whole, sorted, cut, on one device and on all of them together.

use crate::devices;
use crate::kernels::{Far, Grid, Scale, Spread, Total, Wrap};
use flash::prelude::*;
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 7919 % 10_007) as f32 * 0.25).collect()
}

/// `y + 3 x`, exactly, for these numbers.
fn scaled(x: &[f32], y: &[f32]) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| y + 3.0 * x).collect()
}

#[test]
fn every_kind_of_implementation_gives_the_same() {
    for device in devices("launches::every_kind_of_implementation_gives_the_same") {
        let rt = get_runtime(&device).unwrap();
        for name in ["text", "plain", "one item", "index32"] {
            for n in [1, 2, 63, 1000, 100_003] {
                let (x, y) = (numbers(n), numbers(2 * n)[n..].to_vec());
                let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
                for _ in 0..2 {
                    rt.submit(Scale::of(3.0, &from, &to))
                        .options(Implementation::named(name))
                        .exec([n])
                        .unwrap();
                }
                assert_eq!(*to.read().unwrap(), scaled(&x, &scaled(&x, &y)), "{device}, {name}, {n}");
            }
        }
    }
}

#[test]
fn indices_are_global_whatever_the_order() {
    for device in devices("launches::indices_are_global_whatever_the_order") {
        let rt = get_runtime(&device).unwrap();
        let check = |what: &str, name: &str, dims: [Dim; 3], values: [Vec<u64>; 3], options: Attributes| {
            let out = FlashMemory::<u64>::zeroed([9, 7, 5]);
            let run = rt.submit(Grid::of(&out)).options(options).options(Implementation::named(name));
            run.exec(dims).unwrap();
            let mut expected = vec![0; 9 * 7 * 5];
            for &z in &values[2] {
                for &y in &values[1] {
                    for &x in &values[0] {
                        expected[(x + 9 * (y + 7 * z)) as usize] += 1 + x + 1000 * y + 1_000_000 * z;
                    }
                }
            }
            assert_eq!(*out.read().unwrap(), expected, "{device}, {name}, {what}");
        };
        let all = || [(0..9).collect(), (0..7).collect(), (0..5).collect::<Vec<u64>>()];
        let counts = || [Dim::from(9), 7.into(), 5.into()];
        let some = || [vec![3, 4, 5], vec![6, 0, 2], vec![1]];
        let odd = || [Dim::from(3..6), count_by([6u64, 0, 2]), (1..2).into()];
        let none = Attributes::default;
        for name in ["text", "one item", "indices", "indices32", "runs", "items of threads", "plain"] {
            check("all", name, counts(), all(), none());
        }
        for name in ["text", "one item", "indices", "indices32", "runs", "items of threads"] {
            check("some", name, odd(), some(), none());
            let line = [Dim::from(2..9), (3..4).into(), (4..5).into()];
            check("a line", name, line, [(2..9).collect(), vec![3], vec![4]], none());
            let part = [Dim::from(2..9), (3..6).into(), (1..4).into()];
            check("a box", name, part, [(2..9).collect(), (3..6).collect(), (1..4).collect()], none());
            let column = [Dim::from(4..5), (1..7).into(), (2..3).into()];
            check("a column", name, column, [vec![4], (1..7).collect(), vec![2]], none());
            let steps = [Dim::Range { start: 1, step: 2, count: 4 }, (3..4).into(), (4..5).into()];
            check("steps", name, steps, [vec![1, 3, 5, 7], vec![3], vec![4]], none());
            let one = [Dim::from(8..9), (6..7).into(), (4..5).into()];
            check("one", name, one, [vec![8], vec![6], vec![4]], none());
            let mut sorted = none();
            sorted.set(sort_by(["y"]));
            check("sorted", name, odd(), some(), sorted);
            let mut grouped = none();
            grouped.set(group_by(["y"]));
            check("grouped", name, counts(), all(), grouped);
        }
        // CUDA's own indices begin with 0.
        if crate::TARGET == "cuda" {
            continue;
        }
        let ranges = [Dim::from(2..9), (1..3).into(), (4..5).into()];
        check("ranges", "plain", ranges, [(2..9).collect(), vec![1, 2], vec![4]], none());
    }
}

fn cells(n: usize) -> Vec<u64> {
    (0..n as u64).map(|i| i * i % 97).collect()
}

/// The result of `Spread`.
fn spread(mut cells: Vec<u64>, steps: u64) -> Vec<u64> {
    for step in 0..steps {
        let was = cells.clone();
        for (i, cell) in cells.iter_mut().enumerate() {
            let left = if i > 0 { was[i - 1] } else { 0 };
            let right = was.get(i + 1).copied().unwrap_or(0);
            *cell = 3 * was[i] + step + i as u64 + left + right;
        }
    }
    cells
}

/// All devices together, including those of the CPU backend.
fn together(devices: &[String]) -> RuntimeObj {
    get_runtime(&format!("ALL_CPU,{}", devices.join(","))).unwrap()
}

#[test]
fn all_devices_together_give_what_one_gives() {
    let devices = devices("launches::all_devices_together_give_what_one_gives");
    if !devices.is_empty() {
        share_launches(&devices);
        flash_tests::in_process(&[("FLASH_OPENCL_COPY", "1")], || {
            share_launches(&crate::devices("launches::all_devices_together_give_what_one_gives"));
        });
    }
}

fn share_launches(devices: &[String]) {
    let rt = together(devices);
    let shares = || weights((0..rt.devices().len() as u32).map(|i| 1 + i));
    let n = 10_007;
    let (x, y) = (numbers(n), numbers(n));
    let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
    for _ in 0..3 {
        rt.submit(Scale::of(3.0, &from, &to)).options(shares()).exec([n]).unwrap();
    }
    assert_eq!(*to.read().unwrap(), scaled(&x, &scaled(&x, &scaled(&x, &y))));
    for steps in [1u64, 2, 5] {
        let memory = FlashMemory::from(cells(n));
        rt.submit(Spread::of(&memory)).options(shares()).exec([n as u64, steps]).unwrap();
        assert_eq!(*memory.read().unwrap(), spread(cells(n), steps), "{steps} steps");
    }
    let (values, sum) = (FlashMemory::from(cells(50_000)), FlashMemory::from([5u64]));
    rt.submit(Total::of(&values, &sum)).options(shares()).exec([50_000]).unwrap();
    assert_eq!(sum.read().unwrap()[0], 5 + cells(50_000).iter().sum::<u64>());
    for device in rt.devices() {
        let bytes = device.transfers().to_device.bytes;
        assert_eq!(bytes == 0, device.info().host_memory, "{device:?}: {bytes} bytes copied to it");
    }
}

#[test]
fn groups_may_combine_their_values_themselves() {
    for device in devices("launches::groups_may_combine_their_values_themselves") {
        let rt = get_runtime(&device).unwrap();
        let sizes = [1, 9_000, 4_096, 300_000];
        for (name, n) in ["text", "groups", "runs"].into_iter().flat_map(|name| sizes.map(|n| (name, n))) {
            let (values, sum) = (FlashMemory::from(cells(n)), FlashMemory::from([5u64]));
            rt.submit(Total::of(&values, &sum)).options(Implementation::named(name)).exec([n]).unwrap();
            let expected = 5 + cells(n).iter().sum::<u64>();
            assert_eq!(sum.read().unwrap()[0], expected, "{device}, {name}, {n}");
        }
    }
}

#[test]
fn a_range_of_a_memory_is_found_at_its_place() {
    for device in devices("launches::a_range_of_a_memory_is_found_at_its_place") {
        let rt = get_runtime(&device).unwrap();
        let (x, y) = (numbers(1_000), numbers(1_000));
        let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
        // The whole of it is on the device before a range is.
        rt.submit(Scale::of(0.0, &from, &to)).options(Implementation::named("text")).exec([1_000]).unwrap();
        let mut expected = y.clone();
        // A kernel that does not cooperate does not know the offset of a buffer: it gets a part of it.
        for name in ["text", "plain"] {
            let (part, other) = (from.range(320..520).unwrap(), to.range(704..904).unwrap());
            rt.submit(Scale::of(3.0, part, other)).options(Implementation::named(name)).exec([200]).unwrap();
            let before = expected[704..904].to_vec();
            expected[704..904].copy_from_slice(&scaled(&x[320..520], &before));
            assert_eq!(*to.read().unwrap(), expected, "{device}, {name}");
        }
    }
}

/// Launches of one kernel. Most repeat the one before, and others differ in one respect.
fn launches_that_come_again(rt: &RuntimeObj, mut seed: u64) {
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    const N: usize = 500;
    let from = [0, 1].map(|k| FlashMemory::from(numbers(N + k)[k..].to_vec()));
    let mut to = [0, 1].map(|_| FlashMemory::<f32>::zeroed(N));
    let mut slice = vec![0.0; N];
    let mut expected = vec![vec![0.0; N]; 3];
    let (mut x, mut y, mut a, mut items) = (0, 0, 1.0, 0..N);
    for step in 0..400 {
        match random(8) {
            0 => x = 1 - x,
            1 => y = random(3),
            2 => a = 3.0 - a,
            3 => items = random(100)..N - random(100),
            4 => {
                // Another memory, possibly at the address of the old one.
                to[0] = FlashMemory::zeroed(N);
                expected[0].fill(0.0);
            }
            5 => from[1].write().unwrap().reverse(),
            _ => {}
        }
        let submission = match y {
            2 => rt.submit(Scale::of(a, &from[x], &mut slice[..])),
            _ => rt.submit(Scale::of(a, &from[x], &to[y])),
        };
        submission.exec([Dim::from(items.start as u64..items.end as u64)]).unwrap();
        let values = from[x].read().unwrap();
        for i in items.clone() {
            expected[y][i] += a * values[i];
        }
        let found = if y == 2 { slice.clone() } else { to[y].read().unwrap().to_vec() };
        assert_eq!(found, expected[y], "step {step}: {a} of {x} to {y}, {items:?}");
    }
}

#[test]
fn what_comes_again_is_told_what_is_new() {
    for device in devices("launches::what_comes_again_is_told_what_is_new") {
        let rt = &get_runtime(&device).unwrap();
        std::thread::scope(|scope| {
            for seed in 1..3 {
                scope.spawn(move || launches_that_come_again(rt, seed));
            }
        });
    }
}

#[test]
fn what_comes_again_after_phases_is_told_anew() {
    for device in devices("launches::what_comes_again_after_phases_is_told_anew") {
        let rt = get_runtime(&device).unwrap();
        let [one, two] = [(); 2].map(|()| FlashMemory::<u32>::zeroed(50));
        for (out, far) in [(&one, 200..201), (&two, 100..102u64), (&one, 200..201)] {
            rt.submit(Far::of(out)).options(Implementation::named("text")).exec((50, far)).unwrap();
        }
        assert_eq!((&*one.read().unwrap(), &*two.read().unwrap()), (&[2; 50][..], &[1; 50][..]), "{device}");
    }
}

#[test]
fn thousands_of_phases_are_one_launch() {
    for device in devices("launches::thousands_of_phases_are_one_launch") {
        let rt = get_runtime(&device).unwrap();
        let memory = FlashMemory::from(cells(5));
        rt.submit(Wrap::of(&memory)).exec([5u64, 10_001]).unwrap();
        let expected: Vec<u64> = (0..5).map(|i| cells(5)[(i + 10_001) % 5] + 10_001).collect();
        assert_eq!(*memory.read().unwrap(), expected, "{device}");
    }
}

#[test]
fn a_work_group_size_is_taken_or_refused() {
    for device in devices("launches::a_work_group_size_is_taken_or_refused") {
        let rt = get_runtime(&device).unwrap();
        let run = |name: &str, size: u64| {
            let (x, y) = (FlashMemory::from(numbers(999)), FlashMemory::from(numbers(999)));
            let mut options = Attributes::default();
            options.set_by_name("work_group_size", size.into(), true);
            rt.submit(Scale::of(3.0, &x, &y))
                .options(options)
                .options(Implementation::named(name))
                .exec([999])
                .map(|()| {
                    assert_eq!(*y.read().unwrap(), scaled(&numbers(999), &numbers(999)), "{device}, {size}")
                })
        };
        for size in [1, 7, 64] {
            run("text", size).unwrap();
        }
        run("plain", 27).unwrap();
        let error = run("plain", 64).unwrap_err().to_string();
        assert!(error.contains("a work-group of 64 does not divide"), "{device}: {error}");
        let error = run("text", 1 << 40).unwrap_err().to_string();
        assert!(error.contains("expected a work-group of up to"), "{device}: {error}");
        run("text", 8).unwrap();
    }
}

/// Pipelines of three launches each, all of them asked for before the first is waited for.
#[test]
fn a_thousand_asynchronous_pipelines_are_right_and_their_threads_few() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    const N: usize = 64;
    for device in devices("launches::a_thousand_asynchronous_pipelines_are_right_and_their_threads_few") {
        let rt = get_runtime(&device).unwrap();
        let from = FlashMemory::from(numbers(N));
        let three = |to: &FlashMemory<f32>| {
            let scale = |pipeline: Pipeline<'static>| {
                pipeline.submit(Scale::of(3.0, from.clone(), to.clone())).defer([N])
            };
            scale(scale(scale(rt.pipeline()))).exec_async()
        };
        three(&FlashMemory::zeroed(N)).wait().unwrap();
        let before = threads();
        let memories: Vec<_> = (0..1000).map(|_| FlashMemory::<f32>::zeroed(N)).collect();
        let handles: Vec<_> = memories.iter().map(three).collect();
        let most = handles.iter().map(|handle| (handle.wait().unwrap(), threads()).1).max().unwrap();
        // Eight that put them into the queue, and eight that serve devices.
        assert!(most <= before + 16, "{device}: {most} threads, {before} before");
        let expected: Vec<f32> = numbers(N).iter().map(|x| 9.0 * x).collect();
        assert!(memories.iter().all(|to| *to.read().unwrap() == expected), "{device}");
    }
}
