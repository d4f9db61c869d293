//! Memory: guards, borrows, poison, shapes.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use std::sync::mpsc;

#[derive(KernelDefinition)]
#[kernel(name = "memory.copy", dims(i))]
struct Copy<'a> {
    /// Items below this number fail.
    fail_below: u32,
    from: Item<'a, Read<u32>>,
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "memory.add", dims(i))]
struct Add<'a> {
    value: u32,
    to: Item<'a, ReadWrite<u32>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Copy<'_>> for Plain {
    fn item(i: Index<1>, k: CopyItem<'_>) {
        assert!(i[0] >= k.fail_below as usize, "as it was asked to");
        k.to.set(*k.from);
    }
}

#[kernel(devices)]
impl CpuItem<Add<'_>> for Plain {
    fn item(_: Index<1>, k: AddItem<'_>) {
        *k.to += k.value;
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

fn poisoned() -> FlashMemory<u32> {
    let (from, to) = (vec![0; 4], FlashMemory::<u32>::zeroed(4));
    cpu().submit(Copy::of(1, &from, &to)).exec([4]).unwrap_err();
    to
}

#[flash_tests::test]
fn guards_are_slices_of_the_contents() {
    let memory = FlashMemory::from([1u32, 2, 3, 4]);
    assert_eq!((memory.len(), memory.is_empty()), (4, false));
    assert_eq!(*memory.read().unwrap(), [1, 2, 3, 4]);
    assert_eq!(*memory.read_range(1..3).unwrap(), [2, 3]);
    assert_eq!(*memory.read_range(..=1).unwrap(), [1, 2]);
    assert_eq!(*memory.read_range(2..).unwrap(), [3, 4]);
    assert_eq!(memory.read_range(4..).unwrap().len(), 0);
    assert_eq!(memory.get(3).unwrap(), 4);
    memory.write().unwrap()[2] = 30;
    assert_eq!(memory.get(2).unwrap(), 30);
    assert!(FlashMemory::<u32>::zeroed(0).read().unwrap().is_empty());
}

#[flash_tests::test]
fn a_range_that_leaves_the_array_is_an_error_with_range_and_length() {
    let memory = FlashMemory::<u32>::zeroed(4);
    for error in [
        memory.read_range(2..5).map(drop).unwrap_err(),
        memory.get(4).map(drop).unwrap_err(),
        memory.get(usize::MAX).map(drop).unwrap_err(),
        memory.range(3..=usize::MAX).map(drop).unwrap_err(),
        #[allow(clippy::reversed_empty_ranges)]
        memory.range(3..2).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Range { len: 4, .. }), "{error:?}");
        assert!(error.to_string().contains("an array of 4 elements"), "{error}");
    }
}

/// Promises to write all, and writes every second element.
#[derive(KernelDefinition)]
#[kernel(name = "memory.forget", dims(i))]
struct Forget<'a> {
    value: u32,
    to: Item<'a, Write<u32>>,
}

#[kernel(devices)]
impl CpuItem<Forget<'_>> for Plain {
    fn item(i: Index<1>, k: ForgetItem<'_>) {
        if i[0].is_multiple_of(2) {
            k.to.set(k.value);
        }
    }
}

#[flash_tests::test]
fn what_a_kernel_forgets_to_write_is_nothing_of_another_array() {
    let rt = cpu();
    for len in [1 << 10, 1 << 20] {
        // Leaves the number in a buffer of each device.
        let secret = FlashMemory::from(vec![1u32; len]);
        rt.submit(Add::of(0x5EC2E6, &secret)).exec([len]).unwrap();
        drop(secret);
        let to = FlashMemory::from(vec![7u32; len]);
        rt.submit(Forget::of(5, &to)).exec([len]).unwrap();
        let to = to.read().unwrap();
        let is_right = |(i, value): (usize, &u32)| match i.is_multiple_of(2) {
            true => *value == 5,
            false => [0, 7].contains(value),
        };
        assert!(to.iter().enumerate().all(is_right), "{len}: {:?}", &to[..8]);
    }
}

#[flash_tests::test]
fn readers_share_and_a_writer_excludes_from_any_thread() {
    let memory = FlashMemory::<u32>::zeroed(4);
    let other = |what: fn(&FlashMemory<u32>) -> Result<(), Error>| {
        std::thread::scope(|scope| scope.spawn(|| what(&memory)).join().unwrap())
    };
    let read = |m: &FlashMemory<u32>| m.read().map(drop);
    let write = |m: &FlashMemory<u32>| m.write().map(drop);
    {
        let (_a, _b) = (memory.read().unwrap(), memory.read_range(..1).unwrap());
        other(read).unwrap();
        assert!(matches!(other(write), Err(Error::Borrowed { .. })));
        assert!(matches!(memory.write(), Err(Error::Borrowed { .. })));
    }
    {
        let _a = memory.write().unwrap();
        assert!(matches!(other(read), Err(Error::Borrowed { .. })));
        assert!(matches!(other(write), Err(Error::Borrowed { .. })));
        assert!(matches!(memory.get(0), Err(Error::Borrowed { .. })));
    }
    other(write).unwrap();
}

