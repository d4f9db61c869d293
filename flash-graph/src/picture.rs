//! Pictures of graphs: what they show, taken from a graph that is built, runs or has ended.
//!
//! A [`Picture`] is a [`Shape`], which does not change but for the time of the end, and the core of the
//! run, which it keeps alive. A [`View`] is what it shows at one moment. It is made without stopping the
//! graph: each inbox is locked for itself and counters are just read, so its numbers need not be of one
//! instant. `dot.rs` and `svg.rs` draw views, and know nothing of the run.

use crate::graph::{Edge, Kind, Plan, Planned};
use crate::lane::Filled;
use crate::port::Origin;
use crate::schedule::Core;
use crate::times::{self, For};
use crate::{dot, svg};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A picture of a graph, of the moment at which it is drawn: made by
/// [`Graph::picture`](crate::Graph::picture) or [`Run::picture`](crate::Run::picture). It may be kept after
/// the graph has ended.
///
/// Scopes are boxes around their nodes. A node has its replicas, the number of data that it has taken, how
/// long it was busy, and how long it waited though it had data: for room where they go or its turn on a
/// strand, and for things of a pool. An edge has the type of its data and the length of its queue, now and at
/// most.
///
/// ```
/// use flash_graph::Graph;
/// let g = Graph::new("squares");
/// let (numbers, squares) = (g.input::<u64>("numbers"), g.output::<u64>("squares"));
/// let square = g.map("square", |x: u64| x * x);
/// g.edge(&numbers, &square);
/// g.edge(&square.out, &squares);
/// assert!(g.picture().dot().starts_with("digraph \"squares\" {"));
///
/// let run = g.start()?;
/// let picture = run.picture();
/// run.push_all(&numbers, 0..10)?;
/// run.wait()?;
/// assert!(picture.svg().contains("10 data"));
/// # Ok::<(), flash_graph::Error>(())
/// ```
#[derive(Clone)]
pub struct Picture {
    shape: Arc<Shape>,
    /// The run, if there is one.
    core: Option<Arc<Core>>,
}

/// What does not change while a graph runs.
struct Shape {
    name: String,
    nodes: Vec<Drawn>,
    inputs: Vec<String>,
    edges: Vec<Edge>,
    /// When it started and ended, see [`times::now`]; 0: not yet.
    started: u64,
    ended: AtomicU64,
}

struct Drawn {
    /// Of a graph that has not started; later the core has both.
    name: String,
    replicas: u32,
    ports: Vec<String>,
    kind: Kind,
}

/// What a picture shows at one moment.
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    /// Nodes, and after them the inputs.
    pub(crate) nodes: Vec<NodeView<'a>>,
    pub(crate) edges: Vec<EdgeView<'a>>,
    /// How long it has run; `None` if it has not started.
    pub(crate) elapsed: Option<Duration>,
}

pub(crate) struct NodeView<'a> {
    /// With its scopes.
    pub(crate) name: &'a str,
    pub(crate) form: Form,
    pub(crate) replicas: u32,
    /// Data that it has taken.
    pub(crate) taken: u64,
    pub(crate) busy: Duration,
    pub(crate) waits_for_room: Duration,
    pub(crate) waits_for_pool: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Node,
    Source,
    Input,
    Output,
}

pub(crate) struct EdgeView<'a> {
    /// Indices of nodes.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The name of the output, if its node has several.
    pub(crate) port: Option<&'a str>,
    pub(crate) datum: &'static str,
    pub(crate) copies: bool,
    /// Of a graph that has started.
    pub(crate) queue: Option<Filled>,
}

impl Picture {
    /// Of a graph that is not started.
    pub(crate) fn of(plan: &Plan) -> Picture {
        let drawn = |node: &Planned| {
            let mut replicas = 1;
            node.cell.config(&mut |config| replicas = config.replicas as u32);
            Drawn { name: node.name.clone(), ports: node.ports.clone(), kind: node.kind, replicas }
        };
        let shape = Shape {
            name: plan.name.clone(),
            nodes: plan.nodes.iter().map(drawn).collect(),
            inputs: plan.inputs.iter().map(|(name, _)| name.clone()).collect(),
            edges: plan.edges.clone(),
            started: 0,
            ended: AtomicU64::new(0),
        };
        Picture { shape: Arc::new(shape), core: None }
    }

