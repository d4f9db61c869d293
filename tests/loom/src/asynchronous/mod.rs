//! Pipelines that are pending: their outcomes, their order, and how they meet launches and guards. The
//! files under test are included where they are.

#[path = "../../../../flash-core/src/runtime/asynchronous/order.rs"]
mod order;
#[path = "../../../../flash-core/src/runtime/asynchronous/outcome.rs"]
mod outcome;
mod sync;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use std::task::{Context, Poll, Wake, Waker};

use crate::check;
use crate::memory::word::{Refused, State};
use loom::cell::UnsafeCell;
use order::{Order, Ticket};
use outcome::Outcome;

#[test]
fn who_waits_for_an_outcome_gets_it_and_the_first_one_stays() {
    check(3, || {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let setter = thread::spawn(move || other.set(1));
        let third = outcome.clone();
        let waiter = thread::spawn(move || third.wait());
        let mine = outcome.set(2);
        let theirs = setter.join().unwrap();
        assert!(mine != theirs, "one of them set it");
        let expected = if mine { 2 } else { 1 };
        assert_eq!((waiter.join().unwrap(), outcome.get()), (expected, Some(expected)));
    });
}

/// Counts its calls. (The waker's own count is std's: loom need not look into it.)
struct Called(AtomicUsize);

