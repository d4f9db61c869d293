//! Dot products on the CPU.

use super::{Vdp, VdpItem, VdpSpan};
use crate::simd::{InstructionSet, Number, dot, spans};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};

/// A run is a whole block of the accumulator: its sum depends on the vectors only.
#[inline(always)]
fn sum<I: InstructionSet, T: Number>(_: Span<1>, mut k: VdpSpan<'_, T>) {
    k.sum.put(dot::<I, T>(k.x, k.y));
}

/// One product at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Vdp<'_, T>> for Plain {
    fn item(_: Index<1>, mut k: VdpItem<'_, T>) {
        k.sum.put(*k.x * *k.y);
    }
}

spans! { Vdp<T>, VdpSpan, 1, sum }
