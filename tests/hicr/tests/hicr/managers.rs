//! What managers refuse, and how.

use crate::{has, over_threads, text};
use flash_hicr::{
    Error, ExecutionUnit, LocalSlot, Number, Objects, Place, Resource, Space, copy, devices, memory_of,
    threads,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[test]
fn a_slot_is_zeroed_filled_freed_and_bounded() {
    over_threads(1, |hicr| {
        let space = hicr.memory.spaces()?[0].clone();
        for bytes in [0, 1, 7, 8, 100_001] {
            let slot = hicr.memory.alloc(&space, bytes)?;
            assert_eq!(slot.values::<u8>(0, bytes as usize)?, vec![0; bytes as usize]);
            hicr.memory.fill(&slot, 9)?;
            assert_eq!(slot.values::<u8>(0, bytes as usize)?, vec![9; bytes as usize]);
            has(&text(slot.read(bytes, &mut [0])), "a read of bytes");
            has(&text(slot.write(u64::MAX, &[0])), "expected a range of its");
            has(&text(slot.values::<f64>(0, usize::MAX)), "a read of bytes");
            let clone = slot.clone();
            has(&text(hicr.memory.free(slot)), "expected a slot without clones, found 1");
            hicr.memory.free(clone)?;
        }
        has(&text(hicr.memory.alloc(&space, u64::MAX)), "shared memory for");
        has(&text(hicr.memory.alloc_numbers(&space, Number::F64, u64::MAX)), "expected at most 2^64");
        let none = Space { device: "nothing".into(), number: 0, bytes: 0 };
        has(&text(hicr.memory.alloc(&none, 1)), "there is no memory space `nothing/0` here: expected one of");
        Ok(())
    });
}

#[test]
fn registered_memory_is_copied_and_not_given_to_others() {
    over_threads(2, |hicr| {
        let space = hicr.memory.spaces()?[0].clone();
        let mut own = vec![0_u64; 4];
        let address = own.as_mut_ptr().cast::<u8>();
        for (address, bytes) in [(address.wrapping_add(1), 8), (address, 9), (std::ptr::null_mut(), 8)] {
            // SAFETY: refused.
            let refused = unsafe { hicr.memory.register(&space, address, bytes) };
            has(&text(refused), "multiples of 8 and not NULL");
        }
        // SAFETY: the vector outlives the slot, and is not used before the slot is gone.
        let slot = unsafe { hicr.memory.register(&space, address, 32) }?;
        let other = hicr.memory.alloc(&space, 32)?;
        hicr.memory.fill(&other, 7)?;
        copy(&*hicr.communication, slot.at(3), other.at(0), 13)?;
        hicr.communication.fence_slot(&slot, 0, 1)?;
        // Both instances have the error: one of its own slot, one of the other's.
        let gives = [(u64::from(hicr.instances.current().number), &slot)];
        let given = if hicr.instances.current().is_root() { &gives[..] } else { &[] };
        let error = text(hicr.communication.exchange(9, given));
        has(&error, if given.is_empty() { "instance 0 cannot make the slots" } else { "cannot reach" });
        has(&text(hicr.communication.promote(&slot)), "allocate a slot, and copy");
        hicr.memory.free(slot)?;
        assert_eq!(own, [0x0707_0707_0700_0000, 0x0707_0707_0707_0707, 0, 0].map(u64::from_le));
        hicr.communication.fence(9)
    });
}

#[test]
fn an_exchange_with_a_key_twice_is_an_error_of_all() {
    over_threads(3, |hicr| {
        let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
        let error = text(hicr.communication.exchange(1, &[(5, &slot)]));
        has(&error, "expected a key per slot, found 5 of instance");
        let many: Vec<(u64, &LocalSlot)> =
            (0..300).map(|i| (1000 * u64::from(hicr.instances.current().number) + i, &slot)).collect();
        let all = hicr.communication.exchange(1, &many)?;
        assert_eq!(all.slots().len(), 900);
        assert!(all.slots().is_sorted_by_key(|slot| slot.place().key));
        Ok(())
    });
}

#[test]
fn global_slots_are_of_their_group_and_in_arenas() {
    let kept = Arc::new(Mutex::new(None));
    let other = kept.clone();
    over_threads(1, move |hicr| {
        let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 64)?;
        *other.lock().unwrap() = Some(hicr.communication.promote(&slot)?);
        Ok(())
    });
    let foreign = kept.lock().unwrap().take().unwrap();
    over_threads(1, move |hicr| {
        let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 64)?;
        let own = hicr.communication.promote(&slot)?;
        let error = text(copy(&*hicr.communication, slot.at(0), foreign.at(0), 8));
        has(&error, "expected a slot of this group's exchanges, found one of another group");
        has(&text(hicr.communication.lock(&foreign)), "another group");
        let place = own.place();
        let arena = 4 << 30;
        for wrong in [
            Place { owner: 1, ..place },
            Place { start: 0, ..place },
            Place { start: place.start + 8, ..place },
            Place { bytes: arena, ..place },
            Place { bytes: u64::MAX, ..place },
            Place { start: u64::MAX - 63, bytes: 64, ..place },
        ] {
            has(&text(hicr.communication.attach(wrong)), "the place of a global slot: expected");
        }
        // A place that is right, and its last byte.
        let last = hicr.communication.attach(Place { start: arena - 64, bytes: 64, ..place })?;
        copy(&*hicr.communication, slot.at(63), last.at(63), 1)?;
        has(&text(copy(&*hicr.communication, slot.at(0), last.at(64), 1)), "a copy from bytes 64");
        assert!(hicr.communication.lock(&own)? && !hicr.communication.lock(&own)?);
        hicr.communication.unlock(&own)?;
        has(&text(hicr.communication.unlock(&own)), "it is not locked");
        Ok(())
    });
}

