//! Heat in a cube: the program around the sweeps of this crate's library.

mod args;
mod report;

use anyhow::{Result, ensure};
use args::Args;
use flash::kernels::simd::Number;
use flash::prelude::Profile;
use flash_examples::{Precision, Screen, Target, Timing};
use flash_trace::Trace;
use jacobi3d::blocks::Blocks;
use jacobi3d::{cube, launches};
use report::{Report, Summary};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    flash_examples::main("jacobi3d", |args: &Args| {
        flash::set_notices(!args.quiet);
        match args.precision {
            Precision::F32 => run::<f32>(args),
            Precision::F64 => run::<f64>(args),
        }
    })
}

/// What ran.
struct Done<T> {
    points: Vec<T>,
    /// Of all iterations.
    seconds: f64,
    timing: Timing,
    /// Of launches.
    devices: Option<Vec<String>>,
}

/// The whole job in one precision. Every error that can be found without running is found first.
fn run<T: Number>(args: &Args) -> Result<()> {
    let blocks = args.blocks()?;
    args.check_files()?;
    let (report, image) =
        (Target::open_if(&args.report, "--report")?, Target::open_if(&args.image, "--image")?);
    let (traced, picture) =
        (Target::open_if(&args.trace, "--trace")?, Target::open_if(&args.picture, "--picture")?);

    let (size, iterations) = (args.size as usize, args.iterations as usize);
    let mut screen = Screen::new(args.is_quiet(), iterations, "iterations");
    let trace = args.is_traced().then(Trace::start);
    let Done { points, seconds, timing, devices } = match &args.devices {
        Some(key) => by_launches(key, size, iterations, &screen, trace.as_ref())?,
        None => by_tasks::<T>(args, blocks, &screen)?,
    };
    let recording = trace.map(Trace::end);
    screen.finish();
    let updates = (size.pow(3) * iterations) as f64;
    let rate = (updates > 0.0 && seconds > 0.0).then(|| updates / seconds);
    let temperature = Summary::of(&points);
    let [x, y, z] = blocks;
    let how = match &devices {
        Some(devices) => format!("launches on {}", devices.join(", ")),
        None => format!("tasks over {x} x {y} x {z} blocks, {} steps deep", args.depth),
    };
    screen.line(&format!("{size}^3 points, {iterations} iterations, {}, {how}", args.precision.name()))?;
    let Summary { mean, least, greatest, fnv1a64 } = &temperature;
    screen.line(&format!("temperatures {least:.6} to {greatest:.6}, mean {mean:.6}, fnv1a64 {fnv1a64}"))?;
    if let Some(rate) = rate {
        let overhead = match &devices {
            Some(_) => format!(", dispatch overhead {}", timing.overhead()),
            None => String::new(),
        };
        screen.line(&format!("{:.1} M updates/s ({seconds:.6} s){overhead}", rate * 1e-6))?;
    }
    if args.check {
        let expected = cube::one_loop::<T>(size, iterations);
        let differ = points.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        ensure!(
            differ == 0,
            "--check: expected the points of one loop, found {differ} others of {}: this is a fault of FLASH, \
             or of a device",
            expected.len()
        );
        screen.line("one loop on one thread gives the same bits")?;
    }
    if let Some(recording) = recording {
        let mut bytes = Vec::new();
        if let Some(target) = traced {
            recording.perfetto(&mut bytes)?;
            target.write(&bytes)?;
        }
        if let Some(target) = picture {
            bytes.clear();
            recording.svg(&mut bytes)?;
            target.write(&bytes)?;
        }
    }
    if let Some(target) = image {
        target.write(&report::picture(size, &points)?.png()?)?;
    }
    if let Some(target) = report {
        let by_tasks = args.devices.is_none();
        let report = Report {
            size: args.size,
            iterations: args.iterations,
            precision: args.precision.name(),
            tasks: by_tasks.then_some(blocks),
            depth: by_tasks.then_some(args.depth),
            runtime: args.devices.as_deref(),
            devices: devices.as_deref(),
            temperature: &temperature,
            checked: args.check.then_some(true),
            seconds,
            updates_per_second: rate,
            dispatch_overhead_percent: timing.overhead_percent(),
        };
        target.write(&report.json()?)?;
    }
    Ok(())
}

fn by_launches<T: Number>(
    key: &str,
    size: usize,
    iterations: usize,
    screen: &Screen,
    trace: Option<&Trace>,
) -> Result<Done<T>> {
    // A trace has the launches for itself: then no overhead is measured.
    let profile = trace.map_or_else(Profile::new, Trace::profile);
    let (mut timing, mut seconds) = (Timing::default(), 0.0);
    let mut clock = Instant::now();
    let (points, devices) = launches::run(key, size, iterations, &profile, |done| {
        let wall = clock.elapsed();
        // The first one has waited for devices and data, too.
        seconds += wall.as_secs_f64();
        timing.note(&profile, wall);
        screen.progress(done);
        clock = Instant::now();
        Ok(())
    })?;
    Ok(Done { points, seconds, timing, devices: Some(devices) })
}

fn by_tasks<T: Number>(args: &Args, blocks: [usize; 3], screen: &Screen) -> Result<Done<T>> {
    let iterations = args.iterations as usize;
    let cube = Blocks::<T>::new(args.size as usize, blocks, args.depth as usize);
    let mut sweeps = cube.sweeps(iterations);
    let clock = Instant::now();
    sweeps.run(|done| screen.progress(done))?;
    let seconds = clock.elapsed().as_secs_f64();
    Ok(Done { points: cube.points(iterations % 2), seconds, timing: Timing::default(), devices: None })
}
