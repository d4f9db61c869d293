//! A warm launch allocates nothing on the calling thread, and makes no system call.

use flash::RuntimeObj;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Reduce, Sum, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_tests::allocations::{Counting, fewest as allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(KernelDefinition)]
#[kernel(name = "allocations.empty", dims(i))]
struct Empty<'a> {
    scale: f32,
    a: Item<'a, Read<f32>>,
    b: Item<'a, ReadWrite<f32>>,
    c: Item<'a, Write<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "allocations.grid", dims(x, y, step), group_by(step))]
struct Grid<'a> {
    scale: f32,
    #[along(x, y)]
    a: Item<'a, Read<f32>>,
    #[along(y, x)]
    b: Item<'a, ReadWrite<f32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "allocations.tally", dims(i, step), sort_by(step))]
struct Tally<'a> {
    sum: Reduce<'a, ReadWrite<f32>, Sum>,
    bins: Reduce<'a, Write<[f32]>, Sum>,
}

struct Plain;

#[kernel]
impl CpuItem<Tally<'_>> for Plain {
    fn item(ix: Index<2>, mut k: TallyItem<'_>) {
        k.sum.put(1.0);
        k.bins.put(ix[0] % 2, 1.0);
    }
}

#[kernel]
impl CpuItem<Empty<'_>> for Plain {
    fn item(_: Index<1>, _: EmptyItem<'_>) {}
}

#[kernel]
impl CpuItem<Grid<'_>> for Plain {
    fn item(_: Index<3>, _: GridItem<'_>) {}
}

struct Memories {
    rt: RuntimeObj,
    all: [FlashMemory<f32>; 3],
}

fn memories() -> Memories {
    Memories { rt: flash_tests::runtime(), all: std::array::from_fn(|_| FlashMemory::zeroed(64)) }
}

impl Memories {
    fn launch(&self, items: u32) {
        let [a, b, c] = &self.all;
        self.rt.submit(Empty::of(1.5, a, b, c)).exec([items]).unwrap();
    }

    /// A chain of `links`, each reading what the one before wrote.
    fn chain(&self, links: usize) {
        let mut pipeline = self.rt.pipeline();
        for k in 0..links {
            let [a, b, c] = std::array::from_fn(|m| &self.all[(k + m) % 3]);
            pipeline = pipeline.submit(Empty::of(1.5, a, b, c)).defer([1]);
        }
        pipeline.exec().unwrap();
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1u8]))), 1);
}

#[test]
fn a_warm_launch_allocates_nothing() {
    let m = memories();
    for items in [1, 64] {
        (0..100).for_each(|_| m.launch(items));
        assert_eq!(allocations(|| (0..1000).for_each(|_| m.launch(items))), 0, "{items} items");
    }
}

#[test]
fn a_warm_launch_of_views_allocates_nothing_and_neither_does_one_of_other_rows() {
    let run = || {
        let m = memories();
        let grid = |rows: usize| {
            let (a, b) = (m.all[0].view([8, 8]).unwrap(), m.all[1].view([8, 8]).unwrap());
            let (a, b) = (a.rows(rows..rows + 4).unwrap(), b.view([4, 16]).unwrap().rows(..8).unwrap());
            m.rt.submit(Grid::of(1.0, a, b)).exec([8, 4, 2]).unwrap();
        };
        for rows in [0, 3, 4] {
            (0..100).for_each(|_| grid(rows));
            let least = (0..10).map(|_| allocations(|| (0..100).for_each(|_| grid(rows)))).min();
            assert_eq!(least, Some(0), "rows from {rows} on");
        }
        m
    };
    drop(run());
    flash_tests::in_process(flash_tests::APART[1], || {
        let m = run();
        assert!(m.rt.devices()[0].transfers().to_device.bytes > 0, "the device has a memory of its own");
    });
}

/// As pipelines of `exec_async` have them.
#[test]
fn a_warm_launch_of_owned_memories_allocates_nothing_and_gives_them_back() {
    let m = memories();
    let launch = |items: u32| {
        let [a, b, c] = m.all.clone();
        m.rt.submit(Empty::of(1.5, a, b, c)).exec([items]).unwrap();
    };
    for items in [1, 64] {
        (0..100).for_each(|_| launch(items));
        assert_eq!(allocations(|| (0..1000).for_each(|_| launch(items))), 0, "{items} items");
    }
    assert!(m.all.iter().all(FlashMemory::is_unique), "a kept recording has no handle");
}

