//! Waiting for room in device memory that other runs use.
//!
//! The data of a run stays on its devices until the run is over, so a launch that fits a device may find it
//! full while others run. It then takes back everything that its own run has on any device, and waits until
//! another run has ended. So a waiting run has nothing that others wait for, and a run that does not wait
//! ends eventually. If all wait, the one that has waited longest tries again, alone: if it finds no room
//! then, it never will.
//!
//! Launches on the inline path are not counted. They wait for no run. So a run that is alone closes that
//! path, waits for the launches on it (`memory/fast_path.rs`), and tries once more.
//!
//! A run inside a function of the host does not count: the function may wait for anything, even for a run
//! that waits here.
//!
//! The models (`tests/loom`) include this file beside their own `sync`, so it names no other modules.

use super::sync::{Condvar, Mutex, MutexGuard, before_sleep};
use std::collections::VecDeque;

/// The runs of the process that use device memory.
#[derive(Default)]
pub(super) struct DeviceRoom {
    state: Mutex<State>,
    /// A run has ended, or is away.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Runs that do not wait.
    active_run: u32,
    /// Number of changes of `active_run`.
    changes: u64,
    /// Number of runs that have ended.
    ended: u64,
    /// The waiting runs, by number, the longest first.
    waiting: VecDeque<u64>,
    next: u64,
}

/// The state before a run tried to get room.
#[derive(Clone, Copy)]
pub(super) struct RunsBefore {
    changes: u64,
    alone: bool,
}

impl DeviceRoom {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A run becomes active: it begins, or returns from a function of the host.
    pub fn goes(&self) {
        self.lock().change(true);
    }

    /// A run is away, in a function of the host; its data on devices stays.
    pub fn is_away(&self) {
        self.lock().change(false);
        self.changed.notify_all();
    }

    /// A run has ended: others may use its room.
    pub fn ends(&self) {
        let mut state = self.lock();
        state.change(false);
        state.ended += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// To be taken by an active run, before it tries.
    pub fn before(&self) -> RunsBefore {
        let state = self.lock();
        RunsBefore { changes: state.changes, alone: state.active_run == 1 }
    }

    /// Called by a run that found no room, and has no data on any device any more: waits until there may be
    /// some. False: it was alone, so there never will be.
    pub fn wait(&self, before: RunsBefore) -> bool {
        let mut state = self.lock();
        if before.alone && before.changes == state.changes {
            return false;
        }
        // Alone since then: it tries once more.
        if state.active_run > 1 {
            let (me, ended) = (state.next, state.ended);
            state.next += 1;
            state.waiting.push_back(me);
            state.change(false);
            self.changed.notify_all();
            while state.ended == ended && (state.active_run > 0 || state.waiting.front() != Some(&me)) {
                before_sleep();
                state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
            }
            state.waiting.retain(|other| *other != me);
            state.change(true);
        }
        true
    }
}

impl State {
    fn change(&mut self, goes: bool) {
        self.active_run = if goes { self.active_run + 1 } else { self.active_run - 1 };
        self.changes += 1;
    }
}
