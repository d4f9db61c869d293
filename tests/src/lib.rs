//! What crosses the crates of FLASH: plugins, conformance, command lines.
//!
//! Here is what tests share: saying that one cannot run here, and running one in a process of its own.

pub mod allocations;
pub mod c_header;
pub mod emulated;
mod number;
pub mod plugins;
mod random;
pub mod system_calls;

pub use number::Number;
pub use random::Random;

// The devices of the key `TEST`.
use flash_backend_test as _;

pub use flash_tests_attribute::test;

use flash::kernel::views::{Item, Write};
use flash::kernel::{CpuItem, Index};
use flash::{Error, RuntimeObj, kernel};
use flash_core::{Context, Settings};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command;

/// Names the test that a child process is to run.
const CHILD: &str = "FLASH_TEST_CHILD";

/// Set where the tests have run before, in another environment.
const AGAIN: &str = "FLASH_TEST_AGAIN";

/// What the library reads from the environment, cleared for a child.
pub(crate) const READ_BY_FLASH: [&str; 25] = [
    "FLASH_ALLOW_WORLD_WRITABLE",
    "FLASH_BACKEND_PATH",
    "FLASH_BLOCKING_THREADS",
    "FLASH_CACHE_DIR",
    "FLASH_CACHE_LIMIT",
    "FLASH_CHECK_BOUNDS",
    "FLASH_CHECK_MAPS",
    "FLASH_CHECK_WRITES",
    "FLASH_CPU_COPY",
    "FLASH_CPU_DEVICES",
    "FLASH_CPU_LINGER_US",
    "FLASH_CPU_THREADS",
    "FLASH_CPU_THROTTLE",
    "FLASH_GRAPH_DOT",
    "FLASH_HALO_CONFIG",
    "FLASH_HOST_BUDGET",
    "FLASH_HOST_GRANULE",
    "FLASH_MPI_LIB",
    "FLASH_MPI_SHARED",
    "FLASH_OPENCL_COPY",
    "FLASH_RANK_TIMEOUT_MS",
    "FLASH_WORLD",
    "FLASH_STACK_SIZE",
    "FLASH_TEST",
    "FLASH_TEXTS",
];

/// The runtime key of a test that any device can run.
const KEY: &str = "FLASH_TEST_KEY";

/// The variables of a process whose runtime key is that of this many test devices, each with a memory of its
/// own.
pub const APART: [&[(&str, &str)]; 5] = [
    &[],
    &[(KEY, "TEST"), ("FLASH_TEST", "devices=1")],
    &[(KEY, "TEST"), ("FLASH_TEST", "devices=2")],
    &[(KEY, "TEST"), ("FLASH_TEST", "devices=3")],
    &[(KEY, "TEST"), ("FLASH_TEST", "devices=4")],
];

/// The runtime key of tests that any backend can run: what `FLASH_TEST_KEY` says, by default `ALL_CPU`.
pub fn key() -> String {
    std::env::var(KEY).unwrap_or_else(|_| "ALL_CPU".to_owned())
}

/// The id of a device of [`key`].
pub fn id(device: usize) -> String {
    let known = runtime().devices().get(device).map(|device| device.id().to_owned());
    known.unwrap_or_else(|| format!("{}:{device}", key()))
}

/// True if the devices of [`key`] run functions for the CPU, in whichever process, and not texts.
pub fn runs_functions() -> bool {
    !matches!(runtime().preload::<Any>(), Err(Error::NoImplementation(_)))
}

/// Any kernel for the CPU.
#[derive(flash::KernelDefinition)]
#[kernel(name = "tests.any", dims(i))]
struct Any<'a> {
    to: Item<'a, Write<u8>>,
}

struct Plain;

#[kernel]
impl CpuItem<Any<'_>> for Plain {
    fn item(_: Index<1>, k: AnyItem<'_>) {
        k.to.set(1);
    }
}

/// Why a test ended early: it is skipped.
struct Skipped(String);

/// The runtime of [`key`], for tests whose kernels have texts for devices.
///
/// # Panics
/// If there is no such runtime.
pub fn runtime() -> RuntimeObj {
    agent_here();
    flash::get_runtime(&key()).unwrap_or_else(|error| panic!("{error}"))
}

/// The same for tests whose kernels are functions for the CPU. Where its devices run none of these, the test
/// is skipped, if it has the attribute [`test`](macro@test).
///
/// # Panics
/// If there is no such runtime.
pub fn runtime_of_functions() -> RuntimeObj {
    let rt = runtime();
    if !runs_functions() {
        skip_here(format!("its kernels are for the CPU, and {} runs others", key()));
    }
    rt
}

