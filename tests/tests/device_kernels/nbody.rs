//! The N-body kernels on devices.

use crate::{devices, devices_of_all_kinds, ran, with_cpu};
use flash::RuntimeObj;
use flash::kernels::nbody::{Accelerate, Integrate, Simulate};
use flash::prelude::*;
use flash_tests::Number;

const G: f64 = 0.8;
const DT: f64 = 1.0 / 256.0;

/// Masses and positions that both precisions hold exactly, in no order.
fn system(n: usize) -> (Vec<f64>, Vec<[f64; 3]>) {
    let mut state = 88172645463325252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f64::from((state >> 40) as f32 / (1 << 24) as f32)
    };
    (0..n).map(|_| (0.5 + (random() * 8.0).floor() / 16.0, [(); 3].map(|()| 2.0 * random() - 1.0))).unzip()
}

fn accelerations(softening2: f64, mass: &[f64], pos: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let one = |(i, x): (usize, &[f64; 3])| {
        let mut a = [0.0; 3];
        for (j, (y, m)) in pos.iter().zip(mass).enumerate().filter(|(j, _)| *j != i) {
            let d = [0, 1, 2].map(|k| y[k] - x[k]);
            let d2 = d.iter().map(|d| d * d).sum::<f64>() + softening2;
            assert!(d2 > 0.0, "bodies {i} and {j} are in one place");
            (0..3).for_each(|k| a[k] += G * m * d[k] / (d2 * d2.sqrt()));
        }
        a
    };
    pos.iter().enumerate().map(one).collect()
}

