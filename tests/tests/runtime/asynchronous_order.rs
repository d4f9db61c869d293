//! The order of pipelines, synchronous and asynchronous, and of guards, of many threads over shared memories,
//! against a serial run.
//!
//! Each element has a value and a version. A submission records the versions that it met, which says after
//! which others it came on each memory; from that the pipelines are put into one order, as wholes. That there
//! is one, that it keeps the order of each thread, and that a serial run in it meets and leaves the same
//! values is what is tested. Some submissions are cut, some run whole; guards fail where others are alive,
//! and are tried again. The memories are memories, or parts of one.

use flash::Error;
use flash::kernel;
use flash::kernel::CpuItem;
use flash::kernel::Index;
use flash::kernel::prelude::kernel_fn;
use flash::kernel::views::{Item, Read, ReadWrite, Row, Write};
use flash::prelude::*;
use flash_core::descriptor::{Attributes, Subspaces, part_by};
use flash_tests::{APART, Random, in_process};
use std::collections::HashMap;
use std::ops::{Deref, Range};

#[derive(KernelDefinition)]
#[kernel(name = "asynchronous_order.step", dims(x, y))]
struct Step<'a> {
    id: u64,
    from: Item<'a, Read<Row<u64>>>,
    to: Item<'a, ReadWrite<Row<u64>>>,
    /// Value and version of `from`, value and version of `to` before.
    met: Item<'a, Write<Row<u64>>>,
}

struct Plain;

#[kernel_fn]
fn next(id: u64, from: u64, to: u64) -> u64 {
    to.wrapping_mul(3).wrapping_add(from).wrapping_add(id)
}

#[kernel(devices)]
impl CpuItem<Step<'_>> for Plain {
    fn item(_: Index<2>, k: StepItem<'_>) {
        for i in 0..2 {
            k.met[i] = k.from[i];
            k.met[2 + i] = k.to[i];
        }
        k.to[0] = next(k.id, k.from[0], k.to[0]);
        k.to[1] += 1;
    }
}

const MEMORIES: usize = 6;
const THREADS: usize = 8;
/// Items of a submission along x and y.
const EXTENT: [usize; 2] = [2, 3];
const ITEMS: usize = EXTENT[0] * EXTENT[1];

/// One of them, for a submission.
enum Argument {
    All(FlashMemory<u64>),
    Part(FlashMemory<u64>, Range<usize>),
}

/// What the threads share: each a memory, or all of them parts of one.
struct Memories {
    all: Vec<FlashMemory<u64>>,
    parts: bool,
}

/// Value and version per item of an untouched memory.
fn untouched(m: usize) -> impl Iterator<Item = u64> {
    (0..ITEMS).flat_map(move |item| [(m + 100 * item) as u64, 0])
}

impl Memories {
    fn new(parts: bool) -> Memories {
        let each = |m: usize| untouched(m).collect::<FlashMemory<u64>>();
        let all = match parts {
            true => vec![(0..MEMORIES).flat_map(untouched).collect()],
            false => (0..MEMORIES).map(|m| each(m).with_shape([2, EXTENT[0], EXTENT[1]]).unwrap()).collect(),
        };
        Memories { all, parts }
    }

    fn argument(&self, m: usize) -> Argument {
        match self.parts {
            true => Argument::Part(self.all[0].clone(), 2 * ITEMS * m..2 * ITEMS * (m + 1)),
            false => Argument::All(self.all[m].clone()),
        }
    }

    fn read(&self, m: usize) -> Result<impl Deref<Target = [u64]>, Error> {
        match self.argument(m) {
            Argument::Part(_, range) => self.all[0].read_range(range),
            Argument::All(_) => self.all[m].read(),
        }
    }
}

/// What a submission, or a guard, reads and what it writes: numbers of memories. A guard does one of the two.
#[derive(Clone, Copy)]
struct Touched {
    id: u64,
    from: Option<usize>,
    to: Option<usize>,
}

/// A pipeline that was run, or a guard, which is like a pipeline of one submission.
struct Ran {
    thread: usize,
    steps: Vec<Touched>,
    /// Four numbers per item and submission.
    met: FlashMemory<u64>,
}

