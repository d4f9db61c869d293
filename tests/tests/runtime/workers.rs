//! The worker threads: the work that runs on them, and that is not held up.

use flash::OnCaller;
use flash::kernel;
use flash::kernel::views::{Item, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::workers::{self, Source};
use flash_tests::in_process;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// to += value.
#[derive(KernelDefinition)]
#[kernel(name = "workers.add", dims(i))]
struct Add<'a> {
    value: u64,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += k.value;
    }
}

const SOON: Duration = Duration::from_secs(20);

fn cpu() -> RuntimeObj {
    get_runtime("ALL_CPU").unwrap()
}

fn zeroed(len: usize) -> FlashMemory<u64> {
    FlashMemory::zeroed(len)
}

/// OS threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Microseconds of processor time that this process has used.
fn processor_time() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0) / 1000
    };
    tasks.flatten().map(of).sum()
}

fn name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// Pieces of work, run once each.
struct Pieces(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl Source for Pieces {
    fn run_one(&self) -> bool {
        let piece = self.0.lock().unwrap().pop();
        piece.map(|piece| piece()).is_some()
    }
}

/// The result of `piece`, which runs on a worker.
fn on_worker<R: Send + 'static>(piece: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let piece: Box<dyn FnOnce() + Send> = Box::new(move || drop(tell.send(piece())));
    let _registration = workers::register(Arc::new(Pieces(Mutex::new(vec![piece]))));
    workers::wake(1);
    told.recv_timeout(SOON).expect("a worker runs it")
}

#[test]
fn a_function_on_a_worker_launches_waits_and_takes_guards() {
    let (rt, a) = (cpu(), zeroed(4096));
    let seen = on_worker({
        let a = a.clone();
        move || {
            rt.submit(Add::of(1, &a)).exec([4096]).unwrap();
            rt.submit(Add::of(2, a.clone())).exec_async([4096]).wait().unwrap();
            let last = rt.submit(Add::of(3, a.clone())).exec_async([4096]);
            let seen = a.get(4095).unwrap();
            last.wait().unwrap();
            seen
        }
    });
    assert_eq!(seen, 6);
    assert_eq!(*a.read().unwrap(), [6; 4096]);
}

#[test]
fn the_only_worker_runs_what_its_guards_wait_for() {
    in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let seen = on_worker(|| {
            let (rt, a, b) = (cpu(), zeroed(4096), zeroed(4096));
            let add = |value, to: &FlashMemory<u64>| {
                drop(rt.submit(Add::of(value, to.clone())).exec_async([4096]));
            };
            let mut seen = Vec::new();
            add(1, &a);
            seen.push(a.get(4095).unwrap());
            add(2, &a);
            seen.push(a.read().unwrap()[7]);
            add(3, &a);
            seen.push(a.read_range(5..6).unwrap()[0]);
            add(4, &a);
            a.write().unwrap()[0] += 100;
            seen.push(a.get(0).unwrap());
            // While it holds a guard.
            add(5, &b);
            let held = a.read().unwrap();
            seen.push(b.read().unwrap()[0] + held[1]);
            seen
        });
        assert_eq!(seen, [1, 3, 6, 110, 15]);
    });
}

#[test]
fn what_panics_on_a_worker_ends_itself_alone() {
    let panics: Box<dyn FnOnce() + Send> = Box::new(|| panic!("on purpose"));
    let (tell, told) = mpsc::channel();
    let last: Box<dyn FnOnce() + Send> = Box::new(move || tell.send(()).unwrap());
    let registration = workers::register(Arc::new(Pieces(Mutex::new(vec![last, panics]))));
    workers::wake(2);
    told.recv_timeout(SOON).expect("the other piece is run");
    drop(registration);
    assert_eq!(on_worker(|| 7), 7);
}

#[test]
fn a_source_that_is_not_registered_any_more_is_not_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    struct Counts(Arc<AtomicUsize>);
    impl Source for Counts {
        fn run_one(&self) -> bool {
            self.0.fetch_add(1, SeqCst);
            false
        }
    }
    let registration = workers::register(Arc::new(Counts(asked.clone())));
    on_worker(|| ());
    drop(registration);
    // What began before has ended when both have been asked for something new.
    (0..4).for_each(|_| on_worker(|| ()));
    let before = asked.load(SeqCst);
    (0..4).for_each(|_| on_worker(|| ()));
    assert_eq!(asked.load(SeqCst), before);
}

