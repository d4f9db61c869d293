//! Data go from thread to thread.

use flash_graph::Graph;
use std::rc::Rc;

fn main() {
    let g = Graph::new("wrong");
    g.input::<Rc<u32>>("numbers");
}
