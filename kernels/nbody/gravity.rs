//! Accelerations of a run of bodies, in registers that hold a lane for each of as many bodies.
//!
//! ```text
//! a_i = sum over j of  g m_j d_ij (|d_ij|^2 + softening2)^(-3/2),    d_ij = x_j - x_i
//! ```
//!
//! Bodies *i* lie in lanes, and every *j* is broadcast to them, so that nothing is summed across lanes. A
//! *tile* is one or two registers of bodies that share each broadcast.
//!
//! # The power -3/2
//!
//! Some registers estimate it ([`estimates`]), others take a square root and divide. A factor that is the
//! same for all pairs is applied once per body.
//!
//! # What a result depends on
//!
//! It depends on the body and the system, never on the run: lanes do not meet, and the order of summation is
//! that of *j*. So threads and cuts do not change a bit. The order is in blocks of 512 bodies *j*, whose sums
//! are then added. One sum over 16,000 bodies is off by up to 7e-6 of an acceleration in f32; blocks keep it
//! at 6e-7.
//!
//! # What is not finite
//!
//! An acceleration that comes out infinite or NaN is computed once more by the formula, in double precision.
//! So a square that overflows f32 (distances beyond 1.8e19) is slow, but no error. There, and wherever the
//! result shows it, bodies whose r2 is below the smallest normal number of the element type are in one place
//! and do not attract each other.

#[cfg(target_arch = "x86_64")]
mod estimates;
#[cfg(test)]
mod tests;

use crate::simd::{InstructionSet, Number, Portable, Vector};
use std::ops::Range;

/// Bodies *j* whose contributions are summed before they are added to the total.
/// Of 16,000 bodies in f32 the largest error is 5.7e-7 with 256, 6.0e-7 with 512 and 1.0e-6 with 1,024, the
/// average one 1.1, 1.0 and 1.3e-7; a block costs some hundred cycles of its own.
const BLOCK: usize = 512;

/// The most lanes of a register.
const LANES: usize = 16;

/// Bodies, and what acts between them; units are the caller's.
#[derive(Clone, Copy)]
pub(super) struct System<'a, T> {
    pub g: T,
    pub softening2: T,
    pub pos: &'a [[T; 3]],
    pub mass: &'a [T],
}

impl<T: Number> System<'_, T> {
    /// Some of the bodies.
    #[inline(always)]
    fn part(self, bodies: Range<usize>) -> Self {
        System { pos: &self.pos[bodies.clone()], mass: &self.mass[bodies], ..self }
    }

    /// The formula in double precision, for the rare body whose fast result is not finite.
    #[cold]
    #[inline(never)]
    fn formula(self, i: usize) -> [T; 3] {
        let (g, softening2) = (self.g.into(), self.softening2.into());
        let [x, y, z] = self.pos[i].map(Into::into);
        let mut total = [0.0; 3];
        for (p, &m) in self.pos.iter().zip(self.mass) {
            let d = [p[0].into() - x, p[1].into() - y, p[2].into() - z];
            let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening2;
            if r2 < T::SMALLEST.into() {
                continue;
            }
            let inv = 1.0 / r2.sqrt();
            // In this order neither factor leaves the range where the product is in it.
            let weight = (g * m.into() * inv) * (inv * inv);
            for (total, d) in total.iter_mut().zip(d) {
                *total += weight * d;
            }
        }
        total.map(T::nearest)
    }
}

/// An instruction set's power of -3/2.
pub(super) trait Gravity<T: Number>: InstructionSet {
    /// What [`weight`](Self::weight) is short of.
    const SCALE: f64 = 1.0;

    /// `m r2^(-3/2)` but for the factor [`SCALE`](Self::SCALE).
    ///
    /// # Safety
    /// The CPU has the instructions.
    // Of the ways to write it, this keeps every factor in range and is NaN, which is noticed, where `r2` has
    // overflowed.
    #[inline(always)]
    unsafe fn weight(r2: Self::Vector<T>, m: Self::Vector<T>) -> Self::Vector<T> {
        // SAFETY: the caller vouches.
        unsafe {
            let q = Self::Vector::<T>::splat(T::ONE).div(r2);
            m.mul(q).mul(q.mul(r2.sqrt()))
        }
    }
}

impl<T: Number> Gravity<T> for Portable {}

/// Accelerations of the bodies `first..first + acc.len()`.
///
/// # Panics
/// If there is not one mass per position, if the run leaves the system, or if this CPU lacks the
/// instructions.
#[inline(always)]
#[track_caller]
pub(super) fn accelerate<I: Gravity<T>, T: Number>(system: System<'_, T>, first: usize, acc: &mut [[T; 3]]) {
    let (positions, masses) = (system.pos.len(), system.mass.len());
    assert!(
        positions == masses,
        "N-body: expected one mass for each of {positions} positions, found {masses}"
    );
    assert!(
        first.checked_add(acc.len()).is_some_and(|end| end <= positions),
        "N-body: expected a run of bodies within 0..{positions}, found {} from {first} on",
        acc.len()
    );
    I::assert_there();
    // As many registers as fill the pipelines without spilling the sums.
    match size_of::<I::Vector<T>>() {
        64 => tiles::<I, T, 2>(system, first, acc),
        _ => tiles::<I, T, 1>(system, first, acc),
    }
}

