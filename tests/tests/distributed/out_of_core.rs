//! Launches that touch more than a device's memory may take.

use crate::{ONE, TWO};
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Scatter, Sum, Whole, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, kernel};
use flash_tests::in_process;

/// No options for cuts.
#[derive(KernelDefinition)]
#[kernel(name = "out_of_core.grow", dims(i))]
struct Grow<'a> {
    with: Item<'a, Read<u64>>,
    of: Item<'a, ReadWrite<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "out_of_core.tally", dims(i), part_by(i))]
struct Tally<'a> {
    values: Item<'a, Read<f32>>,
    sum: Reduce<'a, Write<f32>, Sum>,
}

#[derive(KernelDefinition)]
#[kernel(name = "out_of_core.steps", dims(i, step), group_by(step), part_by(i, of = stencil(i = 1)))]
struct Steps<'a> {
    #[along(i)]
    of: Phased<'a, u64>,
}

/// All of a table for each item.
#[derive(KernelDefinition)]
#[kernel(name = "out_of_core.look", dims(i))]
struct Look<'a> {
    table: Whole<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// It does not declare where it writes.
#[derive(KernelDefinition)]
#[kernel(name = "out_of_core.mark", dims(i))]
struct Mark<'a> {
    marks: Scatter<'a, u64>,
}

struct Plain;

#[kernel]
impl CpuItem<Grow<'_>> for Plain {
    fn item(at: Index<1>, k: GrowItem<'_>) {
        *k.of = *k.of * 3 + *k.with + at[0] as u64;
    }
}

#[kernel]
impl CpuItem<Tally<'_>> for Plain {
    fn item(_: Index<1>, mut k: TallyItem<'_>) {
        k.sum.put(*k.values);
    }
}

#[kernel]
impl CpuItem<Steps<'_>> for Plain {
    fn item(at: Index<2>, mut k: StepsItem<'_>) {
        let (i, own) = (at[0], k.of.own());
        let next = if i + 1 < k.of.len() { k.of.get(i + 1) } else { 0 };
        k.of.set(own.wrapping_mul(3) ^ next);
    }
}

#[kernel]
impl CpuItem<Look<'_>> for Plain {
    fn item(at: Index<1>, k: LookItem<'_>) {
        k.to.set(k.table[at[0] % k.table.len()]);
    }
}

#[kernel]
impl CpuItem<Mark<'_>> for Plain {
    fn item(at: Index<1>, k: MarkItem<'_>) {
        k.marks.add(at[0], 1);
    }
}

const MIB: u64 = 1 << 20;

fn runtime(budget: u64) -> RuntimeObj {
    flash_tests::runtime().options(MemoryBudget(budget))
}

/// Bytes to devices, and from them.
fn moved(rt: &RuntimeObj) -> (u64, u64) {
    let all = rt.devices().iter().map(|device| device.transfers());
    all.fold((0, 0), |(to, from), t| (to + t.to_device.bytes, from + t.from_device.bytes))
}

#[test]
fn a_launch_larger_than_the_devices_memory_is_streamed_without_being_asked() {
    for variables in [ONE, TWO] {
        in_process(variables, || {
            let (rt, n) = (runtime(MIB), 1usize << 19);
            let with = FlashMemory::from_iter(0..n as u64);
            let of = FlashMemory::from(vec![1u64; n]);
            for round in 1..=2 {
                rt.submit(Grow::of(&with, &of)).exec([n]).unwrap();
                // Eight MiB went in, and four came back, or will. Of two devices, either may begin the second
                // round with what it has from the first; one begins with what has made room long ago.
                let (to, from) = moved(&rt);
                let there = if rt.devices().len() > 1 { (round - 1) * 2 * MIB } else { 0 };
                assert!(to >= round * 8 * MIB - there && to <= round * 8 * MIB, "{to}");
                assert!(from > round * 4 * MIB - 2 * MIB && from <= round * 4 * MIB, "{from}");
            }
            let expected = |i: u64| (3 + 2 * i) * 3 + 2 * i;
            assert!(of.read().unwrap().iter().enumerate().all(|(i, v)| *v == expected(i as u64)));
            // What a device began the second round with did not come back between the two.
            let there = if rt.devices().len() > 1 { 2 * MIB } else { 0 };
            let from = moved(&rt).1;
            assert!(from >= 8 * MIB - there && from <= 8 * MIB, "{from}");
        });
    }
}

#[test]
fn what_fits_is_not_cut() {
    in_process(ONE, || {
        let (rt, n) = (runtime(MIB), 1usize << 16);
        let [with, of] = [(); 2].map(|()| FlashMemory::from(vec![1u64; n]));
        let before = rt.devices()[0].transfers();
        rt.submit(Grow::of(&with, &of)).exec([n]).unwrap();
        let moved = rt.devices()[0].transfers() - before;
        assert_eq!((moved.to_device.copies, moved.to_device.bytes), (2, MIB));
    });
}

#[test]
fn sums_and_steps_are_streamed_to_the_same_bits() {
    for variables in [ONE, TWO] {
        in_process(variables, || {
            let n = 1usize << 18;
            let values = FlashMemory::from_iter((0..n).map(|i| (i as f32).sin()));
            let start: Vec<u64> = (0..n as u64).collect();
            let results: Vec<(f32, Vec<u64>)> = [MIB / 2, u64::MAX]
                .into_iter()
                .map(|budget| {
                    let (rt, sum) = (runtime(budget), FlashMemory::<f32>::zeroed(1));
                    let of = FlashMemory::from(start.clone()).with_shape([n]).unwrap();
                    rt.submit(Tally::of(&values, &sum)).exec([n]).unwrap();
                    rt.submit(Steps::of(&of)).exec([n, 3]).unwrap();
                    (sum.get(0).unwrap(), of.read().unwrap().to_vec())
                })
                .collect();
            assert_eq!(results[0].0.to_bits(), results[1].0.to_bits());
            assert!(results[0].1 == results[1].1);
        });
    }
}

#[test]
fn what_no_cut_makes_fit_says_the_sizes() {
    in_process(ONE, || {
        let (rt, n) = (runtime(MIB), 1usize << 18);
        let [large, small] = [n, 64].map(|n| FlashMemory::from(vec![1u64; n]));
        let error = rt.submit(Look::of(&large, &small)).exec([64]).unwrap_err();
        let sizes = |error: &Error| {
            let text = error.to_string();
            text.contains("2097152") && text.contains("1048576")
        };
        assert!(sizes(&error), "a table that every item needs: {error}");
        let error = rt.submit(Mark::of(&large)).exec([n]).unwrap_err();
        assert!(sizes(&error), "it is not known where it writes: {error}");
        // A table that fits leaves less room for the rest, which is cut into more parts.
        let table = FlashMemory::from_iter(0..1u64 << 16);
        let to = FlashMemory::<u64>::zeroed(n);
        rt.submit(Look::of(&table, &to)).exec([n]).unwrap();
        assert!(to.read().unwrap().iter().enumerate().all(|(i, v)| *v == i as u64 % (1 << 16)));
    });
}
