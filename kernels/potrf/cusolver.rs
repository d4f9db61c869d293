//! Cholesky factorisations by cuSOLVER, where that library is found at run time.
//!
//! cudarc binds it too, but only together with cuSPARSE and cuBLASLt: thousands of functions, compiled into
//! every program, for the five that are used here.

use super::{KERNEL, Potrf};
use crate::by_stream::{ByStream, stream_of};
use crate::cublas::{has, sizes};
use crate::simd::Number;
use cudarc::driver::sys::{
    CUdeviceptr, CUfunction, CUresult, cuLaunchKernel, cuMemAllocAsync, cuMemFreeAsync, cuModuleGetFunction,
    cuModuleLoadData, cuStreamSynchronize,
};
use flash_core::Code;
use flash_core::kernel;
use flash_core::kernel::{DeviceCall, DeviceFunction, Failure, keep_float_state};
use libloading::Library;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Its names for the loader, of CUDA 13 and 12; the `#[kernel]` has them, too.
const LIBRARIES: [&str; 2] = ["libcusolver.so.12", "libcusolver.so.11"];

/// The triangle above the diagonal, which the library sees: its matrices are stored column by column.
const UPPER: c_int = 1;

/// A state of the library, of a type that only it knows.
type Opaque = *mut c_void;

/// The library's functions, which return a status.
struct Functions {
    /// `cusolverDnCreate`: the new handle.
    create: unsafe extern "C" fn(*mut Opaque) -> c_int,
    /// `cusolverDnCreateParams`: the new parameters.
    create_parameters: unsafe extern "C" fn(*mut Opaque) -> c_int,
    /// `cusolverDnSetStream`: handle, stream.
    set_stream: unsafe extern "C" fn(Opaque, *mut c_void) -> c_int,
    /// `cusolverDnXpotrf_bufferSize`: handle, parameters, triangle, n, type, a, lda, type of the computation,
    /// bytes on the device, bytes on the host.
    buffer_size: unsafe extern "C" fn(
        Opaque,
        Opaque,
        c_int,
        i64,
        c_int,
        *const c_void,
        i64,
        c_int,
        *mut usize,
        *mut usize,
    ) -> c_int,
    /// `cusolverDnXpotrf`: the same up to the type of the computation; memory on the device and its bytes,
    /// memory on the host and its bytes, info.
    potrf: unsafe extern "C" fn(
        Opaque,
        Opaque,
        c_int,
        i64,
        c_int,
        *mut c_void,
        i64,
        c_int,
        *mut c_void,
        usize,
        *mut c_void,
        usize,
        *mut c_int,
    ) -> c_int,
}

impl Functions {
    /// Loaded once.
    ///
    /// # Errors
    /// If the library lacks one.
    fn get() -> Result<&'static Functions, Failure> {
        static LOADED: OnceLock<Option<Functions>> = OnceLock::new();
        let load = || {
            // SAFETY: any program may load the library; these are the types of its functions, and it is never
            // unloaded.
            unsafe {
                let open = |name| keep_float_state(|| Library::new(name)).ok();
                let library: &'static Library = Box::leak(Box::new(LIBRARIES.into_iter().find_map(open)?));
                Some(Functions {
                    create: *library.get(b"cusolverDnCreate\0").ok()?,
                    create_parameters: *library.get(b"cusolverDnCreateParams\0").ok()?,
                    set_stream: *library.get(b"cusolverDnSetStream\0").ok()?,
                    buffer_size: *library.get(b"cusolverDnXpotrf_bufferSize\0").ok()?,
                    potrf: *library.get(b"cusolverDnXpotrf\0").ok()?,
                })
            }
        };
        LOADED.get_or_init(load).as_ref().ok_or_else(|| {
            let text = format!(
                "{KERNEL}: expected cusolverDnXpotrf and the functions that it needs in {}, and found not all of them: install the cuSOLVER of CUDA 12 or 13, or name another implementation",
                LIBRARIES.join(" or ")
            );
            Failure::new(Code::Kernel, text)
        })
    }
}

