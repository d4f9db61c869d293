//! A failure spreads to submissions that read its outputs, and to no others.

use flash::error::LaunchError;
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Code, Error, RuntimeObj};
use flash_tests::id;
use std::panic::panic_any;

/// to = from + 1, or a panic.
#[derive(KernelDefinition)]
#[kernel(name = "failure.next", dims(i))]
struct Next<'a> {
    /// The item that panics.
    panics: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "failure.bump", dims(i, turn), group_by(turn))]
struct Bump<'a> {
    /// The turn in which item 0 panics.
    panics: u64,
    #[along(i)]
    to: Item<'a, ReadWrite<u64>>,
}

struct Plain;

const NEVER: u64 = u64::MAX;

#[kernel(devices)]
impl CpuItem<Next<'_>> for Plain {
    fn item(i: Index<1>, k: NextItem<'_>) {
        assert!(i[0] as u64 != k.panics, "item {} panics", i[0]);
        k.to.set(*k.from + 1);
    }
}

#[kernel(devices)]
impl CpuItem<Bump<'_>> for Plain {
    fn item(ix: Index<2>, k: BumpItem<'_>) {
        assert!(ix[Bump::I] != 0 || ix[Bump::TURN] as u64 != k.panics, "turn {} panics", ix[Bump::TURN]);
        *k.to += 1;
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

fn launch_error(outcome: Result<(), Error>) -> LaunchError {
    match outcome {
        Err(Error::Launch(error)) => (*error).clone(),
        other => panic!("expected a failed launch, found {other:?}"),
    }
}

fn is_poisoned(memory: &FlashMemory<u64>) -> bool {
    match memory.read() {
        Ok(_) => false,
        Err(Error::Poisoned) => true,
        Err(other) => panic!("{other:?}"),
    }
}

#[flash_tests::test]
fn a_panic_of_one_item_is_an_error_with_kernel_device_position_and_words() {
    let (rt, from, to) = (cpu(), FlashMemory::<u64>::zeroed(1000), FlashMemory::<u64>::zeroed(1000));
    let outcome = rt.submit(Next::of(777, &from, &to)).exec([1000]);
    let text = outcome.as_ref().unwrap_err().to_string();
    for part in ["failure.next", &id(0), "submission 0", &panics(777)] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let error = launch_error(outcome);
    assert_eq!((error.kernel(), error.device(), error.position()), ("failure.next", &*id(0), 0));
    assert!(matches!(error.cause(), Error::Backend { code: Code::Kernel, .. }), "{error:?}");
    assert!(error.others().is_empty());
    let source = std::error::Error::source(&error).expect("a failed launch has a source");
    assert!(source.to_string().contains(&panics(777)));
}

/// What the error of an item that panics says: a text for devices has no values in its words.
fn panics(item: u64) -> String {
    match flash_tests::runs_functions() {
        true => format!("item {item} panics"),
        false => "item {} panics".to_owned(),
    }
}

/// What some panics carry: it panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(Bomb);
    }
}

/// to = 1, or a panic that carries a bomb.
#[derive(KernelDefinition)]
#[kernel(name = "failure.bomb", dims(i))]
struct Explode<'a> {
    /// The item that panics.
    panics: u64,
    to: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Explode<'_>> for Plain {
    fn item(i: Index<1>, k: ExplodeItem<'_>) {
        if i[0] as u64 == k.panics {
            panic_any(Bomb);
        }
        k.to.set(1);
    }
}

