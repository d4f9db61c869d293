//! The peer of the rows in `gpu`: an empty kernel, chains of it, and copies, by hand.

use crate::driver::{Driver, Function, call};
use anyhow::Result;
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUdeviceptr, CUgraphExec, CUgraphNode, cuGraphAddKernelNode_v2, cuGraphCreate,
    cuGraphInstantiateWithFlags, cuGraphLaunch, cuMemHostAlloc, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2,
};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A device with a kernel.
pub struct ByHand {
    driver: Driver,
    /// `touch` of `empty.cu`.
    function: Function,
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

impl ByHand {
    /// On the device of a number.
    pub fn new(ordinal: i32) -> Result<ByHand> {
        let driver = Driver::new(ordinal)?;
        let function = driver.compile(include_str!("../empty.cu"), "empty.cu", "touch", "")?;
        let array = || driver.allocate(size_of::<f32>());
        let arrays = [array()?, array()?, array()?];
        Ok(ByHand { driver, function, arrays })
    }

    /// Launches the kernel. Panics if the driver refuses.
    pub fn launch(&self) {
        let mut value = 1.0f32;
        let mut parameters = self.parameters(&mut value);
        // SAFETY: the four parameters of the kernel, whose arrays stay.
        let launched = unsafe { self.driver.launch(self.function, [1; 3], [1; 3], &mut parameters) };
        launched.expect("an empty kernel runs");
    }

    /// Waits for all that was launched and copied.
    pub fn finish(&self) {
        self.driver.finish().expect("it ends");
    }

    /// This many launches, one after the other.
    pub fn chain(&self, launches: usize) -> Result<Chain> {
        let mut value = 1.0f32;
        let mut parameters = self.parameters(&mut value);
        let node_of = CUDA_KERNEL_NODE_PARAMS {
            func: self.function.0,
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
            ctx: null_mut(),
        };
        let (mut graph, mut ready) = (null_mut(), null_mut());
        // SAFETY: a variable of ours.
        call("cuGraphCreate", unsafe { cuGraphCreate(&mut graph, 0) })?;
        let mut before: Option<CUgraphNode> = None;
        for _ in 0..launches {
            let mut node = null_mut();
            let dependency = before.as_ref().map_or(null(), std::ptr::from_ref);
            let count = before.iter().count();
            // SAFETY: a live graph, the node before as the one dependency, and all parameters, which are
            // copied.
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
        call("cuGraphLaunch", unsafe { cuGraphLaunch(chain.0, self.driver.stream) }).expect("a chain runs");
    }

    /// Memory for copies.
    pub fn buffers(&self, bytes: usize) -> Result<Buffers> {
        let mut host = null_mut();
        // SAFETY: a variable of ours.
        call("cuMemHostAlloc", unsafe { cuMemHostAlloc(&mut host, bytes, 0) })?;
        // SAFETY: memory of that many bytes without another user. This commits its pages.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 1, bytes) };
        Ok(Buffers { host, device: self.driver.allocate(bytes)?, bytes })
    }

    /// Copies to the device. Panics if the driver refuses.
    pub fn copy_up(&self, Buffers { host, device, bytes }: &Buffers) {
        // SAFETY: both have that many bytes, and stay.
        let copied = unsafe { cuMemcpyHtoDAsync_v2(*device, *host, *bytes, self.driver.stream) };
        call("cuMemcpyHtoDAsync", copied).expect("it is copied");
    }

    /// Copies to the host. Panics if the driver refuses.
    pub fn copy_down(&self, Buffers { host, device, bytes }: &Buffers) {
        // SAFETY: both have that many bytes, and stay; the host's is not read.
        let copied = unsafe { cuMemcpyDtoHAsync_v2(*host, *device, *bytes, self.driver.stream) };
        call("cuMemcpyDtoHAsync", copied).expect("it is copied");
    }

    /// Where the kernel's parameters are.
    fn parameters<'a>(&'a self, value: &'a mut f32) -> [*mut c_void; 4] {
        // The driver reads what it takes as writable.
        let array = |i: usize| (&raw const self.arrays[i]).cast_mut().cast();
        [(&raw mut *value).cast(), array(0), array(1), array(2)]
    }
}
