//! Programs of the HiCR model, each written once, and run over threads, processes and devices.
//!
//! | file | its programs |
//! |---|---|
//! | `detect.rs` | instances with one root; the topologies of all |
//! | `memory.rs` | copies: through all memory spaces, and between instances |
//! | `channels.rs` | the six kinds of channel; ping-pong |
//! | `objects.rs` | data objects, remote calls |
//! | `product.rs` | a product of matrices as a function and as a kernel |
//! | `tasks.rs` | tasks in dependencies, many small ones |
//! | `jacobi.rs` | heat in a cube: tasks over blocks, planes exchanged between instances |
//! | `digits/` | digits recognised by a network |
//!
//! Each checks its own result, and the root reports it.

mod channels;
mod detect;
mod digits;
mod jacobi;
mod memory;
mod objects;
mod product;
mod tasks;

use flash_hicr::{Error, Managers};
use serde_json::Value;

/// What a program gives: the root's report, `Null` of the others.
pub type Outcome = Result<Value, Error>;

/// A program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// The instances that it needs at least.
    pub instances: usize,
    /// Why it does not run over devices; `None`: it does.
    pub not_over_devices: Option<&'static str>,
    /// Runs this instance's part.
    pub run: fn(&Managers) -> Outcome,
}

const ONE_INSTANCE: Option<&str> = Some("it is between instances, and devices are none");
const FUNCTIONS: Option<&str> = Some("its tasks are functions, and devices run kernels");

/// All of them.
pub const PROGRAMS: [Program; 13] = [
    Program {
        name: "detect",
        shows: "the instances, of which one is the root, and what it has",
        instances: 1,
        not_over_devices: None,
        run: detect::detect,
    },
    Program {
        name: "topologies",
        shows: "the topologies of all instances, gathered by remote calls",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: detect::topologies,
    },
    Program {
        name: "spaces",
        shows: "an array that goes through every memory space and comes back",
        instances: 1,
        not_over_devices: None,
        run: memory::spaces,
    },
    Program {
        name: "put-get",
        shows: "copies to and from slots of others, found by tag and key, and their bounds",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: memory::put_get,
    },
    Program {
        name: "channels",
        shows: "the six kinds of channel: depths, a full buffer, its end, wrong sizes",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: channels::channels,
    },
    Program {
        name: "ping-pong",
        shows: "messages from 1 B to 64 MiB there and back, and how long they take",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: channels::ping_pong,
    },
    Program {
        name: "gemm",
        shows: "a product of matrices on every compute resource, as a function or as a kernel",
        instances: 1,
        not_over_devices: None,
        run: product::gemm,
    },
    Program {
        name: "objects",
        shows: "data that is published, got twice and in parts, and destroyed",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: objects::objects,
    },
    Program {
        name: "calls",
        shows: "remote calls with arguments and results of any size, and how they fail",
        instances: 2,
        not_over_devices: ONE_INSTANCE,
        run: objects::calls,
    },
    Program {
        name: "mnist",
        shows: "2,000 written digits recognised by a network, on every compute resource",
        instances: 1,
        not_over_devices: None,
        run: digits::mnist,
    },
    Program {
        name: "tasks",
        shows: "tasks that come after each other, added in no order, as coroutines and as threads",
        instances: 1,
        not_over_devices: FUNCTIONS,
        run: tasks::tasks,
    },
    Program {
        name: "fibonacci",
        shows: "F(24) by 150,049 tasks that wait for each other, and how long they take",
        instances: 1,
        not_over_devices: FUNCTIONS,
        run: tasks::fibonacci,
    },
    Program {
        name: "jacobi",
        shows: "heat in a cube, in slabs of the instances: tasks over blocks, exchanged planes",
        instances: 1,
        not_over_devices: FUNCTIONS,
        run: jacobi::jacobi,
    },
];

/// The program of a name.
pub fn program(name: &str) -> Option<Program> {
    PROGRAMS.into_iter().find(|program| program.name == name)
}

/// An error that says what was expected.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Error> {
    match found == expected {
        true => Ok(()),
        false => Err(wrong(what, format!("expected {expected:?}, found {found:?}"))),
    }
}

/// That something is refused, with a text that has these words.
fn refused<T>(what: &str, outcome: Result<T, Error>, words: &str) -> Result<(), Error> {
    match outcome {
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(wrong(what, format!("expected an error with `{words}`, found: {error}"))),
        Ok(_) => Err(wrong(what, format!("expected an error with `{words}`, found none"))),
    }
}

fn wrong(what: impl Into<String>, why: impl Into<String>) -> Error {
    Error::Refused { what: what.into(), why: why.into() }
}

/// The first memory space, which all managers of the host have.
fn host_space(hicr: &Managers) -> Result<flash_hicr::Space, Error> {
    let spaces = hicr.memory.spaces()?;
    spaces.into_iter().next().ok_or_else(|| wrong("the memory of the host", "there is none"))
}

/// A report of the root alone.
fn of_root(hicr: &Managers, report: Value) -> Outcome {
    Ok(if hicr.instances.current().is_root() { report } else { Value::Null })
}
