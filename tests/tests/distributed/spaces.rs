//! Devices with several memory spaces: all of them count as the device's memory.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::Subspaces;
use flash_tests::{Random, in_process};

/// to += from
#[derive(KernelDefinition)]
#[kernel(name = "spaces.add", dims(i))]
struct Add<'a> {
    from: Item<'a, Read<u64>>,
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to = k.to.wrapping_add(*k.from);
    }
}

/// Elements of an array that fills most of a space of 64 KiB.
const N: usize = 6 << 10;
const BYTES: u64 = 8 * N as u64;

/// The variables of a process with test devices as these settings say.
fn devices(settings: &str) -> [(&str, &str); 2] {
    [("FLASH_TEST_KEY", "TEST"), ("FLASH_TEST", settings)]
}

fn add(rt: &RuntimeObj, from: &FlashMemory<u64>, to: &FlashMemory<u64>) -> Result<(), Error> {
    rt.submit(Add::of(from, to)).exec([from.len()])
}

/// The bytes that went to a runtime's first device, and came back.
fn moved(rt: &RuntimeObj) -> [u64; 2] {
    let transfers = rt.devices()[0].transfers();
    [transfers.to_device.bytes, transfers.from_device.bytes]
}

#[test]
fn arrays_that_one_space_cannot_hold_stay_on_a_device_with_two() {
    in_process(&devices("space=1+2 memory=64K"), || {
        let rt = &flash_tests::runtime();
        let ids: Vec<u32> = rt.devices()[0].memory_spaces().iter().map(|space| space.id).collect();
        assert_eq!((ids, rt.devices()[0].memory_budget()), (vec![1, 2], Some(128 << 10)));
        let (from, to) = (FlashMemory::from(vec![3u64; N]), FlashMemory::from(vec![1u64; N]));
        (0..20).for_each(|_| add(rt, &from, &to).unwrap());
        assert_eq!(moved(rt), [2 * BYTES, 0], "nothing gave way");
        assert_eq!(*to.read().unwrap(), [61; N]);
        assert_eq!(moved(rt), [2 * BYTES, BYTES]);
    });
}

/// Any launches on more arrays than there is room for.
#[test]
fn arrays_give_way_to_each_other_in_all_spaces() {
    in_process(&devices("space=1+2 memory=64K"), || {
        let rt = &flash_tests::runtime();
        let mut random = Random(7);
        let arrays: Vec<_> = (0..5u64).map(|k| FlashMemory::from(vec![k; N / 2 + k as usize])).collect();
        let mut model: Vec<Vec<u64>> = arrays.iter().map(|array| array.read().unwrap().to_vec()).collect();
        for _ in 0..200 {
            let (from, to) = (random.below(5), random.below(5));
            if from == to {
                continue;
            }
            let count = arrays[from].len().min(arrays[to].len());
            rt.submit(Add::of(&arrays[from], &arrays[to])).exec([count]).unwrap();
            let source = model[from].clone();
            model[to].iter_mut().zip(source).for_each(|(to, from)| *to = to.wrapping_add(from));
        }
        for (array, expected) in arrays.iter().zip(&model) {
            assert_eq!(*array.read().unwrap(), expected[..]);
        }
        assert!(moved(rt)[1] > 5 * BYTES, "arrays gave way");
    });
}

#[test]
fn an_array_lies_in_one_piece_in_one_space() {
    in_process(&devices("space=1+2 memory=64K"), || {
        let rt = &flash_tests::runtime();
        let [from, to] = [1, 2].map(|k| FlashMemory::from(vec![k; 2 * N]));
        // Cut in parts, it would fit.
        let rt = &rt.options(Subspaces(1));
        let error = add(rt, &from, &to).unwrap_err().to_string();
        assert!(error.contains("none of its 2 memory spaces has room for 98304 bytes"), "{error}");
        let [from, to] = [1, 2].map(|k| FlashMemory::from(vec![k; N]));
        add(rt, &from, &to).unwrap();
        assert_eq!(*to.read().unwrap(), [3; N]);
    });
}

#[test]
fn a_further_space_is_one_devices() {
    in_process(&devices("devices=2 space=1+3,2+3 memory=64K"), || {
        let rt = &flash_tests::runtime();
        let budgets: Vec<_> =
            rt.devices().iter().map(|device| device.memory_budget().unwrap() >> 10).collect();
        assert_eq!(budgets.iter().sum::<u64>(), 128 + 64, "{budgets:?}");
        let [from, to] = [1, 2].map(|k| FlashMemory::from(vec![k; N]));
        (0..10).for_each(|_| add(rt, &from, &to).unwrap());
        assert_eq!(*to.read().unwrap(), [12; N]);
    });
}

#[test]
fn a_budget_holds_for_all_spaces_together() {
    in_process(&devices("space=1+2"), || {
        let rt = &flash_tests::runtime();
        assert!(rt.devices()[0].set_memory_budget(BYTES + BYTES / 2));
        let [from, to] = [1, 2].map(|k| FlashMemory::from(vec![k; N]));
        let error = add(&rt.options(Subspaces(1)), &from, &to).unwrap_err().to_string();
        assert!(error.contains("TEST:0"), "{error}");
    });
}
