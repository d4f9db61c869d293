//! Devices as data: targets, keys with paths, devices that come and go, and what they say of kernels and
//! machines.

use super::super::{RuntimeObj, get_runtime};
use crate::kernel::views::{Item, Write};
use crate::kernel::{CpuFunction, CpuItem, Index, cpu_implementation};
use crate::{Code, Error, FlashMemory, KernelDefinition, Profile, kernel};
use flash_backend::register_backend;
use flash_backend::{
    Backend, Changes, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, run_rows,
};
use flash_types::abi::{self, Implementation};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Runs functions for `test-isa`, and texts for `test-text`, of which there is one: `sevens`.
struct Shelf {
    suffix: String,
    gone: Arc<AtomicBool>,
}

impl Shelf {
    fn new(suffix: &str) -> Shelf {
        Shelf { suffix: suffix.to_owned(), gone: Arc::default() }
    }
}

enum Ready {
    Function(&'static Implementation),
    Sevens,
}

impl Device for Shelf {
    type Kernel = Ready;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            test: true,
            host_memory: true,
            synchronous: true,
            runs_functions: true,
            name: "shelf".into(),
            targets: vec!["test-isa".into(), "test-text".into()],
            suffix: self.suffix.clone(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Ready, Failure> {
        if implementation.share.is_some() {
            return Ok(Ready::Function(implementation));
        }
        // SAFETY: a source, which lives for ever.
        let text =
            unsafe { abi::Str { ptr: implementation.payload, len: implementation.payload_len }.text() };
        match text.as_str() {
            "sevens" => Ok(Ready::Sevens),
            _ => Err(Failure::new(Code::Invalid, format!("expected `sevens`, found `{text}`"))),
        }
    }

    fn submit(&self, launch: &Launch<'_, Ready>) -> Result<Option<Event>, Failure> {
        if self.gone.load(SeqCst) {
            return Err(Failure::new(Code::DeviceLost, format!("shelf {} was carried away", self.suffix)));
        }
        for phase in launch.phases() {
            let rows = launch.space().phase(phase);
            match launch.kernel() {
                Ready::Sevens => {
                    for row in rows {
                        // SAFETY: the kernels here have one array of `u32`, whose element `row` is this
                        // item's own.
                        unsafe { launch.args()[0].data.cast::<u32>().add(row as usize).write(7) };
                    }
                }
                Ready::Function(implementation) => {
                    let share = launch.share(phase, rows);
                    // SAFETY: all rows of the phase, which nothing else has, and the launch's arguments.
                    let error = unsafe { run_rows(*implementation, &share, launch.args().as_ptr()) };
                    if !error.is_null() {
                        // SAFETY: an error of this host.
                        return Err(unsafe { Failure::of_host(error) });
                    }
                }
            }
        }
        Ok(None)
    }

    fn has_feature(&self, feature: &str) -> bool {
        feature == "amx-int8" && self.suffix.starts_with('3')
    }

    fn has_library(&self, names: &str) -> bool {
        names == "libshelf.so" && self.suffix.starts_with('3')
    }

    fn resolve_kernel(&self, descriptor: &str) -> Option<&'static Implementation> {
        static OWN: OnceLock<&'static Implementation> = OnceLock::new();
        let own = || {
            cpu_implementation::<Unregistered<'static>>(
                CpuFunction::item::<Unregistered<'static>, Ones>(),
                "of the shelf",
                "test-isa",
                0,
                "",
                &[],
            )
        };
        let answered = ["\"devices.unregistered\"", "\"devices.misnamed\""];
        answered.iter().any(|name| descriptor.contains(name)).then(|| *OWN.get_or_init(own))
    }
}

/// Devices of two ranks, by the paths of their keys.
struct Shelves;

// SAFETY: `submit` runs every row of every phase once, and returns when all have run.
unsafe impl Backend for Shelves {
    const KEY: &'static str = "TEST_SHELVES";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "none";
    const OWN_KERNELS: bool = true;
    type Device = Shelf;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<Shelf>, Unavailable> {
        Ok(["3/BOX:0", "3/BOX:1", "4/BOX:0"].map(Shelf::new).into())
    }

    fn resolve(suffix: &str, devices: &[&Shelf]) -> Option<Result<Vec<usize>, Failure>> {
        if suffix == "wrong" {
            return Some(Ok(vec![17]));
        }
        let (rank, _) = suffix.split_once('/')?;
        if !["3", "4"].contains(&rank) {
            return Some(Err(Failure::new(Code::Invalid, format!("expected rank 3 or 4, found {rank}"))));
        }
        let selected = |shelf: &&Shelf| shelf.suffix.starts_with(suffix);
        Some(Ok((0..devices.len()).filter(|&i| selected(&devices[i])).collect()))
    }
}