#[test]
fn parallel_iterators_launches_and_pieces_of_work_share_one_set_of_threads() {
    in_process(&[("FLASH_CPU_THREADS", "3")], || {
        let (rt, a) = (cpu(), zeroed(1 << 20));
        for _ in 0..20 {
            rt.submit(Add::of(1, &a)).exec([1 << 20]).unwrap();
        }
        let worker = on_worker(name);
        assert_eq!(workers::count(), 3);
        assert_eq!(rayon::current_num_threads(), 3);
        let names: BTreeSet<String> = (0..1000).into_par_iter().map(|_| name()).collect();
        assert!(names.iter().all(|name| name.starts_with("flash-cpu-")), "{names:?}");
        assert!(worker.starts_with("flash-cpu-"), "{worker}");
        // This thread, three workers, and the harness's; not one more for pieces of work or pipelines.
        let handles: Vec<_> = (0..64).map(|_| rt.submit(Add::of(1, zeroed(8))).exec_async([8])).collect();
        handles.iter().for_each(|handle| handle.wait().unwrap());
        assert!(threads() <= 5, "{} threads", threads());
    });
}

#[test]
fn a_pool_that_the_program_has_built_is_used_as_it_is() {
    in_process(&[("FLASH_CPU_THREADS", "4")], || {
        let named = |_| "the program's".to_owned();
        rayon::ThreadPoolBuilder::new().num_threads(2).thread_name(named).build_global().unwrap();
        let (rt, a) = (cpu(), zeroed(1 << 16));
        for _ in 0..200 {
            rt.submit(Add::of(1, &a)).exec([1 << 16]).unwrap();
            rt.submit(Add::of(1, a.clone())).exec_async([1 << 16]).wait().unwrap();
        }
        assert_eq!(*a.read().unwrap(), [400; 1 << 16]);
        assert_eq!(on_worker(name), "the program's");
    });
}

/// Uses several MiB of stack, and tells its thread.
#[derive(KernelDefinition)]
#[kernel(name = "workers.deep", dims(i))]
struct Deep<'a> {
    to: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Deep<'_>> for Plain {
    fn item(_: Index<1>, k: DeepItem<'_>) {
        let mut room = [0u8; 5 << 20];
        std::hint::black_box(&mut room)[7] = 1;
        std::thread::sleep(Duration::from_millis(2));
        k.to.set(u64::from(name().starts_with("flash-cpu")) + u64::from(room[7]));
    }
}

#[test]
fn an_item_may_use_as_much_stack_on_a_worker_as_on_the_main_thread() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || {
        let caller = std::thread::Builder::new().stack_size(8 << 20);
        let body = || {
            let (rt, a) = (cpu(), zeroed(64));
            rt.submit(Deep::of(&a)).exec([64]).unwrap();
            assert!(a.read().unwrap().contains(&2), "no worker has come");
            rt.submit(Deep::of(a.clone())).exec_async([64]).wait().unwrap();
            let task = HostTask::new("deep").write(a.clone()).blocking();
            let pipeline = rt.pipeline().host(task, |_| {
                std::hint::black_box(&mut [0u8; 5 << 20]);
                Ok(())
            });
            pipeline.exec_async().wait().unwrap();
        };
        caller.spawn(body).unwrap().join().unwrap();
    });
}

#[test]
fn without_a_backend_that_has_threads_there_is_one() {
    in_process(&[("FLASH_CPU_THROTTLE", "none")], || {
        assert_eq!((workers::count(), on_worker(name)), (1, "flash-worker".to_owned()));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(on_worker(name), "flash-worker", "woken again");
    });
}

