//! Coroutines: what they are left with and gone on with, and what ends them.

use flash_backend_cpu as _;
use flash_tasks::coroutine::{Coroutine, Step, suspend};
use flash_tasks::{join, scope};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

#[test]
fn many_coroutines_take_turns_and_keep_their_stacks() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let make = |number: usize| {
        let order = order.clone();
        Coroutine::new(move || {
            let own = [number; 1000];
            for turn in 0..3 {
                order.borrow_mut().push((turn, number));
                suspend().expect("a coroutine");
                assert!(own.iter().all(|n| *n == number));
            }
        })
    };
    let mut all = (0..100).map(|number| make(number).expect("a stack")).collect::<Vec<_>>();
    for turn in 0..4 {
        let expected = if turn == 3 { Step::Returned } else { Step::Suspended };
        assert!(all.iter_mut().all(|one| one.resume() == expected));
    }
    let expected: Vec<_> = (0..3).flat_map(|turn| (0..100).map(move |number| (turn, number))).collect();
    assert_eq!(*order.borrow(), expected);
    let again = catch_unwind(AssertUnwindSafe(|| all[0].resume())).expect_err("it has returned");
    let text = again.downcast_ref::<String>().map(String::as_str);
    assert_eq!(text.or(again.downcast_ref().copied()), Some("a coroutine that has returned was resumed"));
}

/// Counts its end.
struct Counts(Rc<Cell<u32>>);

impl Drop for Counts {
    fn drop(&mut self) {
        // Nothing is left while a panic unwinds.
        assert!(!std::thread::panicking() || suspend().is_err());
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_coroutine_that_is_dropped_unwinds_also_where_it_was_not_begun() {
    let ends = Rc::new(Cell::new(0));
    let counts = Counts(ends.clone());
    drop(Coroutine::new(move || {
        let _counts = &counts;
        unreachable!("it is not begun");
    }));
    // Its captures are dropped outside of it.
    assert_eq!(ends.replace(0), 1);
    let inner = ends.clone();
    let mut stubborn = Coroutine::new(move || {
        for _ in 0..3 {
            let _counts = Counts(inner.clone());
            // It does not stay.
            let _ = catch_unwind(|| suspend().expect("a coroutine"));
        }
    })
    .expect("a stack");
    assert_eq!(stubborn.resume(), Step::Suspended);
    drop(stubborn);
    assert_eq!(ends.replace(0), 3);
    let counts = Counts(ends.clone());
    let mut plain = Coroutine::new(move || {
        let _counts = counts;
        suspend().expect("a coroutine");
        unreachable!("it is dropped");
    })
    .expect("a stack");
    assert_eq!((plain.resume(), ends.get()), (Step::Suspended, 0));
    drop(plain);
    assert_eq!(ends.get(), 1);
}

#[test]
fn a_panic_goes_on_in_what_resumed_it() {
    let mut panics = Coroutine::new(|| {
        suspend().expect("a coroutine");
        panic!("in its middle");
    })
    .expect("a stack");
    assert_eq!(panics.resume(), Step::Suspended);
    let panic = catch_unwind(AssertUnwindSafe(|| panics.resume())).expect_err("a panic");
    assert_eq!(panic.downcast_ref(), Some(&"in its middle"));
}

#[test]
fn only_the_function_of_a_coroutine_itself_suspends_it() {
    let text = || suspend().expect_err("not here").to_string();
    assert_eq!(text(), "nothing is suspended here: expected to be in a coroutine");
    let mut coroutine = Coroutine::new(move || {
        let inside = scope(|s| {
            let inner = text();
            let task = s.spawn(move || text().contains("nothing is suspended here"));
            assert!(task.wait().expect("no panic"));
            inner
        });
        assert!(inside.expect("no panic").contains("in a scope, a join or a task"));
        let (a, b) = join(text, text);
        assert!(a.contains("nothing is suspended here") && b.contains("nothing is suspended here"));
        suspend().expect("the scope has ended");
        // Inside another one, the inner one is left.
        let mut inner = Coroutine::new(|| suspend().expect("a coroutine")).expect("a stack");
        assert_eq!((inner.resume(), inner.resume()), (Step::Suspended, Step::Returned));
    })
    .expect("a stack");
    assert_eq!((coroutine.resume(), coroutine.resume()), (Step::Suspended, Step::Returned));
}

#[test]
fn tasks_run_coroutines() {
    let sum = scope(|s| {
        let run = |number: u64| {
            let sum = Rc::new(Cell::new(0));
            let inner = sum.clone();
            let mut counts = Coroutine::new(move || {
                for i in 0..number {
                    inner.set(inner.get() + scope(|s| s.spawn(|| i).wait()).unwrap().unwrap());
                    suspend().unwrap();
                }
            })
            .unwrap();
            while counts.resume() == Step::Suspended {
                flash_tasks::yield_now();
            }
            sum.get()
        };
        let tasks: Vec<_> = (0..50).map(|number| s.spawn(move || run(number))).collect();
        tasks.into_iter().map(|task| task.wait().unwrap()).sum::<u64>()
    });
    assert_eq!(sum.unwrap(), (0..50_u64).map(|n| n * n.saturating_sub(1) / 2).sum::<u64>());
}
