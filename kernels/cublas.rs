//! cuBLAS, where that library is found at run time.
//!
//! Its matrices are stored column by column: it sees the transposed ones of what is stored row by row.

use crate::by_stream::{ByStream, stream_of};
use crate::simd::Number;
use cudarc::cublas::sys::{
    cublasCreate_v2, cublasDgemm_v2_64, cublasDiagType_t, cublasDscal_v2_64, cublasDsyrk_v2_64,
    cublasDtrsm_v2_64, cublasFillMode_t, cublasHandle_t, cublasOperation_t, cublasSetStream_v2,
    cublasSgemm_v2_64, cublasSideMode_t, cublasSscal_v2_64, cublasSsyrk_v2_64, cublasStatus_t,
    cublasStrsm_v2_64,
};
use cudarc::driver::sys::{CUresult, cuMemsetD8Async};
use flash_core::Code;
use flash_core::kernel::Failure;
use std::ptr::null_mut;

/// The library's state for one stream.
struct Handle(cublasHandle_t);

// SAFETY: a handle may be used from any thread, by one at a time: the holder of the lock of all.
unsafe impl Send for Handle {}

static HANDLES: ByStream<Handle> = ByStream::new();

/// A call's status as a result.
///
/// # Errors
/// Any status but success.
pub(crate) fn check(kernel: &str, call: &str, status: cublasStatus_t) -> Result<(), Failure> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => {
            Err(Failure::new(Code::OutOfMemory, format!("{kernel}: {call}: {status:?}")))
        }
        // For example, the library is newer than the driver.
        cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED => Err(Failure::new(
            Code::Kernel,
            format!(
                "{kernel}: {call}: {status:?}: this cuBLAS does not work with this driver: install one that does, or run without it, by `Implementation::named(..)` of another"
            ),
        )),
        _ => Err(Failure::new(Code::Kernel, format!("{kernel}: {call}: {status:?}"))),
    }
}

/// Calls `body` with the handle for a stream, which only it uses meanwhile.
///
/// # Errors
/// Those of the library, which makes the handle, and of `body`.
pub(crate) fn with_handle(
    kernel: &str,
    stream: u64,
    body: impl FnOnce(cublasHandle_t) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let make = || {
        let mut handle = null_mut();
        // SAFETY: the library is loaded (attribute `library`), the device's context is current, the variable
        // is local.
        check(kernel, "cublasCreate", unsafe { cublasCreate_v2(&mut handle) })?;
        // SAFETY: a handle of this context, and a stream of it.
        check(kernel, "cublasSetStream", unsafe { cublasSetStream_v2(handle, stream_of(stream).cast()) })?;
        Ok(Handle(handle))
    };
    HANDLES.with(stream, make, |handle| body(handle.0))
}

/// Puts zeros into a stream.
///
/// # Errors
/// Those of the driver.
///
/// # Safety
/// The stream is of the current context, and an array has that many bytes at the address, which are to be
/// written.
pub(crate) unsafe fn clear(kernel: &str, stream: u64, to: u64, bytes: u64) -> Result<(), Failure> {
    // SAFETY: the caller vouches.
    match unsafe { cuMemsetD8Async(to, 0, bytes as usize, stream_of(stream).cast()) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Failure::new(Code::Kernel, format!("{kernel}: cuMemsetD8Async: {status:?}"))),
    }
}

/// The rows of a matrix on a device.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The address of the first element.
    pub at: u64,
    pub rows: u64,
    pub columns: u64,
    /// Elements from row to row.
    pub leading: u64,
    /// Row i has just i + 1 elements.
    pub triangle: bool,
}

