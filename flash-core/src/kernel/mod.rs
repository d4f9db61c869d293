//! Kernel definitions: types that name a kernel and fix its arguments, dimensions and traits.
//!
//! A definition is a struct with `#[derive(KernelDefinition)]`; its fields are scalars and
//! [`views`]. It holds no code. Code is added, from any crate, by implementing one of the three
//! doors [`CpuItem`], [`CpuSpan`], [`CpuWhole`] for a unit type and registering it with `#[kernel]`.

mod definition;
mod device;
mod doors;
mod features;
pub(crate) mod implementation;
mod index;
pub mod order;
mod part;
mod queue;
pub(crate) mod shim;
pub mod views;

#[doc(inline)]
pub use crate::__partition_map as partition_map;
pub use definition::{ArgumentWriter, KernelDefinition};
pub(crate) use device::attribute;
pub use device::{DeviceCode, c_type, device_implementation};
pub use doors::{CpuItem, CpuSpan, CpuWhole, Space, Threads};
pub use features::cpu_has;
pub use implementation::{CpuFunction, ImplementationEntry, cpu_implementation};
pub use index::{Index, Rank, Span};
pub use order::{GroupBy, GroupTrait, SortBy, SortTrait};
#[doc(hidden)]
pub use part::PartitionMapEntry;
pub use part::{Boxes, Candidate, PartitionMap};
pub use queue::{DeviceCall, DeviceFunction, device_function};
pub use shim::{item_share, span_share, whole_share};

use bytemuck::Pod;

/// Plain data that may cross to a device: any [`Pod`] type.
///
/// # Examples
/// ```
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Particle { position: [f32; 3], mass: f32 }
/// fn is_element<T: flash_core::kernel::Element>() {}
/// is_element::<Particle>();
/// is_element::<[f64; 3]>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data",
    label = "must be a number, an array of numbers, or a struct with `#[repr(C)]` and `derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)`"
)]
pub trait Element: Pod + Send + Sync {}

#[diagnostic::do_not_recommend] // errors are about Element, not Pod
impl<T: Pod + Send + Sync> Element for T {}
