//! What a node emits through, and where it goes.

use crate::cell::Gates;
use crate::lane::{Lane, lock};
use crate::schedule::Core;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

/// A buffer of this many data is delivered while its node still runs.
const FULL_BUFFER: usize = 256;

/// An output of a node, for data of one type.
///
/// In the graph it is where an [edge](crate::Graph::edge) begins: `node.out`. In the node it is what data are
/// emitted through. What is emitted is delivered after the call at the latest when the node's batch is done,
/// and earlier if the node takes long for a datum.
pub struct Out<T> {
    port: Arc<Port<T>>,
    buffer: VecDeque<T>,
    full: usize,
}

impl<T: Send + 'static> Out<T> {
    /// Sends a datum along all edges.
    #[inline]
    pub fn emit(&mut self, datum: T) {
        self.buffer.push_back(datum);
        if self.buffer.len() >= self.full {
            self.deliver(false);
        }
    }

    #[inline]
    fn deliver(&mut self, last: bool) {
        if !self.buffer.is_empty() {
            self.port.deliver(&mut self.buffer, last);
        }
    }

    /// The number of data on their way to the next nodes.
    pub(crate) fn waiting(&self) -> usize {
        let inboxes: usize = self.port.targets().iter().map(|target| target.lane.len()).sum();
        self.buffer.len() + inboxes
    }

    pub(crate) fn port(&self) -> &Arc<Port<T>> {
        &self.port
    }
}

/// The output of a node, as the graph knows it.
pub(crate) struct Port<T> {
    pub(crate) origin: Origin,
    edges: Mutex<Vec<Target<T>>>,
    bound: OnceLock<Bound<T>>,
}

/// Where an edge begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A node, and which of its outputs.
    Output(u32, usize),
    Input(u32),
}

/// Where an edge ends.
pub(crate) struct Target<T> {
    pub(crate) lane: Arc<Lane<T>>,
    pub(crate) node: u32,
    /// For all edges of a port but the first.
    pub(crate) copy: Option<fn(&T) -> T>,
}

struct Bound<T> {
    core: Arc<Core>,
    targets: Box<[Target<T>]>,
}

impl<T: Send + 'static> Port<T> {
    pub(crate) fn new(origin: Origin) -> Port<T> {
        Port { origin, edges: Mutex::default(), bound: OnceLock::new() }
    }

    pub(crate) fn connect(&self, target: Target<T>) {
        let mut edges = lock(&self.edges);
        // Most have one.
        edges.reserve_exact(1);
        edges.push(target);
    }

    /// Fixes its edges, when the graph starts. The edge that takes the datum itself comes last.
    pub(crate) fn bind(&self, core: &Arc<Core>, gates: &Gates) {
        let mut targets = std::mem::take(&mut *lock(&self.edges));
        targets.sort_by_key(|target| target.copy.is_none());
        for target in &targets {
            // What any number of data fit into keeps nothing waiting.
            if target.lane.capacity() != usize::MAX {
                gates.borrow_mut().push((target.node, target.lane.clone()));
            }
        }
        let _ = self.bound.set(Bound { core: core.clone(), targets: targets.into() });
    }

    /// Delivers a buffer. `last` says that this thread has nothing else to do after it.
    #[inline]
    pub(crate) fn deliver(&self, data: &mut VecDeque<T>, last: bool) {
        let Some(Bound { core, targets }) = self.bound.get() else { return data.clear() };
        let Some((owner, copies)) = targets.split_last() else { return data.clear() };
        for target in copies {
            let mut copied = match target.copy {
                Some(copy) => data.iter().map(copy).collect(),
                None => continue,
            };
            core.deliver(target, &mut copied, last);
        }
        core.deliver(owner, data, last);
    }

    /// The targets of a port that is bound.
    pub(crate) fn targets(&self) -> &[Target<T>] {
        self.bound.get().map_or(&[], |bound| &bound.targets)
    }
}

/// The outputs of a node: none is `()`, one is [`Out<T>`], several are a tuple of them, a `Vec` of equal ones
/// as long as the node says, or a struct made by [`outputs!`](crate::outputs).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the outputs of a node",
    label = "expected `()`, `Out<T>`, a tuple of them, or a struct of `outputs!`"
)]
pub trait Outputs: Send + 'static {
    /// Makes those of a node.
    #[doc(hidden)]
    fn new(ports: &mut Ports) -> Self;
    /// Those of a replica: the same edges, with buffers of their own.
    #[doc(hidden)]
    fn replica(&self, delivers: bool) -> Self;
    /// Delivers what the buffers hold.
    #[doc(hidden)]
    fn flush(&mut self, flush: Flush<'_>);
}

