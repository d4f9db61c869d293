//! Building a graph: nodes, edges, and how nodes are to run.
//!
//! A [`Graph`] is built without errors: what is wrong is found by [`Graph::start`], all of it at once
//! (`check.rs`), and nothing runs before. One thread builds (the plan is in a `RefCell`); only the
//! settings of a node are under a lock, as its cell is shared with the run. They are read when the graph
//! starts, and setting them later does nothing.
//!
//! A node's number is its position in the plan. It has one inbox for each type and function that it
//! receives data by, so all edges of one type into a node fill the same inbox.

use crate::cell::{Accept, ByReceive, Config, Gate, Make, NodeCell, Setup, Typed};
use crate::check;
use crate::error::GraphError;
use crate::exit::{ExitCell, Output};
use crate::input::{AnyInput, Input};
use crate::lane::{Lane, lock};
use crate::node::{Node, Receive};
use crate::picture::Picture;
use crate::pool::Pool;
use crate::port::{Origin, Out, Outputs, Port, Ports, Target};
use crate::run::Run;
use crate::schedule::Cell;
use crate::strand::Shared;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A graph that is being built: nodes, edges between their outputs and nodes, inputs and outputs.
///
/// See [the crate](crate) for an example.
pub struct Graph {
    pub(crate) plan: RefCell<Plan>,
}

/// What was built.
pub(crate) struct Plan {
    pub(crate) name: String,
    scopes: Vec<String>,
    pub(crate) nodes: Vec<Planned>,
    pub(crate) inputs: Vec<(String, Arc<dyn AnyInput>)>,
    pub(crate) edges: Vec<Edge>,
    /// Outputs that lead nowhere on purpose.
    pub(crate) ignored: Vec<Origin>,
    pub(crate) limit: Option<Duration>,
    /// What was asked for and cannot be.
    pub(crate) faults: Vec<String>,
}

pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) cell: Arc<dyn PlannedCell>,
    /// The names of its outputs.
    pub(crate) ports: Vec<String>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Node,
    /// It makes its data itself.
    Source,
    Exit,
}

#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) from: Origin,
    pub(crate) to: u32,
    pub(crate) copies: bool,
    pub(crate) datum: &'static str,
    /// The inbox at its end.
    pub(crate) queue: Arc<dyn Gate>,
}

/// A node whose settings can be looked at.
pub(crate) trait PlannedCell: Cell {
    fn config<'a>(&self, look: &mut (dyn FnMut(&mut Config) + 'a));
    fn as_cell(self: Arc<Self>) -> Arc<dyn Cell>;
}

impl<N: Node> PlannedCell for NodeCell<N> {
    fn config<'a>(&self, look: &mut (dyn FnMut(&mut Config) + 'a)) {
        let Setup { config, inboxes, .. } = &mut *lock(&self.setup);
        look(config);
        inboxes.iter().for_each(|inbox| inbox.set_capacity(config.capacity));
    }

    fn as_cell(self: Arc<Self>) -> Arc<dyn Cell> {
        self
    }
}

/// A node in a graph that is being built. Its methods set how it runs; edges begin at its outputs, `out`.
pub struct NodeRef<N: Node> {
    /// The node's outputs: `node.out`, or `node.out.name` where there are several.
    pub out: N::Out,
    pub(crate) cell: Arc<NodeCell<N>>,
    pub(crate) index: u32,
}

/// Where an edge may begin: an output of a node, or an input of the graph.
pub trait EdgeFrom {
    /// The type of the data.
    type Item: Send + 'static;
    #[doc(hidden)]
    fn begins(&self) -> Begins<'_, Self::Item>;
}

#[doc(hidden)]
pub struct Begins<'a, T>(pub(crate) &'a Arc<Port<T>>);

impl<T: Send + 'static> EdgeFrom for Out<T> {
    type Item = T;
    fn begins(&self) -> Begins<'_, T> {
        Begins(self.port())
    }
}

/// Where an edge of data of type `T` may end: a node that [receives](Receive) it, or an output of the graph.
#[diagnostic::on_unimplemented(
    message = "an edge of `{T}` cannot end at `{Self}`",
    label = "expected a node that receives `{T}`, or an output of the graph for it"
)]
pub trait EdgeTo<T> {
    #[doc(hidden)]
    fn ends(&self) -> Ends<T>;
}

#[doc(hidden)]
pub struct Ends<T> {
    pub(crate) node: u32,
    pub(crate) lane: Arc<Lane<T>>,
}

impl<N: Receive<T>, T: Send + 'static> EdgeTo<T> for NodeRef<N> {
    fn ends(&self) -> Ends<T> {
        Ends { node: self.index, lane: self.cell.inbox::<T, ByReceive>() }
    }
}

