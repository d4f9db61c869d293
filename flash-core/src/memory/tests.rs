use super::region::Region;
use super::state::Refused;
use super::*;

#[test]
fn zeroed_memories_of_any_shape_and_element() {
    let grid = FlashMemory::<[f32; 3]>::zeroed([4, 2]);
    assert_eq!((grid.len(), grid.shape(), &grid.read().unwrap()[7]), (8, &[4, 2][..], &[0.0; 3]));
    assert_eq!(grid.header().data().align_offset(64), 0);
    assert!(FlashMemory::<u8>::zeroed(3).shape().is_empty());
    for empty in [
        FlashMemory::<u64>::zeroed(0),
        FlashMemory::zeroed([5, 0]),
        Vec::new().into(),
        FlashMemory::zeroed(-1),
    ] {
        assert!(empty.is_empty() && empty.read().unwrap().is_empty());
        assert!(empty.write().unwrap().is_empty());
        assert!(!empty.header().second().is_null());
    }
    let units = FlashMemory::<[u32; 0]>::zeroed(4);
    assert_eq!(units.read().unwrap().len(), 4);
    std::panic::catch_unwind(|| FlashMemory::<u64>::zeroed([u64::MAX, 2])).unwrap_err();
    std::panic::catch_unwind(|| FlashMemory::<u64>::zeroed(usize::MAX / 2)).unwrap_err();
}

#[test]
fn vectors_are_taken_and_given_back_to_their_allocator() {
    let mut vec = Vec::with_capacity(100);
    vec.extend([1u16, 2, 3]);
    let at = vec.as_ptr();
    let memory = FlashMemory::from(vec);
    assert_eq!((memory.header().data().cast_const().cast(), memory.len()), (at, 3));
    let other = memory.clone();
    other.write().unwrap()[0] = 9;
    drop(other);
    assert_eq!(format!("{memory:?}"), "FlashMemory([9, 2, 3])");
    let copy = FlashMemory::from(&memory.read().unwrap()[1..]);
    assert_eq!(*copy.read().unwrap(), [2, 3]);
    // Never filled, and elements without a size.
    drop(FlashMemory::from(Vec::<u64>::with_capacity(8)));
    drop(FlashMemory::from(vec![[0u64; 0]; 5]));
    assert_eq!((0..4u8).collect::<FlashMemory<u8>>().get(3).unwrap(), 3);
}

#[test]
fn the_second_buffer_is_another_and_stays() {
    let memory = FlashMemory::from([1u64, 2, 3]);
    let header = memory.header();
    assert!(!header.state.launch_write().unwrap());
    // SAFETY: held as a writer; both buffers have three elements.
    unsafe {
        let (first, second) = (header.data().cast::<u64>(), header.second().cast::<u64>());
        assert_eq!(std::slice::from_raw_parts(second, 3), [0; 3]);
        std::ptr::copy_nonoverlapping(first, second, 3);
        *first = 10;
        assert_eq!((header.second().cast(), *second), (second, 1));
        assert_eq!(second.align_offset(64), 0);
    }
    header.state.release_write(false);
    assert_eq!(*memory.read().unwrap(), [10, 2, 3]);
}

#[test]
fn guards_ranges_and_who_refuses_whom() {
    let memory: FlashMemory<u32> = (0..6).collect();
    let (all, part) = (memory.read().unwrap(), memory.read_range(2..=3).unwrap());
    assert_eq!((all.len(), &*part, memory.get(5).unwrap()), (6, &[2, 3][..], 5));
    assert!(matches!(memory.write(), Err(Error::Borrowed { .. })));
    assert!(matches!(memory.header().state.launch_write(), Err(Refused::Borrowed)));
    memory.header().state.launch_read().unwrap();
    drop((all, part));
    memory.header().state.release_read();
    let mut guard = memory.write().unwrap();
    guard[..2].copy_from_slice(&[7, 8]);
    assert!(matches!(memory.read(), Err(Error::Borrowed { .. })));
    assert!(matches!(memory.write(), Err(Error::Borrowed { .. })));
    assert!(format!("{memory:?}").contains("borrowed"));
    assert_eq!(guard[1], 8);
    drop(guard);
    for (range, error) in [((3, 7), true), ((6, 6), false), ((4, 3), true)] {
        let range = (Bound::Included(range.0), Bound::Excluded(range.1));
        assert_eq!(memory.range(range).is_err(), error);
        assert_eq!(memory.read_range(range).is_err(), error);
    }
    assert!(memory.get(6).is_err() && memory.get(usize::MAX).is_err());
    assert!(memory.range(..=usize::MAX).is_err());
    assert_eq!(memory.range((Bound::Excluded(1), Bound::Unbounded)).unwrap().into_parts().1, 2..6);
}

