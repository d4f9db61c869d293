//! Contexts with settings of their own in one process, and what a plugin learns of the program that loaded
//! it.

use flash_core::kernel::views::{Item, ReadWrite, Write};
use flash_core::kernel::{CpuItem, Index};
use flash_core::{Context, Error, FlashMemory, KernelDefinition, RuntimeObj, get_runtime, kernel};
use flash_tests::plugins::{self, Language};
use std::path::Path;

/// Forgets element 3.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.forgets", dims(x))]
struct Forgets<'a> {
    out: Item<'a, Write<u64>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "plugins.increment", dims(x))]
struct Increment<'a> {
    values: Item<'a, ReadWrite<u64>>,
}

/// A plugin adds an implementation of it.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.counted", dims(x))]
struct Counted<'a> {
    value: u32,
    out: Item<'a, Write<u32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Counted<'_>> for Plain {
    fn item(_: Index<1>, k: CountedItem<'_>) {
        k.out.set(k.value);
    }
}

#[kernel]
impl CpuItem<Forgets<'_>> for Plain {
    fn item(ix: Index<1>, k: ForgetsItem<'_>) {
        if ix[0] != 3 {
            k.out.set(1);
        }
    }
}

#[kernel]
impl CpuItem<Increment<'_>> for Plain {
    fn item(_: Index<1>, k: IncrementItem<'_>) {
        *k.values += 1;
    }
}

fn shared(source: &str, flags: &[&str], place: &Path) {
    plugins::shared(Language::C, &plugins::c_source(source), flags, place);
}

fn forgets(rt: &RuntimeObj) -> Result<(), Error> {
    rt.submit(Forgets::of(FlashMemory::<u64>::zeroed(10))).exec([10])
}

fn increment(rt: &RuntimeObj, values: &FlashMemory<u64>) {
    rt.submit(Increment::of(values)).exec([values.len()]).unwrap();
}

/// Bytes that the host fetches when it reads one element of an array on a device.
fn fetched(rt: &RuntimeObj) -> u64 {
    let one = rt.options(flash_core::descriptor::Devices::key("ALL_CPU:0"));
    let values = FlashMemory::<u64>::zeroed(1 << 16);
    increment(&one, &values);
    let before = one.devices()[0].transfers().from_device.bytes;
    assert_eq!(values.get(1 << 15).unwrap(), 1);
    one.devices()[0].transfers().from_device.bytes - before
}

#[test]
fn two_contexts_differ_in_plugins_granules_checks_and_devices() {
    let place = plugins::directory();
    shared("backend.c", &[], &place.path().join("libmy_accel.so"));
    let a = Context::builder().set("plugin_path", place.path().display()).set("check_writes", true);
    let a = a.set("cpu.devices", 5).set("cpu.copy", true).set("host_granule", 8).build().unwrap();
    let b = Context::builder().set("plugin_path", "").set("check_writes", false).set("cpu.devices", 2);
    let b = b.set("cpu.copy", true).set("host_granule", 4096).build().unwrap();
    let [rt_a, rt_b] = [&a, &b].map(|context| context.runtime("ALL_CPU").unwrap());

    // Plugins.
    assert_eq!(a.runtime("MY_ACCEL").unwrap().devices().len(), 1);
    let message = b.runtime("MY_ACCEL").unwrap_err().to_string();
    assert!(message.contains("there is no backend `MY_ACCEL`"), "{message}");
    assert!(get_runtime("MY_ACCEL").is_err());
    let keys = |context: &Context| context.list().iter().any(|r| r.key.as_deref() == Some("MY_ACCEL"));
    assert!(keys(&a) && !keys(&b));

    // Devices.
    assert_eq!([rt_a.devices().len(), rt_b.devices().len()], [5, 2]);
    assert!(!std::ptr::eq(rt_a.devices()[0], rt_b.devices()[0]));

    // Checks, which are made on devices that use the host's memory: the plugin's is one.
    let unchecked = Context::builder().set("plugin_path", place.path().display()).set("check_writes", false);
    let unchecked = unchecked.build().unwrap();
    let message = forgets(&a.runtime("MY_ACCEL").unwrap()).unwrap_err().to_string();
    assert!(message.contains("element 3"), "{message}");
    forgets(&unchecked.runtime("MY_ACCEL").unwrap()).unwrap();

    // Granules.
    assert_eq!([fetched(&rt_a), fetched(&rt_b)], [8, 4096]);

    // One memory in both, and on a device of the plugin's.
    let values = FlashMemory::<u64>::zeroed(1000);
    for _ in 0..3 {
        increment(&rt_a, &values);
        increment(&rt_b, &values);
        increment(&a.runtime("MY_ACCEL").unwrap(), &values);
        increment(&get_runtime("ALL_CPU").unwrap(), &values);
    }
    assert_eq!(*values.read().unwrap(), [12; 1000]);
}

