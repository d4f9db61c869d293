//! Runs random graphs, tasks or launches until a time is over, and tells the seed of the first that fails.

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long one seed may take: a hundred times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(60);
/// How often progress is told.
const PERIOD: Duration = Duration::from_secs(10);

/// Random graphs, tasks or launches against models. The first failure ends it, with the seed that makes it
/// again.
#[derive(Parser)]
#[command(name = "flash-soak")]
struct Arguments {
    /// What is made.
    what: What,
    /// For how long.
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
    /// At most how many.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    count: u64,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Dataflow graphs with cycles, joins, pools and replicas; half are cancelled or fail
    Graphs,
    /// Graphs of tasks from accesses, trees of tasks, cancelled scopes and panics
    Tasks,
    /// Launches on agents whose processes are killed or stopped
    Ranks,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Graphs => "graphs",
            What::Tasks => "tasks",
            What::Ranks => "ranks",
        }
    }
}

fn main() -> ExitCode {
    if flash_soak::ranks::is_child() {
        return ExitCode::SUCCESS;
    }
    match soak(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// How to make one seed again.
fn again(what: What, seed: u64) -> String {
    format!("cargo xtask soak {} --seed {seed} --count 1", what.name())
}

fn soak(arguments: &Arguments) -> Result<()> {
    let &Arguments { what, minutes, count, seed } = arguments;
    ensure!(minutes.is_finite() && minutes > 0.0, "--minutes: expected a positive number, found {minutes}");
    let check = match what {
        What::Graphs => flash_soak::graphs::check,
        What::Tasks => flash_soak::tasks::check,
        What::Ranks => |seed| flash_soak::ranks::check(seed, &[]),
    };
    let start = Instant::now();
    let time = Duration::from_secs_f64(60.0 * minutes);
    static DONE: AtomicU64 = AtomicU64::new(0);
    thread::spawn(move || watch(what, seed, start));
    while DONE.load(Relaxed) < count && start.elapsed() < time {
        let at = seed.wrapping_add(DONE.load(Relaxed));
        let result = catch_unwind(|| check(at));
        ensure!(result.is_ok(), "seed {at} fails; what is wrong is above. Again: {}", again(what, at));
        DONE.fetch_add(1, Relaxed);
    }
    println!("{} {} pass, in {:.0} s", DONE.load(Relaxed), what.name(), start.elapsed().as_secs_f64());
    return Ok(());

    /// Tells progress, and ends the process if one seed takes too long.
    fn watch(what: What, seed: u64, start: Instant) {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(PERIOD);
            let done = DONE.load(Relaxed);
            if done != last {
                (last, since) = (done, Instant::now());
            }
            let at = seed.wrapping_add(done);
            eprintln!("{:6.0} s: {done} {} pass, seed {at}", start.elapsed().as_secs_f64(), what.name());
            if since.elapsed() > LIMIT {
                eprintln!("soak: seed {at} has not ended in {LIMIT:?}. Again: {}", again(what, at));
                std::process::exit(1);
            }
        }
    }
}
