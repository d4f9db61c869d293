//! Element-wise quotients on the CPU.

use super::{Ewmd, EwmdItem, EwmdSpan};
use crate::simd::{InstructionSet, Number, Operation, Vector, elementwise, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

struct Quotient;

impl Operation for Quotient {
    #[inline(always)]
    fn of<T: Number>(a: T, b: T) -> T {
        a / b
    }

    #[inline(always)]
    unsafe fn of_registers<T: Number, V: Vector<T>>(a: V, b: V) -> V {
        // SAFETY: the caller vouches.
        unsafe { a.div(b) }
    }
}

#[inline(always)]
fn quotient<I: InstructionSet, T: Number>(_: Span<1>, k: EwmdSpan<'_, T>) {
    elementwise::<Quotient, I, T>(k.n, k.a, k.b, k.c);
}

/// One element at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Ewmd<'_, T>> for Plain {
    fn item(_: Index<1>, k: EwmdItem<'_, T>) {
        k.c.set(*k.a / *k.b);
    }
}

spans! { Ewmd<T>, EwmdSpan, 1, quotient }
