//! Graphs: made node by node or captured from streams, and launched as a whole.

use super::context::current;
use super::copy::of_box;
use super::launch::{Shape, prepare};
use super::stream::{stream_of, submit};
use super::{In, Out, driver};
use crate::machine::Answer;
use crate::machine::handles::{Handles, lock};
use crate::machine::stream::Stream;
use crate::machine::work::{Copy, Set, Side, Work};
use cudarc::driver::sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo,
    CUgraphInstantiateResult, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

static GRAPHS: Handles<Graph> = Handles::new();
static NODES: Handles<NodeOf> = Handles::new();
static EXECS: Handles<Exec> = Handles::new();

/// Nodes come after those that they depend on.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Mutex<Vec<Node>>,
}

#[derive(Clone)]
struct Node {
    work: Work,
    after: Vec<usize>,
    /// Its handle.
    handle: usize,
}

/// The node of a handle.
struct NodeOf {
    graph: Arc<Graph>,
    number: usize,
}

/// A graph that can be launched: a copy of a graph at the time of instantiation.
struct Exec {
    graph: Arc<Graph>,
    nodes: Mutex<Vec<Node>>,
}

/// A stream that is captured: its work becomes nodes.
pub(crate) struct Capture {
    graph: Arc<Graph>,
    /// The next node depends on them.
    last: Vec<usize>,
    /// The capture began in this stream, and ends in it.
    origin: bool,
}

/// A point in a graph that is being captured.
pub(super) struct Captured {
    graph: Arc<Graph>,
    last: Vec<usize>,
}

impl Graph {
    fn add(self: &Arc<Graph>, work: Work, after: Vec<usize>) -> (usize, CUgraphNode) {
        let mut nodes = lock(&self.nodes);
        let number = nodes.len();
        let handle: CUgraphNode = NODES.add(Arc::new(NodeOf { graph: self.clone(), number }));
        nodes.push(Node { work, after, handle: handle.addr() });
        (number, handle)
    }

    fn add_after(
        self: &Arc<Graph>,
        work: Work,
        after: &In<CUgraphNode>,
        count: usize,
    ) -> Answer<CUgraphNode> {
        let mut numbers = Vec::new();
        for handle in after.get_all(count)? {
            let node = NODES.get(handle)?;
            if !Arc::ptr_eq(&node.graph, self) || numbers.contains(&node.number) {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            numbers.push(node.number);
        }
        Ok(self.add(work, numbers).1)
    }
}

impl Capture {
    pub fn add(&mut self, work: Work) -> Answer {
        self.last = vec![self.graph.add(work, std::mem::take(&mut self.last)).0];
        Ok(())
    }

    pub(super) fn here(&self) -> Captured {
        Captured { graph: self.graph.clone(), last: self.last.clone() }
    }
}

impl Captured {
    /// The next work in a stream depends on this point; the stream is captured from now on.
    pub fn join(&self, stream: &Arc<Stream>) -> Answer {
        let mut capture = lock(&stream.capture);
        let joined = capture.get_or_insert_with(|| Capture {
            graph: self.graph.clone(),
            last: Vec::new(),
            origin: false,
        });
        if !Arc::ptr_eq(&joined.graph, &self.graph) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        for node in &self.last {
            if !joined.last.contains(node) {
                joined.last.push(*node);
            }
        }
        Ok(())
    }
}

impl Exec {
    /// An order in which every node comes after those that it depends on. Otherwise later nodes come first,
    /// so that a missing dependency shows.
    fn order(&self) -> Vec<Work> {
        let nodes = lock(&self.nodes);
        let mut done = HashSet::new();
        let mut order = Vec::new();
        while order.len() < nodes.len() {
            let ready = |number: &usize| {
                !done.contains(number) && nodes[*number].after.iter().all(|before| done.contains(before))
            };
            let Some(next) = (0..nodes.len()).rev().find(ready) else { break };
            done.insert(next);
            order.push(nodes[next].work.clone());
        }
        order
    }
}

fn instantiate(exec: &Out<CUgraphExec>, graph: CUgraph) -> Answer {
    current()?;
    let graph = GRAPHS.get(graph)?;
    let nodes = Mutex::new(lock(&graph.nodes).clone());
    exec.put(EXECS.add(Arc::new(Exec { graph, nodes })))
}

fn kernel_of(parameters: &In<CUDA_KERNEL_NODE_PARAMS>) -> Answer<Work> {
    let node = parameters.get()?;
    let shape = Shape {
        grid: [node.gridDimX, node.gridDimY, node.gridDimZ],
        block: [node.blockDimX, node.blockDimY, node.blockDimZ],
        dynamic: node.sharedMemBytes,
        cooperative: false,
    };
    Ok(Work::Kernel(Arc::new(prepare(node.func, shape, node.kernelParams, node.extra)?)))
}

driver! {
    fn cuGraphCreate(graph: Out<CUgraph>, flags: u32) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        current()?;
        graph.put(GRAPHS.add(Arc::new(Graph::default())))?;
    }

