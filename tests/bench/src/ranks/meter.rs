//! Processes that measure when they are asked: one turn of theirs, then one of others.
//!
//! The first process reads lines `WHAT COUNT` and answers each with a line, a figure. Between two requests
//! its processes sleep, or nap, so that they take no processor from those whose turn it is.

use crate::stats::{REPEATS, Row, try_pair};
use anyhow::{Context, Result, bail, ensure};
use flash_net::{Member, Peer, World};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long processes have to end when nothing is asked any more.
const END: Duration = Duration::from_secs(5);

/// Some processes, of which the first answers.
pub struct Meter {
    name: String,
    children: Vec<Child>,
    /// None: it has ended.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Meter {
    /// Starts them. The others have neither input nor output.
    pub fn start(name: impl Into<String>, mut first: Command, others: Vec<Command>) -> Result<Meter> {
        let name = name.into();
        let mut children = Vec::new();
        first.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = first.spawn().with_context(|| format!("{name} does not start"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        children.push(child);
        let output = BufReader::new(output.with_context(|| format!("{name} has no output"))?);
        let mut meter = Meter { name, children, input, output };
        for mut other in others {
            other.stdin(Stdio::null()).stdout(Stdio::null());
            let child = other.spawn().with_context(|| format!("{} does not start", meter.name))?;
            meter.children.push(child);
        }
        Ok(meter)
    }

    /// The two processes of a [`world`].
    pub fn of_world(part: &str, environment: &[(&str, &str)]) -> Result<Meter> {
        let [first, second] = world(part, environment)?;
        Meter::start(part, first, vec![second])
    }

    /// A process of this program.
    pub fn of_process(part: &str, environment: &[(&str, &str)]) -> Result<Meter> {
        Meter::start(part, of_this_program(part, environment)?, Vec::new())
    }

    /// Asks for a figure.
    pub fn request(&mut self, what: &str, count: usize) -> Result<()> {
        let input = self.input.as_mut().context("it has ended")?;
        writeln!(input, "{what} {count}").with_context(|| format!("{} has ended", self.name))
    }

    /// The figure that was asked for.
    pub fn answer(&mut self) -> Result<f64> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line)?;
        ensure!(bytes > 0, "{} has ended: what it says is above", self.name);
        let figure = line.trim().parse();
        figure.with_context(|| format!("expected a figure of {}, found `{}`", self.name, line.trim()))
    }

    /// One turn.
    pub fn ask(&mut self, what: &str, count: usize) -> Result<f64> {
        self.request(what, count)?;
        self.answer()
    }

    /// Nanoseconds of processors that its processes have used, with those that they have started.
    pub fn cpu_ns(&self) -> Result<f64> {
        let mut all: Vec<u32> = self.children.iter().map(Child::id).collect();
        let parents = parents()?;
        let mut at = 0;
        while let Some(&parent) = all.get(at) {
            all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| process));
            at += 1;
        }
        all.into_iter().map(cpu_ns).sum()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.input = None;
        let until = Instant::now() + END;
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() >= until {
                    // SAFETY: a signal for a child that was not waited for. Launchers pass it on.
                    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Two processes of this program, which make a world: each with a processor where there are two.
pub fn world(part: &str, environment: &[(&str, &str)]) -> Result<[Command; 2]> {
    let cpus = flash_net::cpus();
    let member = |rank: usize| Member {
        name: format!("rank {rank}"),
        cpus: cpus.get(rank % cpus.len().max(1)).copied().into_iter().collect(),
    };
    let world = World::create(&[member(0), member(1)])?;
    let process = |rank| -> Result<Command> {
        let mut command = of_this_program(part, environment)?;
        world.inherit(&mut command, Peer(rank))?;
        Ok(command)
    };
    Ok([process(0)?, process(1)?])
}

/// This program, as one of the processes that measure.
pub fn of_this_program(part: &str, environment: &[(&str, &str)]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", part]).envs(environment.iter().copied());
    Ok(command)
}

/// All processes, each with the one that has started it.
fn parents() -> Result<Vec<(u32, u32)>> {
    let parent = |process: u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Behind the name, which may have brackets itself, and the state.
        let parent = text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((process, parent))
    };
    let all = std::fs::read_dir("/proc").context("the list of processes")?;
    // One that ends meanwhile is none.
    Ok(all.filter_map(|entry| parent(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect())
}

fn cpu_ns(process: u32) -> Result<f64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: questions to the system, which fills in a number and a time.
    let failed = unsafe {
        libc::clock_getcpuclockid(process as i32, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        bail!("the clock of process {process} cannot be read");
    }
    Ok(time.tv_sec as f64 * 1e9 + time.tv_nsec as f64)
}

/// One side of a row: processes, and what they are asked for.
pub struct Side<'a>(pub &'a mut Meter, pub &'a str, pub usize);

impl Side<'_> {
    pub fn turn(&mut self) -> Result<f64> {
        self.0.ask(self.1, self.2)
    }
}

/// A row of turns.
pub fn row(name: impl Into<String>, unit: &str, mut ours: Side<'_>, mut peer: Side<'_>) -> Result<Row> {
    try_pair(name, unit, REPEATS, || ours.turn(), Some(&mut || peer.turn()), Duration::ZERO)
}

/// Answers requests until there are no more.
pub fn serve(mut answer: impl FnMut(&str, usize) -> Result<f64>) -> Result<()> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, count) = line.split_once(' ').context("expected a request `WHAT COUNT`")?;
        println!("{}", answer(what, count.parse().context("expected a count")?)?);
    }
    Ok(())
}
