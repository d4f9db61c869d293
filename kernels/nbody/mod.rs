//! Gravity between all pairs of bodies, and their motion.
//!
//! The problem is that of the oneAPI N-body sample, which is the FLASH paper's: for n bodies of mass
//! m at x, softening length e,
//!
//! a_i = sum over j of G m_j (x_j - x_i) (|x_j - x_i|^2 + e^2)^(-3/2),
//!
//! then v += a dt, then x += v dt (semi-implicit Euler). Where |x_j - x_i|^2 + e^2 is less than the
//! smallest normal number (1.2e-38 in single precision), j and i are in one place and do not attract
//! each other: so a body does not act on itself. Where it is more than the largest, the attraction
//! counts as none on some devices, and is computed by other steps on the others. Two forms:
//! [`accelerate`] and [`integrate`], one after the other in each step; and [`simulate`], one kernel
//! with both as stages of many steps.

#[cfg(feature = "implementations")]
mod cpu;
#[cfg(feature = "implementations")]
mod gravity;
#[cfg(all(test, feature = "implementations"))]
mod tests;

use crate::shapes;
use crate::simd::Number;
use flash_core::kernel::Element;
use flash_core::kernel::views::{Item, Phased, Read, ReadWrite, Whole, Write};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// Softened gravitational acceleration of every body, in m/s^2. Dimensions: (body: n). Made by
/// [`accelerate`], or by `of`.
///
/// All lengths are n. 20 flop per pair by the usual count.
///
/// # Errors
/// A launch of more bodies than `acc` holds is refused. Where `mass` is not as long as `pos`, the kernel
/// fails on the CPU. On devices only bodies that have both attract others, and one without a position is not
/// accelerated.
///
/// Devices multiply the attraction of a body on itself by its distance, 0. Where m / e^3 is too large a
/// number, but e is not 0, they may give NaN (in single precision, for m = 1, e below 1.4e-13).
#[derive(KernelDefinition)]
#[kernel(name = "flash.nbody.accelerate", dims(body), part_by(body))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "nbody.cl",
    name = "any",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    opencl = ["../simd/vector.cl", "nbody_cpu.cl"],
    name = "cpu",
    architecture = "cpu",
    cooperating,
    for(f32, f64),
    items_per_thread = 32,
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, for(f32, f64), work_group_size = 256
))]
pub struct Accelerate<'a, T: Number> {
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

/// Moves every body by one step of semi-implicit Euler: v += a dt, x += v dt. Dimensions: (body: n). Made by
/// [`integrate`], or by `of`.
#[derive(KernelDefinition)]
#[kernel(name = "flash.nbody.integrate", dims(body), part_by(body))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "nbody.cl",
    name = "any",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, for(f32, f64)
))]
pub struct Integrate<'a, T: Number> {
    /// Length of the step, s.
    dt: T,
    /// Accelerations, m/s^2.
    acc: Item<'a, Read<[T; 3]>>,
    /// Positions, m.
    pos: Item<'a, ReadWrite<[T; 3]>>,
    /// Velocities, m/s.
    vel: Item<'a, ReadWrite<[T; 3]>>,
}

/// [`Accelerate`] and [`Integrate`] as one kernel: the FLASH paper's form. Dimensions: (body: n, stage: 2,
/// step: any). Stage 0 computes accelerations from all positions, stage 1 moves the bodies; a barrier stands
/// wherever stage or step change. For the lengths the same holds as for [`Accelerate`]. Made by [`simulate`],
/// or by `of`.
#[derive(KernelDefinition)]
#[kernel(name = "flash.nbody.simulate", dims(body, stage, step), group_by(stage), part_by(body))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "nbody.cl",
    name = "any",
    cooperating,
    for(f32, f64),
    build_options = "-cl-unsafe-math-optimizations";
    opencl = ["../simd/vector.cl", "nbody_cpu.cl"],
    name = "cpu",
    architecture = "cpu",
    cooperating,
    for(f32, f64),
    items_per_thread = 32,
    build_options = "-cl-unsafe-math-optimizations";
    cuda = "nbody.cu", cooperating, grid_barrier, for(f32, f64), work_group_size = 256
))]
pub struct Simulate<'a, T: Number> {
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

