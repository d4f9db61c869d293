//! Pipelines of small submissions, on several devices.

use super::super::small::SmallPipeline;
use super::super::{Pipeline, RuntimeObj, get_runtime};
use super::run_all;
use super::serial::Done;
use crate::kernel::views::{Item, ReadWrite};
use crate::kernel::{CpuItem, Index};
use crate::{FlashMemory, KernelDefinition, Profile, kernel};
use flash_backend::register_backend;
use flash_backend::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable};
use flash_types::abi::Implementation;

/// to += 1. Only for these tests: what is known of its rate is the process's.
#[derive(KernelDefinition)]
#[kernel(name = "small.count", dims(i))]
struct Count<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

/// The same, and what is known of its rate is of another device.
#[derive(KernelDefinition)]
#[kernel(name = "small.count.ahead", dims(i))]
struct CountAhead<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Count<'_>> for Plain {
    fn item(_: Index<1>, k: CountItem<'_>) {
        *k.to += 1;
    }
}

#[kernel]
impl CpuItem<CountAhead<'_>> for Plain {
    fn item(_: Index<1>, k: CountAheadItem<'_>) {
        *k.to += 1;
    }
}

/// Two devices on the host's memory that say that they work without the host.
struct Ahead;

// SAFETY: `submit` runs every row of every phase once, and returns when all have run.
unsafe impl Backend for Ahead {
    const KEY: &'static str = "TEST_AHEAD";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "cpu";
    type Device = AheadDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<AheadDevice>, Unavailable> {
        Ok(vec![AheadDevice, AheadDevice])
    }
}

register_backend!(Ahead);

struct AheadDevice;

impl Device for AheadDevice {
    type Kernel = &'static Implementation;

    fn info(&self) -> DeviceInfo {
        DeviceInfo { test: true, host_memory: true, runs_functions: true, ..DeviceInfo::default() }
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Self::Kernel, Failure> {
        Ok(implementation)
    }

    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure> {
        run_all(launch)?;
        Ok(Some(Event::new(Done(Ok(())))))
    }
}

/// Lets an item take this many nanoseconds, as far as is known.
fn takes(rt: &RuntimeObj, nanoseconds: u64) {
    for target in rt.inner.plan_of::<Count<'_>>().targets().unwrap() {
        (0..5).for_each(|_| target.rate.add(nanoseconds, 1));
    }
}

/// As many submissions, in turn for these memories.
fn submissions<'a>(rt: &RuntimeObj, memories: &'a [FlashMemory<u32>], count: usize) -> Pipeline<'a> {
    let cycle = memories.iter().cycle().take(count);
    cycle.fold(rt.pipeline(), |pipeline, memory| pipeline.submit(Count::of(memory)).defer([2]))
}

fn is_small(pipeline: &Pipeline<'_>) -> bool {
    let (list, runtime) = pipeline.buffer.parts();
    SmallPipeline::of(list, runtime).is_some()
}

#[test]
fn small_submissions_that_depend_on_each_other_run_on_one_device() {
    let profile = Profile::new();
    let rt = get_runtime("TEST_SERIAL").unwrap().options(&profile);
    assert!(rt.devices().len() > 1);
    let memories = [0, 1].map(|_| FlashMemory::<u32>::zeroed(2));
    let chain = submissions(&rt, &memories, 9);
    assert!(!is_small(&chain), "nothing is known of its rate");
    takes(&rt, 100);
    assert!(is_small(&chain));
    assert!(!is_small(&submissions(&rt, &memories, 2)), "they do not depend on each other");
    chain.exec().unwrap();
    let devices: Vec<String> = profile.take().into_iter().map(|launch| launch.device).collect();
    assert_eq!(devices, vec![devices[0].clone(); 9]);
    assert_eq!([memories[0].get(1).unwrap(), memories[1].get(0).unwrap()], [5, 4]);

    // It takes far longer than that, again and again.
    let (list, runtime) = chain.buffer.parts();
    for round in 0.. {
        // The run above may have been the first such.
        let Some(small) = SmallPipeline::of(list, runtime) else { break };
        assert!(round < 5, "its rate is another one by now");
        small.has_taken(1e6, list);
    }
    takes(&rt, 1_000_000);
    assert!(!is_small(&chain));
}

#[test]
fn where_rates_contain_wake_ups_a_pipeline_is_tried_as_a_small_one() {
    let rt = get_runtime("TEST_AHEAD").unwrap();
    let memory = FlashMemory::<u32>::zeroed(2);
    let chain = (0..9).fold(rt.pipeline(), |chain, _| chain.submit(CountAhead::of(&memory)).defer([2]));
    let (list, runtime) = chain.buffer.parts();
    let rate = || &rt.inner.plan_of::<CountAhead<'_>>().targets().unwrap()[0].rate;
    let is_known = |nanoseconds: u64| {
        for target in rt.inner.plan_of::<CountAhead<'_>>().targets().unwrap() {
            target.rate.set(nanoseconds, 1);
        }
    };
    is_known(1_000_000);
    assert!(SmallPipeline::of(list, runtime).is_none(), "no thread is woken for that long");

    // At first, and then in every 16th launch.
    is_known(50_000);
    let mut trials: Vec<_> = (0..33).filter_map(|k| Some(k).zip(SmallPipeline::of(list, runtime))).collect();
    assert_eq!(trials.iter().map(|(k, _)| *k).collect::<Vec<_>>(), [0, 16, 32]);

    // They are large.
    let (_, trial) = trials.pop().unwrap();
    trial.has_taken(18.0 * 40_000.0, list); // 80 us each
    assert_eq!(rate().get().map(f64::round), Some(40_000.0));
    assert!(SmallPipeline::of(list, runtime).is_none());
    // They are small, and stay it.
    is_known(50_000);
    let (_, trial) = trials.pop().unwrap();
    trial.has_taken(18.0 * 1_000.0, list);
    assert_eq!(rate().get().map(f64::round), Some(1_000.0));
    (0..100).for_each(|_| assert!(SmallPipeline::of(list, runtime).is_some()));
    chain.exec().unwrap();
    assert_eq!(*memory.read().unwrap(), [9, 9]);
}
