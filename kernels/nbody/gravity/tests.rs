//! Every instruction set against the formula, in every way that a run can be cut.

use super::*;
use crate::nbody::cpu::acceleration;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};

type Accelerate<T> = fn(System<'_, T>, usize, &mut [[T; 3]]);

/// An element type, and the accelerations of every instruction set that this machine has; the others are
/// named on stderr.
trait Real: Number + std::fmt::Debug + 'static {
    const NAME: &str;
    fn versions() -> Vec<(&'static str, Accelerate<Self>)>;
}

/// Those of an instruction set, if it is there.
fn by<I: Gravity<T>, T: Number>(name: &'static str) -> Option<(&'static str, Accelerate<T>)> {
    if !I::there() {
        eprintln!("SKIPPED: no {name} on this machine");
        return None;
    }
    Some((name, |system, first, acc| I::run(|| accelerate::<I, T>(system, first, acc))))
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const NAME: &str = stringify!($t);

            fn versions() -> Vec<(&'static str, Accelerate<Self>)> {
                let portable = by::<Portable, $t>("portable");
                #[cfg(target_arch = "x86_64")]
                let others = [by::<Avx2, $t>("AVX2"), by::<Avx512, $t>("AVX-512")];
                #[cfg(not(target_arch = "x86_64"))]
                let others = [];
                portable.into_iter().chain(others.into_iter().flatten()).collect()
            }
        }
    };
}
real!(f32);
real!(f64);

/// The readable version.
fn plain<T: Number>(system: System<'_, T>, first: usize, acc: &mut [[T; 3]]) {
    acc.iter_mut().enumerate().for_each(|(i, a)| *a = acceleration(first + i, system));
}

/// MT19937 (Matsumoto and Nishimura, 1998), seeded with 42, as floats in 0..1.
fn uniform() -> impl Iterator<Item = f32> {
    let mut state = [42_u32; 624];
    for i in 1..624 {
        let last = state[i - 1];
        state[i] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
    }
    (0..).map(move |k: usize| {
        let i = k % 624;
        let y = (state[i] & 0x8000_0000) | (state[(i + 1) % 624] & 0x7fff_ffff);
        state[i] = state[(i + 397) % 624] ^ (y >> 1) ^ (0x9908_b0df * (y & 1));
        let y = state[i] ^ (state[i] >> 11);
        let y = y ^ ((y << 7) & 0x9d2c_5680);
        let y = y ^ ((y << 15) & 0xefc6_0000);
        (f64::from(y ^ (y >> 18)) / f64::from(2.0_f32.powi(32))) as f32
    })
}

/// Positions and masses of the reference problem.
fn system<T: Real>(n: usize) -> (Vec<[T; 3]>, Vec<T>) {
    let (mut u, masses) = (uniform(), uniform());
    let mut next = || T::nearest(u.next().unwrap().into());
    let pos = (0..n).map(|_| [next(), next(), next()]).collect();
    let mass = masses.take(n).map(|u| T::nearest((n as f32 * u).into())).collect();
    (pos, mass)
}

const G: f64 = 6.67259e-11;
const SOFTENING2: f64 = 1e-3;

/// The formula in double precision with compensated sums (Neumaier's).
fn exact<T: Real>(softening2: T, pos: &[[T; 3]], mass: &[T], i: usize) -> [f64; 3] {
    let mut sums = [(0.0_f64, 0.0_f64); 3];
    let at = pos[i].map(Into::<f64>::into);
    for (j, p) in pos.iter().enumerate().filter(|(j, _)| *j != i) {
        let d = [0, 1, 2].map(|axis| p[axis].into() - at[axis]);
        let r2: f64 = d.iter().map(|d| d * d).sum::<f64>() + softening2.into();
        let weight = T::nearest(G).into() * mass[j].into() / r2 / r2.sqrt();
        for ((sum, rest), d) in sums.iter_mut().zip(d) {
            let term = weight * d;
            let new = *sum + term;
            *rest += if sum.abs() >= term.abs() { (*sum - new) + term } else { (term - new) + *sum };
            *sum = new;
        }
    }
    sums.map(|(sum, rest)| sum + rest)
}

