//! The allocator of shared memory against a model.

use flash_net::{Member, NetError, Peer, SharedTransport, Transport, World, local};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ARENA: u64 = 8 << 20;

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64, u64),
    /// Frees one of those in use.
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![0..300_u64, 0..70_000_u64, 60_000..2_000_000_u64];
    prop_oneof![
        3 => (bytes, 0..13_u32).prop_map(|(bytes, align)| Step::Alloc(bytes, 1 << align)),
        2 => any::<usize>().prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_are_apart_aligned_and_zeroed(steps in prop::collection::vec(step(), 1..300)) {
        let world = World::with_arenas(&[Member::default()], ARENA).unwrap();
        let transport = SharedTransport::join(&world, Peer(0)).unwrap();
        let heap = transport.heap().unwrap();
        // Offset to bytes and a mark, with which the whole block is filled.
        let mut blocks: BTreeMap<u64, (u64, u8)> = BTreeMap::new();
        let mut mark = 0_u8;
        for step in steps {
            match step {
                Step::Alloc(bytes, align) => match heap.alloc(bytes, align) {
                    Ok(block) => {
                        prop_assert!(block.bytes >= bytes.max(1));
                        let needed = if bytes >= 64 << 10 { 4096 } else { align.max(64) };
                        prop_assert_eq!(block.offset % needed, 0);
                        let pointer = heap.memory().pointer(block.offset, block.bytes).unwrap();
                        prop_assert_eq!(pointer.addr() as u64 % needed, 0);
                        let before = blocks.range(..block.offset + block.bytes).next_back();
                        prop_assert!(before.is_none_or(|(offset, (bytes, _))| offset + bytes <= block.offset));
                        // SAFETY: a block of this test alone.
                        let content = unsafe { std::slice::from_raw_parts_mut(pointer, block.bytes as usize) };
                        prop_assert!(content.iter().all(|byte| *byte == 0));
                        mark = mark % 255 + 1;
                        content.fill(mark);
                        blocks.insert(block.offset, (block.bytes, mark));
                    }
                    Err(error) => {
                        let NetError::OutOfMemory { used, size, .. } = error else { panic!("{error}") };
                        prop_assert_eq!((used, size), (heap.used(), ARENA));
                        // Half of the arena is never lost to the order of blocks of these sizes.
                        prop_assert!(used + bytes > ARENA / 4, "{}", error);
                    }
                },
                Step::Free(which) if !blocks.is_empty() => {
                    let offset = *blocks.keys().nth(which % blocks.len()).unwrap();
                    let (bytes, mark) = blocks.remove(&offset).unwrap();
                    let pointer = heap.memory().pointer(offset, bytes).unwrap();
                    // SAFETY: a block of this test alone.
                    let content = unsafe { std::slice::from_raw_parts(pointer, bytes as usize) };
                    prop_assert!(content.iter().all(|byte| *byte == mark));
                    heap.free(offset).unwrap();
                    let again = heap.free(offset).unwrap_err();
                    prop_assert_eq!(
                        again.to_string(),
                        format!("a free of offset {offset} of shared memory: no block in use starts there")
                    );
                }
                Step::Free(_) => {}
            }
            prop_assert_eq!(heap.used(), blocks.values().map(|(bytes, _)| bytes).sum::<u64>());
        }
        blocks.into_keys().for_each(|offset| heap.free(offset).unwrap());
        prop_assert_eq!(heap.used(), 0);
        // All ranges have joined again, but for a slab that is kept, and has half of the arena on one side.
        heap.alloc(ARENA / 2, 64).unwrap();
    }
}

#[test]
fn threads_get_blocks_of_their_own() {
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let world = local(1).unwrap();
    let heap = world[0].heap().unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=3_u8 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let bytes = 1 + round * 977 % 100_000;
                    let block = heap.alloc(bytes, 64).unwrap();
                    let pointer = heap.memory().pointer(block.offset, bytes).unwrap();
                    // SAFETY: a block of this thread alone.
                    unsafe {
                        assert_eq!(pointer.read(), 0);
                        pointer.write_bytes(thread, bytes as usize);
                        std::thread::yield_now();
                        assert_eq!(pointer.add(bytes as usize - 1).read(), thread);
                    }
                    heap.free(block.offset).unwrap();
                }
            });
        }
    });
    assert_eq!(heap.used(), 0);
}

#[test]
fn what_the_arena_does_not_have_is_refused() {
    let world = World::with_arenas(&[Member::default()], ARENA).unwrap();
    let transport = SharedTransport::join(&world, Peer(0)).unwrap();
    let heap = transport.heap().unwrap();
    let error = heap.alloc(ARENA + 1, 64).unwrap_err().to_string();
    assert!(
        error.contains("for 8388609 bytes: 0 of the 8388608 bytes of this process's arena are in use"),
        "{error}"
    );
    assert!(matches!(heap.alloc(u64::MAX, 64), Err(NetError::OutOfMemory { .. })));
    for align in [0, 3, 8192] {
        let error = heap.alloc(1, align).unwrap_err().to_string();
        assert!(error.ends_with("expected a power of two of at most 4096"), "{error}");
    }
    assert!(matches!(heap.free(64), Err(NetError::NotABlock { offset: 64 })));
}

/// Memory that was freed goes back to the system, or a program's peak would be its size for ever.
#[test]
fn freed_pages_take_no_memory() {
    let world = World::with_arenas(&[Member::default()], 64 << 20).unwrap();
    let transport = SharedTransport::join(&world, Peer(0)).unwrap();
    let heap = transport.heap().unwrap();
    let block = heap.alloc(32 << 20, 64).unwrap();
    let pointer = heap.memory().pointer(block.offset, block.bytes).unwrap();
    // SAFETY: a block of this test alone.
    unsafe { pointer.write_bytes(1, block.bytes as usize) };
    let before = world.bytes_in_memory().unwrap();
    assert!(before >= 32 << 20);
    heap.free(block.offset).unwrap();
    assert!(world.bytes_in_memory().unwrap() <= before - (32 << 20));
}
