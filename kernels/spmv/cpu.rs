//! Products of sparse matrices and vectors on the CPU.

use super::{Spmv, SpmvItem, SpmvSpan};
use crate::simd::{InstructionSet, Number, spans};
use crate::sparse::sums::{self, Run};
use flash_core::kernel;
use flash_core::kernel::{CpuItem, Index, Span};
use std::ops::Range;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, k: SpmvSpan<'_, T>) {
    // Views check that these elements exist.
    let elements = |all: Range<usize>| (k.column.slice(all.clone()), k.value.slice(all));
    let elements = Run::new("flash.spmv", k.start, run.range(), elements, k.x, 1);
    let y = k.y;
    elements.sums::<I, 1, 1, 4>(0, |column| outside(column, k.x.len()), |row, [[sum]]| y[row] = sum);
}

#[cold]
fn outside(column: u32, len: usize) -> String {
    format!("flash.spmv: column {column} is none of the {len} elements of `x`")
}

/// One row at a time: the readable version.
pub struct Plain;

#[kernel(for(f32, f64))]
impl<T: Number> CpuItem<Spmv<'_, T>> for Plain {
    fn item(row: Index<1>, k: SpmvItem<'_, T>) {
        let elements = sums::row("flash.spmv", k.start, row[0]);
        let (columns, values) = (k.column.slice(elements.clone()), k.value.slice(elements));
        let mut sum = T::ZERO;
        for (column, value) in columns.iter().zip(values) {
            let x = k.x.get(*column as usize);
            sum += *value * *x.unwrap_or_else(|| panic!("{}", outside(*column, k.x.len())));
        }
        k.y.set(sum);
    }
}

spans! { Spmv<T>, SpmvSpan, 1, rows }
