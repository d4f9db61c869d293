//! CUDA's driver called by hand, as its experts would: what the peers on NVIDIA GPUs share.
//!
//! What is made here stays until the process ends.

use anyhow::{Context, Result, anyhow, bail, ensure};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice_attribute as Attribute, CUdeviceptr, CUfunction, CUresult, CUstream,
    CUstream_flags, cuCtxSetCurrent, cuDeviceGet, cuDeviceGetAttribute, cuDevicePrimaryCtxRetain, cuInit,
    cuLaunchKernel, cuMemAlloc_v2, cuModuleGetFunction, cuModuleLoadData, cuStreamCreate,
    cuStreamSynchronize,
};
use flash_backend_cuda::nvrtc::{Architecture, compile};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

/// A device and a stream.
pub struct Driver {
    context: CUcontext,
    pub stream: CUstream,
    architecture: Architecture,
    pub multiprocessors: u32,
}

// SAFETY: contexts and streams may be used from any thread.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// A kernel. Its module stays.
#[derive(Clone, Copy)]
pub struct Function(pub CUfunction);

// SAFETY: a function may be launched from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A call's outcome as a result that names the call.
pub fn call(name: &str, result: CUresult) -> Result<()> {
    ensure!(result == CUresult::CUDA_SUCCESS, "{name}: expected success, found {result:?}");
    Ok(())
}

impl Driver {
    /// On the device of a number. Its context is the one that the backend has, too, and is this thread's now.
    pub fn new(ordinal: i32) -> Result<Driver> {
        // SAFETY: the library is loaded and its constructors run, as for any use of CUDA.
        if !unsafe { sys::is_culib_present() } {
            bail!("expected NVIDIA's driver library libcuda.so.1, found none");
        }
        let (mut device, mut context, mut stream) = (0, null_mut(), null_mut());
        // SAFETY: variables of ours.
        unsafe {
            call("cuInit", cuInit(0))?;
            call("cuDeviceGet", cuDeviceGet(&mut device, ordinal))?;
            call("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&mut context, device))?;
            call("cuCtxSetCurrent", cuCtxSetCurrent(context))?;
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            call("cuStreamCreate", cuStreamCreate(&mut stream, flags))?;
        }
        let attribute = |attribute: Attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: a device of the driver's, and a variable of ours.
            call("cuDeviceGetAttribute", unsafe { cuDeviceGetAttribute(&mut value, attribute, device) })?;
            u32::try_from(value).context("an attribute is not negative")
        };
        let architecture = Architecture::of(
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let architecture = architecture.map_err(|failure| anyhow!(failure.text))?;
        let multiprocessors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(Driver { context, stream, architecture, multiprocessors })
    }

    /// Makes the context this thread's.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: a context that is never given back.
        call("cuCtxSetCurrent", unsafe { cuCtxSetCurrent(self.context) })
    }

    /// Compiles a kernel for the device. `file` is for messages.
    pub fn compile(&self, source: &str, file: &str, entry: &str, options: &str) -> Result<Function> {
        let compiled = compile("by hand", source, file, entry, options, self.architecture);
        let compiled = compiled.map_err(|failure| anyhow!(failure.text))?;
        let name = CString::new(compiled.entry)?;
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: variables of ours; the compiler's image, which ends with a NUL if it is a text; a C string.
        unsafe {
            call("cuModuleLoadData", cuModuleLoadData(&mut module, compiled.image.as_ptr().cast()))?;
            call("cuModuleGetFunction", cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
        }
        Ok(Function(function))
    }

    /// Memory of the device.
    pub fn allocate(&self, bytes: usize) -> Result<CUdeviceptr> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: a variable of ours.
        call("cuMemAlloc", unsafe { cuMemAlloc_v2(&mut address, bytes.max(1)) })?;
        Ok(address)
    }

    /// Launches a kernel with these numbers of blocks and of threads.
    ///
    /// # Safety
    /// The parameters are as many, and of the types, that the kernel has; what they point to on the device is
    /// there until the kernel has ended, and large enough.
    pub unsafe fn launch(
        &self,
        Function(function): Function,
        [gx, gy, gz]: [u32; 3],
        [bx, by, bz]: [u32; 3],
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        let to = parameters.as_mut_ptr();
        // SAFETY: the caller vouches; the driver reads the parameters in the call.
        let launched =
            unsafe { cuLaunchKernel(function, gx, gy, gz, bx, by, bz, 0, self.stream, to, null_mut()) };
        call("cuLaunchKernel", launched)
    }

    /// Waits for all that was put into the stream.
    pub fn finish(&self) -> Result<()> {
        // SAFETY: a stream that stays.
        call("cuStreamSynchronize", unsafe { cuStreamSynchronize(self.stream) })
    }
}