impl Wake for Called {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_task_that_found_no_outcome_is_woken_exactly_once() {
    check(3, || {
        let outcome = Arc::new(Outcome::new());
        let called = std::sync::Arc::new(Called(AtomicUsize::new(0)));
        let other = outcome.clone();
        let setter = thread::spawn(move || other.set(7));
        let waker = Waker::from(called.clone());
        let first = outcome.poll(&mut Context::from_waker(&waker));
        let second = outcome.poll(&mut Context::from_waker(&waker));
        drop(waker);
        setter.join().unwrap();
        let pending = first.is_pending() && second.is_pending();
        assert!(first.is_pending() || second == Poll::Ready(7));
        let calls = called.0.load(SeqCst);
        assert!(if pending { calls == 1 } else { calls <= 1 }, "{calls}");
        assert_eq!(std::sync::Arc::strong_count(&called), 1, "no waker is left behind");
    });
}

#[test]
fn a_dropped_handle_disturbs_nobody() {
    check(3, || {
        let outcome = Arc::new(Outcome::new());
        let called = std::sync::Arc::new(Called(AtomicUsize::new(0)));
        let handle = outcome.clone();
        let waker = Waker::from(called.clone());
        let holder = thread::spawn(move || {
            let _ = handle.poll(&mut Context::from_waker(&waker));
            drop(handle);
        });
        assert!(outcome.set(7));
        holder.join().unwrap();
        assert_eq!(outcome.get(), Some(7));
        drop(outcome);
        assert_eq!(std::sync::Arc::strong_count(&called), 1);
    });
}

/// Two memories with contents, and the order.
struct World {
    order: Order,
    states: [State; 2],
    contents: [UnsafeCell<u64>; 2],
}

// SAFETY: loom checks how the contents are shared.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// For each memory: not touched, read, or written.
type Touches = [Option<bool>; 2];

const BOTH: Touches = [Some(true), Some(true)];

/// Written memories become three times what they were, plus what is read, plus a number.
fn update(contents: [u64; 2], touches: Touches, number: u64) -> [u64; 2] {
    let read: u64 = (0..2).filter(|&m| touches[m] == Some(false)).map(|m| contents[m]).sum();
    std::array::from_fn(
        |m| if touches[m] == Some(true) { contents[m] * 3 + read + number } else { contents[m] },
    )
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            order: Order::default(),
            states: [State::new(), State::new()],
            contents: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn touched(touches: Touches) -> impl DoubleEndedIterator<Item = (usize, bool)> {
        (0..2).filter_map(move |m| touches[m].map(|written| (m, written)))
    }

    /// What a pipeline does when it may.
    fn body(&self, touches: Touches, number: u64) {
        let mut contents = [0; 2];
        for (m, _) in Self::touched(touches) {
            // SAFETY: what is checked.
            contents[m] = self.contents[m].with(|c| unsafe { *c });
        }
        let new = update(contents, touches, number);
        for (m, _) in Self::touched(touches).filter(|t| t.1) {
            // SAFETY: what is checked.
            self.contents[m].with_mut(|c| unsafe { *c = new[m] });
        }
    }

    fn pend(&self, touches: Touches) -> Result<(), Refused> {
        for (m, written) in Self::touched(touches) {
            let counted = if written { self.states[m].pend_write() } else { self.states[m].pend_read() };
            if let Err(refused) = counted {
                Self::touched(touches).filter(|t| t.0 < m).for_each(|(m, w)| self.states[m].unpend(w));
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Runs a pipeline whose turn it is.
    fn turn(&self, ticket: Ticket, touches: Touches, number: u64) {
        Self::touched(touches).filter(|t| t.1).for_each(|(m, _)| self.states[m].drained());
        self.body(touches, number);
        for (m, written) in Self::touched(touches) {
            match written {
                true => self.states[m].release_pending_write(false),
                false => self.states[m].release_pending_read(),
            }
        }
        self.order.leave(ticket);
    }

    fn touches(touches: Touches) -> Vec<(usize, bool)> {
        Self::touched(touches).collect()
    }

    fn exec_async(world: &Arc<World>, touches: Touches, number: u64) -> Result<Arc<Outcome<()>>, Refused> {
        let done = Arc::new(Outcome::new());
        world.pend(touches)?;
        let (mine, outcome) = (world.clone(), done.clone());
        let start = move |ticket| {
            thread::spawn(move || {
                mine.turn(ticket, touches, number);
                drop(mine);
                outcome.set(());
            });
        };
        world.order.enter(World::touches(touches), Box::new(start));
        Ok(done)
    }

    fn release(&self, taken: impl Iterator<Item = (usize, bool)>) {
        for (m, written) in taken {
            if written { self.states[m].release_write(false) } else { self.states[m].release_read() }
        }
    }

    fn exec(&self, touches: Touches, number: u64) -> Result<(), Refused> {
        for (m, written) in Self::touched(touches) {
            let taken = if written { self.states[m].launch_write() } else { self.states[m].launch_read() };
            let Err(refused) = taken else { continue };
            self.release(Self::touched(touches).filter(|t| t.0 < m));
            if refused == Refused::Borrowed {
                return Err(refused);
            }
            self.pend(touches)?;
            let called = Arc::new(Outcome::new());
            let gate = called.clone();
            let start = move |ticket: Ticket| {
                gate.set(ticket);
            };
            self.order.enter(Self::touches(touches), Box::new(start));
            self.turn(called.wait(), touches, number);
            return Ok(());
        }
        self.body(touches, number);
        self.release(Self::touched(touches));
        Ok(())
    }

    fn contents(&self) -> [u64; 2] {
        std::array::from_fn(|m| {
            self.states[m].guard_read().unwrap();
            // SAFETY: what is checked.
            let seen = self.contents[m].with(|c| unsafe { *c });
            self.states[m].release_guard_read();
            seen
        })
    }
}

#[test]
fn what_one_thread_enters_runs_in_its_order() {
    check(2, || {
        let world = World::new();
        let (second, third) = ([Some(false), Some(true)], [Some(true), Some(false)]);
        let first = World::exec_async(&world, [Some(true), None], 1).unwrap();
        let other = World::exec_async(&world, second, 2).unwrap();
        world.exec(third, 3).unwrap();
        let expected = update(update(update([0; 2], [Some(true), None], 1), second, 2), third, 3);
        assert_eq!(world.contents(), expected);
        first.wait();
        other.wait();
    });
}

#[test]
fn a_guard_after_a_pending_pipeline_sees_what_it_wrote() {
    check(3, || {
        let world = World::new();
        let done = World::exec_async(&world, [Some(true), None], 5).unwrap();
        assert_eq!(world.states[0].guard_write(), Ok(false));
        // SAFETY: what is checked.
        world.contents[0].with_mut(|c| unsafe { *c += 1 });
        world.states[0].release_guard_write(false);
        assert_eq!(world.contents()[0], 6);
        done.wait();
    });
}

const CROSSED: [Touches; 2] = [[Some(false), Some(true)], [Some(true), Some(false)]];

#[test]
fn a_launch_and_a_pending_pipeline_over_two_memories_both_end_in_some_order() {
    check(2, || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.exec(CROSSED[0], 10).unwrap())
        };
        World::exec_async(&world, CROSSED[1], 1).unwrap().wait();
        other.join().unwrap();
        let (theirs, mine) = (|c| update(c, CROSSED[0], 10), |c| update(c, CROSSED[1], 1));
        let (possible, found) = ([mine(theirs([0; 2])), theirs(mine([0; 2]))], world.contents());
        assert!(possible.contains(&found), "{found:?} is none of {possible:?}");
    });
}

#[test]
fn a_pending_pipeline_and_launches_of_two_threads_over_two_memories_all_end_in_some_order() {
    check(1, || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.exec(CROSSED[0], 10).unwrap())
        };
        let done = World::exec_async(&world, CROSSED[1], 1).unwrap();
        world.exec(BOTH, 2).unwrap();
        other.join().unwrap();
        done.wait();
        let (theirs, mine) = (|c| update(c, CROSSED[0], 10), |c| update(c, CROSSED[1], 1));
        let last = |c| update(c, BOTH, 2);
        let possible = [last(mine(theirs([0; 2]))), last(theirs(mine([0; 2]))), theirs(last(mine([0; 2])))];
        let found = world.contents();
        assert!(possible.contains(&found), "{found:?} is none of {possible:?}");
    });
}

#[test]
fn a_guard_refuses_a_pipeline_or_comes_after_it_and_nothing_is_left_counted() {
    check(3, || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.contents()[1])
        };
        let entered = World::exec_async(&world, BOTH, 1);
        let seen = other.join().unwrap();
        let ran = match entered {
            Ok(done) => {
                done.wait();
                1
            }
            Err(refused) => {
                assert_eq!((refused, seen), (Refused::Borrowed, 0));
                0
            }
        };
        assert!(seen <= ran);
        assert_eq!(world.contents(), [ran; 2]);
        world.exec(BOTH, 1).unwrap();
    });
}
