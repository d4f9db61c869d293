//! Runs the benchmarks: `flash-bench` measures and compiles its peers, this
//! installs what compiling them takes.

use std::path::{PathBuf, absolute};
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
    /// Also write the rows to FILE, as a table in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also draw the scores of `kernels` to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Sizes of all arrays of a kernel of `kernels` together, in MiB (default: 48,192,1024)
    #[arg(long, value_name = "MIB,..")]
    megabytes: Option<String>,
    /// Leave out all but one kernel of `kernels`
    #[arg(long, value_name = "KERNEL")]
    only: Option<String>,
    /// Leave out all but the devices of one key, such as ALL_CPU or NVIDIA_GPU, of `kernels`
    #[arg(long, value_name = "KEY")]
    device: Option<String>,
    /// How long a kernel of `kernels` may be measured until its score is known to half a per cent (default: 20); at
    /// least 30 pairs of turns are
    #[arg(long, value_name = "S")]
    seconds: Option<String>,
    /// Measure in N processes, one after the other: of each figure the median of theirs (default: 1). Where a process has
    /// its code and its data makes a difference of its own, up to some per cent
    #[arg(long, value_name = "N")]
    processes: Option<String>,
    /// List the benchmarks instead
    #[arg(long, exclusive = true)]
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
    for (option, file) in
        [("--json", &options.json), ("--markdown", &options.markdown), ("--svg", &options.svg)]
    {
        if let Some(file) = file {
            // The benchmark runs in the workspace's root.
            let file = absolute(file).with_context(|| format!("the file of {option}"))?;
            arguments.extend([PathBuf::from(option), file]);
        }
    }
    for (option, value) in [
        ("megabytes", &options.megabytes),
        ("only", &options.only),
        ("device", &options.device),
        ("seconds", &options.seconds),
        ("processes", &options.processes),
    ] {
        arguments.extend(value.iter().map(|value| PathBuf::from(format!("--{option}={value}"))));
    }
    arguments.extend(options.name.iter().map(PathBuf::from));
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_files_are_the_callers() -> Result<()> {
        let options = Options {
            name: Some("kernels".into()),
            json: Some("rows.json".into()),
            markdown: None,
            svg: Some("rows.svg".into()),
            megabytes: Some("48,192".into()),
            only: Some("mmm blocked".into()),
            device: Some("ALL_CPU".into()),
            seconds: Some("60".into()),
            processes: Some("6".into()),
            list: false,
        };
        let here = |name| std::env::current_dir().map(|here| here.join(name));
        let expected = [
            "--json".into(),
            here("rows.json")?,
            "--svg".into(),
            here("rows.svg")?,
            "--megabytes=48,192".into(),
            "--only=mmm blocked".into(),
            "--device=ALL_CPU".into(),
            "--seconds=60".into(),
            "--processes=6".into(),
            "kernels".into(),
        ];
        assert_eq!(arguments(&options)?, expected);
        Ok(())
    }
}
