//! A thread that looks after graphs whose own threads run everything themselves.
//!
//! A worker that comes and finds nothing for a while was called in vain: the thread that pushes also waits,
//! and takes each activation before the worker could. It would be so the next time, too, and the worker would
//! only be in the way. So for such a graph no worker is called because of a single activation. This thread
//! calls one when nothing has run for a tick though something was ready. It sleeps while no graph needs it.

use crate::lane::lock;
use crate::schedule::Core;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Guard {
    armed: Mutex<Vec<Watched>>,
    changed: Condvar,
}

struct Watched {
    core: Arc<Core>,
    /// The activations that had run at the last tick.
    ran: u32,
}

/// Looks after a graph until it is at rest. False if there is no thread for it.
pub(crate) fn watch(core: &Arc<Core>) -> bool {
    static GUARD: OnceLock<Option<Arc<Guard>>> = OnceLock::new();
    let guard = GUARD.get_or_init(|| {
        let guard = Arc::<Guard>::default();
        let inside = guard.clone();
        let thread = thread::Builder::new().name("flash-graph".into()).spawn(move || inside.run());
        thread.is_ok().then_some(guard)
    });
    let Some(guard) = guard else { return false };
    lock(&guard.armed).push(Watched { core: core.clone(), ran: core.ran() });
    guard.changed.notify_one();
    true
}

impl Guard {
    fn run(&self) {
        loop {
            let armed = lock(&self.armed);
            drop(
                self.changed
                    .wait_while(armed, |armed| armed.is_empty())
                    .unwrap_or_else(PoisonError::into_inner),
            );
            thread::sleep(TICK);
            let watched = std::mem::take(&mut *lock(&self.armed));
            let kept = watched
                .into_iter()
                .filter_map(|Watched { core, ran }| core.keeps_watch(ran).map(|ran| Watched { core, ran }));
            let kept: Vec<Watched> = kept.collect();
            lock(&self.armed).extend(kept);
        }
    }
}
