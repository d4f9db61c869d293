//! The suite's kernels. They are small, and the result of each shows by itself whether the backend kept one
//! promise.

use flash_core::KernelDefinition;
use flash_core::kernel::views::{
    Item, Max, Phased, Read, ReadWrite, Reduce, Row, Scatter, Sum, Whole, Write,
};
use flash_core::kernel::{
    CpuFunction, CpuItem, CpuSpan, CpuWhole, DeviceCode, ImplementationEntry, Index, KernelDefinition, Space,
    Span, Threads, cpu_implementation, device_implementation,
};
use flash_types::abi::Implementation;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Adds 1 to every work item's own element.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.count", dims(x, y, z))]
pub struct Count<'a> {
    /// Extents of the array along x and y.
    nx: u64,
    ny: u64,
    hits: Item<'a, ReadWrite<u32>>,
}

/// Door `item`.
struct ByItem;
/// Door `span`.
struct BySpan;
/// Door `whole`.
struct ByWhole;

impl CpuItem<Count<'_>> for ByItem {
    fn item(_: Index<3>, k: CountItem<'_>) {
        *k.hits += 1;
    }
}

impl CpuSpan<Count<'_>> for BySpan {
    fn span(run: Span<3>, k: CountSpan<'_>) {
        for i in 0..run.len() {
            k.hits[i] += 1;
        }
    }
}

impl CpuWhole<Count<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<3>>, k: CountWhole<'_>, threads: Threads<'_>) {
        let (nx, ny) = (k.nx as usize, k.ny as usize);
        let hits = k.hits;
        let parts = [const { AtomicU32::new(0) }; 37];
        // Known and unknown costs, small and large.
        for (times, ns) in (1..).zip([0.0, 1.0, 1e6, -1.0, f32::NAN, f32::INFINITY]) {
            threads.each(parts.len(), ns, |part| {
                parts[part].iter().for_each(|part| _ = part.fetch_add(1, Relaxed));
            });
            let once = parts.iter().all(|part| part.load(Relaxed) == times);
            assert!(once, "`each` goes through all of it once, {times} times: {parts:?}");
        }
        threads.install(move || space.for_each(|ix| hits[ix[0] + nx * (ix[1] + ny * ix[2])] += 1));
    }
}

/// Counts the work items of each step, and what each of them saw of the step before.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.drain", dims(x, step), group_by(step))]
pub struct Drain<'a> {
    /// Per step.
    done: Scatter<'a, u64>,
    /// Items of the step before that were done when this one ran.
    before: Item<'a, Write<u64>>,
    /// Items of the step after that were done.
    after: Item<'a, Write<u64>>,
}

impl CpuItem<Drain<'_>> for ByItem {
    fn item(ix: Index<2>, k: DrainItem<'_>) {
        let step = ix[Drain::STEP];
        k.before.set(if step > 0 { k.done.load(step - 1) } else { 0 });
        k.after.set(if step + 1 < k.done.len() { k.done.load(step + 1) } else { 0 });
        k.done.add(step, 1);
    }
}

/// Every element becomes its right neighbour's, as it was, plus 1.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.shift", dims(x, step), sort_by(step))]
pub struct Shift<'a> {
    #[along(x)]
    values: Phased<'a, u64>,
}

impl CpuItem<Shift<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: ShiftItem<'_>) {
        let next = (ix[0] + 1) % k.values.len();
        let value = k.values.get(next) + 1;
        k.values.set(value);
    }
}

/// One buffer, read in one stage and written in the next.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.stages", dims(x, stage, step), group_by(stage))]
pub struct Stages<'a> {
    #[along(x)]
    #[phased(stage = [read, write])]
    values: Phased<'a, u64>,
    #[along(x)]
    sums: Item<'a, ReadWrite<u64>>,
}

impl CpuItem<Stages<'_>> for ByItem {
    fn item(ix: Index<3>, mut k: StagesItem<'_>) {
        match ix[Stages::STAGE] {
            0 => *k.sums = (0..k.values.len()).map(|i| k.values.get(i)).fold(0, u64::wrapping_add),
            _ => k.values.set(k.sums.wrapping_add(ix[0] as u64)),
        }
    }
}

