//! Runs all tests in steps, passes their output through, and ends with one line of
//! counts. A step that fails does not keep the next from running.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, LineWriter, Read, Stdout, Write};
use std::os::unix;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use anyhow::{Context, Result, ensure};

use crate::tally::{Skip, Tally};
use crate::{cuda, in_ci, opencl, root, setup};

/// Where a test that skips itself says so.
const SKIP_LOG: &str = "FLASH_SKIP_LOG";

/// What tests load and start, built with them: alone it would get fewer features of what it depends on, and
/// most of that would be built twice.
const BUILD: &[&str] =
    &["build", "--workspace", "--lib", "--tests", "--bin", "flash", "--bin", "nbody", "--bin", "xtask"];

/// A host program that brings its own kernels and backends, with the definitions of the library. What
/// features bring is in `tests/tests/features.rs`.
const WITHOUT_FEATURES: &[&str] =
    &["check", "--package", "flash", "--no-default-features", "--features", "definitions"];

/// Tells the tests that it is built.
const BUILT: (&str, &str) = ("FLASH_TEST_BUILT", "1");

/// An environment in which the runtime's tests run once more.
struct Again {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// The tests that are of something else.
    others: &'static [&'static str],
}

const AGAIN: &[Again] = &[
    Again { name: "two devices", environment: &[("FLASH_CPU_DEVICES", "2")], others: ON_ONE_DEVICE },
    Again {
        name: "three devices with memories of their own",
        environment: OWN_MEMORIES,
        others: ON_ONE_DEVICE,
    },
    Again {
        name: "checks",
        environment: &[("FLASH_CHECK_WRITES", "1"), ("FLASH_CHECK_MAPS", "1")],
        others: UNCHECKED,
    },
];

/// The program of each process of a world, with its arguments: all of it in the first process. The others run
/// one test, which asks for a runtime: there they become agents.
const ONE_PROGRAM: &str = r#"case "$FLASH_WORLD" in
*:0) exec "$@" ;;
*) exec "$1" --exact elements::elements_outside_the_launch_keep_their_value >/dev/null ;;
esac"#;

/// Devices that see nothing of the host's memory.
pub const OWN_MEMORIES: &[(&str, &str)] = &[("FLASH_TEST_KEY", "TEST"), ("FLASH_TEST", "devices=3")];

/// Tests of one device's name, of records that several devices have several of, of bits that are the same on
/// one device, and of a window that is not cut.
pub const ON_ONE_DEVICE: &[&str] = &[
    "a_panic_of_one_item_is_an_error_with_kernel_device_position_and_words",
    "a_profile_records_kernel_device_phases_items_and_times",
    "a_launch_that_is_profiled_is_one_record",
    "a_kernel_by_name_gives_what_its_type_gives",
    "without_a_cut_a_window_is_the_whole_array_through_every_door",
];

/// Tests of what checks change: launches are cut on one device; they touch all of an argument, whatever their
/// items are; and what is found to be wrong poisons more.
const UNCHECKED: &[&str] = &[
    "all_phases_of_a_device_are_one_record",
    "without_a_cut_a_window_is_the_whole_array_through_every_door",
    "a_launch_meets_only_guards_of_what_it_touches",
    "a_guard_of_what_a_pending_pipeline_leaves_alone_does_not_wait_for_it",
    "pipelines_wait_for_guards_of_parts_that_they_write_and_for_no_others",
    "what_a_kernel_forgets_to_write_is_nothing_of_another_array",
    "launches_and_guards_of_other_rows_do_not_wait",
    "devices_random::random_pipelines",
];

/// What Miri interprets: code with `unsafe` of its own, kept to minutes. It uses one core: each entry, the
/// end of a `cargo miri test` command, is a step, and they run at once.
const MIRI: &[(&str, &[&str])] = &[
    ("Miri, runtime", &["--package", "flash-core", "--lib", "--", "runtime::"]),
    ("Miri, core", &["--package", "flash-core", "--lib", "--", "--skip", "runtime::"]),
    ("Miri, transport", &["--package", "flash-net", "--test", "local"]),
    ("Miri, types and backends", &["--package", "flash-types", "--package", "flash-backend", "--lib"]),
];

/// Without isolation, so that tests reach the clock, the environment and files; buffer handles are
/// addresses; the backtrace of a panic that a test expects takes seconds; and devices keep the buffers that
/// they have cached, and their threads, for as long as the process lives.
const MIRI_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-env-set=RUST_BACKTRACE=0";

