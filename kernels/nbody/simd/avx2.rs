//! AVX2 with FMA: 8 bodies of f32 or 4 of f64 to a register.

use super::{BLOCK, check, formula, version};

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in single precision.
    fn accelerate_f32_avx2, lanes: f32x8, tile: 1 registers, target_feature: "avx2,fma"
}

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in double precision.
    fn accelerate_f64_avx2, lanes: f64x4, tile: 1 registers, target_feature: "avx2,fma"
}

mod f32x8 {
    use core::arch::x86_64::*;

    pub type T = f32;
    pub type V = __m256;
    pub const WIDTH: usize = 8;

    // The relative error of `vrsqrtps` is 1.5 * 2^-12, so |e| is below 1.5 * 2^-11.
    // (1 - e)^(-3/2) = 1 + 3/2 e + 15/8 e^2 + ..., over 15/8 and in v = e + H, H = 2/5: v^2 + Q. The next
    // term is below 1e-9.
    const ONE_AND_H: f32 = 1.0 + 2.0 / 5.0;
    const Q: f32 = 8.0 / 15.0 - 4.0 / 25.0;

    /// The power is 1 where `e` is 0, however the constants were rounded.
    pub const SCALE: f64 = {
        let v = ONE_AND_H as f64 - 1.0;
        1.0 / (v * v + Q as f64)
    };

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn weight(r2: V, m: V) -> V {
        let y = _mm256_rsqrt_ps(r2);
        let y2 = _mm256_mul_ps(y, y);
        let v = _mm256_fnmadd_ps(r2, y2, splat(ONE_AND_H));
        let c = _mm256_fmadd_ps(v, v, splat(Q));
        _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(y, m), y2), c)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn without(v: V, lane: usize) -> V {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let lane = _mm256_set1_epi32(if lane < WIDTH { lane as i32 } else { -1 });
        _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, lane)), v)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn splat(a: T) -> V {
        _mm256_set1_ps(a)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn load(a: &[T; WIDTH]) -> V {
        // SAFETY: reads the 8 floats behind the reference; any alignment will do.
        unsafe { _mm256_loadu_ps(a.as_ptr()) }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn store(v: V) -> [T; WIDTH] {
        let mut a = [0.0; WIDTH];
        // SAFETY: writes the 8 floats of `a`; any alignment will do.
        unsafe { _mm256_storeu_ps(a.as_mut_ptr(), v) };
        a
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn add(a: V, b: V) -> V {
        _mm256_add_ps(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn sub(a: V, b: V) -> V {
        _mm256_sub_ps(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn mul(a: V, b: V) -> V {
        _mm256_mul_ps(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn mul_add(a: V, b: V, c: V) -> V {
        _mm256_fmadd_ps(a, b, c)
    }
}

mod f64x4 {
    use core::arch::x86_64::*;

    pub type T = f64;
    pub type V = __m256d;
    pub const WIDTH: usize = 4;

    pub const SCALE: f64 = 1.0;

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn weight(r2: V, m: V) -> V {
        // An approximation to begin with is only in single precision here: with its range and
        // conversions it gains a tenth at most.
        let q = _mm256_div_pd(splat(1.0), r2);
        _mm256_mul_pd(_mm256_mul_pd(m, q), _mm256_mul_pd(q, _mm256_sqrt_pd(r2)))
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn without(v: V, lane: usize) -> V {
        let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
        let lane = _mm256_set1_epi64x(if lane < WIDTH { lane as i64 } else { -1 });
        _mm256_andnot_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(lanes, lane)), v)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn splat(a: T) -> V {
        _mm256_set1_pd(a)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn load(a: &[T; WIDTH]) -> V {
        // SAFETY: reads the 4 doubles behind the reference; any alignment will do.
        unsafe { _mm256_loadu_pd(a.as_ptr()) }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn store(v: V) -> [T; WIDTH] {
        let mut a = [0.0; WIDTH];
        // SAFETY: writes the 4 doubles of `a`; any alignment will do.
        unsafe { _mm256_storeu_pd(a.as_mut_ptr(), v) };
        a
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn add(a: V, b: V) -> V {
        _mm256_add_pd(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn sub(a: V, b: V) -> V {
        _mm256_sub_pd(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn mul(a: V, b: V) -> V {
        _mm256_mul_pd(a, b)
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub fn mul_add(a: V, b: V, c: V) -> V {
        _mm256_fmadd_pd(a, b, c)
    }
}
