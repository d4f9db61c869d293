//! Products of dense matrices by the crates of Rust, on as many threads: matrixmultiply (through ndarray),
//! faer, gemm.

use super::c::Real;
use anyhow::Result;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use gemm::Parallelism;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};
use rayon::ThreadPool;

/// Threads for products of square matrices, row by row. matrixmultiply has its own, as many as the
/// environment says (`peers`).
pub struct Dense {
    pool: ThreadPool,
}

/// A product of two matrices of `n` rows and columns.
pub type Product<T> = fn(&Dense, usize, &[T], &[T], &mut [T]);

impl Dense {
    pub fn new(threads: usize) -> Result<Dense> {
        Ok(Dense { pool: rayon::ThreadPoolBuilder::new().num_threads(threads).build()? })
    }

    /// Each crate, and its product.
    pub fn products<T: Real>() -> [(&'static str, Product<T>); 3] {
        [("matrixmultiply", Dense::matrixmultiply), ("faer", Dense::faer), ("gemm", Dense::gemm)]
    }

    fn matrixmultiply<T: Real>(&self, n: usize, a: &[T], b: &[T], c: &mut [T]) {
        let of = |x| ArrayView2::from_shape((n, n), x).expect("a square matrix");
        let mut c = ArrayViewMut2::from_shape((n, n), c).expect("a square matrix");
        general_mat_mul(T::ONE, &of(a), &of(b), T::ZERO, &mut c);
    }

    fn faer<T: Real>(&self, n: usize, a: &[T], b: &[T], c: &mut [T]) {
        let of = |x| MatRef::from_row_major_slice(x, n, n);
        let c = MatMut::from_row_major_slice_mut(c, n, n);
        self.pool.install(|| matmul(c, Accum::Replace, of(a), of(b), T::ONE, Par::rayon(0)));
    }

    fn gemm<T: Real>(&self, n: usize, a: &[T], b: &[T], c: &mut [T]) {
        assert!([a.len(), b.len(), c.len()] == [n * n; 3]);
        let threads = self.pool.current_num_threads();
        let row = n as isize;
        self.pool.install(|| {
            // SAFETY: three matrices of `n` rows of `n` elements, row by row; none is conjugated.
            unsafe {
                gemm::gemm(
                    n,
                    n,
                    n,
                    c.as_mut_ptr(),
                    1,
                    row,
                    false,
                    a.as_ptr(),
                    1,
                    row,
                    b.as_ptr(),
                    1,
                    row,
                    T::ZERO,
                    T::ONE,
                    false,
                    false,
                    false,
                    Parallelism::Rayon(threads),
                );
            }
        });
    }
}
