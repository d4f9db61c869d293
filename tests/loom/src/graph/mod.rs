//! Dataflow graphs: that a node runs while it has data, ends exactly once, and that no activation is left
//! lying when threads leave. The files under test are included in place.

#[path = "../../../../flash-graph/src/lock.rs"]
mod lock;
#[path = "../../../../flash-graph/src/signal.rs"]
mod signal;
mod sync;
#[path = "../../../../flash-graph/src/word.rs"]
mod word;

use crate::check;
use lock::Lock;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use signal::{Call, Signal};
use word::{After, Count, Word};

#[test]
fn one_thread_at_a_time_has_what_is_locked() {
    check(3, || {
        let lock = Arc::new(Lock::new(0));
        let other = lock.clone();
        let thread = thread::spawn(move || other.with(|x| *x += 1));
        lock.with(|x| *x += 1);
        let tried = lock.try_with(|x| *x += 1).is_some();
        thread.join().unwrap();
        assert_eq!(lock.with(|x| *x), 2 + u32::from(tried));
    });
}

/// A node without its type, with one inbox.
struct Node {
    word: Word,
    replicas: u32,
    inbox: AtomicU32,
    received: AtomicU32,
    ends: AtomicU32,
}

impl Node {
    fn new(replicas: u32) -> Arc<Node> {
        Arc::new(Node {
            word: Word::default(),
            replicas,
            inbox: AtomicU32::new(0),
            received: AtomicU32::new(0),
            ends: AtomicU32::new(0),
        })
    }

    fn put(&self) {
        self.inbox.fetch_add(1, Ordering::AcqRel);
        self.follow(self.word.add(1, self.replicas));
    }

    fn close(&self) {
        self.follow(self.word.close());
    }

    /// Runs at once what the scheduler would run later.
    fn follow(&self, mut after: After) {
        loop {
            match after {
                After::Nothing => return,
                After::Ended => panic!("nothing is put in after the end"),
                After::Activations(count) => {
                    (1..count).for_each(|_| self.follow(self.activate()));
                    after = self.activate();
                }
                After::Ends => {
                    assert_eq!(self.ends.fetch_add(1, Ordering::AcqRel), 0, "it ends once");
                    after = self.word.settle(0);
                }
            }
        }
    }

    fn activate(&self) -> After {
        let taken = self.inbox.swap(0, Ordering::AcqRel);
        if taken == 0 {
            // Another replica has taken it, and counts it next.
            thread::yield_now();
        }
        if self.replicas > 1 {
            self.word.take(taken);
        }
        self.received.fetch_add(taken, Ordering::AcqRel);
        self.word.settle(if self.replicas > 1 { 0 } else { taken })
    }
}

fn all_is_received_and_it_ends_once(replicas: u32) {
    let node = Node::new(replicas);
    let other = node.clone();
    let thread = thread::spawn(move || other.put());
    node.put();
    node.put();
    // Its feeds have ended when it is closed.
    thread.join().unwrap();
    node.close();
    assert_eq!((node.received.load(Ordering::Acquire), node.ends.load(Ordering::Acquire)), (3, 1));
}

#[test]
fn a_node_receives_all_and_ends_once() {
    check(3, || all_is_received_and_it_ends_once(1));
}

#[test]
fn a_node_with_replicas_receives_all_and_ends_once() {
    check(3, || all_is_received_and_it_ends_once(2));
}

#[test]
fn a_node_that_is_closed_while_it_runs_ends_once() {
    check(3, || {
        let node = Node::new(1);
        // The last of its feeds puts in, settles, and closes; another thread runs what is put in.
        node.inbox.fetch_add(1, Ordering::AcqRel);
        let after = node.word.add(1, 1);
        let other = node.clone();
        let thread = thread::spawn(move || other.follow(after));
        node.close();
        thread.join().unwrap();
        assert_eq!((node.received.load(Ordering::Acquire), node.ends.load(Ordering::Acquire)), (1, 1));
    });
}

#[test]
fn a_datum_that_is_taken_before_it_is_counted_is_not_refused() {
    check(3, || {
        let node = Node::new(1);
        node.inbox.fetch_add(1, Ordering::AcqRel);
        let first = node.word.add(1, 1);
        let (runs, closes) = (node.clone(), node.clone());
        let runs = thread::spawn(move || runs.follow(first));
        let closes = thread::spawn(move || closes.close());
        // A thread pushes while another closes the input.
        node.inbox.fetch_add(1, Ordering::AcqRel);
        let after = node.word.add(1, 1);
        if after != After::Ended {
            node.follow(after);
        }
        runs.join().unwrap();
        closes.join().unwrap();
        let (received, ends) = (node.received.load(Ordering::Acquire), node.ends.load(Ordering::Acquire));
        assert_eq!((received, ends), (if after == After::Ended { 1 } else { 2 }, 1));
    });
}

