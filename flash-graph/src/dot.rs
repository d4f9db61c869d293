//! Pictures in the language of Graphviz.

use crate::picture::{EdgeView, Form, NodeView, View};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

pub(crate) fn draw(view: &View<'_>) -> String {
    let mut text =
        format!("digraph {} {{\n  rankdir=LR;\n  node [style=filled, fillcolor=white];\n", quoted(view.name));
    let mut root = Scope::default();
    for (index, node) in view.nodes.iter().enumerate() {
        root.at(node.name).lines.push(vertex(index, node, view.elapsed));
    }
    root.write(&mut text, 1, &mut 0);
    for edge in &view.edges {
        let _ = writeln!(text, "  {}", arrow(edge));
    }
    text.push_str("}\n");
    text
}

fn vertex(index: usize, node: &NodeView<'_>, elapsed: Option<Duration>) -> String {
    let mut label = node.last_name().to_string();
    if node.replicas > 1 {
        let _ = write!(label, " x {}", node.replicas);
    }
    for line in node.lines(elapsed) {
        let _ = write!(label, "\n{line}");
    }
    let shape = match node.form {
        Form::Node => "box",
        Form::Source => "house",
        Form::Input | Form::Output => "cds",
    };
    let mut style = String::new();
    if let Some(elapsed) = elapsed {
        let [busy, room, pool] = node.shares(elapsed);
        // Red by how busy it is; a border in the colour of what it waits for.
        if busy > 0.0 {
            let _ = write!(style, ", fillcolor=\"0.02 {:.2} 1.0\"", 0.7 * busy);
        }
        let border = if room > pool { "blue" } else { "orange" };
        if room.max(pool) >= 0.05 {
            let _ = write!(style, ", color={border}, penwidth=3");
        }
    }
    format!("n{index} [shape={shape}, label={}{style}];", quoted(&label))
}

fn arrow(edge: &EdgeView<'_>) -> String {
    let style = if edge.copies { ", style=dashed" } else { "" };
    format!("n{} -> n{} [label={}{style}];", edge.from, edge.to, quoted(&edge.lines().join("\n")))
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

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', " ");
    format!("\"{}\"", text.replace('\0', " "))
}