#[test]
fn a_shape_is_the_memorys_own() {
    let memory: FlashMemory<u8> = (0..6).collect();
    let before = memory.header().id();
    let memory = memory.with_shape([3, 2]).unwrap();
    assert!(memory.shape() == [3, 2] && memory.header().id() != before);
    assert!(matches!(memory.clone().with_shape(6), Err(Error::Shape(_))));
    assert!(matches!(memory.with_shape([4, 2]), Err(Error::Shape(_))));
}

#[test]
fn poison_is_seen_by_readers_of_its_range_and_healed_by_writers() {
    let memory = FlashMemory::from([1u8; 9]);
    let (header, state) = (memory.header(), &memory.header().state);
    assert!(!state.launch_write().unwrap());
    header.poison(&Region::of_range(&header.grid(), 3..5));
    header.release_written();
    assert!(matches!(memory.read(), Err(Error::Poisoned)));
    assert!(matches!(memory.get(4), Err(Error::Poisoned)));
    assert_eq!((memory.get(2).unwrap(), memory.read_range(5..).unwrap().len()), (1, 4));
    assert!(state.launch_read().unwrap());
    assert!(header.poisoned(4..9) && !header.poisoned(5..9));
    state.release_read();
    assert!(state.launch_write().unwrap());
    header.heal(3..4);
    header.release_written();
    assert!(memory.get(3).is_ok() && memory.get(4).is_err());
    drop(memory.write().unwrap());
    assert_eq!(memory.get(4).unwrap(), 1);
    assert!(!state.launch_write().unwrap(), "nothing is to be looked up any more");
    header.poison(&Region::of_range(&header.grid(), 0..1));
    header.release_written();
    assert!(matches!(memory.with_shape([3, 3]), Err(Error::Poisoned)));
}

/// Long enough that waiters park.
#[test]
fn threads_wait_for_each_other() {
    let memory = FlashMemory::from([0u64; 2]);
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let memory = &memory;
            scope.spawn(move || {
                for round in 0..rounds {
                    let state = &memory.header().state;
                    if thread == 0 {
                        state.launch_read().unwrap();
                        // SAFETY: held as a reader; there are two elements.
                        let seen = unsafe { *memory.header().data().cast::<[u64; 2]>() };
                        assert_eq!(seen[0], seen[1]);
                        state.release_read();
                        continue;
                    }
                    state.launch_write().unwrap();
                    // SAFETY: held as a writer; there are two elements.
                    let contents = unsafe { &mut *memory.header().data().cast::<[u64; 2]>() };
                    contents[0] += 1;
                    if round % 10 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(50));
                    }
                    contents[1] += 1;
                    state.release_write(false);
                }
            });
        }
    });
    assert_eq!(*memory.read().unwrap(), [2 * rounds; 2]);
}

/// As many as can be counted: the next one waits.
#[test]
fn more_readers_than_can_be_counted() {
    let memory = FlashMemory::from([1u8]);
    let state = &memory.header().state;
    (0..0x1ff).for_each(|_| assert!(!state.launch_read().unwrap()));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| state.launch_read().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!late.is_finished());
        state.release_read();
        assert!(!late.join().unwrap());
    });
    (0..0x1ff).for_each(|_| state.release_read());
    assert!(memory.write().is_ok());
}
