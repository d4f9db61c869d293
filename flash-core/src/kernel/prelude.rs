//! What almost every kernel needs: `use flash::kernel::prelude::*;`.
//!
//! # Examples
//! A definition, and one implementation of it:
//! ```
//! use flash_core::kernel::prelude::*;
//!
//! /// `y = a * x + y`.
//! #[derive(KernelDefinition)]
//! #[kernel(name = "saxpy", dims(i))]
//! struct Saxpy<'a> {
//!     a: f32,
//!     x: Item<'a, Read<f32>>,
//!     y: Item<'a, ReadWrite<f32>>,
//! }
//!
//! struct Plain;
//!
//! #[kernel]
//! impl CpuItem<Saxpy<'_>> for Plain {
//!     fn item(_: Index<1>, k: SaxpyItem<'_>) {
//!         *k.y += k.a * *k.x;
//!     }
//! }
//! # fn main() {}
//! ```

pub use super::staging::Real;
pub use super::views::{
    Block, Item, Max, Min, Phased, Ragged, Read, ReadWrite, Reduce, Row, Scatter, Sum, Tile, Uniform, Whole,
    Window, Write,
};
pub use super::{Boxes, Candidate, CpuItem, CpuSpan, CpuTeam, CpuWhole, Element, Index};
pub use super::{KernelDefinition, Space, Span, Team, Threads, partition_map};
pub use crate::memory::RowOffsets;
pub use flash_macros::{KernelDefinition, Staged, kernel, kernel_fn};
