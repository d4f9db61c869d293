//! Tests and measures the CUDA backend on a GPU, and writes a report to a file.
//!
//! All programs are built first: by `kit`, which can also pack them for a machine that has a driver and a GPU
//! but no Rust, no sources and no network. `steps` has the steps, each with a time limit; `report` writes the
//! file.

mod device;
mod kit;
mod report;
mod steps;

use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::{opencl, root};
use kit::Kit;
use report::Report;
use steps::Runner;

/// What to do, and where.
#[derive(clap::Args)]
pub struct Options {
    /// Pack all programs into FOLDER, for a machine without Rust, instead of running them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["from", "report"])]
    pack: Option<PathBuf>,
    /// Run what was packed into FOLDER, and build nothing
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Write the report to FILE (default: docs/gpu.md; with --from, gpu.md in FOLDER)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Packs, or runs all steps. The exit status says whether every step that could run passed; missed goals of
/// the benchmark are in the report.
pub fn run(options: &Options) -> Result<ExitCode> {
    if let Some(folder) = &options.pack {
        let kit = Kit::build()?;
        let bytes = kit.pack(folder)?;
        println!("{}: {:.1} MiB", folder.display(), bytes as f64 / f64::from(1 << 20));
        println!("on the machine with the GPU: FOLDER/xtask gpu --from FOLDER");
        return Ok(ExitCode::SUCCESS);
    }
    let (kit, work, report) = match &options.from {
        Some(folder) => {
            let folder = absolute(folder).context("the folder of --from")?;
            let work = folder.join("run");
            (Kit::unpack(&folder, &work)?, work, folder.join("gpu.md"))
        }
        None => (Kit::build()?, opencl::target()?.join("gpu"), root().join("docs/gpu.md")),
    };
    let file = match &options.report {
        Some(file) => absolute(file).context("the file of --report")?,
        None => report,
    };
    fresh(&work)?;
    let mut runner = Runner::new(&kit, &work);
    let device = runner.device()?;
    eprintln!("gpu: {device}");
    runner.run_all(&device);
    let outcomes = &runner.outcomes;
    let report = Report { device: &device.to_string(), commit: &kit.commit, outcomes };
    fs::write(&file, report.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
    let ok = outcomes.ok();
    eprintln!("gpu: {}: {}", if ok { "all passed" } else { "FAILED" }, file.display());
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A folder for outputs, which keeps only the libraries of an earlier run.
fn fresh(work: &Path) -> Result<()> {
    for name in ["logs", "cache"] {
        let folder = work.join(name);
        if folder.is_dir() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(())
}

/// A program of CUDA, on the search path or where CUDA is installed.
fn of_cuda(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
