//! An input takes data of its own type.

use flash_graph::{Error, Graph};

fn main() -> Result<(), Error> {
    let g = Graph::new("wrong");
    let (numbers, same) = (g.input::<u32>("numbers"), g.output::<u32>("same"));
    g.edge(&numbers, &same);
    let run = g.start()?;
    run.push(&numbers, "one")?;
    run.wait()?;
    Ok(())
}
