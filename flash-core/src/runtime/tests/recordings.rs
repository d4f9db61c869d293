//! The remains of one recording in the next, which must not be dereferenced after their memory is freed.

use super::kernels::*;
use super::{fresh, runtimes, serial};
use crate::Error;
use crate::memory::FlashMemory;
use crate::runtime::arena::Bump;

const NEVER: u64 = u64::MAX;

#[test]
fn the_same_submission_again_with_new_scalars() {
    for rt in runtimes() {
        let (x, y) = (FlashMemory::from([1u64, 2, 3]), FlashMemory::from([0u64, 0, 0]));
        for a in 0..5 {
            rt.submit(Axpy::of(a, &x, &y)).exec([3]).unwrap();
        }
        assert_eq!(*y.read().unwrap(), [10, 20, 30]);
        // Other dimensions, other memories, and the first ones again.
        rt.submit(Axpy::of(1, &x, &y)).exec([2]).unwrap();
        rt.submit(Axpy::of(1, &y, &x)).exec([3]).unwrap();
        rt.submit(Axpy::of(1, &x, &y)).exec([3]).unwrap();
        rt.submit(Axpy::of(1, &x, &y)).exec([3]).unwrap();
        assert_eq!(*y.read().unwrap(), [35, 70, 96]);
    }
}

#[test]
fn a_hot_launch_that_is_refused_or_fails() {
    let rt = serial();
    let out = FlashMemory::<u64>::zeroed(4);
    for value in 0..3 {
        rt.submit(Fill::of(value, NEVER, &out)).exec([4]).unwrap();
    }
    let guard = out.read().unwrap();
    assert!(matches!(rt.submit(Fill::of(9, NEVER, &out)).exec([4]), Err(Error::Borrowed { .. })));
    assert_eq!(*guard, [2; 4]);
    drop(guard);
    let error = rt.submit(Fill::of(9, 1, &out)).exec([4]).unwrap_err();
    assert!(matches!(error, Error::Launch(ref e) if e.kernel == "test.fill"));
    assert!(matches!(out.read(), Err(Error::Poisoned)));
    // Poisoned: the distributed path, which heals.
    rt.submit(Fill::of(4, NEVER, &out)).exec([4]).unwrap();
    rt.submit(Fill::of(5, NEVER, &out)).exec([4]).unwrap();
    assert_eq!(*out.read().unwrap(), [5; 4]);
}

#[test]
fn memories_that_are_gone_leave_ghosts_that_nobody_follows() {
    for rt in runtimes() {
        for round in 0..6u64 {
            // New ones each time, often where the last ones were.
            let (x, y) = (FlashMemory::from(vec![round; 3]), FlashMemory::from([1u64; 3]));
            rt.submit(Axpy::of(2, &x, &y)).exec([3]).unwrap();
            assert_eq!(*y.read().unwrap(), [2 * round + 1; 3]);
            let mut slice = vec![round; 2 + round as usize % 2];
            rt.submit(Axpy::of(1, &x, &mut slice)).exec([2]).unwrap();
            assert_eq!(slice[..2], [2 * round; 2]);
        }
        // An owned one lives as long as the pipeline.
        let out = FlashMemory::<u64>::zeroed(2);
        let chain = rt.submit(Sum::of(FlashMemory::from([1u64, 2]), &out)).defer([2]);
        chain.exec().unwrap();
        chain.exec().unwrap();
        drop(chain);
        assert_eq!(*out.read().unwrap(), [3, 3]);
    }
}

/// A chain with a difference somewhere, compared with the remains of the chain before.
#[test]
fn chains_that_differ_from_some_place_on() {
    let rt = serial();
    let memories: Vec<FlashMemory<u64>> = (0..20).map(|i| FlashMemory::from([i; 3])).collect();
    let mut expect: Vec<u64> = (0..20).collect();
    let lengths = [6usize, 6, 9, 3, 9, 19, 1, 19, 6, 19];
    for (round, &length) in lengths.iter().enumerate() {
        let mut chain = rt.pipeline();
        for i in 0..length {
            // From `length / 2` on every second round differs, with other kernels between.
            let odd = round % 2 == 1 && i >= length / 2;
            let (from, to) = if odd { (i + 1, i) } else { (i, i + 1) };
            if odd && i % 3 == 0 {
                chain = chain.submit(Fill::of(i as u64, NEVER, &memories[to])).defer([3]);
                expect[to] = i as u64;
            }
            chain = chain.submit(Axpy::of(round as u64, &memories[from], &memories[to])).defer([3]);
            expect[to] += round as u64 * expect[from];
            if i % 4 == 3 {
                let dims = (3, 1 + round as u64 % 3);
                chain = chain.submit(Shift::of(&memories[to])).defer(dims);
                expect[to] += dims.1;
            }
        }
        chain.exec().unwrap();
        for (memory, expect) in memories.iter().zip(&expect) {
            assert_eq!(*memory.read().unwrap(), [*expect; 3], "round {round}");
        }
    }
}

