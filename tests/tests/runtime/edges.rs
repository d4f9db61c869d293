//! What lies at the edges: numbers that are none, functions of the user that call back, parts that have
//! nothing to do, very many of something.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Reduce, Scatter, Sum, Window, Write};
use flash::kernel::{Boxes, Candidate, CpuItem, Index, partition_map};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::part_by;
use flash_core::runtime::HostArgs;
use flash_tests::{APART, id, in_process, key};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

const SHARING: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "3"), ("FLASH_CPU_THREADS", "3")];
const COPYING: &[(&str, &str)] = APART[3];

/// to = 3 to + value.
#[derive(KernelDefinition)]
#[kernel(name = "edges.grow", dims(i))]
struct Grow<'a> {
    value: u64,
    to: Item<'a, ReadWrite<u64>>,
}

/// to = from + 1; fails at an item.
#[derive(KernelDefinition)]
#[kernel(name = "edges.next", dims(i))]
struct Next<'a> {
    fails_at: usize,
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// Adds what it finds in a window to marks.
#[derive(KernelDefinition)]
#[kernel(name = "edges.mark", dims(i))]
struct Mark<'a> {
    near: Window<'a, Read<u64>>,
    marks: Scatter<'a, u64>,
}

#[derive(KernelDefinition)]
#[kernel(name = "edges.total", dims(i), part_by(i))]
struct Total<'a> {
    values: Item<'a, Read<u64>>,
    total: Reduce<'a, Write<u64>, Sum>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Grow<'_>> for Plain {
    fn item(_: Index<1>, k: GrowItem<'_>) {
        *k.to = k.to.wrapping_mul(3).wrapping_add(k.value);
    }
}

#[kernel(devices)]
impl CpuItem<Next<'_>> for Plain {
    fn item(i: Index<1>, k: NextItem<'_>) {
        assert!(i[0] != k.fails_at, "as it was asked to");
        k.to.set(*k.from + 1);
    }
}

#[kernel(devices)]
impl CpuItem<Mark<'_>> for Plain {
    fn item(i: Index<1>, k: MarkItem<'_>) {
        k.marks.add(i[0], 1 + if i[0] < k.near.len() { k.near.get(i[0]) } else { 0 });
    }
}

#[kernel(devices)]
impl CpuItem<Total<'_>> for Plain {
    fn item(_: Index<1>, mut k: TotalItem<'_>) {
        k.total.put(*k.values);
    }
}

const NEVER: usize = usize::MAX;

fn all() -> RuntimeObj {
    flash_tests::runtime()
}

/// What a closure gives, unless it takes so long that something must be waiting for ever.
fn soon<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(what()));
    told.recv_timeout(Duration::from_secs(10)).ok()
}

/// A host task that says that it runs, and waits until it is let go.
fn gate(task: HostTask<'static>, rt: &RuntimeObj) -> (Handle, Arc<Barrier>) {
    let barrier = Arc::new(Barrier::new(2));
    let (within, (tell, told)) = (barrier.clone(), mpsc::channel());
    let handle = rt.pipeline().host(task.blocking(), move |_| {
        tell.send(()).unwrap();
        within.wait();
        Ok(())
    });
    let handle = handle.exec_async();
    told.recv().unwrap();
    (handle, barrier)
}

#[flash_tests::test]
fn shares_that_are_none_are_refused_and_extreme_ones_are_shares() {
    in_process(COPYING, || {
        let (rt, memory) = (all(), FlashMemory::from(vec![1u64; 100]));
        let launch = |shares: &[f64]| {
            let shares = weights(shares.iter().copied());
            rt.submit(Grow::of(0, &memory)).options(shares).exec([100])
        };
        for bad in [&[1.0][..], &[1.0; 4], &[], &[1.0, f64::NAN, 1.0], &[1.0, -1.0, 1.0], &[0.0; 3]] {
            let error = launch(bad).unwrap_err();
            assert!(
                matches!(&error, Error::Option { option, .. } if option == "Weights"),
                "{bad:?}: {error}"
            );
        }
        assert!(launch(&[1.0, f64::INFINITY, 1.0]).is_err());
        assert_eq!(memory.get(0).unwrap(), 1, "nothing ran");
        let extreme: [[f64; 3]; 5] = [
            [0.0, 0.0, 1.0],
            [1e-300, 0.0, 1e300],
            [f64::MIN_POSITIVE; 3],
            [f64::MAX; 3],
            [5e-324, 5e-324, 0.0],
        ];
        for (round, shares) in extreme.iter().enumerate() {
            launch(shares).unwrap();
            assert!(memory.read().unwrap().iter().all(|v| *v == 3u64.pow(round as u32 + 1)), "{shares:?}");
        }
    });
}