/// The same for tests whose kernels share more with them than their arrays: a closure, a static. Where some
/// device runs no functions of this process, the test is skipped.
///
/// # Panics
/// If there is no such runtime.
pub fn runtime_of_this_process() -> RuntimeObj {
    let rt = runtime_of_functions();
    if let Some(device) = rt.devices().iter().find(|device| !device.info().runs_functions) {
        skip_here(format!("its kernels use what is in this process, and {} runs in another", device.id()));
    }
    rt
}

/// Where the agent of [`key`] is this program, started again with all tests, it becomes one in the first of
/// them.
fn agent_here() {
    if key().contains('@') {
        flash::prelude::agent_here();
    }
}

/// Ends the test that this thread runs, which is skipped.
fn skip_here(why: String) -> ! {
    resume_unwind(Box::new(Skipped(why)))
}

/// Runs the body of a test with the attribute [`test`](macro@test).
pub fn on_key<F: FnOnce()>(body: F) {
    agent_here();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        match panic.downcast::<Skipped>() {
            Ok(skipped) => skip(&name_of::<F>(), &skipped.0),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Says that a test cannot run here; it then returns. `name` is the test's name as the harness prints
/// it. Continuous integration allows reasons that begin with `no GPU`, `no AVX-512`, `no AMX` or
/// `no nightly`.
///
/// # Panics
/// If the file that `FLASH_SKIP_LOG` names cannot be written.
pub fn skip(name: &str, why: &str) {
    let line = format!("skipped: {name}: {why}\n");
    match std::env::var_os("FLASH_SKIP_LOG") {
        Some(log) => {
            let file = OpenOptions::new().append(true).create(true).open(log);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.expect("the file that FLASH_SKIP_LOG names can be written");
        }
        None => eprint!("{line}"),
    }
}

/// Compares a file with what is made `from` its sources, or writes it where `FLASH_BLESS=1`.
///
/// # Panics
/// If they differ, with the first line that does.
pub fn same_as_file(path: &Path, made: &str, from: &str) {
    if std::env::var_os("FLASH_BLESS").is_some_and(|value| value == "1") {
        fs::write(path, made).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    let line = there.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = line.unwrap_or(there.lines().count().min(made.lines().count()));
    assert!(
        there == made,
        "{}:{}: not what {from} gives; there is\n  {}\nexpected\n  {}\nFLASH_BLESS=1 writes it anew: read the difference",
        path.display(),
        line + 1,
        there.lines().nth(line).unwrap_or("(the end)"),
        made.lines().nth(line).unwrap_or("(the end)"),
    );
}

/// A context with these settings.
///
/// # Panics
/// If they are refused.
pub fn context(settings: &[(&str, &str)]) -> Context {
    let set = |all: Settings, (name, value): &(&str, &str)| all.set(name, value);
    settings.iter().fold(Context::builder(), set).build().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the body of a test in a process of its own with these variables, for settings of the process and for
/// counters that other tests would change. Call it from the test's function itself, with a closure that is
/// the rest of the test. Such a process has no other settings, so it is not run again in another environment.
///
/// # Panics
/// If the body does; the child's output is printed.
pub fn in_process<F: FnOnce()>(variables: &[(&str, &str)], body: F) {
    in_process_of(&name_of::<F>(), variables, body);
}

/// As [`in_process`], from any function that the test of this name calls.
///
/// # Panics
/// If the body does; the child's output is printed.
pub fn in_process_of(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    agent_here();
    let this = format!("{name} {variables:?}");
    if let Ok(child) = std::env::var(CHILD) {
        // A test may ask for several processes; each runs its own part.
        if child == this {
            body();
        }
        return;
    }
    if std::env::var_os(AGAIN).is_some() {
        return skip(name, "it ran before: the variables of its process are its own");
    }
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    for variable in READ_BY_FLASH {
        command.env_remove(variable);
    }
    command.env_remove(KEY).env(CHILD, this).envs(variables.iter().copied());
    let output = command.output().expect("this program can be run again");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).replace('\n', "\n  | ");
    let ran = text.contains("1 passed");
    if !output.status.success() || !ran {
        let failure = format!("{name} with {variables:?}: {}", output.status);
        // At once, beside its name, and not behind the output of all other tests.
        let _ = writeln!(std::io::stderr(), "{failure}\n  | {text}");
        // Its reason once more: a list of failures has what the test says, and not what is above.
        let panics = text.lines().skip_while(|line| !line.contains("panicked at"));
        let reason: Vec<&str> = panics.take(5).collect();
        panic!("{failure}; its output is above\n{}", reason.join("\n"));
    }
}

/// The harness's name of the test whose body this is: `module::test` of `binary::module::test::{{closure}}`.
fn name_of<F>() -> String {
    let path = std::any::type_name::<F>();
    let test = path.split_once("::{{closure}}").expect("the body of the test is a closure in it").0;
    test.split_once("::").map_or(test, |(_binary, name)| name).to_owned()
}
