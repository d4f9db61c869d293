//! What a user writes: nodes, and what they receive.

use crate::error::Error;
use crate::pool::PoolUse;
use crate::port::Outputs;
use crate::schedule::Core;
use std::sync::Arc;

/// A node of a graph. It also [`Receive`]s data, of one type or of several.
///
/// Each replica is a value of its own, which one thread has at a time: state needs no lock. After an error or
/// a panic nothing of the graph is called again.
pub trait Node: Send + Sized + 'static {
    /// What it emits through: `()`, [`Out<T>`](crate::Out), a tuple, or a struct of
    /// [`outputs!`](crate::outputs).
    type Out: Outputs;

    /// Called once, before any node receives something.
    ///
    /// # Errors
    /// Its own, which end the graph.
    fn start(&mut self, _out: &mut Self::Out, _cx: &mut Cx<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Called once, when nothing more comes: what feeds the node has ended, and so has the cycle that it is
    /// in. A node of a cycle may yet receive what other nodes of the cycle emit when they finish.
    ///
    /// # Errors
    /// Its own, which end the graph.
    fn finish(&mut self, _out: &mut Self::Out, _cx: &mut Cx<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// What the replica keeps and waits with, for [`Stuck`](crate::GraphError::Stuck); for instance "holds 3
    /// tiles without a partner".
    fn holds(&self) -> Option<String> {
        None
    }
}

/// A node that receives data of type `T`.
#[diagnostic::on_unimplemented(
    message = "this node does not receive `{T}`",
    label = "an edge brings `{T}` to this node, which has no `impl Receive<{T}>`",
    note = "the edge's output and the node's `Receive<..>` (or closure argument) must have the same type"
)]
pub trait Receive<T>: Node {
    /// Takes one datum.
    ///
    /// # Errors
    /// Its own, which end the graph.
    fn receive(&mut self, datum: T, out: &mut Self::Out, cx: &mut Cx<'_>) -> Result<(), Error>;
}

/// What a node is told of where it runs.
pub struct Cx<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) node: u32,
    pub(crate) replica: usize,
    pub(crate) pools: &'a [PoolUse],
    /// What is granted of each of the pools.
    pub(crate) grants: &'a mut [usize],
    /// The most data that a source makes now, and how many it has made.
    pub(crate) batch: usize,
    pub(crate) made: usize,
}

impl Cx<'_> {
    /// Which replica of the node this is.
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// The node's name, with the scopes that it is in.
    pub fn name(&self) -> &str {
        &self.core.nodes[self.node as usize].name
    }

    /// True if the graph has been cancelled, has failed, or has passed its time limit: what the node still
    /// does is in vain.
    pub fn cancelled(&self) -> bool {
        self.core.check_deadline();
        self.core.has_failed()
    }

    /// Something that is emitted after this call: the graph does not end before it is.
    pub fn later<O: Outputs>(&self, out: &O) -> Later<O> {
        self.core.begin_later(self.node);
        Later { out: out.replica(true), core: self.core.clone(), node: self.node }
    }
}

/// What a node has begun, and emits from any thread, until this is dropped ([`Cx::later`]).
pub struct Later<O: Outputs> {
    /// The node's outputs.
    pub out: O,
    core: Arc<Core>,
    node: u32,
}

impl<O: Outputs> Later<O> {
    /// Ends the graph with an error, as if the node had returned it.
    pub fn fail(&self, error: impl Into<Error>) {
        self.core.node_failed(self.node, 0, &error.into());
    }

    /// True as for [`Cx::cancelled`].
    pub fn cancelled(&self) -> bool {
        self.core.has_failed()
    }
}

impl<O: Outputs> Drop for Later<O> {
    fn drop(&mut self) {
        self.out.flush(crate::Flush(crate::port::Way::Deliver(false)));
        self.core.end_later(self.node);
    }
}
