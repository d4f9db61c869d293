//! The output of the graph is for another type.

use flash_graph::Graph;

fn main() {
    let g = Graph::new("wrong");
    let (a, c) = (g.input::<u32>("a"), g.output::<String>("c"));
    g.edge(&a, &c);
}
