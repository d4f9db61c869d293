//! Random tasks: graphs from accesses against the order of their tasks, and trees of tasks against a
//! recursive function. Some tasks panic, and some scopes are cancelled, at a random moment.

use crate::random::{FAULT, Fault, Random};
use flash as _; // Its workers.
use flash_tasks::{Scope, TaskGraph, join, scope, yield_now};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tasks by what they read and write, of `data` data.
struct Program {
    data: usize,
    tasks: Vec<Accesses>,
}

struct Accesses {
    reads: Vec<usize>,
    writes: Vec<usize>,
    pauses: bool,
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl Program {
    fn new(random: &mut Random) -> Program {
        let data = 1 + random.below(20) as usize;
        let tasks = (0..random.below(150)).map(|_| {
            let mut some =
                |most: u64| (0..random.below(most)).map(|_| random.below(data as u64) as usize).collect();
            let (reads, writes) = (some(5), some(4));
            Accesses { reads, writes, pauses: random.once_in(5) }
        });
        let tasks = tasks.collect();
        Program { data, tasks }
    }

    /// What a task makes of the data. Relaxed, so that only the graph orders the tasks.
    fn run(&self, task: usize, data: &[AtomicU64]) {
        let Accesses { reads, writes, .. } = &self.tasks[task];
        let sum = reads.iter().fold(task as u64, |sum, &datum| mix(sum, data[datum].load(Relaxed)));
        for &datum in writes {
            data[datum].store(mix(data[datum].load(Relaxed), sum), Relaxed);
        }
    }

    /// Whether the second of two tasks comes after the first.
    fn are_ordered(&self, before: usize, after: usize) -> bool {
        let [before, after] = [before, after].map(|task| &self.tasks[task]);
        let meet = |a: &[usize], b: &[usize]| a.iter().any(|datum| b.contains(datum));
        meet(&before.writes, &after.writes)
            || meet(&before.writes, &after.reads)
            || meet(&before.reads, &after.writes)
    }

    fn data(&self) -> Vec<AtomicU64> {
        (0..self.data as u64).map(AtomicU64::new).collect()
    }
}

fn values(data: &[AtomicU64]) -> Vec<u64> {
    data.iter().map(|value| value.load(Relaxed)).collect()
}

/// A graph, which is run several times; in one of the runs a task may panic.
fn graph(seed: u64, random: &mut Random) {
    let program = Program::new(random);
    let (alone, shared) = (program.data(), program.data());
    let fault = if random.once_in(3) { Fault::within(random, 400) } else { Fault::none() };
    let ran: Vec<AtomicU64> = program.tasks.iter().map(|_| AtomicU64::new(0)).collect();
    let mut graph = TaskGraph::new();
    let data: Vec<_> = (0..program.data).map(|_| graph.datum()).collect();
    for (index, Accesses { reads, writes, pauses }) in program.tasks.iter().enumerate() {
        let of = |indices: &[usize]| indices.iter().map(|&i| data[i]).collect::<Vec<_>>();
        let (program, shared, fault, ran) = (&program, &shared, &fault, &ran);
        graph.task(&of(reads), &of(writes), move || {
            if *pauses {
                yield_now();
            }
            if fault.look().is_err() {
                panic!("{FAULT}");
            }
            program.run(index, shared);
            ran[index].fetch_add(1, Relaxed);
        });
    }
    for run in 1..=1 + random.below(3) {
        let Err(error) = graph.run() else {
            (0..program.tasks.len()).for_each(|task| program.run(task, &alone));
            assert_eq!(values(&shared), values(&alone), "seed {seed}, run {run}");
            assert!(values(&ran).iter().all(|&times| times == run), "seed {seed}, run {run}: {ran:?}");
            continue;
        };
        assert!(fault.has_come() && error.to_string().ends_with(FAULT), "seed {seed}: {error}");
        // What ran had all that it comes after.
        let ran: Vec<bool> = values(&ran).iter().map(|&times| times == run).collect();
        for after in (0..ran.len()).filter(|&task| ran[task]) {
            let missing = (0..after).find(|&before| !ran[before] && program.are_ordered(before, after));
            assert_eq!(missing, None, "seed {seed}: task {after} ran without it");
        }
        return;
    }
}

/// The value of a node of a tree of calls, and of all below it.
fn value(at: u64, depth: u32) -> u64 {
    let mut random = Random::new(at);
    let children = if depth == 0 { 0 } else { random.below(4) };
    (0..children).fold(at, |sum, child| sum.wrapping_add(value(mix(at, child), depth - 1)))
}

/// The same by tasks of one scope, by joins, and by scopes inside tasks.
fn value_of<'scope>(s: &'scope Scope<'scope, '_>, at: u64, depth: u32) -> u64 {
    let mut random = Random::new(at);
    let children = if depth == 0 { 0 } else { random.below(4) };
    let (how, pauses) = (random.below(4), random.once_in(4));
    if pauses {
        yield_now();
    }
    let child = move |i: u64| mix(at, i);
    match how {
        0 if children == 2 => {
            let (a, b) = join(|| value(child(0), depth - 1), || value(child(1), depth - 1));
            at.wrapping_add(a).wrapping_add(b)
        }
        1 => {
            let inner = scope(|s| {
                let tasks: Vec<_> =
                    (0..children).map(|i| s.spawn(move || value_of(s, child(i), depth - 1))).collect();
                sum(at, tasks.into_iter().map(|task| task.wait()))
            });
            inner.expect("no task panics")
        }
        _ => {
            let tasks: Vec<_> =
                (0..children).map(|i| s.spawn(move || value_of(s, child(i), depth - 1))).collect();
            // The last is waited for first, and the other way round.
            match how {
                2 => sum(at, tasks.into_iter().rev().map(|task| task.wait())),
                _ => sum(at, tasks.into_iter().map(|task| task.wait())),
            }
        }
    }
}

