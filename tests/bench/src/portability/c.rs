//! The best known of each kernel on a CPU, called directly: C with gcc's OpenMP, and OpenBLAS.

use crate::peers::{Source, int, long};
use anyhow::Result;
use flash::kernels::simd::Number;
use libloading::Library;
use std::ffi::{c_int, c_long};
use std::path::Path;

type Elementwise<T> = unsafe extern "C" fn(c_int, c_long, *const T, *const T, *mut T);
type MatrixVector<T> = unsafe extern "C" fn(c_int, c_long, c_long, *const T, *const T, *mut T);
type Reading<T> = unsafe extern "C" fn(c_int, c_long, *const T, *mut T);
type Sweep<T> = unsafe extern "C" fn(c_int, c_long, c_long, c_long, T, *const T, *const T, *mut T);
type Integrate<T> = unsafe extern "C" fn(c_int, c_long, T, *const T, *mut T, *mut T);
type Sparse<T> =
    unsafe extern "C" fn(c_int, c_long, c_long, *const u64, *const u32, *const T, *const T, *mut T);

/// `kernels.c`, in one precision.
pub struct Kernels<T> {
    ewmm: Elementwise<T>,
    ewmd: Elementwise<T>,
    vdp: Elementwise<T>,
    reading: Reading<T>,
    mvm: MatrixVector<T>,
    conv1d: MatrixVector<T>,
    js: Sweep<T>,
    smmm: Sparse<T>,
    integrate: Integrate<T>,
}

const SINGLE: Source = Source {
    name: "kernels.c",
    text: include_str!("../../peers/kernels.c"),
    compiler: "gcc",
    flags: &["-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-fPIC", "-shared"],
    libraries: &[],
};

const DOUBLE: Source = Source {
    flags: &["-DDOUBLE", "-O3", "-march=native", "-mprefer-vector-width=512", "-fopenmp", "-fPIC", "-shared"],
    ..SINGLE
};

/// Both precisions.
pub fn load(cache: &Path) -> Result<(Kernels<f32>, Kernels<f64>)> {
    // SAFETY: the elements of the functions are these with and without DOUBLE.
    unsafe { Ok((Kernels::load(&SINGLE, cache)?, Kernels::load(&DOUBLE, cache)?)) }
}

impl<T> Kernels<T> {
    pub fn ewmm(&self, threads: usize, a: &[T], b: &[T], c: &mut [T]) {
        elementwise(self.ewmm, threads, a, b, c);
    }

    pub fn ewmd(&self, threads: usize, a: &[T], b: &[T], c: &mut [T]) {
        elementwise(self.ewmd, threads, a, b, c);
    }

    pub fn vdp(&self, threads: usize, x: &[T], y: &[T], sum: &mut [T]) {
        assert!(x.len() == y.len() && !sum.is_empty());
        // SAFETY: both have as many elements, and `sum` has the one that is written.
        unsafe { (self.vdp)(int(threads), long(x.len()), x.as_ptr(), y.as_ptr(), sum.as_mut_ptr()) }
    }

    /// Reads all elements.
    pub fn read(&self, threads: usize, data: &[T], result: &mut T) {
        // SAFETY: that many elements, and the one that is written.
        unsafe { (self.reading)(int(threads), long(data.len()), data.as_ptr(), result) }
    }

    pub fn mvm(&self, threads: usize, a: &[T], x: &[T], y: &mut [T]) {
        let (m, n) = (y.len(), x.len());
        assert!(a.len() == m * n);
        // SAFETY: the matrix has `m` rows of `n` elements, the vectors have `n` and `m`.
        unsafe { (self.mvm)(int(threads), long(m), long(n), a.as_ptr(), x.as_ptr(), y.as_mut_ptr()) }
    }

    pub fn conv1d(&self, threads: usize, filter: &[T], signal: &[T], out: &mut [T]) {
        let (k, n) = (filter.len(), signal.len());
        assert!(k > 0 && out.len() + k == n + 1);
        // SAFETY: a filter of `k`, a signal of `n` and a result of `n - k + 1` elements.
        unsafe {
            (self.conv1d)(int(threads), long(k), long(n), filter.as_ptr(), signal.as_ptr(), out.as_mut_ptr());
        }
    }

    /// On a grid of `n` points along each axis.
    pub fn js(&self, threads: usize, n: usize, h2: T, from: &[T], f: &[T], to: &mut [T]) {
        assert!([from.len(), f.len(), to.len()] == [n * n * n; 3]);
        // SAFETY: three grids of this shape.
        unsafe {
            let (from, f, to) = (from.as_ptr(), f.as_ptr(), to.as_mut_ptr());
            (self.js)(int(threads), long(n), long(n), long(n), h2, from, f, to);
        }
    }

