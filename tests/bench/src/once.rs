//! The twenty kernels that are written once: the texts that `#[kernel(devices)]` writes beside those that
//! were written by hand in OpenCL C, with the same arithmetic, and the functions of the CPU beside these.

use crate::stats::{REPEATS, Row, pair};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use flash::prelude::*;
use flash_backend_opencl_fpga as _;
use flash_core::devices::list;
use flash_twenty::{BY_HAND, KERNELS, Kernel, ONCE, Problem, UNCHECKED};
use std::time::{Duration, Instant};

/// A turn is the mean of launches that take this long together.
const TURN: Duration = Duration::from_millis(5);

/// What of it is measured.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// One kernel alone.
    pub only: Option<&'a str>,
    /// The devices of one key alone.
    pub device: Option<&'a str>,
}

/// A runtime, and what its device is called.
struct Place {
    id: String,
    rt: RuntimeObj,
}

/// The OpenCL devices of some keys.
fn places(keys: &[&str]) -> Result<Vec<Place>> {
    let reports = list();
    let of_keys =
        reports.iter().filter(|report| report.key.as_deref().is_some_and(|key| keys.contains(&key)));
    let devices = of_keys.flat_map(|report| &report.devices);
    devices
        .map(|device| {
            let rt = get_runtime(&device.id).with_context(|| device.id.clone())?;
            Ok(Place { id: format!("{} ({})", device.id, device.info.name), rt })
        })
        .collect()
}

/// A launch of an implementation.
fn launcher<'a>(
    problem: &'a dyn Problem,
    rt: &RuntimeObj,
    implementation: &str,
) -> impl Fn() -> Result<()> + 'a {
    let rt = rt.options(Implementation::named(implementation));
    move || Ok(problem.launch(&rt)?)
}

/// Nanoseconds of a work item, by launches of [`TURN`].
fn per_item(problem: &dyn Problem, launch: &dyn Fn() -> Result<()>) -> f64 {
    let (start, mut launches) = (Instant::now(), 0);
    while launches == 0 || start.elapsed() < TURN {
        launch().expect("it ran before");
        launches += 1;
    }
    start.elapsed().as_nanos() as f64 / (launches * problem.items()) as f64
}

/// What a first launch gives, of data of its own.
fn results(kernel: &Kernel, rt: &RuntimeObj, implementation: &str) -> Result<Vec<f64>> {
    let problem = (kernel.problem)(kernel.sizes[1]);
    launcher(&*problem, rt, implementation)()?;
    Ok(problem.results()?)
}

/// Two implementations in turns, which must give the same.
fn beside(
    name: String,
    kernel: &Kernel,
    ours: (&RuntimeObj, &str),
    peer: (&RuntimeObj, &str),
) -> Result<Row> {
    let [found, expected] = [ours, peer].map(|(rt, implementation)| results(kernel, rt, implementation));
    kernel.agree(&found?, &expected?).map_err(|why| anyhow!("{name}: {why}"))?;
    let problem = (kernel.problem)(kernel.sizes[1]);
    let [ours, theirs] = [ours, peer].map(|(rt, implementation)| launcher(&*problem, rt, implementation));
    let mut peer = || per_item(&*problem, &theirs);
    Ok(pair(name, "ns/item", REPEATS, || per_item(&*problem, &ours), Some(&mut peer), Duration::ZERO))
}

/// Rows of each kernel on each OpenCL device, and of the CPU beside the first of them.
pub fn rows(wanted: Wanted<'_>) -> Result<Vec<Row>> {
    let kernels: Vec<&Kernel> =
        KERNELS.iter().filter(|kernel| wanted.only.is_none_or(|only| only == kernel.name)).collect();
    if let ([], Some(only)) = (&kernels[..], wanted.only) {
        let names = KERNELS.map(|kernel| kernel.name).join(", ");
        bail!("no kernel `{only}` is measured: expected one of {names}");
    }
    let keys = ["OPENCL", "INTEL_FPGA"];
    if let Some(key) = wanted.device.filter(|key| !keys.contains(key)) {
        bail!("no device of `{key}` has texts by hand: expected one of {}", keys.join(", "));
    }
    let places = places(wanted.device.as_ref().map_or(&keys[..], std::slice::from_ref))?;
    ensure!(!places.is_empty(), "no OpenCL device: `cargo xtask setup` makes three");
    let mut rows = Vec::new();
    for kernel in kernels {
        for Place { id, rt } in &places {
            for (word, implementation) in [("without checks", UNCHECKED), ("with checks", ONCE)] {
                let name = format!("{}, {word}, against by hand, on {id}", kernel.what);
                rows.push(beside(name, kernel, (rt, implementation), (rt, BY_HAND))?);
            }
        }
        if let (Some(first), None) = (places.first(), wanted.device) {
            let name = format!("{}, on the CPU, against by hand on {}", kernel.what, first.id);
            rows.push(beside(name, kernel, (&get_runtime("ALL_CPU")?, ONCE), (&first.rt, BY_HAND))?);
        }
    }
    Ok(rows)
}