#[test]
fn a_pipeline_that_nothing_waits_for_runs_while_its_caller_computes() {
    let (rt, done) = (cpu(), Arc::new(AtomicBool::new(false)));
    let tell = done.clone();
    let task = HostTask::new("tell").write(zeroed(1));
    let handle = rt.pipeline().host(task, move |_| {
        tell.store(true, SeqCst);
        Ok(())
    });
    drop(handle.exec_async());
    let start = Instant::now();
    while !done.load(SeqCst) {
        assert!(start.elapsed() < SOON, "no worker has come");
        std::hint::spin_loop();
    }
}

#[test]
fn a_thread_that_waits_runs_what_has_not_begun_and_what_it_comes_after() {
    in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let (rt, a) = (cpu(), zeroed(1));
        // The only worker is busy.
        let (go, gate) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let busy: Box<dyn FnOnce() + Send> = Box::new(move || {
            tell.send(()).unwrap();
            gate.recv().unwrap();
        });
        let _registration = workers::register(Arc::new(Pieces(Mutex::new(vec![busy]))));
        workers::wake(1);
        told.recv_timeout(SOON).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let one = |number: usize, memory: &FlashMemory<u64>| {
            let seen = seen.clone();
            let task = HostTask::new("one").read_write(memory.clone());
            let note = move |_: &mut flash_core::runtime::HostArgs<'_>| {
                seen.lock().unwrap().push((number, std::thread::current().id()));
                Ok(())
            };
            rt.pipeline().host(task, note).exec_async()
        };
        let other = zeroed(1);
        let handles: Vec<_> = (0..1000).map(|number| one(number, &a)).collect();
        let beside = one(5000, &other);
        handles[999].wait().unwrap();
        let me = std::thread::current().id();
        let expected: Vec<_> = (0..1000).map(|number| (number, me)).collect();
        assert_eq!(*seen.lock().unwrap(), expected, "all of the chain, by this thread, and nothing else");
        assert!(beside.try_wait().is_none());
        // `exec` waits for its turn in the same way.
        let last = one(1000, &a);
        rt.submit(Add::of(1, &a)).exec([1]).unwrap();
        assert_eq!(seen.lock().unwrap().last(), Some(&(1000, me)));
        go.send(()).unwrap();
        last.wait().unwrap();
        beside.wait().unwrap();
    });
}

#[test]
fn a_sleeping_thread_runs_what_comes_into_the_queue_while_workers_are_busy() {
    in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let (rt, a) = (cpu(), zeroed(1));
        let (send, tokens) = mpsc::channel();
        let first = rt.pipeline().host(HostTask::new("later").read_write(a.clone()), move |io| {
            send.send(io.later()).unwrap();
            Ok(())
        });
        let first = first.exec_async();
        let token = tokens.recv_timeout(SOON).unwrap();
        let second = rt.submit(Add::of(1, a.clone())).exec_async([1]);
        let (go, gate) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let busy: Box<dyn FnOnce() + Send> = Box::new(move || {
            tell.send(()).unwrap();
            gate.recv().unwrap();
        });
        let _registration = workers::register(Arc::new(Pieces(Mutex::new(vec![busy]))));
        workers::wake(1);
        told.recv_timeout(SOON).unwrap();
        let completes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            token.complete(Ok(()));
        });
        second.wait().unwrap();
        assert_eq!(a.get(0).unwrap(), 1);
        first.wait().unwrap();
        completes.join().unwrap();
        go.send(()).unwrap();
    });
}

#[test]
fn workers_that_all_wait_for_pipelines_with_a_timeout_run_them() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || {
        let (send, done) = mpsc::channel();
        let piece = |number: u64| -> Box<dyn FnOnce() + Send> {
            let send = send.clone();
            Box::new(move || {
                let (rt, a) = (cpu().options(Timeout(Duration::from_secs(60))), zeroed(4));
                for _ in 0..50 {
                    let first = rt.submit(Add::of(number, a.clone())).exec_async([4]);
                    // Behind the first one, and with the end of its patience far away, too.
                    rt.submit(Add::of(1, a.clone())).exec_async([4]).wait().unwrap();
                    first.wait().unwrap();
                    rt.submit(Add::of(1, a.clone())).exec([4]).unwrap();
                }
                send.send(a.get(3).unwrap()).unwrap();
            })
        };
        let _registration = workers::register(Arc::new(Pieces(Mutex::new((0..4).map(piece).collect()))));
        workers::wake(2);
        let mut sums: Vec<u64> = (0..4).map(|_| done.recv_timeout(SOON).unwrap()).collect();
        sums.sort_unstable();
        assert_eq!(sums, [100, 150, 200, 250]);
    });
}

