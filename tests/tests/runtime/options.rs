//! Options of a submission or a runtime, beside arguments and dimensions.

use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Scatter, Write};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::descriptor::{Attribute, Attributes, Searchable};
use flash_core::devices::DeviceHandle;
use flash_tests::id;

/// Leaves the index of each item in the order in which they ran.
#[derive(KernelDefinition)]
#[kernel(name = "options.trace", dims(x, y), sort_by(x), group_by(y))]
struct Trace<'a> {
    log: Scatter<'a, u64>,
}

#[derive(KernelDefinition)]
#[kernel(name = "options.grid", dims(x, y))]
struct Grid<'a> {
    factor: u32,
    from: Item<'a, Read<u32>>,
    #[along(y, x)]
    to: Item<'a, Write<u32>>,
}

/// Nothing implements it.
#[derive(KernelDefinition)]
#[kernel(name = "options.missing", dims(x))]
struct Missing<'a> {
    factor: u32,
    from: Item<'a, Read<u32>>,
    to: Item<'a, ReadWrite<u32>>,
}

struct Plain;

#[kernel(devices)]
impl CpuItem<Trace<'_>> for Plain {
    fn item(ix: Index<2>, k: TraceItem<'_>) {
        let at = k.log.add(0, 1) as usize;
        k.log.add(at + 1, (10 * ix[1] + ix[0]) as u64);
    }
}

#[kernel(devices)]
impl CpuItem<Grid<'_>> for Plain {
    fn item(_: Index<2>, k: GridItem<'_>) {
        k.to.set(k.factor * k.from);
    }
}

fn cpu() -> RuntimeObj {
    flash_tests::runtime()
}

/// Phases of `Trace` on 2 times 3 items, each as the sorted indices yx.
fn phases(
    rt: &RuntimeObj,
    options: impl flash_core::descriptor::IntoOptions<flash_core::runtime::Options>,
) -> Vec<Vec<u64>> {
    let (log, profile) = (FlashMemory::<u64>::zeroed(7), Profile::new());
    rt.submit(Trace::of(&log)).options(options).options(&profile).exec([2, 3]).unwrap();
    let count = profile.take()[0].phases as usize;
    let log = log.read().unwrap();
    let mut phases: Vec<Vec<u64>> = log[1..].chunks(6 / count).map(<[u64]>::to_vec).collect();
    phases.iter_mut().for_each(|phase| phase.sort_unstable());
    phases
}

#[flash_tests::test]
fn a_trait_in_the_options_replaces_the_definitions_and_the_other_stays() {
    let (rt, none) = (cpu(), Attributes::default());
    // Sorted by x; a barrier where y, or x, changes.
    assert_eq!(phases(&rt, none.clone()), [[0], [10], [20], [1], [11], [21]]);
    // Barriers of the definition in the natural order.
    assert_eq!(phases(&rt, sort_by(["y"])), [[0, 1], [10, 11], [20, 21]]);
    // The definition's order with other barriers.
    assert_eq!(phases(&rt, group_by(["x"])), [[0, 10, 20], [1, 11, 21]]);
    assert_eq!(phases(&rt, group_by(only(["x"]))), [[0, 10, 20], [1, 11, 21]]);
    assert_eq!(phases(&rt, (sort_by(["y"]), group_by(("y", [1])))).len(), 2);
    // Of a runtime: for everything submitted to it; a submission's own come first.
    let rt = rt.options(group_by(["x"]));
    assert_eq!(phases(&rt, none), [[0, 10, 20], [1, 11, 21]]);
    assert_eq!(phases(&rt, group_by(["y"])), [[0], [10], [20], [1], [11], [21]]);
}