#[test]
fn copies_between_memories_that_nothing_connects_are_refused() {
    over_threads(1, |hicr| {
        let devices = devices("ALL_CPU")?;
        let here = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
        let there = devices.memory.alloc(&devices.memory.spaces()?[0], 8)?;
        for (to, from) in [(&here, &there), (&there, &here)] {
            for communication in [&*hicr.communication, &*devices.communication] {
                has(&text(copy(communication, to.at(0), from.at(0), 8)), "nothing connects");
            }
        }
        has(&text(hicr.memory.fill(&there, 0)), "nothing connects");
        let global = hicr.communication.promote(&here)?;
        has(&text(copy(&*devices.communication, global.at(0), there.at(0), 8)), "devices are no instances");
        has(&text(devices.communication.exchange(1, &[])), "devices are no instances");
        has(&text(devices.instances.create(&Default::default(), 1)), "devices are no instances");
        // SAFETY: refused.
        let refused = unsafe { devices.memory.register(there.space(), std::ptr::null_mut(), 8) };
        has(&text(refused), "allocate a slot, and copy");
        has(&text(devices.communication.fence_slot(&there, 1, 0)), "expected 1 copies from");
        has(
            &text(memory_of::<f32>(&there).map(drop)),
            "expected a slot of F32 of `flash_hicr::devices`, found one of U8",
        );
        has(&text(memory_of::<u8>(&here).map(drop)), "of other managers");
        Ok(())
    });
}

#[test]
fn slots_of_different_numbers_are_copied_byte_for_byte() {
    let hicr = devices("ALL_CPU").unwrap();
    let space = hicr.memory.spaces().unwrap()[0].clone();
    let slot = |kind, count| hicr.memory.alloc_numbers(&space, kind, count).unwrap();
    let (floats, bytes) = (slot(Number::F32, 6), slot(Number::U8, 24));
    bytes.write(0, &(0..24).collect::<Vec<u8>>()).unwrap();
    copy(&*hicr.communication, floats.at(1), bytes.at(2), 17).unwrap();
    assert_eq!(
        floats.values::<u8>(0, 20).unwrap(),
        [&[0][..], &(2..19).collect::<Vec<u8>>(), &[0, 0]].concat()
    );
    copy(&*hicr.communication, floats.at(8), floats.at(0), 8).unwrap();
    copy(&*hicr.communication, floats.at(5), floats.at(4), 9).unwrap();
    let expected: Vec<u8> = (0..24).map(|i| floats.values::<u8>(0, 24).unwrap()[i]).collect();
    assert_eq!(expected[..5], [0, 2, 3, 4, 5]);
    assert_eq!(expected[5..8], [5, 6, 7]);
    assert_eq!(memory_of::<f32>(&floats).unwrap().len(), 6);
}

