//! Plans of a launch with options are found by the next launch with the same options.

use flash::kernel;
use flash::kernel::views::{Item, ReadWrite, Scatter};
use flash::kernel::{Boxes, Candidate, CpuItem, Index, partition_map};
use flash::prelude::*;
use flash_core::descriptor::{PartBy, Subspaces, Weights, part_by, sort_by, weights};
use flash_core::runtime::devices_where;
use flash_tests::in_process;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const TWO: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2")];

/// Number of calls of the map.
static ASKED: AtomicU64 = AtomicU64::new(0);

#[derive(KernelDefinition)]
#[kernel(name = "options_again.mark", dims(i))]
struct Mark<'a> {
    seen: Item<'a, ReadWrite<u32>>,
    marks: Scatter<'a, u32>,
}

struct Plain;

#[kernel]
impl CpuItem<Mark<'_>> for Plain {
    fn item(at: Index<1>, k: MarkItem<'_>) {
        *k.seen += 1;
        k.marks.add(at[0], 1);
    }
}

partition_map! {
    static COUNTS = "options_again.counts": |at: &Candidate<'_>, boxes: &mut Boxes| {
        ASKED.fetch_add(1, SeqCst);
        boxes.set("marks", at.values("i"));
    };
}

fn by() -> PartBy {
    part_by("i").by(&COUNTS)
}

/// Cut along y, where a launch allows that.
#[derive(KernelDefinition)]
#[kernel(name = "options_again.rows", dims(x, y), part_by(y))]
struct Rows<'a> {
    of: Item<'a, ReadWrite<u64>>,
}

#[kernel]
impl CpuItem<Rows<'_>> for Plain {
    fn item(_: Index<2>, k: RowsItem<'_>) {
        *k.of += 1;
    }
}

#[test]
fn a_cut_that_only_the_definition_asks_for_and_a_launch_does_not_allow_is_left_out() {
    in_process(TWO, || {
        let (rt, of) = (flash_tests::runtime(), FlashMemory::<u64>::zeroed([8, 8]));
        let sorted = || rt.submit(Rows::of(&of)).options(sort_by(["y"]));
        sorted().exec([8, 8]).unwrap();
        assert_eq!(*of.read().unwrap(), [1; 64]);
        let error = sorted().options(part_by("y")).exec([8, 8]).unwrap_err().to_string();
        assert!(error.contains("dimension `y` cannot be cut"), "{error}");
        let error = rt.submit(Rows::of(&of)).options(Subspaces(0)).exec([8, 8]).unwrap_err().to_string();
        assert!(error.contains("Subspaces") && error.contains("at least 1, found 0"), "{error}");
    });
}

#[test]
fn a_launch_with_the_same_options_is_planned_once() {
    in_process(TWO, || {
        let rt = flash_tests::runtime();
        let [seen, marks] = [(); 2].map(|()| FlashMemory::<u32>::zeroed(64));
        // The calls of the map for a launch.
        let asked = |rt: &RuntimeObj, options: (PartBy, Weights)| {
            let before = ASKED.load(SeqCst);
            rt.submit(Mark::of(&seen, &marks)).options(options).exec([64]).unwrap();
            ASKED.load(SeqCst) - before
        };
        let even = || (by(), weights([1, 1]));
        assert!(asked(&rt, even()) > 0);
        assert_eq!(asked(&rt, even()), 0, "the same options");
        assert!(asked(&rt, (by(), weights([3, 1]))) > 0, "others");
        assert_eq!(asked(&rt, even()), 0, "the first ones again");
        // A priority is no part of a plan, so runtimes that differ in it share plans.
        assert_eq!(asked(&rt.options(Priority(1)), even()), 0, "another runtime of the same devices");
        // A condition is not compared, only the devices that it leaves.
        let on = |name: &'static str| {
            let options = (by(), devices_where(move |device| device.id() == name));
            let (profile, submission) = (Profile::new(), rt.submit(Mark::of(&seen, &marks)));
            submission.options(options).options(&profile).exec([64]).unwrap();
            profile.take()[0].device.clone()
        };
        for device in ["ALL_CPU:0", "ALL_CPU:1", "ALL_CPU:0"] {
            assert_eq!(on(device), device);
        }
        assert!(seen.read().unwrap().iter().chain(&*marks.read().unwrap()).all(|count| *count == 8));
    });
}
