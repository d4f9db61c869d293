//! Values and resources that tasks share.

use anyhow::Result;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_examples::expect;
use flash_tasks::{Condvar, Mutex, TaskGraph, block_on, scope, until, yield_now};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

/// Tasks keep the value while they are suspended.
pub fn mutex() -> Result<String> {
    let total = Mutex::new(0_u64);
    scope(|s| {
        for i in 1..=100 {
            let total = &total;
            drop(s.spawn(move || {
                let mut total = total.lock();
                let before = *total;
                yield_now();
                *total = before + i;
            }));
        }
    })?;
    let total = total.into_inner();
    expect(total, 5050)?;
    Ok(format!("1 + 2 + .. + 100 = {total}"))
}

/// Consumers wait until producers have put something in.
pub fn condvar() -> Result<String> {
    const ITEMS: u64 = 1_000;
    let (queue, changed) = (Mutex::new(VecDeque::new()), Condvar::new());
    let sums = scope(|s| {
        let take = || {
            let sum = (0..ITEMS / 4).map(|_| {
                let mut queue =
                    changed.wait_while(queue.lock(), |queue: &mut VecDeque<u64>| queue.is_empty());
                queue.pop_front().unwrap_or(0)
            });
            sum.sum::<u64>()
        };
        let consumers = [(); 4].map(|()| s.spawn(take));
        for producer in 0..2 {
            let (queue, changed) = (&queue, &changed);
            drop(s.spawn(move || {
                for item in (producer..ITEMS).step_by(2) {
                    queue.lock().push_back(item);
                    changed.notify_one();
                }
            }));
        }
        consumers.map(|consumer| consumer.wait())
    })?;
    let sum = sums.into_iter().sum::<Result<u64, _>>()?;
    expect(sum, ITEMS * (ITEMS - 1) / 2)?;
    Ok(format!("4 consumers took {ITEMS} items of 2 producers"))
}

/// Each task needs two of five things, and takes them in one order, so that none waits for ever.
pub fn resources() -> Result<String> {
    let things: Vec<Mutex<u32>> = (0..5).map(|_| Mutex::new(0)).collect();
    scope(|s| {
        for task in 0..500 {
            let things = &things;
            drop(s.spawn(move || {
                let (a, b) = (task % 5, (task + 1 + task / 5 % 4) % 5);
                let mut first = things[a.min(b)].lock();
                let mut second = things[a.max(b)].lock();
                yield_now();
                *first += 1;
                *second += 1;
            }));
        }
    })?;
    let uses: Vec<u32> = things.into_iter().map(Mutex::into_inner).collect();
    expect(uses.iter().sum(), 1000)?;
    Ok(format!("uses of five things by 500 tasks that need two each: {uses:?}"))
}

/// x = 2 x.
#[derive(KernelDefinition)]
#[kernel(name = "tour.double", dims(i))]
struct Double<'a> {
    x: Item<'a, ReadWrite<f32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Double<'_>> for Plain {
    fn item(_: Index<1>, k: DoubleItem<'_>) {
        *k.x *= 2.0;
    }
}

/// A task waits for a thread by asking again and again, and others for launches, which wake them.
pub fn pending() -> Result<String> {
    let rt = get_runtime("ALL_CPU")?;
    let (send, receive) = mpsc::channel();
    let (answer, sums) = scope(|s| {
        let answer = s.spawn(move || until(|| receive.try_recv().map_or(Poll::Pending, Poll::Ready)));
        let launches = [1.0_f32, 2.0, 3.0].map(|value| {
            let rt = &rt;
            s.spawn(move || {
                let x = FlashMemory::from(vec![value; 100]);
                block_on(rt.submit(Double::of(x.clone())).exec_async([100]))?;
                Ok::<f32, flash::Error>(x.read()?.iter().sum())
            })
        });
        std::thread::spawn(move || send.send(42));
        (answer.wait(), launches.map(|task| task.wait()))
    })?;
    let [a, b, c] = sums;
    expect((answer?, [a??, b??, c??]), (42, [200.0, 400.0, 600.0]))?;
    Ok("an answer of a thread, and three kernels".into())
}

/// Tasks that are kernels: they end when the device has, and keep no thread meanwhile.
pub fn kernels() -> Result<String> {
    const STEPS: i32 = 10;
    let rt = get_runtime("ALL_CPU")?;
    let parts = [1.0_f32, 2.0, 3.0].map(|value| FlashMemory::from(vec![value; 100]));
    let sum = Mutex::new(0.0);
    let mut graph = TaskGraph::new();
    let data = parts.each_ref().map(|_| graph.datum());
    for _ in 0..STEPS {
        for (part, datum) in parts.iter().zip(data) {
            graph.launch(&[], &[datum], || rt.submit(Double::of(part.clone())).exec_async([100]));
        }
    }
    for (part, datum) in parts.iter().zip(data) {
        graph.try_task(&[datum], &[], || {
            *sum.lock() += part.read()?.iter().sum::<f32>();
            Ok::<(), flash::Error>(())
        });
    }
    graph.run()?;
    drop(graph);
    let sum = sum.into_inner();
    expect(sum, 600.0 * 2_f32.powi(STEPS))?;
    Ok(format!("{} launches", STEPS * 3))
}

/// Workers call a service between tasks, here to show how far they are.
pub fn service() -> Result<String> {
    const TASKS: usize = 200;
    let (done, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let watches = {
        let (done, seen) = (done.clone(), seen.clone());
        flash_tasks::service(Duration::from_micros(200), move || seen.store(done.load(SeqCst), SeqCst))
    };
    scope(|s| {
        for _ in 0..TASKS {
            drop(s.spawn(|| done.fetch_add(1, SeqCst)));
        }
        // The last task ends when the service has seen all others.
        drop(s.spawn(|| {
            until(|| if seen.load(SeqCst) == TASKS { Poll::Ready(()) } else { Poll::Pending });
        }));
    })?;
    watches.end()?;
    expect(seen.load(SeqCst), TASKS)?;
    Ok(format!("it saw {TASKS} tasks end"))
}
