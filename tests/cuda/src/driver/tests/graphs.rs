//! Graphs that are made, captured, changed and launched.

use super::*;
use crate::driver::graph::*;
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUgraph, CUgraphExec, CUgraphNode,
    CUstreamCaptureMode,
};

/// Multiplies by its second parameter and adds its third.
const STEP: &str =
    "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; ld.global.u64 %d4, [%d1];
    mad.lo.u64 %d4, %d4, %d2, %d3; st.global.u64 [%d1], %d4;";

fn node_of(function: CUfunction, parameters: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: function,
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
    }
}

fn pointers(values: &[u64; 3]) -> [*mut c_void; 3] {
    values.each_ref().map(|value| std::ptr::from_ref(value).cast_mut().cast())
}

fn add(graph: CUgraph, after: &[CUgraphNode], function: CUfunction, values: [u64; 3]) -> CUgraphNode {
    let (mut node, mut pointers) = (null_mut(), pointers(&values));
    let parameters = node_of(function, &mut pointers);
    ok!(cuGraphAddKernelNode_v2(Out(&mut node), graph, In(after.as_ptr()), after.len(), In(&parameters)));
    node
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out(&mut exec), graph, 0));
    exec
}

fn launch(device: &Device, exec: CUgraphExec) {
    ok!(cuGraphLaunch(exec, device.stream));
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
}

