//! N-body simulation: the main job of FLASH.
//!
//! `run.rs` holds the host code, the part that a scientist writes. The rest is what any program
//! of this kind has around it: a command line, files in and out, energies, a progress bar.

mod args;
mod bodies;
mod energy;
mod files;
mod input;
mod one_kernel;
mod output;
mod problem;
mod record;
mod report;
mod run;
mod screen;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Args, Form, Precision};
use bodies::Scalar;
use files::Target;
use flash::prelude::Profile;
use report::Report;
use watch::Watch;

/// What the user asked for cannot be done as asked: a wrong command line or a malformed file.
/// Ends the program with 2, where every other error ends it with 1.
#[derive(Debug)]
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(message) => {
            // Help and version come this way too, with code 0. A closed pipe is no error.
            let _ = message.print();
            return ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2));
        }
    };
    let outcome = match args.precision {
        Precision::F32 => simulate::<f32>(&args),
        Precision::F64 => simulate::<f64>(&args),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // Not `eprintln!`, which panics where stderr is closed.
    let _ = writeln!(std::io::stderr(), "nbody: error: {error:#}");
    ExitCode::from(if error.is::<Refused>() { 2 } else { 1 })
}

/// The whole job in one precision. All that can be found wrong without running is found first.
fn simulate<T: Scalar>(args: &Args) -> Result<()> {
    let constants = args.constants::<T>()?;
    args.check_files()?;
    let bodies = match &args.input {
        Some(path) => input::read(path)?,
        None => problem::generate(args.body_count())?,
    };
    bodies.check_distinct(constants.softening2)?;
    let open = |path: &Option<PathBuf>, option| {
        let target = path.as_ref().map(|path| Target::open(path, option));
        target.transpose()
    };
    let output = open(&args.output, "--output")?;
    let report = open(&args.report, "--report")?;

    if let Some(path) = &args.record {
        // Before the run: should that fail, here is what to look into.
        let target = Target::open(path, "--record")?;
        target.write(&record::recording(args, path, &bodies, &constants)?)?;
    }

    let profile = Profile::new();
    let mut watch = Watch::new(args, &bodies, &constants, &profile)?;
    let host = match args.form {
        Form::TwoKernels => run::two_kernels,
        Form::OneKernel => one_kernel::one_kernel,
    };
    let count = bodies.len();
    let (bodies, devices) = host(&args.runtime, bodies, constants, &profile, &mut watch)?;
    bodies.check_finite()?;

    if let Some(target) = output {
        target.write(&output::csv(&bodies)?)?;
    }
    let record = watch.finish(count, &devices)?;
    if let Some(target) = report {
        target.write(&Report::new(args, count, &devices, &record).json()?)?;
    }
    Ok(())
}
