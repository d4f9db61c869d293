//! A graph that runs does not change.

use flash_graph::{Error, Graph};

fn main() -> Result<(), Error> {
    let g = Graph::new("wrong");
    let (numbers, same) = (g.input::<u32>("numbers"), g.output::<u32>("same"));
    g.edge(&numbers, &same);
    let run = g.start()?;
    let other = g.output::<u32>("other");
    g.edge_of_copies(&numbers, &other);
    run.wait()?;
    Ok(())
}
