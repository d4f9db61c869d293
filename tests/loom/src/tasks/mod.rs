//! Tasks: that no task is left lying while a worker sleeps, that the last one to know a task frees it, and
//! that its memory has one owner.
//! The files under test are included in place.

#[path = "../../../../flash-tasks/src/blocks.rs"]
mod blocks;
#[path = "../../../../flash-tasks/src/done.rs"]
mod done;
#[path = "../../../../flash-tasks/src/idle.rs"]
mod idle;
mod sync;

use crate::check;
use blocks::{Blocks, Returned};
use done::{Done, Handle};
use idle::{Activity, Part};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use loom::thread;

/// Tasks that are queued, and how often workers were woken.
struct Queues {
    activity: Activity,
    queued: AtomicU32,
    wakes: AtomicU32,
}

impl Queues {
    fn new() -> Arc<Queues> {
        Arc::new(Queues {
            activity: Activity(sync::AtomicU64::new(0)),
            queued: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
        })
    }

    fn push(&self) {
        self.queued.fetch_add(1, Ordering::Release);
        if self.activity.wanted(2) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn pop(&self) -> bool {
        let take = |queued: u32| queued.checked_sub(1);
        self.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// A worker's turn: runs what there is, and leaves. True if it has to come again.
    fn work(&self) -> bool {
        self.activity.enter(Part::SEARCHES);
        let mut searching = true;
        loop {
            if self.pop() {
                if std::mem::take(&mut searching) && self.activity.found() {
                    let more = self.queued.load(Ordering::Acquire) > 0;
                    if more && self.activity.wanted(2) {
                        self.wakes.fetch_add(1, Ordering::Relaxed);
                    }
                }
                continue;
            }
            if searching {
                break;
            }
            self.activity.search();
            searching = true;
        }
        self.activity.leave(Part::SEARCHES);
        self.queued.load(Ordering::Acquire) > 0
    }
}

#[test]
fn a_task_is_seen_by_a_worker_that_leaves_or_wakes_one() {
    check(3, || {
        let queues = Queues::new();
        let worker = queues.clone();
        let worker = thread::spawn(move || worker.work());
        queues.push();
        queues.push();
        let again = worker.join().unwrap();
        let left = queues.queued.load(Ordering::Acquire) > 0;
        assert!(
            !left || again || queues.wakes.load(Ordering::Relaxed) > 0,
            "tasks are left, and no worker comes"
        );
    });
}

#[test]
fn of_two_workers_that_leave_one_sees_a_task() {
    check(2, || {
        let queues = Queues::new();
        let workers = [queues.clone(), queues.clone()].map(|queues| thread::spawn(move || queues.work()));
        queues.push();
        let again = workers.map(|worker| worker.join().unwrap());
        let left = queues.queued.load(Ordering::Acquire) > 0;
        let comes = again.contains(&true) || queues.wakes.load(Ordering::Relaxed) > 0;
        assert!(!left || comes, "a task is left, and no worker comes");
    });
}

#[test]
fn a_thread_that_sleeps_is_woken_for_a_task() {
    check(3, || {
        let queues = Queues::new();
        queues.activity.enter(Part::WAITS);
        let sleeper = queues.clone();
        let sleeper = thread::spawn(move || {
            sleeper.activity.change(Part::WAITS, Part::SLEEPS);
            // The last look.
            sleeper.pop()
        });
        queues.queued.fetch_add(1, Ordering::Release);
        let woken = queues.activity.wanted(0);
        assert!(sleeper.join().unwrap() || woken, "it sleeps beside a task");
    });
}

/// A task and its handle.
struct Task {
    done: Done,
    frees: AtomicUsize,
    signalled: AtomicBool,
}

fn task() -> (Arc<Task>, thread::JoinHandle<()>) {
    let task =
        Arc::new(Task { done: Done::new(), frees: AtomicUsize::new(0), signalled: AtomicBool::new(false) });
    let end = task.clone();
    let end = thread::spawn(move || match end.done.end() {
        Handle::Looks => {}
        Handle::Waits(address) => {
            assert_eq!(address, 64);
            end.signalled.store(true, Ordering::Release);
        }
        Handle::Gone => {
            end.frees.fetch_add(1, Ordering::AcqRel);
        }
    });
    (task, end)
}

#[test]
fn a_dropped_handle_or_the_end_frees_a_task() {
    check(3, || {
        let (task, end) = task();
        if !task.done.leave() {
            task.frees.fetch_add(1, Ordering::AcqRel);
        }
        end.join().unwrap();
        assert_eq!(task.frees.load(Ordering::Acquire), 1);
    });
}

#[test]
fn a_handle_that_waits_is_signalled_or_sees_the_end() {
    check(3, || {
        let (task, end) = task();
        let waits = task.done.wait(64);
        assert!(waits || task.done.is_done());
        end.join().unwrap();
        assert_eq!(task.signalled.load(Ordering::Acquire), waits);
        assert_eq!(task.frees.load(Ordering::Acquire), 0);
    });
}

/// A thread's blocks, and what says which thread uses one: its cell is touched by what has the block.
struct Owner {
    returned: Returned,
    used: [UnsafeCell<()>; 2],
}

// SAFETY: that is what the model checks.
unsafe impl Sync for Owner {}

#[test]
fn a_block_that_others_free_has_one_owner_at_a_time() {
    check(3, || {
        let owner = Arc::new(Owner { returned: Returned::new(), used: [(); 2].map(UnsafeCell::new) });
        let blocks = Blocks::new();
        let made = [(); 2].map(|()| blocks.allocate(0, &owner.returned).as_ptr().expose_provenance());
        let others = [0, 1].map(|i| {
            let owner = owner.clone();
            thread::spawn(move || {
                let (own, other) = (Returned::new(), Blocks::new());
                owner.used[i].with_mut(|_| ());
                let block = std::ptr::with_exposed_provenance_mut(made[i]);
                let block = std::ptr::NonNull::new(block).unwrap();
                // SAFETY: the owner made it, nothing else uses it, and the owner lives on.
                unsafe { other.release(0, block, &owner.returned, &own) };
                other.clear();
            })
        });
        let mut again = Vec::new();
        let mut take = || {
            let block = blocks.allocate(0, &owner.returned);
            if let Some(i) = made.iter().position(|&made| made == block.as_ptr().addr()) {
                owner.used[i].with_mut(|_| ());
            }
            assert!(!again.contains(&block), "a block was given out twice");
            again.push(block);
        };
        take();
        others.into_iter().for_each(|other| other.join().unwrap());
        (0..3).for_each(|_| take());
        let reused = again.iter().filter(|block| made.contains(&block.as_ptr().addr())).count();
        assert_eq!(reused, 2, "a block was lost");
        for block in again {
            // SAFETY: it is this thread's.
            unsafe { blocks.release(0, block, &owner.returned, &owner.returned) };
        }
    });
}