#[flash_tests::test]
fn a_panic_whose_payload_panics_when_dropped_is_an_error_like_others() {
    let (rt, to) = (flash_tests::runtime_of_functions(), FlashMemory::<u64>::zeroed(1000));
    let error = launch_error(rt.submit(Explode::of(500, &to)).exec([1000]));
    assert!(error.to_string().contains("a panic without a message"), "{error}");
    let pipeline = rt.pipeline().host(HostTask::new("bomb").write(&to), |_| panic_any(Bomb));
    let error = launch_error(pipeline.exec());
    assert!(error.to_string().contains("a panic without a message"), "{error}");
    let task = HostTask::new("bomb").write(to.clone());
    let handle = rt.pipeline().host(task, |_| panic_any(Bomb)).exec_async();
    assert!(handle.wait().unwrap_err().to_string().contains("a panic without a message"));
    rt.submit(Explode::of(NEVER, &to)).exec([1000]).unwrap();
    assert_eq!(*to.read().unwrap(), [1; 1000]);
}

#[flash_tests::test]
fn readers_of_a_failed_output_are_left_out_transitively_and_the_rest_runs() {
    let rt = cpu();
    let [a, b, c, d, x, y] = std::array::from_fn(|_| FlashMemory::<u64>::zeroed(8));
    let outcome = rt
        .submit(Next::of(NEVER, &x, &y))
        .defer([8]) // 0
        .submit(Next::of(3, &a, &b))
        .defer([8]) // 1: fails
        .submit(Next::of(NEVER, &b, &c))
        .defer([8]) // 2: reads b
        .submit(Next::of(NEVER, &y, &x))
        .defer([8]) // 3: independent
        .submit(Next::of(NEVER, &c, &d))
        .defer([8]) // 4: reads c
        .submit(Next::of(NEVER, &x, &a))
        .exec([8]); // 5: writes what 1 only read
    let error = launch_error(outcome);
    assert_eq!((error.position(), error.others().len()), (1, 2));
    assert!(matches!(error.cause(), Error::Backend { .. }));
    for (other, position) in error.others().iter().zip([2, 4]) {
        assert_eq!((other.position(), other.kernel()), (position, "failure.next"));
        assert!(matches!(other.cause(), Error::Skipped { argument, .. } if argument == "from"), "{other:?}");
    }
    assert!(error.to_string().contains("2 more"), "{error}");
    assert_eq!([&a, &b, &c, &d, &x, &y].map(is_poisoned), [false, true, true, true, false, false]);
    assert_eq!((y.get(0).unwrap(), x.get(0).unwrap(), a.get(0).unwrap()), (1, 2, 3));
}

#[flash_tests::test]
fn a_complete_write_within_the_pipeline_heals() {
    let rt = cpu();
    let [a, b, c] = std::array::from_fn(|_| FlashMemory::<u64>::zeroed(8));
    let outcome = rt
        .submit(Next::of(0, &a, &b))
        .defer([8])
        .submit(Next::of(NEVER, &a, &b))
        .defer([8]) // writes all of b
        .submit(Next::of(NEVER, &b, &c))
        .exec([8]);
    let error = launch_error(outcome);
    assert_eq!((error.position(), error.others().len()), (0, 0));
    assert_eq!((b.get(7).unwrap(), c.get(7).unwrap()), (1, 2));
}

#[flash_tests::test]
fn what_was_poisoned_before_the_pipeline_counts() {
    let rt = cpu();
    let [a, b, c] = std::array::from_fn(|_| FlashMemory::<u64>::zeroed(8));
    rt.submit(Next::of(0, &a, &b)).exec([8]).unwrap_err();
    let outcome = rt.submit(Next::of(NEVER, &a, &c)).defer([8]).submit(Bump::of(NEVER, &b)).exec((8, 1));
    let error = launch_error(outcome);
    assert_eq!(error.position(), 1);
    assert!(matches!(error.cause(), Error::Skipped { argument, .. } if argument == "to"));
    assert_eq!(c.get(0).unwrap(), 1);
}