#[test]
fn jobs_of_the_pool_that_all_wait_for_pipelines_with_a_timeout_go_on() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || {
        let rt = cpu().options(Timeout(Duration::from_secs(60)));
        rt.submit(Add::of(1, zeroed(4))).exec([4]).unwrap();
        let sums: Vec<FlashMemory<u64>> = (0..64).map(|_| zeroed(4)).collect();
        sums.par_iter().for_each(|a| rt.submit(Add::of(2, a.clone())).exec_async([4]).wait().unwrap());
        assert!(sums.iter().all(|a| *a.read().unwrap() == [2; 4]));
    });
}

#[test]
fn tokens_that_are_used_for_long_keep_no_thread_from_other_pipelines() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let rt = get_runtime("TEST").unwrap();
        let (send, tokens) = mpsc::channel();
        let one = |_| {
            let send = send.clone();
            let task = HostTask::new("later").write(zeroed(4));
            let handle = rt.pipeline().host(task, move |io| {
                send.send(io.later()).unwrap();
                Ok(())
            });
            let handle = handle.submit(Add::of(1, zeroed(4)));
            handle.exec_async([4])
        };
        let first: Vec<_> = (0..16).map(one).collect();
        let (go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        // Each is inside of its token, until the pipeline after all of them has begun.
        let hold = |_| {
            let (mut token, gate) = (tokens.recv_timeout(SOON).unwrap(), gate.clone());
            std::thread::spawn(move || {
                token.with(|_| Ok(gate.lock().unwrap().recv_timeout(SOON).is_err())).unwrap();
                token.complete(Ok(()));
            })
        };
        let inside: Vec<_> = (0..16).map(hold).collect();
        let last = one(16);
        let token = tokens.recv_timeout(SOON).unwrap();
        drop(go);
        inside.into_iter().for_each(|thread| thread.join().unwrap());
        token.complete(Ok(()));
        first.iter().chain([&last]).for_each(|handle| handle.wait().unwrap());
    });
}

#[test]
fn ten_thousand_functions_that_complete_later_hold_no_thread() {
    in_process(&[], || {
        let rt = cpu();
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let one = |number: u64| {
            let (tokens, a) = (tokens.clone(), zeroed(1));
            let task = HostTask::new("later").write(a.clone());
            let later = move |io: &mut flash_core::runtime::HostArgs<'_>| {
                tokens.lock().unwrap().push((number, io.later()));
                Ok(())
            };
            let behind = Add::of(1, a.clone());
            (rt.pipeline().host(task, later).submit(behind).exec_async([1]), a)
        };
        one(0).0.try_wait();
        while tokens.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        let before = threads();
        let outstanding: Vec<_> = (1..10_000).map(one).collect();
        let start = Instant::now();
        while tokens.lock().unwrap().len() < 10_000 {
            assert!(start.elapsed() < SOON, "{} have begun", tokens.lock().unwrap().len());
            std::thread::yield_now();
        }
        assert!(threads() <= before, "{} threads, {before} before", threads());
        assert!(outstanding.iter().all(|(handle, _)| handle.try_wait().is_none()));
        for (number, mut token) in std::mem::take(&mut *tokens.lock().unwrap()) {
            token.with(|io| io.write::<u64>(0).map(|a| a.fill(number))).unwrap();
            token.complete(Ok(()));
        }
        for (number, (handle, a)) in (1..).zip(&outstanding) {
            handle.wait().unwrap();
            assert_eq!(a.get(0).unwrap(), number + 1);
        }
        assert!(threads() <= before, "{} threads, {before} before", threads());
    });
}