impl<N: Node> NodeCell<N> {
    /// The inbox for data of a type that go to one function of the node.
    pub(crate) fn inbox<T: Send + 'static, A: Accept<N, T>>(&self) -> Arc<Lane<T>> {
        let Setup { config, inboxes, .. } = &mut *lock(&self.setup);
        let found = inboxes.iter().find_map(|inbox| inbox.as_any().downcast_ref::<Typed<T, A>>());
        if let Some(typed) = found {
            return typed.0.clone();
        }
        let lane = Arc::new(Lane::new(config.capacity));
        inboxes.reserve_exact(1);
        inboxes.push(Arc::new(Typed::<T, A>(lane.clone(), PhantomData)));
        lane
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new(name: &str) -> Graph {
        Graph {
            plan: RefCell::new(Plan {
                name: name.to_string(),
                scopes: Vec::new(),
                nodes: Vec::with_capacity(16),
                inputs: Vec::new(),
                edges: Vec::with_capacity(16),
                ignored: Vec::new(),
                limit: None,
                faults: Vec::new(),
            }),
        }
    }

    /// A node. `replica` makes each of its replicas when the graph starts.
    pub fn node<N: Node>(&self, name: &str, replica: impl FnMut(usize) -> N + Send + 'static) -> NodeRef<N> {
        self.add(name, replica, Kind::Node)
    }

    pub(crate) fn add<N: Node>(
        &self,
        name: &str,
        replica: impl FnMut(usize) -> N + Send + 'static,
        kind: Kind,
    ) -> NodeRef<N> {
        let mut plan = self.plan.borrow_mut();
        let index = plan.nodes.len() as u32;
        let mut ports = Ports::of(index);
        let out = N::Out::new(&mut ports);
        self.planned(&mut plan, name, out, Box::new(replica), ports, kind)
    }

    /// Adds a node whose outputs are made already.
    pub(crate) fn planned<N: Node>(
        &self,
        plan: &mut Plan,
        name: &str,
        out: N::Out,
        replica: Box<dyn FnMut(usize) -> N + Send>,
        ports: Ports,
        kind: Kind,
    ) -> NodeRef<N> {
        let of_graph = out.replica(false);
        let cell = Arc::new(NodeCell::new(Make { out, replica }));
        let index = plan.nodes.len() as u32;
        let name = plan.full(name);
        plan.nodes.push(Planned { name, cell: cell.clone(), ports: ports.names, kind });
        NodeRef { out: of_graph, cell, index }
    }

    /// An input: data come through it from outside, by [`Run::push`].
    pub fn input<T: Send + 'static>(&self, name: &str) -> Input<T> {
        let mut plan = self.plan.borrow_mut();
        let input = Input::new(plan.inputs.len() as u32);
        let name = plan.full(name);
        plan.inputs.push((name, input.cell.clone()));
        input
    }

    /// An output: data leave through it, to [`Run::results`]. It holds what nothing takes, without bound
    /// unless it [has one](Output::inbox).
    pub fn output<T: Send + 'static>(&self, name: &str) -> Output<T> {
        let mut plan = self.plan.borrow_mut();
        let index = plan.nodes.len() as u32;
        let cell = Arc::new(ExitCell::new());
        let name = plan.full(name);
        plan.nodes.push(Planned { name, cell: cell.clone(), ports: Vec::new(), kind: Kind::Exit });
        Output { cell, index }
    }

    /// Lets data go from an output of a node, or an input of the graph, to a node, or an output of the graph.
    /// The types must agree:
    ///
    /// ```compile_fail,E0277
    /// let g = flash_graph::Graph::new("wrong");
    /// let length = g.map("length", |text: String| text.len());
    /// let twice = g.map("twice", |x: f32| 2.0 * x);
    /// g.edge(&length.out, &twice);
    /// ```
    /// From one output one edge can begin; for others there is [`edge_of_copies`](Self::edge_of_copies).
    pub fn edge<F: EdgeFrom, R: EdgeTo<F::Item>>(&self, from: &F, to: &R) {
        self.connect(from.begins().0, to.ends(), None);
    }

    /// As [`edge`](Self::edge), for a clone of each datum: for all edges but one that begin at the same
    /// output.
    pub fn edge_of_copies<F: EdgeFrom, R: EdgeTo<F::Item>>(&self, from: &F, to: &R)
    where
        F::Item: Clone,
    {
        self.connect(from.begins().0, to.ends(), Some(F::Item::clone));
    }

    pub(crate) fn connect<T: Send + 'static>(
        &self,
        from: &Arc<Port<T>>,
        to: Ends<T>,
        copy: Option<fn(&T) -> T>,
    ) {
        let Ends { node, lane } = to;
        let (copies, datum) = (copy.is_some(), std::any::type_name::<T>());
        let edge = Edge { from: from.origin, to: node, copies, datum, queue: lane.clone() };
        self.plan.borrow_mut().edges.push(edge);
        from.connect(Target { lane, node, copy });
    }

    /// Lets an output lead nowhere: what it emits is dropped.
    pub fn ignore<F: EdgeFrom>(&self, from: &F) {
        self.plan.borrow_mut().ignored.push(from.begins().0.origin);
    }

    /// Adds nodes, inputs and outputs whose names begin with `name` and a slash. A part of a graph is a
    /// function that takes a graph, adds nodes, and returns where edges begin and end.
    pub fn scope<R>(&self, name: &str, build: impl FnOnce(&Graph) -> R) -> R {
        self.plan.borrow_mut().scopes.push(name.to_string());
        let built = build(self);
        self.plan.borrow_mut().scopes.pop();
        built
    }

    /// State that several nodes share, see [`NodeRef::on`].
    pub fn shared<S: Send + 'static>(&self, state: S) -> Shared<S> {
        Shared::new(state)
    }

    /// How long the graph may take from its start. What runs then is not interrupted, but told
    /// ([`Cx::cancelled`](crate::Cx::cancelled)), and the graph ends with
    /// [`TimeLimit`](GraphError::TimeLimit).
    pub fn time_limit(&self, limit: Duration) {
        self.plan.borrow_mut().limit = Some(limit);
    }

    /// A picture of the graph as it is built so far.
    pub fn picture(&self) -> Picture {
        Picture::of(&self.plan.borrow())
    }

    /// Checks and starts the graph.
    ///
    /// # Errors
    /// [`Refused`](GraphError::Refused) with all that is wrong: outputs and inputs without an edge, nodes
    /// that nothing reaches, cycles with no way out, several edges that are not of copies from one output,
    /// pools smaller than a node takes at once, cycles of which all inboxes are bounded.
    pub fn start(self) -> Result<Run, GraphError> {
        let mut plan = self.plan.into_inner();
        let checked = check::check(&mut plan)?;
        Ok(Run::start(plan, checked))
    }
}

