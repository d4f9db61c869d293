//! Products of sparse matrices with dense ones and with vectors by sprs, a part of the rows for each thread;
//! and with vectors by rayon, in a loop over rows as one writes it.

use super::c::Real;
use anyhow::Result;
use ndarray::{ArrayView2, ArrayViewMut2};
use rayon::ThreadPool;
use rayon::prelude::*;
use sprs::CsMatI;
use sprs::prod::{csr_mulacc_dense_rowmaj, mul_acc_mat_vec_csr};

/// A matrix in CSR form, as the library has it, and threads.
pub struct Sparse<T> {
    matrix: CsMatI<T, u32, u64>,
    pool: ThreadPool,
}

impl<T: Real> Sparse<T> {
    /// Of a matrix with as many rows as columns: row pointers, columns, values. `None` if some row has two
    /// elements in one column, which the library does not take.
    pub fn new(m: usize, of: (&[u64], &[u32], &[T]), threads: usize) -> Result<Option<Sparse<T>>> {
        let (start, column, value) = (of.0.to_vec(), of.1.to_vec(), of.2.to_vec());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(CsMatI::new_from_unsorted((m, m), start, column, value).ok().map(|matrix| Sparse { matrix, pool }))
    }

    /// The product with a matrix of rows of `n`.
    pub fn product(&self, n: usize, b: &[T], to: &mut [T]) {
        let m = self.matrix.rows();
        let b = ArrayView2::from_shape((m, n), b).expect("a matrix of that shape");
        let rows = m.div_ceil(self.pool.current_num_threads()).max(1);
        let part = |(part, to): (usize, &mut [T])| {
            let first = part * rows;
            let to_rows = to.len() / n;
            // The library adds to what is there.
            to.fill(T::ZERO);
            let to = ArrayViewMut2::from_shape((to_rows, n), to).expect("whole rows");
            csr_mulacc_dense_rowmaj(self.matrix.slice_outer(first..first + to_rows), b, to);
        };
        self.pool.install(|| to.par_chunks_mut(rows * n).enumerate().for_each(part));
    }

    /// The product with a vector.
    pub fn product_with_vector(&self, x: &[T], y: &mut [T]) {
        let rows = self.matrix.rows().div_ceil(self.pool.current_num_threads()).max(1);
        let part = |(part, y): (usize, &mut [T])| {
            // The library adds to what is there.
            y.fill(T::ZERO);
            let first = part * rows;
            mul_acc_mat_vec_csr(self.matrix.slice_outer(first..first + y.len()), x, y);
        };
        self.pool.install(|| y.par_chunks_mut(rows).enumerate().for_each(part));
    }
}

/// The product of a matrix in CSR form with a vector: a loop over rows that rayon shares out.
pub fn naive<T: Real>((start, column, value): (&[u64], &[u32], &[T]), x: &[T], y: &mut [T]) {
    y.par_iter_mut().enumerate().for_each(|(row, y)| {
        let elements = start[row] as usize..start[row + 1] as usize;
        let products = column[elements.clone()].iter().zip(&value[elements]);
        *y = products.map(|(column, value)| *value * x[*column as usize]).fold(T::ZERO, |sum, x| sum + x);
    });
}