/// `|a - b| / |b|`.
fn error<T: Real>(a: [T; 3], b: [f64; 3]) -> f64 {
    let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    norm([0, 1, 2].map(|axis| a[axis].into() - b[axis])) / norm(b)
}

fn run<T: Real>(
    accelerate: Accelerate<T>,
    softening2: f64,
    (pos, mass): &(Vec<[T; 3]>, Vec<T>),
    bodies: Range<usize>,
) -> Vec<[T; 3]> {
    let mut acc = vec![[T::default(); 3]; bodies.len()];
    let system = System { g: T::nearest(G), softening2: T::nearest(softening2), pos, mass };
    accelerate(system, bodies.start, &mut acc);
    acc
}

/// To `bound`, and by the readable version, which has one sum, to `plainly`.
fn every_body_is_exact_to<T: Real>(n: usize, softening2: f64, [bound, plainly]: [f64; 2]) {
    let system = system::<T>(n);
    let expected: Vec<_> = (0..n).map(|i| exact(T::nearest(softening2), &system.0, &system.1, i)).collect();
    let versions = T::versions().into_iter().map(|version| (version, bound));
    for ((name, accelerate), bound) in versions.chain([(("plain", plain as Accelerate<T>), plainly)]) {
        let acc = run(accelerate, softening2, &system, 0..n);
        let errors = acc.iter().zip(&expected).map(|(a, b)| error(*a, *b));
        let worst = errors.clone().fold(0.0, f64::max);
        let mean = errors.clone().sum::<f64>() / n.max(1) as f64;
        eprintln!("{} {name}, n = {n}: worst {worst:.2e}, mean {mean:.2e}", T::NAME);
        for (i, error) in errors.enumerate() {
            assert!(error <= bound, "{} {name}: body {i} of {n} is off by {error:e}", T::NAME);
        }
    }
}

#[test]
fn the_reference_problem_begins_as_published() {
    let (pos, mass) = system::<f32>(16_000);
    assert_eq!(pos[0], [0.374_540_12, 0.796_543, 0.950_714_3]);
    assert_eq!(mass[0], 5_992.642);
}

#[test]
fn single_precision_is_exact_to_2e_6_for_every_body_of_the_reference_problem() {
    every_body_is_exact_to::<f32>(16_000, SOFTENING2, [2e-6, 1e-5]);
}

#[test]
fn double_precision_is_exact_to_1e_14_for_every_body_of_the_reference_problem() {
    every_body_is_exact_to::<f64>(16_000, SOFTENING2, [1e-14, 1e-13]);
}

#[test]
fn without_softening_a_body_acts_on_all_others_and_not_on_itself() {
    for n in [2, 3, 5, 17, 64, 65, 127, 300, 1_000] {
        // At n = 1000 there is a body between its neighbours that is left with 1/50 of each.
        every_body_is_exact_to::<f32>(n, 0.0, [1e-5; 2]);
        every_body_is_exact_to::<f64>(n, 0.0, [1e-14, 1e-13]);
    }
    // Results that are right only because they were not finite first are slow: the formula, rounded.
    let (pos, mass) = system::<f32>(1_000);
    for (name, accelerate) in f32::versions() {
        let mut acc = vec![[0.0; 3]; 1_000];
        let system = System { g: G as f32, softening2: 0.0, pos: &pos, mass: &mass };
        accelerate(system, 0, &mut acc);
        let slow = (0..1_000).filter(|&i| acc[i] == system.formula(i)).count();
        assert!(slow < 300, "{name}: {slow} of 1000 bodies were done by the formula");
    }
    fn alone<T: Real>() {
        for (name, accelerate) in T::versions() {
            for softening2 in [0.0, SOFTENING2] {
                assert!(run(accelerate, softening2, &system(0), 0..0).is_empty(), "{name}");
                let acc = run(accelerate, softening2, &system(1), 0..1);
                assert_eq!(acc, [[T::default(); 3]], "{name}");
            }
        }
    }
    alone::<f32>();
    alone::<f64>();
}

