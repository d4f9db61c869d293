//! Triangular systems by cuBLAS, where that library is found at run time.

use super::Trsm;
use crate::cublas::{Calls, Rows, check, has, operation, scale, sizes, with_handle};
use cudarc::cublas::sys::{cublasDiagType_t, cublasFillMode_t, cublasSideMode_t};
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::Failure;
use flash_core::kernel::{DeviceCall, DeviceFunction};

const KERNEL: &str = "flash.trsm";

/// The fastest implementation on NVIDIA's GPUs.
struct CuBlas;

#[kernel(for(f32, f64), name = "cublas", priority = 50, library = ["libcublas.so.13", "libcublas.so.12"])]
// SAFETY: the library reads the triangle, and reads and writes the elements of the launch's items, which the
// arrays have (checked before), by work in the stream that it is given.
unsafe impl<T: Calls> DeviceFunction<Trsm<'_, T>> for CuBlas {
    const TARGET: &'static str = "cuda";
    const PARTS: bool = true;

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let alpha = call.scalar::<T>(0)?;
        let [n, width] = [call.scalar::<u64>(1)?, call.scalar::<u64>(2)?];
        let is = |argument| Ok::<_, Failure>(call.scalar::<u32>(argument)? != 0);
        let (on_right, is_turned, is_unit) = (is(3)?, is(4)?, is(5)?);
        let [ldl, ldb] = [call.scalar::<u64>(6)?, call.scalar::<u64>(7)?];
        let (l, b) = (&call.args()[8], &call.args()[9]);
        let there = match on_right {
            true => width == n && ldb >= n && ldb == b.row_len,
            false => has(b.row_len, [n, width], ldb),
        };
        if !there || alpha != T::ZERO && !has(l.len, [n, n], ldl) {
            let text = format!(
                "{KERNEL}: expected a triangle of {n} rows, {ldl} apart, and {} of {width} elements, {ldb} apart, found arrays of {} and {}",
                if on_right { "rows".to_owned() } else { format!("matrices of {n} rows") },
                l.len,
                b.len
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        // Arrays without elements have no address.
        if n == 0 || width == 0 || call.dimensions()[0].is_empty() {
            return Ok(());
        }
        let (stream, to) = (call.native("stream")?, call.address(9)?);
        let from = if alpha == T::ZERO { 0 } else { call.address(8)? };
        call.for_each_run(|first, items| {
            // On the right all items are one matrix; on the left each is one.
            let (matrices, rows) = if on_right { (1, items) } else { (items, n) };
            (0..matrices).try_for_each(|matrix| {
                // Element 0 of a part's array may be before all addresses.
                let to = to.wrapping_add((first[0] + matrix) * b.row_len * size_of::<T>() as u64);
                if alpha == T::ZERO {
                    let matrix = Rows { at: to, rows, columns: width, leading: ldb, triangle: false };
                    // SAFETY: the call's stream, and its elements of `b`.
                    return unsafe { scale(KERNEL, stream, matrix, alpha) };
                }
                let [rows, columns, ldl, ldb] = sizes(KERNEL, [rows, width, ldl, ldb])?;
                let (a, b) = (from as usize as *const T, to as usize as *mut T);
                // The library sees the transposed equation, and a triangle above the diagonal.
                let side = match on_right {
                    true => cublasSideMode_t::CUBLAS_SIDE_LEFT,
                    false => cublasSideMode_t::CUBLAS_SIDE_RIGHT,
                };
                let diagonal = match is_unit {
                    true => cublasDiagType_t::CUBLAS_DIAG_UNIT,
                    false => cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
                };
                let (upper, of_l) = (cublasFillMode_t::CUBLAS_FILL_MODE_UPPER, operation(is_turned));
                with_handle(KERNEL, stream, |handle| {
                    // SAFETY: the matrices have the elements that are read and written; the scalar lives for
                    // the call.
                    let status = unsafe {
                        T::trsm(handle, side, upper, of_l, diagonal, columns, rows, &alpha, a, ldl, b, ldb)
                    };
                    check(KERNEL, "cublasTrsm", status)
                })
            })
        })
    }
}