#[test]
fn functions_that_complete_later_hold_no_thread_among_devices_with_memories_of_their_own() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let rt = get_runtime("TEST").unwrap();
        let tokens = Arc::new(Mutex::new(Vec::new()));
        // More than launches may have one memory at once.
        const COUNT: u64 = 200;
        let weights = FlashMemory::from(vec![3u64; 4]);
        let outstanding = (0..COUNT).map(|number| {
            let (tokens, a, b) = (tokens.clone(), zeroed(4), zeroed(4));
            let task = HostTask::new("later").read(a.clone()).write(b.clone()).read(weights.clone());
            let later = move |io: &mut flash_core::runtime::HostArgs<'_>| {
                let value = io.read::<u64>(0)?[3];
                tokens.lock().unwrap().push((value, io.later()));
                Ok(())
            };
            let before = rt.submit(Add::of(number, a.clone())).defer([4]).host(task, later);
            // The first one need not wait for the function.
            let all = before.submit(Add::of(1, a.clone())).defer([4]).submit(Add::of(7, b.clone()));
            (all.exec_async([4]), a, b)
        });
        let outstanding: Vec<_> = outstanding.collect();
        let start = Instant::now();
        while tokens.lock().unwrap().len() < COUNT as usize {
            assert!(start.elapsed() < SOON, "{} have begun", tokens.lock().unwrap().len());
            std::thread::yield_now();
        }
        assert!(outstanding.iter().all(|(handle, ..)| handle.try_wait().is_none()));
        let fails = |value: u64| value % 10 == 9;
        for (value, mut token) in std::mem::take(&mut *tokens.lock().unwrap()) {
            token.with(|io| io.write::<u64>(0).map(|_| ())).unwrap_err();
            token.with(|io| io.write::<u64>(1).map(|b| b.fill(value))).unwrap();
            assert_eq!(token.with(|io| Ok(io.read::<u64>(2)?[3])).unwrap(), 3);
            token.complete(match fails(value) {
                true => Err(flash::Error::Shape("too late".into())),
                false => Ok(()),
            });
        }
        for (number, (handle, a, b)) in (0..).zip(&outstanding) {
            let outcome = handle.wait();
            assert_eq!(*a.read().unwrap(), [number + 1; 4]);
            if fails(number) {
                let error = outcome.unwrap_err();
                assert!(error.to_string().contains("too late"), "{error}");
                assert!(b.read().is_err());
            } else {
                outcome.unwrap();
                assert_eq!(*b.read().unwrap(), [number + 7; 4]);
            }
        }
    });
}

