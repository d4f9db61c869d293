//! Element-wise quotients on the CPU.

use super::{Ewmd, EwmdSpan};
use crate::simd::{InstructionSet, Number, elementwise, spans};
use flash_core::kernel::Span;

#[inline(always)]
fn quotient<I: InstructionSet, T: Number>(_: Span<1>, k: EwmdSpan<'_, T>) {
    elementwise::<I, T>(
        k.n,
        (k.a, k.b, k.c),
        #[inline(always)]
        |a, b| a / b,
    );
}

spans! { Ewmd, EwmdSpan, 1, quotient }