#[test]
fn contexts_share_libraries_and_devices_whose_settings_are_the_same() {
    let place = plugins::directory();
    shared("backend.c", &[], &place.path().join("libmy_accel.so"));
    let context = |granule: u64, devices: u64| {
        let settings = Context::builder().set("plugin_path", place.path().display());
        settings.set("host_granule", granule).set("cpu.devices", devices).build().unwrap()
    };
    let [a, b, c] = [context(8, 3), context(16, 3), context(8, 4)];
    let device =
        |context: &Context, key: &str| std::ptr::from_ref(context.runtime(key).unwrap().devices()[0]);
    assert_eq!(device(&a, "MY_ACCEL"), device(&b, "MY_ACCEL"));
    assert_eq!(device(&a, "MY_ACCEL"), device(&c, "MY_ACCEL"));
    assert_eq!(device(&a, "ALL_CPU"), device(&b, "ALL_CPU"));
    assert_ne!(device(&a, "ALL_CPU"), device(&c, "ALL_CPU"));
    drop((a, b));
    assert_eq!(c.runtime("ALL_CPU").unwrap().devices().len(), 4);
}

#[test]
fn a_setting_of_the_process_is_that_of_the_first_context() {
    get_runtime("ALL_CPU").unwrap();
    let refused = Context::builder().set("threads", 1023).build().unwrap_err();
    assert!(matches!(refused, Error::Setting { .. }), "{refused}");
    let message = refused.to_string();
    assert!(
        message.contains("setting `threads`: expected the default") && message.contains("`1023`"),
        "{message}"
    );
    Context::builder().set("cpu.devices", 2).build().unwrap();
}

#[test]
fn a_plugin_has_its_work_run_by_the_worker_threads_of_the_process() {
    let place = plugins::directory();
    shared("asks.c", &["-pthread"], &place.path().join("libasks.so"));
    let context = Context::builder().set("plugin_path", place.path().join("libasks.so").display());
    let context = context.build().unwrap();
    let plugin = context.runtime("ASKS").unwrap().devices()[0];
    for _ in 0..20 {
        let answer = plugin.query("run work").unwrap();
        let (count, threads) = answer.split_once(" pieces by ").unwrap();
        assert_eq!(count.trim_start_matches('"'), "1000");
        let (threads, _) = threads.split_once(';').unwrap();
        assert!(threads.split(' ').all(|name| name.starts_with("flash-")), "{threads}");
        // It was removed.
        assert_eq!(plugin.query("work left").unwrap(), "1");
    }
    let answer = plugin.query("remove work within it").unwrap();
    assert!(answer.contains("found one from within a piece"), "{answer}");
    let refused = plugin.query("add work to NULL").unwrap_err().to_string();
    assert!(refused.contains("expected a place for the source, found NULL"), "{refused}");
    let refused = plugin.query("remove NULL").unwrap_err().to_string();
    assert!(refused.contains("expected a source that was added, found NULL"), "{refused}");
}

#[test]
fn a_plugin_lists_devices_and_implementations_and_adds_some() {
    let place = plugins::directory();
    shared("asks.c", &["-pthread"], &place.path().join("libasks.so"));
    shared("asks.c", &["-pthread", "-DLISTS_IN_PROBE"], &place.path().join("libprobe.so"));
    let context = Context::builder().set("plugin_path", place.path().join("libasks.so").display());
    let context = context.build().unwrap();
    let plugin = context.runtime("ASKS").unwrap().devices()[0];

    let devices = plugin.query("devices").unwrap();
    assert!(devices.contains("ALL_CPU:0"), "{devices}");
    assert!(!devices.contains("ASKS"), "the default context has not loaded it: {devices}");
    let implementations = plugin.query("implementations").unwrap();
    assert!(implementations.contains("plain") && !implementations.contains("added"), "{implementations}");
    let refused = plugin.query("refuse").unwrap_err().to_string();
    assert!(refused.contains("seen enough"), "{refused}");
    let refused = plugin.query("add a NULL").unwrap_err().to_string();
    assert!(refused.contains("implementation 1 of 2"), "{refused}");
    assert!(!plugin.query("implementations").unwrap().contains("added"), "all or none");

    // In a context without other plugins, before and after.
    let other = Context::builder().set("cpu.devices", 6).build().unwrap();
    let fill = |rt: &RuntimeObj| {
        let out = FlashMemory::<u32>::zeroed(50);
        rt.submit(Counted::of(3, &out))
            .options(flash_core::descriptor::Searchable::Exact)
            .exec([50])
            .unwrap();
        out.get(0).unwrap()
    };
    let before = other.runtime("ALL_CPU").unwrap();
    assert_eq!(fill(&before), 3);
    let pinned =
        || other.runtime("ALL_CPU").unwrap().options(flash_core::descriptor::Implementation::named("added"));
    let out = FlashMemory::<u32>::zeroed(50);
    pinned().submit(Counted::of(3, &out)).exec([50]).unwrap_err();
    plugin.query("add").unwrap();
    assert!(plugin.query("implementations").unwrap().contains("added"));
    pinned().submit(Counted::of(3, &out)).exec([50]).unwrap();
    assert_eq!(out.get(0).unwrap(), 5003);
    assert_eq!(fill(&other.runtime("ALL_CPU").unwrap()), 5003, "it has the highest priority");

    let probing = Context::builder().set("plugin_path", place.path().join("libprobe.so").display());
    let message = probing.build().unwrap().runtime("ASKS").unwrap_err().to_string();
    assert!(message.contains("found one from within its query, `probe`"), "{message}");
}
