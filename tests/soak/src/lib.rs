//! Random graphs, tasks and launches on agents, each made from a seed, against models; and long runs of
//! C2MPI. A few hundred of them run with the tests; `cargo xtask soak` runs as many as one likes.

pub mod graphs;
pub mod halo;
pub mod process;
pub mod random;
pub mod ranks;
pub mod tasks;
