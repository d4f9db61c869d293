//! Tasks: dependencies that hold in whatever order tasks are added, and many small tasks that wait for
//! others.

use crate::{Outcome, expect, of_root};
use flash_hicr::{
    ComputeManager, Crew, Error, ExecutionUnit, Managers, Queue, Task, Workers, add, coroutines, wait_for,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The compute managers that tasks run on, and what they are called.
pub(crate) fn managers(hicr: &Managers) -> [(&'static str, Arc<dyn ComputeManager>); 2] {
    [("coroutines", coroutines(&hicr.topology)), ("threads", hicr.compute.clone())]
}

/// Letters of the text that tasks write.
const LETTERS: usize = 600;

/// Each task appends a letter after the one before it. They are added in no order.
pub fn tasks(hicr: &Managers) -> Outcome {
    let expected: String = "abc".chars().cycle().take(LETTERS).collect();
    let mut report = Vec::new();
    for (name, manager) in managers(hicr) {
        let workers = Workers::start(&Crew::of(&hicr.compute, &manager)?, Queue::oldest_first())?;
        let text = Arc::new(Mutex::new(String::new()));
        let letter = |letter: char| {
            let text = text.clone();
            let appends = ExecutionUnit::new(letter.to_string()).function(move |_| {
                text.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
                Ok(())
            });
            Task::new(appends, &[])
        };
        let tasks: Vec<Task> = expected.chars().map(letter).collect();
        tasks.windows(2).try_for_each(|pair| pair[1].after(&[&pair[0]]))?;
        shuffled(LETTERS).into_iter().try_for_each(|at| workers.add(&tasks[at]))?;
        workers.wait()?;
        let found = text.lock().unwrap_or_else(PoisonError::into_inner);
        expect("what the tasks wrote", found.as_str(), expected.as_str())?;
        report.push(json!({ "tasks_are": name, "workers": workers.count(), "letters": found.len() }));
    }
    of_root(hicr, json!({ "texts": report }))
}

/// The numbers below `count` in no order, the same each time.
fn shuffled(count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    let mut random = 1_u64;
    for at in (1..count).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(at, (random >> 33) as usize % (at + 1));
    }
    all
}

/// A Fibonacci number whose every call is a task, by the root. With threads of the system it is a smaller
/// one: each task is handed from one thread to another and back several times.
pub fn fibonacci(hicr: &Managers) -> Outcome {
    if !hicr.instances.current().is_root() {
        return Ok(Value::Null);
    }
    let mut report = Vec::new();
    for ((name, manager), n) in managers(hicr).into_iter().zip([24, 16]) {
        // The newest first, so that few tasks are suspended at a time.
        let workers = Workers::start(&Crew::of(&hicr.compute, &manager)?, Queue::newest_first())?;
        let (value, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        workers.add(&call(n, &value, &calls))?;
        workers.wait()?;
        let seconds = start.elapsed().as_secs_f64();
        let (value, calls) = (value.load(Relaxed), calls.load(Relaxed));
        let [expected, next] = [n, n + 1].map(plain);
        expect("the Fibonacci number", value, expected)?;
        // The calls are a tree with F(n + 1) leaves.
        expect("tasks", calls, 2 * next - 1)?;
        report.push(json!({
            "tasks_are": name,
            "workers": workers.count(),
            "n": n,
            "value": value,
            "tasks": calls,
            "seconds": seconds,
            "microseconds_per_task": seconds * 1e6 / calls as f64,
        }));
    }
    Ok(json!({ "numbers": report }))
}

fn plain(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// The task that adds F(n) to `sum`.
fn call(n: u32, sum: &Arc<AtomicU64>, calls: &Arc<AtomicU64>) -> Task {
    let (sum, calls) = (sum.clone(), calls.clone());
    let body = move || -> Result<(), Error> {
        calls.fetch_add(1, Relaxed);
        if n < 2 {
            sum.fetch_add(u64::from(n), Relaxed);
            return Ok(());
        }
        let parts = Arc::new(AtomicU64::new(0));
        let two = [n - 1, n - 2].map(|n| call(n, &parts, &calls));
        two.iter().try_for_each(add)?;
        wait_for(&two.each_ref())?;
        sum.fetch_add(parts.load(Relaxed), Relaxed);
        Ok(())
    };
    Task::new(ExecutionUnit::new("fibonacci").function(move |_| body()), &[])
}