#[flash_tests::test]
fn a_device_with_no_share_does_nothing() {
    in_process(SHARING, || {
        let (rt, memory, profile) = (all(), FlashMemory::from(vec![1u64; 100]), Profile::new());
        let shares = weights([f64::MAX, f64::MAX, 0.0]);
        rt.submit(Grow::of(0, &memory)).options((shares, &profile)).exec([100]).unwrap();
        let devices: Vec<String> = profile.take().into_iter().map(|part| part.device).collect();
        assert!(!devices.iter().any(|device| *device == id(2)), "{devices:?}");
    });
}

#[flash_tests::test]
fn any_number_of_subspaces_runs_every_item_once() {
    in_process(COPYING, || {
        let (rt, values) = (all(), (0..50u64).collect::<FlashMemory<u64>>());
        for parts in [1, 2, 3, 4, 49, 50, 51, 1000, 1 << 20] {
            let memory = FlashMemory::from(vec![1u64; 50]);
            let options = (Subspaces(parts), part_by("i"));
            rt.submit(Grow::of(7, &memory)).options(options).exec([50]).unwrap();
            assert_eq!(*memory.read().unwrap(), [10; 50], "{parts} parts");
            let total = FlashMemory::from([77u64]);
            rt.submit(Total::of(&values, &total)).options(Subspaces(parts)).exec([50]).unwrap();
            assert_eq!(total.get(0).unwrap(), 49 * 25);
            // Nothing at all.
            rt.submit(Grow::of(7, &memory)).options((Subspaces(parts), part_by("i"))).exec([0]).unwrap();
            rt.submit(Total::of(&values, &total)).options(Subspaces(parts)).exec([0]).unwrap();
            assert_eq!((memory.get(0).unwrap(), total.get(0).unwrap()), (10, 0));
        }
    });
}

#[flash_tests::test]
fn empty_arrays_go_through_devices() {
    in_process(COPYING, || {
        let (rt, nothing, to) = (all(), FlashMemory::<u64>::zeroed(0), FlashMemory::<u64>::zeroed(0));
        rt.submit(Next::of(NEVER, &nothing, &to)).options(part_by("i")).exec([0]).unwrap();
        let marks = FlashMemory::<u64>::zeroed(10);
        rt.submit(Mark::of(&nothing, &marks)).exec([10]).unwrap();
        assert_eq!(*marks.read().unwrap(), [1; 10]);
        assert!(nothing.read().unwrap().is_empty() && to.write().unwrap().is_empty());
        rt.submit(Next::of(NEVER, &nothing, &to)).exec([1]).unwrap_err();
        let part = marks.range(4..4).unwrap();
        rt.submit(Grow::of(1, part)).options(part_by("i")).exec([0]).unwrap();
    });
}

#[flash_tests::test]
fn no_time_is_too_little_and_all_the_time_is_enough() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let (rt, memory) = (all(), FlashMemory::from(vec![1u64; 8]));
            let grow = |limit| rt.submit(Grow::of(0, &memory)).options(Timeout(limit)).exec([8]);
            let error = grow(Duration::ZERO).unwrap_err();
            let Error::Launch(launch) = &error else { panic!("{error:?}") };
            assert!(matches!(launch.cause(), Error::Timeout { .. }), "{error}");
            memory.write().unwrap().fill(1);
            grow(Duration::MAX).unwrap();
            assert_eq!(memory.get(7).unwrap(), 3);
            let later =
                rt.submit(Grow::of(0, memory.clone())).options(Timeout(Duration::ZERO)).exec_async([8]);
            later.wait().unwrap_err();
        });
    }
}

#[flash_tests::test]
fn a_budget_of_nothing_is_an_error_with_the_sizes_and_not_for_ever() {
    in_process(COPYING, || {
        let (plain, memory) = (all(), FlashMemory::from(vec![1u64; 1000]));
        for bytes in [0, 1, 255] {
            let rt = plain.options(MemoryBudget(bytes));
            for options in [Subspaces(1), Subspaces(100)] {
                let error = rt.submit(Grow::of(0, &memory)).options((options, part_by("i"))).exec([1000]);
                let error = error.unwrap_err();
                let Error::Launch(launch) = &error else { panic!("{error:?}") };
                assert!(matches!(launch.cause(), Error::DeviceMemory(_)), "{error}");
                assert!(error.to_string().contains(&format!("{bytes}")), "{error}");
                memory.write().unwrap().fill(1);
            }
            // What needs nothing runs.
            rt.submit(Grow::of(0, &memory)).exec([0]).unwrap();
        }
        plain.options(MemoryBudget(u64::MAX)).submit(Grow::of(0, &memory)).exec([1000]).unwrap();
        assert_eq!(memory.get(999).unwrap(), 3);
    });
}

