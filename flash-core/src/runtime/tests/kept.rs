//! Runs over several devices that are repeated without a walk: that they are, and what ends it.

use super::super::{Pipeline, RuntimeObj, get_runtime};
use super::failing::{FailingDevice, Fault, fault, lock};
use super::kernels::{Axpy, Fill, Sum};
use crate::error::Error;
use crate::memory::FlashMemory;
use flash_backend::register_backend;
use flash_backend::{Backend, HostSettings, Unavailable};
use flash_types::descriptor::{part_by, weights};

/// Two devices with memories of their own that work without the host.
struct Alone;

// SAFETY: `submit` runs every row of every phase once, the phases one after the other.
unsafe impl Backend for Alone {
    const KEY: &'static str = "TEST_ALONE";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "cpu";
    type Device = FailingDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<FailingDevice>, Unavailable> {
        Ok((3..5).map(|space| FailingDevice::new(space, false)).collect())
    }
}

register_backend!(Alone);

const N: usize = if cfg!(miri) { 32 } else { 64 };
const NEVER: u64 = u64::MAX;

fn halves() -> RuntimeObj {
    get_runtime("TEST_ALONE").unwrap().options(weights([1, 1]))
}

fn repeats(pipeline: &Pipeline<'_>) -> u32 {
    pipeline.buffer.repeats()
}

fn run(pipeline: &Pipeline<'_>, times: u32) -> u32 {
    let before = repeats(pipeline);
    (0..times).for_each(|_| pipeline.exec().unwrap());
    repeats(pipeline) - before
}

#[test]
fn a_run_is_repeated_until_its_arrays_are_elsewhere() {
    let _alone = lock();
    let rt = halves();
    let (x, y) = (FlashMemory::from([1u64; N]), FlashMemory::from([0u64; N]));
    let step = rt.submit(Axpy::of(3, &x, &y)).defer([N]);
    // One brings the arrays, and one is noted.
    assert_eq!(run(&step, 5), 3);
    assert_eq!(y.read().unwrap()[..], [15; N]);
    // The host has a copy now, which a walk makes stale. Then all is as it was.
    assert_eq!(run(&step, 4), 3);
    // It has written: the devices get that again, in new buffers. Those may have the addresses of the old
    // ones, and then the run that is kept is still right.
    x.write().unwrap()[7] = 2;
    assert!((2..=3).contains(&run(&step, 4)));
    let mut expected = [15 + 8 * 3; N];
    expected[7] += 4 * 3;
    assert_eq!(y.read().unwrap()[..], expected);
    // What others have of what is only read does not change anything, once they have it.
    let other = FlashMemory::from([0u64; N]);
    let reader = rt.submit(Axpy::of(1, &x, &other)).defer([N]);
    assert_eq!((run(&step, 3), run(&reader, 4), run(&step, 4)), (2, 2, 4));
}

#[test]
fn a_recording_whose_arrays_change_each_time_is_not_noted_for_ever() {
    let _alone = lock();
    let rt = halves();
    let (x, y) = (FlashMemory::from([1u64; N]), FlashMemory::from([0u64; N]));
    let step = rt.submit(Axpy::of(3, &x, &y)).defer([N]);
    for turn in 1..=10 {
        assert_eq!(run(&step, 1), 0);
        assert_eq!(y.read().unwrap()[..], [3 * turn; N]);
    }
    assert_eq!(run(&step, 5), 0);
}

#[test]
fn what_is_recorded_again_is_repeated_with_its_numbers() {
    let _alone = lock();
    let rt = halves();
    let (x, y) = (FlashMemory::from([1u64; N]), FlashMemory::from([0u64; N]));
    let record = |a| rt.submit(Axpy::of(a, &x, &y)).defer([N]);
    let mut sum = 0;
    for a in 1..10 {
        let step = record(a);
        assert_eq!(repeats(&step), (a as u32).saturating_sub(3));
        step.exec().unwrap();
        sum += a;
    }
    assert_eq!(repeats(&record(0)), 7);
    assert_eq!(y.read().unwrap()[..], [sum; N]);
    // A longer one, and a part of it, are others.
    let long = record(1).submit(Axpy::of(2, &y, &x)).defer([N]);
    assert_eq!(repeats(&long), 0);
    assert_eq!(run(&long, 4), 2);
    drop(long);
    assert_eq!(run(&record(1), 1), 0);
}

