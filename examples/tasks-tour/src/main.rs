//! Short programs with tasks, one for each thing that they can do. Each checks its own result.
//!
//! | file | its programs |
//! |---|---|
//! | `order.rs` | what runs before, after and beside what |
//! | `sharing.rs` | values and resources that tasks share |
//! | `work.rs` | numbers, matrices and grids |

mod order;
mod sharing;
mod work;

use flash_examples::Stop;
use std::process::ExitCode;

const STOPS: [Stop; 17] = [
    Stop { name: "order", shows: "a graph runs b after a, and c after b", run: order::abc },
    Stop { name: "many", shows: "100,000 tasks at once", run: order::many },
    Stop { name: "suspension", shows: "10,000 tasks wait at once, on a few threads", run: order::suspension },
    Stop { name: "jobs", shows: "tasks that spawn tasks, and priorities", run: order::jobs },
    Stop { name: "one-worker", shows: "tasks that one worker runs", run: order::one_worker },
    Stop { name: "limit", shows: "fewer workers for a while, to save energy", run: order::limit },
    Stop { name: "callbacks", shows: "what becomes of a task, as it happens", run: order::callbacks },
    Stop { name: "mutex", shows: "a value that one task has at a time", run: sharing::mutex },
    Stop { name: "condvar", shows: "a queue between producers and consumers", run: sharing::condvar },
    Stop { name: "resources", shows: "tasks that need several of a list of things", run: sharing::resources },
    Stop {
        name: "pending",
        shows: "operations of something else: a thread, a kernel",
        run: sharing::pending,
    },
    Stop { name: "kernels", shows: "a graph whose tasks are kernels on a device", run: sharing::kernels },
    Stop { name: "service", shows: "a function that is called while tasks run", run: sharing::service },
    Stop { name: "fibonacci", shows: "F(24): 150,049 tasks", run: work::fibonacci },
    Stop { name: "matmul", shows: "a product of matrices, a task for each tile", run: work::matmul },
    Stop { name: "cholesky", shows: "a graph from accesses, kept and run again", run: work::cholesky },
    Stop { name: "jacobi", shows: "heat in a cube, a task for each block and step", run: work::jacobi },
];

fn main() -> ExitCode {
    let about = "A tour of tasks: short programs, one for each thing that they can do. Read them in \
                 examples/tasks-tour/src; docs/tasks.md explains.";
    flash_examples::tour("tasks-tour", about, &STOPS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_program_gives_what_it_should() {
        flash_examples::check(&super::STOPS);
    }
}
