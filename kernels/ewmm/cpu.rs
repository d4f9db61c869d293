//! Element-wise products on the CPU.

use super::{Ewmm, EwmmItem, EwmmSpan};
use crate::simd::{InstructionSet, Number, Operation, Vector, elementwise, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

struct Product;

impl Operation for Product {
    #[inline(always)]
    fn of<T: Number>(a: T, b: T) -> T {
        a * b
    }

    #[inline(always)]
    unsafe fn of_registers<T: Number, V: Vector<T>>(a: V, b: V) -> V {
        // SAFETY: the caller vouches.
        unsafe { a.mul(b) }
    }
}

#[inline(always)]
fn product<I: InstructionSet, T: Number>(_: Span<1>, k: EwmmSpan<'_, T>) {
    elementwise::<Product, I, T>(k.n, k.a, k.b, k.c);
}

/// One element at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Ewmm<'_, T>> for Plain {
    fn item(_: Index<1>, k: EwmmItem<'_, T>) {
        k.c.set(*k.a * *k.b);
    }
}

spans! { Ewmm<T>, EwmmSpan, 1, product }