impl Plan {
    fn full(&self, name: &str) -> String {
        match self.scopes.is_empty() {
            true => name.to_string(),
            false => format!("{}/{name}", self.scopes.join("/")),
        }
    }
}

impl<N: Node> NodeRef<N> {
    fn set(self, set: impl FnOnce(&mut Config)) -> Self {
        set(&mut lock(&self.cell.setup).config);
        self
    }

    /// Lets this many of it run at the same time, each with a state of its own. What they emit is in no
    /// order, unless they are [`ordered`](Self::ordered). The default is 1.
    pub fn replicas(self, count: usize) -> Self {
        self.set(|config| config.replicas = count)
    }

    /// How many data of each type wait before it, until whatever feeds it waits; the default is 256. What
    /// one call of a node emits is not cut apart, so there may be as many more.
    pub fn inbox(self, capacity: usize) -> Self {
        self.set(|config| config.capacity = capacity.max(1))
    }

    /// Lets any number of data wait before it: for one node of each cycle.
    pub fn unbounded(self) -> Self {
        self.set(|config| config.capacity = usize::MAX)
    }

    /// Ready nodes of a greater priority run first; the default is 0.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|config| config.priority = priority)
    }

    /// Gives each replica a thread of its own, on which it may block.
    pub fn dedicated(self) -> Self {
        self.set(|config| config.dedicated = true)
    }

    /// Lets what the replicas emit come in the order of what they received. It holds for what is emitted
    /// before `receive` returns.
    pub fn ordered(self) -> Self {
        self.set(|config| config.ordered = true)
    }

    /// The node takes up to `count` things of a pool for each datum ([`Pool::take`]). It runs only when they
    /// are free.
    pub fn takes<T: Send + 'static>(self, pool: &Pool<T>, count: usize) -> Self {
        self.set(|config| config.pools.push(pool.used(count)))
    }

    /// Puts the node on the strand of a shared state: of the nodes on it, one at a time runs.
    pub fn on<S>(self, shared: &Shared<S>) -> Self {
        self.set(|config| config.strand = Some(shared.strand.clone()))
    }

    /// Lets the most urgent of the data of type `T` come first; of equally urgent ones the oldest.
    pub fn by_priority<T: Send + 'static>(self, urgency: impl Fn(&T) -> i64 + Send + Sync + 'static) -> Self
    where
        N: Receive<T>,
    {
        self.cell.inbox::<T, ByReceive>().set_urgency(Box::new(urgency));
        self
    }

    /// Called once if the graph ends before its time, on the thread that ends it: for a node that blocks in
    /// something that can be told to stop.
    pub fn on_cancel(self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.set(|config| config.cancel = Some(Box::new(hook)))
    }
}
