//! Asynchronous pipelines that are left to a device, which works without the host: no thread waits for them.

use crate::gate::{closed, open};
use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_tests::in_process;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Adds a value; 0 is a panic.
#[derive(KernelDefinition)]
#[kernel(name = "left.add", dims(i))]
struct Add<'a> {
    value: u64,
    of: Item<'a, ReadWrite<u64>>,
}

/// Adds the elements of another array.
#[derive(KernelDefinition)]
#[kernel(name = "left.sum", dims(i))]
struct Sum<'a> {
    other: Item<'a, Read<u64>>,
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        assert!(k.value > 0, "no zeros");
        *k.of += k.value;
    }
}

#[kernel]
impl CpuItem<Sum<'_>> for Plain {
    fn item(_: Index<1>, k: SumItem<'_>) {
        *k.of += *k.other;
    }
}

const SOON: Duration = Duration::from_secs(20);

fn device() -> RuntimeObj {
    get_runtime("TEST:0").unwrap()
}

/// Adds 1, 2 and 3.
fn three(rt: &RuntimeObj, to: &FlashMemory<u64>) -> Handle {
    let add =
        |pipeline: Pipeline<'static>, value| pipeline.submit(Add::of(value, to.clone())).defer([to.len()]);
    add(add(add(rt.pipeline(), 1), 2), 3).exec_async()
}

/// Waits until none of the eight extra threads is kept by a pipeline: as many functions that block meet.
fn all_extra_threads_are_free() {
    let met = Arc::new((Mutex::new(0), Condvar::new()));
    let meets = |_| {
        let here = met.clone();
        let task = HostTask::new("meets").blocking();
        let pipeline = get_runtime("ALL_CPU").unwrap().pipeline().host(task, move |_| {
            *here.0.lock().unwrap() += 1;
            here.1.notify_all();
            drop(here.1.wait_while(here.0.lock().unwrap(), |count| *count < 8).unwrap());
            Ok(())
        });
        pipeline.exec_async()
    };
    let functions: Vec<_> = (0..8).map(meets).collect();
    let (count, _) = met.1.wait_timeout_while(met.0.lock().unwrap(), SOON, |count| *count < 8).unwrap();
    assert_eq!(*count, 8, "pipelines on a device keep the other extra threads");
    drop(count);
    functions.iter().for_each(|function| function.wait().unwrap());
}

/// OS threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_thousand_pipelines_on_a_device_hold_no_thread() {
    in_process(&[], || {
        let rt = device();
        let gate = closed(&rt);
        let before = threads();
        let memories: Vec<_> = (0..1000).map(|_| FlashMemory::<u64>::zeroed(8)).collect();
        let handles: Vec<_> = memories.iter().map(|to| three(&rt, to)).collect();
        all_extra_threads_are_free();
        // Those that have put them into the device's queue end when they are idle.
        let start = Instant::now();
        while threads() > before {
            assert!(start.elapsed() < SOON, "{} threads, {before} before", threads());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(gate.try_wait().is_none() && handles.iter().all(|handle| handle.try_wait().is_none()));
        open();
        for (handle, to) in handles.iter().zip(&memories) {
            handle.wait().unwrap();
            assert_eq!(*to.read().unwrap(), [6; 8]);
        }
        gate.wait().unwrap();
    });
}

/// Also more of them than a memory's word counts as running.
#[test]
fn pipelines_that_read_one_memory_are_on_a_device_at_the_same_time() {
    in_process(&[], || {
        let rt = device();
        let (shared, gate) = (FlashMemory::from([7u64; 8]), closed(&rt));
        let memories: Vec<_> = (0..300).map(|_| FlashMemory::<u64>::zeroed(8)).collect();
        let sum = |to: &FlashMemory<u64>| rt.submit(Sum::of(shared.clone(), to.clone())).exec_async([8]);
        let handles: Vec<_> = memories[..100].iter().map(sum).collect();
        all_extra_threads_are_free();
        let more: Vec<_> = memories[100..].iter().map(sum).collect();
        open();
        handles.iter().chain(&more).for_each(|handle| handle.wait().unwrap());
        memories.iter().for_each(|to| assert_eq!(*to.read().unwrap(), [7; 8]));
        gate.wait().unwrap();
        // Nothing counts as a user any more.
        shared.write().unwrap().fill(1);
        sum(&memories[0]).wait().unwrap();
        assert_eq!(*memories[0].read().unwrap(), [8; 8]);
    });
}

#[test]
fn what_comes_after_a_pipeline_on_a_device_sees_what_it_wrote() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let (rt, other) = (device(), get_runtime("TEST:1").unwrap());
        let (a, b) = (FlashMemory::<u64>::zeroed(8), FlashMemory::<u64>::zeroed(8));
        let gate = closed(&rt);
        // The handle is dropped, the pipeline is not.
        drop(three(&rt, &a));
        all_extra_threads_are_free();
        let after = other.submit(Sum::of(a.clone(), b.clone())).exec_async([8]);
        let last = other.submit(Add::of(1, b.clone())).defer([8]).after(&after.event()).exec_async();
        assert!(after.try_wait().is_none() && last.try_wait().is_none());
        open();
        last.wait().unwrap();
        assert_eq!((&*a.read().unwrap(), &*b.read().unwrap()), (&[6; 8][..], &[7; 8][..]));
        gate.wait().unwrap();
    });
}

