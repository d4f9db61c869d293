//! AVX-512: 16 bodies of f32 or 8 of f64 to a register.

use super::{BLOCK, check, formula, version};

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in single precision.
    fn accelerate_f32_avx512, lanes: f32x16, tile: 2 registers, target_feature: "avx512f"
}

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in double precision.
    fn accelerate_f64_avx512, lanes: f64x8, tile: 2 registers, target_feature: "avx512f"
}

/// The largest `|1 - r2 y^2|` of `vrsqrt14ps` and `vrsqrt14pd`, whose relative error is 2^-14.
const E: f64 = 1.0 / 8192.0;

mod f32x16 {
    use core::arch::x86_64::*;

    pub type T = f32;
    pub type V = __m512;
    pub const WIDTH: usize = 16;

    // (1 - e)^(-3/2) = 1 + 3/2 e + 15/8 e^2 + ..., of which 15/8 e^2 lies within 15/16 E^2 of a
    // constant. The rest is 3/2 (5/3 - r2 y^2).
    const C: f32 = 5.0 / 3.0;

    /// The constant, and the power is 1 where `e` is 0, however `C` was rounded.
    pub const SCALE: f64 = (1.0 + 15.0 / 16.0 * super::E * super::E) / (C as f64 - 1.0);

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn weight(r2: V, m: V) -> V {
        let y = _mm512_rsqrt14_ps(r2);
        let y2 = _mm512_mul_ps(y, y);
        let c = _mm512_fnmadd_ps(r2, y2, splat(C));
        _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(y, m), y2), c)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn without(v: V, lane: usize) -> V {
        let lane = if lane < WIDTH { 1 << lane } else { 0 };
        _mm512_maskz_mov_ps(!lane, v)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn splat(a: T) -> V {
        _mm512_set1_ps(a)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn load(a: &[T; WIDTH]) -> V {
        // SAFETY: reads the 16 floats behind the reference; any alignment will do.
        unsafe { _mm512_loadu_ps(a.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn store(v: V) -> [T; WIDTH] {
        let mut a = [0.0; WIDTH];
        // SAFETY: writes the 16 floats of `a`; any alignment will do.
        unsafe { _mm512_storeu_ps(a.as_mut_ptr(), v) };
        a
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn add(a: V, b: V) -> V {
        _mm512_add_ps(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn sub(a: V, b: V) -> V {
        _mm512_sub_ps(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn mul(a: V, b: V) -> V {
        _mm512_mul_ps(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn mul_add(a: V, b: V, c: V) -> V {
        _mm512_fmadd_ps(a, b, c)
    }
}

mod f64x8 {
    use core::arch::x86_64::*;

    pub type T = f64;
    pub type V = __m512d;
    pub const WIDTH: usize = 8;

    // (1 - e)^(-3/2) = 1 + A1 e + A2 e^2 + A3 e^3 + 315/128 e^4 + ...; the last lies within
    // 315/512 E^4 of 315/128 E^2 e^2, which A2 includes.
    const A3: f64 = 35.0 / 16.0;
    const A2: f64 = 15.0 / 8.0 + 315.0 / 128.0 * super::E * super::E;
    const A1: f64 = 3.0 / 2.0;

    // The same over A3, in v = e + H: v^3 + P v + Q.
    const H: f64 = A2 / A3 / 3.0;
    const P: f64 = A1 / A3 - 3.0 * H * H;
    const Q: f64 = 1.0 / A3 - A1 / A3 * H + 2.0 * H * H * H;
    const ONE_AND_H: f64 = 1.0 + H;

    /// The power is 1 where `e` is 0, however the constants were rounded.
    pub const SCALE: f64 = {
        let v = ONE_AND_H - 1.0;
        1.0 / (v * (v * v + P) + Q)
    };

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn weight(r2: V, m: V) -> V {
        let y = _mm512_rsqrt14_pd(r2);
        let y2 = _mm512_mul_pd(y, y);
        let v = _mm512_fnmadd_pd(r2, y2, splat(ONE_AND_H));
        let c = _mm512_fmadd_pd(v, _mm512_fmadd_pd(v, v, splat(P)), splat(Q));
        _mm512_mul_pd(_mm512_mul_pd(_mm512_mul_pd(y, m), y2), c)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn without(v: V, lane: usize) -> V {
        let lane = if lane < WIDTH { 1 << lane } else { 0 };
        _mm512_maskz_mov_pd(!lane, v)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn splat(a: T) -> V {
        _mm512_set1_pd(a)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn load(a: &[T; WIDTH]) -> V {
        // SAFETY: reads the 8 doubles behind the reference; any alignment will do.
        unsafe { _mm512_loadu_pd(a.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn store(v: V) -> [T; WIDTH] {
        let mut a = [0.0; WIDTH];
        // SAFETY: writes the 8 doubles of `a`; any alignment will do.
        unsafe { _mm512_storeu_pd(a.as_mut_ptr(), v) };
        a
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn add(a: V, b: V) -> V {
        _mm512_add_pd(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn sub(a: V, b: V) -> V {
        _mm512_sub_pd(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn mul(a: V, b: V) -> V {
        _mm512_mul_pd(a, b)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub fn mul_add(a: V, b: V, c: V) -> V {
        _mm512_fmadd_pd(a, b, c)
    }
}