#[test]
fn nodes_run_as_their_dependencies_say_and_not_as_they_came() {
    let device = Device::new(0);
    let function = device.function(&kernel(3, STEP), "k");
    let at = device.upload(&[1u64]);
    let mut graph = null_mut();
    ok!(cuGraphCreate(Out(&mut graph), 0));
    let first = add(graph, &[], function, [at, 10, 2]);
    let exec_of_two = |dependent: bool| {
        let mut graph = null_mut();
        ok!(cuGraphCreate(Out(&mut graph), 0));
        let first = add(graph, &[], function, [at, 10, 2]);
        add(graph, if dependent { std::slice::from_ref(&first) } else { &[] }, function, [at, 100, 3]);
        let exec = instantiate(graph);
        ok!(cuGraphDestroy(graph));
        exec
    };
    launch(&device, exec_of_two(true));
    assert_eq!(device.download::<u64>(at, 1), [1203]);
    ok!(cuMemcpyHtoD_v2(at, [1u64].as_ptr().cast(), 8));
    launch(&device, exec_of_two(false));
    assert_eq!(device.download::<u64>(at, 1), [1032], "what does not depend comes in another order");
    let other = add(graph, &[first], function, [at, 1, 1]);
    let twice = [first, first];
    let refused = call!(cuGraphAddEmptyNode(Out(&mut null_mut()), graph, In(twice.as_ptr()), 2));
    assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphDestroy(graph));
    let gone = call!(cuGraphAddEmptyNode(Out(&mut null_mut()), graph, In(&other), 1));
    assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn a_node_of_a_graph_is_given_other_parameters() {
    let device = Device::new(0);
    let function = device.function(&kernel(3, STEP), "k");
    let at = device.upload(&[1u64]);
    let mut graph = null_mut();
    ok!(cuGraphCreate(Out(&mut graph), 0));
    let first = add(graph, &[], function, [at, 10, 2]);
    let second = add(graph, &[first], function, [at, 100, 3]);
    let exec = instantiate(graph);
    // A launch in flight keeps its parameters.
    ok!(cuGraphLaunch(exec, device.stream));
    let values = [at, 2, 0];
    let mut others = pointers(&values);
    let parameters = node_of(function, &mut others);
    ok!(cuGraphExecKernelNodeSetParams_v2(exec, second, In(&parameters)));
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(device.download::<u64>(at, 1), [1203]);
    launch(&device, exec);
    assert_eq!(device.download::<u64>(at, 1), [24064]);
    // A node of another graph with the same number.
    let mut other = null_mut();
    ok!(cuGraphCreate(Out(&mut other), 0));
    let stranger = add(other, &[], function, [at, 1, 1]);
    let refused = call!(cuGraphExecKernelNodeSetParams_v2(exec, stranger, In(&parameters)));
    assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphExecDestroy(exec));
    assert_eq!(call!(cuGraphLaunch(exec, device.stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn fills_and_copies_are_nodes() {
    let device = Device::new(0);
    let (target, mut context): (u64, CUcontext) = (device.upload(&[0u16; 12]), null_mut());
    ok!(cuCtxGetCurrent(Out(&mut context)));
    let (mut graph, mut fill, mut copy) = (null_mut(), null_mut(), null_mut());
    ok!(cuGraphCreate(Out(&mut graph), 0));
    // Two rows of two elements, four apart.
    let filled =
        CUDA_MEMSET_NODE_PARAMS { dst: target, pitch: 8, value: 0x0102, elementSize: 2, width: 2, height: 2 };
    ok!(cuGraphAddMemsetNode(Out(&mut fill), graph, In(std::ptr::null()), 0, In(&filled), context));
    let mut copied = empty_box();
    copied.srcMemoryType = cudarc::driver::sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
    copied.dstMemoryType = copied.srcMemoryType;
    (copied.srcDevice, copied.dstDevice) = (target, target + 16);
    (copied.WidthInBytes, copied.Height, copied.Depth) = (8, 1, 1);
    ok!(cuGraphAddMemcpyNode(Out(&mut copy), graph, In(&fill), 1, In(&copied), context));
    launch(&device, instantiate(graph));
    assert_eq!(device.download::<u16>(target, 12), [258, 258, 0, 0, 258, 258, 0, 0, 258, 258, 0, 0]);
}

#[test]
fn a_captured_stream_does_nothing_until_its_graph_is_launched() {
    let (device, other) = (Device::new(0), Device::new(0));
    let function = device.function(&kernel(3, STEP), "k");
    let at = device.upload(&[1u64]);
    let [mut there, mut back] = [null_mut(); 2];
    ok!(cuEventCreate(Out(&mut there), 0));
    ok!(cuEventCreate(Out(&mut back), 0));
    ok!(cuStreamBeginCapture_v2(device.stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_eq!(device.launch(function, 1, 1, &[at, 10, 2]), CUresult::CUDA_SUCCESS);
    ok!(cuEventRecord(there, device.stream));
    ok!(cuStreamWaitEvent(other.stream, there, 0));
    assert_eq!(other.launch(function, 1, 1, &[at, 100, 3]), CUresult::CUDA_SUCCESS);
    ok!(cuEventRecord(back, other.stream));
    assert_eq!(device.wait(), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ok!(cuStreamWaitEvent(device.stream, back, 0));
    assert_eq!(device.launch(function, 1, 1, &[at, 2, 0]), CUresult::CUDA_SUCCESS);
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(device.stream, Out(&mut graph)));
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(device.download::<u64>(at, 1), [1]);
    launch(&device, instantiate(graph));
    assert_eq!(device.download::<u64>(at, 1), [2406]);
}

#[test]
fn a_capture_that_another_stream_does_not_come_back_from_fails() {
    let (device, other) = (Device::new(0), Device::new(0));
    let at = device.upload(&[1u32]);
    let (mut event, mut graph) = (null_mut(), null_mut());
    ok!(cuEventCreate(Out(&mut event), 0));
    ok!(cuStreamBeginCapture_v2(device.stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok!(cuMemsetD32Async(at, 1, 1, device.stream));
    ok!(cuEventRecord(event, device.stream));
    ok!(cuStreamWaitEvent(other.stream, event, 0));
    ok!(cuMemsetD32Async(at, 2, 1, other.stream));
    let ended = call!(cuStreamEndCapture(device.stream, Out(&mut graph)));
    assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_eq!(other.wait(), CUresult::CUDA_SUCCESS, "the other stream is captured no more");
}
