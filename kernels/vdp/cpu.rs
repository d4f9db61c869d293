//! Dot products on the CPU.

use super::{Vdp, VdpSpan};
use crate::simd::{InstructionSet, Number, dot, spans};
use flash_core::kernel::Span;

/// A run is a whole block of the accumulator: its sum depends on the vectors only.
#[inline(always)]
fn sum<I: InstructionSet, T: Number>(_: Span<1>, mut k: VdpSpan<'_, T>) {
    k.sum.put(dot::<I, T>(k.x, k.y));
}

spans! { Vdp, VdpSpan, 1, sum }
