//! Pictures of graphs, in the language of Graphviz: scopes as clusters, nodes with their counts, edges with
//! the type of their data.

use crate::graph::{Edge, Kind, Plan};
use crate::port::Origin;
use crate::schedule::Core;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a picture shows of a plan; counts come from the run.
pub(crate) struct Picture {
    name: String,
    nodes: Vec<Drawn>,
    inputs: Vec<String>,
    edges: Vec<Edge>,
}

struct Drawn {
    ports: Vec<String>,
    kind: Kind,
}

impl Picture {
    pub(crate) fn of(plan: &mut Plan) -> Picture {
        let nodes = plan.nodes.iter_mut();
        let nodes = nodes.map(|node| Drawn { ports: std::mem::take(&mut node.ports), kind: node.kind });
        Picture {
            name: std::mem::take(&mut plan.name),
            nodes: nodes.collect(),
            inputs: plan.inputs.iter_mut().map(|(name, _)| std::mem::take(name)).collect(),
            edges: std::mem::take(&mut plan.edges),
        }
    }

    /// The picture, with what the nodes have received so far.
    pub(crate) fn dot(&self, core: &Core) -> String {
        let mut text = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(&self.name));
        let mut root = Scope::default();
        for (index, input) in self.inputs.iter().enumerate() {
            let line = format!("i{index} [shape=cds, label={}];", quoted(last(input)));
            root.at(input).lines.push(line);
        }
        for (index, (node, entry)) in self.nodes.iter().zip(&core.nodes).enumerate() {
            let inboxes = entry.cell.inboxes();
            let taken: u64 = inboxes.iter().map(|inbox| inbox.taken).sum();
            let waiting: usize = inboxes.iter().map(|inbox| inbox.len).sum();
            let longest = inboxes.iter().map(|inbox| inbox.longest).max().unwrap_or(0);
            let mut label = last(&entry.name).to_string();
            if entry.replicas > 1 {
                let _ = write!(label, " x {}", entry.replicas);
            }
            let shape = match node.kind {
                Kind::Exit => "cds",
                Kind::Source => "house",
                Kind::Node => "box",
            };
            if node.kind != Kind::Source {
                let _ = write!(label, "\n{taken} taken, {waiting} waiting, {longest} at most");
            }
            root.at(&entry.name).lines.push(format!("n{index} [shape={shape}, label={}];", quoted(&label)));
        }
        root.write(&mut text, 1, &mut 0);
        for edge in &self.edges {
            let (from, port) = match edge.from {
                Origin::Input(input) => (format!("i{input}"), ""),
                Origin::Output(node, port) => {
                    let ports = &self.nodes[node as usize].ports;
                    let name = if ports.len() > 1 { ports[port].as_str() } else { "" };
                    (format!("n{node}"), name)
                }
            };
            let label = match port {
                "" => edge.datum.to_string(),
                port => format!("{port}: {}", edge.datum),
            };
            let style = if edge.copies { ", style=dashed" } else { "" };
            let _ = writeln!(text, "  {from} -> n{} [label={}{style}];", edge.to, quoted(&label));
        }
        text.push_str("}\n");
        text
    }
}

/// The nodes in a scope, and the scopes in it.
#[derive(Default)]
struct Scope {
    lines: Vec<String>,
    inner: BTreeMap<String, Scope>,
}

impl Scope {
    /// The scope of a node of this name.
    fn at(&mut self, name: &str) -> &mut Scope {
        match name.split_once('/') {
            None => self,
            Some((scope, rest)) => self.inner.entry(scope.to_string()).or_default().at(rest),
        }
    }

    fn write(&self, text: &mut String, depth: usize, clusters: &mut usize) {
        let indent = "  ".repeat(depth);
        for line in &self.lines {
            let _ = writeln!(text, "{indent}{line}");
        }
        for (name, scope) in &self.inner {
            let _ =
                writeln!(text, "{indent}subgraph cluster{clusters} {{\n{indent}  label={};", quoted(name));
            *clusters += 1;
            scope.write(text, depth + 1, clusters);
            let _ = writeln!(text, "{indent}}}");
        }
    }
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}
