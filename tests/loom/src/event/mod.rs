//! The events that the host signals. The file under test is included in place, beside a `sync` that takes its
//! names from loom.

mod sync;
#[path = "../../../../flash-backend/src/event/user.rs"]
mod user;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::check;
use user::UserEvent;

/// The result of an event.
#[derive(Clone, Debug, PartialEq)]
struct Failure(u32);

/// Work done before the event fires, and the callbacks that were called.
#[derive(Default)]
struct Work {
    event: UserEvent,
    result: UnsafeCell<u32>,
    called: AtomicUsize,
}

// SAFETY: loom checks how the result is shared.
unsafe impl Sync for Work {}

impl Work {
    fn finish(&self) {
        // SAFETY: loom checks this access.
        self.result.with_mut(|result| unsafe { *result = 7 });
    }

    fn assert_done(&self) {
        // SAFETY: loom checks this access.
        self.result.with(|result| assert_eq!(unsafe { *result }, 7));
    }

    /// Registers a callback, which is called once, after the work.
    fn ask(me: &Arc<Self>) {
        let work = Arc::clone(me);
        me.event.on_ready(Box::new(move || {
            work.assert_done();
            work.called.fetch_add(1, Ordering::Relaxed);
        }));
    }
}

#[test]
fn who_waits_sees_the_work_however_late_or_early_it_comes() {
    check(3, || {
        let work = Arc::new(Work::default());
        let waiters = [(); 2].map(|()| {
            let work = Arc::clone(&work);
            thread::spawn(move || {
                assert_eq!(work.event.wait(), Ok(()));
                work.assert_done();
            })
        });
        work.finish();
        assert!(work.event.signal(Ok(())));
        waiters.into_iter().for_each(|w| w.join().unwrap());
    });
}

#[test]
fn every_callback_runs_exactly_once_after_the_work() {
    check(3, || {
        let work = Arc::new(Work::default());
        let asks = [(); 2].map(|()| {
            let work = Arc::clone(&work);
            thread::spawn(move || Work::ask(&work))
        });
        Work::ask(&work);
        work.finish();
        assert!(work.event.signal(Ok(())));
        asks.into_iter().for_each(|t| t.join().unwrap());
        Work::ask(&work);
        assert_eq!(work.called.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn one_of_two_signals_fires_it_and_everyone_gets_its_outcome() {
    check(3, || {
        let work = Arc::new(Work::default());
        let other = Arc::clone(&work);
        let signaller = thread::spawn(move || other.event.signal(Err(Failure(1))));
        work.event.on_ready({
            let work = Arc::clone(&work);
            Box::new(move || {
                work.called.fetch_add(1, Ordering::Relaxed);
            })
        });
        let mine = work.event.signal(Err(Failure(2)));
        let outcome = work.event.wait();
        assert!(mine != signaller.join().unwrap(), "exactly one of them fired it");
        assert_eq!(outcome, Err(Failure(if mine { 2 } else { 1 })));
        assert_eq!(work.event.wait(), outcome, "it stays");
        assert_eq!(work.called.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn ready_is_true_after_the_work_and_stays() {
    check(3, || {
        let work = Arc::new(Work::default());
        let other = Arc::clone(&work);
        let looker = thread::spawn(move || {
            if other.event.ready() {
                other.assert_done();
                assert!(other.event.ready());
                assert_eq!(other.event.wait(), Ok(()));
            }
        });
        work.finish();
        assert!(work.event.signal(Ok(())));
        assert!(work.event.ready());
        looker.join().unwrap();
    });
}

#[test]
fn a_callback_may_use_the_event() {
    check(3, || {
        let work = Arc::new(Work::default());
        let inner = Arc::clone(&work);
        work.event.on_ready(Box::new(move || {
            assert!(inner.event.ready());
            assert!(!inner.event.signal(Ok(())));
            Work::ask(&inner);
        }));
        let other = Arc::clone(&work);
        let signaller = thread::spawn(move || {
            other.finish();
            assert!(other.event.signal(Ok(())));
        });
        assert_eq!(work.event.wait(), Ok(()));
        signaller.join().unwrap();
        assert_eq!(work.called.load(Ordering::Relaxed), 1);
    });
}