/// Whole tiles of `R` registers, then of one.
#[inline(always)]
fn tiles<I: Gravity<T>, T: Number, const R: usize>(system: System<'_, T>, first: usize, acc: &mut [[T; 3]]) {
    let lanes = I::Vector::<T>::LANES;
    let whole = acc.len() - acc.len() % (R * lanes);
    let (tiles, rest) = acc.split_at_mut(whole);
    for (tile, acc) in tiles.chunks_exact_mut(R * lanes).enumerate() {
        // SAFETY: the CPU has the instructions, as asserted above.
        unsafe { self::tile::<I, T, R>(system, first + tile * R * lanes, acc) };
    }
    for (tile, acc) in rest.chunks_mut(lanes).enumerate() {
        // SAFETY: as above.
        unsafe { self::tile::<I, T, 1>(system, first + whole + tile * lanes, acc) };
    }
}

/// The accelerations of up to `R` registers of bodies.
///
/// # Safety
/// The CPU has the instructions.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // all are unrolled, and their arrays become registers
unsafe fn tile<I: Gravity<T>, T: Number, const R: usize>(
    system: System<'_, T>,
    first: usize,
    acc: &mut [[T; 3]],
) {
    let (n, own) = (I::Vector::<T>::LANES, first..first + acc.len());
    // Lanes without a body hold the origin; their results are not used.
    let mut lanes = [[[T::ZERO; LANES]; 3]; R];
    for (i, p) in system.pos[own.clone()].iter().enumerate() {
        for axis in 0..3 {
            lanes[i / n][axis][i % n] = p[axis];
        }
    }
    // SAFETY: the caller vouches for the instructions; there are as many numbers as the largest register has.
    unsafe {
        let mut x = [[I::Vector::<T>::splat(T::ZERO); 3]; R];
        let mut totals = x;
        for r in 0..R {
            for axis in 0..3 {
                x[r][axis] = I::Vector::<T>::load(lanes[r][axis].as_ptr());
            }
        }
        for start in (0..system.pos.len()).step_by(BLOCK) {
            let block = start..(start + BLOCK).min(system.pos.len());
            let mut sums = [[I::Vector::<T>::splat(T::ZERO); 3]; R];
            if system.softening2 == T::ZERO {
                // A body meets itself in the part of this block that is also in this tile.
                let [low, high] = [own.start, own.end].map(|at| at.clamp(block.start, block.end));
                let lane = low.saturating_sub(own.start);
                sum::<I, T, R, false>(&x, system.part(block.start..low), 0, &mut sums);
                sum::<I, T, R, true>(&x, system.part(low..high), lane, &mut sums);
                sum::<I, T, R, false>(&x, system.part(high..block.end), 0, &mut sums);
            } else {
                sum::<I, T, R, false>(&x, system.part(block), 0, &mut sums);
            }
            for r in 0..R {
                for axis in 0..3 {
                    totals[r][axis] = totals[r][axis].add(sums[r][axis]);
                }
            }
        }
        let factor = I::Vector::<T>::splat(T::nearest(system.g.into() * I::SCALE));
        for r in 0..R {
            for axis in 0..3 {
                totals[r][axis].mul(factor).store(lanes[r][axis].as_mut_ptr());
            }
        }
    }
    for (i, a) in acc.iter_mut().enumerate() {
        let mut finite = true;
        for axis in 0..3 {
            a[axis] = lanes[i / n][axis][i % n];
            finite &= a[axis].into().is_finite();
        }
        if !finite {
            *a = system.formula(first + i);
        }
    }
}

/// Adds to `sums` what the bodies *j* of `others` contribute to each lane of `x`. With `APART`, the first of
/// them is the body in lane `lane` of the tile, and so on, and none acts on itself.
///
/// Not inlined, because among the rest of `tile` its registers are spilled.
#[inline(never)]
#[allow(clippy::needless_range_loop)] // as above
fn sum<I: Gravity<T>, T: Number, const R: usize, const APART: bool>(
    x: &[[I::Vector<T>; 3]; R],
    others: System<'_, T>,
    lane: usize,
    sums: &mut [[I::Vector<T>; 3]; R],
) {
    I::run(
        #[inline(always)]
        || {
            // SAFETY: `run` has checked that the CPU has the instructions.
            unsafe {
                let softening2 = I::Vector::<T>::splat(others.softening2);
                // Stage by stage over all registers: the stages of one wait for each other.
                let mut a = *sums;
                for (j, (p, m)) in others.pos.iter().zip(others.mass).enumerate() {
                    let p = [
                        I::Vector::<T>::splat(p[0]),
                        I::Vector::<T>::splat(p[1]),
                        I::Vector::<T>::splat(p[2]),
                    ];
                    let m = I::Vector::<T>::splat(*m);
                    let mut d = [p; R];
                    let mut w = [m; R];
                    for r in 0..R {
                        for axis in 0..3 {
                            d[r][axis] = p[axis].sub(x[r][axis]);
                        }
                        w[r] = d[r][0].mul_add(d[r][0], softening2);
                        w[r] = d[r][1].mul_add(d[r][1], w[r]);
                        w[r] = d[r][2].mul_add(d[r][2], w[r]);
                    }
                    for r in 0..R {
                        w[r] = I::weight(w[r], m);
                        if APART {
                            w[r] = w[r].without((lane + j).wrapping_sub(r * I::Vector::<T>::LANES));
                        }
                    }
                    for r in 0..R {
                        for axis in 0..3 {
                            a[r][axis] = w[r].mul_add(d[r][axis], a[r][axis]);
                        }
                    }
                }
                *sums = a;
            }
        },
    );
}
