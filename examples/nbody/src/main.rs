//! N-body simulation: the main job of FLASH.
//!
//! `run.rs` holds the host code, the part that a scientist writes. The rest is what any program
//! of this kind has around it: a command line, files in and out, energies, a progress bar.

mod args;
mod bodies;
mod draw;
mod energy;
mod input;
mod one_kernel;
mod output;
mod problem;
mod record;
mod report;
mod run;
mod watch;

use std::process::ExitCode;

use anyhow::Result;

use args::{Args, Form};
use bodies::Scalar;
use flash::prelude::Profile;
use flash_examples::{Precision, Target};
use report::Report;
use watch::Watch;

fn main() -> ExitCode {
    flash_examples::main("nbody", |args: &Args| {
        flash::set_notices(!args.quiet);
        match args.precision {
            Precision::F32 => simulate::<f32>(args),
            Precision::F64 => simulate::<f64>(args),
        }
    })
}

/// The whole job in one precision. Every error that can be found without running is found first.
fn simulate<T: Scalar>(args: &Args) -> Result<()> {
    let constants = args.constants::<T>()?;
    args.check_files()?;
    let bodies = match &args.input {
        Some(path) => input::read(path)?,
        None => problem::generate(args.body_count())?,
    };
    bodies.check_distinct(constants.softening2)?;
    let output = Target::open_if(&args.output, "--output")?;
    let report = Target::open_if(&args.report, "--report")?;
    let image = Target::open_if(&args.image, "--image")?;
    let animate = Target::open_if(&args.animate, "--animate")?;

    if let Some(path) = &args.record {
        // Before the run: if that fails, the recording shows what it ran.
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
    if let Some(target) = image {
        let view = draw::View::of(&bodies.mass, &bodies.pos);
        target.write(&view.picture(&bodies.mass, &bodies.pos)?.png()?)?;
    }
    let (record, film) = watch.finish(count, &devices)?;
    if let (Some(target), Some(film)) = (animate, film) {
        target.write(&film.gif()?)?;
    }
    if let Some(target) = report {
        target.write(&Report::new(args, count, &devices, &record).json()?)?;
    }
    Ok(())
}
