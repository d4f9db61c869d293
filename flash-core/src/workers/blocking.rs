//! Extra threads, for work that may wait for something other than a processor: a function of the host that
//! says `blocking`, or a pipeline that waits for devices.
//!
//! There are at most [`limit`] of them. One is started when work comes and none is idle, and ends after being
//! idle for [`IDLE`]. Work beyond the limit waits, by priority and then in the order in which it came.

use crate::settings::process_number;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that has been idle for this long ends.
const IDLE: Duration = Duration::from_millis(500);

struct Extra {
    queue: VecDeque<(i32, Job)>,
    threads: usize,
    /// Threads that sleep, and may or may not find something in the queue.
    idle: usize,
}

static EXTRA: Mutex<Extra> = Mutex::new(Extra { queue: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

fn extra() -> MutexGuard<'static, Extra> {
    EXTRA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limit of their number: the setting `blocking_threads`, 8 by default, at least 1.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| process_number("blocking_threads").map_or(8, |limit| limit as usize))
}

/// Runs `job` on an extra thread, before all waiting jobs of a lower priority. Where no thread can be
/// started, this thread runs what waits.
pub(crate) fn run(priority: i32, job: Job) {
    let mut extra = extra();
    let at = extra.queue.partition_point(|(before, _)| *before >= priority);
    extra.queue.insert(at, (priority, job));
    if extra.idle >= extra.queue.len() {
        drop(extra);
        WORK.notify_one();
        return;
    }
    if extra.threads >= limit() {
        return;
    }
    extra.threads += 1;
    drop(extra);
    if std::thread::Builder::new().name("flash-blocking".into()).spawn(work).is_err() {
        let mut extra = self::extra();
        extra.threads -= 1;
        while extra.threads == 0
            && let Some((_, job)) = extra.queue.pop_front()
        {
            drop(extra);
            job();
            extra = self::extra();
        }
    }
}

fn work() {
    let mut extra = extra();
    loop {
        if let Some((_, job)) = extra.queue.pop_front() {
            drop(extra);
            job();
            extra = self::extra();
            continue;
        }
        extra.idle += 1;
        let (woken, timeout) = WORK.wait_timeout(extra, IDLE).unwrap_or_else(PoisonError::into_inner);
        extra = woken;
        extra.idle -= 1;
        if timeout.timed_out() && extra.queue.is_empty() {
            extra.threads -= 1;
            return;
        }
    }
}
