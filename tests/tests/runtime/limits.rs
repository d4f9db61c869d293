//! Options of a runtime for priorities on a device, and for the memory that arrays take.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Holds its device until it may go on.
#[derive(KernelDefinition)]
#[kernel(name = "limits.hold", dims(i))]
struct Hold<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// Says when it ran.
#[derive(KernelDefinition)]
#[kernel(name = "limits.turn", dims(i))]
struct Turn<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "limits.add", dims(i))]
struct Add<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// Holds a thread until it is among those that may go on.
#[derive(KernelDefinition)]
#[kernel(name = "limits.occupy", dims(i))]
struct Occupy<'a> {
    number: usize,
    to: Item<'a, ReadWrite<u32>>,
}

struct Plain;

static OCCUPIED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicBool = AtomicBool::new(false);
static MAY_GO_ON: AtomicBool = AtomicBool::new(false);
static TURNS: AtomicU32 = AtomicU32::new(1);

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[kernel]
impl CpuItem<Hold<'_>> for Plain {
    fn item(_: Index<1>, _: HoldItem<'_>) {
        HELD.store(true, SeqCst);
        until(|| MAY_GO_ON.load(SeqCst));
    }
}

#[kernel]
impl CpuItem<Occupy<'_>> for Plain {
    fn item(_: Index<1>, k: OccupyItem<'_>) {
        OCCUPIED.fetch_add(1, SeqCst);
        until(|| FREED.load(SeqCst) > k.number);
        *k.to += 1;
    }
}

#[kernel]
impl CpuItem<Turn<'_>> for Plain {
    fn item(_: Index<1>, k: TurnItem<'_>) {
        *k.to = TURNS.fetch_add(1, SeqCst);
    }
}

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += 1;
    }
}

/// One device with a memory of its own.
const COPYING: [(&str, &str); 2] = [("FLASH_CPU_COPY", "1"), ("FLASH_CPU_THREADS", "1")];

#[test]
fn pipelines_of_a_higher_priority_go_first_where_they_wait_for_one_device() {
    flash_tests::in_process(&COPYING, || {
        let rt = get_runtime("ALL_CPU").unwrap();
        // A copy of a part of an array is not made at once: it has its place in the device's lanes, and so
        // has the kernel that waits for it.
        let holder = FlashMemory::<u32>::zeroed(2);
        // Two submissions each, so that the order inside a pipeline can be seen, too.
        let memories: Vec<_> = (0..8).map(|_| FlashMemory::<u32>::zeroed(1)).collect();
        let start = |rt: flash::RuntimeObj, pair: &[FlashMemory<u32>]| {
            let pair = pair.to_vec();
            let first = move || {
                rt.submit(Turn::of(&pair[0])).defer([1usize]).submit(Turn::of(&pair[1])).exec([1usize])
            };
            std::thread::spawn(first)
        };
        let held = rt.clone();
        let held = std::thread::spawn(move || held.submit(Hold::of(&holder)).exec([1usize]));
        until(|| HELD.load(SeqCst));
        let mut pipelines = Vec::new();
        for (i, priority) in [0, -1, 7, 0].into_iter().enumerate() {
            pipelines.push(start(rt.options(Priority(priority)), &memories[2 * i..]));
            // Each is in the lane before the next: which came first must be known.
            std::thread::sleep(Duration::from_millis(250));
        }
        assert!(pipelines.iter().all(|pipeline| !pipeline.is_finished()), "the device is held");
        MAY_GO_ON.store(true, SeqCst);
        held.join().unwrap().unwrap();
        pipelines.into_iter().for_each(|pipeline| pipeline.join().unwrap().unwrap());
        let turns: Vec<u32> = memories.iter().map(|memory| memory.get(0).unwrap()).collect();
        assert_eq!(turns, [3, 4, 7, 8, 1, 2, 5, 6], "7 first, then the two of 0 as they came, then -1");
    });
}

#[test]
fn a_memory_budget_holds_for_the_runtimes_devices_and_what_does_not_fit_is_written_back() {
    const LEN: usize = 1 << 12;
    flash_tests::in_process(&COPYING, || {
        let plain = get_runtime("ALL_CPU").unwrap();
        let device = plain.devices()[0];
        // Two of four arrays.
        let budget = 2 * 4 * LEN as u64;
        let rt = plain.options((MemoryBudget(budget), Priority(1)));
        assert_eq!(device.memory_budget(), Some(budget));
        let memories: Vec<_> = (0..4).map(|_| FlashMemory::<u32>::zeroed(LEN)).collect();
        for _ in 0..3 {
            memories.iter().for_each(|memory| rt.submit(Add::of(memory)).exec([LEN]).unwrap());
        }
        assert!(device.transfers().from_device.bytes >= 8 * 4 * LEN as u64, "{:?}", device.transfers());
        for memory in &memories {
            assert!(memory.read().unwrap().iter().all(|&element| element == 3));
        }
        // What cannot fit says so, and the last one given holds: other options do not bring it back.
        let small = plain.options(MemoryBudget(256));
        let whole = small.submit(Add::of(&memories[0])).options(Subspaces(1));
        let error = whole.exec([LEN]).unwrap_err().to_string();
        assert!(error.contains("256"), "{error}");
        let other = rt.options(Priority(2));
        assert_eq!(device.memory_budget(), Some(256));
        let large = other.options(MemoryBudget(u64::MAX));
        assert_eq!(device.memory_budget(), Some(u64::MAX));
        memories[0].write().unwrap().fill(7);
        large.submit(Add::of(&memories[0])).exec([LEN]).unwrap();
        assert_eq!(memories[0].get(LEN - 1).unwrap(), 8);
    });
}

#[test]
fn pipelines_of_a_higher_priority_go_first_where_they_wait_for_a_thread() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        let threads = flash_core::workers::count();
        let occupy = |number| rt.submit(Occupy::of(number, FlashMemory::zeroed(1))).exec_async([1usize]);
        let occupied: Vec<_> = (0..threads).map(occupy).collect();
        until(|| OCCUPIED.load(SeqCst) == threads);
        let priorities = [0, 0, 3, -1, 3, 9];
        let memories = priorities.map(|_| FlashMemory::<u32>::zeroed(1));
        let start = |(priority, memory): (i32, &FlashMemory<u32>)| {
            rt.options(Priority(priority)).submit(Turn::of(memory.clone())).exec_async([1usize])
        };
        let waiting: Vec<_> = priorities.into_iter().zip(&memories).map(start).collect();
        // One worker has all of them, in its order. (A thread that waited for one of them would run that
        // one.)
        FREED.store(1, SeqCst);
        until(|| waiting.iter().all(|handle| matches!(handle.try_wait(), Some(Ok(())))));
        assert_eq!(memories.map(|memory| memory.get(0).unwrap()), [4, 5, 2, 6, 3, 1]);
        FREED.store(threads, SeqCst);
        occupied.iter().for_each(|handle| handle.wait().unwrap());
    });
}