    /// Of a matrix of row pointers, columns and values, with one of rows of `n`.
    ///
    /// # Safety
    /// The row pointers do not decrease and lie in the elements, and the columns are rows of `b`.
    pub unsafe fn smmm(&self, threads: usize, n: usize, a: (&[u64], &[u32], &[T]), b: &[T], c: &mut [T]) {
        let (start, column, value) = a;
        let m = start.len() - 1;
        assert!(c.len() == m * n);
        let (start, column, value) = (start.as_ptr(), column.as_ptr(), value.as_ptr());
        // SAFETY: a result of `m` rows of `n`; the caller vouches for the rest.
        unsafe {
            (self.smmm)(int(threads), long(m), long(n), start, column, value, b.as_ptr(), c.as_mut_ptr())
        }
    }

    /// Three numbers for each body.
    pub fn integrate(&self, threads: usize, dt: T, acc: &[T], pos: &mut [T], vel: &mut [T]) {
        assert!(acc.len() == pos.len() && acc.len() == vel.len() && acc.len().is_multiple_of(3));
        let (n, pos, vel) = (long(acc.len() / 3), pos.as_mut_ptr(), vel.as_mut_ptr());
        // SAFETY: all three have `n` bodies.
        unsafe { (self.integrate)(int(threads), n, dt, acc.as_ptr(), pos, vel) }
    }

    /// # Safety
    /// The source's elements are `T`.
    unsafe fn load(source: &Source, cache: &Path) -> Result<Kernels<T>> {
        let library = source.load(cache)?;
        // SAFETY: the signatures are those of the functions in kernels.c, and `load` keeps the library for
        // ever.
        unsafe {
            Ok(Kernels {
                ewmm: *library.get(b"ewmm\0")?,
                ewmd: *library.get(b"ewmd\0")?,
                reading: *library.get(b"reading\0")?,
                vdp: *library.get(b"vdp\0")?,
                mvm: *library.get(b"mvm\0")?,
                conv1d: *library.get(b"conv1d\0")?,
                js: *library.get(b"js\0")?,
                smmm: *library.get(b"smmm\0")?,
                integrate: *library.get(b"integrate\0")?,
            })
        }
    }
}

fn elementwise<T>(f: Elementwise<T>, threads: usize, a: &[T], b: &[T], c: &mut [T]) {
    assert!(a.len() == c.len() && b.len() == c.len());
    // SAFETY: all three have as many elements.
    unsafe { f(int(threads), long(c.len()), a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) }
}

/// The number types, with what differs between them.
pub trait Real: Number + sprs::MulAcc + ndarray::LinalgScalar + faer::traits::ComplexField {
    const NAME: &'static str;
    /// Its product of matrices in a CBLAS.
    const GEMM: &'static [u8];
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const GEMM: &'static [u8] = b"cblas_sgemm\0";
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const GEMM: &'static [u8] = b"cblas_dgemm\0";
    fn of(value: f64) -> f64 {
        value
    }
}

/// Order, transpositions, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
type Gemm<T> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    T,
    *const T,
    c_int,
    *const T,
    c_int,
    T,
    *mut T,
    c_int,
);

/// OpenBLAS.
pub struct OpenBlas<T> {
    gemm: Gemm<T>,
    set_threads: unsafe extern "C" fn(c_int),
}

impl<T: Real> OpenBlas<T> {
    /// `None` if it is not there.
    pub fn load() -> Option<OpenBlas<T>> {
        // SAFETY: the loader's OpenBLAS; these are the types of its functions, and it is never unloaded.
        unsafe {
            let library: &'static Library = Box::leak(Box::new(Library::new("libopenblas.so.0").ok()?));
            let gemm = *library.get::<Gemm<T>>(T::GEMM).ok()?;
            Some(OpenBlas { gemm, set_threads: *library.get(b"openblas_set_num_threads\0").ok()? })
        }
    }

    /// The product of two matrices of `n` rows and columns.
    pub fn product(&self, threads: usize, n: usize, a: &[T], b: &[T], c: &mut [T]) {
        assert!([a.len(), b.len(), c.len()] == [n * n; 3]);
        let (n, a, b, c) = (int(n), a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        // SAFETY: three matrices of `n` rows of `n` elements, row by row, none transposed.
        unsafe {
            (self.set_threads)(int(threads));
            (self.gemm)(101, 111, 111, n, n, n, T::ONE, a, n, b, n, T::ZERO, c, n);
        }
    }
}
