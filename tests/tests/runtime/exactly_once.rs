//! Every work item runs exactly once, and a phase begins when the one before has drained.

use super::model::{Case, case};
use flash::kernel::views::{Read, Scatter, Whole};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Dim, kernel};
use flash_core::descriptor::Attributes;
use flash_tests::in_process;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A kernel of some dimensions whose items draw a number and leave their index under it: `log[0]`
/// is the number drawn next.
macro_rules! recorder {
    ($name:ident, $args:ident, $text:tt, $n:tt, $($dim:ident)+) => {
        #[derive(KernelDefinition)]
        #[kernel(name = $text, dims($($dim),+))]
        struct $name<'a> {
            strides: Whole<'a, Read<u64>>,
            log: Scatter<'a, u64>,
        }

        #[kernel(devices)]
        impl CpuItem<$name<'_>> for Recorder {
            fn item(index: Index<$n>, k: $args<'_>) {
                let mut id = 0;
                for d in 0..$n {
                    id += index[d] as u64 * k.strides[d];
                }
                let number = k.log.add(0, 1);
                k.log.add(1 + number as usize, 1 + id);
            }
        }
    };
}

struct Recorder;
recorder!(Record1, Record1Item, "once.one", 1, a);
recorder!(Record2, Record2Item, "once.two", 2, a b);
recorder!(Record3, Record3Item, "once.three", 3, a b c);
recorder!(Record5, Record5Item, "once.five", 5, a b c d e);

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A dimension's values are below this.
const RADIX: u64 = 64;

fn id(values: &[u64]) -> u64 {
    values.iter().rev().fold(0, |id, v| id * RADIX + v)
}

fn strides() -> Vec<u64> {
    (0..5).map(|d| RADIX.pow(d)).collect()
}

/// Has the threads of a small launch take part, too.
fn in_parallel(mut options: Attributes) -> Attributes {
    options.set_by_name("cpu.parallel", true.into(), false);
    options
}

/// A pipeline of one recorded launch.
fn recording<'a>(
    rt: &RuntimeObj,
    case: &Case,
    strides: &'a FlashMemory<u64>,
    log: &'a FlashMemory<u64>,
) -> Pipeline<'a> {
    let options = in_parallel(case.options(&NAMES));
    let dims: Vec<Dim> = case.dims();
    match dims.len() {
        1 => rt.submit(Record1::of(strides, log)).options(options).defer(dims),
        2 => rt.submit(Record2::of(strides, log)).options(options).defer(dims),
        3 => rt.submit(Record3::of(strides, log)).options(options).defer(dims),
        5 => rt.submit(Record5::of(strides, log)).options(options).defer(dims),
        n => panic!("there is no recorder of {n} dimensions"),
    }
}

/// Phase by phase, the items that have run are those of the table.
fn assert_recorded(log: &[u64], phases: &[Vec<Vec<u64>>]) {
    let items: usize = phases.iter().map(Vec::len).sum();
    assert_eq!(log[0], items as u64, "work items that have run");
    let mut ran = log[1..=items].iter();
    for (number, phase) in phases.iter().enumerate() {
        let mut expected: Vec<u64> = phase.iter().map(|values| 1 + id(values)).collect();
        let mut found: Vec<u64> = ran.by_ref().take(phase.len()).copied().collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "items of phase {number}");
    }
}

fn every_space_runs_once(cases: u32) {
    let rt = flash_tests::runtime();
    let profile = Profile::new();
    let profiled = rt.options(&profile);
    let strides = FlashMemory::from(strides());
    let spaces = prop_oneof![case(1, 40), case(2, 9), case(3, 6), case(5, 3)];
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&spaces, |case| {
        let phases = case.phases();
        let log = FlashMemory::<u64>::zeroed(phases.iter().map(Vec::len).sum::<usize>() + 1);
        recording(&profiled, &case, &strides, &log).exec().unwrap();
        let told: Vec<_> = profile.take().iter().map(|launch| (launch.phases, launch.items)).collect();
        let items = phases.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(told, [(phases.len() as u64, items)], "phases and items");
        assert_recorded(&log.read().unwrap(), &phases);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[flash_tests::test]
fn every_item_of_any_space_runs_once_and_phases_do_not_mix_on_one_thread() {
    in_process(&[("FLASH_CPU_THREADS", "1")], || every_space_runs_once(300));
}

#[flash_tests::test]
fn every_item_of_any_space_runs_once_and_phases_do_not_mix_on_two_threads() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || every_space_runs_once(1000));
}