/// A status as a result: 0 is success.
fn check(call: &str, status: c_int) -> Result<(), Failure> {
    let (code, name) = match status {
        0 => return Ok(()),
        // For example, the library is newer than the driver.
        1 => (
            Code::Kernel,
            "CUSOLVER_STATUS_NOT_INITIALIZED: this cuSOLVER does not work with this driver: install one that does, or run without it, by `Implementation::named(..)` of another",
        ),
        2 => (Code::OutOfMemory, "CUSOLVER_STATUS_ALLOC_FAILED"),
        3 => (Code::Kernel, "CUSOLVER_STATUS_INVALID_VALUE"),
        4 => (Code::Kernel, "CUSOLVER_STATUS_ARCH_MISMATCH"),
        6 => (Code::Kernel, "CUSOLVER_STATUS_EXECUTION_FAILED"),
        7 => (Code::Kernel, "CUSOLVER_STATUS_INTERNAL_ERROR"),
        _ => (Code::Kernel, "see cusolverStatus_t"),
    };
    Err(Failure::new(code, format!("{KERNEL}: {call}: status {status}, {name}")))
}

/// A result of the driver.
fn driver(call: &str, status: CUresult) -> Result<(), Failure> {
    let code = match status {
        CUresult::CUDA_SUCCESS => return Ok(()),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Code::OutOfMemory,
        _ => Code::Kernel,
    };
    Err(Failure::new(code, format!("{KERNEL}: {call}: {status:?}")))
}

/// The kernels that show on the diagonal what the library says in `info`, for each type of numbers, with a
/// NUL. A PTX for the oldest GPUs is translated for all later ones.
const SHOW: &str = concat!(include_str!("show.ptx"), "\0");

/// The number of its kernel, and the library's number, for a type of numbers.
fn of<T: Number>() -> (usize, c_int) {
    // CUDA_R_32F and CUDA_R_64F.
    match size_of::<T>() {
        4 => (0, 0),
        _ => (1, 1),
    }
}

/// Bytes before the library's memory on the device, for `info`: memory for any type begins after them.
const INFO_BYTES: usize = 256;

/// The library's state for a stream.
struct Solver {
    functions: &'static Functions,
    handle: Opaque,
    parameters: Opaque,
    /// The kernels of [`SHOW`].
    show: [CUfunction; 2],
    /// `info`, and then the library's memory: used in the order of the stream.
    device: CUdeviceptr,
    device_bytes: usize,
    /// Aligned for any type.
    host: Vec<u128>,
}

// SAFETY: its handles may be used from any thread, by one at a time: the holder of the lock of all.
unsafe impl Send for Solver {}

static SOLVERS: ByStream<Solver> = ByStream::new();

impl Solver {
    /// Of the current context, which has the stream.
    fn new(stream: u64) -> Result<Solver, Failure> {
        let functions = Functions::get()?;
        let [mut handle, mut parameters] = [null_mut(); 2];
        // SAFETY: the variables are local, the stream is of the context.
        unsafe {
            check("cusolverDnCreate", (functions.create)(&mut handle))?;
            check("cusolverDnSetStream", (functions.set_stream)(handle, stream_of(stream)))?;
            check("cusolverDnCreateParams", (functions.create_parameters)(&mut parameters))?;
        }
        let (mut module, mut show) = (null_mut(), [null_mut(); 2]);
        // SAFETY: a local variable, and PTX with a NUL.
        driver("cuModuleLoadData", unsafe { cuModuleLoadData(&mut module, SHOW.as_ptr().cast()) })?;
        for (to, name) in show.iter_mut().zip([c"show_f32", c"show_f64"]) {
            let name: &CStr = name;
            // SAFETY: a local variable, and the module, which is never unloaded.
            driver("cuModuleGetFunction", unsafe { cuModuleGetFunction(to, module, name.as_ptr()) })?;
        }
        Ok(Solver { functions, handle, parameters, show, device: 0, device_bytes: 0, host: Vec::new() })
    }

    /// Makes room for the library.
    fn grow(&mut self, stream: u64, device: usize, host: usize) -> Result<(), Failure> {
        let stream = stream_of(stream).cast();
        let words = host.div_ceil(size_of::<u128>());
        if words > self.host.len() {
            // SAFETY: a stream of the current context. The calls before may still use the memory.
            driver("cuStreamSynchronize", unsafe { cuStreamSynchronize(stream) })?;
            self.host = vec![0; words];
        }
        let bytes = device.saturating_add(INFO_BYTES);
        if bytes > self.device_bytes {
            let before = std::mem::take(&mut self.device);
            self.device_bytes = 0;
            if before != 0 {
                // SAFETY: allocated here; nothing that comes later in the stream uses it.
                driver("cuMemFreeAsync", unsafe { cuMemFreeAsync(before, stream) })?;
            }
            // SAFETY: a variable of this struct, and a stream of the current context.
            driver("cuMemAllocAsync", unsafe { cuMemAllocAsync(&mut self.device, bytes, stream) })?;
            self.device_bytes = bytes;
        }
        Ok(())
    }

