//! The program: a command line, files and a progress bar around the graph in `product.rs`.

mod args;
mod matrix;
mod report;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash_examples::{Precision, Screen, Target};
use flash_trace::Trace;
use gemm::plan::Plan;
use gemm::product::{Matrices, Product};

use args::Args;
use matrix::{Name, check, generated, zeroed};
use report::{Measured, Report};

fn main() -> ExitCode {
    flash_examples::main("gemm", |args: &Args| {
        flash::set_notices(!args.quiet);
        match args.precision {
            Precision::F32 => multiply::<f32>(args),
            Precision::F64 => multiply::<f64>(args),
        }
    })
}

/// The whole job in one precision. Every error that can be found without running is found first.
fn multiply<T: Number + From<f32>>(args: &Args) -> Result<()> {
    args.check_files()?;
    let rt = get_runtime(&args.devices)?;
    let rt = args.budget.map_or(rt.clone(), |bytes| rt.options(MemoryBudget(bytes)));
    let wish = args.wish();
    let plan = Plan::of(wish, size_of::<T>(), rt.devices())?;
    let picture = Target::open_if(&args.picture, "--picture")?;
    let trace = Target::open_if(&args.trace, "--trace")?;
    let report = Target::open_if(&args.report, "--report")?;

    let [m, k, n] = wish.sizes;
    let (a, b) = (generated::<T>(Name::A, [m, k])?, generated::<T>(Name::B, [k, n])?);
    let c = if wish.adds { generated(Name::C, [m, n])? } else { zeroed([m, n])? };
    let devices = rt.devices().iter().map(|device| device.id().to_string()).collect::<Vec<_>>();
    let tiles = plan.tiles[0] * plan.tiles[2];
    let mut screen = Screen::new(args.is_quiet(), tiles, "tiles of the result");
    let [height, width] = plan.windows.most();
    screen.line(&format!(
        "{m} x {k} by {k} x {n}, {}, in {tiles} tiles of {edge} x {edge} and {} windows of {height} x {width} tiles, on {}",
        args.precision.name(),
        plan.windows.len(),
        devices.join(", "),
        edge = plan.tile
    ))?;

    let recorded = trace.map(|target| (target, Trace::start()));
    let traced = recorded.as_ref().map_or(rt.clone(), |(_, trace)| rt.options(&trace.profile()));
    let product = Product::new(&traced, plan);
    let before = moved(&rt);
    let (start, mut drawn) = (Instant::now(), None);
    product
        .run(&Matrices::new(&a, &b, &c), |run, done| {
            for (count, ()) in run.results(done).enumerate() {
                screen.progress(count + 1);
            }
            drawn = Some(run.picture());
        })
        .context("the product was not computed")?;
    let seconds = start.elapsed().as_secs_f64();
    let recorded = recorded.map(|(target, trace)| {
        let (recording, mut text) = (trace.end(), Vec::new());
        recording.perfetto(&mut text).map(|()| (target, text))
    });
    let recorded = recorded.transpose()?;
    screen.finish();
    let after = moved(&rt);
    screen.line(&format!("{:.4} G operations/s ({seconds:.6} s)", plan.operations() / seconds * 1e-9))?;

    let checked = args.check.then(|| check(wish.sizes, wish.adds, plan.tile, [&a, &b, &c])).transpose()?;
    if let Some(checked) = &checked {
        screen.line(&format!(
            "checked {} of {} elements: the greatest error is {:.4} of what rounding can bring about",
            checked.elements,
            m * n,
            checked.worst
        ))?;
    }
    if let (Some(target), Some(path), Some(drawn)) = (picture, &args.picture, drawn) {
        target.write(drawn.text(path).as_bytes())?;
    }
    if let Some((target, trace)) = recorded {
        target.write(&trace)?;
    }
    if let Some(target) = report {
        let [to, from] = [0, 1].map(|way| after[way] - before[way]);
        let measured = Measured { devices, seconds, bytes_to_devices: to, bytes_from_devices: from, checked };
        target.write(&Report::new(args, &plan, &measured).json()?)?;
    }
    Ok(())
}

/// Bytes that were copied to the devices, and from them.
fn moved(rt: &RuntimeObj) -> [u64; 2] {
    let transfers = rt.devices().iter().map(|device| device.transfers());
    transfers.fold([0, 0], |[to, from], moved| {
        [to + moved.to_device.bytes + moved.between_devices.bytes, from + moved.from_device.bytes]
    })
}
