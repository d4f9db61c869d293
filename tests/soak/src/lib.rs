//! Random graphs, tasks and launches on agents, each made from a seed, against models. A few hundred of them
//! run with the tests; `cargo xtask soak` runs as many as one likes.

pub mod graphs;
pub mod random;
pub mod ranks;
pub mod tasks;
