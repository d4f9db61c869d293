//! What all crates of FLASH speak of, and nothing that runs: the plugin interface ([`abi`]), index spaces
//! with their order and phases ([`index`]), elements, definitions and attributes in their erased form
//! ([`descriptor`]), and kinds of failures ([`Code`]).
//!
//! It stands below all others: host programs see it through `flash`, authors of kernels through
//! `flash-core`, authors of backends through `flash-backend`.

pub mod abi;
mod code;
pub mod descriptor;
pub mod index;

pub use code::Code;
