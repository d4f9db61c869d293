//! Small kernels, one for each use of an argument.

use crate::kernel::views::{Item, Phased, Read, ReadWrite, Row, Scatter, Whole, Write};
use crate::kernel::{CpuItem, CpuSpan, CpuWhole, Element, Index, Space, Span, Threads};
use crate::memory::FlashMemory;
use crate::{KernelDefinition, kernel};
use std::ops::{Add, Mul};

/// y = a x + y.
#[derive(KernelDefinition)]
#[kernel(name = "test.axpy", dims(x))]
pub struct Axpy<'a, T: Element + Mul<Output = T> + Add<Output = T>> {
    a: T,
    x: Item<'a, Read<T>>,
    y: Item<'a, ReadWrite<T>>,
}

pub struct Plain;

#[kernel(for(f32, u64))]
impl<T: Element + Mul<Output = T> + Add<Output = T>> CpuItem<Axpy<'_, T>> for Plain {
    fn item(_: Index<1>, k: AxpyItem<'_, T>) {
        *k.y = k.a * *k.x + *k.y;
    }
}

/// Writes a value everywhere; fails at index `fail`.
#[derive(KernelDefinition)]
#[kernel(name = "test.fill", dims(x))]
pub struct Fill<'a> {
    value: u64,
    fail: u64,
    out: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuSpan<Fill<'_>> for Plain {
    fn span(run: Span<1>, k: FillSpan<'_>) {
        k.out.fill(k.value);
        assert!(!run.range().contains(&(k.fail as usize)), "fails on purpose");
    }
}

/// The sum of everything, at one place.
#[derive(KernelDefinition)]
#[kernel(name = "test.sum", dims(x))]
pub struct Sum<'a> {
    data: Whole<'a, Read<u64>>,
    out: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuWhole<Sum<'_>> for Plain {
    fn whole(space: Space<'_, Index<1>>, k: SumWhole<'_>, threads: Threads<'_>) {
        let (data, out) = (k.data, k.out);
        threads.install(|| space.for_each(|ix| out[ix[0]] = data.iter().sum()));
    }
}

/// Every element becomes its right neighbour's, as it was, plus 1.
#[derive(KernelDefinition)]
#[kernel(name = "test.shift", dims(x, step), sort_by(step))]
pub struct Shift<'a> {
    #[along(x)]
    values: Phased<'a, u64>,
}

#[kernel]
impl CpuItem<Shift<'_>> for Plain {
    fn item(ix: Index<2>, mut k: ShiftItem<'_>) {
        let value = k.values.get((ix[0] + 1) % k.values.len()) + 1;
        assert_eq!(k.values.own(), k.values.was()[ix[0]]);
        k.values.set(value);
    }
}

/// The same through slices.
#[derive(KernelDefinition)]
#[kernel(name = "test.slide", dims(x, step), sort_by(step))]
pub struct Slide<'a> {
    #[along(x)]
    values: Phased<'a, u64>,
}

#[kernel]
impl CpuSpan<Slide<'_>> for Plain {
    fn span(run: Span<2>, mut k: SlideSpan<'_>) {
        let (was, own) = k.values.split();
        for (own, x) in own.iter_mut().zip(run.range()) {
            *own = was[(x + 1) % was.len()] + 1;
        }
    }
}

/// One buffer, read in one stage and written in the next.
#[derive(KernelDefinition)]
#[kernel(name = "test.stages", dims(x, stage), group_by(stage))]
pub struct Stages<'a> {
    #[along(x)]
    #[phased(stage = [read, write])]
    values: Phased<'a, u64>,
    #[along(x)]
    sums: Item<'a, ReadWrite<u64>>,
}

#[kernel]
impl CpuItem<Stages<'_>> for Plain {
    fn item(ix: Index<2>, mut k: StagesItem<'_>) {
        match ix[Stages::STAGE] {
            0 => *k.sums = k.values.was().iter().sum(),
            _ => k.values.set(*k.sums + ix[0] as u64),
        }
    }
}

/// Counts values.
#[derive(KernelDefinition)]
#[kernel(name = "test.histogram", dims(x))]
pub struct Histogram<'a> {
    data: Item<'a, Read<u64>>,
    counts: Scatter<'a, u32>,
    largest: Scatter<'a, f64>,
}

#[kernel]
impl CpuItem<Histogram<'_>> for Plain {
    fn item(_: Index<1>, k: HistogramItem<'_>) {
        k.counts.add(*k.data as usize % k.counts.len(), 1);
        k.largest.max(0, *k.data as f64);
    }
}

/// Rows, an array along one of two dimensions, and a grid.
#[derive(KernelDefinition)]
#[kernel(name = "test.grid", dims(x, y))]
pub struct Grid<'a> {
    #[along(y)]
    rows: Item<'a, Read<Row<u16>>>,
    #[along(y, x)]
    turned: Item<'a, Read<u64>>,
    grid: Item<'a, Write<[u64; 2]>>,
}

#[kernel]
impl CpuItem<Grid<'_>> for Plain {
    fn item(ix: Index<2>, k: GridItem<'_>) {
        let sum = k.rows.iter().map(|&v| u64::from(v)).sum();
        assert_eq!(*k.turned, 10 * ix[Grid::X] as u64 + ix[Grid::Y] as u64);
        k.grid.set([sum, *k.turned]);
    }
}

#[kernel(name = "spans", priority = 1)]
impl CpuSpan<Grid<'_>> for Plain {
    fn span(run: Span<2>, k: GridSpan<'_>) {
        for (i, out) in k.grid.iter_mut().enumerate() {
            let sum = k.rows.iter().map(|&v| u64::from(v)).sum();
            assert_eq!(k.turned.get(i), 10 * (run.first()[0] + i) as u64 + run.first()[1] as u64);
            *out = [sum, k.turned.get(i)];
        }
    }
}

/// Across each other: shapes show.
#[derive(KernelDefinition)]
#[kernel(name = "test.weave", dims(x, y))]
pub struct Weave<'a> {
    #[along(y, x)]
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

#[kernel]
impl CpuItem<Weave<'_>> for Plain {
    fn item(_: Index<2>, k: WeaveItem<'_>) {
        *k.to = k.to.wrapping_mul(3).wrapping_add(*k.from);
    }
}

/// Nothing implements it.
#[derive(KernelDefinition)]
#[kernel(name = "test.orphan", dims(x))]
pub struct Orphan<'a> {
    a: u64,
    out: Item<'a, Write<u64>>,
}

/// Does not write index 2, though it promised to.
#[derive(KernelDefinition)]
#[kernel(name = "test.lazy", dims(x))]
pub struct Lazy<'a> {
    out: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Lazy<'_>> for Plain {
    fn item(ix: Index<1>, k: LazyItem<'_>) {
        if ix[0] != 2 {
            k.out.set(0);
        }
    }
}

/// Attempts operations that kernels may not do.
#[derive(KernelDefinition)]
#[kernel(name = "test.nested", dims(x))]
pub struct Nested<'a> {
    out: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Nested<'_>> for Plain {
    fn item(_: Index<1>, k: NestedItem<'_>) {
        let memory = FlashMemory::from([1u64]);
        k.out.set(u64::from(matches!(memory.read(), Err(crate::Error::Nested))));
    }
}
