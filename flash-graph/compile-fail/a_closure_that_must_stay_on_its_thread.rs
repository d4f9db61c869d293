//! Nodes run on any thread, so their closures are sent there.

use flash_graph::Graph;
use std::rc::Rc;

fn main() {
    let g = Graph::new("wrong");
    let factor = Rc::new(2);
    g.map("scale", move |x: u32| x * *factor);
}
