//! What runs before, after and beside what.

use anyhow::Result;
use flash_examples::expect;
use flash_tasks::{Priority, Semaphore, State, TaskGraph, scope, set_limit, worker_count, yield_now};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Three tasks, of which each reads what the one before it writes.
pub fn abc() -> Result<String> {
    let letters = Mutex::new(String::new());
    let say = |letter| {
        let letters = &letters;
        move || letters.lock().expect("no task panics").push(letter)
    };
    let mut graph = TaskGraph::new();
    let [first, second] = [graph.datum(), graph.datum()];
    graph.task(&[], &[first], say('a'));
    graph.task(&[first], &[second], say('b'));
    graph.task(&[second], &[], say('c'));
    graph.run()?;
    graph.run()?;
    drop(graph);
    let letters = letters.into_inner()?;
    expect(letters.as_str(), "abcabc")?;
    Ok(format!("two runs: {letters}"))
}

pub fn many() -> Result<String> {
    const TASKS: usize = 100_000;
    let count = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..TASKS {
            drop(s.spawn(|| count.fetch_add(1, Relaxed)));
        }
    })?;
    expect(count.into_inner(), TASKS)?;
    Ok(format!("{TASKS} tasks ran"))
}

/// All tasks wait for a permit that the last of them to arrive gives out.
pub fn suspension() -> Result<String> {
    const TASKS: usize = 10_000;
    let (gate, arrived) = (Semaphore::new(0), AtomicUsize::new(0));
    scope(|s| {
        for _ in 0..TASKS {
            drop(s.spawn(|| {
                if arrived.fetch_add(1, Relaxed) + 1 == TASKS {
                    (1..TASKS).for_each(|_| gate.release());
                } else {
                    gate.acquire().keep();
                }
            }));
        }
    })?;
    expect(arrived.into_inner(), TASKS)?;
    Ok(format!("{TASKS} tasks waited for the last one, on {} workers and this thread", worker_count()))
}

/// Jobs that are cut until they are small; urgent ones come first.
pub fn jobs() -> Result<String> {
    fn job<'scope>(s: &'scope flash_tasks::Scope<'scope, '_>, done: &'scope AtomicUsize, size: usize) {
        if size <= 16 {
            done.fetch_add(size, Relaxed);
            return;
        }
        let half = size / 2;
        drop(s.spawn(move || job(s, done, half)));
        drop(s.task().priority(Priority::High).spawn(move || job(s, done, size - half)));
    }
    let done = AtomicUsize::new(0);
    scope(|s| job(s, &done, 10_000))?;
    expect(done.into_inner(), 10_000)?;
    Ok("10000 units of work in jobs of at most 16".into())
}

pub fn one_worker() -> Result<String> {
    let threads = Mutex::new(HashSet::new());
    scope(|s| {
        for _ in 0..100 {
            drop(s.task().on_worker(0).spawn(|| {
                yield_now();
                threads.lock().expect("no task panics").insert(std::thread::current().id());
            }));
        }
    })?;
    expect(threads.into_inner()?.len(), 1)?;
    Ok("100 tasks ran on one thread".into())
}

/// The limit changes while tasks run: workers beyond it finish what they have begun.
pub fn limit() -> Result<String> {
    let count = AtomicUsize::new(0);
    for limit in [Some(1), None] {
        set_limit(limit);
        scope(|s| {
            for _ in 0..1_000 {
                drop(s.spawn(|| count.fetch_add(1, Relaxed)));
            }
        })?;
    }
    expect(count.into_inner(), 2_000)?;
    Ok(format!("1000 tasks with one worker, and 1000 with {}", worker_count()))
}

pub fn callbacks() -> Result<String> {
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = states.clone();
    scope(|s| {
        let tell = move |state| told.lock().expect("it does not panic").push(state);
        drop(s.task().name("told").on_change(tell).spawn(yield_now));
    })?;
    let states = states.lock().expect("no task panics");
    expect(states.as_slice(), &[State::Running, State::Suspended, State::Resumed, State::Finished])?;
    Ok(format!("{states:?}"))
}
