//! The setting `check_maps`: parts stay inside the boxes of their map, on one device, too.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Read, Window, Write};
use flash::kernel::{Boxes, Candidate, CpuItem, Index, partition_map};
use flash::prelude::*;
use flash_tests::in_process;

/// to[i] = from[i + reach]; the map is right if the reach is at most 1.
#[derive(KernelDefinition)]
#[kernel(name = "maps.reach", dims(i), part_by(i, map = NEXT))]
struct Reach<'a> {
    reach: usize,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

partition_map! {
    static NEXT = "maps.next": |at: &Candidate<'_>, boxes: &mut Boxes| {
        let i = at.values("i");
        boxes.set("from", i.start..(i.end + 1).min(at.shape("from")[0]));
    };
}

struct Plain;

#[kernel]
impl CpuItem<Reach<'_>> for Plain {
    fn item(ix: Index<1>, k: ReachItem<'_>) {
        let i = ix[Reach::I];
        k.to.set(k.from.get(if i + k.reach < N { i + k.reach } else { i }));
    }
}

const N: usize = 1000;

fn run(rt: &RuntimeObj, reach: usize) -> Result<u64, Error> {
    let (from, to) = ((0..N as u64).collect::<FlashMemory<u64>>(), FlashMemory::<u64>::zeroed(N));
    rt.submit(Reach::of(reach, &from, &to)).exec([N])?;
    let to = to.read()?;
    Ok(to.iter().sum())
}

const ALL: u64 = (N * (N - 1) / 2) as u64;

#[test]
fn a_part_that_reads_outside_its_box_is_an_error_on_one_device_too() {
    let checks = ("FLASH_CHECK_MAPS", "1");
    for environment in
        [&[checks][..], &[checks, ("FLASH_CPU_COPY", "1")], &[checks, ("FLASH_CPU_DEVICES", "2")]]
    {
        in_process(environment, || {
            let rt = get_runtime("ALL_CPU").unwrap();
            for _ in 0..3 {
                assert_eq!(run(&rt, 0).unwrap(), ALL);
                assert_eq!(run(&rt, 1).unwrap(), ALL + N as u64 - 1);
                let text = run(&rt, 2).unwrap_err().to_string();
                assert!(text.contains("`maps.reach`") && text.contains("is not in the part"), "{text}");
            }
        });
    }
}

#[test]
fn without_the_setting_one_device_runs_it_whole() {
    in_process(&[], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        assert_eq!(run(&rt, 2).unwrap(), ALL + 2 * (N as u64 - 2));
    });
}