/// Checks that arrays have one element per body, as the positions do.
fn per_body<T: Element>(
    kernel: &str,
    pos: &FlashMemory<[T; 3]>,
    array: (&str, &FlashMemory<impl Element>),
) -> Result<(), Error> {
    shapes::vector(kernel, array, pos.len(), "`pos`")
}

/// Accelerations of all bodies, with a gravitational constant in m^3 kg^-1 s^-2 and the square of a softening
/// length in m^2. To be launched with the dimensions `[n]` for n bodies.
///
/// # Errors
/// [`Error::Argument`] if `mass` or `acc` is not as long as `pos`; it names both lengths.
///
/// # Examples
/// ```
/// use flash_core::{FlashMemory, get_runtime};
/// use flash_kernels::nbody::{accelerate, integrate};
/// # fn example() -> Result<(), flash_core::Error> {
/// let pos = FlashMemory::from([[0.0f32, 0.0, 0.0], [2.0, 0.0, 0.0]]);
/// let (mass, acc, vel) = (FlashMemory::from([1.0; 2]), FlashMemory::zeroed(2), FlashMemory::zeroed(2));
/// let rt = get_runtime("ALL_ACCEL")?;
/// rt.submit(accelerate(1.0, 0.0, &pos, &mass, &acc)?)
///     .defer([2])
///     .submit(integrate(0.5, &acc, &pos, &vel)?)
///     .exec([2])?;
/// assert_eq!(vel.get(0)?, [0.125, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
pub fn accelerate<'a, T: Number>(
    g: T,
    softening2: T,
    pos: &'a FlashMemory<[T; 3]>,
    mass: &'a FlashMemory<T>,
    acc: &'a FlashMemory<[T; 3]>,
) -> Result<Accelerate<'a, T>, Error> {
    per_body("flash.nbody.accelerate", pos, ("mass", mass))?;
    per_body("flash.nbody.accelerate", pos, ("acc", acc))?;
    Ok(Accelerate::of(g, softening2, pos, mass, acc))
}

/// A step of `dt` seconds for all bodies. To be launched with the dimensions `[n]` for n bodies.
///
/// # Errors
/// [`Error::Argument`] if `acc` or `vel` is not as long as `pos`; it names both lengths.
pub fn integrate<'a, T: Number>(
    dt: T,
    acc: &'a FlashMemory<[T; 3]>,
    pos: &'a FlashMemory<[T; 3]>,
    vel: &'a FlashMemory<[T; 3]>,
) -> Result<Integrate<'a, T>, Error> {
    per_body("flash.nbody.integrate", pos, ("acc", acc))?;
    per_body("flash.nbody.integrate", pos, ("vel", vel))?;
    Ok(Integrate::of(dt, acc, pos, vel))
}

/// Both, step after step, with the constants of [`accelerate`] and [`integrate`]. To be launched with the
/// dimensions `(n, 2, steps)` for n bodies.
///
/// # Errors
/// [`Error::Argument`] if `mass`, `vel` or `acc` is not as long as `pos`; it names both lengths.
pub fn simulate<'a, T: Number>(
    [g, softening2, dt]: [T; 3],
    mass: &'a FlashMemory<T>,
    pos: &'a FlashMemory<[T; 3]>,
    vel: &'a FlashMemory<[T; 3]>,
    acc: &'a FlashMemory<[T; 3]>,
) -> Result<Simulate<'a, T>, Error> {
    per_body("flash.nbody.simulate", pos, ("mass", mass))?;
    per_body("flash.nbody.simulate", pos, ("vel", vel))?;
    per_body("flash.nbody.simulate", pos, ("acc", acc))?;
    Ok(Simulate::of(g, softening2, dt, mass, pos, vel, acc))
}
