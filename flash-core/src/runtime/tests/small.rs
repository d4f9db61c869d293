//! Pipelines of small submissions, on several devices.

use super::super::small::SmallPipeline;
use super::super::{Pipeline, RuntimeObj, get_runtime};
use crate::kernel::views::{Item, ReadWrite};
use crate::kernel::{CpuItem, Index};
use crate::{FlashMemory, KernelDefinition, Profile, kernel};

/// to += 1. Only for these tests: what is known of its rate is the process's.
#[derive(KernelDefinition)]
#[kernel(name = "small.count", dims(i))]
struct Count<'a> {
    to: Item<'a, ReadWrite<u32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Count<'_>> for Plain {
    fn item(_: Index<1>, k: CountItem<'_>) {
        *k.to += 1;
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
