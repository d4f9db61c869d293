//! Sparse products on the CPU: each element of a row is a multiple of a row of `b`, which are summed four at a time.

use super::{Smmm, SmmmSpan};
use crate::simd::{InstructionSet, Number, prefetch, spans};
use flash_core::kernel::Span;

/// Bytes of a row of `b` that are asked for while the rows before it are summed: no CPU guesses which row comes next.
const NEAR: usize = 512;

#[inline(always)]
fn rows<I: InstructionSet, T: Number>(run: Span<1>, mut k: SmmmSpan<'_, T>) {
    let (n, leading, first) = (k.n as usize, k.leading as usize, run.range().start);
    let pointers = k.start.get(first..=first + run.len());
    let Some(pointers) = pointers else {
        panic!(
            "smmm: expected {} row pointers at least, one more than there are rows, found {}",
            first + run.len() + 1,
            k.start.len()
        )
    };
    assert!(leading >= n, "smmm: expected a leading dimension of {n} at least, found {leading}");
    let b = |column: u32| {
        let at = column as usize * leading;
        match k.b.get(at..at + n) {
            Some(row) => row,
            None => outside(column, n, leading, k.b.len()),
        }
    };
    for i in 0..run.len() {
        let (begin, end) = (pointers[i] as usize, pointers[i + 1] as usize);
        assert!(
            begin <= end,
            "smmm: expected row pointers that do not decrease, found {begin} and {end} of row {}",
            first + i
        );
        // Views check that these are there.
        let (columns, values) = (k.column.slice(begin..end), k.value.slice(begin..end));
        let row = k.c.row(i);
        assert!(row.len() >= n, "smmm: expected rows of {n} elements, found {}", row.len());
        let c = &mut row[..n];
        c.fill(T::ZERO);
        let ((four_columns, columns), (four_values, values)) =
            (columns.as_chunks::<4>(), values.as_chunks::<4>());
        for (four, (columns, x)) in four_columns.iter().zip(four_values).enumerate() {
            for column in four_columns.get(four + 1).into_iter().flatten() {
                let row = k.b.as_ptr().wrapping_add((*column as usize).wrapping_mul(leading));
                let near = n.min(NEAR / size_of::<T>());
                (0..near).step_by(64 / size_of::<T>()).for_each(|line| prefetch(row.wrapping_add(line)));
            }
            let [b0, b1, b2, b3] = columns.map(b);
            for j in 0..n {
                let sum = I::mul_add(x[1], b1[j], I::mul_add(x[0], b0[j], c[j]));
                c[j] = I::mul_add(x[3], b3[j], I::mul_add(x[2], b2[j], sum));
            }
        }
        for (column, x) in columns.iter().zip(values) {
            for (c, b) in c.iter_mut().zip(b(*column)) {
                *c = I::mul_add(*x, *b, *c);
            }
        }
    }
}

#[cold]
fn outside(column: u32, n: usize, leading: usize, len: usize) -> ! {
    panic!(
        "smmm: column {column} is none of the rows of `b`: {len} elements have no {n} of such a row, {leading} apart"
    )
}

spans! { Smmm, SmmmSpan, 1, rows }
