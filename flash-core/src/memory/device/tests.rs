//! Memories of devices that copy: against vectors, with failures, budgets and many threads.

mod apart;
mod host;

use super::*;
use crate::memory::region::Region;
use crate::memory::region::tests::blocks;
use crate::memory::{FlashMemory, Transfers};
pub(in crate::memory) use apart::lock;
use apart::{Fault, PINNED, fault};
use proptest::prelude::*;
use std::time::Duration;

/// The memories of the first `n` devices; the last one copies through the host only.
pub(in crate::memory) fn devices() -> Vec<&'static DeviceMemory> {
    let devices = crate::get_runtime("TEST_APART").unwrap().devices().to_vec();
    devices.into_iter().map(|d| d.memory().unwrap()).collect()
}

fn moved(devices: &[&DeviceMemory]) -> u64 {
    let bytes = |t: Transfers| t.to_device.bytes + t.from_device.bytes + t.between_devices.bytes;
    devices.iter().map(|d| bytes(d.transfers())).sum()
}

/// A launch that writes `value` to a box on a device, without reading it.
pub(in crate::memory) fn write_on(
    memory: &FlashMemory<u32>,
    device: &'static DeviceMemory,
    region: &Region,
    value: u32,
) {
    let header = memory.header();
    header.state.launch_write().unwrap();
    let mut directory = header.directory();
    let hull = region.hull(directory.grid());
    if let Some(grown) = device.reserve(header, &mut directory, hull).unwrap() {
        // SAFETY: held alone; what is current has room in both.
        unsafe { grown.transfer.run(&directory.current(device.place())).unwrap() };
    }
    let copy = directory.copy(device.place());
    for row in rows(directory.grid(), region) {
        // SAFETY: the device's buffer has room for the row, is memory of this process, and is held alone.
        unsafe { std::slice::from_raw_parts_mut(address(copy.unwrap(), &row), row.len()) }.fill(value);
    }
    directory.written(device.place(), region);
    drop(directory);
    header.release_written();
}

/// What a launch reads of a box on a device.
pub(in crate::memory) fn read_on(
    memory: &FlashMemory<u32>,
    device: &'static DeviceMemory,
    region: &Region,
) -> Result<Vec<u32>, Error> {
    let header = memory.header();
    header.state.launch_write().unwrap();
    let outcome = header.make_current(device, region);
    let directory = header.directory();
    let read = |row: Range<usize>| {
        let copy = directory.copy(device.place()).unwrap();
        // SAFETY: as in `write_on`.
        unsafe { std::slice::from_raw_parts(address(copy, &row), row.len()) }
    };
    let seen = outcome.map(|()| rows(directory.grid(), region).into_iter().flat_map(read).copied().collect());
    drop(directory);
    header.release_written();
    seen
}

/// The address of a row's first element in a device's copy.
fn address(copy: &DeviceCopy, row: &Range<usize>) -> *mut u32 {
    std::ptr::with_exposed_provenance_mut(
        copy.raw().handle as usize + 4 * (row.start - copy.range().start as usize),
    )
}

fn elements(grid: &crate::memory::region::Grid, region: &Region) -> Vec<usize> {
    rows(grid, region).into_iter().flatten().collect()
}

/// The elements of a region, by rows along dimension 0, which are consecutive.
fn rows(grid: &crate::memory::region::Grid, region: &Region) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for b in region.blocks().iter().filter(|b| b.begin[0] < b.end[0]) {
        for z in b.begin[2]..b.end[2] {
            for y in b.begin[1]..b.end[1] {
                let first = grid.flat([b.begin[0], y, z]) as usize;
                found.push(first..first + (b.end[0] - b.begin[0]) as usize);
            }
        }
    }
    found
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize, crate::memory::region::GridBox),
    Read(usize, crate::memory::region::GridBox),
    Host(u64, u64),
    HostWrite(u64),
    Evict(usize),
    /// The host's memory of what devices have, too, is given back.
    GiveBack,
    /// The n-th copy from now fails, if there is one before the next operation ends.
    Fault(u32),
}

fn ops(grid: crate::memory::region::Grid) -> impl Strategy<Value = Vec<Op>> {
    let n = grid.elements();
    let op = prop_oneof![
        4 => (0..3usize, blocks(grid)).prop_map(|(d, b)| Op::Write(d, b)),
        4 => (0..3usize, blocks(grid)).prop_map(|(d, b)| Op::Read(d, b)),
        3 => (0..=n, 0..=n).prop_map(|(a, b)| Op::Host(a.min(b), a.max(b))),
        1 => (0..n).prop_map(Op::HostWrite),
        2 => (0..3usize).prop_map(Op::Evict),
        2 => Just(Op::GiveBack),
        2 => (0..3u32).prop_map(Op::Fault),
    ];
    proptest::collection::vec(op, 0..30)
}