/// |a - b| / |b|, over all elements.
fn distance(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
    let norm = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>().sqrt();
    let (a, b) = (a.as_flattened(), b.as_flattened());
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

struct Bodies<T> {
    mass: FlashMemory<T>,
    pos: FlashMemory<[T; 3]>,
    vel: FlashMemory<[T; 3]>,
    acc: FlashMemory<[T; 3]>,
}

impl<T: Number> Bodies<T> {
    fn new(n: usize) -> Bodies<T> {
        let (mass, pos) = system(n);
        Bodies {
            mass: mass.into_iter().map(T::of).collect(),
            pos: pos.into_iter().map(|x| x.map(T::of)).collect(),
            vel: FlashMemory::zeroed(n),
            acc: FlashMemory::zeroed(n),
        }
    }

    fn wide(array: &FlashMemory<[T; 3]>) -> Vec<[f64; 3]> {
        array.read().unwrap().iter().map(|v| v.map(T::wide)).collect()
    }

    /// Positions after some steps, by the chain of two kernels.
    fn two_kernels(n: usize, steps: usize, rt: &RuntimeObj) -> Vec<[f64; 3]> {
        let (b, [g, softening2, dt]) = (Bodies::<T>::new(n), [G, 1e-3, DT].map(T::of));
        for _ in 0..steps {
            rt.submit(Accelerate::of(g, softening2, &b.pos, &b.mass, &b.acc))
                .defer([n])
                .submit(Integrate::of(dt, &b.acc, &b.pos, &b.vel))
                .exec([n])
                .unwrap();
        }
        Self::wide(&b.pos)
    }

    /// The same by one kernel.
    fn one_kernel(n: usize, steps: usize, rt: &RuntimeObj) -> Vec<[f64; 3]> {
        let (b, [g, softening2, dt]) = (Bodies::<T>::new(n), [G, 1e-3, DT].map(T::of));
        rt.submit(Simulate::of(g, softening2, dt, &b.mass, &b.pos, &b.vel, &b.acc))
            .exec((n, 2, steps))
            .unwrap();
        Self::wide(&b.pos)
    }
}

fn error_of_accelerations<T: Number>(device: &str, n: usize, softening2: f64) -> f64 {
    let (rt, b) = (get_runtime(device).unwrap(), Bodies::<T>::new(n));
    let kernel = Accelerate::of(T::of(G), T::of(softening2), &b.pos, &b.mass, &b.acc);
    rt.submit(kernel).exec([n]).unwrap();
    let (mass, pos) = system(n);
    // The rounding of the softening to single precision is not the kernel's error.
    distance(&Bodies::wide(&b.acc), &accelerations(T::of(softening2).wide(), &mass, &pos))
}

#[test]
fn accelerations_are_right_to_the_last_digits_of_each_precision() {
    for device in devices_of_all_kinds("nbody::accelerations_are_right_to_the_last_digits_of_each_precision")
    {
        // Neither a multiple of any block; the larger one takes an emulated device too long.
        let sizes = if flash_tests::emulated::is_here() { &[1001][..] } else { &[1001, 4999] };
        for &n in sizes {
            let single = error_of_accelerations::<f32>(&device, n, 1e-3);
            assert!(single <= 2e-6, "{device}, {n} bodies in single precision: {single:e}");
            let double = error_of_accelerations::<f64>(&device, n, 1e-3);
            assert!(double <= 1e-13, "{device}, {n} bodies in double precision: {double:e}");
        }
    }
}

#[test]
fn without_softening_a_body_does_not_act_on_itself() {
    for device in devices_of_all_kinds("nbody::without_softening_a_body_does_not_act_on_itself") {
        let single = error_of_accelerations::<f32>(&device, 300, 0.0);
        let double = error_of_accelerations::<f64>(&device, 300, 0.0);
        // Close encounters decide here, of bodies whose distance has few digits.
        assert!(single <= 1e-4 && double <= 1e-12, "{device}: {single:e}, {double:e}");
    }
}

#[test]
fn one_kernel_with_barriers_moves_bodies_as_the_chain_of_two_does() {
    for device in
        devices_of_all_kinds("nbody::one_kernel_with_barriers_moves_bodies_as_the_chain_of_two_does")
    {
        let rt = get_runtime(&device).unwrap();
        let single =
            distance(&Bodies::<f32>::one_kernel(700, 6, &rt), &Bodies::<f32>::two_kernels(700, 6, &rt));
        let double =
            distance(&Bodies::<f64>::one_kernel(700, 6, &rt), &Bodies::<f64>::two_kernels(700, 6, &rt));
        assert!(single <= 1e-6 && double <= 1e-14, "{device}: {single:e}, {double:e}");
        // The code for any device does so, too; devices that are the CPU also have another one.
        if !device.starts_with("NVIDIA_GPU") {
            let any = rt.options(Implementation::named("any"));
            let single =
                distance(&Bodies::<f32>::one_kernel(700, 6, &any), &Bodies::<f32>::two_kernels(700, 6, &rt));
            let double =
                distance(&Bodies::<f64>::two_kernels(700, 6, &any), &Bodies::<f64>::one_kernel(700, 6, &rt));
            assert!(single <= 1e-6 && double <= 1e-14, "{device}, any: {single:e}, {double:e}");
        }
    }
}

#[test]
fn devices_together_move_bodies_as_one_does() {
    let devices = devices("nbody::devices_together_move_bodies_as_one_does");
    if devices.is_empty() {
        return;
    }
    let (n, steps, profile) = (3000, 4, Profile::new());
    let alone = Bodies::<f32>::two_kernels(n, steps, &get_runtime("ALL_CPU").unwrap());
    let all = with_cpu(&devices);
    let shares = weights(all.devices().iter().map(|_| 1));
    let together = all.options((&profile, shares));
    type Steps = fn(usize, usize, &RuntimeObj) -> Vec<[f64; 3]>;
    let forms: [Steps; 2] = [Bodies::<f32>::two_kernels, Bodies::<f32>::one_kernel];
    for (form, run) in ["two kernels", "one kernel"].into_iter().zip(forms) {
        let apart = distance(&run(n, steps, &together), &alone);
        assert!(apart <= 1e-5, "{form}: {apart:e}");
        let ran = ran(&profile);
        for device in all.devices().iter().map(|device| device.id()) {
            assert!(ran.iter().any(|ran| ran.starts_with(device)), "{form}: {device} did nothing: {ran:?}");
        }
    }
}

#[test]
fn a_group_takes_every_physical_device_once_and_nothing_emulated() {
    if devices("nbody::a_group_takes_every_physical_device_once_and_nothing_emulated").is_empty() {
        return;
    }
    for group in ["ALL_ACCEL", "ALL"] {
        let rt = get_runtime(group).unwrap();
        let mut seen = Vec::new();
        for device in rt.devices() {
            let info = device.info();
            assert!(!info.emulated, "{group} has {device:?}");
            assert!(!seen.contains(&info.physical_id), "{group} has {} twice", info.physical_id);
            seen.push(info.physical_id.clone());
        }
        assert_eq!(seen.iter().filter(|id| id.contains("/cpus:")).count(), 1, "{group}: {seen:?}");
    }
}

/// Accelerations of some bodies without softening, on a device.
fn accelerations_on<T: Number>(device: &str, mass: &[f64], pos: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let mass: FlashMemory<T> = mass.iter().map(|m| T::of(*m)).collect();
    let pos: FlashMemory<[T; 3]> = pos.iter().map(|x| x.map(T::of)).collect();
    let acc = FlashMemory::<[T; 3]>::zeroed(pos.len());
    let kernel = Accelerate::of(T::of(6.67e-11), T::of(0.0), &pos, &mass, &acc);
    get_runtime(device).unwrap().submit(kernel).exec([pos.len()]).unwrap();
    Bodies::wide(&acc)
}

/// The sun and the earth, with another body somewhere.
fn with_another<T: Number>(device: &str, mass: f64, at: [f64; 3]) -> Vec<[f64; 3]> {
    accelerations_on::<T>(device, &[2e30, 6e24, mass], &[[0.0; 3], [1.5e11, 0.0, 0.0], at])
}

#[test]
fn a_body_far_away_or_in_the_place_of_another_spoils_nothing() {
    let test = "nbody::a_body_far_away_or_in_the_place_of_another_spoils_nothing";
    let devices = [&["ALL_CPU".to_owned()][..], &devices_of_all_kinds(test)].concat();
    for device in &devices {
        for (what, mass, at) in [
            ("far", 2e30, [1e19, 0.0, 0.0]),
            ("so far that the square is no single", 2e30, [3.1e19, 0.0, 0.0]),
            ("farther", 2e30, [0.0, 1e21, 1e21]),
            ("in the place of the sun", 0.0, [0.0; 3]),
            ("in the place of the earth, and heavy", 6e24, [1.5e11, 0.0, 0.0]),
            ("next to the sun", 0.0, [1e-30, 0.0, 0.0]),
        ] {
            let found = [with_another::<f32>(device, mass, at), with_another::<f64>(device, mass, at)];
            for (bits, acc) in [32, 64].into_iter().zip(found) {
                assert!(
                    acc.as_flattened().iter().all(|a| a.is_finite()),
                    "{device}, f{bits}, {what}: {acc:?}"
                );
                // The earth falls to the sun.
                let expected = -6.67e-11 * 2e30 / (1.5e11 * 1.5e11);
                let error = (acc[1][0] / expected - 1.0).abs();
                assert!(error < 1e-5, "{device}, f{bits}, {what}: {acc:?}");
            }
        }
    }
}
