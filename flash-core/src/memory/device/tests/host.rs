//! The budget of the host's memory.

use super::*;
use crate::memory::host_budget as budget;
use crate::memory::{host_budget, set_host_budget};

/// Bytes of an array that counts.
const BYTES: u64 = 8 << 20;
const LEN: usize = (BYTES / 4) as usize;

/// Ends the budget when dropped.
struct Unlimited;

impl Drop for Unlimited {
    fn drop(&mut self) {
        set_host_budget(u64::MAX);
    }
}

/// Four arrays, in vectors or reserved, that the host and a device have. Each is filled with its number.
fn arrays(device: &'static DeviceMemory, reserved: bool) -> Vec<FlashMemory<u32>> {
    let array = |k: u32| {
        let memory = if reserved { FlashMemory::zeroed(LEN) } else { FlashMemory::from(vec![0; LEN]) };
        memory.write().unwrap().fill(k);
        let grid = memory.header().grid();
        read_on(&memory, device, &Region::all(&grid)).unwrap();
        memory
    };
    (0..4).map(array).collect()
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take minutes")]
fn beyond_the_budget_the_longest_unused_host_blocks_go_that_devices_have_too() {
    for reserved in [true, false] {
        let (_alone, _budget, devices) = (lock(), Unlimited, devices());
        let arrays = arrays(devices[0], reserved);
        let on_host = |k: usize| {
            let directory = arrays[k].header().directory();
            directory.elements_at(Place::HOST, &Region::all(directory.grid()))
        };
        let whole = LEN as u64;
        assert_eq!([0, 1, 2, 3].map(on_host), [whole; 4]);
        let resident = |k: usize| arrays[k].header().committed();
        assert!([0, 1, 2, 3].map(resident).iter().all(|bytes| (BYTES..BYTES + 8192).contains(bytes)));
        // 1 is the host's alone, 2 is being read.
        arrays[1].write().unwrap()[0] = 100;
        let reading = arrays[2].read().unwrap();
        // The longest unused goes first, and no more than necessary.
        arrays[0].header().commit(0..1).unwrap();
        assert!(budget::give_back(1) >= BYTES - 8192);
        assert_eq!([0, 1, 2, 3].map(on_host), [whole, whole, whole, 0]);
        // Other tests have arrays, too: no exact budget would do here.
        set_host_budget(0);
        let more = FlashMemory::<u32>::zeroed(LEN);
        more.write().unwrap()[0] = 1;
        assert_eq!([0, 1, 2, 3].map(on_host), [0, whole, whole, 0]);
        assert!(resident(0) <= 8192 && resident(3) <= 8192 && resident(2) >= BYTES);
        assert!(reading.iter().all(|&element| element == 2));
        drop(reading);
        assert_eq!(host_budget(), 0);
        // What was given back comes again, whole or in part, and another goes for it.
        assert_eq!(arrays[3].get(LEN / 2).unwrap(), 3);
        let seen = arrays[0].read().unwrap();
        assert!(seen.iter().all(|&element| element == 0));
        drop(seen);
        assert_eq!(arrays[1].get(0).unwrap(), 100);
        for (k, memory) in arrays.iter().enumerate().skip(2) {
            assert!(memory.read().unwrap().iter().all(|&element| element == k as u32), "{k}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take minutes")]
fn an_array_larger_than_the_budget_is_read_piece_by_piece() {
    let (_alone, _budget, devices) = (lock(), Unlimited, devices());
    let memory = FlashMemory::<u32>::zeroed(4 * LEN);
    let grid = memory.header().grid();
    for (k, device) in devices[..2].iter().enumerate() {
        let begin = (k * 2 * LEN) as u64;
        write_on(&memory, device, &Region::of_range(&grid, begin..begin + 2 * LEN as u64), 1 + k as u32);
    }
    set_host_budget(0);
    let mut sum = 0u64;
    for begin in (0..4 * LEN).step_by(1 << 18) {
        let piece = memory.read_range(begin..begin + (1 << 18)).unwrap();
        sum += piece.iter().map(|&element| u64::from(element)).sum::<u64>();
        assert!(memory.header().committed() <= 4 << 20, "{} bytes", memory.header().committed());
    }
    assert_eq!(sum, 2 * LEN as u64 * 3);
}