/// An array, element by element: what it is, and at which places, one bit each, the host's first.
struct Model {
    values: Vec<u32>,
    current: Vec<u8>,
}

const HOST: u8 = 1;
/// Those that copy to each other directly.
const DIRECT: u8 = 0b110;

impl Model {
    fn at(device: usize) -> u8 {
        2 << device
    }

    /// A place reads elements. Returns the bytes that have to move: those that it lacks, twice where they go
    /// through the host.
    fn read(&mut self, place: u8, elements: impl IntoIterator<Item = usize>) -> u64 {
        let mut bytes = 0;
        for i in elements {
            let has = self.current[i];
            let direct = place == HOST || has & HOST != 0 || (place & DIRECT != 0 && has & DIRECT != 0);
            bytes += match has & place {
                0 if direct => 4,
                0 => 8,
                _ => 0,
            };
            self.current[i] |= place;
        }
        bytes
    }

    fn write(&mut self, place: u8, elements: impl IntoIterator<Item = usize>, value: u32) {
        for i in elements {
            (self.values[i], self.current[i]) = (value, place);
        }
    }

    /// What the place alone has goes to the host; what it has is gone.
    fn evict(&mut self, place: u8) -> u64 {
        let only: Vec<usize> = (0..self.current.len()).filter(|i| self.current[*i] == place).collect();
        let bytes = self.read(HOST, only);
        self.current.iter_mut().for_each(|current| *current &= !place);
        bytes
    }

    /// The host drops what others have, too.
    fn give_back(&mut self) {
        self.current.iter_mut().filter(|current| **current != HOST).for_each(|current| *current &= !HOST);
    }

    /// What a memory says of the places.
    fn of_directory(memory: &FlashMemory<u32>, devices: &[&DeviceMemory]) -> Vec<u8> {
        let header = memory.header();
        header.state.launch_write().unwrap();
        let mut current = vec![0; header.len()];
        let directory = header.directory();
        let places = devices.iter().enumerate().map(|(d, device)| (Model::at(d), device.place()));
        for (bit, place) in places.chain([(HOST, Place::HOST)]) {
            elements(directory.grid(), &directory.current(place)).into_iter().for_each(|i| current[i] |= bit);
        }
        drop(directory);
        header.release_written();
        current
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 1_500 }, ..ProptestConfig::default() })]
    /// Contents are a plain vector's, whatever is where and whatever copy fails; and what moves is exactly
    /// what is not there, to the byte.
    #[test]
    fn contents_are_those_of_a_vector_and_only_what_lacks_moves(
        (shape, ops) in (1u64..7, 1u64..6, 1u64..5).prop_flat_map(|(x, y, z)| {
            (Just([x, y, z]), ops(crate::memory::region::Grid::new(&[x, y, z], x * y * z)))
        })
    ) {
        let (_alone, devices) = (lock(), devices());
        let n = shape.iter().product::<u64>() as usize;
        let memory = FlashMemory::from((0..n as u32).collect::<Vec<_>>()).with_shape(&shape[..]).unwrap();
        let mut model = Model { values: (0..n as u32).collect(), current: vec![HOST; n] };
        let grid = memory.header().grid();
        let mut failing = false;
        for (round, op) in ops.into_iter().enumerate() {
            let before = moved(&devices);
            let known = model.current.clone();
            let expected = match op {
                Op::Fault(after) => {
                    fault(Some(Fault { after, code: Code::Other }));
                    failing = true;
                    continue;
                }
                Op::Write(d, block) => {
                    // Growing a buffer copies inside the device; a launch would fail there and write nothing.
                    fault(None);
                    failing = false;
                    let value = 1_000 + round as u32;
                    write_on(&memory, devices[d], &block.into(), value);
                    model.write(Model::at(d), elements(&grid, &block.into()), value);
                    Some(0)
                }
                Op::Read(d, block) => match read_on(&memory, devices[d], &block.into()) {
                    Ok(seen) => {
                        let read = elements(&grid, &block.into());
                        let expected: Vec<u32> = read.iter().map(|i| model.values[*i]).collect();
                        prop_assert_eq!(seen, expected);
                        Some(model.read(Model::at(d), read))
                    }
                    Err(error) => failed(failing, error)?,
                },
                Op::Host(a, b) => match memory.read_range(a as usize..b as usize) {
                    Ok(seen) => {
                        let range = a as usize..b as usize;
                        prop_assert_eq!(&*seen, &model.values[range.clone()]);
                        let lacks = model.current[range].iter().any(|current| current & HOST == 0);
                        // All of the array is one granule.
                        Some(if lacks { model.read(HOST, 0..n) } else { 0 })
                    }
                    Err(error) => failed(failing, error)?,
                },
                Op::HostWrite(i) => match memory.write() {
                    Ok(mut all) => {
                        prop_assert_eq!(&*all, &model.values[..]);
                        all[i as usize] = 9;
                        let bytes = model.read(HOST, 0..n);
                        model.current.fill(HOST);
                        model.values[i as usize] = 9;
                        Some(bytes)
                    }
                    Err(error) => failed(failing, error)?,
                },
                Op::GiveBack => {
                    memory.header().give_back_now();
                    model.give_back();
                    Some(0)
                }
                Op::Evict(d) => {
                    memory.header().state.launch_write().unwrap();
                    let outcome = memory.header().evict(devices[d].place());
                    memory.header().release_written();
                    match outcome {
                        Ok(_) => Some(model.evict(Model::at(d))),
                        Err(error) => failed(failing, error)?,
                    }
                }
            };
            let found = Model::of_directory(&memory, &devices);
            match expected {
                // A granule of which only what was asked for came has come, too.
                Some(bytes) if !failing => {
                    prop_assert_eq!(moved(&devices) - before, bytes);
                    prop_assert_eq!(&found, &model.current);
                }
                Some(_) => model.current = found,
                None => {
                    let lost = known.iter().zip(&found).any(|(known, found)| known & found != *known);
                    prop_assert!(!lost, "what a copy that failed was to move is where it was");
                    model.current = found;
                }
            }
            fault(None);
            failing = false;
        }
        fault(None);
        prop_assert_eq!(&*memory.read().unwrap(), &model.values[..]);
        drop(memory);
        prop_assert_eq!(devices.iter().map(|d| d.used()).sum::<u64>(), 0, "all buffers are given back");
    }
}

