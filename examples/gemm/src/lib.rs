//! The product of two matrices in windows of tiles, as a dataflow graph.

mod data;
mod ledger;
pub mod plan;
pub mod product;
pub mod windows;