#[test]
fn functions_that_block_have_eight_threads_which_end_when_idle() {
    in_process(&[], || {
        let rt = cpu();
        rt.submit(Add::of(1, zeroed(8))).exec_async([8]).wait().unwrap();
        let before = threads();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let one = |_| {
            let (now, most) = (now.clone(), most.clone());
            let task = HostTask::new("blocks").write(zeroed(1)).blocking();
            let blocks = move |_: &mut flash_core::runtime::HostArgs<'_>| {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(Duration::from_millis(100));
                now.fetch_sub(1, SeqCst);
                Ok(())
            };
            rt.pipeline().host(task, blocks).exec_async()
        };
        let handles: Vec<_> = (0..24).map(one).collect();
        // What does not block is not kept from running.
        assert_eq!(on_worker(|| 7), 7);
        while handles.iter().any(|handle| handle.try_wait().is_none()) {
            std::thread::yield_now();
        }
        assert_eq!(most.load(SeqCst), 8);
        let start = Instant::now();
        while threads() > before {
            assert!(start.elapsed() < SOON, "{} threads, {before} before", threads());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn nothing_is_begun_inside_of_a_job_of_rayons_that_waits() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || {
        let rt = cpu();
        on_worker(|| ());
        let ran_by = Arc::new(Mutex::new(None));
        let (note, begun) = (ran_by.clone(), AtomicUsize::new(0));
        // All threads of the pool are in jobs, which look for others while they wait.
        rayon::broadcast(|context| {
            begun.fetch_add(1, SeqCst);
            if context.index() == 0 {
                while begun.load(SeqCst) < 2 {
                    std::thread::yield_now();
                }
                let task = HostTask::new("note").write(zeroed(1));
                let note = note.clone();
                let pipeline = rt.pipeline().host(task, move |_| {
                    *note.lock().unwrap() = Some(name());
                    Ok(())
                });
                drop(pipeline.exec_async());
            }
            let start = Instant::now();
            while ran_by.lock().unwrap().is_none() {
                assert!(start.elapsed() < SOON, "nothing runs it");
                rayon::yield_now();
            }
        });
        assert_eq!(ran_by.lock().unwrap().as_deref(), Some("flash-blocking"));
    });
}

#[test]
fn the_number_of_threads_does_not_grow_with_devices() {
    let sixteen = [("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_DEVICES", "16"), ("FLASH_CPU_COPY", "1")];
    in_process(&sixteen, || {
        let (rt, a) = (cpu(), zeroed(1 << 16));
        assert_eq!(rt.devices().len(), 16);
        for _ in 0..5 {
            rt.submit(Add::of(1, &a)).options(part_by("i")).exec([1 << 16]).unwrap();
            // Each part goes to the device that is free first.
            rt.submit(Add::of(1, &a)).options((part_by("i"), Subspaces(64))).exec([1 << 16]).unwrap();
        }
        let handles: Vec<_> = (0..64).map(|_| rt.submit(Add::of(1, zeroed(8))).exec_async([8])).collect();
        handles.iter().for_each(|handle| handle.wait().unwrap());
        assert_eq!(*a.read().unwrap(), [10; 1 << 16]);
        // This thread, the harness's, two workers; and at most eight that waited for others.
        assert!(threads() <= 12, "{} threads", threads());
    });
}

#[test]
fn launches_whose_parts_go_to_the_next_free_device_run_on_all_workers_at_once() {
    let two = [("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_COPY", "1")];
    in_process(&two, || {
        let rt = cpu();
        on_worker(|| ());
        // All workers are in launches that wait for helpers, which are workers.
        let sums: Vec<u64> = (0..8)
            .into_par_iter()
            .map(|_| {
                let a = zeroed(1 << 12);
                rt.submit(Add::of(1, &a)).options((part_by("i"), Subspaces(32))).exec([1 << 12]).unwrap();
                a.read().unwrap().iter().sum()
            })
            .collect();
        assert_eq!(sums, [1 << 12; 8]);
    });
}

#[test]
fn an_idle_second_costs_no_more_than_five_milliseconds() {
    in_process(&[], || {
        let (rt, a) = (cpu(), zeroed(1 << 16));
        for _ in 0..100 {
            rt.submit(Add::of(1, &a)).exec([1 << 16]).unwrap();
            rt.submit(Add::of(1, a.clone())).exec_async([1 << 16]).wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        let before = processor_time();
        std::thread::sleep(Duration::from_secs(1));
        let used = processor_time() - before;
        assert!(used <= 5000, "{used} us");
    });
}

fn this_thread() -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::thread::current().id().hash(&mut hasher);
    hasher.finish()
}

/// Notes the threads that run it.
#[derive(KernelDefinition)]
#[kernel(name = "workers.who", dims(i))]
struct Who<'a> {
    of: Item<'a, Write<u64>>,
}

struct Noted;

#[kernel]
impl CpuItem<Who<'_>> for Noted {
    fn item(_: Index<1>, k: WhoItem<'_>) {
        std::thread::sleep(Duration::from_micros(200));
        k.of.set(this_thread());
    }
}

#[flash_tests::test]
fn a_launch_on_its_caller_has_no_help() {
    let rt = flash_tests::runtime_of_functions();
    let of = FlashMemory::<u64>::zeroed(64);
    for alone in [rt.options(OnCaller), rt.options(Priority(1)).options(OnCaller)] {
        of.write().unwrap().fill(0);
        alone.submit(Who::of(&of)).exec([64]).unwrap();
        let threads = of.read().unwrap().to_vec();
        match flash_tests::key().as_str() == "ALL_CPU" && rt.devices().len() == 1 {
            true => assert_eq!(threads, vec![this_thread(); 64]),
            false => assert!(threads.iter().all(|thread| *thread != 0)),
        }
        rt.submit(Who::of(&of)).options(OnCaller).exec([64]).unwrap();
    }
}
