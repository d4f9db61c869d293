//! Devices that work at the same time, though one thread launches and waits.

use flash::kernel;
use flash::kernel::views::{Item, Write};
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