#[flash_tests::test]
fn several_failures_are_attached_to_the_first_in_chain_order() {
    let rt = cpu();
    let memories: [FlashMemory<u64>; 6] = std::array::from_fn(|_| FlashMemory::zeroed(4));
    let mut chain = rt.pipeline();
    for (k, pair) in memories.chunks(2).enumerate() {
        chain = chain.submit(Next::of(k as u64, &pair[0], &pair[1])).defer([4]);
    }
    let error = launch_error(chain.exec());
    assert!(error.cause().to_string().contains(&panics(0)));
    let others: Vec<_> = error.others().iter().map(|e| (e.position(), e.cause().to_string())).collect();
    assert_eq!((others[0].0, others[1].0, others.len()), (1, 2, 2));
    assert!(others[1].1.contains(&panics(2)), "{others:?}");
}

#[flash_tests::test]
fn after_a_failure_the_next_execution_works() {
    let (rt, from, to) = (cpu(), FlashMemory::<u64>::zeroed(1 << 16), FlashMemory::<u64>::zeroed(1 << 16));
    for k in 0..50 {
        rt.submit(Next::of(k * 1300, &from, &to)).exec([1 << 16]).unwrap_err();
        assert!(is_poisoned(&to));
        rt.submit(Next::of(NEVER, &from, &to)).exec([1 << 16]).unwrap();
        assert!(to.read().unwrap().iter().all(|&v| v == 1));
    }
}

#[flash_tests::test]
fn a_kept_pipeline_works_again_when_the_reason_is_gone() {
    let (rt, to) = (cpu(), FlashMemory::<u64>::zeroed(4));
    let [a, b] = std::array::from_fn(|_| FlashMemory::<u64>::zeroed(4));
    let pipeline = rt.submit(Next::of(NEVER, &a, &b)).defer([4]).submit(Next::of(NEVER, &b, &to)).defer([4]);
    rt.submit(Next::of(0, &b, &a)).exec([4]).unwrap_err();
    assert_eq!(launch_error(pipeline.exec()).others().len(), 1);
    a.write().unwrap().fill(10);
    pipeline.exec().unwrap();
    assert_eq!(*to.read().unwrap(), [12; 4]);
}

#[flash_tests::test]
fn a_panic_in_a_phase_keeps_the_later_phases_from_running() {
    let (rt, to) = (flash_tests::runtime_of_functions(), FlashMemory::<u64>::zeroed(64));
    for parallel in [false, true] {
        let mut options = flash_core::descriptor::Attributes::default();
        options.set_by_name("cpu.parallel", parallel.into(), false);
        to.write().unwrap().fill(0);
        let text = rt
            .submit(Bump::of(5, to.range(..).unwrap()))
            .options(options)
            .exec((64, 100))
            .unwrap_err()
            .to_string();
        assert!(text.contains("turn 5 panics") && text.contains("phase 5"), "{text}");
        assert!(is_poisoned(&to));
        let ran = to.write().unwrap()[1];
        assert!(ran == 5 || ran == 6, "of the others, {ran} phases ran");
    }
}

#[flash_tests::test]
fn a_failure_with_slices_reports_and_leaves_them_to_the_host() {
    let (rt, from) = (cpu(), [1u64; 16]);
    let mut to = [0u64; 16];
    rt.submit(Next::of(15, &from[..], &mut to[..])).exec([16]).unwrap_err();
    rt.submit(Next::of(NEVER, &from[..], &mut to[..])).exec([16]).unwrap();
    assert_eq!(to, [2; 16]);
}

#[flash_tests::test]
fn threads_that_fail_and_threads_that_succeed_do_not_disturb_each_other() {
    let rt = cpu();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let rt = &rt;
            scope.spawn(move || {
                let (from, to) = (FlashMemory::<u64>::zeroed(5000), FlashMemory::<u64>::zeroed(5000));
                for k in 0..50 {
                    let panics = if thread % 2 == 0 { k * 99 } else { NEVER };
                    let outcome = rt.submit(Next::of(panics, &from, &to)).exec([5000]);
                    assert_eq!(outcome.is_err(), thread % 2 == 0);
                }
                assert_eq!(is_poisoned(&to), thread % 2 == 0);
            });
        }
    });
}
