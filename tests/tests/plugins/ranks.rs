//! `flash run`: a program with the devices of other processes, and what happens when one of them is killed.

use flash_core::descriptor::{part_by, weights};
use flash_core::kernel::views::{Item, Read, ReadWrite, Whole, Write};
use flash_core::kernel::{CpuItem, Index};
use flash_core::{Error, FlashMemory, KernelDefinition, RuntimeObj, get_runtime, kernel};
use flash_tests::plugins::{self, built, text_of};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Longer than anything here takes on a machine that is busy.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A line of `flash run` with this many processes.
fn line<'a>(ranks: &'a str, program: &'a Path, arguments: &[&'a str]) -> Vec<&'a str> {
    let program = program.to_str().expect("a path of text");
    [&["run", "-n", ranks, "--", program], arguments].concat()
}

fn run(ranks: &str, program: &Path, arguments: &[&str]) -> Output {
    run_with(ranks, program, arguments, &[])
}

fn run_with(ranks: &str, program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = plugins::flash("", &line(ranks, program, arguments));
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Three steps of nbody on devices: their ids, and the energies.
fn energies(ranks: &str, key: &str, variables: &[(&str, &str)]) -> (Vec<String>, Value) {
    let arguments = ["--runtime", key, "--bodies", "500", "--steps", "3", "--quiet", "--report", "-"];
    let output = run_with(ranks, &built().nbody, &arguments, variables);
    assert!(output.status.success(), "{key}: {}", text_of(&output));
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text_of(&output)));
    let devices = report["devices"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned());
    (devices.collect(), report["kinetic_energy"].clone())
}

