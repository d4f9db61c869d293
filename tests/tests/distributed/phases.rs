//! Launches with barriers: each phase copies what it needs, and no more.

use crate::TWO;
use flash::kernel::views::{Item, Phased, Read, ReadWrite, Scatter, Window, Write};
use flash::kernel::{Boxes, Candidate, CpuItem, Index, partition_map};
use flash::prelude::*;
use flash::{Error, kernel};
use flash_core::descriptor::{part_by, weights};
use flash_tests::in_process;

/// to[i] += from[i, step]
#[derive(KernelDefinition)]
#[kernel(name = "phases.pick", dims(i, step), group_by(step), part_by(i, from = stencil(i = 0, step = 0)))]
struct Pick<'a> {
    from: Window<'a, Read<u64>>,
    #[along(i)]
    to: Item<'a, ReadWrite<u64>>,
}

/// to[i, step] = i + step
#[derive(KernelDefinition)]
#[kernel(name = "phases.lay", dims(i, step), group_by(step), part_by(i))]
struct Lay<'a> {
    to: Item<'a, Write<u64>>,
}

/// A step of a factorisation without pivots, by columns: the step's column is read by all to its right.
#[derive(KernelDefinition)]
#[kernel(name = "phases.factor", dims(i, j, k), group_by(k), part_by(j, map = TRAILING))]
struct Factor<'a> {
    #[along(i, j)]
    a: Phased<'a, f64>,
}

/// Counts in another part of the array in each step.
#[derive(KernelDefinition)]
#[kernel(name = "phases.turn", dims(i, step), group_by(step))]
struct Turn<'a> {
    marks: Scatter<'a, u32>,
}

struct Plain;

#[kernel]
impl CpuItem<Pick<'_>> for Plain {
    fn item(at: Index<2>, k: PickItem<'_>) {
        *k.to += k.from.at([at[0], at[1], 0]);
    }
}

#[kernel]
impl CpuItem<Lay<'_>> for Plain {
    fn item(at: Index<2>, k: LayItem<'_>) {
        k.to.set((at[0] + at[1]) as u64);
    }
}

#[kernel]
impl CpuItem<Factor<'_>> for Plain {
    fn item(at: Index<3>, mut f: FactorItem<'_>) {
        let ([i, j, k], n) = ([at[0], at[1], at[2]], SIDE);
        let own = f.a.own();
        let next = match (i > k, j > k) {
            (true, true) => own - f.a.get(i + n * k) / f.a.get(k + n * k) * f.a.get(k + n * j),
            _ => own,
        };
        f.a.set(next);
    }
}

#[kernel]
impl CpuItem<Turn<'_>> for Plain {
    fn item(at: Index<2>, k: TurnItem<'_>) {
        let n = k.marks.len();
        k.marks.add((at[0] + at[1] * (n / 2)) % n, 1);
    }
}

const SIDE: usize = 48;

partition_map! {
    static TRAILING = "phases.trailing": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let (columns, step) = (at.values("j"), at.values("k"));
        boxes.set("a", [0..SIDE as u64, columns.start.min(step.start)..columns.end]);
    };
}
partition_map! {
    static TURNS = "phases.turns": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let (i, step) = (at.values("i"), at.values("step"));
        let n = at.shape("marks")[0];
        let half = if step.start % 2 == 0 { 0 } else { n / 2 };
        // Halves of the array change roles.
        let own = (i.start + half) % n..(i.end + half - 1) % n + 1;
        boxes.set("marks", own);
    };
}
partition_map! {
    static MEETS_LATE = "phases.meets_late": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let n = at.shape("marks")[0];
        let all = at.values("step").start == 3;
        boxes.set("marks", if all { 0..n } else { at.values("i") });
    };
}

fn to_devices(rt: &RuntimeObj) -> Vec<u64> {
    let moved = rt.devices().iter().map(|device| device.transfers());
    moved.map(|moved| moved.to_device.bytes + moved.between_devices.bytes).collect()
}