#[test]
fn execution_units_run_where_they_have_a_form_and_panics_are_errors() {
    over_threads(1, |hicr| {
        let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
        let resources = hicr.compute.resources()?;
        let unit = hicr.compute.processing_unit(&resources[0])?;
        let adds = ExecutionUnit::new("adds")
            .function(|slots| slots[0].write(0, &(slots[0].number(0)? + 1).to_ne_bytes()));
        let states = (0..3).map(|_| hicr.compute.state(&adds, std::slice::from_ref(&slot)));
        let started = states.map(|state| unit.start(state?)).collect::<Result<Vec<_>, Error>>()?;
        for mut execution in started {
            while !execution.is_finished() {
                std::thread::yield_now();
            }
            execution.wait()?;
        }
        assert_eq!(slot.number(0)?, 3);
        let panics = ExecutionUnit::new("boom").function(|_| panic!("no"));
        let error = text(unit.start(hicr.compute.state(&panics, &[])?)?.wait());
        assert_eq!(error, "the execution unit `boom` panicked: no");
        let empty = ExecutionUnit::new("empty");
        has(&text(hicr.compute.state(&empty, &[]).map(drop)), "this manager runs functions");
        let devices = devices("ALL_CPU")?;
        has(&text(devices.compute.state(&adds, &[]).map(drop)), "this manager runs kernels");
        for (compute, wrong) in [
            (&hicr.compute, Resource::Device("ALL_CPU:0".into())),
            (&hicr.compute, Resource::Cpu(100_000)),
            (&devices.compute, Resource::Cpu(0)),
        ] {
            has(&text(compute.processing_unit(&wrong).map(drop)), "expected one of");
        }
        Ok(())
    });
}

#[test]
fn the_error_of_a_thread_is_that_of_its_group() {
    let panic = threads(2, |hicr| match hicr.instances.current().number {
        1 => panic!("instance one"),
        _ => hicr.communication.fence(1),
    });
    assert_eq!(text(panic), "an instance panicked: instance one");
    let lost = threads(2, |hicr| match hicr.instances.current().number {
        1 => Ok(()),
        _ => hicr.communication.fence(1),
    });
    has(&text(lost), "peer 1 `instance 1`");
}

#[test]
fn an_object_that_is_destroyed_while_it_is_got_is_an_error_and_not_other_data() {
    const BYTES: u64 = 256 << 10;
    let (shown, is_over) = (Mutex::new(None), AtomicBool::new(false));
    over_threads(2, move |hicr| {
        let space = hicr.memory.spaces()?[0].clone();
        let mut objects = Objects::new(&hicr, 1, 1)?;
        let slot = hicr.memory.alloc(&space, BYTES)?;
        if hicr.instances.current().is_root() {
            for value in 0..200_u8 {
                hicr.memory.fill(&slot, value)?;
                let id = objects.publish(&slot)?;
                *shown.lock().unwrap() = Some((id, value));
                // Somewhere in a copy of the other one.
                let moment = std::time::Duration::from_micros(u64::from(value) * 37 % 200);
                let start = std::time::Instant::now();
                while start.elapsed() < moment {
                    std::hint::spin_loop();
                }
                objects.destroy(id)?;
            }
            is_over.store(true, Relaxed);
            return hicr.communication.fence(1);
        }
        let mut last = None;
        loop {
            if is_over.load(Relaxed) {
                return hicr.communication.fence(1);
            }
            let found = *shown.lock().unwrap();
            let Some((id, value)) = found else { continue };
            if last == Some(id) {
                continue;
            }
            let Ok(handle) = objects.handle(id) else { continue };
            match objects.get(&handle, 0, slot.at(0), BYTES) {
                Ok(()) => {
                    assert!(slot.values::<u8>(0, BYTES as usize)?.iter().all(|byte| *byte == value));
                    last = Some(id);
                }
                Err(error) => has(&error.to_string(), "it was destroyed"),
            }
        }
    });
}