    /// Of a graph that starts, and needs its plan's names no more, except those of nodes, which the core has.
    pub(crate) fn of_run(mut plan: Shown, core: Arc<Core>) -> Picture {
        plan.0.started = times::now();
        Picture { shape: Arc::new(plan.0), core: Some(core) }
    }

    pub(crate) fn ended(&self) {
        self.shape.ended.store(times::now(), Ordering::Release);
    }

    /// True if both are of the same graph.
    pub(crate) fn is_of(&self, other: &Picture) -> bool {
        Arc::ptr_eq(&self.shape, &other.shape)
    }

    /// True if a file of this name is to be SVG.
    pub(crate) fn is_svg(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
    }

    /// The picture in the language of Graphviz: `dot -Tsvg`.
    pub fn dot(&self) -> String {
        dot::draw(&self.view())
    }

    /// The picture as SVG, for browsers and pages.
    pub fn svg(&self) -> String {
        svg::draw(&self.view())
    }

    /// The picture for a file of this name: SVG if the name ends in `.svg`, else the language of Graphviz.
    pub fn text(&self, path: impl AsRef<Path>) -> String {
        if Picture::is_svg(path.as_ref()) { self.svg() } else { self.dot() }
    }

    /// Writes its [`text`](Self::text) into a file that takes its place when it is whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        flash_trace::hooks::replace(path, |file| file.write_all(self.text(path).as_bytes()))
    }

    pub(crate) fn view(&self) -> View<'_> {
        let Shape { name, nodes, inputs, edges, started, .. } = &*self.shape;
        let now = match self.shape.ended.load(Ordering::Acquire) {
            0 => times::now(),
            ended => ended,
        };
        let mut drawn: Vec<NodeView<'_>> = nodes.iter().map(NodeView::of).collect();
        if let Some(core) = &self.core {
            for (view, entry) in drawn.iter_mut().zip(&core.nodes) {
                let parked = entry.parked.load(Ordering::Relaxed);
                (view.name, view.replicas) = (&entry.name, entry.replicas);
                view.taken = entry.cell.inboxes().iter().map(|inbox| inbox.taken).sum();
                view.busy = entry.cell.busy();
                view.waits_for_room = entry.waited.until(now, For::Room, parked);
                view.waits_for_pool = entry.waited.until(now, For::Pool, parked);
            }
        }
        drawn.extend(inputs.iter().map(|name| NodeView::bare(name, Form::Input, 1)));
        let edge = |edge: &'_ Edge| EdgeView {
            from: match edge.from {
                Origin::Output(node, _) => node as usize,
                Origin::Input(input) => nodes.len() + input as usize,
            },
            to: edge.to as usize,
            port: None,
            datum: edge.datum,
            copies: edge.copies,
            queue: self.core.as_ref().map(|_| edge.queue.filled()),
        };
        let port = |edge: &Edge| match edge.from {
            Origin::Output(node, port) => {
                let ports = &nodes[node as usize].ports;
                (ports.len() > 1).then(|| ports[port].as_str())
            }
            Origin::Input(_) => None,
        };
        let edges = edges.iter().map(|of| EdgeView { port: port(of), ..edge(of) }).collect();
        let elapsed = self.core.is_some().then(|| Duration::from_nanos(now.saturating_sub(*started)));
        View { name, nodes: drawn, edges, elapsed }
    }
}

/// What a picture needs of a plan whose nodes go to a run.
pub(crate) struct Shown(Shape);

impl Shown {
    pub(crate) fn of(plan: &mut Plan) -> Shown {
        let drawn = |node: &mut Planned| {
            let ports = std::mem::take(&mut node.ports);
            Drawn { name: String::new(), ports, kind: node.kind, replicas: 1 }
        };
        Shown(Shape {
            name: std::mem::take(&mut plan.name),
            nodes: plan.nodes.iter_mut().map(drawn).collect(),
            inputs: plan.inputs.iter_mut().map(|(name, _)| std::mem::take(name)).collect(),
            edges: std::mem::take(&mut plan.edges),
            started: 0,
            ended: AtomicU64::new(0),
        })
    }
}

