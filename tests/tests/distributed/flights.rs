//! More devices than threads that may wait for them: all of them work at once.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash_tests::in_process;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[derive(KernelDefinition)]
#[kernel(name = "flights.meet", dims(i), part_by(i))]
struct Meet<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

struct Plain;

/// Items for each device.
const EACH: u64 = 512;
const ALL: u64 = 16 * EACH;

/// Parts that run now, and the most that ever did.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[kernel]
impl CpuItem<Meet<'_>> for Plain {
    fn item(at: Index<1>, k: MeetItem<'_>) {
        if at[0].is_multiple_of(EACH as usize) {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            NOW.fetch_sub(1, SeqCst);
        }
        *k.of += 1;
    }
}

/// Sixteen devices, for which one thread may wait beside the caller.
const SIXTEEN: &[(&str, &str)] =
    &[("FLASH_TEST_KEY", "TEST"), ("FLASH_TEST", "devices=16"), ("FLASH_BLOCKING_THREADS", "1")];

#[test]
fn sixteen_devices_work_at_once_though_few_threads_may_wait() {
    in_process(SIXTEEN, || {
        let rt = flash_tests::runtime();
        let of: FlashMemory<u64> = (0..ALL).collect();
        for round in 1..=4 {
            rt.submit(Meet::of(&of)).options(weights([1; 16])).exec([ALL]).unwrap();
            assert_eq!(*of.read().unwrap(), (round..ALL + round).collect::<Vec<u64>>()[..]);
        }
        let most = MOST.load(SeqCst);
        assert!(most > 8, "{most} of 16 devices worked at once");
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        let waiting = names.filter(|name| name.trim() == "flash-device").count();
        assert!(waiting <= 1, "{waiting} threads for devices");
    });
}

#[test]
fn a_device_that_fails_on_its_own_is_the_failure_of_its_launch() {
    let setup = "devices=16 fail=5:launch:2 fail=9:copy:3";
    let variables = [SIXTEEN[0], ("FLASH_TEST", setup), SIXTEEN[2]];
    in_process(&variables, || {
        let rt = flash_tests::runtime();
        let of: FlashMemory<u64> = (0..ALL).collect();
        let mut failures = 0;
        for _ in 0..6 {
            let failed = rt.submit(Meet::of(&of)).options(weights([1; 16])).exec([ALL]).is_err();
            failures += u32::from(failed);
            if failed {
                of.write().unwrap().fill(0);
            }
        }
        assert!((1..=2).contains(&failures), "{failures} launches failed");
        of.write().unwrap().fill(1);
        rt.submit(Meet::of(&of)).exec([ALL]).unwrap();
        assert_eq!(*of.read().unwrap(), [2; ALL as usize]);
    });
}