    fn cuGraphDestroy(graph: CUgraph) {
        let graph = GRAPHS.remove(graph)?;
        for node in lock(&graph.nodes).iter() {
            NODES.remove(std::ptr::without_provenance_mut::<NodeOf>(node.handle))?;
        }
    }

    fn cuGraphAddKernelNode_v2(
        node: Out<CUgraphNode>,
        graph: CUgraph,
        after: In<CUgraphNode>,
        count: usize,
        parameters: In<CUDA_KERNEL_NODE_PARAMS>,
    ) {
        let graph = GRAPHS.get(graph)?;
        node.put(graph.add_after(kernel_of(&parameters)?, &after, count)?)?;
    }

    fn cuGraphAddMemcpyNode(
        node: Out<CUgraphNode>,
        graph: CUgraph,
        after: In<CUgraphNode>,
        count: usize,
        copied: In<CUDA_MEMCPY3D>,
        context: CUcontext,
    ) {
        super::context::of_handle(context)?.check()?;
        let graph = GRAPHS.get(graph)?;
        let copy = of_box(&copied.get()?)?;
        copy.to.check(copy.extent)?;
        copy.from.check(copy.extent)?;
        node.put(graph.add_after(Work::Copy(copy), &after, count)?)?;
    }

    fn cuGraphAddMemsetNode(
        node: Out<CUgraphNode>,
        graph: CUgraph,
        after: In<CUgraphNode>,
        count: usize,
        parameters: In<CUDA_MEMSET_NODE_PARAMS>,
        context: CUcontext,
    ) {
        super::context::of_handle(context)?.check()?;
        let (graph, set) = (GRAPHS.get(graph)?, parameters.get()?);
        if ![1, 2, 4].contains(&set.elementSize) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let to = Side { address: set.dst, pitch: set.pitch as u64, plane: 0 };
        let extent = [set.width as u64 * u64::from(set.elementSize), set.height as u64];
        if to.is_pageable() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        to.check([extent[0], extent[1], 1])?;
        let work = Work::Set(Set { to, value: set.value, element: set.elementSize, extent });
        node.put(graph.add_after(work, &after, count)?)?;
    }

    fn cuGraphAddEmptyNode(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize) {
        let graph = GRAPHS.get(graph)?;
        node.put(graph.add_after(Work::Nothing, &after, count)?)?;
    }

    fn cuGraphGetNodes(graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>) {
        let graph = GRAPHS.get(graph)?;
        let known = lock(&graph.nodes);
        if !nodes.0.is_null() {
            let room = In(count.0.cast_const()).get()?;
            nodes.put_all(known.iter().take(room).map(|node| std::ptr::without_provenance_mut(node.handle)))?;
        }
        count.put(known.len())?;
    }

    fn cuGraphInstantiateWithFlags(exec: Out<CUgraphExec>, graph: CUgraph, _flags: u64) {
        instantiate(&exec, graph)?;
    }

    fn cuGraphInstantiateWithParams(
        exec: Out<CUgraphExec>,
        graph: CUgraph,
        parameters: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
    ) {
        instantiate(&exec, graph)?;
        let mut result = In(parameters.0.cast_const()).get()?;
        result.result_out = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS;
        parameters.put(result)?;
    }

