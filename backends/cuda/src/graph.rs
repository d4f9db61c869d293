//! Repeated batches, as graphs: the driver takes all of their launches in one call, and the device goes from
//! one to the next without the host.
//!
//! A batch becomes a graph when its *shape*, its functions and copies in their order, comes for the second
//! time. If the parameters differ, another graph is made, up to [`SAME`] of one shape. Then the least
//! recently used one is given the new parameters, node by node.

use crate::context::{Context, Stream};
use crate::copies::PITCH;
use crate::failure::Call;
use crate::queue::{Command, Commands, Function, Shape, Work};
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUdeviceptr, CUgraph, CUgraphExec, CUgraphNode, CUmemorytype,
    CUresult, cuGraphAddKernelNode_v2, cuGraphAddMemcpyNode, cuGraphCreate, cuGraphDestroy,
    cuGraphExecDestroy, cuGraphExecKernelNodeSetParams_v2, cuGraphExecMemcpyNodeSetParams,
    cuGraphInstantiateWithFlags, cuGraphLaunch,
};
use flash_backend::Failure;
use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ptr::{null, null_mut};

/// Batches with fewer commands are not made a graph.
const LEAST: usize = 4;
/// Most graphs of one shape.
const SAME: usize = 8;
/// Most graphs in all.
const KEPT: usize = 32;
/// Shapes that are remembered after their first batch.
const SEEN: usize = 64;

/// The graphs of a device.
#[derive(Default)]
pub(crate) struct Graphs {
    seen: VecDeque<u64>,
    /// The most recently used is at the end.
    kept: VecDeque<Kept>,
}

/// One graph.
struct Kept {
    shape: u64,
    graph: CUgraph,
    ready: CUgraphExec,
    nodes: Vec<CUgraphNode>,
    /// The commands of its nodes.
    commands: Commands,
}

// SAFETY: a graph may be used from any thread, by one at a time: the holder of the queue's lock.
unsafe impl Send for Kept {}