/// Multiplies all elements. With 0 they become 0, be they NaN.
///
/// # Errors
/// Those of the library and the driver.
///
/// # Safety
/// The stream is of the current context, and the matrix is to be written.
pub(crate) unsafe fn scale<T: Calls>(kernel: &str, stream: u64, matrix: Rows, by: T) -> Result<(), Failure> {
    if by == T::ONE || matrix.columns == 0 {
        return Ok(());
    }
    let element = size_of::<T>() as u64;
    (0..matrix.rows).try_for_each(|row| {
        let (at, len) = (
            matrix.at + row * matrix.leading * element,
            if matrix.triangle { row + 1 } else { matrix.columns },
        );
        if by == T::ZERO {
            // SAFETY: the caller vouches.
            return unsafe { clear(kernel, stream, at, len * element) };
        }
        with_handle(kernel, stream, |handle| {
            // SAFETY: as above.
            check(kernel, "cublasScal", unsafe { T::scal(handle, len as i64, &by, at as usize as *mut T, 1) })
        })
    })
}

/// The sizes in the type of cuBLAS and cuSOLVER.
///
/// # Errors
/// A size that they do not have.
pub(crate) fn sizes<const N: usize>(kernel: &str, sizes: [u64; N]) -> Result<[i64; N], Failure> {
    match sizes.iter().find(|size| i64::try_from(**size).is_err()) {
        None => Ok(sizes.map(|size| size as i64)),
        Some(size) => {
            let text =
                format!("{kernel}: expected sizes up to {}, the library's limit, found {size}", i64::MAX);
            Err(Failure::new(Code::Invalid, text))
        }
    }
}

/// True if an array of `len` elements has a matrix of `rows` and `columns`, `leading` elements from row to
/// row.
pub(crate) fn has(len: u64, [rows, columns]: [u64; 2], leading: u64) -> bool {
    // Saturating: a size that is too large is refused.
    let needed = (rows.max(1) - 1).saturating_mul(leading).saturating_add(columns);
    rows == 0 || columns == 0 || leading >= columns && needed <= len
}

/// The library's number for a factor.
pub(crate) fn operation(is_transposed: bool) -> cublasOperation_t {
    if is_transposed { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N }
}

macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*): $single:ident $double:ident;)*) => {
        /// The library's functions for a type of numbers.
        #[allow(clippy::too_many_arguments)] // the library's
        pub(crate) trait Calls: Number {$(
            /// # Safety
            /// As the library documents.
            unsafe fn $name(handle: cublasHandle_t $(, $argument: $type)*) -> cublasStatus_t;
        )*}

        calls! { @of f32 $($name($($argument: $type),*): $single;)* }
        calls! { @of f64 $($name($($argument: $type),*): $double;)* }
    };
    (@of $t:ident $($name:ident($($argument:ident: $type:ty),*): $function:ident;)*) => {
        impl Calls for $t {$(
            unsafe fn $name(handle: cublasHandle_t $(, $argument: $type)*) -> cublasStatus_t {
                // SAFETY: the caller vouches.
                unsafe { $function(handle $(, $argument)*) }
            }
        )*}
    };
}
calls! {
    gemm(
        of_a: cublasOperation_t, of_b: cublasOperation_t, m: i64, n: i64, k: i64, alpha: *const Self,
        a: *const Self, lda: i64, b: *const Self, ldb: i64, beta: *const Self, c: *mut Self, ldc: i64
    ): cublasSgemm_v2_64 cublasDgemm_v2_64;
    syrk(
        fill: cublasFillMode_t, of_a: cublasOperation_t, n: i64, k: i64, alpha: *const Self, a: *const Self,
        lda: i64, beta: *const Self, c: *mut Self, ldc: i64
    ): cublasSsyrk_v2_64 cublasDsyrk_v2_64;
    trsm(
        side: cublasSideMode_t, fill: cublasFillMode_t, of_a: cublasOperation_t, diagonal: cublasDiagType_t,
        m: i64, n: i64, alpha: *const Self, a: *const Self, lda: i64, b: *mut Self, ldb: i64
    ): cublasStrsm_v2_64 cublasDtrsm_v2_64;
    scal(n: i64, by: *const Self, x: *mut Self, apart: i64): cublasSscal_v2_64 cublasDscal_v2_64;
}