/// A struct, by value.
#[derive(Clone, Copy, Debug, PartialEq, flash_core::kernel::Element)]
#[repr(C)]
pub struct Mixed {
    /// Anything.
    pub a: f64,
    /// Anything.
    pub b: [u16; 3],
    /// Anything.
    pub c: u16,
}

/// Scalars of every size, a struct, a table, rows.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.values", dims(x))]
pub struct Values<'a> {
    a: u8,
    b: i16,
    c: u32,
    d: u64,
    e: f32,
    f: f64,
    g: [f32; 3],
    h: Mixed,
    table: Whole<'a, Read<Mixed>>,
    rows: Item<'a, Read<Row<u16>>>,
    numbers: Item<'a, Write<[f64; 4]>>,
    sums: Item<'a, Write<Row<u64>>>,
}

impl CpuItem<Values<'_>> for ByItem {
    fn item(ix: Index<1>, k: ValuesItem<'_>) {
        let scalars = f64::from(k.a) + f64::from(k.b) + f64::from(k.c) + k.d as f64;
        let floats = f64::from(k.e) + k.f + f64::from(k.g[0]) + f64::from(k.g[1]) + f64::from(k.g[2]);
        let structs = k.h.a + f64::from(k.h.b[2]) + f64::from(k.h.c);
        let table: f64 = k.table.iter().map(|m| m.a + f64::from(m.c)).sum();
        k.numbers.set([scalars, floats, structs, table + ix[0] as f64]);
        let sum: u64 = k.rows.iter().map(|&v| u64::from(v)).sum();
        k.sums[0] = sum;
        k.sums[1] = k.rows.len() as u64;
    }
}

/// Fails at one work item.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.fail", dims(x))]
pub struct Fail<'a> {
    at: u64,
    out: Item<'a, ReadWrite<u32>>,
}

impl CpuItem<Fail<'_>> for ByItem {
    fn item(ix: Index<1>, k: FailItem<'_>) {
        assert!(ix[0] as u64 != k.at, "work item {} fails on purpose", ix[0]);
        *k.out += 1;
    }
}

/// A sum that is rounded, the largest value, and the count of each remainder.
#[derive(KernelDefinition)]
#[kernel(name = "conformance.tally", dims(x, step), sort_by(step))]
pub struct Tally<'a> {
    sum: Reduce<'a, ReadWrite<f64>, Sum>,
    largest: Reduce<'a, Write<u64>, Max>,
    counts: Reduce<'a, Write<[u32]>, Sum>,
}

/// The term of a work item of `Tally` in the sum.
pub fn tallied(x: u64, step: u64) -> f64 {
    1.0 / (1 + x + 7 * step) as f64
}

impl CpuItem<Tally<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: TallyItem<'_>) {
        let (x, step) = (ix[0] as u64, ix[1] as u64);
        k.sum.put(tallied(x, step));
        k.largest.put(x ^ 0x55);
        k.counts.put(ix[0] % k.counts.len(), 1);
    }
}

impl CpuSpan<Tally<'_>> for BySpan {
    fn span(run: Span<2>, mut k: TallySpan<'_>) {
        for x in run.range() {
            k.sum.put(tallied(x as u64, run.first()[1] as u64));
            k.largest.put(x as u64 ^ 0x55);
            k.counts.put(x % k.counts.len(), 1);
        }
    }
}

impl CpuWhole<Tally<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<2>>, k: TallyWhole<'_>, threads: Threads<'_>) {
        threads.install(move || {
            for (rows, mut sum) in k.sum.into_blocks() {
                space.part(rows).for_each(|ix| sum.put(tallied(ix[0] as u64, ix[1] as u64)));
            }
            for (rows, mut largest) in k.largest.into_blocks() {
                space.part(rows).for_each(|ix| largest.put(ix[0] as u64 ^ 0x55));
            }
            for (rows, mut counts) in k.counts.into_blocks() {
                space.part(rows).for_each(|ix| counts.put(ix[0] % counts.len(), 1));
            }
        });
    }
}

