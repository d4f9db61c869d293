//! CUDA's driver called by hand, as its experts would: the peer of the rows in `gpu`.
//!
//! What is made here stays until the process ends.

use anyhow::{Context, Result, anyhow, bail, ensure};
use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice_attribute as Attribute, CUdeviceptr, CUfunction,
    CUgraphExec, CUgraphNode, CUresult, CUstream, CUstream_flags, cuCtxSetCurrent, cuDeviceGet,
    cuDeviceGetAttribute, cuDevicePrimaryCtxRetain, cuGraphAddKernelNode_v2, cuGraphCreate,
    cuGraphInstantiateWithFlags, cuGraphLaunch, cuInit, cuLaunchKernel, cuMemAlloc_v2, cuMemHostAlloc,
    cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuModuleGetFunction, cuModuleLoadData, cuStreamCreate,
    cuStreamSynchronize,
};
use flash_backend_cuda::nvrtc::{Architecture, compile};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A device, in a stream of its own.
pub struct ByHand {
    context: CUcontext,
    stream: CUstream,
    /// `touch` of `empty.cu`.
    function: CUfunction,
    arrays: [CUdeviceptr; 3],
}

/// A chain of launches, ready to be launched at once.
pub struct Chain(CUgraphExec);

/// Pinned memory of the host's and as much of the device's.
pub struct Buffers {
    host: *mut c_void,
    device: CUdeviceptr,
    bytes: usize,
}

/// A call's outcome as a result that names the call.
fn call(name: &str, result: CUresult) -> Result<()> {
    ensure!(result == CUresult::CUDA_SUCCESS, "{name}: expected success, found {result:?}");
    Ok(())
}

impl ByHand {
    /// On the device of a number.
    pub fn new(ordinal: i32) -> Result<ByHand> {
        // SAFETY: the library is loaded and its constructors run, as for any use of CUDA.
        if !unsafe { sys::is_culib_present() } {
            bail!("expected NVIDIA's driver library libcuda.so.1, found none");
        }
        let (mut device, mut context, mut stream) = (0, null_mut(), null_mut());
        // SAFETY: variables of ours. The context is the one that the backend has, too.
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
        let source = include_str!("../empty.cu");
        let compiled = architecture
            .and_then(|architecture| compile("by hand", source, "empty.cu", "touch", "", architecture))
            .map_err(|failure| anyhow!(failure.text))?;
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: variables of ours; the compiler's image, which ends with a NUL if it is a text.
        unsafe {
            call("cuModuleLoadData", cuModuleLoadData(&mut module, compiled.image.as_ptr().cast()))?;
            call("cuModuleGetFunction", cuModuleGetFunction(&mut function, module, c"touch".as_ptr()))?;
        }
        let array = || device_memory(size_of::<f32>());
        Ok(ByHand { context, stream, function, arrays: [array()?, array()?, array()?] })
    }

    /// Launches the kernel. Panics if the driver refuses.
    pub fn launch(&self) {
        let mut value = 1.0f32;
        let mut parameters = self.parameters(&mut value);
        // SAFETY: the four parameters of the kernel, which are read in the call; its arrays stay.
        let launched = unsafe {
            let to = parameters.as_mut_ptr();
            cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, self.stream, to, null_mut())
        };
        call("cuLaunchKernel", launched).expect("an empty kernel runs");
    }

    /// Waits for all that was launched and copied.
    pub fn finish(&self) {
        // SAFETY: a stream that stays.
        call("cuStreamSynchronize", unsafe { cuStreamSynchronize(self.stream) }).expect("it ends");
    }

    /// So many launches, one after the other.
    pub fn chain(&self, launches: usize) -> Result<Chain> {
        let mut value = 1.0f32;
        let mut parameters = self.parameters(&mut value);
        let node_of = CUDA_KERNEL_NODE_PARAMS {
            func: self.function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: parameters.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: self.context,
        };
        let (mut graph, mut ready) = (null_mut(), null_mut());
        // SAFETY: a variable of ours.
        call("cuGraphCreate", unsafe { cuGraphCreate(&mut graph, 0) })?;
        let mut before: Option<CUgraphNode> = None;
        for _ in 0..launches {
            let mut node = null_mut();
            let dependency = before.as_ref().map_or(null(), std::ptr::from_ref);
            let count = before.iter().count();
            // SAFETY: a live graph, the node before as the one dependency, and all parameters, which are copied.
            let added = unsafe { cuGraphAddKernelNode_v2(&mut node, graph, dependency, count, &node_of) };
            call("cuGraphAddKernelNode", added)?;
            before = Some(node);
        }
        // SAFETY: a live graph of the current context.
        call("cuGraphInstantiate", unsafe { cuGraphInstantiateWithFlags(&mut ready, graph, 0) })?;
        Ok(Chain(ready))
    }

    /// Launches a chain. Panics if the driver refuses.
    pub fn launch_chain(&self, chain: &Chain) {
        // SAFETY: a graph of the current context, which stays, as its kernel's arrays do.
        call("cuGraphLaunch", unsafe { cuGraphLaunch(chain.0, self.stream) }).expect("a chain runs");
    }

    /// Memory for copies.
    pub fn buffers(&self, bytes: usize) -> Result<Buffers> {
        let mut host = null_mut();
        // SAFETY: a variable of ours.
        call("cuMemHostAlloc", unsafe { cuMemHostAlloc(&mut host, bytes, 0) })?;
        // SAFETY: memory of so many bytes that nobody else has. Its pages are there from now on.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 1, bytes) };
        Ok(Buffers { host, device: device_memory(bytes)?, bytes })
    }

    /// Copies to the device. Panics if the driver refuses.
    pub fn copy_up(&self, Buffers { host, device, bytes }: &Buffers) {
        // SAFETY: both have so many bytes, and stay.
        let copied = unsafe { cuMemcpyHtoDAsync_v2(*device, *host, *bytes, self.stream) };
        call("cuMemcpyHtoDAsync", copied).expect("it is copied");
    }

    /// Copies to the host. Panics if the driver refuses.
    pub fn copy_down(&self, Buffers { host, device, bytes }: &Buffers) {
        // SAFETY: both have so many bytes, and stay; nobody looks at the host's.
        let copied = unsafe { cuMemcpyDtoHAsync_v2(*host, *device, *bytes, self.stream) };
        call("cuMemcpyDtoHAsync", copied).expect("it is copied");
    }

    /// Where the kernel's parameters are.
    fn parameters<'a>(&'a self, value: &'a mut f32) -> [*mut c_void; 4] {
        // The driver reads what it takes as writable.
        let array = |i: usize| (&raw const self.arrays[i]).cast_mut().cast();
        [(&raw mut *value).cast(), array(0), array(1), array(2)]
    }
}

/// Memory of the current context's device.
fn device_memory(bytes: usize) -> Result<CUdeviceptr> {
    let mut address = 0;
    // SAFETY: a variable of ours.
    call("cuMemAlloc", unsafe { cuMemAlloc_v2(&mut address, bytes) })?;
    Ok(address)
}
