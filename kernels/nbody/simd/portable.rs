//! No intrinsics: arrays as lanes, which the compiler turns into the registers of the target.

use super::{BLOCK, check, formula, version};

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in single precision.
    fn accelerate_f32_portable, lanes: f32_lanes, tile: 1 registers
}

version! {
    /// Accelerations of the bodies `first..first + acc.len()`, in double precision.
    fn accelerate_f64_portable, lanes: f64_lanes, tile: 1 registers
}

/// Where the target has no instruction for it, a fused multiplication and addition is a call.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

macro_rules! lanes {
    ($name:ident, $t:ty, $width:literal) => {
        mod $name {
            pub type T = $t;
            pub type V = [T; WIDTH];
            pub const WIDTH: usize = $width;
            pub const SCALE: f64 = 1.0;

            /// Of the ways to write it, this keeps every factor in range and is NaN, which is noticed, where
            /// `r2` has overflowed.
            #[inline(always)]
            pub fn weight(r2: V, m: V) -> V {
                core::array::from_fn(|l| {
                    let q = 1.0 / r2[l];
                    (m[l] * q) * (q * r2[l].sqrt())
                })
            }

            #[inline(always)]
            pub fn without(mut v: V, lane: usize) -> V {
                if let Some(v) = v.get_mut(lane) {
                    *v = 0.0;
                }
                v
            }

            #[inline(always)]
            pub fn splat(a: T) -> V {
                [a; WIDTH]
            }

            #[inline(always)]
            pub fn load(a: &[T; WIDTH]) -> V {
                *a
            }

            #[inline(always)]
            pub fn store(v: V) -> [T; WIDTH] {
                v
            }

            #[inline(always)]
            pub fn add(a: V, b: V) -> V {
                core::array::from_fn(|l| a[l] + b[l])
            }

            #[inline(always)]
            pub fn sub(a: V, b: V) -> V {
                core::array::from_fn(|l| a[l] - b[l])
            }

            #[inline(always)]
            pub fn mul(a: V, b: V) -> V {
                core::array::from_fn(|l| a[l] * b[l])
            }

            #[inline(always)]
            pub fn mul_add(a: V, b: V, c: V) -> V {
                core::array::from_fn(
                    |l| {
                        if super::FUSED { a[l].mul_add(b[l], c[l]) } else { a[l] * b[l] + c[l] }
                    },
                )
            }
        }
    };
}

lanes!(f32_lanes, f32, 16);
lanes!(f64_lanes, f64, 8);
