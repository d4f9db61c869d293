//! Symmetric products by cuBLAS, where that library is found at run time.

use super::Syrk;
use crate::cublas::{Calls, Rows, check, has, operation, scale, sizes, with_handle};
use crate::stored::stored;
use cudarc::cublas::sys::cublasFillMode_t;
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::Failure;
use flash_core::kernel::{DeviceCall, DeviceFunction};

const KERNEL: &str = "flash.syrk";

/// The fastest implementation on NVIDIA's GPUs.
struct CuBlas;

#[kernel(for(f32, f64), name = "cublas", priority = 50, library = ["libcublas.so.13", "libcublas.so.12"])]
// SAFETY: the library reads the factor, and reads and writes `m` rows of `c` up to the diagonal, which the
// arrays have (checked before), by work in the stream that it is given.
unsafe impl<T: Calls> DeviceFunction<Syrk<'_, T>> for CuBlas {
    const TARGET: &'static str = "cuda";
    const PARTS: bool = true;

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let rows = call.dimensions()[0].clone();
        let [alpha, beta] = [call.scalar::<T>(0)?, call.scalar::<T>(1)?];
        let (k, is_turned) = (call.scalar::<u64>(2)?, call.scalar::<u32>(3)? != 0);
        let [lda, ldc] = [call.scalar::<u64>(4)?, call.scalar::<u64>(5)?];
        let (arrays, k) = (&call.args()[6..], if alpha == T::ZERO { 0 } else { k });
        let there = has(arrays[0].len, stored(is_turned, [rows.end, k]), lda);
        // A part of `c` may be some rows only, which are as far apart as the array's own.
        if !there || ldc != arrays[1].row_len || ldc < rows.end {
            let [a, c] = [0, 1].map(|array: usize| arrays[array].len);
            let text = format!(
                "{KERNEL}: expected a factor of {0} x {k} and rows of {0} elements in `c` with stored rows {lda} and {ldc} apart, found arrays of {a} and {c}",
                rows.end
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let (stream, to, element) = (call.native("stream")?, call.address(7)?, size_of::<T>() as u64);
        let from = if k == 0 { 0 } else { call.address(6)? };
        call.for_each_run(|first, m| {
            let first = first[0];
            // Element 0 of a part's array may be before all addresses.
            let to = to.wrapping_add(first * ldc * element);
            let square = to + first * element;
            if k == 0 {
                let before = Rows { at: to, rows: m, columns: first, leading: ldc, triangle: false };
                let matrix = Rows { at: square, columns: m, triangle: true, ..before };
                // SAFETY: the call's stream, and its elements of `c`.
                return unsafe {
                    scale(KERNEL, stream, before, beta)?;
                    scale(KERNEL, stream, matrix, beta)
                };
            }
            let of_rows = from + first * if is_turned { 1 } else { lda } * element;
            let [before, m, k, lda, ldc] = sizes(KERNEL, [first, m, k, lda, ldc])?;
            let [from, of_rows, to, square] = [from, of_rows, to, square].map(|at| at as usize);
            let (a, of_rows) = (from as *const T, of_rows as *const T);
            let (to, square) = (to as *mut T, square as *mut T);
            // The library sees the transposed factor, and the triangle above the diagonal.
            let [this, other] = [!is_turned, is_turned].map(operation);
            let upper = cublasFillMode_t::CUBLAS_FILL_MODE_UPPER;
            with_handle(KERNEL, stream, |handle| {
                // What a part has on the left of the square on the diagonal.
                if before > 0 {
                    // SAFETY: the matrices have the elements that are read and written; the scalars live for
                    // the call.
                    let status = unsafe {
                        T::gemm(
                            handle, this, other, before, m, k, &alpha, a, lda, of_rows, lda, &beta, to, ldc,
                        )
                    };
                    check(KERNEL, "cublasGemm", status)?;
                }
                // SAFETY: as above.
                let status =
                    unsafe { T::syrk(handle, upper, this, m, k, &alpha, of_rows, lda, &beta, square, ldc) };
                check(KERNEL, "cublasSyrk", status)
            })
        })
    }
}
