//! Benchmarks of FLASH beside its peers: rows of figures, measured in turns.

mod allocations;
mod child;
mod cholesky;
mod diffusion;
mod dispatch;
mod kernels;
mod nbody;
mod opencl;
mod overhead;
mod partition;
mod peers;
mod portability;
mod stats;
mod stream;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// What makes a benchmark's rows.
type Measure = fn(&peers::Peers) -> anyhow::Result<Vec<stats::Row>>;

/// By name, in the order in which they run.
const BENCHMARKS: [(&str, Measure); 7] = [
    ("dispatch", dispatch::rows),
    ("nbody", nbody::rows),
    ("diffusion", diffusion::rows),
    ("overhead", overhead::rows),
    ("kernels", portability::rows),
    ("partition", partition::rows),
    ("opencl", opencl::rows),
];

/// Measures FLASH beside its peers, in turns, and prints a row for each figure.
///
/// A ratio is the median of (FLASH / peer) over pairs of turns, in the row's own unit: below 1 is
/// better for times, above 1 for rates.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Which benchmark; all, if none is named.
    #[arg(value_parser = PossibleValuesParser::new(BENCHMARKS.map(|(name, _)| name)))]
    name: Option<String>,
    /// Also writes the rows to a file, as a JSON list.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Names the benchmarks.
    #[arg(long)]
    list: bool,
    /// One measurement that needs a process of its own.
    #[arg(long, hide = true)]
    child: Option<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    if arguments.list {
        BENCHMARKS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    if let Some(child) = arguments.child {
        return child::measure(&child);
    }
    let wanted = |name: &str| arguments.name.as_deref().is_none_or(|n| n == name);
    let peers = peers::Peers::load()?;
    let mut rows = Vec::new();
    for (name, measure) in BENCHMARKS {
        if wanted(name) {
            eprintln!("{name} ...");
            rows.extend(measure(&peers)?);
        }
    }
    print!("{}", stats::table(&rows));
    if let Some(path) = arguments.json {
        stats::write_json(&path, &rows)?;
    }
    Ok(())
}