register_backend!(Shelves);

#[derive(KernelDefinition)]
#[kernel(name = "devices.both", dims(i))]
#[implementations(target = "test-text", source = "sevens.txt", priority = 9, cooperating)]
struct Both<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.text", dims(i))]
#[implementations(target = "test-text", source = "sevens.txt", cooperating)]
struct Text<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.featured", dims(i))]
struct Featured<'a> {
    to: Item<'a, Write<u32>>,
}

#[derive(KernelDefinition)]
#[kernel(name = "devices.unregistered", dims(i))]
struct Unregistered<'a> {
    to: Item<'a, Write<u32>>,
}

/// The device answers with the implementation of the one above.
#[derive(KernelDefinition)]
#[kernel(name = "devices.misnamed", dims(i))]
struct Misnamed<'a> {
    to: Item<'a, Write<u32>>,
}

struct Ones;

#[kernel(target = "test-isa")]
impl CpuItem<Both<'_>> for Ones {
    fn item(_: Index<1>, k: BothItem<'_>) {
        k.to.set(1);
    }
}

#[kernel(target = "test-isa", cpu_features = "amx-int8")]
impl CpuItem<Featured<'_>> for Ones {
    fn item(_: Index<1>, k: FeaturedItem<'_>) {
        k.to.set(1);
    }
}

impl CpuItem<Unregistered<'_>> for Ones {
    fn item(_: Index<1>, k: UnregisteredItem<'_>) {
        k.to.set(1);
    }
}

/// What a launch wrote, and by which implementation.
macro_rules! launch {
    ($runtime:expr, $definition:ident) => {{
        let (to, profile) = (FlashMemory::<u32>::zeroed(3), Profile::new());
        let outcome = $runtime.submit($definition::of(&to)).options(&profile).exec([3]);
        outcome.map(|()| (to.read().unwrap().to_vec(), profile.take()[0].implementation.clone()))
    }};
}

fn ids(key: &str) -> Vec<String> {
    get_runtime(key).unwrap().devices().iter().map(|device| device.id().to_owned()).collect()
}

