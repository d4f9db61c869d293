//! Measurements that need a process of their own: other environments, and first uses.

use crate::kernels::Saxpy;
use crate::stats::{Row, pair};
use crate::{asynchronous, diffusion, dispatch, halo, kernels, opencl, partition, ranks, scale};
use anyhow::{Context, Result, bail};
use flash::{FlashMemory, get_runtime};
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Fresh processes per row.
const PROCESSES: usize = 30;

/// The argument that lets a child measure all that its other arguments say.
pub const ROWS: &str = "rows";

/// The rows measured by this many processes with the arguments of this one, one after the other.
pub fn rows(processes: u64) -> Result<Vec<Row>> {
    let mut rows: Vec<Vec<Row>> = Vec::new();
    for number in 1..=processes {
        eprintln!("process {number} of {processes} ...");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).args(["--child", ROWS]).stderr(Stdio::inherit());
        let output = command.output().context("a process that measures")?;
        if !output.status.success() {
            bail!("process {number} of {processes} did not measure to its end: {}", output.status);
        }
        for row in serde_json::from_slice::<Vec<Row>>(&output.stdout).context("the rows of a process")? {
            match rows.iter_mut().find(|same| same[0].name == row.name) {
                Some(same) => same.push(row),
                None => rows.push(vec![row]),
            }
        }
    }
    Ok(rows.iter().map(|same| Row::of_processes(same)).collect())
}

/// What a child measures: one figure, or a pair, on standard output.
pub fn measure(what: &str) -> Result<()> {
    match what {
        "plugin" => {
            let rt = get_runtime("ALL_CPU")?;
            let memories = dispatch::memories();
            dispatch::warm_submit(&rt, &memories, 2000);
            println!("{}", dispatch::warm_submit(&rt, &memories, 20_000));
        }
        "runtime" => {
            let start = Instant::now();
            black_box(get_runtime("ALL_CPU")?);
            println!("{}", start.elapsed().as_nanos() as f64 / 1e3);
        }
        "first" => {
            let rt = get_runtime("ALL_CPU")?;
            let [x, y, z] = &dispatch::memories();
            let start = Instant::now();
            rt.submit(kernels::Empty::of(1.0, x, y, z)).exec([1usize])?;
            println!("{}", start.elapsed().as_nanos() as f64 / 1e3);
        }
        "result" => {
            let rt = get_runtime("ALL_CPU")?;
            let [x, y, z] = &dispatch::memories();
            rt.submit(kernels::Empty::of(1.0, x, y, z)).exec([1usize])?;
            println!("0");
        }
        "saxpy" => saxpy()?,
        halo::CHILD => halo::measure()?,
        _ if partition::measure(what)?
            || opencl::measure(what)?
            || diffusion::measure(what)?
            || scale::measure(what)?
            || asynchronous::measure(what)?
            || ranks::measure(what)? => {}
        _ => bail!("there is no measurement `{what}`"),
    }
    Ok(())
}

/// The item loop beside the plain one, on one thread.
fn saxpy() -> Result<()> {
    const N: usize = 1 << 16;
    let rt = get_runtime("ALL_CPU")?;
    let (x, y) = (FlashMemory::from(vec![1.0f32; N]), FlashMemory::from(vec![2.0f32; N]));
    // Both work on the same arrays: where their pages lie makes a difference of its own.
    let launch = rt.submit(Saxpy::of(1e-6, &x, &y)).defer([N]);
    launch.exec()?;
    let row = pair(
        "",
        "",
        200,
        || dispatch::per_call(50, || launch.exec().expect("runs")) / N as f64,
        Some(&mut || {
            let (xs, mut ys) = (x.read().expect("free"), y.write().expect("free"));
            dispatch::per_call(50, || {
                let (a, x, y) = (black_box(1e-6f32), black_box(&xs[..]), black_box(&mut ys[..]));
                for (y, x) in y.iter_mut().zip(x) {
                    *y += a * *x;
                }
            }) / N as f64
        }),
        std::time::Duration::ZERO,
    );
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}

fn run(what: &str, environment: &[(&str, &str)]) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", what]).envs(environment.iter().copied());
    let output = command.output().with_context(|| format!("measurement `{what}` in a process of its own"))?;
    if !output.status.success() {
        bail!("measurement `{what}`: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One figure of a process with such an environment.
pub fn figure(what: &str, environment: &[(&str, &str)]) -> Result<f64> {
    run(what, environment)?.trim().parse().context("a figure")
}

/// One figure of each of many fresh processes.
pub fn row(name: &str, unit: &str, what: &str) -> Result<Row> {
    let path = if what == "plugin" { Some(plugin()?.display().to_string()) } else { None };
    let environment: Vec<_> = path.iter().map(|path| ("FLASH_BACKEND_PATH", path.as_str())).collect();
    let mut turns = Vec::new();
    for _ in 0..PROCESSES {
        turns.push((figure(what, &environment)?, None));
    }
    let row = Row::from_turns(name, unit, &turns);
    // The plugin is another one in each checkout.
    Ok(if path.is_some() { row } else { row.by(what, &[]) })
}

/// From the start of a process to its end after a first result.
pub fn process_row(name: &str, unit: &str) -> Result<Row> {
    let mut turns = Vec::new();
    for _ in 0..PROCESSES {
        let start = Instant::now();
        run("result", &[])?;
        turns.push((start.elapsed().as_nanos() as f64 / 1e6, None));
    }
    Ok(Row::from_turns(name, unit, &turns))
}

/// The item loop beside the plain one.
pub fn saxpy_row() -> Result<Row> {
    let name = "item loop of SAXPY, f32, 65,536 items, 1 thread, against the plain Rust loop";
    pair_row(name, "ns/item", "saxpy", &[("FLASH_CPU_THREADS", "1")])
}

/// A row that a process with such an environment measures.
pub fn pair_row(name: &str, unit: &str, what: &str, environment: &[(&str, &str)]) -> Result<Row> {
    let mut row: Row = serde_json::from_str(&run(what, environment)?)?;
    (row.name, row.unit) = (name.into(), unit.into());
    Ok(row.by(what, environment))
}

/// The rows that a process with such an environment measures, with names of its own.
pub fn list(what: &str, environment: &[(&str, &str)]) -> Result<Vec<Row>> {
    let rows: Vec<Row> = serde_json::from_str(&run(what, environment)?).context("the rows of a process")?;
    Ok(rows.into_iter().map(|row| row.by(what, environment)).collect())
}

/// The CPU backend as a plugin, built beside this program.
fn plugin() -> Result<PathBuf> {
    let directory = std::env::current_exe()?.parent().context("a directory")?.to_owned();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "flash-backend-cpu-plugin"]);
    if directory.ends_with("release") {
        command.arg("--release");
    }
    if !command.status()?.success() {
        bail!("the CPU plugin does not build");
    }
    Ok(directory.join("libflash_backend_cpu_plugin.so"))
}
