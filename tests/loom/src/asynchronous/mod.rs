//! Pending pipelines: their outcomes, their order, and their conflicts with launches and guards. The files
//! under test are included in place.

#[path = "../../../../flash-core/src/memory/order/behind.rs"]
mod behind;
mod following;
mod guards;
#[path = "../../../../flash-core/src/runtime/asynchronous/outcome.rs"]
mod outcome;
#[path = "../../../../flash-core/src/memory/order/parts.rs"]
mod parts;
#[path = "../../../../flash-core/src/runtime/asynchronous/queue.rs"]
mod queue;
mod sync;
#[path = "../../../../flash-core/src/memory/order/table.rs"]
mod table;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread::{self, JoinHandle};
use std::ops::Range;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::check;
pub(crate) use crate::memory::word::{Refused, State};
use behind::{Behind, BehindGuards};
use loom::cell::UnsafeCell;
use outcome::Outcome;
use parts::Parts;
use queue::{Job, Queue, Sleeper};
use table::{Extent, Order, Ticket, Touch};

/// Waits for an outcome.
fn wait<T: Clone>(outcome: &Outcome<T>) -> T {
    loop {
        if let Some(outcome) = outcome.wait_unless_nudged(outcome.nudges()) {
            return outcome;
        }
    }
}

/// A pipeline in the queue, and its outcome.
struct Ready(Arc<Outcome<u32>>);

impl Job for Ready {
    fn priority(&self) -> i32 {
        0
    }
}

impl Sleeper for Arc<Outcome<u32>> {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn nudge(&self) {
        Outcome::nudge(self);
    }
}

/// The loop of a thread that waits for a pipeline.
fn wait_for(queue: &Queue<Ready, Arc<Outcome<u32>>>, outcome: &Arc<Outcome<u32>>) -> u32 {
    let own = |jobs: &std::collections::VecDeque<Ready>| jobs.iter().position(|job| job.0.is(outcome));
    loop {
        if let Some(job) = queue.take(own) {
            job.0.set(1);
        }
        if let Some(outcome) = outcome.get() {
            return outcome;
        }
        let seen = outcome.nudges();
        let entered = queue.enter(outcome);
        let late = queue.take_late(own);
        if let Some(job) = late {
            job.0.set(1);
        } else if let Some(outcome) = outcome.wait_unless_nudged(seen) {
            return outcome;
        }
        drop(entered);
    }
}

#[test]
fn a_thread_that_sleeps_until_a_pipeline_is_done_runs_it_when_nothing_else_does() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let outcome = Arc::new(Outcome::new());
        let waiter = {
            let (queue, outcome) = (queue.clone(), outcome.clone());
            thread::spawn(move || wait_for(&queue, &outcome))
        };
        queue.push(Ready(outcome.clone()));
        // If a waiting thread was told, no worker is.
        let nudged = queue.nudge(|sleeper| sleeper.is(&outcome));
        if !nudged && let Some(job) = queue.take(|_| Some(0)) {
            job.0.set(2);
        }
        let seen = waiter.join().unwrap();
        assert!(seen == 1 || (seen == 2 && !nudged));
        assert_eq!(queue.len(), 0);
        assert!(!queue.nudge(|_| true), "nothing sleeps any more");
    });
}

#[test]
fn a_worker_and_a_thread_that_waits_run_a_pipeline_once() {
    check(3, || {
        let queue = Arc::new(Queue::new());
        let outcome = Arc::new(Outcome::new());
        queue.push(Ready(outcome.clone()));
        let worker = {
            let queue = queue.clone();
            thread::spawn(move || queue.take(|_| Some(0)).map(|job| assert!(job.0.set(2), "once")).is_some())
        };
        let seen = wait_for(&queue, &outcome);
        assert_eq!(seen, if worker.join().unwrap() { 2 } else { 1 });
    });
}

