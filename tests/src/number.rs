//! Number types of kernels, in tests of both precisions.

use flash::kernels::simd;

/// A number type, to and from double precision.
pub trait Number: simd::Number {
    /// The nearest number of this type.
    fn of(value: f64) -> Self;

    /// The same number in double precision.
    fn wide(self) -> f64;
}

impl Number for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    fn of(value: f64) -> f64 {
        value
    }
    fn wide(self) -> f64 {
        self
    }
}
