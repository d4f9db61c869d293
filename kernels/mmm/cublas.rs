//! The product by cuBLAS, where that library is found at run time.

use super::product::Sizes;
use super::{Mmm, bf16};
use crate::cublas::{check, clear, has, operation, with_handle};
use crate::simd::Factor;
use cudarc::cublas::sys::{
    cublasComputeType_t, cublasDgemm_v2_64, cublasGemmAlgo_t, cublasGemmEx_64, cublasSgemm_v2_64,
    cudaDataType,
};
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::{DeviceCall, DeviceFunction, Failure};
use std::any::TypeId;
use std::ffi::c_void;

const KERNEL: &str = "flash.mmm";

/// The fastest implementation on NVIDIA's GPUs.
struct CuBlas;

#[kernel(
    for(f32, f64, bf16), name = "cublas", priority = 50, library = ["libcublas.so.13", "libcublas.so.12"]
)]
// SAFETY: the library reads `m` rows of `a` and `k` of `b`, and writes `m` of `c`, which the arrays have
// (checked before), by work in the stream that it is given.
unsafe impl<T: Factor> DeviceFunction<Mmm<'_, T>> for CuBlas {
    const TARGET: &'static str = "cuda";
    const PARTS: bool = true;

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let rows = call.dimensions()[0].clone();
        let mut sizes = [0; 5];
        for (argument, size) in sizes.iter_mut().enumerate() {
            *size = call.scalar::<u64>(argument)?;
        }
        let [n, k, lda, ldb, ldc] = sizes;
        let [a, b, c] = [5, 6, 7].map(|argument| call.args()[argument].len);
        // A part of `a` or `c` may be some rows only, which are as far apart as the arrays' own.
        let own = lda == call.args()[5].row_len && ldc == call.args()[7].row_len;
        let there = lda >= k && ldb >= n && ldc == n;
        if !own
            || !there
            || !has(a, [rows.end, k], lda)
            || !has(b, [k, n], ldb)
            || !has(c, [rows.end, n], ldc)
        {
            let text = format!(
                "{KERNEL}: expected matrices of {} x {k}, {k} x {n} and {} x {n} elements with rows {lda}, {ldb} and {ldc} apart, found arrays of {a}, {b} and {c}",
                rows.end, rows.end
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        let [of_a, of_c] = [size_of::<T>() as u64, size_of::<T::Sum>() as u64];
        // Arrays without elements have no address.
        if rows.is_empty() || n == 0 {
            return Ok(());
        }
        let (stream, to) = (call.native("stream")?, call.address(7)?);
        let [left, right] = if k == 0 { [0; 2] } else { [call.address(5)?, call.address(6)?] };
        call.for_each_run(|first, m| {
            // Element 0 of a part's array may be before all addresses.
            let left = left.wrapping_add(first[0] * lda * of_a);
            let to = to.wrapping_add(first[0] * ldc * of_c);
            if k == 0 {
                // SAFETY: the call's stream, and its rows of `c`, which have no other elements.
                return unsafe { clear(KERNEL, stream, to, m * n * of_c) };
            }
            let sizes = Sizes { m, n, k, lda, ldb, ldc }.to().map_err(|size| {
                let text =
                    format!("{KERNEL}: expected sizes up to {}, cuBLAS's limit, found {size}", i64::MAX);
                Failure::new(Code::Invalid, text)
            })?;
            multiply::<T>(stream, sizes, [left, right, to])
        })
    }
}

/// Puts a product into a stream: the matrices' sizes and leading dimensions, and their addresses on the
/// device.
fn multiply<T: Factor>(
    stream: u64,
    Sizes { m, n, k, lda, ldb, ldc }: Sizes<i64>,
    [left, right, to]: [u64; 3],
) -> Result<(), Failure> {
    let plain = operation(false);
    let [left, right, to] = [left, right, to].map(|at| at as usize);
    with_handle(KERNEL, stream, |handle| {
        // The transposed factors in the opposite order. SAFETY: the matrices have the elements that are read
        // and written; the scalars live for the call.
        let status = unsafe {
            if TypeId::of::<T>() == TypeId::of::<f32>() {
                let (a, b, c) = (right as *const f32, left as *const f32, to as *mut f32);
                cublasSgemm_v2_64(handle, plain, plain, n, m, k, &1.0, a, ldb, b, lda, &0.0, c, ldc)
            } else if TypeId::of::<T>() == TypeId::of::<bf16>() {
                let (factor, sum) = (cudaDataType::CUDA_R_16BF, cudaDataType::CUDA_R_32F);
                let (a, b, c) = (right as *const c_void, left as *const c_void, to as *mut c_void);
                let [one, zero] =
                    [&1.0f32, &0.0f32].map(|scalar| std::ptr::from_ref(scalar).cast::<c_void>());
                let (by, any) =
                    (cublasComputeType_t::CUBLAS_COMPUTE_32F, cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT);
                cublasGemmEx_64(
                    handle, plain, plain, n, m, k, one, a, factor, ldb, b, factor, lda, zero, c, sum, ldc,
                    by, any,
                )
            } else {
                let (a, b, c) = (right as *const f64, left as *const f64, to as *mut f64);
                cublasDgemm_v2_64(handle, plain, plain, n, m, k, &1.0, a, ldb, b, lda, &0.0, c, ldc)
            }
        };
        check(KERNEL, "cublasGemm", status)
    })
}