#[test]
fn a_result_depends_on_no_cut() {
    fn cuts<T: Real>() {
        let n = 900;
        let system = system::<T>(n);
        for (name, accelerate) in T::versions() {
            for softening2 in [0.0, SOFTENING2] {
                let whole = run(accelerate, softening2, &system, 0..n);
                let lengths = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 129, 256, 300];
                for (first, len) in [0, 1, 5, 16, 63, 64, 200, 505, 512, 513]
                    .into_iter()
                    .flat_map(|first| lengths.map(|len| (first, len)).into_iter().chain([(first, n - first)]))
                {
                    let part = run(accelerate, softening2, &system, first..first + len);
                    assert!(
                        part == whole[first..first + len],
                        "{} {name}: bodies {first}..{first} + {len} differ",
                        T::NAME
                    );
                }
            }
        }
    }
    cuts::<f32>();
    cuts::<f64>();
}

#[test]
fn two_bodies_in_one_place_do_not_attract_each_other() {
    fn coincide<T: Real>() {
        let mut system = system::<T>(100);
        system.0[70] = system.0[3];
        let mut apart = (system.0.clone(), system.1.clone());
        apart.1[70] = T::nearest(0.0);
        for (name, accelerate) in T::versions().into_iter().chain([("plain", plain as Accelerate<T>)]) {
            let acc = run(accelerate, 0.0, &system, 0..100);
            assert!(acc.iter().flatten().all(|&a| a.into().is_finite()), "{} {name}: {acc:?}", T::NAME);
            let error = error(acc[3], run(accelerate, 0.0, &apart, 0..100)[3].map(Into::into));
            assert!(error < 1e-5, "{} {name}: {error:e}", T::NAME);
            let acc = run(accelerate, SOFTENING2, &system, 0..100);
            assert!(acc.iter().flatten().all(|&a| a.into().is_finite()), "{name}");
        }
    }
    coincide::<f32>();
    coincide::<f64>();
}

#[test]
fn distances_whose_square_overflows_single_precision_are_no_error() {
    fn far<T: Real>(scale: f64) {
        let (mut pos, mass) = system::<T>(100);
        for x in pos.as_flattened_mut() {
            *x = T::nearest((*x).into() * scale);
        }
        let mass: Vec<_> = mass.into_iter().map(|m| T::nearest(m.into() * 1e30)).collect();
        let system = (pos, mass);
        for (name, accelerate) in T::versions() {
            for (i, a) in run(accelerate, 0.0, &system, 0..100).into_iter().enumerate() {
                let error = error(a, exact(T::nearest(0.0), &system.0, &system.1, i));
                assert!(error < 2e-6, "{} {name}, {scale:e}: body {i}: {error:e}", T::NAME);
            }
        }
    }
    // f32 accelerations of 1e-38 and below would be subnormal: the masses keep them above.
    for scale in [1e-6, 1e3, 1e11, 1e18, 1e19, 1e21] {
        far::<f32>(scale);
        far::<f64>(scale);
    }
    for scale in [1e-30, 1e-20, 1e25, 1e40] {
        far::<f64>(scale);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let refusal = |masses: usize, first: usize| {
        let (pos, _) = system::<f32>(10);
        let mass = vec![1.0; masses];
        let mut acc = [[0.0; 3]; 4];
        std::panic::catch_unwind(move || {
            let system = System { g: 1.0, softening2: 0.0, pos: &pos, mass: &mass };
            accelerate::<Portable, f32>(system, first, &mut acc);
        })
        .map_err(|panic| *panic.downcast::<String>().unwrap())
    };
    assert_eq!(refusal(10, 6), Ok(()));
    assert_eq!(refusal(9, 0).unwrap_err(), "N-body: expected one mass for each of 10 positions, found 9");
    for first in [7, usize::MAX] {
        assert_eq!(
            refusal(10, first).unwrap_err(),
            format!("N-body: expected a run of bodies within 0..10, found 4 from {first} on")
        );
    }
}
