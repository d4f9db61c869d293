//! Runs random graphs, tasks or launches against models, for as long as one likes, or long runs of C2MPI:
//! `flash-soak` makes them. Before random launches on agents, the runtime's tests run on some. Random
//! functions of kernels that are written once are programs of their own, which are built for each seed.

use anyhow::{Context, Result, ensure};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::{opencl, root, setup, test};

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// `graphs`, `tasks`, `ranks`, `functions` or `halo`
    what: String,
    /// For how many minutes (default: 10); not for `halo`
    #[arg(long, value_name = "M")]
    minutes: Option<String>,
    /// One part of `halo`: `messages`, `forwarding`, `claims` or `clients`
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// At most how many, of `functions` programs of 500; of each part of `halo`, how many (default: 1000000
    /// messages, 100000 through three parent ranks, 100000 claims, 100 clients)
    #[arg(long, value_name = "N")]
    count: Option<String>,
    /// The first seed (default: 0); the others follow it
    #[arg(long, value_name = "S")]
    seed: Option<String>,
}

/// Runs `flash-soak`, whose exit status becomes this command's.
pub fn run(options: &Options) -> Result<ExitCode> {
    match &*options.what {
        "functions" => return functions(options),
        "halo" => build()?,
        // A seed repeats what has failed.
        "ranks" if options.seed.is_none() && !test::run_on_agents()? => return Ok(ExitCode::FAILURE),
        _ => {}
    }
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "--package", "flash-soak", "--", &options.what]);
    for (option, value) in [
        ("minutes", &options.minutes),
        ("count", &options.count),
        ("seed", &options.seed),
        ("only", &options.only),
    ] {
        command.args(value.iter().map(|value| format!("--{option}={value}")));
    }
    let status = command.current_dir(root()).status().context("cargo does not start")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

/// Builds what `flash-soak` starts: it lies beside that.
fn build() -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--quiet", "--package", "flash-cli"]);
    command.args(["--package", "flash-backend-test-plugin"]);
    let status = command.current_dir(root()).status().context("cargo does not start")?;
    ensure!(status.success(), "what `halo` starts does not build: what the compiler says is above");
    Ok(())
}

/// Kernels of random functions, and functions of each: what a device compiles as one program.
const KERNELS: [(&str, &str); 2] = [("FLASH_RANDOM_KERNELS", "5"), ("FLASH_RANDOM_FUNCTIONS", "100")];

/// Functions of random statements, on the CPU and on all devices that take texts: the same bits. Each seed
/// has a program, until the time is over or one fails.
fn functions(options: &Options) -> Result<ExitCode> {
    let number = |option: &str, value: &Option<String>, default: u64| {
        let Some(text) = value else { return Ok(default) };
        text.parse().with_context(|| format!("--{option}: expected a number, found `{text}`"))
    };
    let minutes = number("minutes", &options.minutes, 10)?;
    let (first, count) = (number("seed", &options.seed, 0)?, number("count", &options.count, u64::MAX)?);
    ensure!(options.only.is_none(), "--only: it is for `halo`");
    setup::tests()?;
    let start = Instant::now();
    for seed in first..first.saturating_add(count) {
        println!("functions of seed {seed} ...");
        let mut command = Command::new("cargo");
        command.args(["test", "--quiet", "--workspace", "--test", "random"]);
        command.envs(KERNELS).env("FLASH_RANDOM_SEED", seed.to_string()).envs(opencl::environment()?);
        let status = command.current_dir(root()).status().context("cargo does not start")?;
        if !status.success() {
            eprintln!("soak: `cargo xtask soak functions --seed {seed} --count 1` repeats it");
            return Ok(ExitCode::FAILURE);
        }
        if start.elapsed() >= Duration::from_secs(60 * minutes) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