fn sum(at: u64, results: impl Iterator<Item = Result<u64, flash_tasks::TaskError>>) -> u64 {
    results.fold(at, |sum, result| sum.wrapping_add(result.expect("no task panics")))
}

fn tree(seed: u64, random: &mut Random) {
    let (at, depth) = (random.number(), 2 + random.below(6) as u32);
    let found = scope(|s| value_of(s, at, depth));
    assert_eq!(found, Ok(value(at, depth)), "seed {seed}");
}

/// Many tasks of one scope, of which one may panic, and which may be cancelled meanwhile.
fn ends(seed: u64, random: &mut Random) {
    let count = 1 + random.below(300);
    let fault = if random.once_in(2) { Fault::within(random, 2 * count) } else { Fault::none() };
    let (cancels_at, is_dropped) = (random.below(2 * count), random.once_in(2));
    let ran = AtomicU64::new(0);
    let mut waited = (0, 0);
    let ended = scope(|s| {
        let mut tasks = Vec::new();
        for i in 0..count {
            let (fault, ran) = (&fault, &ran);
            let task = s.spawn(move || {
                if i % 7 == 0 {
                    yield_now();
                }
                if fault.look().is_err() {
                    panic!("{FAULT}");
                }
                ran.fetch_add(1, Relaxed);
            });
            match is_dropped {
                true => drop(task),
                false => tasks.push(task),
            }
            if i == cancels_at {
                s.cancel();
            }
        }
        for task in tasks {
            match task.wait() {
                Ok(()) => waited.0 += 1,
                Err(_) => waited.1 += 1,
            }
        }
    });
    let (ran, is_cancelled) = (ran.load(Relaxed), cancels_at < count);
    assert!(ran <= count, "seed {seed}: {ran} of {count} ran");
    if !is_dropped {
        assert_eq!(ended, Ok(()), "seed {seed}: its tasks were waited for");
        assert_eq!((waited.0, waited.0 + waited.1), (ran, count), "seed {seed}");
    }
    if is_dropped && fault.has_come() {
        assert!(ended.is_err(), "seed {seed}: a task panicked");
    }
    if !is_cancelled && !fault.has_come() {
        assert_eq!((ran, ended), (count, Ok(())), "seed {seed}");
    }
}

/// Runs the tasks of a seed.
///
/// # Panics
/// If they do not do what the model does. The seed is in the message.
pub fn check(seed: u64) {
    let mut random = Random::new(seed);
    match random.below(3) {
        0 => graph(seed, &mut random),
        1 => tree(seed, &mut random),
        _ => ends(seed, &mut random),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn random_tasks_give_what_their_order_gives() {
        (0..1000).for_each(super::check);
    }
}