#[flash_tests::test]
fn every_item_of_any_space_runs_once_and_phases_do_not_mix_on_seven_threads() {
    in_process(&[("FLASH_CPU_THREADS", "7")], || every_space_runs_once(300));
}

/// 24 * 3 * 4 items in 12 phases.
fn stages() -> Case {
    use super::model::{Barriers, Entry};
    Case {
        entries: vec![Entry::Count(24), Entry::Count(3), Entry::Count(4)],
        sort: vec![],
        group: Some(Barriers::Dims(vec![1])),
    }
}

fn a_kept_pipeline(times: u32) {
    let rt = flash_tests::runtime();
    let case = stages();
    let phases = case.phases();
    assert_eq!(phases.len(), 12);
    let (strides, log) = (FlashMemory::from(strides()), FlashMemory::<u64>::zeroed(24 * 3 * 4 + 1));
    let pipeline = recording(&rt, &case, &strides, &log);
    for _ in 0..times {
        log.write().unwrap().fill(0);
        pipeline.exec().unwrap();
        assert_recorded(&log.read().unwrap(), &phases);
    }
}

#[flash_tests::test]
fn a_pipeline_that_runs_a_thousand_times_runs_every_item_once_each_time() {
    for threads in ["1", "2", "7"] {
        in_process(&[("FLASH_CPU_THREADS", threads)], || a_kept_pipeline(1000));
    }
}

fn eight_host_threads(times: usize) {
    let rt = flash_tests::runtime();
    let case = stages();
    let phases = case.phases();
    let strides = FlashMemory::from(strides());
    let items = 24 * 3 * 4;
    let shared = FlashMemory::<u64>::zeroed(8 * times * items + 1);
    let together = recording(&rt, &case, &strides, &shared);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let log = FlashMemory::<u64>::zeroed(items + 1);
                let alone = recording(&rt, &case, &strides, &log);
                for _ in 0..times {
                    log.write().unwrap().fill(0);
                    alone.exec().unwrap();
                    assert_recorded(&log.read().unwrap(), &phases);
                    together.exec().unwrap();
                }
            });
        }
    });
    // One pipeline on one memory: its executions follow each other.
    let all: Vec<_> = (0..8 * times).flat_map(|_| phases.iter().cloned()).collect();
    assert_recorded(&shared.read().unwrap(), &all);
}

#[flash_tests::test]
fn launches_of_eight_host_threads_at_once_each_run_every_item_once() {
    in_process(&[("FLASH_CPU_THREADS", "2")], || eight_host_threads(50));
}

#[flash_tests::test]
fn launches_of_eight_host_threads_on_a_team_of_seven_each_run_every_item_once() {
    in_process(&[("FLASH_CPU_THREADS", "7")], || eight_host_threads(50));
}

#[flash_tests::test]
fn exec_returns_after_a_large_launch_has_finished() {
    let rt = flash_tests::runtime();
    let n = 300_000;
    let (strides, log) = (FlashMemory::from(vec![1u64]), FlashMemory::<u64>::zeroed(n + 1));
    rt.submit(Record1::of(&strides, &log)).exec([n]).unwrap();
    let mut log = log.write().unwrap();
    assert_eq!(log[0], n as u64);
    log[1..].sort_unstable();
    assert!(log[1..].iter().enumerate().all(|(i, &ran)| ran == i as u64 + 1));
}
