//! Gravity between all pairs of bodies, and their motion.
//!
//! The problem is that of the oneAPI N-body sample, which is the FLASH paper's: for n bodies of mass
//! m at x, softening length e,
//!
//! a_i = sum over j of G m_j (x_j - x_i) (|x_j - x_i|^2 + e^2)^(-3/2),
//!
//! then v += a dt, then x += v dt (semi-implicit Euler). With softening 0 a body does not act on
//! itself. Two forms: [`Accelerate`] and [`Integrate`], one after the other in each step; and
//! [`Simulate`], one kernel with both as stages of many steps.

mod cpu;
pub mod simd;

use flash_core::KernelDefinition;
use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Phased, Read, ReadWrite, Whole, Write};
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// The number types of the N-body kernels: `f32` and `f64`.
pub trait Real:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + PartialOrd
    + Default
{
    /// 1.
    const ONE: Self;
    /// The square root.
    fn sqrt(self) -> Self;
}

impl Real for f32 {
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
}

impl Real for f64 {
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
}

/// Softened gravitational acceleration of every body, in m/s^2. Dimensions: (body: n).
///
/// All lengths are n. 20 flop per pair by the usual count.
///
/// # Errors
/// A launch of more bodies than `acc` holds is refused. Where `mass` is not as long as `pos`, the kernel fails on the
/// CPU; on devices those bodies attract that have both, and one without a position is not accelerated.
#[derive(KernelDefinition)]
#[kernel(name = "nbody.accelerate", dims(body), part_by(body))]
#[implementations(
    opencl = "nbody.cl",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, for(f32, f64), work_group_size = 256
)]
pub struct Accelerate<'a, T: Real> {
    /// Gravitational constant, m^3 kg^-1 s^-2.
    g: T,
    /// Square of the softening length, m^2.
    softening2: T,
    /// Positions, m.
    pos: Whole<'a, Read<[T; 3]>>,
    /// Masses, kg.
    mass: Whole<'a, Read<T>>,
    /// Accelerations, m/s^2.
    acc: Item<'a, Write<[T; 3]>>,
}

/// Moves every body by one step of semi-implicit Euler: v += a dt, x += v dt. Dimensions: (body: n).
#[derive(KernelDefinition)]
#[kernel(name = "nbody.integrate", dims(body), part_by(body))]
#[implementations(
    opencl = "nbody.cl",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, for(f32, f64)
)]
pub struct Integrate<'a, T: Real> {
    /// Length of the step, s.
    dt: T,
    /// Accelerations, m/s^2.
    acc: Item<'a, Read<[T; 3]>>,
    /// Positions, m.
    pos: Item<'a, ReadWrite<[T; 3]>>,
    /// Velocities, m/s.
    vel: Item<'a, ReadWrite<[T; 3]>>,
}

/// [`Accelerate`] and [`Integrate`] as one kernel: the FLASH paper's form. Dimensions: (body: n,
/// stage: 2, step: any). Stage 0 computes accelerations from all positions, stage 1 moves the bodies;
/// a barrier stands wherever stage or step change. For the lengths the same holds as for [`Accelerate`].
#[derive(KernelDefinition)]
#[kernel(name = "nbody.simulate", dims(body, stage, step), group_by(stage), part_by(body))]
#[implementations(
    opencl = "nbody.cl",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, grid_barrier, for(f32, f64), work_group_size = 256
)]
pub struct Simulate<'a, T: Real> {
    /// Gravitational constant, m^3 kg^-1 s^-2.
    g: T,
    /// Square of the softening length, m^2.
    softening2: T,
    /// Length of a step, s.
    dt: T,
    /// Masses, kg.
    mass: Whole<'a, Read<T>>,
    /// Positions, m.
    #[along(body)]
    #[phased(stage = [read, write])]
    pos: Phased<'a, [T; 3]>,
    /// Velocities, m/s.
    #[along(body)]
    vel: Item<'a, ReadWrite<[T; 3]>>,
    /// Accelerations, m/s^2: of the last step, afterwards.
    #[along(body)]
    acc: Item<'a, ReadWrite<[T; 3]>>,
}
