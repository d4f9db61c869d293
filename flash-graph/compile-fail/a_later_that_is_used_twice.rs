//! What a node has begun ends once.

use flash_graph::{Cx, Graph, Out};
use std::thread;

fn main() {
    let g = Graph::new("wrong");
    g.each("ask", |x: u32, out: &mut Out<u32>, cx: &mut Cx<'_>| {
        let mut later = cx.later(out);
        thread::spawn(move || later.out.emit(x));
        later.fail("it took too long");
        Ok(())
    });
}
