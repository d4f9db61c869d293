//! Kernel definitions: types that name a kernel and fix its arguments, dimensions and traits.
//!
//! A definition is a struct with `#[derive(KernelDefinition)]`; its fields are scalars and
//! [`views`]. It holds no code. Code is added, from any crate, by implementing one of the four
//! doors [`CpuItem`], [`CpuTeam`], [`CpuSpan`], [`CpuWhole`] for a unit type and registering it with
//! `#[kernel]`.

pub(crate) mod closure;
mod contents;
mod definition;
mod device;
mod doors;
pub(crate) mod implementation;
mod index;
mod instructions;
pub mod order;
mod outcome;
mod part;
pub mod prelude;
mod queue;
mod recorded_as;
pub(crate) mod shim;
pub mod staging;
mod team;
pub mod views;

#[doc(inline)]
pub use crate::__contents_check as contents_check;
#[doc(inline)]
pub use crate::__partition_map as partition_map;
#[doc(hidden)] // for the kernel library
pub use crate::__recorded_as as recorded_as;
#[doc(hidden)]
pub use contents::ContentsCheckEntry;
pub use contents::{Contents, ContentsCheck, WrongContents};
pub use definition::{ArgumentWriter, KernelDefinition, OwnImplementation, descriptor_of};
#[doc(hidden)] // for `#[implementations]`
pub use device::{DeviceCode, c_type, device_implementation};
pub use doors::{CpuItem, CpuSpan, CpuWhole, Space, Threads};
pub use flash_backend::ImplementationEntry;
#[doc(no_inline)]
pub use flash_backend::{Failure, cpu_has, keep_float_state};
#[doc(inline)]
pub use flash_macros::{Staged, kernel_fn};
#[doc(no_inline)]
pub use flash_types::descriptor::Element;
pub(crate) use implementation::operation_of;
#[doc(hidden)] // for `#[kernel]`
pub use implementation::{CpuFunction, cpu_implementation};
pub use index::{Index, Rank, Span};
pub use order::{GroupBy, GroupTrait, SortBy, SortTrait};
#[doc(hidden)]
pub use outcome::{At, Outcome};
#[doc(hidden)]
pub use part::PartitionMapEntry;
pub use part::{Boxes, Candidate, PartitionMap};
#[doc(hidden)] // for `#[kernel]`
pub use queue::device_function;
pub use queue::{DeviceCall, DeviceFunction};
#[doc(hidden)]
pub use recorded_as::RecordedAsEntry;
#[cfg(feature = "recordings")]
pub(crate) use recorded_as::present_name;
#[doc(hidden)] // for `#[kernel]`
pub use shim::{item_share, span_share, whole_share};
pub use staging::Real;
pub use team::{Cells, CpuTeam, Team};
