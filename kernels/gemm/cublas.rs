//! Sums of products by cuBLAS, where that library is found at run time.

use super::Gemm;
use crate::cublas::{Calls, Rows, check, has, operation, scale, sizes, with_handle};
use crate::stored::stored;
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::Failure;
use flash_core::kernel::{DeviceCall, DeviceFunction};

const KERNEL: &str = "flash.gemm";

/// The fastest implementation on NVIDIA's GPUs.
struct CuBlas;

#[kernel(for(f32, f64), name = "cublas", priority = 50, library = ["libcublas.so.13", "libcublas.so.12"])]
// SAFETY: the library reads the factors, and reads and writes `m` rows of `c`, which the arrays have (checked
// before), by work in the stream that it is given.
unsafe impl<T: Calls> DeviceFunction<Gemm<'_, T>> for CuBlas {
    const TARGET: &'static str = "cuda";
    const PARTS: bool = true;

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let rows = call.dimensions()[0].clone();
        let [alpha, beta] = [call.scalar::<T>(0)?, call.scalar::<T>(1)?];
        let [n, k] = [call.scalar::<u64>(2)?, call.scalar::<u64>(3)?];
        let turned = [call.scalar::<u32>(4)? != 0, call.scalar::<u32>(5)? != 0];
        let [lda, ldb, ldc] = [call.scalar::<u64>(6)?, call.scalar::<u64>(7)?, call.scalar::<u64>(8)?];
        let (arrays, k) = (&call.args()[9..], if alpha == T::ZERO { 0 } else { k });
        let there = has(arrays[0].len, stored(turned[0], [rows.end, k]), lda)
            && has(arrays[1].len, stored(turned[1], [k, n]), ldb);
        // A part of `c` may be some rows only, which are as far apart as the array's own.
        if !there || ldc != arrays[2].row_len || ldc < n {
            let [a, b, c] = [0, 1, 2].map(|array: usize| arrays[array].len);
            let text = format!(
                "{KERNEL}: expected factors of {} x {k} and {k} x {n} and rows of {n} elements in `c` with stored rows {lda}, {ldb} and {ldc} apart, found arrays of {a}, {b} and {c}",
                rows.end
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        // Arrays without elements have no address.
        if rows.is_empty() || n == 0 {
            return Ok(());
        }
        let (stream, to, element) = (call.native("stream")?, call.address(11)?, size_of::<T>() as u64);
        let [left, right] = if k == 0 { [0; 2] } else { [call.address(9)?, call.address(10)?] };
        call.for_each_run(|first, m| {
            // Element 0 of a part's array may be before all addresses.
            let to = to.wrapping_add(first[0] * ldc * element);
            if k == 0 {
                let matrix = Rows { at: to, rows: m, columns: n, leading: ldc, triangle: false };
                // SAFETY: the call's stream, and its rows of `c`.
                return unsafe { scale(KERNEL, stream, matrix, beta) };
            }
            let left = left + first[0] * if turned[0] { 1 } else { lda } * element;
            let [m, n, k, lda, ldb, ldc] = sizes(KERNEL, [m, n, k, lda, ldb, ldc])?;
            let [of_a, of_b] = turned.map(operation);
            let [left, right, to] = [left, right, to].map(|at| at as usize);
            let (a, b, c) = (left as *const T, right as *const T, to as *mut T);
            // The transposed factors in the opposite order.
            with_handle(KERNEL, stream, |handle| {
                // SAFETY: the matrices have the elements that are read and written; the scalars live for the
                // call.
                let status =
                    unsafe { T::gemm(handle, of_b, of_a, n, m, k, &alpha, b, ldb, a, lda, &beta, c, ldc) };
                check(KERNEL, "cublasGemm", status)
            })
        })
    }
}