partition_map! {
    /// Nothing of either for the first half, what is asked for of the second.
    static EMPTY = "edges.empty": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        boxes.set("near", 0..0);
        boxes.set("marks", i);
    };
}
partition_map! {
    static UNKNOWN = "edges.unknown": |_: &Candidate<'_>, boxes: &mut Boxes| {
        boxes.set("nobody", 0..1);
    };
}
partition_map! {
    static TURNED = "edges.turned": |_: &Candidate<'_>, boxes: &mut Boxes| {
        #[allow(clippy::reversed_empty_ranges)]
        boxes.set("marks", 7..3);
    };
}
partition_map! {
    static DEEP = "edges.deep": |at: &Candidate<'_>, boxes: &mut Boxes| {
        boxes.set("marks", [at.values("i"), 0..1, 0..1, 0..1]);
    };
}
partition_map! {
    static THROWS = "edges.throws": |_: &Candidate<'_>, _: &mut Boxes| std::panic::panic_any(7);
}
partition_map! {
    static SILENT = "edges.silent": |_: &Candidate<'_>, _: &mut Boxes| {};
}

#[flash_tests::test]
fn maps_that_say_nothing_or_nonsense() {
    in_process(COPYING, || {
        let (rt, near, marks) = (all(), FlashMemory::from(vec![5u64; 90]), FlashMemory::<u64>::zeroed(90));
        let mark = |map| rt.submit(Mark::of(&near, &marks)).options(part_by("i").by(map)).exec([90]);
        for map in [&UNKNOWN, &TURNED, &DEEP, &THROWS, &SILENT] {
            let error = mark(map).expect_err(map.name());
            assert!(matches!(error, Error::Partition { .. }), "{error:?}");
        }
        assert_eq!(*marks.read().unwrap(), [0; 90], "nothing ran");
        // It looks at elements that its map does not give it: that is an error of the launch.
        assert!(matches!(mark(&EMPTY), Err(Error::Launch(_))));
        marks.write().unwrap().fill(0);
        let none = FlashMemory::<u64>::zeroed(0);
        rt.submit(Mark::of(&none, &marks)).options(part_by("i").by(&EMPTY)).exec([90]).unwrap();
        assert_eq!(*marks.read().unwrap(), [1; 90]);
    });
}

/// What a map reaches, past its candidate.
static BEHIND: OnceLock<(RuntimeObj, FlashMemory<u64>)> = OnceLock::new();

partition_map! {
    static CURIOUS = "edges.curious": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let (rt, marks) = BEHIND.get().expect("set by the test");
        assert!(matches!(marks.read(), Err(Error::Nested)), "a guard");
        assert!(matches!(rt.submit(Grow::of(1, marks)).exec([90]), Err(Error::Nested)), "a launch");
        boxes.set("marks", at.values("i"));
    };
}

#[flash_tests::test]
fn a_map_that_launches_or_takes_a_guard_gets_nested() {
    in_process(SHARING, || {
        let outcome = soon(|| {
            let (near, marks) = (FlashMemory::from(vec![5u64; 90]), FlashMemory::<u64>::zeroed(90));
            let _ = BEHIND.set((all(), marks.clone()));
            let outcome = all().submit(Mark::of(&near, &marks)).options(part_by("i").by(&CURIOUS)).exec([90]);
            outcome.map(|()| marks.get(0).unwrap())
        });
        assert_eq!(outcome.expect("it waits for itself").unwrap(), 6);
    });
}

#[flash_tests::test]
fn host_tasks_that_panic_with_anything_fail_and_no_thread_is_lost() {
    let (rt, a) = (all(), FlashMemory::<u64>::zeroed(8));
    for round in 0..100 {
        let task = HostTask::new("throws").write(a.clone());
        let throws = move |_: &mut HostArgs<'_>| -> Result<(), Error> { std::panic::panic_any(round) };
        let handle = rt.pipeline().host(task, throws).exec_async();
        assert!(matches!(handle.wait(), Err(Error::Launch(_))));
    }
    a.write().unwrap().fill(1);
    rt.submit(Grow::of(0, a.clone())).exec_async([8]).wait().unwrap();
    assert_eq!(a.get(0).unwrap(), 3);
}

