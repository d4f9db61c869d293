//! A graph may live longer than what is around it.

use flash_graph::Graph;

fn main() {
    let g = Graph::new("wrong");
    let factor = 2;
    g.map("scale", |x: u32| x * factor);
}
