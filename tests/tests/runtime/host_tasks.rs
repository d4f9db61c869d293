//! Functions of the host in pipelines.

use flash::Error;
use flash::error::LaunchError;
use flash::kernel;
use flash::kernel::views::{Item, Read, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::runtime::HostArgs;
use flash_tests::Random;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// to = from + 1.
#[derive(KernelDefinition)]
#[kernel(name = "host_tasks.next", dims(i))]
struct Next<'a> {
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Next<'_>> for Plain {
    fn item(_: Index<1>, k: NextItem<'_>) {
        k.to.set(*k.from + 1);
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

fn zeroed() -> FlashMemory<u64> {
    FlashMemory::zeroed(8)
}

fn launch_error(outcome: Result<(), Error>) -> LaunchError {
    match outcome {
        Err(Error::Launch(error)) => (*error).clone(),
        other => panic!("expected a failed launch, found {other:?}"),
    }
}

#[flash_tests::test]
fn it_runs_between_the_kernels_that_it_depends_on_and_those_that_depend_on_it() {
    let (rt, a, b, c, d) = (cpu(), zeroed(), zeroed(), zeroed(), zeroed());
    let thread = std::thread::current().id();
    let double = HostTask::new("double").read(&b).read(10u64).write(&c);
    let pipeline = rt
        .submit(Next::of(&a, &b))
        .defer([8])
        .host(double, move |io| {
            assert_eq!(std::thread::current().id(), thread, "exec runs it in its place");
            let add = io.scalar::<u64>(1)?;
            let (b, c) = io.read_write::<u64, u64>(0, 2)?;
            c.iter_mut().zip(b).for_each(|(c, b)| *c = b * 2 + add);
            Ok(())
        })
        .submit(Next::of(&c, &d))
        .defer([8]);
    assert_eq!(pipeline.len(), 3);
    for round in 0..3 {
        a.write().unwrap().fill(round);
        pipeline.exec().unwrap();
        assert_eq!(*d.read().unwrap(), [(round + 1) * 2 + 11; 8]);
    }
}

#[flash_tests::test]
fn it_reaches_ranges_and_slices_with_their_types_and_accesses() {
    let (rt, a, source) = (cpu(), zeroed(), [1u64, 2, 3]);
    let mut slice = [0u64; 2];
    let range = a.range(2..5).unwrap();
    let task = HostTask::new("reach").read(&source[..]).read_write(range).write(&mut slice[..]);
    let reach = rt.pipeline().host(task, |io| {
        assert!(matches!(io.read::<u32>(0), Err(Error::Argument { .. })), "of another type");
        assert!(matches!(io.write::<u64>(0), Err(Error::Argument { .. })), "only read");
        assert!(matches!(io.read_write::<u64, u64>(1, 1), Err(Error::Argument { .. })), "the same");
        assert!(matches!(io.read::<u64>(3), Err(Error::Argument { .. })), "not there");
        let (source, range) = io.read_write::<u64, u64>(0, 1)?;
        range.copy_from_slice(source);
        io.write::<u64>(2)?.fill(9);
        Ok(())
    });
    reach.exec().unwrap();
    drop(reach);
    assert_eq!(*a.read().unwrap(), [0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(slice, [9, 9]);
}

#[flash_tests::test]
fn what_cannot_be_written_or_is_there_twice_is_refused_before_anything_runs() {
    let (rt, a, source) = (cpu(), zeroed(), [1u64]);
    let never = |_: &mut flash_core::runtime::HostArgs<'_>| panic!("it must not run");
    let error = rt.pipeline().host(HostTask::new("w").write(&source[..]), never).exec().unwrap_err();
    assert!(error.to_string().contains("kernel `w`, argument `#0`"), "{error}");
    let error = rt.pipeline().host(HostTask::new("w").read(&a).write(&a), never).exec().unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
}

#[flash_tests::test]
fn its_error_or_panic_is_its_submissions() {
    let (rt, a, b, c) = (cpu(), zeroed(), zeroed(), zeroed());
    let fails = HostTask::new("load").write(&b);
    let outcome = rt.pipeline().host(fails, |_| panic!("no such file")).submit(Next::of(&b, &c)).exec([8]);
    let error = launch_error(outcome);
    assert_eq!((error.kernel(), error.device(), error.position()), ("load", "the host", 0));
    assert!(error.to_string().contains("no such file"), "{error}");
    assert!(matches!(error.others()[0].cause(), Error::Skipped { .. }));
    assert!(matches!(b.read(), Err(Error::Poisoned)));
    // One that writes all of it heals; its own error comes out as it is.
    rt.pipeline()
        .host(HostTask::new("heal").write(&b), |io| {
            io.write::<u64>(0)?.fill(3);
            Ok(())
        })
        .exec()
        .unwrap();
    assert_eq!(b.get(0).unwrap(), 3);
    let own = rt.pipeline().host(HostTask::new("own").read(&a), |_| Err(Error::Shape("mine".into())));
    assert!(matches!(launch_error(own.exec()).cause(), Error::Shape(text) if text == "mine"));
    drop(rt.submit(Next::of(&a, &c)).exec([8]));
}

#[flash_tests::test]
fn it_may_complete_later_from_another_thread_and_what_depends_on_it_comes_after() {
    let (rt, a, b) = (cpu(), zeroed(), zeroed());
    let (send, tokens) = mpsc::channel();
    let load = HostTask::new("load").write(a.clone());
    let handle = rt
        .pipeline()
        .host(load, move |io| {
            send.send(io.later()).unwrap();
            Ok(())
        })
        .submit(Next::of(a.clone(), b.clone()))
        .exec_async([8]);
    let mut token = tokens.recv().unwrap();
    assert!(handle.wait_timeout(Duration::from_millis(20)).is_none(), "it has returned, and is not complete");
    token
        .with(|io| {
            io.write::<u64>(0)?.fill(41);
            Ok(())
        })
        .unwrap();
    let panicked = token.with(|_| -> Result<(), Error> { panic!("once") });
    assert!(panicked.unwrap_err().to_string().contains("once"));
    let completer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        token.complete(Ok(()));
    });
    rt.submit(Next::of(&b, &a)).exec([8]).unwrap();
    assert_eq!((b.get(0).unwrap(), a.get(0).unwrap()), (42, 43));
    completer.join().unwrap();
    handle.wait().unwrap();
}

#[flash_tests::test]
fn a_token_that_fails_or_is_dropped_fails_the_task_and_a_failed_task_voids_its_token() {
    let (rt, a) = (cpu(), zeroed());
    let task = || HostTask::new("later").write(&a);
    let failing = rt.pipeline().host(task(), |io| {
        let token = io.later();
        std::thread::spawn(move || token.complete(Err(Error::Shape("too late".into()))));
        Ok(())
    });
    assert!(matches!(launch_error(failing.exec()).cause(), Error::Shape(text) if text == "too late"));
    let dropping = rt.pipeline().host(task(), |io| {
        drop(io.later());
        Ok(())
    });
    assert!(launch_error(dropping.exec()).to_string().contains("was dropped"));
    let (send, tokens) = mpsc::channel();
    let voiding = rt.pipeline().host(task(), move |io| {
        let mut token = io.later();
        assert!(matches!(token.with(|_| Ok(())), Err(Error::Nested)), "it would wait for its own return");
        send.send(token).unwrap();
        Err(Error::Shape("after all".into()))
    });
    assert!(matches!(launch_error(voiding.exec()).cause(), Error::Shape(_)));
    let mut token = tokens.recv().unwrap();
    assert!(matches!(token.with(|_| Ok(())), Err(Error::Shape(text)) if text == "after all"));
    token.complete(Ok(()));
    let twice = rt.pipeline().host(task(), |io| {
        let mut first = io.later();
        let second = io.later();
        assert!(first.with(|_| Ok(())).unwrap_err().to_string().contains("again"));
        second.complete(Ok(()));
        first.complete(Ok(()));
        Ok(())
    });
    twice.exec().unwrap();
}

/// Asks for argument 0 as elements of this type, in every way.
fn asks_for<T: flash::kernel::Element>(
    memory: &FlashMemory<impl flash::kernel::Element>,
) -> Result<(), Error> {
    let task = HostTask::new("ask").read(memory).write(zeroed());
    let pipeline = cpu().pipeline().host(task, |io| {
        io.write::<u64>(1)?.fill(1);
        io.read_write::<T, u64>(0, 1)?;
        io.read::<T>(0).map(drop)
    });
    pipeline.exec()
}

#[flash_tests::test]
fn types_of_one_name_are_told_apart_by_their_bytes() {
    // Each block declares a type of its own, and both are called the same.
    let memory = {
        #[derive(Clone, Copy, flash::kernel::Element)]
        #[repr(C)]
        struct P([u8; 4]);
        let memory = FlashMemory::<P>::zeroed(2);
        asks_for::<P>(&memory).unwrap();
        memory
    };
    #[derive(Clone, Copy, flash::kernel::Element)]
    #[repr(C)]
    struct P([u8; 12]);
    let error = launch_error(asks_for::<P>(&memory));
    assert!(matches!(error.cause(), Error::Argument { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("P (4 bytes, aligned to 1, layout")
            && text.contains("asked for as runtime::P (12 bytes"),
        "{text}"
    );
}

#[flash_tests::test]
fn a_token_that_is_asked_for_through_a_token_is_void() {
    let (rt, a) = (cpu(), zeroed());
    let (send, tokens) = mpsc::channel();
    let task = HostTask::new("later").write(a.clone());
    let handle = rt
        .pipeline()
        .host(task, move |io| {
            send.send(io.later()).unwrap();
            Ok(())
        })
        .exec_async();
    let mut token = tokens.recv().unwrap();
    let mut second = token.with(|io| Ok(io.later())).unwrap();
    let (send, outcomes) = mpsc::channel();
    std::thread::spawn(move || {
        send.send(second.with(|_| Ok(()))).unwrap();
        second.complete(Err(Error::Shape("of nothing".into())));
    });
    let outcome = outcomes.recv_timeout(Duration::from_secs(20)).expect("it does not wait for ever");
    assert!(outcome.unwrap_err().to_string().contains("this token is void"));
    token.with(|io| io.write::<u64>(0).map(|a| a.fill(7))).unwrap();
    token.complete(Ok(()));
    handle.wait().unwrap();
    assert_eq!(*a.read().unwrap(), [7; 8]);
}

/// Says that it runs.
#[derive(KernelDefinition)]
#[kernel(name = "host_tasks.signal", dims(i))]
struct Signal<'a> {
    number: usize,
    to: Item<'a, Write<u64>>,
}

static SIGNALLED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[kernel]
impl CpuItem<Signal<'_>> for Plain {
    fn item(_: Index<1>, k: SignalItem<'_>) {
        SIGNALLED[k.number].store(true, Relaxed);
        k.to.set(1);
    }
}

/// Waits, in a host task, until a submission behind it has run.
fn until_signalled(number: usize) {
    let begun = Instant::now();
    while !SIGNALLED[number].load(Relaxed) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the last submission waits for this function");
        std::thread::yield_now();
    }
}

#[flash_tests::test]
fn what_does_not_depend_on_it_does_not_wait_for_it() {
    let (rt, a, b, c) = (flash_tests::runtime_of_this_process(), zeroed(), zeroed(), zeroed());
    let patient = HostTask::new("patient").write(&a).blocking();
    let pipeline = rt
        .pipeline()
        .host(patient, |io| {
            until_signalled(0);
            io.write::<u64>(0)?.fill(5);
            Ok(())
        })
        .submit(Next::of(&a, &b))
        .defer([8])
        .submit(Signal::of(0, &c))
        .defer([8]);
    pipeline.exec().unwrap();
    assert_eq!(*b.read().unwrap(), [6; 8]);
    assert_eq!(*c.read().unwrap(), [1; 8]);
}

#[flash_tests::test]
fn what_uses_another_part_of_its_memory_does_not_wait_for_it() {
    let (rt, a) = (flash_tests::runtime_of_this_process(), zeroed());
    let patient = HostTask::new("patient").write(a.range(..4).unwrap()).blocking();
    let pipeline = rt
        .pipeline()
        .host(patient, |io| {
            until_signalled(1);
            io.write::<u64>(0)?.fill(5);
            Ok(())
        })
        .submit(Signal::of(1, a.range(4..).unwrap()))
        .defer([4]);
    pipeline.exec().unwrap();
    assert_eq!(*a.read().unwrap(), [5, 5, 5, 5, 1, 1, 1, 1]);
}

#[flash_tests::test]
fn eight_that_block_run_at_once() {
    let (rt, n) = (cpu(), 8);
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(n));
    let one = |_| {
        let barrier = barrier.clone();
        let task = HostTask::new("meet").write(zeroed()).blocking();
        let meet = move |_: &mut flash_core::runtime::HostArgs<'_>| {
            barrier.wait();
            Ok(())
        };
        rt.pipeline().host(task, meet).exec_async()
    };
    let handles: Vec<_> = (0..n).map(one).collect();
    handles.iter().for_each(|h| h.wait().unwrap());
}

