//! A kernel that launches, or takes a guard, gets `Nested`; nothing waits for itself.

use flash::Error;
use flash::kernel;
use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, CpuWhole, Index, Space, Threads};
use flash::prelude::*;
use std::sync::{Mutex, OnceLock};

#[derive(KernelDefinition)]
#[kernel(name = "nested.inner", dims(i))]
struct Inner<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "nested.outer", dims(i))]
struct Outer<'a> {
    how: u32,
    to: Item<'a, Write<u32>>,
}

struct Plain;
struct ByWhole;

#[kernel]
impl CpuItem<Inner<'_>> for Plain {
    fn item(_: Index<1>, k: InnerItem<'_>) {
        k.to.set(1);
    }
}

/// What a kernel reaches by itself, past its arguments, in its own process.
struct Around {
    rt: RuntimeObj,
    own: FlashMemory<u32>,
    other: FlashMemory<u32>,
}

fn around() -> &'static Around {
    static AROUND: OnceLock<Around> = OnceLock::new();
    AROUND.get_or_init(|| Around {
        // An agent's devices are the controller's; it has a runtime of its own all the same.
        rt: get_runtime(&flash_tests::key()).or_else(|_| get_runtime("ALL_CPU")).unwrap(),
        own: FlashMemory::zeroed(64),
        other: FlashMemory::zeroed(64),
    })
}

fn misbehave(how: u32) -> Result<(), Error> {
    let Around { rt, own, other } = around();
    match how {
        0 => rt.submit(Inner::of(other)).exec([64]),
        1 => rt.submit(Inner::of(own)).exec([64]),
        2 => other.read().map(drop),
        3 => other.write().map(drop),
        4 => own.get(0).map(drop),
        5 => own.read_range(..3).map(drop),
        _ => rt.pipeline().exec(),
    }
}

#[kernel]
impl CpuItem<Outer<'_>> for Plain {
    fn item(_: Index<1>, k: OuterItem<'_>) {
        assert!(matches!(misbehave(k.how), Err(Error::Nested)));
        k.to.set(2);
    }
}

#[kernel(priority = -1)]
impl CpuWhole<Outer<'_>> for ByWhole {
    fn whole(_: Space<'_, Index<1>>, k: OuterWhole<'_>, threads: Threads<'_>) {
        let outcome = threads.install(|| misbehave(k.how));
        assert!(matches!(outcome, Err(Error::Nested)), "inside `install`: {outcome:?}");
        let outcome = misbehave(k.how);
        assert!(matches!(outcome, Err(Error::Nested)), "after `install`: {outcome:?}");
        threads.each(64, 0.0, |part| {
            let outcome = misbehave(k.how);
            assert!(matches!(outcome, Err(Error::Nested)), "in {part:?} of `each`: {outcome:?}");
        });
        let outcome = misbehave(k.how);
        assert!(matches!(outcome, Err(Error::Nested)), "after `each`: {outcome:?}");
        k.to.fill(2);
    }
}

/// These tests share the memories that the kernels reach.
static ALONE: Mutex<()> = Mutex::new(());

fn every_way(door: &str) {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let (rt, Around { own, other, .. }) = (flash_tests::runtime_of_functions(), around());
    let mut options = flash_core::descriptor::Attributes::default();
    options.set(Implementation::named(door));
    options.set_by_name("cpu.parallel", true.into(), false);
    for how in 0..7 {
        own.write().unwrap().fill(0);
        rt.submit(Outer::of(how, own)).options(options.clone()).exec([64]).unwrap();
        assert!(own.read().unwrap().iter().all(|&v| v == 2));
    }
    rt.submit(Inner::of(other)).exec([64]).unwrap();
}

#[flash_tests::test]
fn a_kernel_that_launches_or_takes_a_guard_gets_nested() {
    every_way("plain");
}

#[flash_tests::test]
fn a_whole_kernel_gets_nested_on_all_its_threads_and_after() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "2")], || every_way("by_whole"));
}

#[flash_tests::test]
fn a_whole_kernel_on_one_thread_gets_nested_on_all_its_threads_and_after() {
    flash_tests::in_process(&[("FLASH_CPU_THREADS", "1")], || every_way("by_whole"));
}

#[flash_tests::test]
fn after_a_kernel_panicked_its_thread_may_launch() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let rt = flash_tests::runtime_of_functions();
    #[derive(KernelDefinition)]
    #[kernel(name = "nested.panics", dims(i))]
    struct Panics<'a> {
        to: Item<'a, Write<u32>>,
    }
    #[kernel]
    impl CpuItem<Panics<'_>> for Plain {
        fn item(_: Index<1>, _: PanicsItem<'_>) {
            panic!("as it was asked to");
        }
    }
    let to = FlashMemory::<u32>::zeroed(1);
    assert!(rt.submit(Panics::of(&to)).exec([1]).is_err());
    rt.submit(Inner::of(&to)).exec([1]).unwrap();
    assert_eq!(to.get(0).unwrap(), 1);
}
