//! Index spaces: dimensions, the order in which their items run, and the phases between barriers.
//!
//! Dimensions ([`Dim`]) and traits ([`OrderTraits`]) become an [`Order`]: a nest of loops, never rows. Its
//! plain-data form ([`crate::abi::space::Space`]) is all that a kernel shim or a plugin sees. All code that
//! decodes one is written once, over [`SpaceRef`].

mod axes;
mod cut;
mod dims;
mod error;
mod order;
mod proof;
#[cfg(test)]
mod tests;
mod view;
mod walk;

pub use axes::{Axes, Axis};
pub use cut::with_probes;
pub use cut::{Cut, cut, cut_by, cut_dimension, may_cut, restrict, value_range};
pub use dims::{Dim, DimList, IndexValue, IntoBox, IntoDims, InvalidDim, Sequence, count_by, count_by_fn};
pub use error::IndexError;
pub use order::{Group, Order, OrderTraits};
pub use proof::{ProofFailure, item_is_exclusive};
pub use view::{SpaceRef, SpaceView};
pub use walk::{DynRun, DynRuns, Patch, Run, Runs};
