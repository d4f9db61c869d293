//! The product by cuBLAS, where that library is found at run time.

use super::product::Sizes;
use super::{Mmm, bf16};
use crate::simd::Factor;
use cudarc::cublas::sys::{
    cublasComputeType_t, cublasCreate_v2, cublasDgemm_v2_64, cublasGemmAlgo_t, cublasGemmEx_64,
    cublasHandle_t, cublasOperation_t, cublasSetStream_v2, cublasSgemm_v2_64, cublasStatus_t, cudaDataType,
};
use cudarc::driver::sys::{CUresult, cuMemsetD8Async};
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::{DeviceCall, DeviceFunction, Failure};
use std::any::TypeId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

/// The fastest implementation on NVIDIA's GPUs.
struct CuBlas;

/// The library's state for one stream.
struct Handle(cublasHandle_t);

// SAFETY: a handle may be used from any thread, by one at a time: the holder of the lock of all.
unsafe impl Send for Handle {}

/// By stream. They are never destroyed: streams live for ever.
static HANDLES: Mutex<Option<HashMap<u64, Handle>>> = Mutex::new(None);

fn check(call: &str, status: cublasStatus_t) -> Result<(), Failure> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED => {
            Err(Failure::new(Code::OutOfMemory, format!("flash.mmm: {call}: {status:?}")))
        }
        // For example, the library is newer than the driver.
        cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED => Err(Failure::new(
            Code::Kernel,
            format!(
                "flash.mmm: {call}: {status:?}: this cuBLAS does not work with this driver: install one that does, or run without it, by `Implementation::named(\"mmm.cu\")`"
            ),
        )),
        _ => Err(Failure::new(Code::Kernel, format!("flash.mmm: {call}: {status:?}"))),
    }
}

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
        // Saturating: a size that is too large is refused.
        let needs = |rows: u64, columns: u64, leading: u64| {
            (rows.max(1) - 1).saturating_mul(leading).saturating_add(columns)
        };
        // A part of `a` or `c` may be some rows only, which are as far apart as the arrays' own.
        let own = lda == call.args()[5].row_len && ldc == call.args()[7].row_len;
        let there = lda >= k && ldb >= n && ldc == n;
        if !own
            || !there
            || needs(rows.end, k, lda) > a
            || needs(k, n, ldb) > b
            || needs(rows.end, n, ldc) > c
        {
            let text = format!(
                "flash.mmm: expected matrices of {} x {k}, {k} x {n} and {} x {n} elements with rows {lda}, {ldb} and {ldc} apart, found arrays of {a}, {b} and {c}",
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
                return clear(stream, to, m * n * of_c);
            }
            let sizes = Sizes { m, n, k, lda, ldb, ldc }.to().map_err(|size| {
                let text =
                    format!("flash.mmm: expected sizes up to {}, cuBLAS's limit, found {size}", i64::MAX);
                Failure::new(Code::Invalid, text)
            })?;
            multiply::<T>(stream, sizes, [left, right, to])
        })
    }
}

fn stream_of(handle: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle as usize)
}

/// Puts zeros into a stream: empty sums.
fn clear(stream: u64, to: u64, bytes: u64) -> Result<(), Failure> {
    // SAFETY: the stream is of the current context, and the result has that many bytes at the address.
    match unsafe { cuMemsetD8Async(to, 0, bytes as usize, stream_of(stream).cast()) } {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Failure::new(Code::Kernel, format!("flash.mmm: cuMemsetD8Async: {status:?}"))),
    }
}

/// Puts a product into a stream: the matrices' sizes and leading dimensions, and their addresses on the
/// device.
fn multiply<T: Factor>(
    stream: u64,
    Sizes { m, n, k, lda, ldb, ldc }: Sizes<i64>,
    [left, right, to]: [u64; 3],
) -> Result<(), Failure> {
    let mut handles = HANDLES.lock().unwrap_or_else(|e| e.into_inner());
    let handles = handles.get_or_insert_default();
    let handle = match handles.entry(stream) {
        Entry::Occupied(known) => known.get().0,
        Entry::Vacant(free) => {
            let mut handle = null_mut();
            // SAFETY: the library is loaded (attribute `library`), the device's context is current, the
            // variable is local.
            check("cublasCreate", unsafe { cublasCreate_v2(&mut handle) })?;
            // SAFETY: a handle of this context, and a stream of it.
            check("cublasSetStream", unsafe { cublasSetStream_v2(handle, stream_of(stream).cast()) })?;
            free.insert(Handle(handle)).0
        }
    };
    let plain = cublasOperation_t::CUBLAS_OP_N;
    let [left, right, to] = [left, right, to].map(|at| at as usize);
    // The library's matrices are stored column by column: it sees the transposed ones, and multiplies them in
    // the opposite order. SAFETY: the matrices have the elements that are read and written; the scalars live
    // for the call.
    let status = unsafe {
        if TypeId::of::<T>() == TypeId::of::<f32>() {
            let (a, b, c) = (right as *const f32, left as *const f32, to as *mut f32);
            cublasSgemm_v2_64(handle, plain, plain, n, m, k, &1.0, a, ldb, b, lda, &0.0, c, ldc)
        } else if TypeId::of::<T>() == TypeId::of::<bf16>() {
            let (factor, sum) = (cudaDataType::CUDA_R_16BF, cudaDataType::CUDA_R_32F);
            let (a, b, c) = (right as *const c_void, left as *const c_void, to as *mut c_void);
            let [one, zero] = [&1.0f32, &0.0f32].map(|scalar| std::ptr::from_ref(scalar).cast::<c_void>());
            let (by, any) = (cublasComputeType_t::CUBLAS_COMPUTE_32F, cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT);
            cublasGemmEx_64(
                handle, plain, plain, n, m, k, one, a, factor, ldb, b, factor, lda, zero, c, sum, ldc, by,
                any,
            )
        } else {
            let (a, b, c) = (right as *const f64, left as *const f64, to as *mut f64);
            cublasDgemm_v2_64(handle, plain, plain, n, m, k, &1.0, a, ldb, b, lda, &0.0, c, ldc)
        }
    };
    check("cublasGemm", status)
}
