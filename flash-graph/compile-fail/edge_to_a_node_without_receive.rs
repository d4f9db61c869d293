//! The node is a type that has no `Receive` for what the edge brings.

use flash_graph::{Cx, Error, Graph, Node, Out, Receive};

struct Sum(u64);

impl Node for Sum {
    type Out = Out<u64>;
}

impl Receive<u64> for Sum {
    fn receive(&mut self, x: u64, out: &mut Out<u64>, _: &mut Cx<'_>) -> Result<(), Error> {
        self.0 += x;
        out.emit(self.0);
        Ok(())
    }
}

fn main() {
    let g = Graph::new("wrong");
    let texts = g.input::<String>("texts");
    let sum = g.node("sum", |_| Sum(0));
    g.edge(&texts, &sum);
}
