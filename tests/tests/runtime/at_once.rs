//! Devices that work at the same time, though one thread launches and waits.

use flash::kernel;
use flash::kernel::views::{Item, Read, Whole, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{get_runtime, weights};
use flash_tests::in_process;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Items that do nothing but say that they have run. If `meets`, the first of each device waits for that of
/// the other, and says whether it has come.
#[derive(KernelDefinition)]
#[kernel(name = "at_once.meet", dims(item))]
struct Meet<'a> {
    meets: u32,
    has: Item<'a, Write<u32>>,
}

struct Plain;

/// Items of each device.
const ITEMS: usize = 32;
/// How many first items have come.
static CAME: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

fn meet() -> bool {
    let mut came = CAME.lock().unwrap();
    *came += 1;
    CHANGED.notify_all();
    let limit = Duration::from_secs(10);
    !CHANGED.wait_timeout_while(came, limit, |came| !came.is_multiple_of(2)).unwrap().1.timed_out()
}

#[kernel]
impl CpuItem<Meet<'_>> for Plain {
    fn item(index: Index<1>, k: MeetItem<'_>) {
        let has = k.meets == 0 || !index[0].is_multiple_of(ITEMS) || meet();
        k.has.set(u32::from(has));
    }
}

#[flash_tests::test]
fn two_devices_work_at_the_same_time_however_short_their_parts_are() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let rt = get_runtime("TEST").unwrap().options(weights([1, 1]));
        let has = FlashMemory::zeroed(2 * ITEMS);
        let launch = |meets| rt.submit(Meet::of(meets, &has)).exec([2 * ITEMS]).unwrap();
        // Until the parts are known to be short.
        (0..100).for_each(|_| launch(0));
        for turn in 0..20 {
            launch(1);
            assert!(has.read().unwrap().iter().all(|has| *has == 1), "one after the other in turn {turn}");
            (0..10).for_each(|_| launch(0));
        }
    });
}

/// Elements in the other order: each device needs what the other one has written.
#[derive(KernelDefinition)]
#[kernel(name = "at_once.mirror", dims(item))]
struct Mirror<'a> {
    from: Whole<'a, Read<u32>>,
    to: Item<'a, Write<u32>>,
}

#[kernel]
impl CpuItem<Mirror<'_>> for Plain {
    fn item(index: Index<1>, k: MirrorItem<'_>) {
        k.to.set(k.from[k.from.len() - 1 - index[0]]);
    }
}

/// As [`Meet`], after what both devices have written; takes long.
#[derive(KernelDefinition)]
#[kernel(name = "at_once.meet_after", dims(item))]
struct MeetAfter<'a> {
    before: Whole<'a, Read<u32>>,
    has: Item<'a, Write<u32>>,
}

#[kernel]
impl CpuItem<MeetAfter<'_>> for Plain {
    fn item(index: Index<1>, k: MeetAfterItem<'_>) {
        let is_first = index[0].is_multiple_of(ITEMS);
        let has = !is_first || meet();
        if is_first {
            std::thread::sleep(Duration::from_millis(1));
        }
        k.has.set(u32::from(has) + k.before[index[0]]);
    }
}

/// The caller computes for a moment, which the other device waits for, and has something long to compute
/// next.
#[flash_tests::test]
fn a_device_goes_on_while_its_caller_computes_whatever_it_waited_for() {
    in_process(&[("FLASH_TEST", "devices=1"), ("FLASH_CPU_DEVICES", "1")], || {
        let rt = get_runtime("ALL_CPU,TEST").unwrap().options(weights([1, 1]));
        assert_eq!(rt.devices().len(), 2);
        for turn in 0..20 {
            let [even, odd] = [0; 2].map(|_| FlashMemory::<u32>::zeroed(2 * ITEMS));
            let mut steps = rt.pipeline();
            for _ in 0..5 {
                steps = steps.submit(MeetAfter::of(&even, &odd)).defer([2 * ITEMS]);
                steps = steps.submit(Mirror::of(&odd, &even)).defer([2 * ITEMS]);
            }
            steps.exec().unwrap();
            assert!(even.read().unwrap().iter().all(|has| *has == 5), "one after the other in turn {turn}");
        }
    });
}