/// On a device with a memory of its own.
#[test]
fn a_warm_launch_on_data_that_a_device_has_allocates_nothing() {
    flash_tests::in_process(flash_tests::APART[1], || {
        let m = memories();
        let moved = || m.rt.devices()[0].transfers().to_device.bytes;
        for items in [1, 64] {
            (0..100).for_each(|_| m.launch(items));
            let before = moved();
            assert_eq!(allocations(|| (0..1000).for_each(|_| m.launch(items))), 0, "{items} items");
            assert_eq!(moved(), before, "everything is there");
        }
        assert!(moved() > 0, "the device has a memory of its own");
    });
}

#[test]
fn a_warm_chain_that_is_built_again_allocates_nothing() {
    let m = memories();
    (0..10).for_each(|_| m.chain(100));
    assert_eq!(allocations(|| (0..100).for_each(|_| m.chain(100))), 0);
}

#[test]
fn a_kept_pipeline_allocates_nothing_when_it_runs() {
    let m = memories();
    let [a, b, c] = &m.all;
    let pipeline =
        m.rt.submit(Empty::of(1.0, a, b, c)).defer([64]).submit(Empty::of(1.0, c, b, a)).defer([64]);
    (0..100).for_each(|_| pipeline.exec().unwrap());
    assert_eq!(allocations(|| (0..1000).for_each(|_| pipeline.exec().unwrap())), 0);
}

#[test]
fn a_warm_launch_of_several_dimensions_and_phases_allocates_nothing() {
    let m = memories();
    let launch = |steps: u32| m.rt.submit(Grid::of(1.0, &m.all[0], &m.all[1])).exec([8, 8, steps]).unwrap();
    (0..100).for_each(|k| launch(1 + k % 3));
    // On a machine that is busy with something else a launch may seem so long that a worker is woken, and to
    // wake one allocates.
    let least = (0..10).map(|_| allocations(|| (0..100).for_each(|k| launch(1 + k % 3)))).min();
    assert_eq!(least, Some(0));
}

#[test]
fn a_warm_reduction_allocates_nothing() {
    let m = memories();
    let sum = FlashMemory::from([0.0f32]);
    let launch = |n: u32| m.rt.submit(Tally::of(&sum, &m.all[0])).exec([n, 1 + n % 3]).unwrap();
    (0..100).for_each(|k| launch(10_000 * (k % 3)));
    // These are large enough to wake a worker that has parked meanwhile, and to wake one allocates: of many
    // runs some have none to wake.
    let least = (0..30).map(|_| allocations(|| (0..30).for_each(|k| launch(10_000 * (k % 3))))).min();
    assert_eq!(least, Some(0));
}

#[test]
fn a_guard_allocates_nothing() {
    let m = memories();
    m.launch(1);
    assert_eq!(allocations(|| (0..1000).for_each(|_| assert!(m.all[0].get(3).unwrap() == 0.0))), 0);
}

/// Launches that the calling thread runs itself: to share a larger one, a worker may have to be woken.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "has Linux end a thread at a system call")]
fn a_warm_launch_makes_no_system_call() {
    for (threads, items) in [("1", 16), ("2", 1)] {
        flash_tests::in_process(&[("FLASH_CPU_THREADS", threads)], || {
            let before = move || {
                let m = memories();
                (0..1000).for_each(|_| m.launch(items));
                (0..100).for_each(|_| m.chain(100));
                m
            };
            flash_tests::system_calls::none(before, move |m| {
                (0..100_000).for_each(|_| m.launch(items));
                (0..100).for_each(|_| m.chain(100));
                assert_eq!(m.all[0].get(3).unwrap(), 0.0);
            });
        });
    }
}

#[test]
#[should_panic(expected = "system call")]
#[cfg_attr(not(target_os = "linux"), ignore = "has Linux end a thread at a system call")]
fn a_system_call_is_found() {
    flash_tests::system_calls::none(|| (), |()| std::thread::yield_now());
}
