//! Pipelines: built in loops, kept, run from many threads, and entered as a whole.

use flash::kernel;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Read, ReadWrite, Scatter, Whole};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{FlashMemory, RuntimeObj};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// to = to * 3 + from + value: the order of submissions shows.
#[derive(KernelDefinition)]
#[kernel(name = "pipelines.mix", dims(i))]
struct Mix<'a> {
    value: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel_fn]
fn mixed(value: u64, from: u64, to: u64) -> u64 {
    to.wrapping_mul(3).wrapping_add(from).wrapping_add(value)
}

#[kernel(devices)]
impl CpuItem<Mix<'_>> for Plain {
    fn item(_: Index<1>, k: MixItem<'_>) {
        *k.to = mixed(k.value, *k.from, *k.to);
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

#[flash_tests::test]
fn ten_thousand_submissions_run_in_their_order_where_they_depend() {
    let (rt, n, memories) = (cpu(), 16usize, 5);
    let mut model: Vec<Vec<u64>> =
        (0..memories).map(|m| (0..n as u64).map(|i| i + 100 * m).collect()).collect();
    let real: Vec<FlashMemory<u64>> = model.iter().cloned().map(FlashMemory::from).collect();
    let mut pipeline = rt.pipeline();
    assert!(pipeline.is_empty());
    let mut random = 12345u64;
    let mut plan = vec![];
    for k in 0..10_000u64 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (from, to) = ((random >> 33) as usize % 5, (random >> 40) as usize % 5);
        let to = if from == to { (to + 1) % 5 } else { to };
        pipeline = pipeline.submit(Mix::of(k, &real[from], &real[to])).defer([n]);
        plan.push((k, from, to));
    }
    assert_eq!(pipeline.len(), 10_000);
    for _ in 0..3 {
        pipeline.exec().unwrap();
        for &(k, from, to) in &plan {
            let from = model[from].clone();
            for (to, from) in model[to].iter_mut().zip(from) {
                *to = mixed(k, from, *to);
            }
        }
        for (model, real) in model.iter().zip(&real) {
            assert_eq!(model[..], *real.read().unwrap());
        }
    }
}

#[flash_tests::test]
fn a_pipeline_that_is_never_executed_runs_nothing_and_frees_what_it_owns() {
    let (rt, from) = (cpu(), FlashMemory::<u64>::zeroed(4));
    let to = FlashMemory::<u64>::zeroed(4);
    let pipeline =
        rt.submit(Mix::of(1, &from, to.clone())).defer([4]).submit(Mix::of(1, &from, to.clone())).defer([4]);
    drop(pipeline);
    drop(rt.submit(Mix::of(1, from.clone(), to.clone())));
    assert_eq!(*to.read().unwrap(), [0; 4]);
    // A shape can be given to the only handle of a memory.
    to.with_shape([2, 2]).expect("no pipeline has a handle left");
    from.with_shape([2, 2]).expect("no submission has a handle left");
}

#[flash_tests::test]
fn a_pipeline_owns_the_handles_that_it_is_given() {
    let rt = cpu();
    let to = FlashMemory::<u64>::zeroed(4);
    let pipeline: Pipeline<'static> = {
        let from = FlashMemory::from([1u64, 2, 3, 4]);
        rt.submit(Mix::of(0, from, to.clone())).defer([4])
    };
    drop(rt);
    std::thread::spawn(move || {
        pipeline.exec().unwrap();
        pipeline.exec().unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(*to.read().unwrap(), [4, 8, 12, 16]);
}

#[flash_tests::test]
fn a_kept_pipeline_sees_what_the_host_wrote_between_runs() {
    let (rt, from, to) = (cpu(), FlashMemory::<u64>::zeroed(2), FlashMemory::<u64>::zeroed(2));
    let pipeline = rt.submit(Mix::of(0, &from, &to)).defer([2]);
    for k in 0..100 {
        from.write().unwrap().fill(k);
        to.write().unwrap().fill(0);
        pipeline.exec().unwrap();
        assert_eq!(*to.read().unwrap(), [k, k]);
    }
}

#[flash_tests::test]
fn slices_are_written_by_one_execution_at_a_time() {
    let (rt, from) = (cpu(), vec![1u64; 1000]);
    let mut to = vec![0u64; 1000];
    let pipeline = rt.submit(Mix::of(0, &from, &mut to)).defer([1000]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| pipeline.exec().unwrap()));
        }
    });
    drop(pipeline);
    let expected = (0..40).fold(0, |to, _| mixed(0, 1, to));
    assert!(to.iter().all(|&v| v == expected));
}

