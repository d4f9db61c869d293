//! The power -3/2 from an estimate `y` of `r2^(-1/2)`.
//!
//! With `e = 1 - r2 y^2` it is `y^3 (1 - e)^(-3/2)`. A short polynomial in `e` takes less time and is more
//! exact than Newton steps on `y` followed by a cube: up to `e`, which is one Newton step, for f32 on
//! AVX-512; up to `e^2` for f32 on AVX2; up to `e^3` for f64 on AVX-512. Completing the square or the cube
//! saves an operation. The leading coefficient is in `SCALE`, which makes the power 1 where `e` is 0, however
//! the constants were rounded.

use super::Gravity;
use crate::simd::{Avx2, Avx512, InverseRoot, Number, Vector};

/// An estimate is only in single precision here: with its range and conversions it gains a tenth at most.
impl Gravity<f64> for Avx2 {}

impl Gravity<f32> for Avx2 {
    const SCALE: f64 = {
        let v = square::ONE_AND_H as f64 - 1.0;
        1.0 / (v * v + square::Q as f64)
    };

    #[inline(always)]
    unsafe fn weight(r2: Self::Vector<f32>, m: Self::Vector<f32>) -> Self::Vector<f32> {
        // SAFETY: the caller vouches.
        unsafe {
            let y = r2.inverse_root();
            let y2 = y.mul(y);
            let v = r2.neg_mul_add(y2, Vector::splat(square::ONE_AND_H));
            let c = v.mul_add(v, Vector::splat(square::Q));
            y.mul(m).mul(y2).mul(c)
        }
    }
}

impl Gravity<f32> for Avx512 {
    const SCALE: f64 = (1.0 + 15.0 / 16.0 * E * E) / (line::C as f64 - 1.0);

    #[inline(always)]
    unsafe fn weight(r2: Self::Vector<f32>, m: Self::Vector<f32>) -> Self::Vector<f32> {
        // SAFETY: the caller vouches.
        unsafe {
            let y = r2.inverse_root();
            let y2 = y.mul(y);
            let c = r2.neg_mul_add(y2, Vector::splat(line::C));
            y.mul(m).mul(y2).mul(c)
        }
    }
}

impl Gravity<f64> for Avx512 {
    const SCALE: f64 = {
        let v = cube::ONE_AND_H - 1.0;
        1.0 / (v * (v * v + cube::P) + cube::Q)
    };

    #[inline(always)]
    unsafe fn weight(r2: Self::Vector<f64>, m: Self::Vector<f64>) -> Self::Vector<f64> {
        // SAFETY: the caller vouches.
        unsafe {
            let y = r2.inverse_root();
            let y2 = y.mul(y);
            let v = r2.neg_mul_add(y2, Vector::splat(cube::ONE_AND_H));
            let c = v.mul_add(v.mul_add(v, Vector::splat(cube::P)), Vector::splat(cube::Q));
            y.mul(m).mul(y2).mul(c)
        }
    }
}

/// The largest `|e|` on AVX-512, of both precisions.
const E: f64 = 2.0 * <<f32 as Number>::Bits512 as InverseRoot<f32>>::ERROR;

/// (1 - e)^(-3/2) = 1 + 3/2 e + 15/8 e^2 + ..., of which 15/8 e^2 lies within 15/16 E^2 of a constant. The
/// rest is 3/2 (5/3 - r2 y^2).
mod line {
    pub const C: f32 = 5.0 / 3.0;
}

/// (1 - e)^(-3/2) = 1 + 3/2 e + 15/8 e^2 + ..., over 15/8 and in v = e + H, H = 2/5: v^2 + Q. The next term
/// is below 1e-9, since |e| is below 1.5 * 2^-11.
mod square {
    pub const ONE_AND_H: f32 = 1.0 + 2.0 / 5.0;
    pub const Q: f32 = 8.0 / 15.0 - 4.0 / 25.0;
}

/// (1 - e)^(-3/2) = 1 + A1 e + A2 e^2 + A3 e^3 + 315/128 e^4 + ...; the last lies within 315/512 E^4 of
/// 315/128 E^2 e^2, which A2 includes. The same over A3, in v = e + H: v^3 + P v + Q.
mod cube {
    use super::E;
    const A3: f64 = 35.0 / 16.0;
    const A2: f64 = 15.0 / 8.0 + 315.0 / 128.0 * E * E;
    const A1: f64 = 3.0 / 2.0;
    const H: f64 = A2 / A3 / 3.0;
    pub const P: f64 = A1 / A3 - 3.0 * H * H;
    pub const Q: f64 = 1.0 / A3 - A1 / A3 * H + 2.0 * H * H * H;
    pub const ONE_AND_H: f64 = 1.0 + H;
}