#[test]
fn of_two_targets_the_first_comes_before_priority_and_the_second_serves() {
    let rt = get_runtime("TEST_SHELVES:4/BOX:0").unwrap();
    assert_eq!(rt.devices()[0].info().targets, ["test-isa", "test-text"]);
    assert_eq!(launch!(rt, Both).unwrap(), (vec![1; 3], "ones".to_owned()));
    assert_eq!(launch!(rt, Text).unwrap(), (vec![7; 3], "sevens.txt".to_owned()));
    // Another device takes neither.
    let error = launch!(super::serial(), Both).unwrap_err().to_string();
    for part in ["`ones` for test-isa", "`sevens.txt` for test-text", "runs implementations for cpu"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn the_backend_resolves_what_stands_behind_its_key() {
    assert_eq!(ids("TEST_SHELVES:3/BOX:1"), ["TEST_SHELVES:3/BOX:1"]);
    assert_eq!(ids("TEST_SHELVES:3/BOX:1,0"), ["TEST_SHELVES:3/BOX:1", "TEST_SHELVES:3/BOX:0"]);
    assert_eq!(ids("TEST_SHELVES:3/"), ["TEST_SHELVES:3/BOX:0", "TEST_SHELVES:3/BOX:1"]);
    // What it does not resolve is a number or a class.
    assert_eq!(ids("TEST_SHELVES:2,0"), ["TEST_SHELVES:4/BOX:0", "TEST_SHELVES:3/BOX:0"]);
    assert_eq!(ids("TEST_SHELVES:other").len(), 3);
    for (key, expected) in [
        ("TEST_SHELVES:5/BOX:0", "expected rank 3 or 4, found 5"),
        ("TEST_SHELVES:3/BOX:7", "available: TEST_SHELVES:3/BOX:0 (other)"),
        ("TEST_SHELVES:wrong", "`resolve` selects devices [17] of 3"),
        ("TEST_SHELVES:9", "a number or a class"),
    ] {
        let error = get_runtime(key).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn features_and_libraries_are_asked_of_the_device() {
    let [there, not] = ["TEST_SHELVES:0", "TEST_SHELVES:2"].map(|key| get_runtime(key).unwrap());
    assert_eq!(launch!(there, Featured).unwrap().0, [1; 3]);
    let error = launch!(not, Featured).unwrap_err().to_string();
    assert!(error.contains("the CPU of TEST_SHELVES:4/BOX:0 lacks amx-int8"), "{error}");
    assert!(there.devices()[0].has_library("libshelf.so") && !not.devices()[0].has_library("libshelf.so"));
}

#[test]
fn a_device_says_which_kernels_it_has() {
    let rt = get_runtime("TEST_SHELVES:0").unwrap();
    assert_eq!(launch!(rt, Unregistered).unwrap(), (vec![1; 3], "of the shelf".to_owned()));
    assert!(matches!(launch!(super::serial(), Unregistered), Err(Error::NoImplementation(_))));
    assert!(matches!(launch!(rt, Misnamed), Err(Error::NoImplementation(_))));
}

/// Its devices come and go: one per bit of [`THERE`].
struct Coming;

static THERE: AtomicU64 = AtomicU64::new(0b1);

/// What was there when it was asked last.
static KNOWN: AtomicU64 = AtomicU64::new(0b1);

// SAFETY: as above.
unsafe impl Backend for Coming {
    const KEY: &'static str = "TEST_COMING";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "none";
    const OWN_KERNELS: bool = true;
    type Device = Shelf;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<Shelf>, Unavailable> {
        Ok(vec![Shelf::new("first")])
    }

    fn generation() -> u64 {
        THERE.load(SeqCst)
    }

    fn changes(known: &[&Shelf]) -> Changes<Shelf> {
        let (there, before) = (THERE.load(SeqCst), KNOWN.swap(THERE.load(SeqCst), SeqCst));
        let mut changes = Changes::default();
        for (bit, name) in ["first", "second", "third"].iter().enumerate() {
            match (before >> bit & 1, there >> bit & 1) {
                (0, 1) => changes.new.push(Shelf::new(name)),
                (1, 0) => {
                    let i = known.iter().position(|shelf| shelf.suffix == *name).expect("it was there");
                    known[i].gone.store(true, SeqCst);
                    changes.gone.push(i);
                }
                _ => {}
            }
        }
        changes
    }
}

register_backend!(Coming);

#[test]
fn devices_come_and_go_while_runtimes_keep_theirs() {
    let lost = |rt: &RuntimeObj| match launch!(rt, Both).unwrap_err() {
        Error::Launch(launch) => match launch.source {
            Error::Backend { code, ref text } => (code, text.clone()),
            ref other => panic!("{other}"),
        },
        other => panic!("{other}"),
    };
    let before = get_runtime("TEST_COMING").unwrap();
    assert_eq!(launch!(before, Both).unwrap().0, [1; 3]);

    // One comes: the next runtime has it, this one does not.
    THERE.store(0b11, SeqCst);
    assert_eq!(launch!(before, Both).unwrap().0, [1; 3]);
    assert_eq!(ids("TEST_COMING"), ["TEST_COMING:first", "TEST_COMING:second"]);
    assert_eq!(before.devices().len(), 1);
    let second = get_runtime("TEST_COMING:1").unwrap();
    assert_eq!(launch!(second, Both).unwrap().0, [1; 3]);
    assert!(std::ptr::eq(before.devices()[0], get_runtime("TEST_COMING:first").unwrap().devices()[0]));

    // The first goes: its handle stays, its launches fail, and numbers stay what they were.
    THERE.store(0b10, SeqCst);
    assert_eq!(ids("TEST_COMING"), ["TEST_COMING:second"]);
    assert_eq!(ids("TEST_COMING:1"), ["TEST_COMING:second"]);
    let error = get_runtime("TEST_COMING:0").unwrap_err().to_string();
    assert!(error.contains("`TEST_COMING:0`, it has gone"), "{error}");
    assert_eq!(lost(&before), (Code::DeviceLost, "shelf first was carried away".to_owned()));
    assert_eq!((before.devices()[0].id(), &*before.devices()[0].info().name), ("TEST_COMING:first", "shelf"));
    assert_eq!(launch!(second, Both).unwrap().0, [1; 3]);

    // Another comes: it gets a number of its own.
    THERE.store(0b110, SeqCst);
    assert_eq!(ids("TEST_COMING:2"), ["TEST_COMING:third"]);
    THERE.store(0, SeqCst);
    let error = get_runtime("TEST_COMING").unwrap_err().to_string();
    assert!(error.contains("`TEST_COMING` has no devices"), "{error}");
    assert_eq!(lost(&second).0, Code::DeviceLost);
}
