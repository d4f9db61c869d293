//! The diffusion kernels: every implementation on the CPU, every OpenCL device, and all of them together,
//! against a second implementation of the definition, and the reference problem's exact counts.

use crate::{devices_of_all_kinds, with_cpu};
use flash::RuntimeObj;
use flash::kernels::diffusion::{Heat, OUTSIDE, count, heat, stretches, walk};
use flash::prelude::*;

/// A problem: its grid, circles and moves.
struct Problem {
    grid: usize,
    radius: f32,
    particles: usize,
    rx: Vec<f32>,
    ry: Vec<f32>,
}

/// SplitMix64 as numbers of -1/2 to 1/2 with 24 bits.
fn uniform(mut state: u64) -> impl FnMut() -> f32 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24) - 0.5) as f32
    }
}

impl Problem {
    fn new(grid: usize, radius: f32, particles: usize, iterations: usize, scale: f32) -> Problem {
        let mut next = uniform(777);
        let mut moves = || (0..iterations * particles).map(|_| next() * scale).collect();
        Problem { grid, radius, particles, rx: moves(), ry: moves() }
    }

    /// The reference problem: 512 iterations of 256 particles.
    fn reference() -> Problem {
        Problem::new(22, 0.5, 256, 512, 0.125)
    }

    fn start(&self) -> f32 {
        (self.grid / 2) as f32
    }

    /// The counts, one move after the other, by the definition.
    fn expected(&self) -> Vec<u64> {
        let (n, cells) = (self.particles, self.grid * self.grid);
        let mut counts = vec![0u64; 3 * cells];
        for particle in 0..n {
            let (mut x, mut y, mut at) = (self.start(), self.start(), None);
            for k in 0..self.rx.len() / n {
                x += self.rx[k * n + particle];
                y += self.ry[k * n + particle];
                let cell = [x, y].map(|x| (f64::from(x) + 0.5).floor());
                let [dx, dy] = [x, y].map(|x| (x - x.round()).abs());
                let on_grid = cell.iter().all(|&c| c >= 0.0 && c < self.grid as f64);
                let inside = on_grid && (dx * dx + dy * dy).sqrt() <= self.radius;
                let now = inside.then(|| cell[0] as usize + cell[1] as usize * self.grid);
                if let Some(now) = now {
                    counts[now] += 1;
                }
                if now != at {
                    if let Some(at) = at {
                        counts[cells + at] -= 1;
                    }
                    if let Some(now) = now {
                        counts[cells + now] += 1;
                        counts[2 * cells + now] += 1;
                    }
                    at = now;
                }
            }
        }
        counts
    }

