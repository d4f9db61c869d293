//! The N-body kernels on the CPU: a readable version, and spans in vector registers.

use super::gravity::{self, Gravity, System};
use super::{
    Accelerate, AccelerateItem, AccelerateSpan, Integrate, IntegrateItem, IntegrateSpan, Simulate,
    SimulateItem, SimulateSpan,
};
use crate::simd::{InstructionSet, Number, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

/// One body at a time: the readable version.
pub struct Plain;

/// Acceleration of body `i`.
pub(super) fn acceleration<T: Number>(
    i: usize,
    System { g, softening2, pos, mass }: System<'_, T>,
) -> [T; 3] {
    assert!(pos.len() == mass.len(), "{} positions and {} masses", pos.len(), mass.len());
    let mut a = [T::ZERO; 3];
    for (p, m) in pos.iter().zip(mass) {
        let d = [0, 1, 2].map(|k| p[k] - pos[i][k]);
        let d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening2;
        // Bodies in one place, such as a body and itself, do not attract each other.
        if d2 < T::SMALLEST {
            continue;
        }
        let inverse = T::ONE / d2.sqrt();
        let weight = g * *m * inverse * inverse * inverse;
        for k in 0..3 {
            a[k] += d[k] * weight;
        }
    }
    a
}

/// Moves one body.
#[inline(always)]
fn step<T: Number>(dt: T, a: &[T; 3], x: &mut [T; 3], v: &mut [T; 3]) {
    for k in 0..3 {
        v[k] += a[k] * dt;
        x[k] += v[k] * dt;
    }
}

/// Moves a run of bodies: `step` for each, in vector registers.
#[inline(always)]
fn steps<T: Number>(dt: T, acc: &[[T; 3]], pos: &mut [[T; 3]], vel: &mut [[T; 3]]) {
    let (acc, pos, vel) = (acc.as_flattened(), pos.as_flattened_mut(), vel.as_flattened_mut());
    for ((a, x), v) in acc.iter().zip(pos).zip(vel) {
        *v += *a * dt;
        *x += *v * dt;
    }
}

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Accelerate<'_, T>> for Plain {
    fn item(body: Index<1>, k: AccelerateItem<'_, T>) {
        k.acc.set(acceleration(
            body[0],
            System { g: k.g, softening2: k.softening2, pos: k.pos, mass: k.mass },
        ));
    }
}

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Integrate<'_, T>> for Plain {
    fn item(_: Index<1>, k: IntegrateItem<'_, T>) {
        step(k.dt, k.acc, k.pos, k.vel);
    }
}

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Simulate<'_, T>> for Plain {
    fn item(index: Index<3>, mut k: SimulateItem<'_, T>) {
        if index[Simulate::<T>::STAGE] == 0 {
            let system = System { g: k.g, softening2: k.softening2, pos: k.pos.was(), mass: k.mass };
            *k.acc = acceleration(index[Simulate::<T>::BODY], system);
        } else {
            let mut x = k.pos.own();
            step(k.dt, k.acc, &mut x, k.vel);
            k.pos.set(x);
        }
    }
}

#[inline(always)]
fn integrate<I: InstructionSet, T: Number>(_: Span<1>, k: IntegrateSpan<'_, T>) {
    steps(k.dt, k.acc, k.pos, k.vel);
}

#[inline(always)]
fn accelerate<I: Gravity<T>, T: Number>(run: Span<1>, k: AccelerateSpan<'_, T>) {
    let system = System { g: k.g, softening2: k.softening2, pos: k.pos, mass: k.mass };
    gravity::accelerate::<I, T>(system, run.range().start, k.acc);
}

/// Both stages of the paper's form.
#[inline(always)]
fn simulate<I: Gravity<T>, T: Number>(run: Span<3>, mut k: SimulateSpan<'_, T>) {
    if run.first()[Simulate::<T>::STAGE] == 0 {
        let system = System { g: k.g, softening2: k.softening2, pos: k.pos.was(), mass: k.mass };
        gravity::accelerate::<I, T>(system, run.range().start, k.acc);
    } else {
        steps(k.dt, k.acc, k.pos.own(), k.vel);
    }
}

spans! { Integrate<T>, IntegrateSpan, 1, integrate }
spans! { Accelerate<f32>, AccelerateSpan, 1, accelerate }
spans! { Accelerate<f64>, AccelerateSpan, 1, accelerate }
spans! { Simulate<f32>, SimulateSpan, 3, simulate }
spans! { Simulate<f64>, SimulateSpan, 3, simulate }
