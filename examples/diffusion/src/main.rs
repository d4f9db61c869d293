//! Diffusion of particles on a grid, and of a picture's grey values.
//!
//! `run.rs` and `field.rs` hold the host code, the part that a scientist writes. The rest is what any
//! program of this kind has around it: a command line, files in and out, random numbers, pictures.

mod args;
mod draw;
mod field;
mod input;
mod report;
mod run;
mod source;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use flash::prelude::Profile;
use flash_examples::{Gray, Target};

use args::Args;
use field::Files;
use report::{Report, fnv1a64};
use watch::{Moves, Problem, Watch};

fn main() -> ExitCode {
    flash_examples::main("diffusion", diffuse)
}

/// The whole job. Every error that can be found without running is found first.
fn diffuse(args: &Args) -> Result<()> {
    flash::set_notices(!args.quiet);
    args.check_files()?;
    let job: Box<dyn FnOnce() -> Result<Files>> = match &args.field {
        Some(path) => {
            args.rate()?;
            let picture = Gray::read(path, "--field")?;
            Box::new(move || field::diffuse(args, &picture))
        }
        None => {
            let (moves, iterations) = match &args.input {
                None => (Moves::Random(args.source, args.seed), args.iterations()),
                Some(path) => {
                    let moves = input::read(path, args.particles as usize)?;
                    let iterations = moves[0].len() / args.particles as usize;
                    (Moves::Listed(moves), iterations)
                }
            };
            Box::new(move || particles(args, moves, iterations))
        }
    };
    let targets = [
        Target::open_if(&args.report, "--report")?,
        Target::open_if(&args.image, "--image")?,
        Target::open_if(&args.animate, "--animate")?,
    ];
    let Files { report, image, animate } = job()?;
    for (target, contents) in targets.into_iter().zip([report, image, animate]) {
        if let (Some(target), Some(contents)) = (target, contents) {
            target.write(&contents)?;
        }
    }
    Ok(())
}

/// Sums of the published problem.
const PUBLISHED: [u64; 3] = [2_012_665, 198, 96_728];

/// Runs particles, prints what cells counted, and gives the files that were asked for.
fn particles(args: &Args, moves: Moves, iterations: usize) -> Result<Files> {
    let (profile, problem) = (Profile::new(), Problem::new(args, iterations));
    let source = match &moves {
        Moves::Random(source, _) => source.name(),
        Moves::Listed(_) => "file",
    };
    let mut watch = Watch::new(args, problem, moves, &profile)?;
    let (counts, devices) = run::particles(&args.runtime, problem, &profile, &mut watch)?;

    let (grid, cells) = (problem.grid as usize, counts.len() / 3);
    let planes: [&[u64]; 3] = std::array::from_fn(|plane| &counts[plane * cells..][..cells]);
    let sums = planes.map(|plane| plane.iter().sum::<u64>());
    let centre = planes.map(|plane| plane[grid / 2 + grid / 2 * grid]);

    let (Problem { particles, radius, .. }, screen) = (problem, &mut watch.screen);
    screen.finish();
    screen.line(&format!(
        "{particles} particles, {iterations} iterations, {grid} x {grid} cells, radius {radius}, source \
         {source}, runtime {}",
        args.runtime
    ))?;
    let published = args.is_published_problem();
    let head = format!("{:<26}{:>14}{:>14}", "count", "all cells", "middle cell");
    screen.line(&(head + if published { "     published" } else { "" }))?;
    for (plane, name) in ["inside, per iteration", "there at the end", "entries"].into_iter().enumerate() {
        let line = format!("{name:<26}{:>14}{:>14}", sums[plane], centre[plane]);
        let beside = if published { format!("{:>14}", PUBLISHED[plane]) } else { String::new() };
        screen.line(&(line + &beside))?;
    }
    screen.line(&format!(
        "{:.4} G moves/s ({:.6} s on {}), dispatch overhead {}",
        (particles * iterations) as f64 / watch.seconds.max(1e-9) * 1e-9,
        watch.seconds,
        devices.join(", "),
        watch.timing.overhead()
    ))?;

    let report = Report {
        runtime: &args.runtime,
        devices: &devices,
        particles,
        iterations,
        source,
        sums,
        centre,
        fnv1a64: planes.map(fnv1a64),
        seconds: watch.seconds,
        dispatch_overhead_percent: watch.timing.overhead_percent(),
    };
    Ok(Files {
        report: args.report.is_some().then(|| report::json(&report)).transpose()?,
        image: watch.image()?,
        animate: watch.animation()?,
    })
}