/// Runs every test. The exit status says whether all passed and, with CI, whether
/// only what may be missing was missing.
pub fn run() -> Result<ExitCode> {
    setup::tests()?;
    let mut report = Report::new(in_ci());

    report.run(Step::cargo("build", BUILD))?;
    report.run(Step::cargo("no features", WITHOUT_FEATURES))?;
    report.run(Step::cargo("workspace", &["test", "--workspace", "--no-fail-fast"]).with(&[BUILT]))?;
    // What a launch means does not depend on how many devices run it, nor on where their memory is, nor on
    // whether it is checked, nor on what its kernels are compiled from.
    for Again { name, environment, others } in AGAIN {
        report.run(again(name, others).with(environment))?;
    }
    report.run(again("C device", &[]).with(&on_c()?))?;
    match opencl::right_devices()? {
        Some(shown) => {
            let environment = [("FLASH_TEST_KEY", "OPENCL".into()), plugin("opencl_fpga")?, shown];
            report.run(again("OpenCL devices", ON_ONE_DEVICE).with(&environment))?;
        }
        None => report.skip("OpenCL devices", "no OpenCL runtime"),
    }
    match cuda::checker()? {
        Some(checker) => {
            report.run(again("emulated CUDA device", &[]).with(&on_emulated_cuda()?))?;
            // It was built with the workspace.
            report.run(Step::of("CUDA kernels", checker))?;
        }
        None => report.skip("CUDA kernels and devices", "no CUDA compilers"),
    }
    report.run(Step::cargo("loom models", &["test", "--package", "flash-loom", "--features", "loom"]))?;
    if setup::has_miri() {
        let steps = MIRI.iter().map(|(name, target)| {
            let arguments = [&["+nightly", "miri", "test", "--no-fail-fast"], *target].concat();
            Step::cargo(name, &arguments).interpreted()
        });
        report.run_at_once(steps.collect())?;
    } else {
        report.skip("Miri", "no nightly toolchain with miri");
    }

    println!("\n{report}");
    Ok(match report.ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The runtime's tests once more, without some of them. As the workspace was built: nothing is compiled
/// again.
fn again(name: &'static str, others: &[&str]) -> Step {
    let skipped = others.iter().flat_map(|test| ["--skip", test]);
    let arguments = ["test", "--workspace", "--test", "runtime", "--"].into_iter();
    Step::cargo(name, &arguments.chain(skipped).collect::<Vec<_>>()).again()
}

/// The environment of a device whose backend is a text in C.
fn on_c() -> Result<[opencl::Variable; 2]> {
    let library = opencl::target()?.join("debug/libmy_accel.so");
    let library = opencl::utf8(&library)?;
    let arguments = "-std=c11 -O1 -shared -fPIC -I flash-backend/include tests/c/backend.c -o".split(' ');
    let mut compiler = Command::new("cc");
    compiler.args(arguments).arg(&library).current_dir(root());
    let status = compiler.status().context("cc does not start")?;
    ensure!(status.success(), "tests/c/backend.c does not compile");
    Ok([("FLASH_TEST_KEY", "MY_ACCEL".into()), ("FLASH_BACKEND_PATH", library)])
}

/// The environment of the emulated CUDA device, with the driver that the workspace has.
fn on_emulated_cuda() -> Result<[opencl::Variable; 5]> {
    let debug = opencl::target()?.join("debug");
    let driver = debug.join("cuda-driver");
    let link = driver.join("libcuda.so");
    fs::create_dir_all(&driver).with_context(|| format!("cannot make {}", driver.display()))?;
    // The tests of the backend make it, too.
    let _ = unix::fs::symlink("../libflash_tests_cuda_driver.so", &link);
    let (variable, compiler) = cuda::environment()?;
    Ok([
        ("FLASH_TEST_KEY", "NVIDIA_GPU".into()),
        ("FLASH_TEST_EMULATED", "1".into()),
        ("FLASH_CACHE_DIR", opencl::utf8(&driver.join("programs"))?),
        plugin("cuda")?,
        (variable, format!("{}:{compiler}", opencl::utf8(&driver)?)),
    ])
}

/// The variable by which a program finds a backend of the workspace.
fn plugin(backend: &str) -> Result<opencl::Variable> {
    let library = opencl::target()?.join(format!("debug/libflash_backend_{backend}_plugin.so"));
    Ok(("FLASH_BACKEND_PATH", opencl::utf8(&library)?))
}

/// Runs the runtime's tests on devices of other processes. True if all pass.
pub fn run_on_agents() -> Result<bool> {
    const PACKAGES: [&str; 4] = ["--package", "flash-tests", "--package", "flash-cli"];
    // Kernels that use what is in their process are skipped, wherever this runs.
    let mut report = Report::new(false);
    let build = [&["build", "--test", "runtime", "--bin", "flash"], &PACKAGES[..]].concat();
    report.run(Step::cargo("build", &build))?;
    let flash = root().join("target/debug/flash");
    let flash = flash.to_str().context("this repository's path is no text")?;
    for (name, ranks, others) in [("one agent", "2", &[][..]), ("two agents", "3", ON_ONE_DEVICE)] {
        // A list of texts is the same in JSON and in TOML.
        let runner = serde_json::json!([flash, "run", "-n", ranks, "--", "sh", "-c", ONE_PROGRAM, "sh"]);
        let runner = format!("target.'cfg(unix)'.runner={runner}");
        let skipped = others.iter().flat_map(|test| ["--skip", test]);
        let arguments = ["test", "--test", "runtime"].into_iter().chain(PACKAGES);
        let arguments: Vec<&str> = arguments.chain(["--config", &runner, "--"]).chain(skipped).collect();
        report.run(Step::cargo(name, &arguments).with(&[("FLASH_TEST_KEY", "RANK")]).again())?;
    }
    println!("\n{report}");
    Ok(report.ok())
}

/// One command that runs tests.
struct Step {
    name: &'static str,
    shown: String,
    command: Command,
    /// Tests ignored or skipped here ran in another step.
    repeats: bool,
}

impl Step {
    fn cargo(name: &'static str, arguments: &[&str]) -> Self {
        let mut command = Command::new("cargo");
        command.args(arguments);
        Self { shown: format!("cargo {}", arguments.join(" ")), ..Self::of(name, command) }
    }

    fn of(name: &'static str, mut command: Command) -> Self {
        command.current_dir(root());
        Self { name, shown: command.get_program().to_string_lossy().into_owned(), command, repeats: false }
    }

    fn with<V: AsRef<OsStr>>(mut self, environment: &[(&str, V)]) -> Self {
        self.command.envs(environment.iter().map(|(name, value)| (name, value)));
        self
    }

    /// With tests that ran before, in another environment.
    fn again(mut self) -> Self {
        self.command.env("FLASH_TEST_AGAIN", "1");
        self.repeats = true;
        self
    }

    fn interpreted(mut self) -> Self {
        if env::var_os("MIRIFLAGS").is_none() {
            self.command.env("MIRIFLAGS", MIRI_FLAGS);
        }
        self.repeats = true;
        self
    }

    fn run(mut self, out: impl Write) -> Result<Done> {
        println!("\n== {}: {}", self.name, self.shown);
        let start = Instant::now();
        let file = format!("flash-skips-{}-{}", process::id(), self.name.replace(' ', "-"));
        let log = env::temp_dir().join(file);
        fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
        self.command.env(SKIP_LOG, &log);
        for (name, value) in opencl::environment()? {
            if !self.command.get_envs().any(|(set, _)| set == name) {
                self.command.env(name, value);
            }
        }

        let mut tally = Tally::default();
        let succeeded = pass_through(&mut self.command, out, |line| tally.line(line))?;
        tally.skip_log(&read_and_remove(&log)?);
        if self.repeats {
            tally.skips.clear();
        }
        if !succeeded && tally.failed == 0 {
            // It did not build, or died.
            tally.failed = 1;
        }
        let done = Done { name: self.name, time: start.elapsed(), succeeded, tally };
        println!("== {done}");
        Ok(done)
    }
}

fn read_and_remove(file: &Path) -> Result<String> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::remove_file(file).ok();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs the command, copies its standard output to `out` as it comes, and shows
/// every finished line to `line`. Standard error stays the caller's, a terminal if
/// it is one.
fn pass_through(command: &mut Command, mut out: impl Write, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut pipe = child.stdout.take().context("the child's output")?;
    let (mut chunk, mut pending) = ([0; 8192], Vec::new());
    loop {
        let length = pipe.read(&mut chunk)?;
        out.write_all(&chunk[..length])?;
        out.flush()?;
        pending.extend_from_slice(&chunk[..length]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            line(&String::from_utf8_lossy(&pending[..end]));
            pending.drain(..=end);
        }
        if length == 0 {
            line(&String::from_utf8_lossy(&pending));
            return Ok(child.wait()?.success());
        }
    }
}

/// Standard output for one of several steps at once: whole lines only.
struct Lines(LineWriter<Stdout>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A step that has run.
struct Done {
    name: &'static str,
    time: Duration,
    succeeded: bool,
    tally: Tally,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let outcome = if self.succeeded { "ok" } else { "FAILED" };
        let Tally { passed, failed, skips, .. } = &self.tally;
        write!(
            f,
            "{}: {outcome} in {:.1} s: {passed} passed, {failed} failed, {} skipped",
            self.name,
            self.time.as_secs_f64(),
            skips.len()
        )
    }
}

/// All steps so far.
struct Report {
    /// Nothing may be missing but hardware and a nightly toolchain.
    ci: bool,
    steps: Vec<Done>,
    /// Whole steps that could not run.
    skips: Vec<Skip>,
}

impl Report {
    fn new(ci: bool) -> Self {
        Self { ci, steps: Vec::new(), skips: Vec::new() }
    }

    fn run(&mut self, step: Step) -> Result<()> {
        self.steps.push(step.run(io::stdout().lock())?);
        Ok(())
    }

    /// Runs steps side by side.
    fn run_at_once(&mut self, steps: Vec<Step>) -> Result<()> {
        let done: Result<Vec<Done>> = thread::scope(|scope| {
            let start = |step: Step| scope.spawn(|| step.run(Lines(LineWriter::new(io::stdout()))));
            let running: Vec<_> = steps.into_iter().map(start).collect();
            running.into_iter().map(|step| step.join().expect("a step does not panic")).collect()
        });
        self.steps.extend(done?);
        Ok(())
    }

    fn skip(&mut self, name: &str, why: &str) {
        println!("\nskipped: {name}: {why}");
        self.skips.push(Skip { name: name.to_owned(), why: why.to_owned() });
    }

    fn skips(&self) -> impl Iterator<Item = &Skip> {
        let inside = self.steps.iter().flat_map(|step| &step.tally.skips);
        inside.chain(&self.skips)
    }

    fn ok(&self) -> bool {
        let allowed = !self.ci || self.skips().all(Skip::allowed_in_ci);
        allowed && self.steps.iter().all(|step| step.succeeded)
    }
}

/// The summary, with what the tests that failed said last; its last line is the counts, alone.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (step, failure) in
            self.steps.iter().flat_map(|step| step.tally.failures.iter().map(move |failure| (step, failure)))
        {
            writeln!(f, "failed: {} ({})", failure.name, step.name)?;
            failure.output.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        for skip in self.skips() {
            writeln!(f, "skipped: {}: {}", skip.name, skip.why)?;
        }
        if self.ci {
            for skip in self.skips().filter(|skip| !skip.allowed_in_ci()) {
                writeln!(f, "error: with CI set, {} may not be skipped: {}", skip.name, skip.why)?;
            }
        }
        let sum =
            |count: fn(&Tally) -> u64| -> u64 { self.steps.iter().map(|step| count(&step.tally)).sum() };
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            sum(|tally| tally.passed),
            sum(|tally| tally.failed),
            self.skips().count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ci: bool, output: &str, succeeded: bool, log: &str) -> Report {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.skip_log(log);
        let step = Done { name: "workspace", time: Duration::from_millis(1500), succeeded, tally };
        let mut report = Report::new(ci);
        report.steps.push(step);
        report
    }

    const PASSED: &str = "test a ... ok\ntest b ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored";

    #[test]
    fn the_last_line_is_the_counts_alone() {
        let report = report(false, PASSED, true, "skipped: b: no GPU\n").to_string();
        assert_eq!(report.lines().last(), Some("1 passed, 0 failed, 1 skipped"));
        assert!(report.contains("\nskipped: b: no GPU\n"), "{report}");
        assert!(report.starts_with("workspace: ok in 1.5 s: 1 passed, 0 failed, 1 skipped\n"));
    }

    #[test]
    fn in_ci_a_compiler_may_not_be_missing_but_a_gpu_may() {
        for (why, ci, ok) in [
            ("no GPU", true, true),
            ("no GPU", false, true),
            ("no gfortran", true, false),
            ("no gfortran", false, true),
        ] {
            let report = report(ci, PASSED, true, &format!("skipped: b: {why}\n"));
            assert_eq!(report.ok(), ok, "{why}, CI {ci}");
            assert_eq!(report.to_string().contains("\nerror: "), !ok, "{report}");
        }
    }

    #[test]
    fn a_failed_step_fails_the_run() {
        assert!(!report(false, PASSED, false, "").ok());
    }

    #[test]
    #[cfg(unix)]
    fn a_childs_output_is_seen_line_by_line() -> Result<()> {
        let (mut lines, mut copy) = (Vec::new(), Vec::new());
        let mut command = Command::new("printf");
        command.arg("one\\ntwo");
        let keep = |line: &str| lines.push(line.to_owned());
        assert!(pass_through(&mut command, &mut copy, keep)?);
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(copy, b"one\ntwo");
        Ok(())
    }
}