/// How a submission is cut, if it is.
fn cut(random: &mut Random, devices: usize) -> Attributes {
    let mut options = Attributes::default();
    match random.below(4) {
        0 => options.set(part_by("y")),
        1 => options.set(weights((0..devices).map(|device| (device + random.below(3)) as f64 + 0.5))),
        2 => {
            options.set(part_by("y"));
            options.set(Subspaces(1 + random.below(3) as u32));
        }
        _ => {}
    }
    options
}

/// Again while a guard of another thread is in the way: then nothing has happened.
fn insist<T>(mut what: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match what() {
            Ok(done) => return done,
            Err(Error::Borrowed { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The host reads a memory, or writes all of it.
fn guard(memories: &Memories, m: usize, id: u64, writes: bool) -> FlashMemory<u64> {
    if !writes {
        let seen = insist(|| memories.read(m));
        return seen.chunks(2).flat_map(|e| [e[0], e[1], 0, 0]).collect();
    }
    let mut all = insist(|| memories.all[m].write());
    let change = |e: &mut [u64]| {
        let met = [0, 0, e[0], e[1]];
        e.copy_from_slice(&[next(id, 0, e[0]), e[1] + 1]);
        met
    };
    all.chunks_mut(2).flat_map(change).collect()
}

fn run(rt: &RuntimeObj, memories: &Memories, thread: usize, submissions: usize) -> Vec<Ran> {
    let mut random = Random(thread as u64 + 1);
    let (mut ran, mut handles, mut done) = (vec![], vec![], 0);
    while done < submissions {
        let first = (thread * submissions * 2 + done) as u64;
        if random.below(8) == 0 {
            // A guard that writes is of all of a memory.
            let (at, writes) = (random.below(MEMORIES), random.below(2) == 0 && !memories.parts);
            let met = guard(memories, at, first, writes);
            let step = Touched { id: first, from: (!writes).then_some(at), to: writes.then_some(at) };
            ran.push(Ran { thread, steps: vec![step], met });
            continue;
        }
        let count = 1 + random.below(4);
        let met = FlashMemory::<u64>::zeroed(4 * ITEMS * count);
        let step = |id| {
            let from = random.below(MEMORIES);
            let to = (from + 1 + random.below(MEMORIES - 1)) % MEMORIES;
            (Touched { id, from: Some(from), to: Some(to) }, cut(&mut random, rt.devices().len()))
        };
        let (steps, cuts): (Vec<_>, Vec<_>) = (first..).take(count).map(step).unzip();
        let pipeline = || -> Pipeline<'static> {
            steps.iter().zip(&cuts).enumerate().fold(rt.pipeline(), |chain, (k, (step, cut))| {
                let memory = |at: Option<usize>| memories.argument(at.expect("a kernel has both"));
                let part = met.clone().into_range(4 * ITEMS * k..4 * ITEMS * (k + 1)).unwrap();
                let shape = |of: u64| [of, EXTENT[0] as u64, EXTENT[1] as u64];
                let submitted = match (memory(step.from), memory(step.to)) {
                    (Argument::All(from), Argument::All(to)) => {
                        chain.submit(Step::of(step.id, from, to, part))
                    }
                    (Argument::Part(one, from), Argument::Part(_, to)) => {
                        let range = |range| one.clone().into_range(range).unwrap();
                        chain.submit(Step::of(step.id, range(from), range(to), part))
                    }
                    _ => unreachable!("all are parts, or none is"),
                };
                let sizes = [&shape(2)[..], &shape(2), &shape(4)];
                submitted.sizes(sizes).options(cut.clone()).defer(EXTENT)
            })
        };
        let later = || {
            let handle = pipeline().exec_async();
            match handle.try_wait() {
                Some(Err(error)) => Err(error),
                _ => Ok(handle),
            }
        };
        done += count;
        match random.below(3) {
            0 => insist(|| pipeline().exec()),
            1 => handles.push(insist(later)),
            _ => drop(insist(later)),
        }
        ran.push(Ran { thread, steps, met });
    }
    handles.iter().for_each(|h| h.wait().unwrap());
    ran
}

/// The pipelines' numbers in an order that keeps `after`.
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

/// Fewer where all is slower.
fn submissions() -> usize {
    let fewer = std::env::var("FLASH_TEST_SUBMISSIONS").ok().and_then(|text| text.parse().ok());
    fewer.unwrap_or(100_000)
}

fn check(submissions: usize, parts: bool) {
    let rt = flash_tests::runtime();
    let memories = Memories::new(parts);
    let mut all: Vec<Ran> = vec![];
    std::thread::scope(|scope| {
        let run = |thread| run(&rt, &memories, thread, submissions / THREADS);
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().for_each(|t| all.extend(t.join().unwrap()));
    });
    let met: Vec<Vec<u64>> = all.iter().map(|p| p.met.read().unwrap().to_vec()).collect();
    // Of every submission the versions that it met: the same for all of its items, or it was not one.
    let versions = |p: usize| {
        let met = met[p].chunks(4 * ITEMS).map(|items| {
            assert!(items.chunks(4).all(|item| [item[1], item[3]] == [items[1], items[3]]), "{items:?}");
            [items[1], items[3]]
        });
        all[p].steps.iter().zip(met)
    };
    // The pipelines that made, and that read, each version of a memory.
    let mut writers: HashMap<(usize, u64), usize> = HashMap::new();
    for p in 0..all.len() {
        for (step, [_, version]) in versions(p) {
            let Some(to) = step.to else { continue };
            let twice = writers.insert((to, version + 1), p);
            assert!(twice.is_none(), "two submissions made version {} of memory {to}", version + 1);
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
        for (step, met) in versions(p) {
            if let Some(from) = step.from {
                edge(maker(from, met[0]), Some(p));
                edge(Some(p), maker(from, met[0] + 1));
                // Two readers of one thread may run in any order: only what a writer is part of counts.
                edge(wrote.get(&(ran.thread, from)).copied(), Some(p));
                read.entry((ran.thread, from)).or_default().push(p);
            }
            if let Some(to) = step.to {
                edge(maker(to, met[1]), Some(p));
                edge(wrote.insert((ran.thread, to), p), Some(p));
                read.remove(&(ran.thread, to)).into_iter().flatten().for_each(|r| edge(Some(r), Some(p)));
            }
        }
    }
    let order = sorted(&after);
    assert_eq!(order.len(), all.len(), "some pipelines came before and after each other");
    let mut model: Vec<Vec<u64>> = (0..MEMORIES).map(|m| untouched(m).collect()).collect();
    for p in order {
        for (step, met) in all[p].steps.iter().zip(met[p].chunks(4 * ITEMS)) {
            for (item, met) in met.chunks(4).enumerate() {
                let element = |memory: Option<usize>| {
                    memory.map_or([0, 0], |memory| [model[memory][2 * item], model[memory][2 * item + 1]])
                };
                let (from, to) = (element(step.from), element(step.to));
                assert_eq!([from, to].concat(), met, "submission {} of pipeline {p}", step.id);
                if let Some(memory) = step.to {
                    model[memory][2 * item] = next(step.id, from[0], to[0]);
                    model[memory][2 * item + 1] += 1;
                }
            }
        }
    }
    for (m, model) in model.iter().enumerate() {
        assert_eq!(*memories.read(m).unwrap(), model[..]);
    }
}

#[flash_tests::test]
fn eight_threads_with_a_hundred_thousand_submissions_are_as_one_after_the_other() {
    check(submissions(), false);
}

#[flash_tests::test]
fn so_are_they_on_parts_of_one_memory() {
    check(submissions() / 4, true);
}

#[flash_tests::test]
fn so_are_they_on_three_devices_that_share_the_hosts_memory() {
    in_process(&[("FLASH_CPU_DEVICES", "3")], || check(submissions(), false));
}

#[flash_tests::test]
fn so_are_they_on_three_devices_with_memories_of_their_own() {
    in_process(APART[3], || check(submissions(), false));
}

#[flash_tests::test]
fn so_are_they_on_three_devices_and_parts_of_one_memory() {
    in_process(APART[3], || check(submissions() / 4, true));
}
