//! The order of pipelines, synchronous and asynchronous, of many threads over shared memories, against a
//! serial run.
//!
//! Each memory has a value and a version. A submission notes the versions that it met, which says after
//! whom it came on each memory; from that the pipelines are put into one order, as wholes. That there is
//! one, that it keeps the order of each thread, and that a serial run in it meets and leaves the same
//! values is what is tested.

use flash::kernel;
use flash::kernel::CpuItem;
use flash::kernel::Index;
use flash::kernel::views::{Item, Read, ReadWrite, Row, Write};
use flash::prelude::*;
use std::collections::HashMap;

#[derive(KernelDefinition)]
#[kernel(name = "asynchronous_order.step", dims(i))]
struct Step<'a> {
    id: u64,
    from: Item<'a, Read<Row<u64>>>,
    to: Item<'a, ReadWrite<Row<u64>>>,
    /// Value and version of `from`, value and version of `to` before.
    met: Item<'a, Write<Row<u64>>>,
}

struct Plain;

fn next(id: u64, from: u64, to: u64) -> u64 {
    to.wrapping_mul(3).wrapping_add(from).wrapping_add(id)
}

#[kernel]
impl CpuItem<Step<'_>> for Plain {
    fn item(_: Index<1>, k: StepItem<'_>) {
        k.met.copy_from_slice(&[k.from[0], k.from[1], k.to[0], k.to[1]]);
        k.to[0] = next(k.id, k.from[0], k.to[0]);
        k.to[1] += 1;
    }
}

const MEMORIES: usize = 6;
const THREADS: usize = 8;

/// A pipeline that was run.
struct Ran {
    thread: usize,
    /// Per submission: its number, and the memories that it read and wrote.
    steps: Vec<(u64, usize, usize)>,
    /// Four numbers per submission.
    met: FlashMemory<u64>,
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn run(rt: &RuntimeObj, memories: &[FlashMemory<u64>], thread: usize, submissions: usize) -> Vec<Ran> {
    let mut random = Random(thread as u64 + 1);
    let (mut ran, mut handles, mut done) = (vec![], vec![], 0);
    while done < submissions {
        let count = 1 + random.below(4);
        let met = FlashMemory::<u64>::zeroed(4 * count);
        let mut pipeline: Pipeline<'static> = rt.pipeline();
        let mut steps = vec![];
        for k in 0..count {
            let from = random.below(MEMORIES);
            let to = (from + 1 + random.below(MEMORIES - 1)) % MEMORIES;
            let id = (thread * submissions * 2 + done + k) as u64;
            steps.push((id, from, to));
            let part = met.clone().into_range(4 * k..4 * k + 4).unwrap();
            let step = Step::of(id, memories[from].clone(), memories[to].clone(), part);
            pipeline = pipeline.submit(step).defer([1]);
        }
        done += count;
        match random.below(3) {
            0 => pipeline.exec().unwrap(),
            1 => handles.push(pipeline.exec_async()),
            _ => drop(pipeline.exec_async()),
        }
        ran.push(Ran { thread, steps, met });
    }
    handles.iter().for_each(|h| h.wait().unwrap());
    ran
}

/// The pipelines' numbers in an order in which `after` says who comes after whom.
fn sorted(after: &[Vec<usize>]) -> Vec<usize> {
    let mut before = vec![0; after.len()];
    after.iter().flatten().for_each(|&p| before[p] += 1);
    let mut order: Vec<usize> = (0..after.len()).filter(|&p| before[p] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for &p in &after[order[at]] {
            before[p] -= 1;
            if before[p] == 0 {
                order.push(p);
            }
        }
        at += 1;
    }
    order
}

fn check(submissions: usize) {
    let rt = get_runtime("ALL_CPU").unwrap();
    let memories: Vec<_> = (0..MEMORIES as u64).map(|m| FlashMemory::from([m, 0])).collect();
    let mut all: Vec<Ran> = vec![];
    std::thread::scope(|scope| {
        let run = |thread| run(&rt, &memories, thread, submissions / THREADS);
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().for_each(|t| all.extend(t.join().unwrap()));
    });
    let met: Vec<Vec<u64>> = all.iter().map(|p| p.met.read().unwrap().to_vec()).collect();
    // Who made which version of a memory, and who read which.
    let mut writers: HashMap<(usize, u64), usize> = HashMap::new();
    for (p, ran) in all.iter().enumerate() {
        for (&(_, _, to), met) in ran.steps.iter().zip(met[p].chunks(4)) {
            let twice = writers.insert((to, met[3] + 1), p);
            assert!(twice.is_none(), "two submissions made version {} of memory {to}", met[3] + 1);
        }
    }
    let mut after: Vec<Vec<usize>> = vec![vec![]; all.len()];
    let mut edge = |a: Option<usize>, b: Option<usize>| match (a, b) {
        (Some(a), Some(b)) if a != b => after[a].push(b),
        _ => {}
    };
    let maker = |memory: usize, version: u64| writers.get(&(memory, version)).copied();
    // What each thread wrote last on each memory, and has read since: its own order.
    let mut wrote: HashMap<(usize, usize), usize> = HashMap::new();
    let mut read: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for (p, ran) in all.iter().enumerate() {
        for (&(_, from, to), met) in ran.steps.iter().zip(met[p].chunks(4)) {
            edge(maker(from, met[1]), Some(p));
            edge(Some(p), maker(from, met[1] + 1));
            edge(maker(to, met[3]), Some(p));
            // Two readers of one thread may run in any order: only what a writer is part of counts.
            edge(wrote.get(&(ran.thread, from)).copied(), Some(p));
            read.entry((ran.thread, from)).or_default().push(p);
            edge(wrote.insert((ran.thread, to), p), Some(p));
            read.remove(&(ran.thread, to)).into_iter().flatten().for_each(|r| edge(Some(r), Some(p)));
        }
    }
    let order = sorted(&after);
    assert_eq!(order.len(), all.len(), "some pipelines came before and after each other");
    let mut model: Vec<[u64; 2]> = (0..MEMORIES as u64).map(|m| [m, 0]).collect();
    for p in order {
        for (&(id, from, to), met) in all[p].steps.iter().zip(met[p].chunks(4)) {
            assert_eq!([model[from], model[to]].concat(), met, "submission {id} of pipeline {p}");
            model[to] = [next(id, model[from][0], model[to][0]), model[to][1] + 1];
        }
    }
    for (model, memory) in model.iter().zip(&memories) {
        assert_eq!(*memory.read().unwrap(), model[..]);
    }
}

#[test]
fn eight_threads_with_a_hundred_thousand_submissions_are_as_one_after_the_other() {
    check(100_000);
}
