//! Programs of C2MPI: claims, messages, buffers, and what is wrong with them.

#![allow(clippy::undocumented_unsafe_blocks)] // each call of a function of the header would say the same

mod accelerators;
mod agents;
mod buffers;
mod claims;
mod configurations;
mod in_c;
mod messages;

// The devices of the key `TEST`.
use flash_backend_test as _;

use flash::kernel;
use flash::kernel::prelude::*;
use flash_c2mpi::attributes::Overrides;
use flash_c2mpi::config::Config;
use flash_c2mpi::{ComputeObj, Error, Status, Target, Wanted, World};
use flash_core::Context;
use flash_core::descriptor::ElementType;
use flash_core::memory::AnyType;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// data += by.
#[derive(KernelDefinition)]
#[kernel(name = "halo.increase", dims(i), part_by(i))]
struct Increase<'a> {
    by: f32,
    data: Item<'a, ReadWrite<f32>>,
}

/// to = 2 from.
#[derive(KernelDefinition)]
#[kernel(name = "halo.double", dims(i), part_by(i))]
struct Double<'a> {
    from: Item<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

/// Panics at the item `fault`.
#[derive(KernelDefinition)]
#[kernel(name = "halo.faulty", dims(i))]
struct Faulty<'a> {
    fault: u64,
    to: Item<'a, Write<u64>>,
}

/// Waits until the gate is open, at items from 30000 on.
#[derive(KernelDefinition)]
#[kernel(name = "halo.gate", dims(i))]
struct Gate<'a> {
    to: Item<'a, Write<u64>>,
}

/// to = 2 from, at its first item once it is not held up.
#[derive(KernelDefinition)]
#[kernel(name = "halo.slow", dims(i))]
struct Slow<'a> {
    hold: u64,
    from: Item<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// data += 1, at its first item once it is not held up.
#[derive(KernelDefinition)]
#[kernel(name = "halo.slow_next", dims(i))]
struct SlowNext<'a> {
    hold: u64,
    data: Item<'a, ReadWrite<u64>>,
}

/// The sum of a struct's members, into one element.
#[derive(KernelDefinition)]
#[kernel(name = "halo.members", dims(i))]
struct Members<'a> {
    of: Pair,
    sum: Item<'a, Write<f32>>,
}

#[derive(Clone, Copy, Element)]
#[element(name = "halo::Pair")]
#[repr(C)]
struct Pair {
    x: f32,
    y: f32,
}

static OPEN: AtomicU32 = AtomicU32::new(0);

/// Closes the gate, for one test at a time.
fn close_gate() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    OPEN.store(0, Ordering::SeqCst);
    one
}

struct Code;

#[kernel]
impl CpuItem<Increase<'_>> for Code {
    fn item(_: Index<1>, k: IncreaseItem<'_>) {
        *k.data += k.by;
    }
}

#[kernel]
impl CpuItem<Double<'_>> for Code {
    fn item(_: Index<1>, k: DoubleItem<'_>) {
        k.to.set(2.0 * *k.from);
    }
}

#[kernel]
impl CpuItem<Faulty<'_>> for Code {
    fn item(i: Index<1>, k: FaultyItem<'_>) {
        assert!(i[0] as u64 != k.fault, "item {} is at fault", i[0]);
        k.to.set(i[0] as u64);
    }
}

#[kernel]
impl CpuItem<Gate<'_>> for Code {
    fn item(i: Index<1>, k: GateItem<'_>) {
        while i[0] >= 30_000 && OPEN.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        k.to.set(i[0] as u64 + 1);
    }
}

/// A file that holds kernels up as long as it is there, in whatever process they run.
fn hold_file(number: u64) -> PathBuf {
    std::env::temp_dir().join(format!("flash-halo-hold-{number}"))
}

/// Ends the process of the kernel instead.
const ENDS: u64 = u64::MAX;

fn wait_at_first(i: Index<1>, hold: u64) {
    if hold == ENDS {
        std::process::abort();
    }
    while i[0] == 0 && hold != 0 && hold_file(hold).exists() {
        // Says that it is here; a file that was removed meanwhile is not made again.
        let file = std::fs::OpenOptions::new().write(true).open(hold_file(hold));
        let _ = file.and_then(|mut file| file.write_all(b"held"));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[kernel]
impl CpuItem<Slow<'_>> for Code {
    fn item(i: Index<1>, k: SlowItem<'_>) {
        wait_at_first(i, k.hold);
        k.to.set(2 * *k.from);
    }
}

#[kernel]
impl CpuItem<SlowNext<'_>> for Code {
    fn item(i: Index<1>, k: SlowNextItem<'_>) {
        wait_at_first(i, k.hold);
        *k.data += 1;
    }
}

#[kernel]
impl CpuItem<Members<'_>> for Code {
    fn item(_: Index<1>, k: MembersItem<'_>) {
        k.sum.set(k.of.x + k.of.y);
    }
}

const FUNCTIONS: &str = r#"
    {"func_alias": "INCREASE", "sw_fid": "halo.increase", "key": "ALL_CPU"},
    {"func_alias": "DOUBLE", "sw_fid": "halo.double", "key": "ALL_CPU"},
    {"func_alias": "FAULTY", "sw_fid": "halo.faulty", "key": "ALL_CPU"},
    {"func_alias": "GATE", "sw_fid": "halo.gate", "key": "ALL_CPU"},
    {"func_alias": "SLOW", "sw_fid": "halo.slow", "key": "ALL_CPU"},
    {"func_alias": "SLOW_NEXT", "sw_fid": "halo.slow_next", "key": "ALL_CPU"},
    {"func_alias": "MEMBERS", "sw_fid": "halo.members", "key": "ALL_CPU"},
    {"func_alias": "NOTHING", "sw_fid": "halo.nothing", "key": "ALL_CPU"},
    {"func_alias": "THRICE", "pipeline": ["DOUBLE", "INCREASE"], "key": "ALL_CPU"}"#;

/// Four parent ranks, and these functions besides those above.
fn with(context: Context, functions: &str, platforms: &str) -> Arc<World> {
    let more = if functions.is_empty() { String::new() } else { format!(",{functions}") };
    let text = format!(
        r#"{{"host_list": [{{"host_name": "here", "max_slots": 4}}], "func_list": [{FUNCTIONS}{more}], "platform_list": [{platforms}]}}"#
    );
    let report = Config::parse(&text);
    World::new(report.config.unwrap_or_else(|| panic!("{:?}", report.faults)), context)
}

fn world() -> Arc<World> {
    with(Context::default(), "", "")
}

fn claim(world: &Arc<World>, alias: &str) -> i32 {
    world.claim(alias, None, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn float() -> AnyType {
    AnyType::new(&ElementType::of::<f32>()).unwrap()
}

fn whole() -> AnyType {
    AnyType::new(&ElementType::of::<u64>()).unwrap()
}

/// An object with a scalar and an array, of INCREASE. The array outlives it.
fn increase(by: f32, data: &mut [f32]) -> ComputeObj {
    let object = ComputeObj::new();
    object.add_scalar(float(), &by.to_ne_bytes()).unwrap();
    unsafe { object.add_array(float(), &[data.len() as u64], data.as_mut_ptr().cast()).unwrap() };
    object
}

fn receive(world: &World, object: &ComputeObj, parent: u32, child: i32, tag: i32) -> Result<Status, Error> {
    unsafe { world.receive(&Target::Object(object), parent, Wanted { child, tag }) }
}