/// Implementation `n` of the suite's kernels, registered by a module; see `conformance!`.
pub const fn implementation(n: usize, module: &'static str) -> ImplementationEntry {
    macro_rules! of {
        ($made:ident::<$kernel:ty>($($argument:expr),*)) => {
            (<$kernel as KernelDefinition>::NAME, || $made::<$kernel>($($argument),*))
        };
    }
    let (kernel, build): (&'static str, fn() -> &'static Implementation) = match n {
        0 => of!(made::<Count<'_>>(CpuFunction::item::<Count<'_>, ByItem>(), "item")),
        1 => of!(made::<Count<'_>>(CpuFunction::span::<Count<'_>, BySpan>(), "span")),
        2 => of!(made::<Count<'_>>(CpuFunction::whole::<Count<'_>, ByWhole>(), "whole")),
        3 => of!(made::<Drain<'_>>(CpuFunction::item::<Drain<'_>, ByItem>(), "item")),
        4 => of!(made::<Shift<'_>>(CpuFunction::item::<Shift<'_>, ByItem>(), "item")),
        5 => of!(made::<Stages<'_>>(CpuFunction::item::<Stages<'_>, ByItem>(), "item")),
        6 => of!(made::<Values<'_>>(CpuFunction::item::<Values<'_>, ByItem>(), "item")),
        7 => of!(made::<Tally<'_>>(CpuFunction::item::<Tally<'_>, ByItem>(), "item")),
        8 => of!(made::<Tally<'_>>(CpuFunction::span::<Tally<'_>, BySpan>(), "span")),
        9 => of!(made::<Tally<'_>>(CpuFunction::whole::<Tally<'_>, ByWhole>(), "whole")),
        11 => of!(source::<Count<'_>>("opencl", "", &[])),
        12 => of!(source::<Drain<'_>>("opencl", "", &[])),
        13 => of!(source::<Shift<'_>>("opencl", "", &[])),
        14 => of!(source::<Stages<'_>>("opencl", "", &[])),
        15 => of!(source::<Values<'_>>("opencl", "cl_khr_fp64", &[])),
        16 => of!(source::<Tally<'_>>("opencl", "cl_khr_fp64", &[])),
        17 => of!(source::<Fail<'_>>("opencl", "", &[])),
        18 => of!(source::<Count<'_>>("cuda", "", &[])),
        19 => of!(source::<Drain<'_>>("cuda", "", &["grid_barrier"])),
        20 => of!(source::<Shift<'_>>("cuda", "", &[])),
        21 => of!(source::<Stages<'_>>("cuda", "", &["grid_barrier"])),
        22 => of!(source::<Values<'_>>("cuda", "", &[])),
        23 => of!(source::<Tally<'_>>("cuda", "", &[])),
        24 => of!(source::<Fail<'_>>("cuda", "", &[])),
        _ => of!(made::<Fail<'_>>(CpuFunction::item::<Fail<'_>, ByItem>(), "item")),
    };
    ImplementationEntry { kernel, build, module }
}

fn made<D: KernelDefinition>(function: CpuFunction, name: &'static str) -> &'static Implementation {
    cpu_implementation::<D>(function, name, "cpu", 0, "", &[])
}

/// The kernels' text for devices with a kernel language of their own: one for all of them.
const SOURCE: &str = include_str!("kernels.c");

/// An implementation in a kernel language. It lives for ever.
fn source<D: KernelDefinition>(
    target: &'static str,
    requires: &'static str,
    flags: &[&'static str],
) -> &'static Implementation {
    device_implementation::<D>(&DeviceCode {
        target,
        name: "item",
        priority: 0,
        binary: false,
        files: &[("kernels.c", SOURCE.as_bytes())],
        beside: file!(),
        defines: &[],
        texts: &[("requires", requires)],
        numbers: &[],
        flags: &[&["cooperating"], flags].concat(),
        messages: &[],
        facts: &[],
    })
}
