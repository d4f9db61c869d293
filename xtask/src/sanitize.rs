//! Dynamic checks: data races, by ThreadSanitizer, and malformed files and messages, by libFuzzer.
//!
//! ThreadSanitizer sees every access of the runtime's tests, also over devices with memories of their own and
//! with concurrent readers, and of the standard library, which is therefore built anew (`-Zbuild-std`): that
//! takes a nightly toolchain with `rust-src`. It knows atomic operations, locks and threads, but no fences:
//! an order that only a fence makes is a race to it. There is none of that kind here. Fences stand between a
//! write and a look at sleepers (`memory/state/word.rs`, `runtime/distributed/lane.rs`), where both sides are
//! atomic; contents are handed over by Release and Acquire. So there are no suppressions, and every report is
//! an error.

use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::root;
use crate::test::{ON_ONE_DEVICE, OWN_MEMORIES};

/// Tests that are left out: they compute for minutes each, and share nothing between threads that others do
/// not.
const SKIPPED: &[&str] =
    &["reduce::a_million_work_items", "reduce::every_space", "nbody::the_", "nbody::both_forms"];

/// Submissions of the tests that count them: a hundred thousand would take minutes.
const SUBMISSIONS: &str = "20000";

/// The coverage that libFuzzer needs to find inputs with new paths. Available in a stable toolchain, too.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The options of the command.
#[derive(clap::Args)]
pub struct Options {
    /// Fuzz the reader of recordings, and those of messages, each for this many seconds instead.
    #[arg(long, value_name = "SECONDS")]
    fuzz: Option<u32>,
    /// Fuzz this one only.
    #[arg(long, value_name = "NAME", requires = "fuzz", value_parser = FUZZED)]
    only: Option<String>,
}

/// What is fuzzed: recordings, messages to an agent, to a controller, and in a mailbox, configurations of
/// C2MPI, and packages of kernels.
const FUZZED: [&str; 6] = ["recordings", "agent", "controller", "mailbox", "configuration", "package"];

/// Runs the tests of the runtime under ThreadSanitizer, or the fuzzer. Without a nightly toolchain it prints
/// that, and succeeds.
pub fn run(options: &Options) -> Result<ExitCode> {
    match options.fuzz {
        Some(seconds) => {
            let is_meant = |name: &&&str| options.only.as_ref().is_none_or(|only| only == **name);
            FUZZED.iter().filter(is_meant).try_for_each(|name| fuzz(name, seconds))?;
            Ok(ExitCode::SUCCESS)
        }
        None => threads(),
    }
}

fn threads() -> Result<ExitCode> {
    if !has_nightly("rust-src") {
        println!(
            "skipped: ThreadSanitizer: no nightly toolchain with rust-src: \
             `rustup toolchain install nightly --component rust-src`"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let target = host("+nightly")?;
    let run = |tests: &[&str], skipped: &[&str], environment: &[(&str, &str)]| {
        let mut command = Command::new("cargo");
        command
            .args(["+nightly", "test", "-Zbuild-std", "--target", &target, "--package", "flash-tests"])
            .args(["--no-fail-fast"])
            .args(tests.iter().flat_map(|test| ["--test", test]))
            .arg("--")
            .args(skipped.iter().flat_map(|test| ["--skip", test]))
            .env("RUSTFLAGS", with_flags("-Zsanitizer=thread"))
            // Every access is still checked, and the code is compiled sooner.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("FLASH_TEST_SUBMISSIONS", SUBMISSIONS)
            .envs(environment.iter().copied());
        finish(command)
    };
    run(&["runtime", "distributed"], SKIPPED, &[])?;
    run(&["runtime"], &[SKIPPED, ON_ONE_DEVICE].concat(), OWN_MEMORIES)
}

/// A nightly toolchain also says where memory is touched that is not meant, by AddressSanitizer.
fn fuzz(name: &str, seconds: u32) -> Result<()> {
    let (nightly, flags) = match has_nightly("rust-std") {
        true => (Some("+nightly"), format!("{COVERAGE} -Zsanitizer=address")),
        false => (None, COVERAGE.to_owned()),
    };
    let target = host(nightly.unwrap_or_default())?;
    let program = if name == FUZZED[0] { name } else { "messages" };
    // The place of an input that caused a failure.
    let found = root().join("target/fuzz").join(name);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut command = Command::new("cargo");
    command
        .args(nightly)
        .args(["run", "--package", "flash-fuzz", "--features", "libfuzzer", "--bin", program])
        .args(["--target", &target, "--"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        // Room for the mutator's insertions; an input that takes ten seconds is an error. Implementations
        // that came stay for as long as a process lives.
        .args(["-max_len=65536", "-timeout=10", "-rss_limit_mb=6144", "-print_final_stats=1"])
        .env("RUSTFLAGS", with_flags(&flags))
        // Threads and answers of devices live as long as the process.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("FLASH_FUZZ", name)
        .env("FLASH_CPU_THREADS", "1");
    finish(command).map(drop)
}

/// Whether a nightly toolchain has this component. Not asked of `rustc +nightly`, which might install one.
fn has_nightly(component: &str) -> bool {
    let list = Command::new("rustup")
        .args(["component", "list", "--installed", "--toolchain", "nightly"])
        .stderr(Stdio::null())
        .output();
    list.is_ok_and(|list| {
        String::from_utf8_lossy(&list.stdout).lines().any(|line| line.starts_with(component))
    })
}

/// The machine's own target. Naming it keeps the flags from build scripts.
fn host(toolchain: &str) -> Result<String> {
    let toolchain = Some(toolchain).filter(|toolchain| !toolchain.is_empty());
    let output = Command::new("rustc").args(toolchain).arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .with_context(|| format!("expected a line `host: ..` of `rustc -vV`, found {text}"))
}

/// The flags, with those of the caller's environment.
fn with_flags(flags: &str) -> String {
    let before = env::var("RUSTFLAGS").unwrap_or_default();
    format!("{before} {flags}").trim().to_owned()
}

fn finish(mut command: Command) -> Result<ExitCode> {
    // Pieces of an interrupted build do not link with each other.
    command.env("CARGO_INCREMENTAL", "0");
    println!("sanitize: {command:?}");
    let status = command.current_dir(root()).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("sanitize: it failed ({status}): what was found is above");
    }
    Ok(ExitCode::SUCCESS)
}