impl Graphs {
    /// Launches a batch as a graph. False: it cannot be one, and nothing was done.
    pub fn launch(&mut self, commands: &Commands, context: Context, stream: Stream) -> bool {
        let Some(shape) = shape_of(commands) else { return false };
        let alike = |kept: &Kept| kept.shape == shape && kept.has_functions_of(commands);
        let same = |kept: &Kept| alike(kept) && kept.does(commands);
        let known = self.kept.iter().rposition(same).or_else(|| {
            let mut others = self.kept.iter().enumerate().filter(|(_, kept)| alike(kept)).map(|(at, _)| at);
            let oldest = others.next()?;
            (others.count() + 1 >= SAME).then_some(oldest)
        });
        let kept = match known.and_then(|at| self.kept.remove(at)) {
            Some(mut kept) => kept.change(commands, context).map(|()| kept),
            None if !self.comes_again(shape) => return false,
            None => Kept::new(shape, commands, context),
        };
        // A batch that cannot become a graph goes command by command; an error of it is reported there.
        let Ok(kept) = kept else { return false };
        // SAFETY: a graph of the current context; all that its nodes use stays until the launches are done.
        let result = unsafe { cuGraphLaunch(kept.ready, stream.get()) };
        if result != CUresult::CUDA_SUCCESS {
            return false;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
        true
    }

    /// True if the shape has come before. Remembers it.
    fn comes_again(&mut self, shape: u64) -> bool {
        if self.seen.contains(&shape) {
            return true;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(shape);
        false
    }
}

/// A hash of the functions and copies of a batch in their order, if it can be a graph.
fn shape_of(commands: &Commands) -> Option<u64> {
    if commands.all.len() < LEAST {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    for command in &commands.all {
        if !is_node(command) {
            return None;
        }
        function(command).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Whether a command can be a node of a graph.
fn is_node(command: &Command) -> bool {
    match command.work {
        Work::Kernel(_, shape) => !shape.cooperative,
        // A node copies rows.
        Work::Copy(.., bytes) => bytes as u64 <= PITCH,
    }
}

/// The function that a command launches; `None` for a copy.
fn function(command: &Command) -> Option<Function> {
    match command.work {
        Work::Kernel(function, _) => Some(function),
        Work::Copy(..) => None,
    }
}

impl Kept {
    fn new(shape: u64, commands: &Commands, context: Context) -> Result<Kept, Failure> {
        let mut graph = null_mut();
        // SAFETY: a local variable.
        unsafe { cuGraphCreate(&mut graph, 0) }.call("cuGraphCreate")?;
        let mut kept =
            Kept { shape, graph, ready: null_mut(), nodes: Vec::new(), commands: commands.clone() };
        for command in &commands.all {
            let mut node = null_mut();
            let before = kept.nodes.last();
            let (dependencies, count) =
                (before.map_or(std::ptr::null(), std::ptr::from_ref), before.iter().count());
            with_node(commands, command, |what| {
                // SAFETY: a live graph of this context, the node before as the one dependency, and all
                // parameters, which are copied; the buffers of a copy have that many bytes.
                unsafe {
                    match what {
                        Node::Kernel(what) => {
                            cuGraphAddKernelNode_v2(&mut node, graph, dependencies, count, what)
                                .call("cuGraphAddKernelNode")
                        }
                        Node::Copy(what) => {
                            cuGraphAddMemcpyNode(&mut node, graph, dependencies, count, what, context.get())
                                .call("cuGraphAddMemcpyNode")
                        }
                    }
                }
            })?;
            kept.nodes.push(node);
        }
        // SAFETY: a live graph of the current context.
        unsafe { cuGraphInstantiateWithFlags(&mut kept.ready, graph, 0) }.call("cuGraphInstantiate")?;
        Ok(kept)
    }

    fn has_functions_of(&self, commands: &Commands) -> bool {
        self.commands.all.iter().map(function).eq(commands.all.iter().map(function))
    }

    fn does(&self, commands: &Commands) -> bool {
        let all = self.commands.all.iter().zip(&commands.all);
        all.into_iter().all(|(own, other)| self.does_one(own, commands, other))
    }

    fn does_one(&self, own: &Command, commands: &Commands, other: &Command) -> bool {
        own.work == other.work && self.commands.words_of(own) == commands.words_of(other)
    }

    /// Replaces its parameters.
    fn change(&mut self, commands: &Commands, context: Context) -> Result<(), Failure> {
        let mut any = false;
        for ((own, other), node) in self.commands.all.iter().zip(&commands.all).zip(&self.nodes) {
            if self.does_one(own, commands, other) {
                continue;
            }
            any = true;
            with_node(commands, other, |what| {
                // SAFETY: a node of this graph, of the same function, or a copy of this context; launches in
                // flight keep their parameters.
                unsafe {
                    match what {
                        Node::Kernel(what) => cuGraphExecKernelNodeSetParams_v2(self.ready, *node, what)
                            .call("cuGraphExecKernelNodeSetParams"),
                        Node::Copy(what) => {
                            cuGraphExecMemcpyNodeSetParams(self.ready, *node, what, context.get())
                                .call("cuGraphExecMemcpyNodeSetParams")
                        }
                    }
                }
            })?;
        }
        if any {
            self.commands = commands.clone();
        }
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: made by `new`; the driver keeps what is in flight. The context is current where it is
        // dropped, as it is for a launch.
        unsafe {
            if !self.ready.is_null() {
                let _ = cuGraphExecDestroy(self.ready);
            }
            let _ = cuGraphDestroy(self.graph);
        }
    }
}

/// A command in the driver's form of a node.
enum Node<'a> {
    Kernel(&'a CUDA_KERNEL_NODE_PARAMS),
    Copy(&'a CUDA_MEMCPY3D),
}

/// Calls `body` with a command as a node.
fn with_node(
    commands: &Commands,
    command: &Command,
    body: impl FnOnce(Node<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (Function(func), Shape { grid, block, shared, .. }) = match command.work {
        Work::Kernel(function, shape) => (function, shape),
        Work::Copy(from, to, bytes) => return body(Node::Copy(&row(from, to, bytes))),
    };
    let mut pointers = commands.pointers(command);
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    body(Node::Kernel(&CUDA_KERNEL_NODE_PARAMS {
        func,
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: shared,
        kernelParams: pointers.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }))
}

/// A copy of one row between buffers.
fn row(from: CUdeviceptr, to: CUdeviceptr, bytes: usize) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null(),
        srcDevice: from,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: bytes,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: to,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: bytes,
        dstHeight: 1,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
    }
}
