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

use anyhow::{Result, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use flash_examples::exit_code;
use std::process::ExitCode;
use std::time::Instant;

/// A program: its name, what it shows, and the function, which says in a line what came out.
struct Stop {
    name: &'static str,
    shows: &'static str,
    run: fn() -> Result<String>,
}

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

/// A tour of tasks: short programs, one for each thing that tasks can do. Without a name, all of them run.
/// Read them in examples/tasks-tour/src; docs/tasks.md explains.
#[derive(Parser)]
#[command(name = "tasks-tour", after_help = stops())]
struct Arguments {
    /// Which programs.
    #[arg(value_parser = PossibleValuesParser::new(STOPS.map(|stop| stop.name)), hide_possible_values = true)]
    names: Vec<String>,
    /// Lists the programs.
    #[arg(long)]
    list: bool,
}

fn stops() -> String {
    let lines = STOPS.iter().map(|stop| format!("  {:<11} {}\n", stop.name, stop.shows));
    format!("Programs:\n{}", lines.collect::<String>())
}

fn main() -> ExitCode {
    exit_code("tasks-tour", tour(&Arguments::parse()))
}

fn tour(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        print!("{}", stops());
        return Ok(());
    }
    let wanted = |stop: &&Stop| arguments.names.is_empty() || arguments.names.iter().any(|n| n == stop.name);
    for stop in STOPS.iter().filter(wanted) {
        let start = Instant::now();
        let said = (stop.run)()?;
        println!("{:<11} {:>9.3} ms  {said}", stop.name, start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// An error that says what was expected.
fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<()> {
    ensure!(found == expected, "expected {expected:?}, found {found:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_gives_what_it_should() {
        for stop in STOPS {
            for _ in 0..3 {
                (stop.run)().unwrap_or_else(|error| panic!("{}: {error:#}", stop.name));
            }
        }
    }

    #[test]
    fn the_help_names_each_program() {
        use clap::CommandFactory;
        let help = Arguments::command().render_help().to_string();
        assert!(STOPS.iter().all(|stop| help.contains(stop.name) && help.contains(stop.shows)), "{help}");
    }
}
