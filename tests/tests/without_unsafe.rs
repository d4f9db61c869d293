//! What users write compiles and runs in a crate that forbids `unsafe`: elements, definitions,
//! implementations, maps.
#![forbid(unsafe_code)]

use flash::kernel;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Row, Scatter, Sum, Whole, Window, Write};
use flash::kernel::{Boxes, Candidate, CpuItem, CpuWhole, Element, Index, Space, Threads, partition_map};
use flash::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Element)]
#[repr(C)]
struct Body {
    place: [f64; 2],
    mass: f64,
}

partition_map! {
    static OWN = "without_unsafe.own": |at: &Candidate<'_>, boxes: &mut Boxes| {
        boxes.set("near", at.values("i"));
        boxes.all("all");
    };
}

#[derive(KernelDefinition)]
#[kernel(name = "without_unsafe.all", dims(i), part_by(i, map = OWN))]
struct All<'a> {
    by: Body,
    bodies: Whole<'a, Read<Body>>,
    near: Window<'a, Read<f64>>,
    rows: Item<'a, Read<Row<f64>>>,
    all: Scatter<'a, u64>,
    sum: Reduce<'a, ReadWrite<f64>, Sum>,
    moved: Item<'a, Write<Body>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "without_unsafe.phased", dims(i, step), sort_by(step))]
struct Turn<'a> {
    #[along(i)]
    values: Phased<'a, u32>,
}

#[derive(KernelDefinition)]
#[kernel(name = "without_unsafe.fill", dims(i))]
struct Fill<'a, T: Element> {
    value: T,
    to: Item<'a, Write<T>>,
}

struct Plain;

#[kernel]
impl CpuItem<All<'_>> for Plain {
    fn item(i: Index<1>, mut k: AllItem<'_>) {
        k.all.add(0, 1);
        k.sum.put(k.near.get(i[0]) + k.rows[1]);
        let body = k.bodies[i[0]];
        let place = [body.place[0] + k.by.place[0], body.place[1] + k.by.place[1]];
        k.moved.set(Body { place, mass: body.mass * k.by.mass });
    }
}

#[kernel]
impl CpuItem<Turn<'_>> for Plain {
    fn item(_: Index<2>, mut k: TurnItem<'_>) {
        k.values.set(k.values.own() + 1);
    }
}

#[kernel(for(Body, u8))]
impl<T: Element> CpuWhole<Fill<'_, T>> for Plain {
    fn whole(_: Space<'_, Index<1>>, k: FillWhole<'_, T>, _: Threads<'_>) {
        k.to.fill(k.value);
    }
}

#[test]
fn a_crate_that_forbids_unsafe_derives_registers_and_runs() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let by = Body { place: [1.0, 2.0], mass: 2.0 };
    let bodies = FlashMemory::<Body>::zeroed(8);
    rt.submit(Fill::of(Body { place: [3.0, 4.0], mass: 5.0 }, &bodies)).exec([8]).unwrap();
    let (near, rows) =
        (FlashMemory::from(vec![1.0; 8]), FlashMemory::from(vec![0.5; 16]).with_shape([2, 8]).unwrap());
    let (all, mut sum, moved) = (FlashMemory::<u64>::zeroed(1), 100.0, FlashMemory::<Body>::zeroed(8));
    rt.submit(All::of(by, &bodies, &near, &rows, &all, &mut sum, &moved)).exec([8]).unwrap();
    assert_eq!((all.read().unwrap()[0], sum), (8, 112.0));
    assert_eq!(*moved.read().unwrap(), [Body { place: [4.0, 6.0], mass: 10.0 }; 8]);
    let values = FlashMemory::<u32>::zeroed(4);
    rt.submit(Turn::of(&values)).exec([4, 3]).unwrap();
    assert_eq!(*values.read().unwrap(), [3; 4]);
}