    fn cuGraphExecDestroy(exec: CUgraphExec) {
        EXECS.remove(exec)?;
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec,
        node: CUgraphNode,
        parameters: In<CUDA_KERNEL_NODE_PARAMS>,
    ) {
        let (exec, node) = (EXECS.get(exec)?, NODES.get(node)?);
        let work = kernel_of(&parameters)?;
        let mut nodes = lock(&exec.nodes);
        match nodes.get_mut(node.number) {
            Some(own) if Arc::ptr_eq(&node.graph, &exec.graph) && matches!(own.work, Work::Kernel(_)) => own.work = work,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec,
        node: CUgraphNode,
        copied: In<CUDA_MEMCPY3D>,
        context: CUcontext,
    ) {
        super::context::of_handle(context)?.check()?;
        let (exec, node, copy) = (EXECS.get(exec)?, NODES.get(node)?, of_box(&copied.get()?)?);
        copy.to.check(copy.extent)?;
        copy.from.check(copy.extent)?;
        // Only single rows can become others.
        let is_row = |copy: &Copy| copy.extent[0] > 0 && copy.extent[1..] == [1, 1];
        let mut nodes = lock(&exec.nodes);
        match nodes.get_mut(node.number) {
            Some(Node { work: Work::Copy(own), .. })
                if Arc::ptr_eq(&node.graph, &exec.graph) && is_row(own) && is_row(&copy) =>
            {
                *own = copy;
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuGraphExecUpdate_v2(exec: CUgraphExec, graph: CUgraph, result: Out<CUgraphExecUpdateResultInfo>) {
        let (exec, graph) = (EXECS.get(exec)?, GRAPHS.get(graph)?);
        let mut own = lock(&exec.nodes);
        let new = lock(&graph.nodes);
        let same = |a: &Node, b: &Node| {
            a.after == b.after && std::mem::discriminant(&a.work) == std::mem::discriminant(&b.work)
        };
        let alike = own.len() == new.len() && own.iter().zip(new.iter()).all(|(a, b)| same(a, b));
        let null = std::ptr::null_mut();
        result.put(CUgraphExecUpdateResultInfo {
            result: match alike {
                true => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
                false => CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
            },
            errorNode: null,
            errorFromNode: null,
        })?;
        if !alike {
            return Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        }
        own.clone_from(&new);
    }

    fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) {
        stream_of(stream)?;
        EXECS.get(exec)?;
    }

    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let stream = stream_of(stream)?;
        for work in EXECS.get(exec)?.order() {
            submit(&stream, work)?;
        }
    }

    fn cuStreamBeginCapture_v2(stream: CUstream, _mode: CUstreamCaptureMode) {
        let default = stream.addr() <= 1;
        let stream = stream_of(stream)?;
        let mut capture = lock(&stream.capture);
        if capture.is_some() || default {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        *capture = Some(Capture { graph: Arc::default(), last: Vec::new(), origin: true });
    }

    fn cuStreamEndCapture(stream: CUstream, graph: Out<CUgraph>) {
        let stream = stream_of(stream)?;
        let found = lock(&stream.capture).take().ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        if !found.origin {
            *lock(&stream.capture) = Some(found);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        // The last work of other streams must be joined again: the last node of the origin depends on it.
        let mut joined = true;
        for other in stream.context.all_streams() {
            let mut capture = lock(&other.capture);
            if let Some(own) = capture.take_if(|own| Arc::ptr_eq(&own.graph, &found.graph)) {
                let nodes = lock(&found.graph.nodes);
                let mut reached: Vec<usize> = found.last.clone();
                let mut at = 0;
                while at < reached.len() {
                    reached.extend(nodes[reached[at]].after.clone());
                    at += 1;
                }
                joined &= own.last.iter().all(|node| reached.contains(node));
            }
        }
        if !joined {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        graph.put(GRAPHS.add(found.graph))?;
    }

    fn cuStreamIsCapturing(stream: CUstream, status: Out<CUstreamCaptureStatus>) {
        status.put(match stream_of(stream)?.is_capturing() {
            true => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
            false => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        })?;
    }
}
