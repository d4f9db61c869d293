//! Loom models of FLASH's waiting code: every interleaving, and every value that the memory model allows a
//! load to see, within the bounds of each model.
//!
//! `cargo test -p flash-loom --features loom --release`. Without the feature
//! this crate is empty.

#[cfg(all(test, feature = "loom"))]
mod asynchronous;
#[cfg(all(test, feature = "loom"))]
mod event;
#[cfg(all(test, feature = "loom"))]
mod graph;
#[cfg(all(test, feature = "loom"))]
mod incoming;
#[cfg(all(test, feature = "loom"))]
mod lanes;
#[cfg(all(test, feature = "loom"))]
mod memory;
#[cfg(all(test, feature = "loom"))]
mod net;
#[cfg(all(test, feature = "loom"))]
mod residence;
#[cfg(all(test, feature = "loom"))]
mod room;
#[cfg(all(test, feature = "loom"))]
mod tasks;
#[cfg(all(test, feature = "loom"))]
mod team;

/// Explores `model`, with at most `preemptions` preemptions in an execution: a thread is interrupted though
/// it could go on. (Waiting costs none.)
#[cfg(all(test, feature = "loom"))]
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = Some(std::env::var("PB").map_or(preemptions, |v| v.parse().unwrap()));
    builder.check(model);
}
