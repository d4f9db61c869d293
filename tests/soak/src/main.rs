//! Runs random graphs, tasks or launches until a time is over, and tells the seed of the first that fails; or
//! the parts of `halo`, each once.

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use flash_soak::halo;
use std::panic::catch_unwind;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long one seed may take: a hundred times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(60);
/// How often progress is told.
const PERIOD: Duration = Duration::from_secs(10);

/// Random graphs, tasks or launches against models, or long runs of C2MPI. The first failure ends it, with
/// the seed that makes it again.
#[derive(Parser)]
#[command(name = "flash-soak")]
struct Arguments {
    /// What is made.
    what: What,
    /// For how long (default: 10); not for `halo`, whose parts are as long as they are.
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// At most how many; of each part of `halo`, how many.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// The first seed; the others follow it.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// One part of `halo`.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Dataflow graphs with cycles, joins, pools and replicas; half are cancelled or fail
    Graphs,
    /// Graphs of tasks from accesses, trees of tasks, cancelled scopes and panics
    Tasks,
    /// Launches on agents whose processes are killed or stopped
    Ranks,
    /// C2MPI: messages, forwarding, claims, and clients of an agent that are killed
    Halo,
}

/// A part of `halo`.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Messages of 8 threads with tags, received out of order (1000000)
    Messages,
    /// Messages through three parent ranks (100000)
    Forwarding,
    /// Claims and frees, here and in agents (100000)
    Claims,
    /// Clients of an agent, killed at random moments (100)
    Clients,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Graphs => "graphs",
            What::Tasks => "tasks",
            What::Ranks => "ranks",
            What::Halo => "halo",
        }
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Messages => "messages",
            Part::Forwarding => "forwarding",
            Part::Claims => "claims",
            Part::Clients => "clients",
        }
    }

    /// How many there are, if nothing else is said.
    fn count(self) -> u64 {
        match self {
            Part::Messages => 1_000_000,
            Part::Forwarding | Part::Claims => 100_000,
            Part::Clients => 100,
        }
    }

    /// Runs it. What there is to tell.
    fn run(self, count: u64, seed: u64) -> String {
        match self {
            Part::Messages => format!("{} received", halo::messages(count, seed, &DONE)),
            Part::Forwarding => format!("{} received", halo::forwarding(count, seed, &DONE)),
            Part::Claims => format!("memory has grown by {} KiB", halo::claims(count, seed, &DONE) >> 10),
            Part::Clients => {
                // <target>/<profile>/flash-soak
                let own = std::env::current_exe().expect("this program's file");
                let programs = own.parent().expect("it is in a folder");
                format!("{} had come to work", halo::clients(count, seed, &DONE, programs, &[]))
            }
        }
    }
}

/// How many have passed, of what runs now.
static DONE: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    if flash_soak::ranks::is_child() || halo::is_client() {
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

fn soak(arguments: &Arguments) -> Result<()> {
    let &Arguments { what, minutes, count, seed, only } = arguments;
    let check = match what {
        What::Graphs => flash_soak::graphs::check,
        What::Tasks => flash_soak::tasks::check,
        What::Ranks => |seed| flash_soak::ranks::check(seed, &[]),
        What::Halo => {
            ensure!(minutes.is_none(), "--minutes: `halo` has no time, but a --count of each part");
            return parts(count, seed, only);
        }
    };
    ensure!(only.is_none(), "--only: {} has no parts, `halo` has", what.name());
    let (minutes, count) = (minutes.unwrap_or(10.0), count.unwrap_or(u64::MAX));
    ensure!(minutes.is_finite() && minutes > 0.0, "--minutes: expected a positive number, found {minutes}");
    let (start, time) = (Instant::now(), Duration::from_secs_f64(60.0 * minutes));
    let again = move |done: u64| {
        let at = seed.wrapping_add(done);
        format!("seed {at}. Again: cargo xtask soak {} --seed {at} --count 1", what.name())
    };
    thread::spawn(move || watch(what.name(), again));
    while DONE.load(Relaxed) < count && start.elapsed() < time {
        let done = DONE.load(Relaxed);
        let result = catch_unwind(|| check(seed.wrapping_add(done)));
        ensure!(result.is_ok(), "one fails; what is wrong is above: {}", again(done));
        DONE.fetch_add(1, Relaxed);
    }
    println!("{} {} pass, in {:.0} s", DONE.load(Relaxed), what.name(), start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the parts of `halo`, each in a process of its own: what one has left is not another's.
fn parts(count: Option<u64>, seed: u64, only: Option<Part>) -> Result<()> {
    let Some(part) = only else {
        for part in Part::value_variants() {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["halo", "--only", part.name(), "--seed", &seed.to_string()]);
            command.args(count.map(|count| format!("--count={count}")));
            ensure!(command.status()?.success(), "the part `{}` fails", part.name());
        }
        return Ok(());
    };
    // The agents of this process are this program.
    flash::prelude::agent_here();
    let (start, count) = (Instant::now(), count.unwrap_or(part.count()));
    let again =
        move |_| format!("Again: cargo xtask soak halo --only {} --seed {seed} --count {count}", part.name());
    thread::spawn(move || watch(part.name(), again));
    let Ok(told) = catch_unwind(|| part.run(count, seed)) else {
        bail!("{} fail; what is wrong is above. {}", part.name(), again(0));
    };
    println!("{} {}: {told}, in {:.0} s", count, part.name(), start.elapsed().as_secs_f64());
    Ok(())
}

/// Tells progress, and ends the process if one takes too long.
fn watch(name: &str, again: impl Fn(u64) -> String) {
    let (start, mut last, mut since) = (Instant::now(), 0, Instant::now());
    loop {
        thread::sleep(PERIOD);
        let done = DONE.load(Relaxed);
        if done != last {
            (last, since) = (done, Instant::now());
        }
        eprintln!("{:6.0} s: {done} {name} pass", start.elapsed().as_secs_f64());
        if since.elapsed() > LIMIT {
            eprintln!("soak: the next one has not ended in {LIMIT:?}: {}", again(done));
            std::process::exit(1);
        }
    }
}
