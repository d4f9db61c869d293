//! Executions that suspend and resume, as coroutines and as threads of the system.

use crate::{has, over_threads, text};
use flash_hicr::{
    ComputeManager, Crew, Error, Execution, ExecutionUnit, Managers, ProcessingUnit, Queue, Resource, Status,
    Workers, coroutines, suspend,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

type Compute = Arc<dyn ComputeManager>;

/// Runs a body with each manager that suspends, and a unit of it.
fn over_both(body: impl Fn(&Compute, &ProcessingUnit) -> Result<(), Error> + Send + Sync + 'static) {
    over_threads(1, move |hicr: Managers| {
        for compute in [hicr.compute.clone(), coroutines(&hicr.topology)] {
            let unit = compute.processing_unit(&compute.resources()?[0])?;
            body(&compute, &unit)?;
        }
        Ok(())
    });
}

fn start(
    (compute, unit): (&Compute, &ProcessingUnit),
    name: &str,
    function: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
) -> Result<Execution, Error> {
    unit.start(compute.state(&ExecutionUnit::new(name).function(move |_| function()), &[])?)
}

#[test]
fn an_execution_is_running_then_suspended_then_finished() {
    over_both(|compute, unit| {
        let (steps, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(())));
        let (inner, locked) = (steps.clone(), gate.clone());
        let beside = compute.runs_beside_the_caller();
        let held = beside.then(|| gate.lock().unwrap());
        let mut execution = start((compute, unit), "steps", move || {
            for _ in 0..3 {
                drop(locked.lock().unwrap());
                inner.fetch_add(1, SeqCst);
                suspend()?;
            }
            Ok(())
        })?;
        if beside {
            assert_eq!(execution.status(), Status::Running);
            let running = text(execution.resume());
            assert_eq!(running, "resuming `steps`: expected it suspended, found it running");
        }
        drop(held);
        for step in 1..=3 {
            assert_eq!(execution.settle(), Status::Suspended);
            assert_eq!((execution.status(), steps.load(SeqCst)), (Status::Suspended, step));
            execution.resume()?;
        }
        assert_eq!(execution.settle(), Status::Finished);
        assert!(execution.is_finished());
        let finished = text(execution.resume());
        assert_eq!(finished, "resuming `steps`: expected it suspended, found it finished");
        execution.wait()
    });
}

#[test]
fn suspended_executions_leave_their_unit_to_others() {
    over_both(|compute, unit| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let begin = |number: usize| {
            let order = order.clone();
            start((compute, unit), "one of many", move || {
                for turn in 0..3 {
                    order.lock().unwrap().push((turn, number));
                    suspend()?;
                }
                Ok(())
            })
        };
        let mut all = (0..40).map(begin).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..3 {
            assert!(all.iter_mut().all(|one| one.settle() == Status::Suspended));
            all.iter_mut().try_for_each(Execution::resume)?;
        }
        all.into_iter().try_for_each(Execution::wait)?;
        let expected: Vec<_> = (0..3).flat_map(|turn| (0..40).map(move |number| (turn, number))).collect();
        assert_eq!(*order.lock().unwrap(), expected);
        Ok(())
    });
}

#[test]
fn what_cannot_be_is_an_error_that_says_why() {
    has(&text(suspend()), "expected code that a processing unit runs, found a thread that runs none");
    over_both(|compute, unit| {
        let by = (compute, unit);
        let suspended = start(by, "waits", suspend)?;
        has(&text(suspended.wait()), "waiting for `waits`: it is suspended, and nothing else resumes it");
        let mut panics = start(by, "panics", || {
            suspend()?;
            panic!("in its middle")
        })?;
        assert_eq!(panics.settle(), Status::Suspended);
        panics.resume()?;
        assert_eq!(text(panics.wait()), "the execution unit `panics` panicked: in its middle");
        let refused = |what: &str| Error::Refused { what: what.into(), why: "no".into() };
        let mut fails = start(by, "fails", move || suspend().and(Err(refused("it"))))?;
        assert_eq!(fails.settle(), Status::Suspended);
        fails.resume()?;
        assert_eq!(text(fails.wait()), "it: no");
        // While a panic unwinds.
        struct Suspends(Arc<Mutex<String>>);
        impl Drop for Suspends {
            fn drop(&mut self) {
                *self.0.lock().unwrap() = text(suspend());
            }
        }
        let found = Arc::new(Mutex::new(String::new()));
        let inner = found.clone();
        let unwinds = start(by, "unwinds", move || {
            let _suspends = Suspends(inner.clone());
            panic!("over")
        })?;
        has(&text(unwinds.wait()), "`unwinds` panicked: over");
        has(&found.lock().unwrap(), "a panic unwinds");
        Ok(())
    });
}