#[flash_tests::test]
fn a_launch_that_conflicts_with_a_guard_fails_at_once_and_runs_nothing() {
    let rt = cpu();
    let (from, to, before) =
        (FlashMemory::from([1u32, 2]), FlashMemory::<u32>::zeroed(2), FlashMemory::<u32>::zeroed(2));
    let copy = || rt.submit(Add::of(1, &before)).defer([2]).submit(Copy::of(0, &from, &to)).exec([2]);
    {
        let _reads = to.read().unwrap();
        let error = copy().unwrap_err();
        assert!(matches!(error, Error::Borrowed { .. }), "{error:?}");
        assert!(error.to_string().contains("guard"), "{error}");
    }
    {
        let _writes = from.write().unwrap();
        assert!(matches!(copy(), Err(Error::Borrowed { .. })));
    }
    assert_eq!(*before.read().unwrap(), [0, 0], "nothing of the chain ran");
    assert_eq!(*to.read().unwrap(), [0, 0]);
    copy().unwrap();
    assert_eq!((&*before.read().unwrap(), &*to.read().unwrap()), (&[1, 1][..], &[1, 2][..]));
}

#[flash_tests::test]
fn a_launch_that_only_reads_runs_beside_a_read_guard() {
    let (from, to) = (FlashMemory::from([1u32, 2]), FlashMemory::<u32>::zeroed(2));
    let guard = from.read().unwrap();
    cpu().submit(Copy::of(0, &from, &to)).exec([2]).unwrap();
    assert_eq!(*to.read().unwrap(), *guard);
}

#[flash_tests::test]
fn a_guard_of_another_thread_conflicts_with_a_launch() {
    let (memory, (tell, told)) = (FlashMemory::<u32>::zeroed(2), mpsc::channel());
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let memory = &memory;
        scope.spawn(move || {
            let _guard = memory.read().unwrap();
            tell.send(()).unwrap();
            wait.recv().unwrap();
        });
        told.recv().unwrap();
        let outcome = cpu().submit(Add::of(1, memory)).exec([2]);
        done.send(()).unwrap();
        assert!(matches!(outcome, Err(Error::Borrowed { .. })), "{outcome:?}");
    });
    cpu().submit(Add::of(1, &memory)).exec([2]).unwrap();
    assert_eq!(*memory.read().unwrap(), [1, 1]);
}

#[flash_tests::test]
fn guards_wait_for_launches() {
    let n = 200_000;
    let memory = FlashMemory::<u32>::zeroed(n);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                // Another thread's guard may be alive: that is an error, not a wait.
                while let Err(error) = cpu().submit(Add::of(1, &memory)).exec([n]) {
                    assert!(matches!(error, Error::Borrowed { .. }), "{error}");
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..200 {
            let guard = memory.read().unwrap();
            let first = guard[0];
            assert!(guard.iter().all(|&v| v == first), "a launch is seen whole or not at all");
        }
    });
    assert_eq!(memory.get(n - 1).unwrap(), 50);
}

#[flash_tests::test]
fn what_a_failed_launch_should_have_written_is_poisoned() {
    let to = poisoned();
    for error in [
        to.read().map(drop).unwrap_err(),
        to.read_range(..1).map(drop).unwrap_err(),
        to.get(3).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Poisoned), "{error:?}");
        assert!(error.to_string().contains("failed"), "{error}");
    }
    assert!(format!("{to:?}").contains("poisoned"), "{to:?}");
    assert!(to.read_range(..0).unwrap().is_empty(), "nothing of it is asked for");
}

#[flash_tests::test]
fn a_launch_that_reads_poison_is_left_out() {
    let (rt, bad, to) = (cpu(), poisoned(), FlashMemory::from([7u32; 4]));
    let error = rt.submit(Copy::of(0, &bad, &to)).exec([4]).unwrap_err();
    let Error::Launch(launch) = &error else { panic!("{error:?}") };
    assert!(matches!(launch.cause(), Error::Skipped { argument, .. } if argument == "from"), "{error:?}");
    assert!(matches!(to.read(), Err(Error::Poisoned)));
    let bad = poisoned();
    let error = rt.submit(Add::of(1, &bad)).exec([4]).unwrap_err();
    assert!(error.to_string().contains("`to`"), "what is read and written is read: {error}");
}

