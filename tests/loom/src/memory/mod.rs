//! The holders of a memory. The file under test is included in place, beside a `sync` and `fences` that take
//! their names from loom.

mod fences;
mod sync;
#[path = "../../../../flash-core/src/memory/state/word.rs"]
pub(crate) mod word;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::check;
use word::{Refused, State};

/// A memory and its contents: loom fails if two accesses that are not ordered
/// touch them, the values if one is lost.
struct Memory {
    state: State,
    contents: UnsafeCell<u64>,
}

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: State::new(), contents: UnsafeCell::new(0) })
    }

    fn get(&self) -> u64 {
        // SAFETY: loom checks this access.
        self.contents.with(|contents| unsafe { *contents })
    }

    fn add(&self) {
        // SAFETY: loom checks this access.
        self.contents.with_mut(|contents| unsafe { *contents += 1 });
    }

    /// A launch that writes it.
    fn launch_write(&self) -> Result<bool, Refused> {
        let tracked = self.state.launch_write()?;
        self.add();
        self.state.release_write(tracked);
        Ok(tracked)
    }

    /// A launch that reads it.
    fn launch_read(&self) -> Result<u64, Refused> {
        self.state.launch_read()?;
        let seen = self.get();
        self.state.release_read();
        Ok(seen)
    }

    /// An eviction, if the memory is unused. Returns the number of evictions.
    fn evict(&self, tracked: bool) -> u64 {
        let evicts = self.state.try_evict();
        if evicts {
            self.add();
            self.state.end_evict(tracked);
        }
        u64::from(evicts)
    }

    fn guard_write(&self) -> Result<(), Refused> {
        self.state.guard_write()?;
        self.add();
        self.state.release_guard_write(false);
        Ok(())
    }

    fn guard_read(&self) -> Result<u64, Refused> {
        self.state.guard_read()?;
        let seen = self.get();
        self.state.release_guard_read();
        Ok(seen)
    }
}

fn spawn<R: 'static>(
    memories: &[Arc<Memory>],
    body: impl FnOnce(&[Arc<Memory>]) -> R + 'static,
) -> JoinHandle<R> {
    let memories = memories.to_vec();
    thread::spawn(move || body(&memories))
}

#[test]
fn writing_launches_take_turns() {
    check(3, || {
        let memory = [Memory::new()];
        let other = spawn(&memory, |m| {
            assert_eq!(m[0].launch_write(), Ok(false));
            assert_eq!(m[0].launch_write(), Ok(false));
        });
        assert_eq!(memory[0].launch_write(), Ok(false));
        assert_eq!(memory[0].launch_write(), Ok(false));
        other.join().unwrap();
        assert_eq!(memory[0].launch_read(), Ok(4));
    });
}

#[test]
fn two_waiters_are_both_woken() {
    check(2, || {
        let memory = [Memory::new()];
        assert_eq!(memory[0].state.launch_write(), Ok(false));
        let waiters = [(); 2].map(|()| spawn(&memory, |m| m[0].launch_write()));
        memory[0].add();
        memory[0].state.release_write(false);
        waiters.into_iter().for_each(|w| assert_eq!(w.join().unwrap(), Ok(false)));
        assert_eq!(memory[0].launch_read(), Ok(3));
    });
}

#[test]
fn reading_launches_share_and_a_writing_one_waits_for_the_last() {
    check(2, || {
        let memory = [Memory::new()];
        let reader = spawn(&memory, |m| m[0].launch_read());
        let writer = spawn(&memory, |m| m[0].launch_write());
        let seen = [memory[0].launch_read(), reader.join().unwrap()];
        assert!(seen.iter().all(|seen| matches!(seen, Ok(0 | 1))), "{seen:?}");
        assert_eq!(writer.join().unwrap(), Ok(false));
        assert_eq!(memory[0].launch_read(), Ok(1));
    });
}

#[test]
fn a_waiting_reader_is_woken_by_a_writer_and_the_other_way_round() {
    check(3, || {
        let memory = [Memory::new()];
        let other = spawn(&memory, |m| {
            assert!(m[0].launch_read().unwrap() <= 1);
            assert_eq!(m[0].launch_write(), Ok(false));
        });
        assert_eq!(memory[0].launch_write(), Ok(false));
        assert!(memory[0].launch_read().unwrap() >= 1);
        other.join().unwrap();
        assert_eq!(memory[0].launch_read(), Ok(2));
    });
}