#[test]
fn a_window_along_the_steps_moves_what_each_step_reads() {
    in_process(TWO, || {
        let (rt, n, columns) = (flash_tests::runtime(), 256usize, 10usize);
        let from = FlashMemory::from_iter(0..(n * columns) as u64).with_shape([n, columns]).unwrap();
        let to = FlashMemory::<u64>::zeroed(n);
        let launch = rt.submit(Pick::of(&from, &to)).options(weights([1, 1]));
        launch.exec((n, count_by([0u64, 5, 9]))).unwrap();
        // Three columns, not the ten between the first and the last; and the sums.
        assert_eq!(to_devices(&rt), [(3 + 1) * 8 * n as u64 / 2; 2]);
        let expected: Vec<u64> = (0..n).map(|i| (3 * i + n * (5 + 9)) as u64).collect();
        assert_eq!(*to.read().unwrap(), expected);
    });
}

#[test]
fn what_a_step_writes_in_full_is_not_uploaded() {
    in_process(TWO, || {
        let (rt, n, columns) = (flash_tests::runtime(), 256usize, 10usize);
        let to = FlashMemory::from(vec![77u64; n * columns]).with_shape([n, columns]).unwrap();
        rt.submit(Lay::of(&to)).options(weights([1, 1])).exec((n, count_by([0u64, 5, 9]))).unwrap();
        assert_eq!(to_devices(&rt), [0, 0]);
        for (at, value) in to.read().unwrap().iter().enumerate() {
            let (i, step) = (at % n, at / n);
            assert_eq!(*value, if [0, 5, 9].contains(&step) { (i + step) as u64 } else { 77 });
        }
    });
}

#[test]
fn a_factorisation_moves_the_trailing_columns_of_each_step() {
    in_process(TWO, || {
        let (rt, n) = (flash_tests::runtime(), SIDE);
        let start: Vec<f64> =
            (0..n * n).map(|at| if at % n == at / n { 100.0 } else { 1.0 + (at % 7) as f64 }).collect();
        let a = FlashMemory::from(start.clone()).with_shape([n, n]).unwrap();
        rt.submit(Factor::of(&a)).options(weights([1, 1])).exec([n, n, n - 1]).unwrap();
        // The left half never needs the right one. The right half needs all existing elements before the
        // first step, and then what the left half has written from the step's column on.
        let half = n / 2;
        let columns: usize = (1..half).map(|k| half - k).sum();
        assert_eq!(to_devices(&rt), [half, n + columns].map(|columns| (columns * n * 8) as u64));
        let mut expected = start;
        for k in 0..n - 1 {
            for j in k + 1..n {
                for i in k + 1..n {
                    expected[i + n * j] -= expected[i + n * k] / expected[k + n * k] * expected[k + n * j];
                }
            }
        }
        assert_eq!(*a.read().unwrap(), expected);
    });
}

#[test]
fn a_map_that_asks_for_no_step_is_asked_once() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    static ASKED: AtomicU64 = AtomicU64::new(0);
    partition_map! {
        static COUNTS = "phases.counts": |at: &Candidate<'_>, boxes: &mut Boxes| {
            ASKED.fetch_add(1, SeqCst);
            boxes.set("marks", at.values("i"));
        };
    }
    in_process(TWO, || {
        let (rt, marks) = (flash_tests::runtime(), FlashMemory::<u32>::zeroed(64));
        let options = (part_by("i").by(&COUNTS), weights([1, 1]));
        // The items of odd steps would be on another device: one step.
        rt.submit(Turn::of(&marks)).options(options.clone()).exec((64, count_by([0u64, 2, 4]))).unwrap();
        assert!(ASKED.load(SeqCst) <= 4, "at most twice for each part: {ASKED:?}");
        assert!(marks.read().unwrap().iter().all(|count| *count == 3));
    });
}

#[test]
fn what_is_written_has_to_be_apart_in_each_phase() {
    in_process(TWO, || {
        let (rt, n) = (flash_tests::runtime(), 64usize);
        let marks = FlashMemory::<u32>::zeroed(n);
        let launch = |map| rt.submit(Turn::of(&marks)).options((part_by("i").by(map), weights([1, 1])));
        let error =
            launch(&MEETS_LATE).exec((n, count_by([0u64, 2, 3, 4]))).expect_err("both write all of it");
        assert!(matches!(error, Error::Partition { .. }) && error.to_string().contains("overlap"), "{error}");
        assert!(marks.read().unwrap().iter().all(|count| *count == 0), "nothing has run");
        launch(&TURNS).exec([n, 4]).unwrap();
        assert!(marks.read().unwrap().iter().all(|count| *count == 4));
    });
}
