//! Runs the benchmarks: `flash-bench` measures and compiles its peers. This installs what compiling them
//! takes, and builds the checkout that it is compared with.

use std::path::{Path, PathBuf, absolute};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{mpi, opencl, root, setup};

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
    /// Leave out all but one kernel of `kernels` or `once`
    #[arg(long, value_name = "KERNEL")]
    only: Option<String>,
    /// Leave out all but the devices of one key, such as OPENCL or NVIDIA_GPU, of `kernels` or `once`
    #[arg(long, value_name = "KEY")]
    device: Option<String>,
    /// How long a kernel of `kernels` may be measured until its score is known to half a per cent (default:
    /// 20); at least 30 pairs of turns are measured
    #[arg(long, value_name = "S")]
    seconds: Option<String>,
    /// Measure in N processes, one after the other, and take the median of each figure over them (default:
    /// 1). Where a process has its code and its data makes a difference of its own, up to some per cent
    #[arg(long, value_name = "N")]
    processes: Option<String>,
    /// Measure NAME here and in DIR, another checkout of this repository, and print ratios for the rows that
    /// both have
    ///
    /// Builds both in release mode, each in its own build directory, and runs them as processes that take
    /// turns. Each process measures the whole benchmark, so 30 of each side take 60 times as long as the
    /// benchmark alone; standard error says after the first two how long that is. Above 1 this checkout is
    /// worse, whether a row's unit is a time or a rate.
    ///
    /// A row is beyond the limit if the median of its ratios is above 1.05 and it takes more than 1 ns more.
    /// Such a row is measured once more, by itself where a process can measure it alone, and the second
    /// series decides. `peer` is the ratio of what both sides measured of the same peer: its distance from 1
    /// is the machine's doing. Rows that only one side has are listed. Exit status 1 if a row is beyond the
    /// limit in the second series, too, or the geometric mean is above 1.02.
    #[arg(long, value_name = "DIR", requires = "name", conflicts_with_all = ["svg", "processes"])]
    against: Option<PathBuf>,
    /// Processes of each side, with `--against` (default: 30)
    #[arg(long, value_name = "N", requires = "against")]
    runs: Option<String>,
    /// List the benchmarks instead
    #[arg(long, exclusive = true)]
    list: bool,
}

/// Runs `flash-bench`, whose exit status becomes this command's.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(name) = &options.name {
        // Before packages are installed for it.
        ensure_is_listed(name, &list()?)?;
    }
    if !options.list {
        setup::peers()?;
    }
    if !options.list && options.name.as_deref().is_none_or(|name| name == "ranks") {
        mpi::install()?;
    }
    if let Some(other) = &options.against {
        build(other)?;
    }
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "--package", "flash-bench", "--"]).current_dir(root());
    command.args(arguments(options)?).envs(opencl::environment()?).envs([mpi::environment()?]);
    let status = command.status().context("cargo does not start")?;
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

/// The names of the benchmarks, each on a line of its own.
fn list() -> Result<String> {
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "--package", "flash-bench", "--", "--list"]);
    let output = command.stderr(Stdio::inherit()).current_dir(root()).output();
    let output = output.context("cargo does not start")?;
    ensure!(output.status.success(), "the benchmarks do not build: what the compiler says is above");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ensure_is_listed(name: &str, list: &str) -> Result<()> {
    let names: Vec<&str> = list.lines().collect();
    ensure!(
        names.contains(&name),
        "expected the name of a benchmark, found `{name}`; available: {}",
        names.join(", ")
    );
    Ok(())
}

/// Builds the benchmarks of another checkout, in its own build directory.
fn build(other: &Path) -> Result<()> {
    let manifest = other.join("tests/bench/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap_or_default();
    ensure!(
        text.lines().any(|line| line.trim() == "name = \"flash-bench\""),
        "--against: expected another checkout of this repository, with the package flash-bench in {}, found none",
        manifest.display()
    );
    eprintln!("building the benchmarks of {} ...", other.display());
    let other = absolute(other)?;
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--package", "flash-bench", "--target-dir"]);
    let status =
        command.arg(other.join("target")).current_dir(&other).status().context("cargo does not start")?;
    if !status.success() {
        bail!(
            "--against: the benchmarks of {} do not build: what the compiler says is above",
            other.display()
        );
    }
    Ok(())
}

fn arguments(options: &Options) -> Result<Vec<PathBuf>> {
    let mut arguments = Vec::new();
    if options.list {
        arguments.push(PathBuf::from("--list"));
    }
    for (option, file) in [
        ("--json", &options.json),
        ("--markdown", &options.markdown),
        ("--svg", &options.svg),
        ("--against", &options.against),
    ] {
        if let Some(file) = file {
            // The benchmark runs in the workspace's root.
            let file = absolute(file).with_context(|| format!("the path of {option}"))?;
            arguments.extend([PathBuf::from(option), file]);
        }
    }
    for (option, value) in [
        ("megabytes", &options.megabytes),
        ("only", &options.only),
        ("device", &options.device),
        ("seconds", &options.seconds),
        ("processes", &options.processes),
        ("runs", &options.runs),
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
            against: Some("../other".into()),
            runs: Some("40".into()),
            list: false,
        };
        let here = |name| std::env::current_dir().map(|here| here.join(name));
        let expected = [
            "--json".into(),
            here("rows.json")?,
            "--svg".into(),
            here("rows.svg")?,
            "--against".into(),
            here("../other")?,
            "--megabytes=48,192".into(),
            "--only=mmm blocked".into(),
            "--device=ALL_CPU".into(),
            "--seconds=60".into(),
            "--processes=6".into(),
            "--runs=40".into(),
            "kernels".into(),
        ];
        assert_eq!(arguments(&options)?, expected);
        Ok(())
    }

    #[test]
    fn a_name_that_no_benchmark_has_is_refused_with_those_that_there_are() {
        let list = "dispatch\ntasks\n";
        assert!(ensure_is_listed("tasks", list).is_ok());
        let error = ensure_is_listed("task", list).unwrap_err().to_string();
        assert_eq!(error, "expected the name of a benchmark, found `task`; available: dispatch, tasks");
    }

    #[test]
    fn what_is_no_checkout_is_refused_with_what_was_looked_for() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let refused = || build(folder.path()).unwrap_err().to_string();
        let expected = "--against: expected another checkout of this repository";
        assert!(
            refused().starts_with(expected) && refused().contains("tests/bench/Cargo.toml"),
            "{}",
            refused()
        );
        // A package of another name is not it.
        std::fs::create_dir_all(folder.path().join("tests/bench"))?;
        std::fs::write(folder.path().join("tests/bench/Cargo.toml"), "[package]\nname = \"bench\"\n")?;
        assert!(refused().starts_with(expected), "{}", refused());
        Ok(())
    }

    #[test]
    fn a_checkout_that_does_not_build_is_named() -> Result<()> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir_all(folder.path().join("tests/bench"))?;
        std::fs::write(folder.path().join("Cargo.toml"), "[workspace]\nmembers = [\"tests/bench\"]\n")?;
        std::fs::write(folder.path().join("tests/bench/Cargo.toml"), "[package]\nname = \"flash-bench\"\n")?;
        let error = build(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("do not build") && error.contains(&folder.path().display().to_string()),
            "{error}"
        );
        Ok(())
    }
}
