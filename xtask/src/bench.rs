//! Runs the benchmarks: `flash-bench` measures and compiles its peers, this
//! installs what compiling them takes.

use std::path::{Path, PathBuf, absolute};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{opencl, root, setup};

/// What to measure.
#[derive(clap::Args)]
pub struct Options {
    /// The benchmark; without one, every benchmark
    name: Option<String>,
    /// Also write the rows to FILE, as a JSON list
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the benchmarks instead
    #[arg(long, conflicts_with_all = ["name", "json"])]
    list: bool,
}

/// Runs `flash-bench`, whose exit status becomes this command's.
pub fn run(options: &Options) -> Result<ExitCode> {
    if !options.list {
        setup::peers()?;
    }
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "--package", "flash-bench", "--"]).current_dir(root());
    command.args(arguments(options)?).envs(opencl::environment()?);
    let status = command.status().context("cargo does not start")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

fn arguments(options: &Options) -> Result<Vec<PathBuf>> {
    let mut arguments = Vec::new();
    if options.list {
        arguments.push(PathBuf::from("--list"));
    }
    if let Some(file) = &options.json {
        arguments.push(PathBuf::from("--json"));
        // The benchmark runs in the workspace's root.
        arguments.push(absolute(Path::new(file)).context("the file of --json")?);
    }
    arguments.extend(options.name.iter().map(PathBuf::from));
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_json_file_is_the_callers() -> Result<()> {
        let options = Options { name: Some("dispatch".into()), json: Some("rows.json".into()), list: false };
        let here = std::env::current_dir()?.join("rows.json");
        let expected = [PathBuf::from("--json"), here, PathBuf::from("dispatch")];
        assert_eq!(arguments(&options)?, expected);
        Ok(())
    }
}