#[test]
fn a_coroutine_stays_on_its_thread_and_is_left_by_itself_only() {
    over_threads(1, |hicr| {
        let compute = coroutines(&hicr.topology);
        has(&text(compute.processing_unit(&Resource::Cpu(100_000)).map(drop)), "expected one of cpu");
        let unit = compute.processing_unit(&compute.resources()?[0])?;
        let mut execution = start((&compute, &unit), "tied", || {
            let inside = flash_tasks::scope(|_| text(suspend()));
            has(&inside.unwrap(), "suspending `tied`: nothing is suspended here: it is in a scope");
            suspend()
        })?;
        let elsewhere = std::thread::Builder::new().name("elsewhere".into());
        let (unit, mut execution) = elsewhere
            .spawn(move || {
                let resumed = text(execution.resume());
                has(&resumed, "resuming `tied`: expected the thread `hicr-0` of its processing unit");
                has(&resumed, "found `elsewhere`");
                assert_eq!(execution.status(), Status::Suspended);
                let state = compute.state(&ExecutionUnit::new("other").function(|_| Ok(())), &[]);
                has(&text(unit.start(state.unwrap())), "starting `other`: expected the thread `hicr-0`");
                (unit, execution)
            })
            .expect("a thread")
            .join()
            .expect("no panic");
        execution.resume()?;
        drop(unit);
        execution.wait()?;
        let crew = Crew::of(&coroutines(&hicr.topology), &hicr.compute)?;
        has(&text(Workers::start(&crew, Queue::oldest_first())), "found coroutines");
        Ok(())
    });
}

/// Counts its end.
struct Counts(Arc<AtomicU32>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_is_dropped_while_suspended_is_unwound() {
    over_both(|compute, unit| {
        let ends = Arc::new(AtomicU32::new(0));
        let begin = |name: &str| {
            let ends = ends.clone();
            start((compute, unit), name, move || {
                let _counts = Counts(ends.clone());
                // It does not stay, whatever it catches.
                let caught = std::panic::catch_unwind(|| suspend().unwrap());
                assert!(caught.is_err());
                suspend()?;
                unreachable!("it is released")
            })
        };
        let mut here = begin("here")?;
        assert_eq!((here.settle(), ends.load(SeqCst)), (Status::Suspended, 0));
        drop(here);
        let mut there = begin("there")?;
        assert_eq!(there.settle(), Status::Suspended);
        std::thread::spawn(move || drop(there)).join().expect("no panic");
        // What comes behind sees that they have ended, for coroutines as for threads.
        start((compute, unit), "behind", || Ok(()))?.wait()?;
        assert_eq!(ends.load(SeqCst), 2);
        Ok(())
    });
}

#[test]
fn a_thread_that_ends_releases_its_coroutines() {
    over_threads(1, |hicr| {
        let ends = Arc::new(AtomicU32::new(0));
        let inner = ends.clone();
        let kept = std::thread::spawn(move || {
            let compute = coroutines(&hicr.topology);
            let unit = compute.processing_unit(&compute.resources().unwrap()[0]).unwrap();
            start((&compute, &unit), "kept", move || {
                let _counts = Counts(inner.clone());
                let own = Rc::new(RefCell::new(1));
                suspend()?;
                unreachable!("its thread has ended: {own:?}")
            })
            .unwrap()
        });
        let mut kept = kept.join().expect("no panic");
        assert_eq!(ends.load(SeqCst), 1);
        assert!(kept.is_finished());
        has(&text(kept.wait()), "executing `kept`: it was released while suspended");
        Ok(())
    });
}

#[test]
fn a_unit_that_is_dropped_waits_for_what_runs_and_suspended_ones_still_go_on() {
    over_threads(1, |hicr| {
        let compute = hicr.compute.clone();
        let unit = compute.processing_unit(&compute.resources()?[0])?;
        let steps = Arc::new(AtomicU32::new(0));
        let inner = steps.clone();
        let mut first = start((&compute, &unit), "first", move || {
            inner.fetch_add(1, SeqCst);
            suspend()?;
            inner.fetch_add(10, SeqCst);
            Ok(())
        })?;
        let inner = steps.clone();
        let second = start((&compute, &unit), "second", move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            inner.fetch_add(100, SeqCst);
            Ok(())
        })?;
        drop(unit);
        assert_eq!(steps.load(SeqCst), 101);
        second.wait()?;
        first.resume()?;
        first.wait()?;
        assert_eq!(steps.load(SeqCst), 111);
        Ok(())
    });
}

