//! Benchmarks of FLASH beside its peers: rows of figures, measured in turns.

mod against;
mod allocations;
mod asynchronous;
mod c_host;
mod child;
mod cholesky;
mod diffusion;
mod dispatch;
mod doors;
mod driver;
mod gpu;
mod graph;
mod graph_blas;
mod halo;
mod kernels;
mod nbody;
mod once;
mod opencl;
mod overhead;
mod partition;
mod peers;
mod portability;
mod ranks;
mod report;
mod scale;
mod stats;
mod stream;
mod tasks;
mod tasks_jacobi;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// The function that makes a benchmark's rows.
type Measure = fn(&peers::Peers, &Arguments) -> anyhow::Result<Vec<stats::Row>>;

/// By name, in the order in which they run.
const BENCHMARKS: [(&str, Measure); 17] = [
    ("dispatch", |peers, _| dispatch::rows(peers)),
    ("c", |_, _| c_host::rows()),
    ("async", |peers, _| asynchronous::rows(peers)),
    ("tasks", |peers, _| tasks::rows(peers)),
    ("graph", |peers, _| graph::rows(peers)),
    ("doors", |peers, _| doors::rows(peers.stencils)),
    ("once", |_, arguments| {
        once::rows(once::Wanted { only: arguments.only.as_deref(), device: arguments.device.as_deref() })
    }),
    ("nbody", |peers, _| nbody::rows(peers)),
    ("diffusion", |peers, _| diffusion::rows(peers)),
    ("overhead", |peers, _| overhead::rows(peers)),
    ("kernels", |peers, arguments| {
        let (only, device) = (arguments.only.as_deref(), arguments.device.as_deref());
        let sizes: Vec<usize> = arguments.megabytes.iter().map(|megabytes| megabytes << 20).collect();
        portability::rows(
            peers,
            portability::Wanted { sizes: &sizes, only, device, time: Duration::from_secs(arguments.seconds) },
        )
    }),
    ("partition", |peers, _| partition::rows(peers)),
    ("ranks", |_, _| ranks::rows()),
    ("scale", |_, _| scale::rows()),
    ("halo", |_, _| halo::rows()),
    ("opencl", |peers, _| opencl::rows(peers)),
    ("gpu", |peers, _| gpu::rows(peers)),
];

/// Measures FLASH beside its peers, in turns, and prints a row for each figure.
///
/// A ratio is the median of (FLASH / peer) over pairs of turns, in the row's own unit: below 1 is better for
/// times, above 1 for rates. The last column is the 95 % confidence interval of the ratio, or of FLASH's own
/// median where there is no peer.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Which benchmark; all, if none is named.
    #[arg(value_parser = PossibleValuesParser::new(BENCHMARKS.map(|(name, _)| name)))]
    name: Option<String>,
    /// Also writes the rows to a file, as a JSON list.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also writes the rows to a file, as a table in Markdown.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also draws the scores of `kernels` to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Sizes of all arrays of a kernel of `kernels` together, in MiB; from 48 on they are beyond most caches.
    #[arg(long, value_name = "MIB,..", value_delimiter = ',', default_values_t = [48, 192, 1024])]
    megabytes: Vec<usize>,
    /// Leaves out all but one kernel of `kernels` or `once`.
    #[arg(long, value_name = "KERNEL")]
    only: Option<String>,
    /// Leaves out all but the devices of one key, such as OPENCL or NVIDIA_GPU, of `kernels` or `once`.
    #[arg(long, value_name = "KEY")]
    device: Option<String>,
    /// How long a kernel of `kernels` may be measured until its score is known to half a per cent. At least
    /// 30 pairs of turns are measured.
    #[arg(long, value_name = "S", default_value_t = 20)]
    seconds: u64,
    /// Measures in this many processes, one after the other, and takes the median of each figure over them.
    /// Where a process has its code and its data makes a difference of its own, up to some per cent.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    processes: u64,
    /// Measures one benchmark here and in another checkout of this repository, in processes that take turns,
    /// and prints ratios for the rows that both have: above 1 this one is worse. `cargo xtask bench` builds
    /// both.
    #[arg(long, value_name = "DIR", requires = "name", conflicts_with_all = ["svg", "processes"])]
    against: Option<PathBuf>,
    /// Processes of each side, with `--against`.
    #[arg(long, value_name = "N", default_value_t = 30, requires = "against", value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Names the benchmarks.
    #[arg(long)]
    list: bool,
    /// One measurement that needs a process of its own.
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list {
        BENCHMARKS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.child.as_deref() {
        Some(child::ROWS) => {
            println!("{}", serde_json::to_string(&measured(&arguments)?)?);
            return Ok(ExitCode::SUCCESS);
        }
        Some(child) => return child::measure(child).map(|()| ExitCode::SUCCESS),
        None => {}
    }
    // Before minutes of measuring.
    let files = [&arguments.json, &arguments.markdown, &arguments.svg];
    files.into_iter().flatten().try_for_each(|path| report::can_write(path))?;
    if let (Some(other), Some(name)) = (&arguments.against, &arguments.name) {
        return against(&arguments, other, name);
    }
    let rows = match arguments.processes {
        1 => measured(&arguments)?,
        processes => child::rows(processes)?,
    };
    print!("{}", report::table(&rows));
    if let Some(path) = &arguments.json {
        report::write(path, &report::json(&rows)?)?;
    }
    if let Some(path) = &arguments.markdown {
        report::write(path, &report::markdown(&rows))?;
    }
    if let Some(path) = &arguments.svg {
        report::write(path, &report::svg(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A benchmark here and in another checkout; success if nothing is beyond its limit.
fn against(arguments: &Arguments, other: &Path, name: &str) -> anyhow::Result<ExitCode> {
    let sides = [against::Side::here()?, against::Side::there(other)?];
    let comparison = against::compare(&sides, name, &passed(arguments), arguments.runs as usize)?;
    print!("{}{}", report::aligned(&comparison.cells()), comparison.summary());
    if let Some(path) = &arguments.json {
        report::write(path, &(serde_json::to_string_pretty(&comparison)? + "\n"))?;
    }
    if let Some(path) = &arguments.markdown {
        let text = format!("{}\n{}", report::markdown_of(&comparison.cells()), comparison.summary());
        report::write(path, &text)?;
    }
    Ok(if comparison.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The arguments for the processes of both sides.
fn passed(arguments: &Arguments) -> Vec<String> {
    let megabytes: Vec<String> = arguments.megabytes.iter().map(usize::to_string).collect();
    let mut passed =
        vec![format!("--megabytes={}", megabytes.join(",")), format!("--seconds={}", arguments.seconds)];
    passed.extend(arguments.only.iter().map(|only| format!("--only={only}")));
    passed.extend(arguments.device.iter().map(|device| format!("--device={device}")));
    passed
}

/// The rows that are wanted, measured in this process.
fn measured(arguments: &Arguments) -> anyhow::Result<Vec<stats::Row>> {
    let wanted = |name: &str| arguments.name.as_deref().is_none_or(|n| n == name);
    // Peers of devices are the drivers: a machine without a compiler can measure them.
    let of_devices = matches!(arguments.name.as_deref(), Some("once" | "opencl" | "gpu"))
        || arguments.device.as_deref().is_some_and(|key| key != "ALL_CPU");
    let peers = if of_devices { peers::Peers::default() } else { peers::Peers::load()? };
    let mut rows = Vec::new();
    for (name, measure) in BENCHMARKS {
        if wanted(name) {
            eprintln!("{name} ...");
            rows.extend(measure(&peers, arguments)?);
        }
    }
    Ok(rows)
}
