//! Who waits for room in devices' memories that other runs have.
//!
//! What a run uses stays on its devices until the run is over, so a launch that fits a device may find it full while
//! others run. It then takes back all that its own run has on any device, and waits until another run has ended. So who
//! waits has nothing for which others wait, and who does not wait ends some time. If all wait, the one who has waited
//! longest tries again, alone: what finds no room then never does.
//!
//! Launches on the inline path are not counted. They wait for nobody, so who is alone keeps others off that way, waits
//! for those that are on it (`memory/fast_path.rs`), and tries once more.
//!
//! A run inside a function of the host does not count: that may wait for anything, and be it for who waits here.
//!
//! The models (`tests/loom`) include this file beside their own `sync`, so it names no others.

use super::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;

/// The runs of the process that use memories of devices.
#[derive(Default)]
pub(super) struct DeviceRoom {
    state: Mutex<State>,
    /// A run has ended, or goes no more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Runs that do not wait.
    active_run: u32,
    /// How often `active_run` has changed.
    changes: u64,
    /// Runs that have ended.
    ended: u64,
    /// Who waits, by number, the longest first.
    waiting: VecDeque<u64>,
    next: u64,
}

/// How it was before a run tried to get room.
#[derive(Clone, Copy)]
pub(super) struct RunsBefore {
    changes: u64,
    alone: bool,
}

impl DeviceRoom {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A run goes: it begins, or is back from a function of the host.
    pub fn goes(&self) {
        self.lock().change(true);
    }

    /// A run is away, in a function of the host, and what it has on devices stays there.
    pub fn is_away(&self) {
        self.lock().change(false);
        self.changed.notify_all();
    }

    /// A run has ended: others may have the room that it had.
    pub fn ends(&self) {
        let mut state = self.lock();
        state.change(false);
        state.ended += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// To be taken by a run that goes, before it tries.
    pub fn before(&self) -> RunsBefore {
        let state = self.lock();
        RunsBefore { changes: state.changes, alone: state.active_run == 1 }
    }

    /// Of a run that found no room, and has nothing on any device any more: waits until it may find some. False: it was
    /// alone, so it never will.
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
