//! [`Real`]: what kernels for both `f32` and `f64` need of them.

use super::{Cast, Float};
use crate::kernel::Element;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`, in kernels and functions with a type parameter. The methods are those of Rust;
/// [`of`](Real::of) makes a constant.
///
/// # Examples
/// ```
/// use flash_core::kernel::prelude::*;
///
/// #[kernel_fn]
/// fn half_of_root<T: Real>(x: T) -> T {
///     T::of(0.5) * x.sqrt()
/// }
/// # fn main() {
/// assert_eq!(half_of_root(16.0_f32), 2.0);
/// # }
/// ```
pub trait Real:
    Element
    + Float
    + Cast
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + sealed::Sealed
{
    /// The number nearest to a constant.
    fn of(value: f64) -> Self;
    /// `self * a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The smaller number.
    fn min(self, other: Self) -> Self;
    /// The larger number.
    fn max(self, other: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Without the sign.
    fn abs(self) -> Self;
    /// The next whole number below.
    fn floor(self) -> Self;
    /// The next whole number above.
    fn ceil(self) -> Self;
    /// e to the power of it.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Power.
    fn powf(self, exponent: Self) -> Self;
}

macro_rules! reals {
    ($($type:ident)*) => {$(
        impl Real for $type {
            #[inline(always)]
            fn of(value: f64) -> $type {
                value as $type
            }
            #[inline(always)]
            fn mul_add(self, a: $type, b: $type) -> $type {
                $type::mul_add(self, a, b)
            }
            reals! { @two $type min max powf }
            reals! { @one $type sqrt abs floor ceil exp ln sin cos }
        }
    )*};
    (@two $type:ident $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self, other: $type) -> $type {
            $type::$name(self, other)
        }
    )*};
    (@one $type:ident $($name:ident)*) => {$(
        #[inline(always)]
        fn $name(self) -> $type {
            $type::$name(self)
        }
    )*};
}
reals! { f32 f64 }
