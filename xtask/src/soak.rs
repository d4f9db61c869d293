//! Runs random graphs, tasks or launches against models, for as long as one likes: `flash-soak` makes them.

use anyhow::{Context, Result};
use std::process::{Command, ExitCode};

use crate::root;

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// `graphs`, `tasks` or `ranks`
    what: String,
    /// For how many minutes (default: 10)
    #[arg(long, value_name = "M")]
    minutes: Option<String>,
    /// At most how many
    #[arg(long, value_name = "N")]
    count: Option<String>,
    /// The first seed (default: 0); the others follow it
    #[arg(long, value_name = "S")]
    seed: Option<String>,
}

/// Runs `flash-soak`, whose exit status becomes this command's.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "--package", "flash-soak", "--", &options.what]);
    for (option, value) in [("minutes", &options.minutes), ("count", &options.count), ("seed", &options.seed)]
    {
        command.args(value.iter().map(|value| format!("--{option}={value}")));
    }
    let status = command.current_dir(root()).status().context("cargo does not start")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}