/// Numbers the outputs of a node.
#[doc(hidden)]
pub struct Ports {
    pub(crate) node: u32,
    pub(crate) names: Vec<String>,
    /// The name that the next one has.
    next: Option<String>,
}

impl Ports {
    pub(crate) fn of(node: u32) -> Ports {
        Ports { node, names: Vec::new(), next: None }
    }

    /// Names the next output.
    pub fn named(&mut self, name: impl Into<String>) -> &mut Ports {
        self.next = Some(name.into());
        self
    }

    fn number(&mut self) -> Origin {
        let index = self.names.len();
        self.names.push(self.next.take().unwrap_or_else(|| match index {
            0 => "out".into(),
            _ => format!("out.{index}"),
        }));
        Origin::Output(self.node, index)
    }
}

/// How buffers are emptied.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Flush<'a>(pub(crate) Way<'a>);

#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// To where the edges end; the flag as in [`Port::deliver`].
    Deliver(bool),
    /// The ports' edges are fixed for this graph, and the inboxes at their ends are listed.
    Bind(&'a Arc<Core>, &'a Gates),
}

impl<T: Send + 'static> Outputs for Out<T> {
    fn new(ports: &mut Ports) -> Self {
        Out { port: Arc::new(Port::new(ports.number())), buffer: VecDeque::new(), full: FULL_BUFFER }
    }

    fn replica(&self, delivers: bool) -> Self {
        let full = if delivers { FULL_BUFFER } else { usize::MAX };
        Out { port: self.port.clone(), buffer: VecDeque::new(), full }
    }

    #[inline]
    fn flush(&mut self, flush: Flush<'_>) {
        match flush.0 {
            Way::Deliver(last) => self.deliver(last),
            Way::Bind(core, gates) => self.port.bind(core, gates),
        }
    }
}

impl<O: Outputs> Outputs for Vec<O> {
    fn new(_: &mut Ports) -> Self {
        Vec::new()
    }

    fn replica(&self, delivers: bool) -> Self {
        self.iter().map(|out| out.replica(delivers)).collect()
    }

    fn flush(&mut self, flush: Flush<'_>) {
        self.iter_mut().for_each(|out| out.flush(flush));
    }
}

macro_rules! tuple {
    ($($out:ident $index:tt),*) => {
        impl<$($out: Outputs),*> Outputs for ($($out,)*) {
            fn new(ports: &mut Ports) -> Self {
                ($($out::new(ports),)*)
            }

            fn replica(&self, delivers: bool) -> Self {
                ($(self.$index.replica(delivers),)*)
            }

            fn flush(&mut self, flush: Flush<'_>) {
                $(self.$index.flush(flush);)*
            }
        }
    };
}

impl Outputs for () {
    fn new(_: &mut Ports) -> Self {}

    fn replica(&self, _: bool) -> Self {}

    fn flush(&mut self, _: Flush<'_>) {}
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

/// Declares the outputs of a node, by name.
///
/// ```
/// flash_graph::outputs! {
///     /// What a sieve emits.
///     pub struct Sieved {
///         /// What stays.
///         coarse: u32,
///         /// What falls through.
///         fine: u32,
///     }
/// }
/// ```
/// The fields are [`Out<u32>`](crate::Out), and public.
#[macro_export]
macro_rules! outputs {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident {
        $($(#[$of_field:meta])* $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$attribute])*
        $visible struct $name {
            $($(#[$of_field])* pub $field: $crate::Out<$type>,)*
        }

        impl $crate::Outputs for $name {
            fn new(ports: &mut $crate::Ports) -> Self {
                Self { $($field: $crate::Outputs::new(ports.named(stringify!($field))),)* }
            }

            fn replica(&self, delivers: bool) -> Self {
                Self { $($field: $crate::Outputs::replica(&self.$field, delivers),)* }
            }

            fn flush(&mut self, flush: $crate::Flush<'_>) {
                $($crate::Outputs::flush(&mut self.$field, flush);)*
            }
        }
    };
}
