//! Waits between pipelines: which there are, and how long they last.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::descriptor::{MemoryBudget, part_by};
use flash_tests::{APART, in_process};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

const SHARING: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "3"), ("FLASH_CPU_THREADS", "3")];
const COPYING: &[(&str, &str)] = APART[3];

/// to = from + 1.
#[derive(KernelDefinition)]
#[kernel(name = "waiting.next", dims(i))]
struct Next<'a> {
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// Each step takes its time.
#[derive(KernelDefinition)]
#[kernel(name = "waiting.steps", dims(i, step), group_by(step))]
struct Steps<'a> {
    milliseconds: u64,
    #[along(i)]
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Next<'_>> for Plain {
    fn item(_: Index<1>, k: NextItem<'_>) {
        k.to.set(*k.from + 1);
    }
}

#[kernel]
impl CpuItem<Steps<'_>> for Plain {
    fn item(ix: Index<2>, k: StepsItem<'_>) {
        if ix[0] == 0 {
            std::thread::sleep(Duration::from_millis(k.milliseconds));
        }
        *k.to += 1;
    }
}

fn all() -> RuntimeObj {
    flash_tests::runtime()
}

/// What a closure gives, unless it takes so long that something must be waiting for ever.
fn soon<R: Send + 'static>(what: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(what()));
    told.recv_timeout(Duration::from_secs(10)).ok()
}

/// A host task at the end of a pipeline that runs now, and goes on until it is let go.
fn gate(pipeline: Pipeline<'static>, task: HostTask<'static>) -> (Handle, Arc<Barrier>) {
    let barrier = Arc::new(Barrier::new(2));
    let (within, (tell, told)) = (barrier.clone(), mpsc::channel());
    let handle = pipeline.host(task.blocking(), move |_| {
        tell.send(()).unwrap();
        within.wait();
        Ok(())
    });
    let handle = handle.exec_async();
    told.recv().unwrap();
    (handle, barrier)
}

/// The most memory that the process has had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Memories of this length are 320 KB each: two are beyond half of [`SMALL`].
const LARGE: usize = 40_000;
const SMALL: MemoryBudget = MemoryBudget(1 << 20);

#[flash_tests::test]
fn launches_that_fit_a_device_one_at_a_time_wait_for_each_other() {
    in_process(APART[1], || {
        let rt = all().options(SMALL);
        let run = |thread: u64| {
            let mut pair = [vec![thread; LARGE], vec![0; LARGE]].map(FlashMemory::from);
            let mut handles = Vec::new();
            for round in 0..60 {
                let [from, to] = pair.clone();
                match round % 3 {
                    0 => rt.submit(Next::of(from, to)).exec([LARGE]).unwrap(),
                    _ => handles.push(rt.submit(Next::of(from, to)).exec_async([LARGE])),
                }
                pair.reverse();
            }
            handles.iter().for_each(|handle| handle.wait().unwrap());
            let [last, _] = pair;
            assert!(last.read().unwrap().iter().all(|&value| value == thread + 60));
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || run(thread))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    });
}

#[flash_tests::test]
fn what_a_blocked_run_has_on_a_device_is_not_waited_for() {
    in_process(APART[1], || {
        let rt = all().options(SMALL);
        let [a, b, c, d] = std::array::from_fn(|_| FlashMemory::<u64>::zeroed(LARGE));
        let pipeline = rt.submit(Next::of(a.clone(), b.clone())).defer([LARGE]);
        let (handle, barrier) = gate(pipeline, HostTask::new("wait").read(a.clone()));
        let error = rt.submit(Next::of(&c, &d)).exec([LARGE]).unwrap_err().to_string();
        assert!(error.contains("bytes more are needed"), "{error}");
        barrier.wait();
        handle.wait().unwrap();
        rt.submit(Next::of(&c, &d)).exec([LARGE]).unwrap();
        // A guard reads what the host has: the device's copy may go.
        let guard = d.read().unwrap();
        rt.submit(Next::of(&a, &b)).exec([LARGE]).unwrap();
        assert_eq!(*guard, [1; LARGE]);
        assert_eq!(*b.read().unwrap(), [1; LARGE]);
    });
}

#[flash_tests::test]
fn who_tries_again_while_a_guard_is_alive_leaves_nothing_behind() {
    in_process(&[], || {
        let (from, to) = (FlashMemory::from(vec![1u64; 4]), FlashMemory::from(vec![0u64; 4]));
        let (handle, barrier) = gate(all().pipeline(), HostTask::new("reads").read(from.clone()));
        let guard = from.read().unwrap();
        // A place in the order for each of them would be tens of MiB.
        let before = peak();
        for _ in 0..200_000 {
            let outcome = all().submit(Next::of(&to, &from)).exec([4]);
            assert!(matches!(outcome, Err(Error::Borrowed { .. })), "{outcome:?}");
        }
        let more = peak() - before;
        assert!(more < 16 << 10, "{more} KiB more");
        drop(guard);
        let next = all().submit(Next::of(to.clone(), from.clone())).exec_async([4]);
        barrier.wait();
        handle.wait().unwrap();
        next.wait().unwrap();
        assert_eq!(*from.read().unwrap(), [1; 4]);
    });
}

#[flash_tests::test]
fn more_subspaces_than_there_can_be_cost_no_memory() {
    in_process(SHARING, || {
        let (start, before) = (Instant::now(), peak());
        let memory = FlashMemory::from(vec![1u64; 50]);
        // A number for each of them would be 128 MiB, and seconds to look at.
        let options = (Subspaces(1 << 24), part_by("i"));
        all().submit(Steps::of(0, &memory)).options(options).exec((50, 1)).unwrap();
        assert_eq!(*memory.read().unwrap(), [2; 50]);
        let more = peak() - before;
        assert!(more < 32 << 10, "{more} KiB more");
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    });
}

#[flash_tests::test]
fn a_timeout_is_of_the_submission_whatever_number_of_devices_runs_it() {
    let check = || {
        let (rt, memory) = (all(), FlashMemory::from(vec![0u64; 64]));
        let limit = Timeout(Duration::from_millis(100));
        // Ten steps of 30 ms: each of them is in time, all together are not.
        let options = (limit, part_by("i"));
        let outcome = rt.submit(Steps::of(30, &memory)).options(options).exec((64, 10));
        let error = outcome.expect_err("300 ms are more than 100");
        let Error::Launch(launch) = &error else { panic!("{error:?}") };
        assert!(matches!(launch.cause(), Error::Timeout { .. }), "{error}");
    };
    in_process(&[("FLASH_CPU_THREADS", "1")], check);
    in_process(SHARING, check);
    in_process(COPYING, check);
}

#[flash_tests::test]
fn a_reader_waits_for_no_pipeline_that_only_reads() {
    for variables in [SHARING, COPYING] {
        in_process(variables, || {
            let (rt, a, b) = (all(), FlashMemory::from(vec![1u64; 64]), FlashMemory::<u64>::zeroed(64));
            // It has read `a` on a device, and goes on for long.
            let first = rt.submit(Next::of(a.clone(), b.clone())).defer([64]);
            let (handle, barrier) = gate(first, HostTask::new("long").read_write(b));
            let seen = soon({
                let a = a.clone();
                move || a.get(0).unwrap()
            });
            let launched = soon({
                let (rt, a) = (rt.clone(), a.clone());
                move || rt.submit(Next::of(&a, FlashMemory::zeroed(64))).exec([64])
            });
            barrier.wait();
            handle.wait().unwrap();
            assert_eq!(seen, Some(1), "a guard that reads");
            assert!(matches!(launched, Some(Ok(()))), "a launch that reads");
        });
    }
}