#[test]
fn devices_of_other_processes_pass_the_suite_of_backends() {
    let output = run("3", &built().flash, &["conformance", "RANK", "--check", ""]);
    let text = text_of(&output);
    assert!(output.status.success(), "{text}");
    for expected in ["passed   RANK:1/ALL_CPU:0 ", "passed   RANK:2/ALL_CPU:0 ", " 0 failed"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn devices_with_memories_of_their_own_pass_it_too() {
    let plugin = built().test.to_str().unwrap();
    let variables = [("FLASH_BACKEND_PATH", plugin), ("FLASH_TEST", "devices=2")];
    let output = run_with("2", &built().flash, &["conformance", "RANK:1/TEST", "--check", ""], &variables);
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(text_of(&output).contains("RANK:1/TEST:1 "), "{}", text_of(&output));
}

#[test]
fn a_program_has_the_same_bits_on_any_ranks() {
    let (devices, expected) = energies("1", "ALL_CPU", &[]);
    assert_eq!(devices, ["ALL_CPU:0"]);
    let test = [("FLASH_BACKEND_PATH", built().test.to_str().unwrap()), ("FLASH_TEST", "devices=2")];
    // The numbers of their memories are not small.
    let many = [test[0], ("FLASH_TEST", "devices=20")];
    for (ranks, key, ids, variables) in [
        ("2", "RANK", &["RANK:1/ALL_CPU:0"][..], &[][..]),
        ("4", "RANK", &["RANK:1/ALL_CPU:0", "RANK:2/ALL_CPU:0", "RANK:3/ALL_CPU:0"], &[]),
        ("4", "RANK:2", &["RANK:2/ALL_CPU:0"], &[]),
        ("3", "ALL_CPU,RANK:cpu", &["ALL_CPU:0", "RANK:1/ALL_CPU:0", "RANK:2/ALL_CPU:0"], &[]),
        ("2", "RANK:1/TEST", &["RANK:1/TEST:0", "RANK:1/TEST:1"], &test),
        ("2", "RANK:1/ALL_CPU,RANK:1/TEST:1", &["RANK:1/ALL_CPU:0", "RANK:1/TEST:1"], &test),
        ("2", "RANK:1/TEST:18", &["RANK:1/TEST:18"], &many),
        ("1", "ALL_CPU@agent", &["RANK:ALL_CPU:0@agent"], &[]),
        ("2", "TEST@agent,RANK", &["RANK:TEST:0@agent", "RANK:TEST:1@agent", "RANK:1/ALL_CPU:0"], &test),
    ] {
        let (devices, found) = energies(ranks, key, variables);
        assert_eq!(devices, ids, "{key} of {ranks}");
        assert_eq!(found, expected, "{key} of {ranks}");
    }
}

#[test]
fn a_topology_of_ranks_has_the_devices_and_processors_of_all() {
    has_topology_of_three(|arguments| run("3", &built().flash, arguments));
}

/// `flash topology` in three processes, which are started with these arguments, is one topology.
pub fn has_topology_of_three(run: impl FnOnce(&[&str]) -> Output) {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("ranks.svg").display().to_string();
    let output = run(&["topology", "--json", "--svg", &picture]);
    let text = text_of(&output);
    assert!(output.status.success() && !text.contains("ended before"), "{text}");
    // One process writes, and what it writes is one topology.
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {text}"));
    let host = &json["hosts"][0];
    assert_eq!(json["hosts"].as_array().unwrap().len(), 1, "{json}");
    let names = |list: &str, key: &str| -> Vec<String> {
        let all = host[list].as_array().unwrap();
        all.iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("processes", "name"), ["rank 0", "rank 1", "rank 2"]);
    let ids = names("devices", "id");
    for id in ["ALL_CPU:0", "RANK:1/ALL_CPU:0", "RANK:2/ALL_CPU:0"] {
        assert_eq!(ids.iter().filter(|found| *found == id).count(), 1, "{ids:?}");
    }
    let svg = fs::read_to_string(&picture).unwrap();
    assert!((0..3).all(|rank| svg.contains(&format!("rank {rank}"))), "{svg}");
}

#[test]
fn a_recorded_pipeline_is_the_same_on_a_rank() {
    let place = plugins::directory();
    let file = place.path().join("run.flash");
    let file = file.to_str().unwrap();
    let record = ["--quiet", "--steps", "3", "--runtime", "ALL_CPU", "--bodies", "100", "--record", file];
    let output = plugins::program(&built().nbody, "", &record).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let output = run("2", &built().flash, &["diff", file, "--a", "ALL_CPU", "--b", "RANK"]);
    assert!(output.status.success(), "{}", text_of(&output));
}

#[test]
fn the_status_is_the_programs_and_what_is_wrong_is_said() {
    let shell = Path::new("/bin/sh");
    assert_eq!(run("2", shell, &["-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run("1", shell, &["-c", "kill -9 $$"]).status.code(), Some(128 + 9));
    for (ranks, program, expected) in [
        ("0", shell, "expected a number of processes from 1 to"),
        ("many", shell, "expected a number of processes from 1 to"),
        ("2", Path::new("/no/such/program"), "cannot start /no/such/program"),
    ] {
        let output = run(ranks, program, &[]);
        assert!(!output.status.success() && text_of(&output).contains(expected), "{}", text_of(&output));
    }
    // Keys of ranks that are not there, outside of a world and in one.
    for (ranks, key, expected) in [
        (None, "RANK", "`flash run -n N -- PROGRAM` starts one"),
        (Some("2"), "RANK:2", "there is no device `RANK:2`"),
        (Some("2"), "RANK:1/NO_SUCH_KEY", "available: RANK:1/ALL_CPU:0"),
        (Some("2"), "RANK:first", "expected a rank's number"),
    ] {
        let arguments = ["--quiet", "--bodies", "10", "--runtime", key];
        let output = match ranks {
            None => plugins::program(&built().nbody, "", &arguments).output().unwrap(),
            Some(ranks) => run(ranks, &built().nbody, &arguments),
        };
        assert!(
            !output.status.success() && text_of(&output).contains(expected),
            "{key}: {}",
            text_of(&output)
        );
    }
}

/// Set for processes in which a test's own part runs.
const WITHIN: &str = "FLASH_TEST_WITHIN";

/// True in a process that a test has started to run its own part, as [`assert_within`] does.
pub(crate) fn is_within() -> bool {
    std::env::var_os(WITHIN).is_some()
}

/// Runs a test's own part, in as many processes of a world, or in one of none.
pub(crate) fn assert_within(test: &str, ranks: Option<&str>, variables: &[(&str, &str)]) {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", test, "--nocapture"];
    let variables = [variables, &[(WITHIN, "1")]].concat();
    let output = match ranks {
        Some(ranks) => run_with(ranks, &this, &arguments, &variables),
        None => plugins::program(&this, "", &arguments).envs(variables).output().unwrap(),
    };
    let text = text_of(&output);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Fails where it is told to; one item asks for a runtime, too.
#[derive(KernelDefinition)]
#[kernel(name = "ranks.failing", dims(i))]
pub(crate) struct Failing<'a> {
    at: u64,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Failing<'_>> for Plain {
    fn item(i: Index<1>, k: FailingItem<'_>) {
        if i[0] == 0 {
            let own = get_runtime("ALL_CPU").expect("an agent has its own processors");
            let launched = own.submit(Failing::of(u64::MAX, &FlashMemory::<u64>::zeroed(1))).exec([1]);
            assert!(matches!(launched, Err(Error::Nested)), "{launched:?}");
        }
        let i = i[0] as u64;
        assert!(i != k.at, "item {i} fails on purpose");
        k.to.set(i + 1);
    }
}

#[test]
fn a_kernel_that_panics_on_an_agent_is_an_error_of_its_launch_and_the_agent_goes_on() {
    if !is_within() {
        const TEST: &str =
            "ranks::a_kernel_that_panics_on_an_agent_is_an_error_of_its_launch_and_the_agent_goes_on";
        return assert_within(TEST, Some("2"), &[]);
    }
    // An agent never comes back from this.
    let rt = get_runtime("RANK").unwrap();
    let to = FlashMemory::<u64>::zeroed(100);
    for round in 0..3 {
        let error = rt.submit(Failing::of(77, &to)).exec([100]).unwrap_err().to_string();
        for part in ["ranks.failing", "RANK:1/ALL_CPU:0", "rank 1", "item 77 fails on purpose"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(matches!(to.read(), Err(Error::Poisoned)), "{round}");
        rt.submit(Failing::of(u64::MAX, &to)).exec([100]).unwrap();
        assert!(to.read().unwrap().iter().zip(1..).all(|(found, expected)| *found == expected), "{round}");
    }
}

/// Adds 1 to each element, after its process has ended in one of several ways.
#[derive(KernelDefinition)]
#[kernel(name = "ranks.ending", dims(i))]
pub(crate) struct Ending<'a> {
    way: u32,
    x: Item<'a, ReadWrite<u64>>,
}

pub(crate) const WELL: u32 = 0;
/// The ways, with what is said of them.
const WAYS: [(u32, &str); 4] = [(1, "SIGABRT"), (2, "exit status: 3"), (3, "SIGKILL"), (4, "silent")];

/// The signal comes while others go on.
fn signal_self(signal: i32) {
    send(std::process::id(), signal);
    std::thread::sleep(LONG);
}

#[kernel]
impl CpuItem<Ending<'_>> for Plain {
    fn item(i: Index<1>, k: EndingItem<'_>) {
        match (i[0], k.way) {
            (5, 1) => std::process::abort(),
            // SAFETY: it ends the process.
            (5, 2) => unsafe { libc::_exit(3) },
            (5, 3) => signal_self(libc::SIGKILL),
            (5, 4) => signal_self(libc::SIGSTOP),
            _ => *k.x += 1,
        }
    }
}

/// What a lost process takes with it, and what it does not: on a device with a memory of its own, or not.
pub(crate) fn goes_on_after_losses(rt: &RuntimeObj, name: &str, has_own_memory: bool, len: usize) {
    let all = |value: u64| vec![value; len];
    let launch = |way: u32, x: &FlashMemory<u64>| rt.submit(Ending::of(way, x)).exec([len]);
    let pid = || rt.devices()[0].query("pid").unwrap();
    for (way, said) in WAYS {
        let [hit, there, both] = [0; 3].map(|_| FlashMemory::<u64>::zeroed(len));
        launch(WELL, &there).unwrap();
        launch(WELL, &both).unwrap();
        assert_eq!(*both.read().unwrap(), all(1));
        let (before, begin) = (pid(), Instant::now());
        let error = launch(way, &hit).unwrap_err().to_string();
        for part in ["ranks.ending", name, &before] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // Only of a child it is known how it ended; the first processes of ranks are another one's.
        assert!(error.contains(said) || error.contains("its process ended;"), "{said}: {error}");
        assert!(begin.elapsed() < LONG, "{error}");
        assert!(matches!(hit.read(), Err(Error::Poisoned)));
        // The next one succeeds, on another process.
        launch(WELL, &both).unwrap();
        assert_ne!(pid(), before);
        assert_eq!(*both.read().unwrap(), all(2));
        match has_own_memory {
            true => assert!(matches!(there.read(), Err(Error::Poisoned))),
            false => assert_eq!(*there.read().unwrap(), all(1)),
        }
        // What was poisoned heals, and what is old is used again.
        hit.write().unwrap().fill(7);
        launch(WELL, &hit).unwrap();
        assert_eq!(*hit.read().unwrap(), all(8));
        // One is lost that does nothing: nothing fails but what wants to use what was in its memory.
        let before = pid();
        kill(before.parse().unwrap());
        within(LONG, || has_ended(before.parse().unwrap()).then_some(()));
        // What ends is noticed within some milliseconds.
        std::thread::sleep(Duration::from_millis(30));
        if has_own_memory {
            let error = launch(WELL, &hit).unwrap_err().to_string();
            assert!(error.contains(&before) && error.contains("device lost"), "{error}");
            hit.write().unwrap().fill(8);
        }
        launch(WELL, &hit).unwrap();
        assert_ne!(pid(), before);
        assert_eq!(*hit.read().unwrap(), all(9));
    }
}

#[test]
fn another_process_takes_the_place_of_one_that_is_lost() {
    if !is_within() {
        const TEST: &str = "ranks::another_process_takes_the_place_of_one_that_is_lost";
        return assert_within(TEST, Some("2"), &[("FLASH_RANK_TIMEOUT_MS", "1000")]);
    }
    goes_on_after_losses(&get_runtime("RANK").unwrap(), "rank 1", false, 1000);
    // Of memory that the agent shares.
    goes_on_after_losses(&get_runtime("RANK:1/ALL_CPU").unwrap(), "RANK:1/ALL_CPU:0", false, 20_000);
}

#[test]
fn a_backend_in_an_agent_of_its_own_can_crash_and_the_program_goes_on() {
    if !is_within() {
        const TEST: &str = "ranks::a_backend_in_an_agent_of_its_own_can_crash_and_the_program_goes_on";
        let plugin = built().test.to_str().unwrap();
        let variables =
            [("FLASH_RANK_TIMEOUT_MS", "1000"), ("FLASH_BACKEND_PATH", plugin), ("FLASH_TEST", "devices=2")];
        return assert_within(TEST, None, &variables);
    }
    let error = get_runtime("ALL_CPU@agent").unwrap_err().to_string();
    assert!(error.contains("call `agent_here()` of `flash::prelude` first of all in `main`"), "{error}");
    flash_core::agent_here();
    for (key, expected) in [
        ("ALL_ACCEL@agent", "expected the key of one other backend before `@agent`"),
        ("NONE@agent", "expected the key of one other backend before `@agent`"),
        ("RANK@agent", "expected the key of one other backend before `@agent`"),
        ("TEST:7@agent", "the agent has no such device"),
    ] {
        let error = get_runtime(key).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
    let ids = |key: &str| -> Vec<String> {
        get_runtime(key).unwrap().devices().iter().map(|device| device.id().to_owned()).collect()
    };
    assert_eq!(ids("TEST@agent"), ["RANK:TEST:0@agent", "RANK:TEST:1@agent"]);
    assert_eq!(ids("TEST:1@agent,ALL_CPU@agent"), ["RANK:TEST:1@agent", "RANK:ALL_CPU:0@agent"]);
    assert_eq!(ids("RANK:TEST:0@agent"), ["RANK:TEST:0@agent"]);
    // Those of this process are taken where either would do.
    assert_eq!(ids("ALL_ACCEL"), ["ALL_CPU:0"]);
    goes_on_after_losses(&get_runtime("ALL_CPU@agent").unwrap(), "ALL_CPU@agent", false, 20_000);
    goes_on_after_losses(&get_runtime("TEST:1@agent").unwrap(), "TEST@agent", true, 1000);
}

/// Copies elements of an array that all items may read.
#[derive(KernelDefinition)]
#[kernel(name = "ranks.gather", dims(i))]
struct Gather<'a> {
    from: Whole<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

#[kernel]
impl CpuItem<Gather<'_>> for Plain {
    fn item(i: Index<1>, k: GatherItem<'_>) {
        k.to.set(k.from[i[0]]);
    }
}

/// Arrays that move between the devices of a runtime, which have memories of their own and copy from each
/// other: none of it goes through this process.
pub(crate) fn copies_from_device_to_device(key: &str) {
    /// Several messages.
    const LEN: usize = 600_000;
    let rt = get_runtime(key).unwrap();
    let devices = rt.devices();
    let [first, second] = [devices[0], devices[1]];
    let alone = |device: &flash_core::devices::DeviceHandle| get_runtime(device.id()).unwrap();
    let [a, b] = [0; 2].map(|_| FlashMemory::<u64>::zeroed(LEN));
    let moved = || devices.iter().map(|device| device.transfers()).collect::<Vec<_>>();
    let all = |add: u64| (0..LEN as u64).map(|i| i + add).collect::<Vec<_>>();
    for _ in 0..3 {
        alone(first).submit(Failing::of(u64::MAX, &a)).exec([LEN]).unwrap();
        alone(second).submit(Failing::of(u64::MAX, &b)).exec([LEN]).unwrap();
        let before = moved();
        // Both ways at once.
        rt.pipeline().prefetch(&a, second).prefetch(&b, first).exec().unwrap();
        for (before, after) in before.iter().zip(moved()).take(2) {
            let moved = after - *before;
            assert_eq!((moved.between_devices.bytes, moved.to_device.bytes), (8 * LEN as u64, 0), "{moved}");
        }
        assert!(*a.read().unwrap() == *all(1) && *b.read().unwrap() == *all(1));
    }
    // Boxes with gaps, between arrays.
    let cube = |x: u64| FlashMemory::from(vec![x; 24]).with_shape([2, 3, 4]).unwrap();
    let (from, to) = (cube(1), cube(2));
    alone(first).submit(Failing::of(u64::MAX, from.view([24]).unwrap())).exec([24]).unwrap();
    alone(second).submit(Failing::of(u64::MAX, to.view([24]).unwrap())).exec([24]).unwrap();
    rt.pipeline().copy_box(&from, [0..2, 1..3, 1..3], &to, [0..2, 0..2, 2..4]).exec().unwrap();
    let mut expected = (1..=24).collect::<Vec<u64>>();
    for (z, y, x) in (0..2).flat_map(|z| (0..2).flat_map(move |y| (0..2).map(move |x| (z, y, x)))) {
        // The first axis is the one without gaps.
        expected[x + 2 * y + 6 * (z + 2)] = (1 + x + 2 * (y + 1) + 6 * (z + 1)) as u64;
    }
    assert_eq!(*to.read().unwrap(), *expected);
    // One array for all of them.
    let cut = || (part_by("i"), weights(vec![1; devices.len()]));
    let out = FlashMemory::<u64>::zeroed(LEN);
    for round in 1..4 {
        a.write().unwrap().fill(round);
        let before = moved();
        rt.submit(Gather::of(&a, &out)).options(cut()).exec([LEN]).unwrap();
        assert!(out.read().unwrap().iter().all(|x| *x == round));
        let sums = moved().into_iter().zip(before).map(|(after, before)| after - before);
        let (up, between) = sums.fold((0, 0), |(up, between), moved| {
            (up + moved.to_device.bytes, between + moved.between_devices.bytes)
        });
        assert_eq!(up + between, (8 * LEN * devices.len()) as u64);
        assert!(devices.len() < 3 || between > 0, "{up} bytes from this process, {between} from devices");
    }
}

#[test]
fn devices_of_one_agent_copy_from_each_other() {
    if !is_within() {
        const TEST: &str = "ranks::devices_of_one_agent_copy_from_each_other";
        let plugin = built().test.to_str().unwrap();
        return assert_within(
            TEST,
            Some("2"),
            &[("FLASH_BACKEND_PATH", plugin), ("FLASH_TEST", "devices=2")],
        );
    }
    copies_from_device_to_device("RANK:1/TEST");
}

#[test]
fn a_program_keeps_as_many_launches_as_it_likes() {
    const EACH: usize = 3000;
    if !is_within() {
        return assert_within("ranks::a_program_keeps_as_many_launches_as_it_likes", Some("2"), &[]);
    }
    let rt = get_runtime("RANK").unwrap();
    let counted = |x: &FlashMemory<u64>| assert_eq!(*x.read().unwrap(), vec![EACH as u64; 4]);
    let x = FlashMemory::<u64>::zeroed(4);
    let launch = |_| rt.submit(Ending::of(WELL, x.clone())).exec_async([4]);
    let handles: Vec<_> = (0..EACH).map(launch).collect();
    counted(&x);
    // Those of the handles are over, and kept.
    let count = || {
        let x = FlashMemory::<u64>::zeroed(4);
        let pipeline = (0..EACH).fold(rt.pipeline(), |p, _| p.submit(Ending::of(WELL, &x)).defer([4]));
        pipeline.exec().unwrap();
        counted(&x);
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(count))));
    handles.into_iter().for_each(|handle| handle.wait().unwrap());
}

/// A program that computes for ever and gives notices, and its processes by rank.
struct Running {
    process: Option<Child>,
    ranks: Vec<u32>,
    /// What it has written to its standard error so far.
    errors: NamedTempFile,
}

impl Running {
    fn start(ranks: usize, key: &str) -> Running {
        Running::start_with(ranks, key, &[])
    }

    fn start_with(ranks: usize, key: &str, variables: &[(&str, &str)]) -> Running {
        let number = ranks.to_string();
        let arguments = ["--bodies", "500", "--steps", "100000000", "--runtime", key];
        let mut command = plugins::flash("", &line(&number, &built().nbody, &arguments));
        command.envs(variables.iter().copied());
        let errors = NamedTempFile::new().unwrap();
        let process = command.stdout(Stdio::null()).stderr(errors.reopen().unwrap()).spawn().unwrap();
        let mut running = Running { process: Some(process), ranks: Vec::new(), errors };
        running.ranks = within(LONG, || {
            let ids = children(running.id());
            // All have joined when each has mapped the world.
            let joined = |id: &u32| {
                fs::read_to_string(format!("/proc/{id}/maps")).is_ok_and(|maps| maps.contains("flash-world"))
            };
            (ids.len() == ranks && ids.iter().all(joined)).then_some(ids)
        });
        running
    }

    fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// How it ends, within the time.
    fn end(mut self) -> Output {
        within(LONG, || self.process.as_mut().unwrap().try_wait().unwrap());
        let output = self.process.take().unwrap().wait_with_output().unwrap();
        Output { stderr: fs::read(self.errors.path()).unwrap(), ..output }
    }

    /// True if it has written on its standard error that a process has taken the place of another.
    fn is_replaced(&self) -> bool {
        fs::read_to_string(self.errors.path()).unwrap().contains("another process serves its devices now")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

pub(crate) fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "it has not happened within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn kill(process: u32) {
    send(process, libc::SIGKILL);
}

fn send(process: u32, signal: i32) {
    // SAFETY: a signal for a child of this test, or for one of its children.
    assert_eq!(unsafe { libc::kill(process as i32, signal) }, 0);
}

/// The processes that this one has started, with any of its threads.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let all = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    all.flat_map(|ids| ids.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

/// True if the process has had a tenth of a second of a processor.
pub(crate) fn has_computed(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() >= 10
}

/// True if the process has ended; its parent may not have asked for its status.
fn has_ended(process: u32) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

#[test]
fn a_killed_agent_is_an_error_that_names_it_and_nothing_hangs() {
    for (key, pause) in [("RANK", 0), ("RANK", 50), ("ALL_CPU,RANK", 100), ("RANK:2", 200)] {
        let running = Running::start(3, key);
        // One that is gone before the program asks for devices is no device.
        within(LONG, || has_computed(running.ranks[2]).then_some(()));
        std::thread::sleep(Duration::from_millis(pause));
        let (lost, all) = (running.ranks[2], running.ranks.clone());
        kill(lost);
        // In a launch that is an error. Between two nothing fails, and another process goes on, or the others
        // do where its share had become nothing.
        let begin = Instant::now();
        let is_over = || has_ended(all[0]) || running.is_replaced();
        while !is_over() && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        // One that was started takes its while, and is told of then.
        let is_started = !children(all[0]).is_empty();
        within(LONG, || (!is_started || is_over()).then_some(()));
        let goes_on = !has_ended(all[0]);
        if goes_on {
            kill(all[0]);
        }
        let output = running.end();
        let text = text_of(&output);
        assert!(goes_on || output.status.code() == Some(1), "{key}: {text}");
        assert!(text.contains("rank 2") && text.contains(&lost.to_string()), "{key}: {text}");
        assert!(all.into_iter().all(has_ended), "{key}: {text}");
    }
}

#[test]
fn an_agent_that_is_stopped_is_lost_within_the_limit() {
    let running = Running::start_with(3, "RANK", &[("FLASH_RANK_TIMEOUT_MS", "1500")]);
    within(LONG, || has_computed(running.ranks[2]).then_some(()));
    let all = running.ranks.clone();
    send(all[2], libc::SIGSTOP);
    let output = running.end();
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("rank 2") && text.contains("silent"), "{text}");
    assert!(all.into_iter().all(has_ended), "{text}");
}

#[test]
fn agents_end_with_the_program_and_with_what_started_it() {
    let running = Running::start(3, "RANK");
    kill(running.ranks[0]);
    let ranks = running.ranks.clone();
    let output = running.end();
    assert_eq!(output.status.code(), Some(128 + 9), "{}", text_of(&output));
    assert!(ranks.into_iter().all(has_ended));
    // Whatever became of the one that would have waited for them.
    let running = Running::start(3, "RANK");
    let ranks = running.ranks.clone();
    kill(running.id());
    within(LONG, || ranks.iter().all(|rank| has_ended(*rank)).then_some(()));
}

#[test]
fn a_program_that_may_be_an_agent_has_its_settings_and_plugins_to_itself() {
    if !is_within() {
        const TEST: &str = "ranks::a_program_that_may_be_an_agent_has_its_settings_and_plugins_to_itself";
        return assert_within(TEST, None, &[("FLASH_BACKEND_PATH", built().test.to_str().unwrap())]);
    }
    flash_core::agent_here();
    let has_loaded = || fs::read_to_string("/proc/self/maps").unwrap().contains("flash_backend_test_plugin");
    assert!(!has_loaded());
    // A setting of the process, which the first context fixes.
    let context = flash_core::Context::builder().set("stack_size", 1 << 20).build().unwrap();
    context.runtime("TEST").unwrap();
    assert!(has_loaded());
}

/// A `flash serve` of the test backend, in a folder of its own.
struct Serving {
    folder: tempfile::TempDir,
    process: Child,
}

impl Serving {
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        serving_command(self.folder.path(), arguments)
    }

    fn start() -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let mut command = serving_command(folder.path(), &["serve", "TEST", "--listen", "lab"]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let serving = Serving { folder, process };
        within(LONG, || (serving.agents()["agents"][0]["key"] == "TEST").then_some(()));
        serving
    }

    fn agents(&self) -> Value {
        let output = self.command(&["agents", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text_of(&output)))
    }

    /// Its programs.
    fn clients(&self) -> Vec<Value> {
        self.agents()["agents"][0]["clients"].as_array().unwrap().clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serving_command(folder: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = plugins::flash(built().test.to_str().unwrap(), arguments);
    command.env("XDG_RUNTIME_DIR", folder).env("FLASH_TEST", "devices=2");
    command
}

#[test]
fn several_programs_use_an_agent_that_listens_each_with_a_process_of_its_own() {
    let serving = Serving::start();
    let text = |arguments: &[&str]| text_of(&serving.command(arguments).output().unwrap());
    // Two at once pass the suite, and a third is there meanwhile.
    let conformance = ["conformance", "TEST@lab", "--check", ""];
    let start = || serving.command(&conformance).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let programs = [start().unwrap(), start().unwrap()];
    let ids: Vec<u64> = programs.iter().map(|program| u64::from(program.id())).collect();
    let seen = within(LONG, || {
        let clients = serving.clients();
        let has_worked = |client: &Value| client["launches"].as_u64() > Some(0) && client["bytes"].is_u64();
        (clients.len() == 2 && clients.iter().all(has_worked)).then_some(clients)
    });
    for client in &seen {
        assert!(ids.contains(&client["pid"].as_u64().unwrap()), "{client}");
        assert_eq!(client["devices"], serde_json::json!(["TEST:0", "TEST:1"]));
    }
    assert_ne!(seen[0]["agent"], seen[1]["agent"]);
    assert!(text(&["agents"]).contains("TEST@lab  process "));
    for program in programs {
        let output = program.wait_with_output().unwrap();
        let text = text_of(&output);
        assert!(output.status.success() && text.contains("RANK:TEST:1@lab "), "{text}");
    }
    // What they had has gone with them.
    within(LONG, || serving.clients().is_empty().then_some(()));
    for client in &seen {
        assert!(has_ended(client["agent"].as_u64().unwrap() as u32));
    }

    // What is wrong is said.
    for (arguments, expected) in [
        (&["conformance", "TEST@nowhere"][..], "no agent listens as `nowhere`"),
        (&["conformance", "TEST@nowhere"], "available: lab"),
        (&["conformance", "NULL@lab"], "this agent serves `TEST@lab`, found a program that wants `NULL@lab`"),
        (&["conformance", "TEST@la/b"], "expected 1 to 64 letters"),
        (&["serve", "TEST", "--listen", "lab"], "another process listens as `lab`"),
        (&["serve", "NOTHING", "--listen", "other"], "there is no backend `NOTHING`"),
        (&["serve", "ALL_ACCEL", "--listen", "other"], "expected the key of one backend"),
        (&["serve", "ALL", "--listen", "other"], "expected the key of one backend"),
    ] {
        let text = text(arguments);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    // Its end is that of its processes, and its name is free again.
    let mut running = start().unwrap();
    let agent = within(LONG, || serving.clients().first().and_then(|client| client["agent"].as_u64()));
    let folder = serving.folder.path().to_owned();
    kill(serving.process.id());
    within(LONG, || has_ended(agent as u32).then_some(()));
    running.kill().unwrap();
    running.wait().unwrap();
    let output = serving_command(&folder, &["agents"]).output().unwrap();
    assert!(text_of(&output).contains("no agent listens"), "{}", text_of(&output));
}