#[test]
fn coroutines_run_inside_threads_and_inside_each_other() {
    over_threads(1, |hicr| {
        let (outer, inner) = (hicr.compute.clone(), coroutines(&hicr.topology));
        let unit = outer.processing_unit(&outer.resources()?[0])?;
        let mut execution = start((&outer, &unit), "thread", move || {
            let unit = inner.processing_unit(&inner.resources()?[0])?;
            let deeper = inner.clone();
            let mut one = start((&inner, &unit), "one", move || {
                let unit = deeper.processing_unit(&deeper.resources()?[0])?;
                let mut two = start((&deeper, &unit), "two", suspend)?;
                suspend()?;
                two.resume()?;
                two.wait()
            })?;
            suspend()?;
            assert_eq!(one.status(), Status::Suspended);
            one.resume()?;
            one.wait()
        })?;
        assert_eq!(execution.settle(), Status::Suspended);
        execution.resume()?;
        execution.wait()
    });
}

/// What is done to one of several executions.
#[derive(Clone, Copy, Debug)]
enum Act {
    Start,
    Resume(usize),
    Drop(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_order_of_starts_resumes_and_drops_is_that_of_a_list_of_counters(
        acts in prop::collection::vec(prop_oneof![
            2 => Just(Act::Start),
            4 => (0..8_usize).prop_map(Act::Resume),
            1 => (0..8_usize).prop_map(Act::Drop),
        ], 1..60)
    ) {
        over_both(move |compute, unit| {
            let steps = Arc::new(Mutex::new(Vec::new()));
            // Executions and how often they were resumed: each ends after two times.
            let mut all: Vec<(usize, Execution, u32)> = Vec::new();
            let (mut expected, mut number) = (Vec::new(), 0);
            for act in &acts {
                match *act {
                    Act::Start => {
                        let (steps, me) = (steps.clone(), number);
                        let execution = start((compute, unit), "step", move || {
                            for step in 0..3 {
                                steps.lock().unwrap().push((me, step));
                                if step < 2 {
                                    suspend()?;
                                }
                            }
                            Ok(())
                        })?;
                        all.push((number, execution, 0));
                        expected.push((number, 0));
                        number += 1;
                    }
                    Act::Resume(at) if !all.is_empty() => {
                        let at = at % all.len();
                        let (number, execution, resumed) = &mut all[at];
                        execution.settle();
                        if *resumed < 2 {
                            execution.resume()?;
                            *resumed += 1;
                            expected.push((*number, *resumed));
                        } else {
                            has(&text(execution.resume()), "found it finished");
                        }
                    }
                    Act::Drop(at) if !all.is_empty() => {
                        let mut dropped = all.swap_remove(at % all.len());
                        dropped.1.settle();
                    }
                    _ => {}
                }
                // One after the other, as the list has them.
                all.iter_mut().for_each(|one| {
                    one.1.settle();
                });
            }
            assert_eq!(*steps.lock().unwrap(), expected);
            Ok(())
        });
    }
}
