//! What tasks record while a trace is going on: a span for each task, which is suspended while the task is,
//! and an arrow from where it became ready to where it begins.

use crate::jobs::Job;
use crate::task::{Extra, Priority};
use flash_trace::hooks::{self, Category, Span};

fn key(job: Job) -> u64 {
    job.0.addr().get() as u64
}

/// A job may run from now on, because of `why`.
#[cold]
pub(crate) fn ready(why: &str, job: Job) {
    hooks::data_out(why, key(job), 0, 1);
}

/// A task begins.
#[cold]
pub(crate) fn task(job: Job, name: &str, extra: Option<&Extra>) -> Span {
    let priority = match extra.map_or(Priority::Normal, |extra| extra.priority) {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
    };
    let worker = extra.and_then(|extra| extra.worker).map_or(0, |worker| worker as u64 + 1);
    begin(job, Category::Task, name, [priority, worker])
}

/// A task of a graph begins.
#[cold]
pub(crate) fn graph_task(job: Job, name: Option<&str>, number: u32) -> Span {
    begin(job, Category::GraphTask, name.unwrap_or("task of a graph"), [number.into(), 0])
}

fn begin(job: Job, category: Category, name: &str, numbers: [u64; 2]) -> Span {
    let span = hooks::begin(category, name, numbers);
    hooks::data_in(key(job), 0);
    span
}
