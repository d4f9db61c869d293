//! Short programs with dataflow graphs, one for each thing that they can do. Each checks its own result.
//!
//! | file | its programs |
//! |---|---|
//! | `flow.rs` | how data go from node to node, and in which order |
//! | `blocks.rs` | matrices in blocks |
//! | `limits.rs` | bounded memory, and graphs that end before their time |
//! | `devices.rs` | kernels as nodes, and a part of a graph for each device |

mod blocks;
mod devices;
mod flow;
mod limits;

use flash_examples::Stop;
use std::process::ExitCode;

const STOPS: [Stop; 15] = [
    Stop { name: "order", shows: "replicas of a node, whose results keep their order", run: flow::order },
    Stop {
        name: "several",
        shows: "a node with several inputs and outputs, and a state",
        run: flow::several,
    },
    Stop { name: "cycle", shows: "data that go round until they are done", run: flow::cycle },
    Stop { name: "join", shows: "data of two ways that meet by their keys", run: flow::join },
    Stop { name: "priority", shows: "an inbox whose most urgent datum comes first", run: flow::priority },
    Stop { name: "shared", shows: "two nodes that share a state without a lock", run: flow::shared },
    Stop { name: "later", shows: "a node that answers later, from another thread", run: flow::later },
    Stop { name: "hadamard", shows: "a product element by element, block by block", run: blocks::hadamard },
    Stop { name: "product", shows: "a product of matrices: a pair, a product, a sum", run: blocks::product },
    Stop { name: "pool", shows: "a source that waits for one of four buffers", run: limits::pool },
    Stop { name: "cancel", shows: "a graph that is cancelled, and a time limit", run: limits::cancel },
    Stop { name: "error", shows: "an error and a panic, told at the end", run: limits::error },
    Stop { name: "stuck", shows: "a graph that cannot go on says why", run: limits::stuck },
    Stop { name: "kernel", shows: "launches of a kernel as a node", run: devices::kernel },
    Stop { name: "devices", shows: "a pipeline for each of two devices", run: devices::pipelines },
];

fn main() -> ExitCode {
    let about = "A tour of dataflow graphs: short programs, one for each thing that they can do. Read them in \
                 examples/graph-tour/src; docs/graphs.md explains.";
    flash_examples::tour("graph-tour", about, &STOPS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_program_gives_what_it_should() {
        flash_examples::check(&super::STOPS);
    }
}