#[test]
fn a_recording_with_an_error_or_an_option_does_not_stay() {
    let rt = serial();
    let (x, y) = (FlashMemory::from([1u64; 3]), FlashMemory::from([0u64; 3]));
    let profile = crate::Profile::new();
    for _ in 0..2 {
        rt.submit(Axpy::of(1, &x, &y)).exec([3]).unwrap();
        rt.submit(Axpy::of(1, &x, &y)).exec([4]).unwrap_err();
        rt.submit(Axpy::of(1, &x, &y)).options(&profile).exec([3]).unwrap();
        rt.submit(Axpy::of(1, x.clone(), &y)).exec([3]).unwrap();
        drop(rt.submit(Axpy::of(1, &x, &y)));
        drop(rt.submit(Axpy::of(1, &x, &y)).defer([3]));
        rt.submit(Shift::of(&y)).options(flash_types::descriptor::sort_by(["step"])).exec((3, 2)).unwrap();
    }
    assert_eq!((profile.take().len(), &*y.read().unwrap()), (2, &[10; 3][..]));
}

#[test]
fn buffers_pass_from_runtime_to_runtime_and_from_thread_to_thread() {
    let out = FlashMemory::<u64>::zeroed(3);
    let [first, second] = fresh();
    for rt in [&first, &second, &first] {
        rt.submit(Fill::of(1, NEVER, &out)).exec([3]).unwrap();
        rt.submit(Fill::of(2, NEVER, &out)).exec([3]).unwrap();
    }
    // More pipelines than a thread keeps buffers for, and dropped elsewhere.
    let chains: Vec<_> = (0..10).map(|i| first.submit(Fill::of(i, NEVER, &out)).defer([3])).collect();
    chains.iter().for_each(|chain| chain.exec().unwrap());
    std::thread::scope(|scope| scope.spawn(|| drop(chains)).join().unwrap());
    drop(first);
    second.submit(Fill::of(4, NEVER, &out)).exec([3]).unwrap();
    assert_eq!(*out.read().unwrap(), [4; 3]);
}

#[test]
fn several_threads_run_one_pipeline_and_share_memories() {
    let rt = serial();
    let (x, y) = (FlashMemory::from([1u64; 3]), FlashMemory::from([0u64; 3]));
    let mut slice = [0u64; 3];
    let chain = rt.submit(Axpy::of(1, &x, &y)).defer([3]).submit(Axpy::of(1, &x, &mut slice[..])).defer([3]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..4).for_each(|_| chain.exec().unwrap()));
            scope.spawn(|| (0..4).for_each(|_| rt.submit(Axpy::of(2, &x, &y)).exec([3]).unwrap()));
        }
        assert!(x.read_range(1..).is_ok(), "reading launches refuse no reader");
    });
    drop(chain);
    assert_eq!((&*y.read().unwrap(), slice), (&[24; 3][..], [8; 3]));
}

#[test]
fn arenas_grow_go_back_and_keep_what_was_given_out() {
    let mut bump = Bump::default();
    let start = bump.at;
    let places: Vec<*mut u8> = (0..40).map(|i| bump.alloc(1 + 200 * i)).collect();
    for (i, place) in places.iter().enumerate() {
        assert_eq!(place.align_offset(16), 0);
        // SAFETY: given out with that many bytes.
        unsafe { place.write_bytes(i as u8, 1 + 200 * i) };
    }
    // SAFETY: written above, and not given out again since.
    places.iter().enumerate().for_each(|(i, place)| assert_eq!(unsafe { *place.add(200 * i) }, i as u8));
    bump.at = start;
    assert_eq!((bump.alloc(1), bump.alloc(201)), (places[0], places[1]), "the same places again");
    // Larger than the next chunks: they are skipped.
    // SAFETY: given out with that many bytes.
    unsafe { bump.alloc(100_000).add(99_999).write(7) };
}
