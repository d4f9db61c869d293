//! The N-body kernels through the library, against a serial reference in double precision.

use flash::kernels::nbody::{Accelerate, Integrate, Simulate};
use flash::prelude::*;
use flash::{Context, Error, RuntimeObj};
use flash_tests::{Number, skip};

const N: usize = 1000;
const STEPS: usize = 5;
const G: f64 = 0.8;
const SOFTENING2: f64 = 0.05;
const DT: f64 = 0.004;

#[derive(Clone)]
struct System {
    mass: Vec<f64>,
    pos: Vec<[f64; 3]>,
    vel: Vec<[f64; 3]>,
}

/// Bodies in a box, at rest but for a slow turn; numbers that f32 holds exactly.
fn system() -> System {
    let mut state = 2463534242u32;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from((state >> 8) as f32 / (1 << 24) as f32)
    };
    let pos: Vec<[f64; 3]> =
        (0..N).map(|_| [0; 3].map(|_| f64::from((random() * 10.0 - 5.0) as f32))).collect();
    let vel =
        pos.iter().map(|p| [f64::from(-p[1] as f32 * 0.25), f64::from(p[0] as f32 * 0.25), 0.0]).collect();
    System { mass: (0..N).map(|_| f64::from((0.5 + random()) as f32)).collect(), pos, vel }
}

fn naive_acceleration(s: &System) -> Vec<[f64; 3]> {
    (0..N)
        .map(|i| {
            let mut a = [0.0; 3];
            for j in (0..N).filter(|&j| j != i) {
                let d = [0, 1, 2].map(|k| s.pos[j][k] - s.pos[i][k]);
                let r2 = d.iter().map(|d| d * d).sum::<f64>() + SOFTENING2;
                for k in 0..3 {
                    a[k] += G * s.mass[j] * d[k] / (r2 * r2.sqrt());
                }
            }
            a
        })
        .collect()
}

fn reference() -> System {
    let mut s = system();
    for _ in 0..STEPS {
        let acc = naive_acceleration(&s);
        for ((a, v), x) in acc.iter().zip(&mut s.vel).zip(&mut s.pos) {
            for k in 0..3 {
                v[k] += a[k] * DT;
                x[k] += v[k] * DT;
            }
        }
    }
    s
}

fn kinetic(mass: &[f64], vel: &[[f64; 3]]) -> f64 {
    mass.iter().zip(vel).map(|(m, v)| 0.5 * m * v.iter().map(|v| v * v).sum::<f64>()).sum()
}

fn potential(s: &System) -> f64 {
    let pairs = (0..N).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs
        .map(|(i, j)| {
            let r2: f64 = (0..3).map(|k| (s.pos[i][k] - s.pos[j][k]).powi(2)).sum();
            -G * s.mass[i] * s.mass[j] / (r2 + SOFTENING2).sqrt()
        })
        .sum()
}

/// The system in a number type, on the way through the library.
struct Bodies<T> {
    mass: FlashMemory<T>,
    pos: FlashMemory<[T; 3]>,
    vel: FlashMemory<[T; 3]>,
    acc: FlashMemory<[T; 3]>,
}

impl<T: Number> Bodies<T> {
    fn new() -> Bodies<T> {
        let s = system();
        let vectors = |of: &[[f64; 3]]| of.iter().map(|v| v.map(T::of)).collect();
        Bodies {
            mass: s.mass.iter().map(|&m| T::of(m)).collect(),
            pos: vectors(&s.pos),
            vel: vectors(&s.vel),
            acc: FlashMemory::zeroed(N),
        }
    }

    fn wide(&self) -> System {
        let vectors = |of: &FlashMemory<[T; 3]>| of.read().unwrap().iter().map(|v| v.map(T::wide)).collect();
        System {
            mass: self.mass.read().unwrap().iter().map(|m| m.wide()).collect(),
            pos: vectors(&self.pos),
            vel: vectors(&self.vel),
        }
    }
}

/// `Accelerate` and `Integrate` in each step.
fn two_kernels<T: Number>(rt: &RuntimeObj, implementation: Option<&str>) -> Result<Bodies<T>, Error> {
    let b = Bodies::<T>::new();
    let rt = match implementation {
        Some(name) => rt.options(Implementation::named(name)),
        None => rt.clone(),
    };
    for _ in 0..STEPS {
        rt.submit(Accelerate::of(T::of(G), T::of(SOFTENING2), &b.pos, &b.mass, &b.acc))
            .defer([N])
            .submit(Integrate::of(T::of(DT), &b.acc, &b.pos, &b.vel))
            .exec([N])?;
    }
    Ok(b)
}