/// An operation has failed, as it was to; how many bytes were moved is unknown.
fn failed(failing: bool, error: Error) -> Result<Option<u64>, TestCaseError> {
    prop_assert!(failing && error.to_string().contains("on purpose"), "{}", error);
    Ok(None)
}

pub(in crate::memory) fn all(memory: &FlashMemory<u32>) -> Region {
    Region::all(&memory.header().grid())
}

#[test]
fn copies_are_counted_per_direction_and_only_what_lacks_moves() {
    let (_alone, devices) = (lock(), devices());
    let memory: FlashMemory<u32> = (0..100).collect();
    let before = devices.iter().map(|d| d.transfers()).collect::<Vec<_>>();
    let since = |k: usize| devices[k].transfers() - before[k];
    read_on(&memory, devices[0], &all(&memory)).unwrap();
    assert_eq!((since(0).to_device.copies, since(0).to_device.bytes), (1, 400));
    let half = Region::of_range(&memory.header().grid(), 50..100);
    write_on(&memory, devices[0], &half, 7);
    // Directly from device to device, and the half that the host has from there.
    assert_eq!(read_on(&memory, devices[1], &all(&memory)).unwrap()[49..51], [49, 7]);
    assert_eq!((since(1).to_device.bytes, since(1).between_devices.bytes), (200, 200));
    // Device 2 does not copy directly: from 0 to the host, from there to 2.
    assert_eq!(read_on(&memory, devices[2], &all(&memory)).unwrap()[49..51], [49, 7]);
    assert_eq!((since(2).to_device.bytes, since(2).between_devices.bytes), (400, 0));
    assert_eq!(since(0).from_device.bytes, 200);
    assert_eq!(memory.get(99).unwrap(), 7);
    assert_eq!(since(0).from_device.bytes + since(1).from_device.bytes, 400);
    assert!(since(0).to_string().contains("400 bytes in 1 copies"), "{}", since(0));
}