#[flash_tests::test]
fn a_complete_write_heals_and_a_partial_one_does_not() {
    let (rt, from) = (cpu(), [1u32, 2, 3, 4]);
    let to = poisoned();
    rt.submit(Copy::of(0, &from[..], &to)).exec([3]).unwrap();
    assert!(matches!(to.read(), Err(Error::Poisoned)), "3 of 4 elements");
    assert_eq!(*to.read_range(..3).unwrap(), from[..3]);
    rt.submit(Copy::of(0, &from[..], &to)).exec([0]).unwrap();
    assert!(matches!(to.read(), Err(Error::Poisoned)), "nothing");
    rt.submit(Copy::of(0, &from[..], to.range(..).unwrap())).exec((1..4,)).unwrap();
    assert_eq!(*to.read().unwrap(), from);

    let to = poisoned();
    rt.submit(Copy::of(0, &from[..], &to)).exec((count_by([2, 0, 3, 1]),)).unwrap();
    assert_eq!(*to.read().unwrap(), from);
}

#[flash_tests::test]
fn a_complete_write_of_a_part_does_not_heal_the_rest() {
    let (rt, from, to) = (cpu(), [1u32, 2, 3, 4], poisoned());
    rt.submit(Copy::of(0, &from[..], to.range(0..2).unwrap())).exec([2]).unwrap();
    assert!(matches!(to.get(3), Err(Error::Poisoned)));
}

#[flash_tests::test]
fn a_complete_write_that_fails_does_not_heal() {
    let (rt, from, to) = (cpu(), [1u32, 2, 3, 4], poisoned());
    rt.submit(Copy::of(4, &from[..], &to)).exec([4]).unwrap_err();
    assert!(matches!(to.read(), Err(Error::Poisoned)));
}

#[flash_tests::test]
fn a_write_guard_heals() {
    let to = poisoned();
    to.write().unwrap().fill(5);
    assert_eq!(*to.read().unwrap(), [5; 4]);
}

#[flash_tests::test]
fn a_shape_has_as_many_elements_as_the_memory() {
    let memory = FlashMemory::from(vec![0u32; 12]);
    assert!(memory.shape().is_empty());
    let memory = memory.with_shape([4, 3]).unwrap();
    assert_eq!((memory.shape(), memory.len()), (&[4, 3][..], 12));
    assert_eq!(FlashMemory::<u8>::zeroed([4, 3, 2]).shape(), [4, 3, 2]);
    let error = memory.with_shape([5, 3]).unwrap_err();
    assert!(matches!(error, Error::Shape(_)));
    let text = error.to_string();
    assert!(text.contains("[5, 3]") && text.contains("15") && text.contains("12"), "{text}");
    let huge = FlashMemory::<u32>::zeroed(1).with_shape([1u64 << 40, 1 << 40]).unwrap_err();
    assert!(huge.to_string().contains("2^64"), "{huge}");
}

#[flash_tests::test]
fn a_shape_is_given_before_a_memory_is_cloned() {
    let memory = FlashMemory::from(vec![0u32; 12]);
    let clone = memory.clone();
    assert!(matches!(memory.with_shape([4, 3]), Err(Error::Shape(_))));
    assert_eq!(clone.with_shape([3, 4]).unwrap().shape(), [3, 4]);
}

#[flash_tests::test]
fn a_vector_is_taken_without_copying() {
    let vec = vec![1u32; 1000];
    let at = vec.as_ptr();
    let memory = FlashMemory::from(vec);
    assert_eq!(memory.read().unwrap().as_ptr(), at);
    let mut with_room = Vec::with_capacity(64);
    with_room.extend([1u32, 2, 3]);
    let at = with_room.as_ptr();
    let memory = FlashMemory::from(with_room);
    assert_eq!((memory.read().unwrap().as_ptr(), memory.len()), (at, 3));
}

#[flash_tests::test]
fn a_clone_is_the_same_memory() {
    let memory = FlashMemory::from([1u32, 2]);
    let clone = memory.clone();
    cpu().submit(Add::of(10, &memory)).exec([2]).unwrap();
    assert_eq!(*clone.read().unwrap(), [11, 12]);
    let _guard = clone.read().unwrap();
    assert!(matches!(memory.write(), Err(Error::Borrowed { .. })));
    drop(memory);
    assert_eq!(clone.get(1).unwrap(), 12);
}