#[test]
fn guards_wait_for_launches_and_launches_are_refused_by_guards() {
    check(3, || {
        let memory = [Memory::new()];
        let launch = spawn(&memory, |m| m[0].launch_write());
        let seen = memory[0].guard_read();
        let launched = launch.join().unwrap();
        assert!(matches!(launched, Ok(false) | Err(Refused::Borrowed { .. })), "{launched:?}");
        let written = u64::from(launched.is_ok());
        assert!(seen.as_ref().is_ok_and(|seen| *seen <= written), "{seen:?}");
        assert_eq!(memory[0].guard_read(), Ok(written));
    });
}

#[test]
fn a_write_guard_waits_for_readers_and_refuses_them() {
    check(3, || {
        let memory = [Memory::new()];
        let reader = spawn(&memory, |m| m[0].launch_read());
        assert_eq!(memory[0].guard_write(), Ok(()));
        let seen = reader.join().unwrap();
        assert!(matches!(seen, Ok(0 | 1) | Err(Refused::Borrowed { .. })), "{seen:?}");
        assert_eq!(memory[0].launch_read(), Ok(1));
    });
}

#[test]
fn guards_refuse_each_other_unless_both_read() {
    check(3, || {
        let memory = [Memory::new()];
        let other = spawn(&memory, |m| m[0].guard_write());
        let mine = memory[0].guard_write();
        let wrote = [mine, other.join().unwrap()].into_iter().filter(|w| w.is_ok()).count();
        assert!(wrote >= 1, "one of them got it");
        let other = spawn(&memory, |m| m[0].guard_read());
        assert_eq!(memory[0].guard_read(), Ok(wrote as u64));
        assert_eq!(other.join().unwrap(), Ok(wrote as u64));
    });
}

#[test]
fn a_note_is_carried_to_whoever_comes_next_and_taken_away_by_a_writing_guard() {
    check(3, || {
        let memory = [Memory::new()];
        assert_eq!(memory[0].state.launch_write(), Ok(false));
        let other = spawn(&memory, |m| {
            // The launch that tracks comes first: both wait for it.
            match m[0].state.launch_read() {
                Ok(tracked) => {
                    assert_eq!(m[0].get(), if tracked { 1 } else { 2 });
                    m[0].state.release_read();
                }
                refused => assert_eq!(refused, Err(Refused::Borrowed)),
            }
        });
        memory[0].add();
        memory[0].state.release_write(true);
        assert_eq!(memory[0].state.guard_read(), Ok(true));
        memory[0].state.release_guard_read();
        let healed = memory[0].guard_write();
        other.join().unwrap();
        assert_eq!(healed, Ok(()));
        assert_eq!(memory[0].launch_write(), Ok(false));
    });
}

#[test]
fn a_launch_that_writes_takes_the_note_away_and_one_that_reads_does_not() {
    check(3, || {
        let memory = [Memory::new()];
        assert_eq!(memory[0].state.launch_write(), Ok(false));
        memory[0].state.release_write(true);
        let reader = spawn(&memory, |m| m[0].launch_read());
        let tracked = memory[0].state.launch_write();
        assert_eq!(tracked, Ok(true), "though a reader came between");
        memory[0].add();
        memory[0].state.release_write(false);
        assert!(reader.join().unwrap().is_ok());
        assert_eq!(memory[0].guard_read(), Ok(1));
    });
}

#[test]
fn what_a_reader_notes_is_seen_by_every_later_writer() {
    check(3, || {
        let memory = [Memory::new()];
        let reader = spawn(&memory, |m| {
            m[0].state.launch_read()?;
            m[0].state.track();
            m[0].state.release_read();
            Ok::<(), Refused>(())
        });
        // A second reader shares the hold, and does not lose the bit when it releases.
        assert!(memory[0].launch_read().is_ok());
        // A writer that comes first leaves the word unchanged.
        assert!(memory[0].launch_write().is_ok());
        assert_eq!(reader.join().unwrap(), Ok(()));
        assert_eq!(memory[0].state.launch_write(), Ok(true));
        memory[0].state.release_write(false);
    });
}