/// All steps as stages of one kernel.
fn one_kernel<T: Number>(rt: &RuntimeObj, implementation: Option<&str>) -> Result<Bodies<T>, Error> {
    let b = Bodies::<T>::new();
    let simulate =
        rt.submit(Simulate::of(T::of(G), T::of(SOFTENING2), T::of(DT), &b.mass, &b.pos, &b.vel, &b.acc));
    let simulate = match implementation {
        Some(name) => simulate.options(Implementation::named(name)),
        None => simulate,
    };
    simulate.exec([N, 2, STEPS])?;
    Ok(b)
}

fn assert_close<T: Number>(bodies: &Bodies<T>, expected: &System, energy: f64, place: f64, what: &str) {
    let found = bodies.wide();
    let (k, p) = (kinetic(&found.mass, &found.vel), potential(&found));
    let (k0, p0) = (kinetic(&expected.mass, &expected.vel), potential(expected));
    assert!((k - k0).abs() <= energy * k0.abs(), "{what}: kinetic energy {k}, expected {k0}");
    assert!((p - p0).abs() <= energy * p0.abs(), "{what}: potential energy {p}, expected {p0}");
    for (x, x0) in found.pos.iter().flatten().zip(expected.pos.iter().flatten()) {
        assert!((x - x0).abs() <= place * 10.0, "{what}: at {x}, expected at {x0}");
    }
}

#[test]
fn bodies_are_moved_with_the_same_bits_by_every_implementation() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let moved = |name: &'static str, n: usize| {
        let vectors =
            |seed: f32| (0..n).map(|i| [1.0, 2.0, 3.0].map(|k| (seed * k * i as f32).sin())).collect();
        let [acc, pos, vel] = [0.3, 0.7, 1.1].map(vectors).map(FlashMemory::<[f32; 3]>::from_iter::<Vec<_>>);
        let rt = rt.options(Implementation::named(name));
        rt.submit(Integrate::of(0.1, &acc, &pos, &vel)).exec([n]).unwrap();
        [pos, vel].map(|of| of.read().unwrap().iter().flatten().map(|x| x.to_bits()).collect::<Vec<u32>>())
    };
    let mut names = vec!["portable"];
    #[cfg(target_arch = "x86_64")]
    {
        names.extend((is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some("avx2"));
        names.extend(is_x86_feature_detected!("avx512bw").then_some("avx512"));
    }
    for n in [1, 2, 5, 16, 1001] {
        let expected = moved("plain", n);
        for name in &names {
            assert!(moved(name, n) == expected, "{name}, {n} bodies");
        }
    }
}

#[test]
fn both_forms_agree_with_the_reference_and_with_each_other() {
    let (rt, expected) = (get_runtime("ALL_ACCEL").unwrap(), reference());
    let (two, one) = (two_kernels::<f32>(&rt, None).unwrap(), one_kernel::<f32>(&rt, None).unwrap());
    assert_close(&two, &expected, 1e-5, 1e-5, "two kernels in f32");
    assert!(
        *two.pos.read().unwrap() == *one.pos.read().unwrap()
            && *two.vel.read().unwrap() == *one.vel.read().unwrap()
    );
    let (two, one) = (two_kernels::<f64>(&rt, None).unwrap(), one_kernel::<f64>(&rt, None).unwrap());
    assert_close(&two, &expected, 1e-12, 1e-12, "two kernels in f64");
    assert!(
        *two.pos.read().unwrap() == *one.pos.read().unwrap()
            && *two.vel.read().unwrap() == *one.vel.read().unwrap()
    );
    assert!(*two.acc.read().unwrap() == *one.acc.read().unwrap());
}

fn implementation_agrees(name: &str) {
    let (rt, expected) = (get_runtime("ALL_CPU").unwrap(), reference());
    assert_close(&two_kernels::<f32>(&rt, Some(name)).unwrap(), &expected, 1e-5, 1e-5, name);
    assert_close(&one_kernel::<f32>(&rt, Some(name)).unwrap(), &expected, 1e-5, 1e-5, name);
    assert_close(&two_kernels::<f64>(&rt, Some(name)).unwrap(), &expected, 1e-12, 1e-12, name);
    assert_close(&one_kernel::<f64>(&rt, Some(name)).unwrap(), &expected, 1e-12, 1e-12, name);
}

#[test]
fn the_readable_implementation_agrees_with_the_reference() {
    implementation_agrees("plain");
}

