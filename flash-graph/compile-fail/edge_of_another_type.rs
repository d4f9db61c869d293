//! The node takes another type than the edge brings.

use flash_graph::Graph;

fn main() {
    let g = Graph::new("wrong");
    let length = g.map("length", |text: String| text.len());
    let twice = g.map("twice", |x: f32| 2.0 * x);
    g.edge(&length.out, &twice);
}
