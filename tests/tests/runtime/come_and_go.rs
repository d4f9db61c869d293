//! Devices that come and go while pipelines run, and devices that make no progress by themselves.

use crate::gate::{closed_with, open};
use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_core::Code;
use flash_tests::in_process;
use std::time::Duration;

/// Adds one.
#[derive(KernelDefinition)]
#[kernel(name = "come_and_go.one", dims(i))]
struct One<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<One<'_>> for Plain {
    fn item(_: Index<1>, k: OneItem<'_>) {
        *k.of += 1;
    }
}

const LEN: usize = 1000;

fn devices(rt: &RuntimeObj) -> Vec<&str> {
    rt.devices().iter().map(|device| device.id()).collect()
}

fn is_lost(error: &Error) -> bool {
    matches!(
        error.cause(),
        Error::Backend { code: Code::DeviceLost, .. } | Error::Skipped { .. } | Error::Poisoned
    )
}

/// Two threads run pipelines on whatever devices there are, with a new runtime for each; a third keeps the
/// first one. Each memory's elements are all the number of its launches that have succeeded since it was
/// filled.
#[test]
fn pipelines_go_on_while_devices_come_and_go() {
    in_process(
        &[("FLASH_TEST", "devices=4 come=1:40 go=1:60 come=2:150 go=0:200 come=3:400 lose=2:300")],
        || {
            let first = get_runtime("TEST").unwrap();
            assert_eq!(devices(&first), ["TEST:0"]);
            let work = |keeps: bool| {
                let (memory, mut expected) = (FlashMemory::<u64>::zeroed(LEN), 0);
                let mut losses = 0;
                for round in 0..400 {
                    let rt = if keeps { first.clone() } else { get_runtime("TEST").unwrap() };
                    let pipeline = rt.submit(One::of(memory.clone())).defer([LEN]);
                    let outcome = if round % 3 == 0 { pipeline.exec() } else { pipeline.exec_async().wait() };
                    match outcome.and_then(|()| memory.to_vec()) {
                        Ok(found) => {
                            expected += 1;
                            assert!(
                                found.iter().all(|of| *of == expected),
                                "{expected}: {:?}",
                                found.first()
                            );
                        }
                        Err(error) => {
                            assert!(is_lost(&error), "{error}");
                            memory.write().unwrap().fill(0);
                            (expected, losses) = (0, losses + 1);
                        }
                    }
                }
                losses
            };
            std::thread::scope(|scope| {
                let threads = [false, false, true].map(|keeps| scope.spawn(move || work(keeps)));
                let losses = threads.map(|thread| thread.join().unwrap());
                // What keeps a device that has gone fails each time, the others when a device goes.
                assert!(losses[2] > 50 && losses[0] < 300, "{losses:?}");
            });
            let last = get_runtime("TEST").unwrap();
            assert_eq!(devices(&last).last(), Some(&"TEST:3"));
            assert!(!devices(&last).contains(&"TEST:0") && !devices(&last).contains(&"TEST:1"), "{last:?}");
            let error = get_runtime("TEST:1").unwrap_err().to_string();
            assert!(error.contains("`TEST:1`, it has gone"), "{error}");
        },
    );
}

/// As many of them as there are workers: a function of the host runs meanwhile.
#[test]
fn a_device_that_answers_when_it_is_done_keeps_no_worker() {
    in_process(&[("FLASH_TEST", "devices=2 space=0 queue=caller"), ("FLASH_CPU_THREADS", "2")], || {
        let memories = [(); 2].map(|()| FlashMemory::<u64>::zeroed(1));
        let devices = ["TEST:0", "TEST:1"].map(|key| get_runtime(key).unwrap());
        let gates = [0, 1].map(|at| closed_with(&devices[at], memories[at].clone()));
        let (send, receive) = std::sync::mpsc::channel();
        let function = get_runtime("ALL_CPU").unwrap().pipeline().host(HostTask::new("runs"), move |_| {
            send.send(()).unwrap();
            Ok(())
        });
        let function = function.exec_async();
        receive.recv_timeout(Duration::from_secs(20)).expect("a worker runs it");
        assert!(gates.iter().all(|gate| gate.try_wait().is_none()));
        open();
        gates.iter().chain([&function]).for_each(|handle| handle.wait().unwrap());
        memories.iter().for_each(|memory| assert_eq!(memory.get(0).unwrap(), 1));
    });
}

/// Launches and copies of such a device end only while a thread waits for them, or asks.
#[test]
fn a_device_without_progress_of_its_own_ends_what_it_was_given() {
    in_process(&[("FLASH_TEST", "devices=2 queue=waiter,thread")], || {
        for key in ["TEST:0", "TEST:0,TEST:1"] {
            let rt = get_runtime(key).unwrap();
            let memories: Vec<_> = (0..20).map(|_| FlashMemory::<u64>::zeroed(LEN)).collect();
            let start = |memory: &FlashMemory<u64>| rt.submit(One::of(memory.clone())).exec_async([LEN]);
            let handles: Vec<_> = (0..10).flat_map(|_| memories.iter().map(start)).collect();
            memories[0].write().unwrap().iter_mut().for_each(|of| *of += 1);
            handles.iter().for_each(|handle| handle.wait().unwrap());
            memories.iter().for_each(|memory| rt.submit(One::of(memory)).exec([LEN]).unwrap());
            for (i, memory) in memories.iter().enumerate() {
                let expected = 11 + u64::from(i == 0);
                assert!(memory.read().unwrap().iter().all(|of| *of == expected), "{key}, {i}");
            }
        }
    });
}
