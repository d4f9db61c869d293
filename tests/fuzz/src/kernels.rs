//! Kernels of three kinds, which do nothing that takes long.

use flash::kernel;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Sum, Window, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;

/// A window and a part of each array.
#[derive(KernelDefinition)]
#[kernel(name = "fuzz.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
pub struct Heat<'a> {
    factor: f32,
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

/// Accumulators.
#[derive(KernelDefinition)]
#[kernel(name = "fuzz.tally", dims(i))]
pub struct Tally<'a> {
    values: Item<'a, Read<u16>>,
    bins: Reduce<'a, ReadWrite<[u32]>, Sum>,
}

/// Two buffers, and a barrier between phases.
#[derive(KernelDefinition)]
#[kernel(name = "fuzz.shift", dims(i, step), group_by(step))]
pub struct Shift<'a> {
    #[along(i)]
    values: Phased<'a, u32>,
}

struct Plain;

#[kernel]
impl CpuItem<Heat<'_>> for Plain {
    fn item(ix: Index<2>, k: HeatItem<'_>) {
        let near = |x, y| k.from.at([x, y, 0]);
        let (x, y) = (ix[Heat::X], ix[Heat::Y]);
        k.to.set(near(x, y) + k.factor * (near(x - 1, y) + near(x + 1, y) - 2.0 * near(x, y)));
    }
}

#[kernel]
impl CpuItem<Tally<'_>> for Plain {
    fn item(_: Index<1>, mut k: TallyItem<'_>) {
        k.bins.put(usize::from(*k.values) % k.bins.len(), 1);
    }
}

#[kernel]
impl CpuItem<Shift<'_>> for Plain {
    fn item(ix: Index<2>, mut k: ShiftItem<'_>) {
        let value = k.values.get((ix[0] + 1) % k.values.len());
        k.values.set(value);
    }
}