    /// Puts a factorisation into the stream.
    ///
    /// # Safety
    /// The stream is of the current context and this state's. At the address lies a matrix of `n` rows, at
    /// least 1, `lda` elements apart, whose lower triangle is to be written.
    unsafe fn factorise<T: Number>(
        &mut self,
        stream: u64,
        at: u64,
        [n, lda]: [i64; 2],
    ) -> Result<(), Failure> {
        let (which, number) = of::<T>();
        let (handle, parameters) = (self.handle, self.parameters);
        let matrix = std::ptr::with_exposed_provenance_mut::<c_void>(at as usize);
        let [mut device, mut host] = [0; 2];
        // SAFETY: the state's own handles, the caller's matrix, which is not touched, and local variables.
        check("cusolverDnXpotrf_bufferSize", unsafe {
            (self.functions.buffer_size)(
                handle,
                parameters,
                UPPER,
                n,
                number,
                matrix,
                lda,
                number,
                &mut device,
                &mut host,
            )
        })?;
        self.grow(stream, device, host)?;
        let pointer = |at: u64| std::ptr::with_exposed_provenance_mut::<c_void>(at as usize);
        let (info, room) = (self.device, pointer(self.device + INFO_BYTES as u64));
        let own = self.host.as_mut_ptr().cast();
        // SAFETY: as above, with memory as large as the library wants it, which lives as long as the stream
        // uses it, and 4 bytes for info.
        check("cusolverDnXpotrf", unsafe {
            (self.functions.potrf)(
                handle,
                parameters,
                UPPER,
                n,
                number,
                matrix,
                lda,
                number,
                room,
                device,
                own,
                host,
                pointer(info).cast(),
            )
        })?;
        let mut words = [info, at, (lda as u64 + 1).wrapping_mul(size_of::<T>() as u64)];
        let mut to = words.each_mut().map(|word| std::ptr::from_mut(word).cast::<c_void>());
        let stream = stream_of(stream).cast();
        // SAFETY: a kernel of this context and its three parameters, which are read before the call returns.
        // It reads `info`, and an element of the diagonal, whose row the library has counted.
        driver("cuLaunchKernel", unsafe {
            cuLaunchKernel(self.show[which], 1, 1, 1, 1, 1, 1, 0, stream, to.as_mut_ptr(), null_mut())
        })
    }
}

/// The fastest implementation on NVIDIA's GPUs.
struct CuSolver;

#[kernel(for(f32, f64), name = "cusolver", priority = 50, library = ["libcusolver.so.12", "libcusolver.so.11"])]
// SAFETY: the library reads and writes the lower triangles of the launch's items, which the array has
// (checked before), by work in the stream that it is given; so does the kernel after it with an element of
// the diagonal.
unsafe impl<T: Number> DeviceFunction<Potrf<'_, T>> for CuSolver {
    const TARGET: &'static str = "cuda";
    const PARTS: bool = true;

    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure> {
        let ([n, lda], a) = ([call.scalar::<u64>(0)?, call.scalar::<u64>(1)?], &call.args()[2]);
        if !has(a.row_len, [n, n], lda) {
            let text = format!(
                "{KERNEL}: expected a matrix of {n} rows, {lda} elements apart, found {} elements for each",
                a.row_len
            );
            return Err(Failure::new(Code::Invalid, text));
        }
        // Arrays without elements have no address.
        if n == 0 || call.dimensions()[0].is_empty() {
            return Ok(());
        }
        let (stream, first) = (call.native("stream")?, call.address(2)?);
        // Of a single row the distance may be anything, and the library takes just some.
        let size = sizes(KERNEL, [n, if n == 1 { 1 } else { lda }])?;
        call.for_each_run(|index, matrices| {
            (index[0]..index[0] + matrices).try_for_each(|matrix| {
                // Element 0 of a part's array may be before all addresses.
                let at = first.wrapping_add(matrix * a.row_len * size_of::<T>() as u64);
                // SAFETY: the call's stream, of the current context, and a matrix of its items.
                let work = |solver: &mut Solver| unsafe { solver.factorise::<T>(stream, at, size) };
                SOLVERS.with(stream, || Solver::new(stream), work)
            })
        })
    }
}