#[test]
fn kernels_that_wait_for_another_device_are_walked() {
    let _alone = lock();
    let rt = get_runtime("TEST_AHEAD").unwrap().options(weights([1, 1]));
    let (x, y) = (FlashMemory::from([1u64; N]), FlashMemory::from([0u64; N]));
    // On devices that use the host's memory each one reads what the other has written.
    let sums = rt.submit(Axpy::of(1, &x, &y)).defer([N]).submit(Sum::of(&y, &x)).defer([N]);
    assert_eq!(run(&sums, 4), 0);
    // With what it has itself there is nothing to wait for.
    let own = rt.submit(Axpy::of(1, &x, &y)).defer([N]).submit(Axpy::of(1, &y, &x)).defer([N]);
    assert_eq!(run(&own, 4), 2);
}

#[test]
#[cfg_attr(miri, ignore = "others do the same in fewer runs")]
fn a_device_that_is_left_out_is_measured_now_and_then() {
    let _alone = lock();
    let rt = get_runtime("TEST_ALONE").unwrap().options(part_by("x"));
    let (x, y) = (FlashMemory::from([1u64; N]), FlashMemory::from([0u64; N]));
    let step = rt.submit(Axpy::of(1, &x, &y)).defer([N]);
    let targets = step.buffer.parts().0.nodes()[0].plan().targets().unwrap();
    (0..100).for_each(|_| targets[1].rate.add(1_000_000_000_000, 1));
    let rate = || targets[1].rate.get().unwrap();
    let before = rate();
    // It takes no time, as it turns out.
    let times = 700;
    let repeats = run(&step, times);
    assert!(repeats > times / 4 && repeats < times - 1, "{repeats} of {times}");
    assert!(rate() < before, "it has had a part");
    assert_eq!(y.read().unwrap()[..], [u64::from(times); N]);
}

#[test]
fn a_failure_in_a_repeated_run_is_what_it_is_in_a_walk() {
    let _alone = lock();
    let rt = halves();
    let arrays = || [1u64, 2, 3].map(|value| FlashMemory::from([value; N]));
    let of = |x: &[FlashMemory<u64>; 3], walks: u32| {
        fault(None);
        let chain = rt
            .submit(Axpy::of(1, &x[0], &x[1]))
            .defer([N])
            .submit(Axpy::of(1, &x[1], &x[2]))
            .defer([N])
            .submit(Fill::of(7, NEVER, &x[0]))
            .defer([N]);
        (0..4 - walks).for_each(|_| chain.exec().unwrap());
        let repeats = repeats(&chain);
        fault(Some((4, Fault::Lost)));
        let error = match chain.exec() {
            Err(Error::Launch(error)) => error,
            other => panic!("expected a failed launch, found {other:?}"),
        };
        fault(None);
        let text = [format!("{error:#}")].into_iter().chain(error.others().iter().map(|e| e.to_string()));
        let text: Vec<String> = text.collect();
        let left = x.each_ref().map(|x| [0, N - 1].map(|at| x.get(at).is_ok()));
        // The runtime goes on.
        x.iter().for_each(|x| x.write().unwrap().fill(1));
        chain.exec().unwrap();
        assert_eq!(x.each_ref().map(|x| x.get(N - 1).unwrap()), [7, 2, 3]);
        (repeats, text, left)
    };
    let walked = of(&arrays(), 3);
    let repeated = of(&arrays(), 0);
    assert_eq!((walked.0, repeated.0), (0, 2));
    assert_eq!((walked.1, walked.2), (repeated.1, repeated.2));
}
