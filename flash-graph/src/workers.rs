//! Graphs that have called for a worker of the process.

use crate::lane::lock;
use crate::schedule::Core;
use flash_core::workers::{self, Registration, Source};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

struct Calls(Mutex<VecDeque<Arc<Core>>>);

impl Source for Calls {
    fn run_one(&self) -> bool {
        let Some(core) = lock(&self.0).pop_front() else { return false };
        if core.serve() {
            lock(&self.0).push_back(core);
        }
        true
    }
}

/// Lets a worker serve a graph.
pub(crate) fn call(core: Arc<Core>) {
    static CALLS: OnceLock<(Arc<Calls>, Registration)> = OnceLock::new();
    let (calls, _) = CALLS.get_or_init(|| {
        let calls = Arc::new(Calls(Mutex::default()));
        (calls.clone(), workers::register(calls))
    });
    lock(&calls.0).push_back(core);
    workers::wake(1);
}

/// The number of workers of the process.
pub(crate) fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(workers::count)
}
