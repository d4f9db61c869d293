//! `flash run`: starts a program as several processes of one world. The first runs it; the others become
//! agents, which serve their devices to it, and end with it.

use anyhow::{Context, Result, ensure};
use flash_net::{Member, Peer, World};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{mem, thread};

/// How long agents have to end after the program; then they are killed.
const END: Duration = Duration::from_secs(5);
/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What to start.
pub struct Question {
    /// Processes, the program's own included.
    pub ranks: usize,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// Runs the program; its exit status, or 128 and the signal that ended it.
pub fn run(question: &Question) -> Result<u8> {
    let (program, arguments) = question.program.split_first().context("expected a program to run")?;
    let cpus = flash_net::cpus();
    ensure!(!cpus.is_empty(), "expected a processor that this process may run on, found none");
    let member = |rank| Member { name: format!("rank {rank}"), cpus: share(&cpus, rank, question.ranks) };
    let members: Vec<Member> = (0..question.ranks).map(member).collect();
    let world = World::create(&members)?;
    let mut children = Vec::new();
    for rank in 0..question.ranks {
        let mut command = Command::new(program);
        command.args(arguments);
        world.inherit(&mut command, Peer(rank as u32))?;
        // The program may have something to put in order.
        let signal = if rank == 0 { libc::SIGTERM } else { libc::SIGKILL };
        // SAFETY: between fork and exec the function makes one system call.
        unsafe { command.pre_exec(move || flash_net::end_with_parent(signal)) };
        let started = command.spawn().with_context(|| format!("cannot start {}", program.display()));
        match started {
            Ok(child) => children.push(child),
            Err(error) => {
                end(&mut children);
                return Err(error);
            }
        }
    }
    drop(world);
    let status = watch(&mut children);
    end(&mut children);
    let status = status?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).map_or(1, |code| code as u8))
}

/// Waits for the program. Processes that fail before it ends are reported; one that has done its part may end
/// first.
fn watch(children: &mut [Child]) -> Result<ExitStatus> {
    let mut reported = vec![false; children.len()];
    loop {
        for (rank, child) in children.iter_mut().enumerate() {
            let Some(status) = child.try_wait().context("waiting for a process")? else { continue };
            if rank == 0 {
                return Ok(status);
            }
            if !mem::replace(&mut reported[rank], true) && !status.success() {
                eprintln!(
                    "flash run: rank {rank} (process {}) ended before the program: {status}",
                    child.id()
                );
            }
        }
        thread::sleep(LOOK);
    }
}

/// Waits for what is left, and kills what does not end.
fn end(children: &mut [Child]) {
    let until = Instant::now() + END;
    while children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
        if Instant::now() >= until {
            for child in children.iter_mut() {
                let _ = child.kill();
                let _ = child.wait();
            }
            return;
        }
        thread::sleep(LOOK);
    }
}

/// The processors of one rank: its part of all, or one of them where there are more ranks.
fn share(cpus: &[usize], rank: usize, ranks: usize) -> Vec<usize> {
    if ranks > cpus.len() {
        return vec![cpus[rank % cpus.len()]];
    }
    cpus[rank * cpus.len() / ranks..(rank + 1) * cpus.len() / ranks].to_vec()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn processors_are_divided_and_shared_where_there_are_more_ranks() {
        let cpus = [0, 1, 4, 5, 9];
        for ranks in 1..=5 {
            let all: Vec<usize> = (0..ranks).flat_map(|rank| share(&cpus, rank, ranks)).collect();
            assert_eq!(all, cpus);
            assert!((0..ranks).all(|rank| !share(&cpus, rank, ranks).is_empty()));
        }
        let all: Vec<Vec<usize>> = (0..7).map(|rank| share(&cpus, rank, 7)).collect();
        assert_eq!(all, [[0], [1], [4], [5], [9], [0], [1]]);
    }
}