#[flash_tests::test]
fn a_dimension_that_the_kernel_has_not_is_an_error_with_those_it_has() {
    let log = FlashMemory::<u64>::zeroed(7);
    for error in [
        cpu().submit(Trace::of(&log)).options(sort_by(["z"])).exec([2, 3]).unwrap_err(),
        cpu().submit(Trace::of(&log)).options(group_by(["x", "z"])).exec([2, 3]).unwrap_err(),
        cpu().options(group_by(("z", [1]))).submit(Trace::of(&log)).exec([2, 3]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Option { .. }), "{error:?}");
        for part in ["options.trace", "`z`", "x, y"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
    assert_eq!(log.get(0).unwrap(), 0);
}

#[flash_tests::test]
fn devices_selects_among_those_of_the_runtime() {
    let (rt, log) = (cpu(), FlashMemory::<u64>::zeroed(7));
    rt.submit(Trace::of(&log)).options(Devices::key(id(0))).exec([2, 3]).unwrap();
    rt.options(Devices::key(flash_tests::key())).submit(Trace::of(&log)).exec([0, 0]).unwrap();
    let error = rt.submit(Trace::of(&log)).options(Devices::key(id(99))).exec([2, 3]).unwrap_err();
    assert!(error.to_string().contains(&id(99)), "{error}");
    let error = rt.options(Devices::key("ABACUS")).submit(Trace::of(&log)).exec([2, 3]).unwrap_err();
    assert!(error.to_string().contains("ABACUS"), "{error}");
    let context = flash_tests::context(&[("cpu.devices", "2")]);
    let (profile, log) = (Profile::new(), FlashMemory::<u64>::zeroed(7));
    let second = context.runtime("ALL_CPU").unwrap().options((Devices::key("ALL_CPU:1"), &profile));
    assert_eq!(second.devices().len(), 1);
    second.submit(Trace::of(&log)).exec([2, 3]).unwrap();
    assert_eq!(profile.take()[0].device, "ALL_CPU:1");
    let error = context.runtime("ALL_CPU:0").unwrap().options(Devices::key("ALL_CPU:1"));
    let error = error.submit(Trace::of(&log)).exec([2, 3]).unwrap_err().to_string();
    assert!(error.contains("ALL_CPU:0") && error.contains("ALL_CPU:1"), "{error}");
}

#[flash_tests::test]
fn devices_where_leaves_those_for_which_it_holds() {
    let (profile, log) = (Profile::new(), FlashMemory::<u64>::zeroed(7));
    let rt = flash_tests::context(&[("cpu.devices", "3")]).runtime("ALL_CPU").unwrap();
    let ids = |rt: &RuntimeObj| rt.devices().iter().map(|d| d.id().to_owned()).collect::<Vec<_>>();
    let not_first = rt.options((devices_where(|d: &DeviceHandle| d.id() != "ALL_CPU:0"), &profile));
    assert_eq!(ids(&not_first), ["ALL_CPU:1", "ALL_CPU:2"]);
    // Each leaves fewer, whether it is a key or a condition, of the runtime or of a submission.
    let last = not_first.options(devices_where(|d| !d.id().ends_with('1')));
    assert_eq!(ids(&last), ["ALL_CPU:2"]);
    let two = (Devices::key("ALL_CPU:0,1"), devices_where(|d| d.id() != "ALL_CPU:1"));
    assert_eq!(ids(&rt.options(two)), ["ALL_CPU:0"]);
    for _ in 0..4 {
        let second = devices_where(|d| d.id() != "ALL_CPU:2");
        not_first.submit(Trace::of(&log)).options(second).exec([2, 3]).unwrap();
        log.write().unwrap().fill(0);
    }
    assert!(profile.take().iter().all(|launch| launch.device == "ALL_CPU:1"));

    let of_a_runtime = not_first.options(devices_where(|d| d.id() == "ALL_CPU:0"));
    let of_a_runtime = of_a_runtime.submit(Trace::of(&log)).exec([2, 3]);
    let nowhere = devices_where(|d| d.id() == "ALL_CPU:0");
    let of_a_submission = not_first.submit(Trace::of(&log)).options(nowhere).exec([2, 3]);
    for error in [of_a_runtime.unwrap_err(), of_a_submission.unwrap_err()] {
        assert!(matches!(error, Error::Option { .. }), "{error:?}");
        for part in ["devices_where", "none of ALL_CPU:1, ALL_CPU:2"] {
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
    }
    assert_eq!(log.get(0).unwrap(), 0, "nothing runs");
}

#[flash_tests::test]
fn a_budget_is_that_of_the_devices_memories() {
    flash_tests::in_process(flash_tests::APART[2], || {
        let rt = flash_tests::runtime();
        let budgets = || rt.devices().iter().map(|d| d.memory_budget().unwrap()).collect::<Vec<_>>();
        let before = budgets();
        let small = rt.options((MemoryBudget(1 << 20), Devices::key(id(1))));
        assert_eq!(budgets(), [before[0], 1 << 20]);
        // Other options do not set it once more.
        assert!(rt.devices()[1].set_memory_budget(1 << 21));
        drop(small.options(Searchable::Exact));
        assert_eq!(budgets(), [before[0], 1 << 21]);
    });
}

#[flash_tests::test]
fn a_kernel_that_is_not_searchable_needs_the_name_of_an_implementation() {
    let (rt, log) = (cpu().options(Searchable::No), FlashMemory::<u64>::zeroed(7));
    let error = rt.submit(Trace::of(&log)).exec([2, 3]).unwrap_err();
    assert!(matches!(error, Error::NoImplementation(_)), "{error:?}");
    assert!(error.to_string().contains("`plain`") && error.to_string().contains("name"), "{error}");
    rt.submit(Trace::of(&log)).options(Implementation::named("plain")).exec([2, 3]).unwrap();
    rt.submit(Trace::of(&log)).options(Searchable::Exact).exec([0, 3]).unwrap();
    assert_eq!(log.get(0).unwrap(), 6);
}

fn unknown(required: bool) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_by_name("abacus.beads", 7.into(), required);
    attributes
}

#[flash_tests::test]
fn an_attribute_that_the_backend_does_not_know_is_ignored_unless_it_is_required() {
    let (rt, log) = (cpu(), FlashMemory::<u64>::zeroed(14));
    rt.submit(Trace::of(&log)).options(unknown(false)).exec([2, 3]).unwrap();
    rt.options(unknown(false)).submit(Trace::of(&log)).exec([2, 3]).unwrap();
    let of_a_submission = rt.submit(Trace::of(&log)).options(unknown(true));
    let of_a_runtime = rt.options(unknown(true)).submit(Trace::of(&log));
    for submission in [of_a_submission, of_a_runtime] {
        let text = submission.exec([2, 3]).unwrap_err().to_string();
        assert!(text.contains("abacus.beads") && text.contains("required"), "{text}");
        assert_eq!(log.write().unwrap()[0], 12, "the launch is refused, not run");
    }
}

/// An attribute of this crate.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Beads(u32);

#[typetag::serde]
impl Attribute for Beads {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[flash_tests::test]
fn any_crate_may_add_an_attribute() {
    let log = FlashMemory::<u64>::zeroed(7);
    cpu().submit(Trace::of(&log)).options((Beads(3), sort_by(["y"]))).exec([2, 3]).unwrap();
    assert_eq!(log.get(0).unwrap(), 6);
}

#[flash_tests::test]
fn sizes_gives_arrays_a_shape() {
    let rt = cpu();
    let (from, mut to) = ((0..12).collect::<Vec<u32>>(), vec![0u32; 12]);
    // 2 times 3 items in the corner of 4 times 3 elements; `to` has y first.
    rt.submit(Grid::of(2, &from, &mut to)).sizes([[4u64, 3], [3, 4]]).exec([2, 3]).unwrap();
    assert_eq!(to, [0, 8, 16, 2, 10, 18, 0, 0, 0, 0, 0, 0]);
    let memory = FlashMemory::<u32>::zeroed([3, 4]);
    let empty: [&[u64]; 2] = [&[4, 3], &[]];
    rt.submit(Grid::of(2, &from, &memory)).sizes(empty).exec([2, 3]).unwrap();
    assert_eq!(*memory.read().unwrap(), to[..], "an empty shape leaves the memory's own");
}

#[flash_tests::test]
fn a_failsafe_runs_where_nothing_implements_the_kernel_and_only_there() {
    let (rt, from) = (cpu(), FlashMemory::from([1u32, 2, 3]));
    let to = FlashMemory::from([10u32, 10, 10]);
    let body = |host: &mut flash_core::runtime::HostArgs<'_>| {
        let (factor, items) = (host.scalar::<u32>(0)?, host.dims()[0].len() as usize);
        let from = host.read::<u32>(1)?.to_vec();
        for (to, from) in host.write::<u32>(2)?.iter_mut().zip(from).take(items) {
            *to += factor * from;
        }
        for wrong in [
            host.scalar::<f32>(0).map(drop),
            host.scalar::<u32>(1).map(drop),
            host.read::<u64>(1).map(drop),
            host.write::<u32>(1).map(drop),
            host.read::<u32>(3).map(drop),
        ] {
            assert!(matches!(wrong, Err(Error::Argument { .. })), "{wrong:?}");
        }
        Ok(())
    };
    let pipeline = rt.submit(Missing::of(100, &from, &to)).failsafe(body).defer([2]);
    pipeline.exec().unwrap();
    pipeline.exec().unwrap();
    assert_eq!(*to.read().unwrap(), [210, 410, 10]);

    let grid = rt.submit(Grid::of(1, &from, &to)).failsafe(|_| panic!("a kernel is there"));
    grid.exec([3, 1]).unwrap();
    assert_eq!(*to.read().unwrap(), [1, 2, 3]);

    // Wrong dimensions are not the failsafe's business, and its error is the submission's.
    let error = rt.submit(Missing::of(1, &from, &to)).failsafe(body).exec([9]).unwrap_err();
    assert!(error.to_string().contains("`from`"), "{error}");
    let fails = |_: &mut flash_core::runtime::HostArgs<'_>| Err(Error::Shape("as it was asked to".into()));
    let error = rt.submit(Missing::of(1, &from, &to)).failsafe(fails).exec([3]).unwrap_err();
    assert!(
        error.to_string().contains("options.missing") && error.to_string().contains("as it was asked to"),
        "{error}"
    );
    assert!(matches!(to.read(), Err(Error::Poisoned)));
}

#[flash_tests::test]
fn a_profile_records_kernel_device_phases_items_and_times() {
    let (profile, other) = (Profile::new(), Profile::new());
    let (rt, log) = (cpu(), FlashMemory::<u64>::zeroed(20_000));
    let profiled = rt.options(&profile);
    profiled.submit(Trace::of(&log)).exec([2, 3]).unwrap();
    profiled.submit(Trace::of(&log)).options(sort_by(["y"])).exec([100, 100]).unwrap();
    profiled.submit(Trace::of(&log)).options(&other).exec([1, 1]).unwrap();
    rt.submit(Trace::of(&log)).exec([1, 1]).unwrap();
    let [first, second] = &profile.take()[..] else { panic!("two launches were to be recorded") };
    assert_eq!((&*first.kernel, &*first.implementation, &*first.device), ("options.trace", "plain", &*id(0)));
    assert_eq!((first.phases, first.items), (6, 6));
    assert_eq!((second.phases, second.items), (100, 10_000));
    assert!(second.nanoseconds > 0 && second.wall_nanoseconds >= second.nanoseconds, "{second:?}");
    assert_eq!((profile.take().len(), other.take().len()), (0, 1));
    let json = serde_json::to_value(first).unwrap();
    assert_eq!((json["kernel"].as_str(), json["items"].as_u64()), (Some("options.trace"), Some(6)));
}

#[flash_tests::test]
fn a_profile_whose_function_panics_loses_that_record_alone() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = calls.clone();
    let profile = Profile::to(move |launch| {
        let call = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(call > 0, "{} is not recorded", launch.kernel);
    });
    let (rt, log) = (cpu().options(&profile), FlashMemory::<u64>::zeroed(19));
    for _ in 0..3 {
        rt.submit(Trace::of(&log)).exec([2, 3]).unwrap();
        assert_eq!(log.read().unwrap().len(), 19);
    }
    assert!(calls.load(std::sync::atomic::Ordering::Relaxed) >= 3);
    assert!(profile.take().is_empty());
}

#[flash_tests::test]
fn options_of_a_runtime_do_not_change_the_runtime_they_were_made_from() {
    let rt = cpu();
    let _strict = rt.options(unknown(true));
    let log = FlashMemory::<u64>::zeroed(7);
    rt.submit(Trace::of(&log)).exec([2, 3]).unwrap();
}
