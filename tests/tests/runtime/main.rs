//! What a launch means: one module per subject, in the words of the specification.

mod asynchronous;
mod asynchronous_order;
mod by_name;
mod check_writes;
mod descriptors;
mod elements;
mod errors;
mod exactly_once;
mod failure;
mod host_tasks;
mod implementations;
mod keys;
mod limits;
mod memory;
mod model;
mod nbody;
mod nested;
mod options;
mod phased;
mod pipelines;
mod proofs;
mod recordings;
mod reduce;
mod scatter;
mod views;
mod windows;
