//! Copies and kernels of one launch: a device whose queues wait by themselves gets one before the other is
//! over.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_tests::in_process;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Doubles the elements.
#[derive(KernelDefinition)]
#[kernel(name = "in_queue.twice", dims(i))]
struct Twice<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

/// Adds the elements of another array, once the device has as many copies as are asked for.
#[derive(KernelDefinition)]
#[kernel(name = "in_queue.add", dims(i))]
struct Add<'a> {
    copies: u64,
    other: Item<'a, Read<u64>>,
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Twice<'_>> for Plain {
    fn item(_: Index<1>, k: TwiceItem<'_>) {
        RAN.store(true, SeqCst);
        *k.of *= 2;
    }
}

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(ix: Index<1>, k: AddItem<'_>) {
        if ix[0] == 0 && k.copies > 0 {
            assert!(comes("copies", k.copies), "the device has {} copies", asked("copies"));
        }
        RAN.store(true, SeqCst);
        *k.of += *k.other;
    }
}

static RAN: AtomicBool = AtomicBool::new(false);

/// The number of commands of a kind that the device has had.
fn asked(what: &str) -> u64 {
    let device = get_runtime("TEST:0").unwrap().devices()[0];
    device.query(what).unwrap().parse().unwrap()
}

/// Waits until there are so many.
fn comes(what: &str, count: u64) -> bool {
    let start = Instant::now();
    while asked(what) < count {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    true
}

fn device() -> RuntimeObj {
    get_runtime("TEST:0").unwrap()
}

#[test]
fn a_kernel_is_given_to_its_device_while_its_input_is_copied() {
    // 16,000 bytes take 0.4 s.
    in_process(&[("FLASH_TEST", "rate=40000")], || {
        let rt = device();
        let mut of = vec![3; 2000];
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| comes("launches", 1) && !RAN.load(SeqCst));
            rt.submit(Twice::of(&mut of[..])).exec([2000]).unwrap();
            assert!(watch.join().unwrap(), "the kernel was given when its input was there");
        });
        assert_eq!(of, [6; 2000]);
    });
}

#[test]
fn a_device_has_all_of_a_launch_before_the_first_copy_is_over() {
    // Each of the three copies takes a second.
    in_process(&[("FLASH_TEST", "rate=16000")], || {
        let rt = device();
        let (other, mut of) = (vec![1; 2000], vec![3; 2000]);
        let start = Instant::now();
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || {
                let is_given = comes("copies", 3) && comes("launches", 1) && !RAN.load(SeqCst);
                is_given.then(|| start.elapsed())
            });
            rt.submit(Add::of(0, &other[..], &mut of[..])).exec([2000]).unwrap();
            let given = watch.join().unwrap().expect("they were given one by one");
            // Before half of the first copy is over.
            assert!(6 * given < start.elapsed(), "given after {given:?} of {:?}", start.elapsed());
        });
        assert_eq!(of, [4; 2000]);
    });
}

#[test]
fn a_copy_of_what_a_kernel_makes_is_given_while_the_kernel_runs() {
    in_process(&[("FLASH_TEST", "")], || {
        let rt = device();
        let (other, mut of) = (vec![1; 100], vec![3; 100]);
        // Two copies to the device, and one back.
        rt.submit(Add::of(3, &other[..], &mut of[..])).exec([100]).unwrap();
        assert_eq!(of, [4; 100]);
    });
}

#[test]
fn nor_does_a_device_that_needs_the_host_get_more_than_it_can_run() {
    for queue in ["queue=waiter", "queue=caller"] {
        in_process(&[("FLASH_TEST", queue)], || {
            let rt = device();
            let (other, mut of) = (vec![1; 100], vec![3; 100]);
            rt.submit(Add::of(2, &other[..], &mut of[..])).exec([100]).unwrap();
            assert_eq!((of, asked("copies")), (vec![4; 100], 3));
        });
    }
}

/// Whatever goes wrong, the host hears of what went wrong first, and the next launch runs.
#[test]
fn what_was_given_after_something_that_failed_has_not_run() {
    const FAULTS: [(&str, &str); 5] = [
        ("fail=0:copy:1", "Copy"),
        ("fail=0:copy:2", "Copy"),
        ("fail=0:copy:3", "Copy"),
        ("fail=0:launch:1", "Launch"),
        ("lose=0:3", "is lost"),
    ];
    for (fault, expected) in FAULTS {
        for slow in ["", "rate=1e6 ns=1000"] {
            in_process(&[("FLASH_TEST", &format!("{fault} {slow}"))], || {
                let rt = device();
                let (other, mut of) = (vec![1; 100], vec![3; 100]);
                let add = |of: &mut [u64]| rt.submit(Add::of(0, &other[..], of)).exec([100]);
                let failed = add(&mut of).unwrap_err();
                assert!(failed.to_string().contains(expected), "{failed}");
                of.fill(3);
                match add(&mut of) {
                    Err(Error::Launch(_)) if expected == "is lost" => {}
                    outcome => {
                        outcome.unwrap();
                        assert_eq!(of, [4; 100]);
                    }
                }
            });
        }
    }
}

/// Memories that a launch should have written are poisoned if a copy before it failed, and not what it reads.
#[test]
fn memories_keep_what_did_not_fail() {
    in_process(&[("FLASH_TEST", "fail=0:copy:2 rate=1e6 ns=1000")], || {
        let rt = device();
        let (other, of) = (FlashMemory::from(vec![1u64; 100]), FlashMemory::from(vec![3u64; 100]));
        rt.submit(Add::of(0, &other, &of)).exec([100]).unwrap_err();
        assert_eq!(*other.read().unwrap(), [1; 100]);
        assert!(matches!(of.read(), Err(Error::Poisoned)));
        of.write().unwrap().fill(3);
        rt.submit(Add::of(0, &other, &of)).exec([100]).unwrap();
        assert_eq!(*of.read().unwrap(), [4; 100]);
    });
}

/// What only has to come after a launch that failed, and reads nothing of it, runs.
#[test]
fn the_failure_of_a_launch_is_none_of_what_only_comes_after_it() {
    in_process(&[("FLASH_TEST", "fail=0:launch:1 ns=100000 rate=1e6")], || {
        let rt = device();
        let [a, b, c] = [1u64, 2, 3].map(|value| FlashMemory::from(vec![value; 100]));
        let again = HostTask::new("again").write(&a);
        let failed = rt
            .submit(Add::of(0, &a, &b))
            .defer([100])
            .host(again, |io| {
                io.write::<u64>(0)?.fill(5);
                Ok(())
            })
            .submit(Add::of(0, &a, &c))
            .defer([100])
            .exec()
            .unwrap_err();
        assert!(failed.to_string().contains("Launch"), "{failed}");
        assert!(matches!(b.read(), Err(Error::Poisoned)));
        assert_eq!(*c.read().unwrap(), [8; 100]);
        assert_eq!(*a.read().unwrap(), [5; 100]);
    });
}