/// Two memories that every pipeline changes in several steps; between two pipelines they agree.
#[derive(KernelDefinition)]
#[kernel(name = "pipelines.step", dims(i))]
struct Step<'a> {
    add: i64,
    seen: Whole<'a, Read<i64>>,
    wrong: Scatter<'a, u64>,
    place: Scatter<'a, i64>,
}

#[kernel(devices)]
impl CpuItem<Step<'_>> for Plain {
    fn item(_: Index<1>, k: StepItem<'_>) {
        k.place.add(0, k.add);
        if k.seen[0] < 0 {
            k.wrong.add(0, 1);
        }
    }
}

/// No other pipeline's submission falls between two of one pipeline on memory that it touches: each
/// takes the memory through states that the others must not see.
#[flash_tests::test]
fn a_pipeline_enters_the_order_as_a_whole() {
    let rt = cpu();
    let (a, b) = (FlashMemory::from([0i64]), FlashMemory::from([0i64]));
    let (zero, other) = (FlashMemory::<u64>::zeroed(1), FlashMemory::<u64>::zeroed(1));
    let wrong: Vec<FlashMemory<u64>> = (0..8).map(|_| FlashMemory::zeroed(1)).collect();
    let entered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (thread, wrong) in wrong.iter().enumerate() {
            let (a, b, rt, entered, zero, other) = (&a, &b, &rt, &entered, &zero, &other);
            scope.spawn(move || {
                // The two halves touch a and b in different orders: no deadlock either.
                let pipeline = if thread % 2 == 0 {
                    rt.submit(Step::of(-100, b, wrong, a))
                        .defer([1]) // b must not be negative here
                        .submit(Mix::of(1, zero, other))
                        .defer([1])
                        .submit(Step::of(100, b, wrong, a))
                        .defer([1])
                        .submit(Step::of(1, a, wrong, b))
                        .defer([1]) // nor a here
                } else {
                    rt.submit(Step::of(-100, a, wrong, b))
                        .defer([1])
                        .submit(Step::of(101, a, wrong, b))
                        .defer([1])
                };
                for _ in 0..300 {
                    pipeline.exec().unwrap();
                    entered.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert!(wrong.iter().all(|w| w.get(0).unwrap() == 0), "a pipeline was seen half done");
    assert_eq!(entered.into_inner(), 2400);
    assert_eq!((a.get(0).unwrap(), b.get(0).unwrap()), (0, 2400));
}

#[flash_tests::test]
fn threads_build_and_run_pipelines_over_shared_memories_at_once() {
    let (rt, n) = (cpu(), 64usize);
    let source = FlashMemory::from(vec![1u64; n]);
    let total = FlashMemory::<i64>::zeroed(1);
    let wrong = FlashMemory::<u64>::zeroed(1);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (rt, source, total, wrong) = (rt.clone(), &source, &total, &wrong);
            scope.spawn(move || {
                let (seen, own) = (FlashMemory::<i64>::zeroed(1), FlashMemory::<u64>::zeroed(n));
                let mut expected = 0;
                for k in 0..100 {
                    rt.submit(Mix::of(thread + k, source, &own))
                        .defer([n])
                        .submit(Step::of(1, &seen, wrong, total))
                        .exec([n])
                        .unwrap();
                    expected = mixed(thread + k, 1, expected);
                }
                assert!(own.read().unwrap().iter().all(|&v| v == expected));
            });
        }
    });
    assert_eq!((total.get(0).unwrap(), wrong.get(0).unwrap()), (8 * 100 * n as i64, 0));
}

#[flash_tests::test]
fn a_memory_read_and_then_written_in_one_pipeline_is_ordered() {
    let (rt, a, b) = (cpu(), FlashMemory::from([5u64; 8]), FlashMemory::<u64>::zeroed(8));
    rt.submit(Mix::of(0, &a, &b))
        .defer([8])
        .submit(Mix::of(1, &b, &a))
        .defer([8])
        .submit(Mix::of(2, &a, &b))
        .exec([8])
        .unwrap();
    let b1 = mixed(0, 5, 0);
    let a1 = mixed(1, b1, 5);
    assert_eq!((a.get(7).unwrap(), b.get(7).unwrap()), (a1, mixed(2, a1, b1)));
}

#[flash_tests::test]
fn an_empty_pipeline_runs() {
    let pipeline = cpu().pipeline();
    assert_eq!((pipeline.len(), pipeline.is_empty()), (0, true));
    pipeline.exec().unwrap();
}
