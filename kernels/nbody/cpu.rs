//! The N-body kernels on the CPU: a readable version, and spans in vector registers.

use super::simd::*;
use super::{
    Accelerate, AccelerateItem, AccelerateSpan, Integrate, IntegrateItem, IntegrateSpan, Real, Simulate,
    SimulateItem, SimulateSpan,
};
use crate::simd::{InstructionSet, Number, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

/// One body at a time: the readable version.
pub struct Plain;

/// Other bodies that are handled together: their distances and weights do not wait for each other, so the
/// compiler puts them into vector registers. The sums stay in the order of the bodies.
const BLOCK: usize = 8;

/// Acceleration of body `i`.
#[inline(always)]
fn acceleration<T: Real>(i: usize, g: T, softening2: T, pos: &[[T; 3]], mass: &[T]) -> [T; 3] {
    assert!(pos.len() == mass.len(), "{} positions and {} masses", pos.len(), mass.len());
    let x = pos[i];
    let zero = T::default();
    let weight = |d: [T; 3], m: T| {
        let d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening2;
        let inverse = T::ONE / d2.sqrt();
        // Bodies in one place, such as a body and itself, do not attract each other.
        if d2 < T::SMALLEST { zero } else { g * m * inverse * inverse * inverse }
    };
    let mut a = [zero; 3];
    let (blocks, rest) = pos.as_chunks::<BLOCK>();
    let (masses, masses_rest) = mass.as_chunks::<BLOCK>();
    for (others, masses) in blocks.iter().zip(masses) {
        let mut d = [[zero; BLOCK]; 3];
        let mut w = [zero; BLOCK];
        for k in 0..3 {
            for l in 0..BLOCK {
                d[k][l] = others[l][k] - x[k];
            }
        }
        for l in 0..BLOCK {
            w[l] = weight([d[0][l], d[1][l], d[2][l]], masses[l]);
        }
        for l in 0..BLOCK {
            for k in 0..3 {
                a[k] += d[k][l] * w[l];
            }
        }
    }
    for (y, &m) in rest.iter().zip(masses_rest) {
        let d = [y[0] - x[0], y[1] - x[1], y[2] - x[2]];
        let w = weight(d, m);
        for k in 0..3 {
            a[k] += d[k] * w;
        }
    }
    a
}

/// Moves one body.
#[inline(always)]
fn step<T: Real>(dt: T, a: &[T; 3], x: &mut [T; 3], v: &mut [T; 3]) {
    for k in 0..3 {
        v[k] += a[k] * dt;
        x[k] += v[k] * dt;
    }
}

/// Moves a run of bodies: `step` for each, in vector registers.
#[inline(always)]
fn steps<T: Real>(dt: T, acc: &[[T; 3]], pos: &mut [[T; 3]], vel: &mut [[T; 3]]) {
    let (acc, pos, vel) = (acc.as_flattened(), pos.as_flattened_mut(), vel.as_flattened_mut());
    for ((a, x), v) in acc.iter().zip(pos).zip(vel) {
        *v += *a * dt;
        *x += *v * dt;
    }
}

#[kernel(for(f32, f64))]
impl<T: Real> CpuItem<Accelerate<'_, T>> for Plain {
    fn item(body: Index<1>, k: AccelerateItem<'_, T>) {
        k.acc.set(acceleration(body[0], k.g, k.softening2, k.pos, k.mass));
    }
}

#[kernel(for(f32, f64))]
impl<T: Real> CpuItem<Integrate<'_, T>> for Plain {
    fn item(_: Index<1>, k: IntegrateItem<'_, T>) {
        step(k.dt, k.acc, k.pos, k.vel);
    }
}

#[kernel(for(f32, f64))]
impl<T: Real> CpuItem<Simulate<'_, T>> for Plain {
    fn item(index: Index<3>, mut k: SimulateItem<'_, T>) {
        if index[Simulate::<T>::STAGE] == 0 {
            let (i, x) = (index[Simulate::<T>::BODY], k.pos.was());
            *k.acc = acceleration(i, k.g, k.softening2, x, k.mass);
        } else {
            let mut x = k.pos.own();
            step(k.dt, k.acc, &mut x, k.vel);
            k.pos.set(x);
        }
    }
}

/// Accelerations of a run of bodies, by an instruction set's version.
trait Gravity<T>: InstructionSet {
    /// Those of the bodies `first..first + acc.len()`.
    ///
    /// # Panics
    /// If this CPU lacks the instructions.
    fn accelerate(system: System<'_, T>, first: usize, acc: &mut [[T; 3]]);
}

/// What acts on a body.
struct System<'a, T> {
    g: T,
    softening2: T,
    pos: &'a [[T; 3]],
    mass: &'a [T],
}

macro_rules! gravity {
    ($($set:ident: $f32:ident $f64:ident;)*) => {$(
        gravity! { @one $set, f32, $f32 }
        gravity! { @one $set, f64, $f64 }
    )*};
    (@one $set:ident, $t:ident, $accelerate:ident) => {
        impl Gravity<$t> for crate::simd::$set {
            #[inline(always)]
            fn accelerate(system: System<'_, $t>, first: usize, acc: &mut [[$t; 3]]) {
                assert!(Self::there(), "this CPU lacks the instructions");
                let System { g, softening2, pos, mass } = system;
                #[allow(unused_unsafe)] // the portable version is safe
                // SAFETY: this CPU has the instructions.
                unsafe {
                    $accelerate(g, softening2, pos, mass, first, acc)
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
gravity! {
    Avx512: accelerate_f32_avx512 accelerate_f64_avx512;
    Avx2: accelerate_f32_avx2 accelerate_f64_avx2;
}
gravity! { Portable: accelerate_f32_portable accelerate_f64_portable; }

#[inline(always)]
fn integrate<I: InstructionSet, T: Number>(_: Span<1>, k: IntegrateSpan<'_, T>) {
    steps(k.dt, k.acc, k.pos, k.vel);
}

#[inline(always)]
fn accelerate<I: Gravity<T>, T: Number>(run: Span<1>, k: AccelerateSpan<'_, T>) {
    let system = System { g: k.g, softening2: k.softening2, pos: k.pos, mass: k.mass };
    I::accelerate(system, run.range().start, k.acc);
}

/// Both stages of the paper's form.
#[inline(always)]
fn simulate<I: Gravity<T>, T: Number>(run: Span<3>, mut k: SimulateSpan<'_, T>) {
    if run.first()[Simulate::<T>::STAGE] == 0 {
        let system = System { g: k.g, softening2: k.softening2, pos: k.pos.was(), mass: k.mass };
        I::accelerate(system, run.range().start, k.acc);
    } else {
        steps(k.dt, k.acc, k.pos.own(), k.vel);
    }
}

spans! { Integrate<T>, IntegrateSpan, 1, integrate }
spans! { Accelerate<f32>, AccelerateSpan, 1, accelerate }
spans! { Accelerate<f64>, AccelerateSpan, 1, accelerate }
spans! { Simulate<f32>, SimulateSpan, 3, simulate }
spans! { Simulate<f64>, SimulateSpan, 3, simulate }