#[test]
fn who_waits_for_an_outcome_gets_it_and_the_first_one_stays() {
    check(3, || {
        let outcome = Arc::new(Outcome::new());
        let other = outcome.clone();
        let setter = thread::spawn(move || other.set(1));
        let third = outcome.clone();
        let waiter = thread::spawn(move || wait(&third));
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

impl Extent for Range<u64> {
    fn overlaps(&self, other: &Range<u64>) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    fn contains(&self, other: &Range<u64>) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Two memories with contents, the order, and the pipelines behind guards.
struct World {
    order: Order<Range<u64>>,
    behind: Behind<GuardedPipeline>,
    states: [State; 2],
    parts: [Parts<Range<u64>>; 2],
    contents: [UnsafeCell<u64>; 2],
}

// SAFETY: loom checks how the contents are shared.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

/// A pipeline of [`World::exec_async`] that is counted, and waits for guards.
struct GuardedPipeline {
    world: Arc<World>,
    touches: Touches,
    number: u64,
    ticket: Ticket,
    done: Arc<Outcome<()>>,
}

// SAFETY: as for the world.
unsafe impl Send for GuardedPipeline {}

impl BehindGuards for GuardedPipeline {
    fn ticket(&self) -> Ticket {
        self.ticket
    }

    fn touches(&self, memory: u64) -> bool {
        self.touches[memory as usize].is_some()
    }

    fn is_free(&self) -> bool {
        let (states, parts) = (&self.world.states, &self.world.parts);
        World::touched(self.touches).all(|(m, written)| match written {
            true => parts[m].look(&states[m], &(0..1)).is_ok(),
            false => states[m].look(false).is_ok(),
        })
    }
}

impl GuardedPipeline {
    /// Makes it ready, to run on a thread of its own.
    fn resume(self) {
        let GuardedPipeline { world, touches, number, ticket, done } = self;
        let mine = world.clone();
        let start = move |ticket: Ticket| {
            thread::spawn(move || {
                mine.turn(touches, number);
                done.set_before((), || mine.order.leave(ticket));
            });
        };
        world.order.ready(ticket, Box::new(start));
    }
}

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
            behind: Behind::default(),
            states: [State::new(), State::new()],
            parts: Default::default(),
            contents: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn touched(touches: Touches) -> impl DoubleEndedIterator<Item = (usize, bool)> {
        (0..2).filter_map(move |m| touches[m].map(|written| (m, written)))
    }

    /// The work of a pipeline whose turn has come.
    fn body(&self, touches: Touches, number: u64) {
        let mut contents = [0; 2];
        for (m, _) in Self::touched(touches) {
            // SAFETY: loom checks this access.
            contents[m] = self.contents[m].with(|c| unsafe { *c });
        }
        let new = update(contents, touches, number);
        for (m, _) in Self::touched(touches).filter(|t| t.1) {
            // SAFETY: loom checks this access.
            self.contents[m].with_mut(|c| unsafe { *c = new[m] });
        }
    }

    /// Runs a pipeline whose turn it is.
    fn turn(&self, touches: Touches, number: u64) {
        Self::touched(touches).filter(|t| t.1).for_each(|(m, _)| self.states[m].drained());
        Self::touched(touches).for_each(|(m, _)| self.states[m].begin());
        self.body(touches, number);
        for (m, written) in Self::touched(touches) {
            match written {
                true => self.states[m].release_pending_write(None),
                false => self.states[m].release_pending_read(),
            }
        }
    }

    /// Takes a place in the order, and counts itself.
    fn enter(world: &Arc<World>, touches: Touches) -> Result<Ticket, Refused> {
        let touch = |(memory, written): (usize, bool)| Touch {
            memory: memory as u64,
            touched: 0..1,
            written: written.then_some(0..1),
        };
        let touched: Vec<_> = Self::touched(touches).map(touch).collect();
        let ticket = world.order.line_up(&touched, []);
        for (m, written) in Self::touched(touches) {
            let state = &world.states[m];
            let counted = if written { world.parts[m].pend(state, &(0..1)) } else { state.pend_read() };
            if let Err(refused) = counted {
                Self::touched(touches).filter(|t| t.0 < m).for_each(|(m, w)| world.states[m].unpend(w));
                world.order.withdraw(ticket);
                return Err(refused);
            }
        }
        Ok(ticket)
    }

    /// A pipeline that waits in its place in the order, also for guards.
    fn exec_async(world: &Arc<World>, touches: Touches, number: u64) -> Arc<Outcome<()>> {
        let touch = |(memory, written): (usize, bool)| Touch {
            memory: memory as u64,
            touched: 0..1,
            written: written.then_some(0..1),
        };
        let touched: Vec<_> = Self::touched(touches).map(touch).collect();
        let ticket = world.order.line_up(&touched, []);
        let mut is_behind = false;
        for (m, written) in Self::touched(touches) {
            is_behind |= match written {
                true => world.parts[m].pend_behind(&world.states[m], &(0..1)),
                false => world.states[m].pend_behind(false),
            };
        }
        let done = Arc::new(Outcome::new());
        let pipeline = GuardedPipeline { world: world.clone(), touches, number, ticket, done: done.clone() };
        if !is_behind {
            pipeline.resume();
            return done;
        }
        world.order.behind_guards(ticket);
        if let Some(free) = world.behind.enter(pipeline) {
            free.resume();
        }
        done
    }

    /// A guard that reads; the thread `holds` others.
    fn guard(&self, m: usize, holds: bool) -> Result<(), Refused> {
        if !holds {
            return self.states[m].guard_read().map(drop);
        }
        loop {
            match self.states[m].guard_now(false) {
                Err(Refused::Pending) => self.order.wait_beside(m as u64, &(0..1), false, true)?,
                other => return other.map(drop),
            }
        }
    }

    fn release_guard(&self, m: usize) {
        if self.states[m].release_guard_read() {
            self.behind.released(m as u64).into_iter().for_each(GuardedPipeline::resume);
        }
    }

    /// What a call of the host reads.
    fn get(&self, m: usize, holds: bool) -> Result<u64, Refused> {
        let wait = || self.order.wait_beside(m as u64, &(0..1), false, holds);
        parts::read(&self.states[m], &self.order, m as u64, &(0..1), wait)?;
        // SAFETY: loom checks this access.
        let seen = self.contents[m].with(|c| unsafe { *c });
        self.states[m].release_read();
        Ok(seen)
    }

    fn release(&self, taken: impl Iterator<Item = (usize, bool)>) {
        for (m, written) in taken {
            if written { self.states[m].release_write(false) } else { self.states[m].release_read() }
        }
    }

    /// Waits until no guard conflicts with the use of a memory, with nothing held. Patience does not end
    /// here.
    fn after_guards(&self, m: usize, written: bool) {
        let until = Instant::now() + Duration::from_secs(1 << 30);
        assert!(self.states[m].after_guards(written, until));
        assert!(!written || self.parts[m].after_guards(&(0..1), until));
    }

    /// A launch of a thread that holds no guard.
    fn exec(world: &Arc<World>, touches: Touches, number: u64) {
        'again: loop {
            for (m, written) in Self::touched(touches) {
                let state = &world.states[m];
                let taken = if written { state.launch_write() } else { state.launch_read() };
                let Err(refused) = taken else { continue };
                world.release(Self::touched(touches).filter(|t| t.0 < m));
                match refused {
                    Refused::Borrowed => world.after_guards(m, written),
                    Refused::Pending => return World::exec_in_order(world, touches, number),
                    Refused::Forked => unreachable!("no process forks here"),
                }
                continue 'again;
            }
            world.body(touches, number);
            return world.release(Self::touched(touches));
        }
    }

    /// Waits for the turn of a place in the order, and runs there on this thread.
    fn run_when_called(world: &World, ticket: Ticket, touches: Touches, number: u64) {
        let called = Arc::new(Outcome::new());
        let gate = called.clone();
        let start = move |_: Ticket| {
            gate.set(());
        };
        world.order.ready(ticket, Box::new(start));
        wait(&called);
        world.turn(touches, number);
        world.order.leave(ticket);
    }

    /// Runs something on another thread.
    fn beside<R: 'static>(
        world: &Arc<World>,
        body: impl FnOnce(&Arc<World>) -> R + 'static,
    ) -> JoinHandle<R> {
        let world = world.clone();
        thread::spawn(move || body(&world))
    }

    fn exec_in_order(world: &Arc<World>, touches: Touches, number: u64) {
        let ticket = loop {
            match World::enter(world, touches) {
                Ok(ticket) => break ticket,
                Err(_) => Self::touched(touches).for_each(|(m, written)| world.after_guards(m, written)),
            }
        };
        World::run_when_called(world, ticket, touches, number);
    }

    fn contents(&self) -> [u64; 2] {
        std::array::from_fn(|m| {
            self.states[m].guard_read().unwrap();
            // SAFETY: loom checks this access.
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
        let first = World::exec_async(&world, [Some(true), None], 1);
        let other = World::exec_async(&world, second, 2);
        World::exec(&world, third, 3);
        let expected = update(update(update([0; 2], [Some(true), None], 1), second, 2), third, 3);
        assert_eq!(world.contents(), expected);
        wait(&first);
        wait(&other);
    });
}

#[test]
fn who_has_an_outcome_finds_those_of_all_before_it() {
    check(3, || {
        let world = World::new();
        let first = World::exec_async(&world, [Some(true), None], 1);
        let second = World::exec_async(&world, [Some(false), Some(true)], 2);
        wait(&second);
        assert_eq!(first.get(), Some(()));
    });
}

#[test]
fn a_guard_after_a_pending_pipeline_sees_what_it_wrote() {
    check(3, || {
        let world = World::new();
        let done = World::exec_async(&world, [Some(true), None], 5);
        assert_eq!(world.states[0].guard_write(), Ok(false));
        // SAFETY: loom checks this access.
        world.contents[0].with_mut(|c| unsafe { *c += 1 });
        world.states[0].release_guard_write(false);
        assert_eq!(world.contents()[0], 6);
        wait(&done);
    });
}

const CROSSED: [Touches; 2] = [[Some(false), Some(true)], [Some(true), Some(false)]];

#[test]
fn a_launch_and_a_pending_pipeline_over_two_memories_both_end_in_some_order() {
    check(2, || {
        let world = World::new();
        let other = World::beside(&world, |world| World::exec(world, CROSSED[0], 10));
        wait(&World::exec_async(&world, CROSSED[1], 1));
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
        let other = World::beside(&world, |world| World::exec(world, CROSSED[0], 10));
        let done = World::exec_async(&world, CROSSED[1], 1);
        World::exec(&world, BOTH, 2);
        other.join().unwrap();
        wait(&done);
        let (theirs, mine) = (|c| update(c, CROSSED[0], 10), |c| update(c, CROSSED[1], 1));
        let last = |c| update(c, BOTH, 2);
        let possible = [last(mine(theirs([0; 2]))), last(theirs(mine([0; 2]))), theirs(last(mine([0; 2])))];
        let found = world.contents();
        assert!(possible.contains(&found), "{found:?} is none of {possible:?}");
    });
}

/// A memory of two elements, for two users of one element each.
struct Halves {
    order: Order<Range<u64>>,
    state: State,
    parts: Parts<Range<u64>>,
    contents: [UnsafeCell<u64>; 2],
}

// SAFETY: loom checks how the contents are shared.
unsafe impl Sync for Halves {}
// SAFETY: as above.
unsafe impl Send for Halves {}

impl Halves {
    fn new() -> Arc<Halves> {
        let contents = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Halves { order: Order::default(), state: State::new(), parts: Parts::default(), contents })
    }

    /// A pipeline that adds 1 to some elements, on a thread of its own.
    fn exec_async(halves: &Arc<Halves>, written: Range<u64>) -> Result<Arc<Outcome<()>>, Refused> {
        let touch = Touch { memory: 0, touched: written.clone(), written: Some(written.clone()) };
        let ticket = halves.order.line_up(&[touch], []);
        if let Err(refused) = halves.parts.pend(&halves.state, &written) {
            halves.order.withdraw(ticket);
            return Err(refused);
        }
        let (mine, done) = (halves.clone(), Arc::new(Outcome::new()));
        let outcome = done.clone();
        let start = move |ticket: Ticket| {
            thread::spawn(move || {
                mine.state.drained();
                mine.state.begin();
                mine.add(written);
                mine.state.release_pending_write(None);
                mine.order.leave(ticket);
                drop(mine);
                outcome.set(());
            });
        };
        halves.order.ready(ticket, Box::new(start));
        Ok(done)
    }

    fn add(&self, written: Range<u64>) {
        for i in written {
            // SAFETY: loom checks this access.
            self.contents[i as usize].with_mut(|c| unsafe { *c += 1 });
        }
    }

    /// The value that a guard of one element reads.
    fn read(&self, i: u64) -> Result<u64, Refused> {
        let wait = || self.order.wait_beside(0, &(i..i + 1), false, false);
        self.parts.guard(&self.state, &self.order, 0, i..i + 1, wait)?;
        // SAFETY: loom checks this access.
        let seen = self.contents[i as usize].with(|c| unsafe { *c });
        self.parts.release(&self.state, &(i..i + 1));
        Ok(seen)
    }
}

#[test]
fn a_guard_of_a_part_waits_for_who_writes_that_and_for_nobody_else() {
    check(3, || {
        let halves = Halves::new();
        let first = Halves::exec_async(&halves, 0..1).unwrap();
        assert_eq!(halves.read(1), Ok(0));
        assert_eq!(halves.read(0), Ok(1));
        wait(&first);
    });
}

#[test]
fn a_guard_of_a_part_refuses_a_pipeline_that_writes_it_or_comes_after_it() {
    check(2, || {
        let halves = Halves::new();
        let other = halves.clone();
        let guard = thread::spawn(move || [other.read(0).unwrap(), other.read(1).unwrap()]);
        let entered = Halves::exec_async(&halves, 1..2);
        let [untouched, seen] = guard.join().unwrap();
        assert_eq!(untouched, 0);
        match entered {
            Ok(done) => {
                wait(&done);
                assert!(seen <= 1);
                assert_eq!(halves.read(1), Ok(1));
            }
            Err(refused) => assert_eq!((refused, seen, halves.read(1)), (Refused::Borrowed, 0, Ok(0))),
        }
    });
}

#[test]
fn pipelines_over_parts_of_one_memory_are_kept_apart_where_they_meet() {
    check(1, || {
        let halves = Halves::new();
        let first = Halves::exec_async(&halves, 0..1).unwrap();
        let second = Halves::exec_async(&halves, 1..2).unwrap();
        let both = Halves::exec_async(&halves, 0..2).unwrap();
        wait(&both);
        assert_eq!([halves.read(0), halves.read(1)], [Ok(2); 2]);
        wait(&first);
        wait(&second);
    });
}

#[test]
fn a_pipeline_that_is_refused_keeps_its_place_for_those_that_it_stands_for() {
    check(2, || {
        let halves = Halves::new();
        let first = Halves::exec_async(&halves, 0..1).unwrap();
        let no_wait = || Err(Refused::Pending);
        halves.parts.guard(&halves.state, &halves.order, 0, 1..2, no_wait).unwrap();
        assert_eq!(Halves::exec_async(&halves, 0..2).err(), Some(Refused::Borrowed));
        let third = Halves::exec_async(&halves, 0..1).unwrap();
        wait(&third);
        assert_eq!(halves.read(0), Ok(2));
        halves.parts.release(&halves.state, &(1..2));
        wait(&first);
    });
}

#[test]
fn who_walks_a_memory_to_write_it_walks_it_alone() {
    check(3, || {
        let halves = Halves::new();
        let walk = |halves: &Halves| {
            halves.order.walk(&[(0, true), (1, false)]);
            halves.add(0..1);
            halves.order.end_walk(&[(0, true), (1, false)]);
        };
        let other = halves.clone();
        let thread = thread::spawn(move || walk(&other));
        walk(&halves);
        thread.join().unwrap();
        assert_eq!(halves.read(0), Ok(2));
    });
}
