//! Element-wise products on the CPU.

use super::{Ewmm, EwmmSpan};
use crate::simd::{InstructionSet, Number, elementwise, spans};
use flash_core::kernel::Span;

#[inline(always)]
fn product<I: InstructionSet, T: Number>(_: Span<1>, k: EwmmSpan<'_, T>) {
    elementwise::<I, T>(
        k.n,
        (k.a, k.b, k.c),
        #[inline(always)]
        |a, b| a * b,
    );
}

spans! { Ewmm, EwmmSpan, 1, product }