#[test]
#[cfg_attr(miri, ignore = "arrays of many granules take minutes")]
fn the_host_fetches_granules_around_single_elements() {
    let (_alone, devices) = (lock(), devices());
    let memory = FlashMemory::<u32>::zeroed(100_000);
    write_on(&memory, devices[0], &all(&memory), 3);
    let before = devices[0].transfers();
    assert_eq!(memory.get(20_000).unwrap(), 3);
    assert_eq!(memory.get(20_001).unwrap(), 3);
    let moved = devices[0].transfers() - before;
    assert_eq!((moved.from_device.copies, moved.from_device.bytes), (1, 64 * 1024));
    assert_eq!(*memory.read_range(99_990..).unwrap(), [3; 10]);
}

#[test]
#[cfg_attr(miri, ignore = "large arrays take minutes")]
fn the_longest_unused_copies_make_room_and_what_was_only_there_comes_home() {
    let (_alone, devices) = (lock(), devices());
    let device = devices[0];
    device.trim(u64::MAX);
    device.set_budget(3 * 4096);
    let memories: Vec<FlashMemory<u32>> = (0..4).map(|k| vec![k; 1024].into()).collect();
    let before = device.transfers();
    for memory in &memories[..3] {
        read_on(memory, device, &all(memory)).unwrap();
    }
    write_on(&memories[1], device, &all(&memories[1]), 77);
    // 0 is used again; so 2, which is clean, has to go, and then 1.
    read_on(&memories[0], device, &all(&memories[0])).unwrap();
    read_on(&memories[3], device, &all(&memories[3])).unwrap();
    let has = |k: usize| memories[k].header().directory().copy(device.place()).is_some();
    assert_eq!([0, 1, 2, 3].map(has), [true, true, false, true]);
    assert_eq!((device.transfers() - before).from_device.bytes, 0, "a clean one is not copied back");
    read_on(&memories[2], device, &all(&memories[2])).unwrap();
    assert_eq!([0, 1, 2, 3].map(has), [true, false, true, true]);
    assert_eq!((device.transfers() - before).from_device.bytes, 4096);
    assert_eq!(*memories[1].read().unwrap(), [77; 1024]);
    // What launches use stays: there is no room.
    let states = [0, 2, 3].map(|k| &memories[k].header().state);
    states.iter().for_each(|state| assert!(state.launch_read().unwrap()));
    let error = read_on(&memories[1], device, &all(&memories[1])).unwrap_err();
    let Error::DeviceMemory(sizes) = &error else { panic!("{error}") };
    assert_eq!((sizes.wanted, sizes.budget, sizes.held), (4096, 12288, 12288));
    assert!(error.to_string().contains("TEST_APART:0"), "{error}");
    states.iter().for_each(|state| state.release_read());
    // Guards that read, and pipelines that have not begun, use the host's.
    let guards = [0, 2, 3].map(|k| memories[k].read().unwrap());
    states.iter().for_each(|state| state.pend_read().unwrap());
    states.iter().for_each(|state| state.begin());
    assert!(matches!(read_on(&memories[1], device, &all(&memories[1])), Err(Error::DeviceMemory(_))));
    states.iter().for_each(|state| state.suspend());
    read_on(&memories[1], device, &all(&memories[1])).unwrap();
    assert_eq!([0, 1, 2, 3].map(has), [true, true, false, true]);
    states.iter().for_each(|state| state.unpend(false));
    assert!(guards.iter().zip([0, 2, 3]).all(|(guard, value)| guard[..] == [value; 1024]));
    drop(guards);
    let large = FlashMemory::<u32>::zeroed(1 << 20);
    assert!(matches!(read_on(&large, device, &all(&large)), Err(Error::DeviceMemory(_))));
    device.set_budget(u64::MAX);
}

#[test]
fn what_another_thread_is_about_to_take_away_makes_room_too() {
    let (_alone, devices) = (lock(), devices());
    let device = devices[0];
    device.trim(u64::MAX);
    let [old, new] = [3, 4].map(|k| FlashMemory::from(vec![k; 1024]));
    read_on(&old, device, &all(&old)).unwrap();
    device.set_budget(device.used());
    let header = old.header();
    let taker = Taker::new();
    assert!(header.state.try_evict());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            header.end_evict();
            drop(taker);
        });
        assert_eq!(read_on(&new, device, &all(&new)).unwrap(), [4; 1024]);
    });
    assert!(header.directory().copy(device.place()).is_none());
    device.set_budget(u64::MAX);
}

