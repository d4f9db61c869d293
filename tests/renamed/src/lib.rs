//! Nothing but the facade, by another name: the macros must find it. That this crate builds is the
//! test.

use fl::__core::kernel::views::{Item, Read, Whole, Write};
use fl::__core::kernel::{CpuItem, Index};
use fl::__core::{KernelDefinition, kernel};

/// Copies one element.
#[derive(KernelDefinition)]
#[kernel(name = "renamed.broadcast", dims(x))]
pub struct Broadcast<'a> {
    from: Whole<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

/// The readable version.
pub struct Plain;

#[kernel]
impl CpuItem<Broadcast<'_>> for Plain {
    fn item(_: Index<1>, k: BroadcastItem<'_>) {
        k.to.set(k.from[0]);
    }
}
