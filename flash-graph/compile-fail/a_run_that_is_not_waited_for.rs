//! The errors of a graph come out of `wait`.

#![deny(unused_must_use)]

use flash_graph::{Graph, GraphError};

fn main() -> Result<(), GraphError> {
    let g = Graph::new("forgotten");
    g.start()?;
    Ok(())
}