#[test]
fn buffers_are_used_again() {
    let (_alone, devices) = (lock(), devices());
    let handle = |memory: &FlashMemory<u32>| {
        read_on(memory, devices[1], &all(memory)).unwrap();
        memory.header().directory().copy(devices[1].place()).unwrap().raw().handle
    };
    let first = handle(&FlashMemory::zeroed(5000));
    assert_eq!(handle(&FlashMemory::zeroed(4900)), first);
    assert_ne!(handle(&FlashMemory::zeroed(2000)), first);
}

#[test]
fn a_buffer_that_a_copy_was_to_fill_is_given_up_where_the_copy_fails() {
    let (_alone, devices) = (lock(), devices());
    let bytes = |memory: &FlashMemory<u32>| {
        let directory = memory.header().directory();
        let copy = directory.copy(devices[1].place()).unwrap();
        // SAFETY: the device's buffer has room for all, is memory of this process, and nothing writes to it.
        unsafe { std::slice::from_raw_parts(copy.raw().handle as *const u8, memory.len() * 4) }.to_vec()
    };
    for fills in [true, false] {
        let before = FlashMemory::<u32>::zeroed(5000);
        write_on(&before, devices[1], &all(&before), u32::MAX);
        drop(before);
        let memory = FlashMemory::<u32>::zeroed(5000);
        let header = memory.header();
        let unfilled = devices[1].reserve_to_fill(header, &mut header.directory(), 0..5000).unwrap();
        assert_eq!(bytes(&memory), [255; 20_000], "the buffer is that of the array before");
        match fills {
            true => unfilled.filled(),
            false => drop(unfilled),
        }
        devices[1].reserve(header, &mut header.directory(), 0..5000).unwrap();
        assert_eq!(bytes(&memory), [if fills { 255 } else { 0 }; 20_000]);
    }
}

#[test]
fn a_device_that_has_less_than_its_budget_evicts_too() {
    let (_alone, devices) = (lock(), devices());
    let device = devices[0];
    device.trim(u64::MAX);
    let memories: Vec<FlashMemory<u32>> = (0..3).map(|k| vec![k; 1024].into()).collect();
    apart::limit(2 * 4096);
    for (k, memory) in memories.iter().enumerate() {
        assert_eq!(read_on(memory, device, &all(memory)).unwrap(), [k as u32; 1024]);
    }
    let error = read_on(&FlashMemory::zeroed(4096), device, &Region::all(&memories[0].header().grid()));
    assert!(error.is_ok(), "a part of it fits");
    apart::limit(u64::MAX);
}

#[test]
fn what_a_lost_device_alone_had_is_poisoned_and_the_rest_is_not() {
    let (_alone, devices) = (lock(), devices());
    let memory: FlashMemory<u32> = (0..10).collect();
    let grid = memory.header().grid();
    write_on(&memory, devices[0], &Region::of_range(&grid, 0..5), 1);
    fault(Some(Fault { after: 0, code: Code::DeviceLost }));
    let error = memory.read().map(drop).unwrap_err();
    assert!(matches!(error, Error::Backend { code: Code::DeviceLost, .. }), "{error}");
    fault(None);
    assert!(matches!(memory.get(4), Err(Error::Poisoned)));
    assert_eq!(*memory.read_range(5..).unwrap(), [5, 6, 7, 8, 9]);
    memory.write().unwrap()[4] = 4;
    assert_eq!(memory.get(4).unwrap(), 4);
}

#[test]
fn what_a_lost_device_alone_had_does_not_keep_its_neighbours_from_being_read() {
    let (_alone, devices) = (lock(), devices());
    let memory: FlashMemory<u32> = (0..10).collect();
    let grid = memory.header().grid();
    write_on(&memory, devices[0], &Region::of_range(&grid, 0..5), 1);
    write_on(&memory, devices[1], &Region::of_range(&grid, 5..7), 2);
    apart::lose(1);
    assert_eq!(memory.get(5).unwrap(), 2, "one granule, and another device");
    assert_eq!(*memory.read_range(6..).unwrap(), [2, 7, 8, 9]);
    assert!(matches!(memory.get(4), Err(Error::Poisoned)));
    apart::lose(0);
}

#[test]
fn of_two_devices_the_one_that_is_lost_is_told_from_the_one_that_copies() {
    let (_alone, devices) = (lock(), devices());
    for lost in [0, 1] {
        let memory: FlashMemory<u32> = (0..10).collect();
        write_on(&memory, devices[0], &all(&memory), 1);
        apart::lose(lost + 1);
        let error = memory.header().make_current(devices[1], &all(&memory)).unwrap_err();
        assert!(matches!(error, Error::Backend { code: Code::DeviceLost, .. }), "{error}");
        assert_eq!([0, 1].map(|device| devices[device].is_lost()), [lost == 0, lost == 1]);
        apart::lose(0);
        memory.header().make_current(devices[1], &all(&memory)).unwrap();
        assert!(!devices[1].is_lost());
    }
}