/// The error of a pipeline of three submissions whose second panics, as text.
fn with_a_panic(rt: &RuntimeObj, to: &FlashMemory<u64>, is_async: bool) -> String {
    let add =
        |pipeline: Pipeline<'static>, value| pipeline.submit(Add::of(value, to.clone())).defer([to.len()]);
    let pipeline = add(add(add(rt.pipeline(), 1), 0), 3);
    match is_async {
        false => pipeline.exec().unwrap_err().to_string(),
        true => {
            let handle = pipeline.exec_async();
            all_extra_threads_are_free();
            assert!(handle.try_wait().is_none());
            open();
            handle.wait().unwrap_err().to_string()
        }
    }
}

#[test]
fn a_failure_on_the_device_is_that_of_exec_and_poisons_the_same() {
    in_process(&[], || {
        let (rt, [a, b]) = (device(), [(); 2].map(|()| FlashMemory::<u64>::zeroed(8)));
        let of_exec = with_a_panic(&rt, &a, false);
        assert!(of_exec.contains("no zeros") && of_exec.contains("left.add"), "{of_exec}");
        let gate = closed(&rt);
        assert_eq!(with_a_panic(&rt, &b, true), of_exec);
        for memory in [&a, &b] {
            assert!(matches!(memory.get(0), Err(Error::Poisoned)));
            memory.write().unwrap().fill(1);
            three(&rt, memory).wait().unwrap();
            assert_eq!(*memory.read().unwrap(), [7; 8]);
        }
        gate.wait().unwrap();
    });
}

#[test]
fn a_device_that_is_lost_fails_what_was_left_to_it() {
    // The gate's launch is the last that it ends.
    in_process(&[("FLASH_TEST", "lose=0:8")], || {
        let rt = device();
        let gate = closed(&rt);
        let memories: Vec<_> = (0..40).map(|_| FlashMemory::<u64>::zeroed(8)).collect();
        let handles: Vec<_> = memories.iter().map(|to| three(&rt, to)).collect();
        all_extra_threads_are_free();
        open();
        let outcomes: Vec<_> = handles.iter().map(Handle::wait).collect();
        let is_lost = |error: &Error| error.to_string().contains("lost");
        assert!(outcomes.iter().flat_map(|outcome| outcome.as_ref().err()).all(is_lost), "{outcomes:?}");
        assert!(outcomes.last().unwrap().is_err(), "{outcomes:?}");
        let _ = gate.wait();
        // The host goes on.
        let c = FlashMemory::<u64>::zeroed(8);
        three(&get_runtime("ALL_CPU").unwrap(), &c).wait().unwrap();
        assert_eq!(*c.read().unwrap(), [6; 8]);
    });
}

/// Such a device does not stop what has begun.
#[test]
fn a_cancelled_pipeline_on_a_device_ends_there_and_what_comes_after_does_not_begin() {
    in_process(&[], || {
        let (rt, [a, b]) = (device(), [(); 2].map(|()| FlashMemory::<u64>::zeroed(8)));
        let gate = closed(&rt);
        let handle = three(&rt, &a);
        all_extra_threads_are_free();
        let after = rt.submit(Sum::of(a.clone(), b.clone())).exec_async([8]);
        handle.cancel();
        after.cancel();
        assert!(handle.try_wait().is_none() && after.try_wait().is_none());
        open();
        match handle.wait() {
            Ok(()) => assert_eq!(*a.read().unwrap(), [6; 8]),
            Err(error) => {
                assert!(matches!(error.cause(), Error::Cancelled), "{error}");
                assert!(matches!(a.get(0), Err(Error::Poisoned)));
            }
        }
        assert!(matches!(after.wait().unwrap_err().cause(), Error::Cancelled));
        assert!(matches!(b.get(0), Err(Error::Poisoned)));
        gate.wait().unwrap();
    });
}

#[test]
fn a_launch_that_needs_the_room_of_a_pipeline_on_the_device_waits_for_it() {
    const LEN: usize = 5 << 10;
    in_process(&[("FLASH_TEST", "memory=64K")], || {
        let rt = device();
        let [a, b] = [(); 2].map(|()| FlashMemory::<u64>::zeroed(LEN));
        let gate = closed(&rt);
        let handle = three(&rt, &a);
        all_extra_threads_are_free();
        let needs_room = std::thread::spawn({
            let (rt, b) = (rt.clone(), b.clone());
            move || rt.submit(Add::of(1, &b)).exec([LEN])
        });
        // As many as there are extra threads wait for the room, too.
        let others: Vec<_> = (0..10)
            .map(|_| rt.submit(Add::of(1, FlashMemory::<u64>::zeroed(LEN))).exec_async([LEN]))
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        assert!(handle.try_wait().is_none() && !needs_room.is_finished());
        open();
        handle.wait().unwrap();
        needs_room.join().unwrap().unwrap();
        others.iter().for_each(|other| other.wait().unwrap());
        assert_eq!((a.get(LEN - 1).unwrap(), b.get(LEN - 1).unwrap()), (6, 1));
        gate.wait().unwrap();
    });
}
