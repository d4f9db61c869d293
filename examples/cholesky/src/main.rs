//! The program: a command line, files and a progress bar around the graph in `lib.rs`.

mod args;
mod matrix;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use cholesky::Cholesky;
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash_examples::{Precision, Screen, Target};
use flash_trace::Trace;
use serde::Serialize;

use args::Args;
use matrix::{check, generated};

/// The report of a run, for programs to read. What was not asked for is null.
#[derive(Serialize)]
struct Report<'a> {
    runtime: &'a str,
    devices: &'a [String],
    n: usize,
    tile: usize,
    precision: &'a str,
    diagonal: f64,
    seconds: f64,
    operations_per_second: f64,
    checked_elements: Option<usize>,
    /// Over what rounding can bring about.
    worst_error: Option<f64>,
}

fn main() -> ExitCode {
    flash_examples::main("cholesky", |args: &Args| {
        flash::set_notices(!args.quiet);
        // What a kernel's panic says comes back as an error of its launch.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !flash::workers::in_kernel() {
                hook(panic);
            }
        }));
        match args.precision {
            Precision::F32 => factorise(args, args.diagonal() as f32),
            Precision::F64 => factorise(args, args.diagonal()),
        }
    })
}

/// The whole job in one precision. Every error that can be found without running is found first.
fn factorise<T: Number + From<f32>>(args: &Args, diagonal: T) -> Result<()> {
    args.check(size_of::<T>())?;
    let rt = get_runtime(&args.devices)?;
    let picture = Target::open_if(&args.picture, "--picture")?;
    let trace = Target::open_if(&args.trace, "--trace")?;
    let report = Target::open_if(&args.report, "--report")?;

    let (n, edge) = (args.n.get(), args.tile.get().min(args.n.get()));
    let a = generated(n, diagonal)?;
    let recorded = trace.map(|target| (target, Trace::start()));
    let traced = recorded.as_ref().map_or(rt.clone(), |(_, trace)| rt.options(&trace.profile()));
    let cholesky = Cholesky::new(&traced, n, edge, args.replicas.map(|count| count.get()))?;
    let devices = rt.devices().iter().map(|device| device.id().to_string()).collect::<Vec<_>>();
    let mut screen = Screen::new(args.is_quiet(), cholesky.count(), "tiles of the factor");
    screen.line(&format!(
        "{n} x {n}, {}, in {} tiles of {edge} x {edge}, on {}",
        args.precision.name(),
        cholesky.count(),
        devices.join(", ")
    ))?;

    let (start, mut drawn) = (Instant::now(), None);
    let outcome = cholesky.run(&a, |run, done| {
        for (count, ()) in run.results(done).enumerate() {
            screen.progress(count + 1);
        }
        drawn = Some(run.picture());
    });
    let seconds = start.elapsed().as_secs_f64();
    screen.finish();
    outcome?;
    let recorded = recorded.map(|(target, trace)| {
        let (recording, mut text) = (trace.end(), Vec::new());
        recording.perfetto(&mut text).map(|()| (target, text))
    });
    let recorded = recorded.transpose()?;
    // Golub and Van Loan, Matrix Computations, section 4.2.
    let rate = (n as f64).powi(3) / 3.0 / seconds;
    screen.line(&format!("{:.4} G operations/s ({seconds:.6} s)", rate * 1e-9))?;

    let checked = args.check.then(|| check(n, diagonal, edge, &a)).transpose()?;
    if let Some(checked) = &checked {
        screen.line(&format!(
            "checked {} of {} elements: the greatest error is {:.4} of what rounding can bring about",
            checked.elements,
            n * (n + 1) / 2,
            checked.worst
        ))?;
    }
    if let (Some(target), Some(path), Some(drawn)) = (picture, &args.picture, drawn) {
        target.write(drawn.text(path).as_bytes())?;
    }
    if let Some((target, text)) = recorded {
        target.write(&text)?;
    }
    if let Some(target) = report {
        let report = Report {
            runtime: &args.devices,
            devices: &devices,
            n,
            tile: edge,
            precision: args.precision.name(),
            diagonal: args.diagonal(),
            seconds,
            operations_per_second: rate,
            checked_elements: checked.as_ref().map(|checked| checked.elements),
            worst_error: checked.as_ref().map(|checked| checked.worst),
        };
        let mut text = serde_json::to_vec_pretty(&report)?;
        text.push(b'\n');
        target.write(&text)?;
    }
    Ok(())
}