#[test]
fn the_portable_implementation_agrees_with_the_reference() {
    implementation_agrees("portable");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_avx2_implementation_agrees_with_the_reference() {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        implementation_agrees("avx2");
    } else {
        skip("nbody::the_avx2_implementation_agrees_with_the_reference", "no AVX2");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_avx512_implementation_agrees_with_the_reference() {
    if is_x86_feature_detected!("avx512f") {
        implementation_agrees("avx512");
    } else {
        skip("nbody::the_avx512_implementation_agrees_with_the_reference", "no AVX-512");
    }
}

#[test]
fn threads_and_cuts_do_not_change_a_bit() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let whole = two_kernels::<f32>(&rt, None).unwrap();
    let b = Bodies::<f32>::new();
    for _ in 0..STEPS {
        let mut chain = rt.pipeline();
        for first in [0, 1, 130, 131, 500, 873] {
            let end = [1, 130, 131, 500, 873, N].into_iter().find(|&end| end > first).unwrap();
            chain = chain
                .submit(Accelerate::of(G as f32, SOFTENING2 as f32, &b.pos, &b.mass, &b.acc))
                .defer((first..end,));
        }
        chain.submit(Integrate::of(DT as f32, &b.acc, &b.pos, &b.vel)).exec([N]).unwrap();
    }
    assert!(*whole.pos.read().unwrap() == *b.pos.read().unwrap());
}

/// Whether two systems are the same, bit for bit.
fn same<T: Number>(a: &Bodies<T>, b: &Bodies<T>) -> bool {
    let bits = |bodies: &Bodies<T>| {
        let vectors = [&bodies.pos, &bodies.vel, &bodies.acc].map(|of| of.read().unwrap().to_vec());
        vectors.concat().iter().flatten().map(|x| x.wide().to_bits()).collect::<Vec<u64>>()
    };
    bits(a) == bits(b)
}

fn devices_do_not_change_a_bit<T: Number>(context: &Context) {
    let one = context.runtime("ALL_CPU:0").unwrap();
    #[allow(unused_mut)] // where there is nothing more
    let mut implementations = vec!["plain", "portable"];
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        implementations.extend(avx2.then_some("avx2"));
        implementations.extend(is_x86_feature_detected!("avx512f").then_some("avx512"));
    }
    for name in implementations {
        let profile = Profile::new();
        let two = context.runtime("ALL_CPU").unwrap().options((&profile, weights([1, 1])));
        assert_eq!(two.devices().len(), 2);
        let whole = two_kernels::<T>(&one, Some(name)).unwrap();
        assert!(same(&whole, &two_kernels::<T>(&two, Some(name)).unwrap()), "{name}, two kernels");
        let whole = one_kernel::<T>(&one, Some(name)).unwrap();
        assert!(same(&whole, &one_kernel::<T>(&two, Some(name)).unwrap()), "{name}, one kernel");
        let launches = profile.take();
        // The phases of a part are one record.
        for (kernel, phases, items) in
            [("accelerate", 1, N), ("integrate", 1, N), ("simulate", 2 * STEPS, 2 * N)]
        {
            let of_kernel = || launches.iter().filter(|l| l.kernel.ends_with(kernel));
            for device in ["ALL_CPU:0", "ALL_CPU:1"] {
                let halved = |items: u64| (400..600).contains(&(items / phases as u64));
                assert!(of_kernel().any(|l| l.device == device && halved(l.items)), "{device}: {launches:?}");
            }
            assert_eq!(of_kernel().map(|l| l.items).sum::<u64>(), (items * STEPS) as u64, "{kernel}");
        }
    }
}

#[test]
fn the_bits_over_two_devices_are_those_of_one() {
    for copy in ["0", "1"] {
        // Devices of their own: others have budgets that other tests set.
        let own = [("cpu.devices", "2"), ("cpu.copy", copy), ("cpu.throttle", "1,1")];
        let context = flash_tests::context(&own);
        devices_do_not_change_a_bit::<f32>(&context);
        devices_do_not_change_a_bit::<f64>(&context);
    }
}

#[test]
fn masses_that_do_not_match_the_positions_are_an_error_of_the_launch() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (pos, acc) = (FlashMemory::<[f64; 3]>::zeroed(10), FlashMemory::<[f64; 3]>::zeroed(10));
    let text =
        rt.submit(Accelerate::of(1.0, 1.0, &pos, &vec![1.0; 9], &acc)).exec([10]).unwrap_err().to_string();
    assert!(
        text.contains("flash.nbody.accelerate") && text.contains("10 positions") && text.contains('9'),
        "{text}"
    );
}