#[test]
fn an_eviction_takes_turns_with_launches_and_guards_or_leaves() {
    check(3, || {
        let memory = [Memory::new()];
        let evictor = spawn(&memory, |m| m[0].evict(false));
        // A conflicting launch waits for it, and is not refused.
        assert_eq!(memory[0].launch_write(), Ok(false));
        assert!(memory[0].guard_write().is_ok());
        let evicted = evictor.join().unwrap();
        assert_eq!(memory[0].launch_read(), Ok(2 + evicted));
    });
}

#[test]
fn an_eviction_is_beside_guards_and_who_has_yet_to_begin_and_loses_neither() {
    check(3, || {
        let memory = [Memory::new()];
        let m = memory[0].clone();
        assert_eq!(m.state.guard_read(), Ok(false));
        assert_eq!(m.state.pend_write(false), Err(Refused::Borrowed));
        assert_eq!(m.state.pend_read(), Ok(()));
        let evictor = spawn(&memory, |m| m[0].evict(true));
        m.state.release_guard_read();
        // From now on the device's copy is not evicted.
        m.state.begin();
        let seen = m.get();
        m.state.release_pending_read();
        let evicted = evictor.join().unwrap();
        assert!(seen <= evicted);
        assert_eq!(m.state.launch_write(), Ok(evicted == 1));
        m.state.release_write(false);
        assert_eq!(m.launch_write(), Ok(false), "no pipeline is counted any more");
    });
}

#[test]
fn a_pipeline_that_is_suspended_keeps_no_copy_until_it_begins_again() {
    static EVICTED_MEANWHILE: AtomicBool = AtomicBool::new(false);
    check(3, || {
        let memory = [Memory::new()];
        let m = memory[0].clone();
        assert_eq!(m.state.pend_read(), Ok(()));
        m.state.begin();
        let evictor = spawn(&memory, |m| m[0].evict(true));
        assert_eq!(m.get(), 0, "it has begun: nothing is evicted");
        m.state.suspend();
        m.state.begin();
        let seen = m.get();
        EVICTED_MEANWHILE.fetch_or(seen == 1, Relaxed);
        m.state.release_pending_read();
        let evicted = evictor.join().unwrap();
        assert!(seen <= evicted);
        assert_eq!(m.state.launch_write(), Ok(evicted == 1));
        m.state.release_write(false);
    });
    assert!(EVICTED_MEANWHILE.load(Relaxed), "some execution evicts it while it is suspended");
}

/// A launch that writes all of `memories`, taken in their order.
fn launch(memories: &[&Memory]) -> Result<(), Refused> {
    for (i, memory) in memories.iter().enumerate() {
        if let Err(error) = memory.state.launch_write() {
            memories[..i].iter().for_each(|m| m.state.release_write(false));
            return Err(error);
        }
    }
    memories.iter().for_each(|m| m.add());
    memories.iter().for_each(|m| m.state.release_write(false));
    Ok(())
}

#[test]
fn launches_that_take_two_memories_in_one_order_both_end() {
    check(2, || {
        let memories = [Memory::new(), Memory::new()];
        let other = spawn(&memories, |m| launch(&[&m[0], &m[1]]));
        assert_eq!(launch(&[&memories[0], &memories[1]]), Ok(()));
        assert_eq!(other.join().unwrap(), Ok(()));
        assert_eq!(memories.map(|m| m.get()), [2, 2]);
    });
}

#[test]
fn a_waiter_for_one_memory_is_not_lost_among_those_for_another() {
    check(2, || {
        let memories = [Memory::new(), Memory::new()];
        memories.iter().for_each(|m| assert_eq!(m.state.launch_write(), Ok(false)));
        let waiters = [0, 1].map(|i| spawn(&memories, move |m| m[i].launch_read()));
        memories.iter().for_each(|m| m.add());
        memories.iter().for_each(|m| m.state.release_write(false));
        waiters.into_iter().for_each(|w| assert_eq!(w.join().unwrap(), Ok(1)));
    });
}

#[test]
fn a_host_that_guards_one_memory_may_wait_for_a_launch_that_wants_both() {
    check(3, || {
        let memories = [Memory::new(), Memory::new()];
        let other = spawn(&memories, |m| launch(&[&m[0], &m[1]]));
        assert_eq!(memories[1].state.guard_read(), Ok(false));
        let first = memories[0].guard_read();
        memories[1].state.release_guard_read();
        let launched = other.join().unwrap();
        assert!(first.is_ok_and(|seen| seen <= u64::from(launched.is_ok())));
        assert!(matches!(launched, Ok(()) | Err(Refused::Borrowed { .. })));
    });
}