/// What a submission of a random pipeline does with its memories, which are given by number.
#[derive(Debug)]
enum Step {
    /// to = from + 1.
    Next { from: usize, to: usize },
    /// A function of the host: to = from + add, or an error. It is complete when its token is, or when it
    /// returns.
    Host { from: usize, to: usize, add: u64, fails: bool },
}

/// Elements 0 of all memories after these steps, one after another; `None`: poisoned. And which of them
/// failed.
fn serial(steps: &[Step], memories: usize) -> (Vec<Option<u64>>, Vec<usize>) {
    let (mut values, mut failed) = ((0..memories as u64).map(Some).collect::<Vec<_>>(), Vec::new());
    for (position, step) in steps.iter().enumerate() {
        let (from, to, add, fails) = match *step {
            Step::Next { from, to } => (from, to, 1, false),
            Step::Host { from, to, add, fails, .. } => (from, to, add, fails),
        };
        values[to] = values[from].filter(|_| !fails).map(|value| value + add);
        if values[to].is_none() {
            failed.push(position);
        }
    }
    (values, failed)
}

#[flash_tests::test]
fn random_pipelines_whose_functions_complete_later_are_as_a_serial_program() {
    let rt = cpu();
    for seed in 0..150 {
        let mut random = Random(seed);
        let count = 2 + random.next() as usize % 4;
        let memories: Vec<FlashMemory<u64>> =
            (0..count as u64).map(|value| FlashMemory::from([value; 8])).collect();
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let (mut pipeline, mut steps) = (rt.pipeline(), Vec::new());
        for _ in 0..1 + random.next() % 9 {
            let from = random.next() as usize % count;
            let to = (from + 1 + random.next() as usize % (count - 1)) % count;
            let (read, written) = (memories[from].clone(), memories[to].clone());
            if random.next().is_multiple_of(2) {
                pipeline = pipeline.submit(Next::of(read, written)).defer([8]);
                steps.push(Step::Next { from, to });
                continue;
            }
            let (add, later) = (random.next() % 100, !random.next().is_multiple_of(3));
            let fails = random.next().is_multiple_of(6);
            let outcome = move || match fails {
                true => Err(Error::Shape("meant to".into())),
                false => Ok(()),
            };
            let body = move |io: &mut HostArgs<'_>| {
                let (from, to) = io.read_write::<u64, u64>(0, 1)?;
                to.iter_mut().zip(from).for_each(|(to, from)| *to = from + add);
                outcome()
            };
            let tokens = tokens.clone();
            let task = HostTask::new("add").read(read).write(written);
            pipeline = pipeline.host(task, move |io| {
                if !later {
                    return body(io);
                }
                tokens.lock().unwrap().push((body, io.later()));
                Ok(())
            });
            steps.push(Step::Host { from, to, add, fails });
        }
        let handle = pipeline.exec_async();
        // Another thread does what is left, after a while or at once.
        let slow = random.next().is_multiple_of(4);
        let done = &AtomicBool::new(false);
        let tokens = &tokens;
        let outcome = std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let token = tokens.lock().unwrap().pop();
                    let Some((body, mut token)) = token else {
                        std::thread::yield_now();
                        continue;
                    };
                    if slow {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let outcome = token.with(body);
                    token.complete(outcome);
                }
            });
            let outcome = handle.wait();
            done.store(true, Relaxed);
            outcome
        });
        let (values, failed) = serial(&steps, count);
        let positions = match outcome {
            Ok(()) => Vec::new(),
            outcome => {
                let first = launch_error(outcome);
                let all = [first.position()].into_iter();
                all.chain(first.others().iter().map(LaunchError::position)).collect()
            }
        };
        assert_eq!(positions, failed, "seed {seed}: {steps:?}");
        let found: Vec<_> = memories.iter().map(|memory| memory.get(7).ok()).collect();
        assert_eq!(found, values, "seed {seed}: {steps:?}");
    }
}
