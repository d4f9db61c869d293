//! Tests of the driver through its own functions. A test that ruins a device has one of its own.

mod faults;
mod graphs;
mod instructions;
mod modules;
mod streams;
mod threads;

use super::context::*;
use super::copy::*;
use super::device::*;
use super::launch::*;
use super::memory::*;
use super::module::*;
use super::stream::*;
use super::{In, Out};
use cudarc::driver::sys::{CUfunction, CUmodule, CUresult, CUstream, CUstream_flags};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

/// Calls a function of the driver.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: pointers are to variables that live during the call, with the sizes that are passed; memory
        // that copies and kernels use lives until the stream was waited for.
        unsafe { $function($($argument),*) }
    };
}
use call;

/// The same; it must succeed.
macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(call!($function($($argument),*)), CUresult::CUDA_SUCCESS, stringify!($function))
    };
}
use ok;

/// A device whose context is current on this thread.
struct Device {
    stream: CUstream,
}

impl Device {
    /// Tests that ruin a device take a number above 0 of their own.
    fn new(ordinal: i32) -> Device {
        ok!(cuInit(0));
        let (mut context, mut stream) = (null_mut(), null_mut());
        ok!(cuDevicePrimaryCtxRetain(Out(&mut context), ordinal));
        ok!(cuCtxSetCurrent(context));
        ok!(cuStreamCreate(Out(&mut stream), CUstream_flags::CU_STREAM_NON_BLOCKING as u32));
        Device { stream }
    }

    fn load(&self, ptx: &str) -> CUmodule {
        let (mut module, text) = (null_mut(), CString::new(ptx).unwrap());
        ok!(cuModuleLoadData(Out(&mut module), text.as_ptr().cast()));
        module
    }

    fn function(&self, ptx: &str, name: &str) -> CUfunction {
        let (module, mut function, name) = (self.load(ptx), null_mut(), CString::new(name).unwrap());
        ok!(cuModuleGetFunction(Out(&mut function), module, In(name.as_ptr())));
        function
    }

    fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok!(cuMemAlloc_v2(Out(&mut address), bytes));
        address
    }

    fn upload<T: Copy>(&self, values: &[T]) -> u64 {
        let address = self.allocate(size_of_val(values));
        ok!(cuMemcpyHtoD_v2(address, values.as_ptr().cast(), size_of_val(values)));
        address
    }

    fn download<T: Copy + Default>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        ok!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, size_of_val(&values[..])));
        values
    }

    /// Launches with parameters of eight bytes.
    fn launch(&self, function: CUfunction, grid: u32, block: u32, parameters: &[u64]) -> CUresult {
        let mut pointers: Vec<*mut c_void> =
            parameters.iter().map(|parameter| std::ptr::from_ref(parameter).cast_mut().cast()).collect();
        call!(cuLaunchKernel(
            function,
            grid,
            1,
            1,
            block,
            1,
            1,
            0,
            self.stream,
            pointers.as_mut_ptr(),
            null_mut()
        ))
    }

    fn wait(&self) -> CUresult {
        call!(cuStreamSynchronize(self.stream))
    }

    /// Runs a kernel to its end.
    fn run(&self, function: CUfunction, grid: u32, block: u32, parameters: &[u64]) {
        assert_eq!(self.launch(function, grid, block, parameters), CUresult::CUDA_SUCCESS);
        assert_eq!(self.wait(), CUresult::CUDA_SUCCESS);
    }
}

/// A module with one kernel `k` of parameters of eight bytes, `p0` and so on. It declares registers of all
/// types, `%p0` to `%p9`, and so `%s` of 16 bits, `%r` of 32, `%d` of 64, `%f` and `%g` for floats of 32 and
/// 64 bits.
fn kernel(parameters: usize, body: &str) -> String {
    let parameters: Vec<String> = (0..parameters).map(|number| format!(".param .u64 p{number}")).collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({})\n{{\n.reg .pred %p<10>;\n.reg .b16 %s<10>;\n\
         .reg .b32 %r<10>;\n.reg .b64 %d<10>;\n.reg .f32 %f<10>;\n.reg .f64 %g<10>;\n{body}\nret;\n}}\n",
        parameters.join(", ")
    )
}
