//! Dataflow graphs on the worker threads of FLASH.
//!
//! ```
//! use flash_graph::Graph;
//!
//! let g = Graph::new("words");
//! let (lines, counts) = (g.input::<String>("lines"), g.output::<usize>("counts"));
//! let count = g.map("count", |line: String| line.split_whitespace().count()).replicas(2);
//! g.edge(&lines, &count);
//! g.edge(&count.out, &counts);
//!
//! let run = g.start()?;
//! run.push_all(&lines, ["to be or", "not to be"].map(String::from))?;
//! run.close();
//! assert_eq!(run.results(&counts).sum::<usize>(), 6);
//! run.wait()?;
//! # Ok::<(), flash_graph::Error>(())
//! ```
//!
//! Nodes are closures ([`Graph::map`], [`Graph::each`]) or values of a type that is a [`Node`]. Edges are
//! checked by the compiler. There is no thread per node: ready nodes are run by the threads that wait for the
//! graph, and by the workers of the process. `docs/graphs.md` is the guide, `README.md` beside this crate
//! says why it is as it is.

mod asked;
mod cell;
mod check;
mod component;
mod dedicated;
mod devices;
mod dot;
mod error;
mod exit;
mod graph;
mod guard;
mod input;
mod lane;
mod layout;
mod lock;
mod node;
mod nodes;
mod picture;
mod pool;
mod port;
mod run;
mod schedule;
mod signal;
mod strand;
mod svg;
mod sync;
mod times;
mod trace;
mod wait;
mod word;
mod workers;

pub use devices::{Route, Router, devices_of};
pub use error::{Error, GraphError, PushError};
pub use exit::Output;
pub use graph::{EdgeFrom, EdgeTo, Graph, NodeRef};
pub use input::Input;
pub use node::{Cx, Later, Node, Receive};
pub use nodes::{ClosureOf, Source};
pub use picture::Picture;
pub use pool::{Pool, Pooled};
pub use port::{Out, Outputs};
pub use run::{Results, Run};
pub use strand::Shared;

#[doc(hidden)]
pub use graph::{Begins, Ends};
#[doc(hidden)]
pub use port::{Flush, Ports};
