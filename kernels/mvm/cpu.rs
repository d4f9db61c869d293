//! Products of matrices and vectors on the CPU: a dot product per row.

use super::{Mvm, MvmSpan};
use crate::simd::{InstructionSet, Number, dot, spans};
use flash_core::kernel::Span;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, k: MvmSpan<'_, T>) {
    let n = k.n as usize;
    assert!(k.x.len() >= n, "mvm: expected a vector of {n} elements, found {}", k.x.len());
    let x = &k.x[..n];
    for (i, y) in k.y.iter_mut().enumerate() {
        let row = k.a.row(i);
        assert!(
            row.len() >= n,
            "mvm: expected {n} elements in row {}, found {}",
            run.range().start + i,
            row.len()
        );
        *y = dot::<I, T>(&row[..n], x);
    }
}

spans! { Mvm, MvmSpan, 1, rows }