    /// The same by the kernels, in launches of `stride` iterations, with these implementations.
    fn counted(&self, rt: &RuntimeObj, stride: usize, names: [Option<&'static str>; 2]) -> Vec<u64> {
        let (n, cells) = (self.particles, self.grid * self.grid);
        let [x, y] = [(); 2].map(|()| FlashMemory::from(vec![self.start(); n]));
        let cell = FlashMemory::from(vec![OUTSIDE; n]);
        let track = FlashMemory::zeroed((stride + 1) * n).with_shape([stride + 1, n]).unwrap();
        let counts = FlashMemory::<u64>::zeroed(3 * cells);
        let [moving, counting] = names.map(|name| match name {
            Some(name) => rt.options(Implementation::named(name)),
            None => rt.clone(),
        });
        for (rx, ry) in self.rx.chunks(stride * n).zip(self.ry.chunks(stride * n)) {
            let iterations = rx.len() / n;
            let [rx, ry] = [rx, ry].map(FlashMemory::from);
            let walk = walk(self.grid as u32, self.radius, [&rx, &ry], [&x, &y], &cell, &track).unwrap();
            moving.submit(walk).exec([n]).unwrap();
            let count = count(iterations, &track, &counts).unwrap();
            counting.submit(count).exec((stretches(iterations), n)).unwrap();
        }
        counts.read().unwrap().to_vec()
    }
}

/// FNV-1a over the counts of a plane as little-endian numbers of 64 bits.
fn fnv1a64(counts: &[u64]) -> u64 {
    let bytes = counts.iter().flat_map(|count| count.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The reference problem's counts are the published ones.
fn assert_reference(counts: &[u64], place: &str) {
    let planes: Vec<&[u64]> = counts.chunks(22 * 22).collect();
    let sums: Vec<u64> = planes.iter().map(|plane| plane.iter().sum()).collect();
    assert_eq!(sums, [106_909, 197, 5603], "{place}");
    let centre: Vec<u64> = planes.iter().map(|plane| plane[11 + 11 * 22]).collect();
    assert_eq!(centre, [57_462, 53, 2049], "{place}");
    let hashes: Vec<u64> = planes.iter().map(|plane| fnv1a64(plane)).collect();
    assert_eq!(hashes, [0xefcf_5e40_d2f5_9e90, 0x9bdf_be2e_2d1c_0f72, 0x9dcf_895e_092d_5f31], "{place}");
}

#[test]
fn the_reference_problem_has_its_exact_counts_in_one_launch_and_in_many() {
    let (problem, rt) = (Problem::reference(), get_runtime("ALL_CPU").unwrap());
    assert_reference(&problem.expected(), "the definition");
    for stride in [512, 100, 1] {
        assert_reference(&problem.counted(&rt, stride, [None; 2]), &format!("{stride} iterations a launch"));
    }
}

#[test]
fn every_implementation_on_the_cpu_counts_the_same() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let mut walks = vec!["plain", "portable"];
    #[cfg(target_arch = "x86_64")]
    {
        walks.extend(is_x86_feature_detected!("avx2").then_some("avx2"));
        walks.extend(is_x86_feature_detected!("avx512f").then_some("avx512"));
    }
    // Few and many particles, odd numbers, circles that touch, overlap, or have no inside; fast ones that
    // leave.
    for (grid, radius, particles, iterations, scale) in [
        (22, 0.5, 256, 512, 0.125),
        (5, 0.7072, 37, 301, 0.5),
        (4, 0.25, 1, 77, 3.0),
        (1, 0.0, 17, 33, 0.5),
        (300, 10.0, 50, 65, 1e3),
        (22, -1.0, 16, 32, 0.1),
        // More than are moved together.
        (22, 0.5, 523, 50, 0.5),
    ] {
        let problem = Problem::new(grid, radius, particles, iterations, scale);
        let expected = problem.expected();
        for walk in &walks {
            for count in ["plain", "stays"] {
                let found = problem.counted(&rt, 64, [Some(walk), Some(count)]);
                assert_eq!(found, expected, "{walk}, {count}: {particles} particles, radius {radius}");
            }
        }
    }
}

#[test]
fn stretches_beyond_the_iterations_count_nothing() {
    let track = FlashMemory::from(vec![OUTSIDE, 1, 1, 0]).with_shape([4, 1]).unwrap();
    for name in ["plain", "stays"] {
        let counts = FlashMemory::<u64>::zeroed(3 * 4);
        let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named(name));
        rt.submit(count(3, &track, &counts).unwrap()).exec((stretches(3) + 5, 1)).unwrap();
        assert_eq!(counts.read().unwrap()[..], [1, 2, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0], "{name}");
        // Nor does a launch of them alone.
        rt.submit(count(3, &track, &counts).unwrap()).exec((1..3, 1)).unwrap();
        assert_eq!(counts.read().unwrap()[..3], [1, 2, 0], "{name}");
    }
}

#[test]
fn every_device_and_all_together_have_the_reference_counts() {
    let devices = devices_of_all_kinds("diffusion::every_device_and_all_together_have_the_reference_counts");
    let problem = Problem::reference();
    for device in &devices {
        let rt = get_runtime(device).unwrap();
        assert_reference(&problem.counted(&rt, 256, [None; 2]), device);
        if !device.starts_with("NVIDIA_GPU") {
            assert_reference(&problem.counted(&rt, 256, [Some("any"), None]), device);
        }
    }
    if !devices.is_empty() {
        assert_reference(&problem.counted(&with_cpu(&devices), 512, [None; 2]), "all together");
    }
}

/// A field of this size, not smooth.
fn field(width: usize, height: usize) -> FlashMemory<f32> {
    let mut next = uniform(1);
    FlashMemory::from((0..width * height).map(|_| next()).collect::<Vec<_>>())
        .with_shape([width, height])
        .unwrap()
}

/// The field after two steps.
fn heated(rt: &RuntimeObj, (width, height): (usize, usize), rate: f32) -> Vec<f32> {
    let (a, b) = (field(width, height), field(width, height));
    rt.submit(heat(rate, &a, &b).unwrap()).exec((width, height)).unwrap();
    rt.submit(heat(rate, &b, &a).unwrap()).exec((width, height)).unwrap();
    a.read().unwrap().to_vec()
}

/// The same by the definition.
fn heated_plainly((width, height): (usize, usize), rate: f32) -> Vec<f32> {
    let step = |from: &[f32]| -> Vec<f32> {
        let at = |x: usize, y: usize| from[y * width + x];
        let new = |i: usize| {
            let (x, y) = (i % width, i / width);
            let across = at(x.saturating_sub(1), y) + at((x + 1).min(width - 1), y);
            let along = at(x, y.saturating_sub(1)) + at(x, (y + 1).min(height - 1));
            at(x, y) + rate * ((across + along) - 4.0 * at(x, y))
        };
        (0..from.len()).map(new).collect()
    };
    step(&step(&field(width, height).read().unwrap()))
}

const SIZES: [(usize, usize); 8] = [(1, 1), (1, 7), (9, 1), (2, 2), (3, 5), (20, 3), (33, 65), (257, 130)];

#[test]
fn heat_spreads_alike_through_every_implementation() {
    let rt = get_runtime("ALL_CPU").unwrap();
    for size in SIZES {
        let expected = heated_plainly(size, 0.2);
        assert_eq!(heated(&rt, size, 0.2), expected, "{size:?}");
        for name in ["plain", "portable"] {
            let rt = rt.options(Implementation::named(name));
            assert_eq!(heated(&rt, size, 0.2), expected, "{name}, {size:?}");
        }
    }
}

#[test]
fn heat_of_some_cells_leaves_the_others() {
    let (width, height) = (40, 5);
    let from = field(width, height);
    let to = FlashMemory::<f32>::zeroed([width, height]);
    get_runtime("ALL_CPU").unwrap().submit(heat(0.2, &from, &to).unwrap()).exec((width, height)).unwrap();
    let all = to.read().unwrap().to_vec();
    for columns in [0..1, 39..40, 0..40, 0..17, 23..40, 7..8, 7..9, 7..30] {
        let some = FlashMemory::<f32>::from(vec![9.0; width * height]).with_shape([width, height]).unwrap();
        let rt = get_runtime("ALL_CPU").unwrap();
        rt.submit(heat(0.2, &from, &some).unwrap()).exec((columns.clone(), 1..4)).unwrap();
        for (i, &cell) in some.read().unwrap().iter().enumerate() {
            let is_in = columns.contains(&(i % width)) && (1..4).contains(&(i / width));
            assert_eq!(cell, if is_in { all[i] } else { 9.0 }, "{columns:?}: cell {i}");
        }
    }
}

#[test]
fn heat_spreads_alike_on_devices_and_over_all_of_them() {
    let devices = devices_of_all_kinds("diffusion::heat_spreads_alike_on_devices_and_over_all_of_them");
    let keys = devices
        .iter()
        .cloned()
        .chain((!devices.is_empty()).then(|| format!("ALL_CPU,{}", devices.join(","))));
    for key in keys {
        let rt = get_runtime(&key).unwrap();
        for size in SIZES {
            assert_eq!(heated(&rt, size, 0.2), heated_plainly(size, 0.2), "{key}, {size:?}");
        }
    }
}

#[test]
fn what_does_not_fit_fails_the_launch_and_nothing_else() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (from, to) = (field(4, 4), field(4, 4));
    let error = rt.submit(Heat::of(0.1, 4, 5, &from, &to)).exec((4, 4)).unwrap_err().to_string();
    assert!(error.contains("expected `from` of 4 x 5 elements, found 16, 4 in a row"), "{error}");

    let track = FlashMemory::from(vec![7u32; 4]).with_shape([2, 2]).unwrap();
    let counts = FlashMemory::<u64>::zeroed(3 * 7);
    for name in ["plain", "stays"] {
        let rt = rt.options(Implementation::named(name));
        let error = rt.submit(count(1, &track, &counts).unwrap()).exec((1, 2)).unwrap_err().to_string();
        assert!(error.contains("cell 7 of a plane of 7"), "{name}: {error}");
        counts.write().unwrap().fill(0);
    }
    assert_eq!(heated(&rt, (3, 3), 0.1), heated_plainly((3, 3), 0.1));
}
