//! Runs random graphs, tasks or launches against models, for as long as one likes, or long runs of C2MPI:
//! `flash-soak` makes them. Before random launches on agents, the runtime's tests run on some.

use anyhow::{Context, Result, ensure};
use std::process::{Command, ExitCode};

use crate::{root, test};

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// `graphs`, `tasks`, `ranks` or `halo`
    what: String,
    /// For how many minutes (default: 10); not for `halo`
    #[arg(long, value_name = "M")]
    minutes: Option<String>,
    /// One part of `halo`: `messages`, `forwarding`, `claims` or `clients`
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// At most how many; of each part of `halo`, how many (default: 1000000 messages, 100000 through three
    /// parent ranks, 100000 claims, 100 clients)
    #[arg(long, value_name = "N")]
    count: Option<String>,
    /// The first seed (default: 0); the others follow it
    #[arg(long, value_name = "S")]
    seed: Option<String>,
}

/// Runs `flash-soak`, whose exit status becomes this command's.
pub fn run(options: &Options) -> Result<ExitCode> {
    match &*options.what {
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
