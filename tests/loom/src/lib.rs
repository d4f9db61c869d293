//! Loom models of what waits in FLASH: every interleaving, and every value that
//! the memory model allows a load to see, within the bounds each model states.
//!
//! `cargo test -p flash-loom --features loom --release`. Without the feature
//! this crate is empty.

#[cfg(all(test, feature = "loom"))]
mod team;