#[flash_tests::test]
fn debug_shows_the_contents_or_why_not() {
    let memory = FlashMemory::from([1u32, 2]);
    assert_eq!(format!("{memory:?}"), "FlashMemory([1, 2])");
    let _guard = memory.write().unwrap();
    assert!(format!("{memory:?}").contains("borrowed"), "{memory:?}");
}

#[flash_tests::test]
fn memories_are_made_of_what_a_program_has() {
    let made = [
        FlashMemory::from(vec![1u32, 2]),
        FlashMemory::from([1, 2]),
        FlashMemory::from(&[1, 2][..]),
        (1..3).collect(),
    ];
    assert!(made.iter().all(|m| *m.read().unwrap() == [1, 2]));
    assert_eq!(*FlashMemory::<[f64; 2]>::zeroed(2).read().unwrap(), [[0.0; 2]; 2]);
}

#[flash_tests::test]
fn memories_and_runtimes_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn cloned<T: Clone>() {}
    shared::<FlashMemory<f32>>();
    shared::<RuntimeObj>();
    shared::<Pipeline<'static>>();
    shared::<SubmitObj<'static>>();
    shared::<Error>();
    shared::<Profile>();
    cloned::<FlashMemory<f32>>();
    cloned::<RuntimeObj>();
    cloned::<Error>();
}

#[flash_tests::test]
fn a_vector_comes_back_without_a_copy() {
    let values: Vec<u32> = (0..100_000).collect();
    let (address, expected) = (values.as_ptr(), values.clone());
    let memory = FlashMemory::from(values);
    cpu().submit(Add::of(1, &memory)).exec([100_000]).unwrap();
    let back = memory.into_vec().unwrap();
    assert_eq!(back.as_ptr(), address);
    assert!(back.iter().zip(&expected).all(|(a, b)| *a == b + 1));
    // Of another handle's memory, of zeros, of a range collected at a place of its own, of nothing: a copy.
    let (memory, other) = (FlashMemory::from(back), FlashMemory::<u32>::zeroed(50_000));
    let handle = memory.clone();
    assert_eq!(memory.into_vec().unwrap(), handle.to_vec().unwrap());
    assert_eq!(other.into_vec().unwrap(), vec![0; 50_000]);
    let collected: FlashMemory<u32> = (0..100_000).collect();
    assert_eq!(collected.into_vec().unwrap(), expected);
    assert_eq!(FlashMemory::<u32>::zeroed(0).into_vec().unwrap(), [0_u32; 0]);
    assert_eq!(FlashMemory::from(Vec::<u32>::with_capacity(8)).into_vec().unwrap(), [0_u32; 0]);
    // A vector with room to grow keeps it.
    let mut roomy = Vec::with_capacity(100);
    roomy.push(5_u8);
    let mut roomy = FlashMemory::from(roomy).into_vec().unwrap();
    assert!(roomy.capacity() >= 100);
    roomy.push(6);
    assert_eq!(roomy, [5, 6]);
}

#[flash_tests::test]
fn a_poisoned_memory_gives_no_vector() {
    let memory = poisoned();
    assert!(matches!(memory.to_vec(), Err(Error::Poisoned)));
    assert!(matches!(memory.into_vec(), Err(Error::Poisoned)));
}

#[flash_tests::test]
fn filling_sets_everything_and_heals() {
    let memory = poisoned();
    memory.fill(3).unwrap();
    cpu().submit(Add::of(1, &memory)).exec([4]).unwrap();
    assert_eq!(memory.to_vec().unwrap(), [4; 4]);
    let guard = memory.read().unwrap();
    assert!(matches!(memory.fill(1), Err(Error::Borrowed { .. })));
    drop(guard);
}

#[test]
fn filling_fetches_nothing() {
    flash_tests::in_process(flash_tests::APART[1], || {
        let (rt, memory) = (cpu(), FlashMemory::<u32>::zeroed(1 << 20));
        rt.submit(Add::of(1, &memory)).exec([1 << 20]).unwrap();
        let before = rt.devices()[0].transfers();
        memory.fill(9).unwrap();
        assert_eq!(rt.devices()[0].transfers(), before);
        rt.submit(Add::of(1, &memory)).exec([1 << 20]).unwrap();
        assert_eq!(memory.into_vec().unwrap(), vec![10; 1 << 20]);
    });
}

#[flash_tests::test]
fn guards_are_iterated() {
    let memory = FlashMemory::from([1_u32, 2, 3]);
    for x in &mut memory.write().unwrap() {
        *x += 1;
    }
    let mut sum = 0;
    for x in &memory.read().unwrap() {
        sum += x;
    }
    assert_eq!(sum, 9);
}
