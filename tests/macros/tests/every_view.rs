//! Every view and door; the generated code is clean where everything is denied.
#![deny(warnings, missing_docs, unused, unsafe_op_in_unsafe_fn, private_interfaces)]

use flash_core::descriptor::{Access, View};
use flash_core::kernel::views::{
    Item, Max, Min, Phased, Read, ReadWrite, Reduce, ReduceOp, Row, Scatter, Sum, Whole, Write,
};
use flash_core::kernel::{CpuItem, CpuSpan, CpuWhole, Element, Index, Space, Span, Threads};
use flash_core::{KernelDefinition, kernel};

/// Numbers.
pub trait Real: Element + std::ops::Mul<Output = Self> {}
impl Real for f32 {}
impl Real for f64 {}

/// Hides the access.
pub type Most<T> = Write<[T]>;

/// All views.
#[derive(KernelDefinition)]
#[kernel(name = "every.view", dims(x, y))]
pub struct Every<'a, T: Real>
where
    T: PartialOrd,
    Sum: ReduceOp<T>,
{
    /// A scalar.
    scale: T,
    table: Whole<'a, Read<[T; 3]>>,
    /// In, one per item.
    from: Item<'a, Read<T>>,
    rows: Item<'a, Read<Row<T>>>,
    #[along(x)]
    both: Item<'a, ReadWrite<T>>,
    #[along(x)]
    was: Phased<'a, T>,
    bins: Scatter<'a, u32>,
    sum: Reduce<'a, ReadWrite<T>, Sum>,
    least: Reduce<'a, ReadWrite<[i32]>, Min>,
    most: Reduce<'a, Most<u8>, Max>,
    to: Item<'a, Write<T>>,
    #[along(y)]
    out_rows: Item<'a, Write<Row<T>>>,
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel(for(f32, f64))]
impl<T: Real> CpuItem<Every<'_, T>> for ByItem
where
    T: PartialOrd,
    Sum: ReduceOp<T>,
{
    fn item(_: Index<2>, mut k: EveryItem<'_, T>) {
        let [first, ..] = k.table[0];
        *k.both = *k.from * k.scale * k.rows[0] * first;
        k.was.set(k.was.get(0));
        k.bins.add(0, 1);
        k.sum.put(*k.from);
        k.least.put(0, -1);
        k.most.put(k.most.len() - 1, 9);
        k.out_rows.fill(k.scale);
        k.to.set(k.scale);
    }
}

#[kernel(for(f32), priority = 10, cpu_features = "sse2", name = "runs")]
impl CpuSpan<Every<'_, f32>> for BySpan {
    fn span(run: Span<2>, mut k: EverySpan<'_, f32>) {
        for i in 0..run.len() {
            k.to[i] = k.from[i] * k.scale + k.rows.row(i)[0] + k.table[0][1];
            k.both[i] += 1.0;
        }
        k.was.own()[0] = 1.0;
        k.bins.add(0, 1);
        k.sum.put(1.0);
        k.least.put(0, -1);
        k.most.put(0, 9);
        k.out_rows[0] = 1.0;
    }
}

#[kernel(vendor = "AuthenticAMD")]
impl CpuWhole<Every<'_, f64>> for ByWhole {
    fn whole(_: Space<'_, Index<2>>, mut k: EveryWhole<'_, f64>, threads: Threads<'_>) {
        k.to.copy_from_slice(k.from);
        k.both.fill(k.scale * k.rows[0] + k.table[0][0]);
        k.was.own().fill(threads.count() as f64);
        k.bins.add(0, 1);
        k.sum.block(0).put(1.0);
        k.least.block(k.least.count() - 1).put(0, -1);
        for (rows, mut most) in k.most.into_blocks() {
            most.put(0, rows.start as u8);
        }
        k.out_rows.fill(0.0);
    }
}

#[test]
fn views_and_doors_are_described_as_written() {
    use flash_core::kernel::KernelDefinition;
    let arguments = Every::<'static, f32>::arguments();
    let seen: Vec<_> =
        arguments.iter().map(|a| (a.name.as_str(), a.view, a.access, a.row, a.along.as_slice())).collect();
    assert_eq!(
        seen,
        [
            ("scale", View::Scalar, Access::Read, false, &[][..]),
            ("table", View::Whole, Access::Read, false, &[]),
            ("from", View::Item, Access::Read, false, &[0, 1]),
            ("rows", View::Item, Access::Read, true, &[0, 1]),
            ("both", View::Item, Access::ReadWrite, false, &[0]),
            ("was", View::Phased, Access::ReadWrite, false, &[0]),
            ("bins", View::Scatter, Access::ReadWrite, false, &[]),
            ("sum", View::Reduce, Access::ReadWrite, false, &[]),
            ("least", View::Reduce, Access::ReadWrite, false, &[]),
            ("most", View::Reduce, Access::Write, false, &[]),
            ("to", View::Item, Access::Write, false, &[0, 1]),
            ("out_rows", View::Item, Access::Write, true, &[1]),
        ]
    );
    assert_eq!(arguments[1].element.name, "[f32; 3]");
    assert_eq!(Every::<'static, f32>::NAME, "every.view");
    assert_eq!(Every::<'static, f32>::DIMENSIONS, ["x", "y"]);

    let inventory = flash_core::__private::inventory::iter::<flash_core::kernel::ImplementationEntry>;
    // SAFETY: the strings of an implementation live for ever.
    let text = |text: flash_core::abi::Str| unsafe { text.text() };
    let mut registered: Vec<_> = inventory
        .into_iter()
        .map(|entry| (entry.build)())
        .map(|made| {
            (text(made.name), made.door, made.priority, text(made.cpu_features), made.attribute_count)
        })
        .collect();
    registered.sort();
    let expected = [
        // Items and spans ask for strides; what is whole says that it takes parts.
        ("by_item", 1, 0, "", 1),
        ("by_item", 1, 0, "", 1),
        ("by_whole", 3, 0, "", 1),
        ("runs", 2, 10, "sse2", 1),
    ];
    assert_eq!(registered.len(), expected.len());
    for (made, (name, door, priority, features, attributes)) in registered.iter().zip(expected) {
        assert_eq!(*made, (name.to_owned(), door, priority, features.to_owned(), attributes));
    }
}
