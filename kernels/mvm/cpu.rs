//! Products of matrices and vectors on the CPU: a dot product per row.

use super::{Mvm, MvmSpan};
use crate::simd::{InstructionSet, Number, dot, dots, spans};
use flash_core::kernel::Span;

/// Rows at once: memory gives more to several streams than to one.
const ROWS: usize = 4;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, k: MvmSpan<'_, T>) {
    let n = k.n as usize;
    assert!(k.x.len() >= n, "mvm: expected a vector of {n} elements, found {}", k.x.len());
    let x = &k.x[..n];
    let row = |i: usize| {
        let row = k.a.row(i);
        let at = run.range().start + i;
        assert!(row.len() >= n, "mvm: expected {n} elements in row {at}, found {}", row.len());
        &row[..n]
    };
    let (several, rest) = k.y.as_chunks_mut::<ROWS>();
    let first = several.len() * ROWS;
    for (i, y) in several.iter_mut().enumerate() {
        *y = dots::<I, T, ROWS>(std::array::from_fn(|r| row(i * ROWS + r)), x);
    }
    for (i, y) in rest.iter_mut().enumerate() {
        *y = dot::<I, T>(row(first + i), x);
    }
}

spans! { Mvm, MvmSpan, 1, rows }