#[test]
fn what_is_emitted_later_holds_up_the_end() {
    check(3, || {
        let node = Node::new(1);
        node.word.add(1, 1);
        node.word.begin();
        assert_eq!(node.word.settle(1), After::Nothing);
        let (other, emitted) = (node.clone(), Arc::new(AtomicU32::new(0)));
        let there = emitted.clone();
        let thread = thread::spawn(move || {
            there.store(1, Ordering::Release);
            other.word.emitted()
        });
        let closed = node.word.close();
        if closed == After::Ends {
            assert_eq!(emitted.load(Ordering::Acquire), 1);
        }
        let ends = [closed, thread.join().unwrap()];
        assert_eq!(ends.iter().filter(|after| **after == After::Ends).count(), 1, "{ends:?}");
    });
}

#[test]
fn a_cycle_ends_once_when_nothing_is_in_it() {
    check(3, || {
        // Two data go round once: what runs one counts the next before it counts itself down.
        let count = Arc::new(Count::default());
        let left = Arc::new(AtomicU32::new(4));
        assert!(count.add(2));
        let turn = |count: &Count, left: &AtomicU32| {
            let mut ends = 0;
            for last in [false, true] {
                if !last {
                    assert!(count.add(1), "a cycle that holds something has not ended");
                }
                left.fetch_sub(1, Ordering::AcqRel);
                if count.sub(1) {
                    ends += 1;
                    assert_eq!(left.load(Ordering::Acquire), 0);
                }
            }
            ends
        };
        let (other, rest) = (count.clone(), left.clone());
        let thread = thread::spawn(move || turn(&other, &rest));
        let closed = u32::from(count.close());
        let ends = closed + turn(&count, &left) + thread.join().unwrap();
        assert_eq!(ends, 1);
        assert!(!count.add(1), "nothing goes into a cycle that has ended");
    });
}

/// A graph's queue, and the threads at it.
#[derive(Default)]
struct Threads {
    signal: Signal,
    ready: AtomicU32,
    ran: AtomicU32,
    /// Workers and sleeping threads that were called.
    called: AtomicU32,
}

impl Threads {
    fn publish(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        if !self.signal.news().is_looked_after() {
            self.call();
        }
    }

    fn call(&self) {
        if self.ready.load(Ordering::Acquire) > 0 && self.signal.call(1) != Call::None {
            self.called.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn run_all(&self) {
        let count = self.ready.swap(0, Ordering::AcqRel);
        self.ran.fetch_add(count, Ordering::AcqRel);
    }

    /// A worker that was called, and looks once.
    fn serve(&self) {
        self.signal.arrive();
        self.run_all();
        self.signal.look();
        self.signal.look_away();
        self.run_all();
        self.signal.leave();
        self.call();
    }

    /// A thread that sleeps if there is nothing to run. True if it does.
    fn sleep(&self) -> bool {
        self.signal.sleep();
        if self.ready.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.signal.awake();
        self.run_all();
        false
    }
}

#[test]
fn an_activation_is_run_or_a_worker_is_called_though_one_leaves() {
    check(3, || {
        let threads = Arc::new(Threads::default());
        threads.publish();
        assert_eq!(threads.called.load(Ordering::Acquire), 1);
        let worker = threads.clone();
        let worker = thread::spawn(move || worker.serve());
        threads.publish();
        worker.join().unwrap();
        let left = threads.ready.load(Ordering::Acquire);
        assert!(left == 0 || threads.called.load(Ordering::Acquire) == 2, "{left} left");
    });
}

#[test]
fn an_activation_is_run_or_a_thread_is_called_though_one_goes_to_sleep() {
    check(3, || {
        let threads = Arc::new(Threads::default());
        let sleeper = threads.clone();
        let sleeper = thread::spawn(move || sleeper.sleep());
        threads.publish();
        let sleeps = sleeper.join().unwrap();
        let left = threads.ready.load(Ordering::Acquire);
        // Whether the sleeper or a worker was called: it is on its way.
        assert!(left == 0 || threads.called.load(Ordering::Acquire) == 1, "{left} left, sleeps: {sleeps}");
    });
}