#[flash_tests::test]
fn inside_a_host_task_nothing_waits() {
    let (rt, a, other) = (all(), FlashMemory::<u64>::zeroed(8), FlashMemory::<u64>::zeroed(8));
    let task = HostTask::new("inside").read_write(a.clone());
    let inside = rt.clone();
    let within = move |_: &mut HostArgs<'_>| {
        let rt = &inside;
        assert!(matches!(other.read(), Err(Error::Nested)));
        assert!(matches!(other.write(), Err(Error::Nested)));
        assert!(matches!(rt.pipeline().exec(), Err(Error::Nested)));
        let handle = rt.submit(Grow::of(1, other.clone())).exec_async([8]);
        assert!(matches!(handle.wait(), Err(Error::Nested)));
        // Making things is no launch.
        let fresh = FlashMemory::from([1u64]);
        drop(get_runtime(&key())?.options(InFlight(1)));
        drop(rt.submit(Grow::of(1, &fresh)).defer([1]));
        Ok(())
    };
    let pipeline = rt.pipeline().host(task, within);
    pipeline.exec().unwrap();
    pipeline.exec_async().wait().unwrap();
}

#[flash_tests::test]
fn a_thousand_pipelines_in_flight_whose_handles_memories_and_runtime_are_gone_run_in_order() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let (a, log) = (FlashMemory::from(vec![0u64; 64]), Arc::new(Mutex::new(Vec::new())));
            let (handle, barrier) = gate(HostTask::new("gate").read_write(a.clone()), &all());
            let rt = all();
            for round in 0..1000u64 {
                let log = log.clone();
                let task = HostTask::new("note").read(a.clone());
                let pipeline = rt.submit(Grow::of(round, a.clone())).options(part_by("i")).defer([64]).host(
                    task,
                    move |io| {
                        log.lock().unwrap().push(io.read::<u64>(0)?[63]);
                        Ok(())
                    },
                );
                drop(pipeline.exec_async());
            }
            drop((a, rt));
            assert!(log.lock().unwrap().is_empty());
            barrier.wait();
            handle.wait().unwrap();
            let start = Instant::now();
            while log.lock().unwrap().len() < 1000 {
                assert!(start.elapsed() < Duration::from_secs(30), "{} ran", log.lock().unwrap().len());
                std::thread::yield_now();
            }
            let next = |value: &mut u64, round| {
                *value = value.wrapping_mul(3).wrapping_add(round);
                Some(*value)
            };
            assert_eq!(*log.lock().unwrap(), (0..1000).scan(0, next).collect::<Vec<u64>>());
        });
    }
}

#[flash_tests::test]
fn what_one_part_fails_to_write_fails_all_of_its_submission_and_nothing_else() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let [from, to, last] = std::array::from_fn(|_| FlashMemory::from(vec![1u64; 96]));
            let beside = FlashMemory::<u64>::zeroed(96);
            let rt = all().options(part_by("i"));
            let error = rt
                .submit(Next::of(95, &from, &to))
                .defer([96])
                .submit(Next::of(NEVER, &to, &last))
                .defer([96])
                .submit(Next::of(NEVER, &from, &beside))
                .exec([96])
                .unwrap_err();
            let Error::Launch(launch) = &error else { panic!("{error:?}") };
            assert_eq!(
                (launch.position(), launch.device(), launch.others().len()),
                (0, &*id(2), 1),
                "{error}"
            );
            assert!(matches!(launch.others()[0].cause(), Error::Skipped { .. }));
            for poisoned in [&to, &last] {
                // The items that ran do not help.
                assert!(matches!(poisoned.get(0), Err(Error::Poisoned)));
            }
            assert_eq!(*beside.read().unwrap(), [2; 96]);
        });
    }
}

#[flash_tests::test]
fn a_condition_on_devices_that_panics_is_the_callers() {
    let rt = all();
    let memory = FlashMemory::from(vec![1u64; 8]);
    let no_idea = || devices_where(|_| panic!("no idea"));
    let of_a_runtime = || drop(rt.options(no_idea()));
    assert!(catch_unwind(AssertUnwindSafe(of_a_runtime)).is_err());
    let of_a_submission = || rt.submit(Grow::of(0, &memory)).options(no_idea()).exec([8]);
    assert!(!matches!(catch_unwind(AssertUnwindSafe(of_a_submission)), Ok(Ok(()))));
    rt.submit(Grow::of(0, &memory)).exec([8]).unwrap();
    assert_eq!(memory.get(0).unwrap(), 3);
}

#[flash_tests::test]
fn a_host_task_cannot_be_written_down_and_says_so() {
    let (rt, a) = (all(), FlashMemory::<u64>::zeroed(8));
    let first = rt.submit(Grow::of(0, &a)).defer([8]);
    let pipeline = first.host(HostTask::new("look").read(&a), |_| Ok(()));
    let error = pipeline.recording(flash::recording::Data::With).unwrap_err();
    assert!(matches!(error, Error::Recording(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("submission 1 (`look`)") && text.contains("a host task"), "{text}");
    pipeline.exec().unwrap();
}
