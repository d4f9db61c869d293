//! Implementations that declare at which positions they can be cut.

use flash::kernel;
use flash::kernel::views::{Item, Read, Reduce, Sum, Write};
use flash::kernel::{CpuItem, CpuSpan, Index, Span};
use flash::prelude::*;
use flash_core::descriptor::{Implementation, part_by, weights};
use flash_tests::in_process;

const THREE: &[(&str, &str)] = &[("FLASH_CPU_DEVICES", "3"), ("FLASH_CPU_THREADS", "3")];

#[derive(KernelDefinition)]
#[kernel(name = "alignment.line", dims(i), part_by(i))]
struct Line<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "alignment.rows", dims(x, y), part_by(y))]
struct Rows<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "alignment.sum", dims(i), part_by(i))]
struct Total<'a> {
    values: Item<'a, Read<u64>>,
    sum: Reduce<'a, Write<u64>, Sum>,
}

struct Plain;
struct ByEights;

#[kernel(alignment = 24)]
impl CpuItem<Line<'_>> for Plain {
    fn item(_: Index<1>, k: LineItem<'_>) {
        k.to.set(1);
    }
}

#[kernel]
impl CpuItem<Rows<'_>> for Plain {
    fn item(_: Index<2>, k: RowsItem<'_>) {
        k.to.set(1);
    }
}

#[kernel(alignment = 8)]
impl CpuSpan<Rows<'_>> for ByEights {
    fn span(_: Span<2>, k: RowsSpan<'_>) {
        k.to.fill(1);
    }
}

#[kernel(alignment = 3)]
impl CpuItem<Total<'_>> for Plain {
    fn item(_: Index<1>, mut k: TotalItem<'_>) {
        k.sum.put(*k.values);
    }
}

/// Items of each part of the launches that were recorded, in the order of the devices.
fn parts(profile: &Profile) -> Vec<u64> {
    let mut parts: Vec<(String, u64)> = profile.take().into_iter().map(|l| (l.device, l.items)).collect();
    parts.sort();
    parts.into_iter().map(|(_, items)| items).collect()
}

#[test]
fn parts_are_whole_multiples_of_what_the_implementation_declares() {
    in_process(THREE, || {
        let (rt, profile) = (flash_tests::runtime(), Profile::new());
        // Along dimension 0 cuts fall on multiples of 16 anyway: so of 48 here.
        let to = FlashMemory::<u32>::zeroed(1000);
        rt.submit(Line::of(&to)).options((weights([1, 1, 1]), &profile)).exec([1000]).unwrap();
        assert_eq!(parts(&profile), [336, 336, 328]);
        assert!(to.read().unwrap().iter().all(|v| *v == 1));
        // With less than that there is nothing to cut.
        let to = FlashMemory::<u32>::zeroed(40);
        rt.submit(Line::of(&to)).options((weights([1, 1, 1]), &profile)).exec([40]).unwrap();
        assert_eq!(parts(&profile), [40]);
    });
}

#[test]
fn another_implementation_is_cut_elsewhere() {
    in_process(THREE, || {
        let (rt, profile) = (flash_tests::runtime(), Profile::new());
        let to = FlashMemory::<u32>::zeroed(400);
        let launch = |name| {
            let options = (
                part_by("y"),
                weights([1, 1]),
                Implementation::named(name),
                Devices::key("ALL_CPU:0,1"),
                &profile,
            );
            rt.submit(Rows::of(&to)).options(options).exec([4, 100]).unwrap();
            parts(&profile)
        };
        assert_eq!(launch("plain"), [4 * 50, 4 * 50]);
        assert_eq!(launch("by_eights"), [4 * 48, 4 * 52]);
    });
}

#[test]
fn blocks_of_a_reduction_stay_whole_too() {
    in_process(THREE, || {
        let (rt, profile, n) = (flash_tests::runtime(), Profile::new(), 1u64 << 20);
        let (values, sum) = (FlashMemory::from_iter(0..n), FlashMemory::<u64>::zeroed(1));
        rt.submit(Total::of(&values, &sum))
            .options((weights([1, 1, 1]), &profile))
            .exec([n as usize])
            .unwrap();
        assert_eq!(sum.get(0).unwrap(), n * (n - 1) / 2);
        let parts = parts(&profile);
        assert!(parts.len() == 3 && parts[..2].iter().all(|items| items % 3 == 0), "{parts:?}");
    });
}
