//! Groups of equal arguments, with every view and in every door; the generated code is clean where everything
//! is denied.
#![deny(warnings, missing_docs, unused, unsafe_op_in_unsafe_fn, private_interfaces)]

use flash_core::FlashMemory;
use flash_core::descriptor::{Access, View};
use flash_core::kernel::views::{
    Item, Max, Phased, Read, ReadWrite, Reduce, Row, Scatter, Sum, Whole, Window, Write,
};
use flash_core::kernel::{
    CpuItem, CpuSpan, CpuWhole, Element, Index, KernelDefinition, Space, Span, Threads,
};
use flash_core::{KernelDefinition, kernel};

/// Hides the access.
pub type Most<T> = Write<[T]>;

/// Groups of all views.
#[derive(KernelDefinition)]
#[kernel(name = "groups.every", dims(x, y), part_by(y, from = stencil(x = 1, y = 1), bins = rows(y)))]
pub struct Every<'a, T: Element> {
    /// No group: an array as a scalar.
    scale: [f32; 2],
    #[structure]
    tables: [Whole<'a, Read<u64>>; 2],
    /// In, by the map.
    from: [Window<'a, Read<T>>; 3],
    own: [Item<'a, Read<T>>; 2],
    rows: [Item<'a, Read<Row<T>>>; 2],
    #[along(x)]
    both: [Item<'a, ReadWrite<T>>; 2],
    #[along(x)]
    was: [Phased<'a, T>; 2],
    bins: [Scatter<'a, u32>; 2],
    sums: [Reduce<'a, ReadWrite<f32>, Sum>; 2],
    most: [Reduce<'a, Most<u8>, Max>; 2],
    #[along(y, x)]
    to: [Item<'a, Write<T>>; 4],
    last: Item<'a, Write<T>>,
}

struct ByItem;
struct BySpan;
struct ByWhole;

#[kernel(for(f32, u8))]
impl<T: Element> CpuItem<Every<'_, T>> for ByItem {
    fn item(_: Index<2>, mut k: EveryItem<'_, T>) {
        for q in 0..2 {
            *k.both[q] = if k.tables[q].is_empty() { *k.own[q] } else { k.rows[q][0] };
            k.was[q].set(k.was[q].get(0));
            k.bins[q].add(0, 1);
            k.sums[q].put(k.scale[q]);
            k.most[q].put(0, 9);
        }
        for (to, q) in k.to.iter().zip(0..) {
            to.set(k.from[q % 3].get(q));
        }
        k.last.set(k.from[0].get(0));
    }
}

#[kernel(for(f32))]
impl<T: Element> CpuSpan<Every<'_, T>> for BySpan {
    fn span(run: Span<2>, mut k: EverySpan<'_, T>) {
        for q in 0..2 {
            k.both[q].copy_from_slice(k.own[q]);
            k.was[q].own()[0] = k.rows[q].row(0)[0];
            k.bins[q].add(0, 1);
            k.sums[q].put(k.tables[q].len() as f32);
            k.most[q].put(0, 9);
        }
        for to in &mut k.to {
            for i in 0..run.len() {
                to.set(i, k.from[0].get(i));
            }
        }
        k.last.copy_from_slice(k.own[1]);
    }
}

#[kernel(for(f32))]
impl<T: Element> CpuWhole<Every<'_, T>> for ByWhole {
    fn whole(_: Space<'_, Index<2>>, mut k: EveryWhole<'_, T>, _: Threads<'_>) {
        for q in 0..2 {
            k.both[q].copy_from_slice(k.own[q]);
            k.was[q].own().copy_from_slice(k.rows[q]);
            k.bins[q].add(0, 1);
            k.sums[q].block(0).put(k.tables[q].len() as f32);
            k.most[q].block(0).put(0, 9);
        }
        let [a, b, c, d] = k.to;
        for to in [a, b, c, d] {
            to.fill(k.from[2].get(0));
        }
        k.last.copy_from_slice(k.own[1]);
    }
}

#[test]
fn a_group_is_described_as_so_many_arguments() {
    let arguments = Every::<'static, f32>::arguments();
    let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "scale tables_0 tables_1 from_0 from_1 from_2 own_0 own_1 rows_0 rows_1 both_0 both_1 was_0 was_1 \
         bins_0 bins_1 sums_0 sums_1 most_0 most_1 to_0 to_1 to_2 to_3 last"
    );
    let (third, seventh) = (&arguments[4], &arguments[21]);
    assert_eq!((third.view, third.access, third.element.name.as_str()), (View::Window, Access::Read, "f32"));
    assert_eq!((seventh.view, seventh.access, &seventh.along[..]), (View::Item, Access::Write, &[1, 0][..]));
    assert!(arguments[1].structure && arguments[2].structure);
    assert_eq!(Every::<'static, f32>::REDUCES, [16, 17, 18, 19]);
    assert_eq!(Every::<'static, f32>::operations().len(), 4);
}

#[test]
fn the_arguments_of_a_group_are_called_by_its_name() {
    let descriptor = flash_core::kernel::descriptor_of::<Every<'static, f32>>();
    assert_eq!(descriptor.called("to"), 20..24);
    assert_eq!(descriptor.called("to_1"), 21..22);
    assert_eq!(descriptor.called("last"), 24..25);
    assert!(descriptor.called("t").is_empty() && descriptor.called("scale_0").is_empty());
}

/// Whatever one argument may be made of.
#[derive(KernelDefinition)]
#[kernel(name = "groups.copy", dims(x))]
struct Copy<'a> {
    from: [Item<'a, Read<f32>>; 2],
    to: [Item<'a, Write<f32>>; 2],
}

#[test]
fn a_group_is_made_of_an_array() {
    let memories: [FlashMemory<f32>; 4] = std::array::from_fn(|_| FlashMemory::zeroed(4));
    let [a, b, c, d] = &memories;
    let _ = Copy::of([a, b], [c, d]);
    let _ = Copy::of(std::array::from_fn(|q| &memories[q]), std::array::from_fn(|q| &memories[q + 2]));
    let (from, to) = ([a.clone(), b.clone()], [c.clone(), d.clone()]);
    let _ = Copy::of(&from, &to);
    let _ = Copy::of(from, to);
    let views = [a, b].map(|memory| memory.range(0..2).expect("two elements"));
    let (mut x, mut y) = (vec![0.0_f32; 4], vec![0.0_f32; 4]);
    let _ = Copy::of(views, [&mut x, &mut y]);
    let _ = Copy::of([&x[..], &y[..]], [c.range(1..2).expect("one"), d.range(1..2).expect("one")]);
}