impl<'a> NodeView<'a> {
    fn bare(name: &'a str, form: Form, replicas: u32) -> NodeView<'a> {
        let (busy, waits_for_room, waits_for_pool) = Default::default();
        NodeView { name, form, replicas, taken: 0, busy, waits_for_room, waits_for_pool }
    }

    fn of(drawn: &'a Drawn) -> NodeView<'a> {
        let form = match drawn.kind {
            Kind::Node => Form::Node,
            Kind::Source => Form::Source,
            Kind::Exit => Form::Output,
        };
        NodeView::bare(&drawn.name, form, drawn.replicas)
    }

    /// Its name without scopes.
    pub(crate) fn last_name(&self) -> &'a str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    /// The shares of its replicas' time that it was busy, waited for room, and for a pool.
    pub(crate) fn shares(&self, elapsed: Duration) -> [f64; 3] {
        let all = elapsed.as_secs_f64() * f64::from(self.replicas);
        let share = |time: Duration| if all > 0.0 { (time.as_secs_f64() / all).clamp(0.0, 1.0) } else { 0.0 };
        [self.busy, self.waits_for_room, self.waits_for_pool].map(share)
    }

    /// What is known of it, in lines.
    pub(crate) fn lines(&self, elapsed: Option<Duration>) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(elapsed) = elapsed else { return lines };
        if matches!(self.form, Form::Node | Form::Output) {
            lines.push(format!("{} data", self.taken));
        }
        if matches!(self.form, Form::Node | Form::Source) {
            let [_, room, pool] = self.shares(elapsed).map(|share| (100.0 * share).round());
            let share = (100.0 * self.shares(elapsed)[0]).round();
            lines.push(format!("busy {} ({share} %)", short_time(self.busy)));
            if !self.waits_for_room.is_zero() {
                lines.push(format!("waits for room {} ({room} %)", short_time(self.waits_for_room)));
            }
            if !self.waits_for_pool.is_zero() {
                lines.push(format!("waits for a pool {} ({pool} %)", short_time(self.waits_for_pool)));
            }
        }
        lines
    }
}

impl EdgeView<'_> {
    /// Its label, in lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let datum = short_type(self.datum);
        let mut lines = vec![self.port.map_or_else(|| datum.clone(), |port| format!("{port}: {datum}"))];
        if let Some(queue) = &self.queue {
            lines.push(match queue.len {
                0 => format!("at most {}", queue.longest),
                now => format!("{now} wait, at most {}", queue.longest),
            });
        }
        lines
    }
}

/// A time with three digits.
pub(crate) fn short_time(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| nanoseconds >= *unit).unwrap_or((1.0, "ns"));
    let value = nanoseconds / unit;
    match value {
        100.0.. => format!("{value:.0} {name}"),
        10.0.. => format!("{value:.1} {name}"),
        _ if name == "ns" => format!("{value:.0} {name}"),
        _ => format!("{value:.2} {name}"),
    }
}

/// The name of a type without the modules that it is in: `Vec<Tile>` of `alloc::vec::Vec<gemm::Tile>`.
pub(crate) fn short_type(full: &str) -> String {
    let (mut short, mut word) = (String::new(), String::new());
    let mut rest = full.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // What stands before it is a module, or the function that the type is in.
            ':' if rest.next_if_eq(&':').is_some() => {
                word.clear();
                if short.ends_with("}}") {
                    short.truncate(short.rfind("{{").unwrap_or(0));
                }
            }
            c if c.is_alphanumeric() || c == '_' => word.push(c),
            c => {
                short.push_str(&std::mem::take(&mut word));
                short.push(c);
            }
        }
    }
    short + &word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_times_are_shown_short() {
        let types = [
            ("u32", "u32"),
            ("alloc::vec::Vec<alloc::string::String>", "Vec<String>"),
            ("(gemm::Tile<f64>, [a::b::C; 3])", "(Tile<f64>, [C; 3])"),
            ("&'static [core::option::Option<()>]", "&'static [Option<()>]"),
            ("a::f::{{closure}}::Inner", "Inner"),
            ("dyn a::Any + core::marker::Send", "dyn Any + Send"),
        ];
        types.iter().for_each(|(full, short)| assert_eq!(short_type(full), *short));
        let of = |nanoseconds| short_time(Duration::from_nanos(nanoseconds));
        assert_eq!(
            [0, 999, 1_234, 45_678, 999_000_000].map(of),
            ["0 ns", "999 ns", "1.23 us", "45.7 us", "999 ms"]
        );
        assert_eq!(of(61_000_000_000), "61.0 s");
    }
}