#[test]
fn a_new_shape_brings_everything_home() {
    let (_alone, devices) = (lock(), devices());
    let memory: FlashMemory<u32> = (0..6).collect();
    write_on(&memory, devices[0], &all(&memory), 5);
    let memory = memory.with_shape([2, 3]).unwrap();
    assert!(!memory.header().state.launch_read().unwrap(), "nothing is to be looked up");
    memory.header().state.release_read();
    assert_eq!(*memory.read().unwrap(), [5; 6]);
}

/// Readers of the host, launches and evictions at once: none sees anything but what was written.
#[test]
fn threads_that_read_write_and_evict() {
    let (_alone, devices) = (lock(), devices());
    let device = devices[0];
    device.trim(u64::MAX);
    device.set_budget(2 * 4096);
    let memories: Vec<FlashMemory<u32>> = (0..6).map(|_| FlashMemory::zeroed(1024)).collect();
    let rounds = if cfg!(miri) { 5 } else { 400 };
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (memories, devices) = (&memories, &devices);
            scope.spawn(move || {
                for round in 0..rounds {
                    let memory = &memories[(round * 7 + thread * 3) as usize % memories.len()];
                    match round % 3 {
                        // A launch that only reads, on a device that others use, too.
                        0 => {
                            let Ok(_) = memory.header().state.launch_read() else { continue };
                            let whole = all(memory);
                            match memory.header().make_current(devices[thread as usize % 2], &whole) {
                                Ok(()) | Err(Error::DeviceMemory(_)) => {}
                                Err(error) => panic!("{error}"),
                            }
                            memory.header().state.release_read();
                        }
                        1 => {
                            if let Ok(seen) = memory.read() {
                                assert!(seen.iter().all(|v| *v == seen[0]), "{:?}", &*seen);
                            }
                        }
                        _ => {
                            if let Ok(mut all) = memory.write() {
                                let value = all[0] + 1;
                                all.fill(value);
                            }
                        }
                    }
                }
            });
        }
    });
    for memory in &memories {
        let seen = memory.read().unwrap();
        assert!(seen.iter().all(|v| *v == seen[0]));
    }
    device.set_budget(u64::MAX);
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take minutes")]
fn a_large_array_that_is_copied_again_is_pinned_until_it_goes() {
    let _alone = lock();
    let devices = devices();
    let elements = 1 << 20;
    // Those of stages stay.
    let before = PINNED.lock().unwrap().len();
    let pinned = || PINNED.lock().unwrap()[before..].to_vec();
    for (elements, expected) in [(elements, vec![4 * elements as u64]), (elements / 2, vec![])] {
        let memory = FlashMemory::<u32>::zeroed(elements);
        let all = Region::all(memory.header().directory().grid());
        for round in 0..3 {
            assert_eq!(pinned(), if round < 2 { vec![] } else { expected.clone() }, "{round}");
            write_on(&memory, devices[0], &all, round);
            assert_eq!(memory.read().unwrap()[elements / 2], round);
        }
        drop(memory);
        assert_eq!(pinned(), Vec::<u64>::new());
    }
}

#[test]
#[cfg_attr(miri, ignore = "megabytes take minutes")]
fn an_array_that_the_host_writes_before_each_copy_is_pinned_too() {
    let _alone = lock();
    let device = devices()[0];
    let before = PINNED.lock().unwrap().len();
    let pinned = || PINNED.lock().unwrap()[before..].to_vec();
    let memory = FlashMemory::<u32>::zeroed(1 << 20);
    let all = Region::all(memory.header().directory().grid());
    for round in 0..5 {
        // That ends the copy that the device has.
        memory.write().unwrap()[7] = round;
        assert!(memory.header().directory().copy(device.place()).is_none());
        assert_eq!(read_on(&memory, device, &all).unwrap()[7], round);
        // Once: the memory stays pinned when the copy goes.
        assert_eq!(pinned(), if round < 1 { vec![] } else { vec![4 << 20] }, "{round}");
    }
    drop(memory);
    assert_eq!(pinned(), Vec::<u64>::new());
}
