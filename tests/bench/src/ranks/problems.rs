//! The heat equation and gravity on two processes: beside two threads of one process, where they share memory,
//! and beside C with MPI, where they do not. The C has kernels of its own, with the same sums.

use super::meter::{Meter, Side, row};
use super::mpi::Family;
use super::solve;
use crate::peers::or_without;
use crate::stats::{REPEATS, Row};
use anyhow::Result;

/// What a row says, what it asks for, and steps of a turn.
const PROBLEMS: [(&str, &str, usize); 2] =
    [("heat of 2048 x 2048", "heat", 20), ("gravity of 16,000 bodies", "nbody", 2)];

/// This process's processor and the other's.
const BOTH: [(&str, &str); 2] = [(solve::KEY, "ALL_CPU,RANK"), ("FLASH_CPU_THREADS", "1")];

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if flash_net::cpus().len() < 2 {
        eprintln!("one CPU: two processes that compute at the same time are not measured");
        return Ok(rows);
    }
    {
        let mut ours = Meter::of_world(solve::CHILD, &BOTH)?;
        let threads = [(solve::KEY, "ALL_CPU"), ("FLASH_CPU_THREADS", "2")];
        let mut peer = Meter::of_process(solve::CHILD, &threads)?;
        for (problem, what, steps) in PROBLEMS {
            let name = format!("{problem}, a step, 2 processes of a thread, against one of 2 threads");
            let ours = Side(&mut ours, what, steps);
            rows.push(row(name, "ms", ours, Side(&mut peer, what, steps))?);
        }
    }
    let family = Family::OPEN_MPI;
    if let Some(mut peer) = or_without(family.name, family.peer())? {
        let mut ours = family.ours(solve::CHILD, &BOTH)?;
        for (problem, what, steps) in PROBLEMS {
            let name = format!("{problem}, a step, 2 processes over {}, against C with MPI", family.name);
            rows.extend(times(&name, Side(&mut ours, what, steps), Side(&mut peer, what, steps))?);
            let bytes = format!("bytes.{what}");
            let figures = (ours.ask(&bytes, steps)?, Some(peer.ask(&bytes, steps)?));
            rows.push(Row::from_turns(format!("{name}: bytes moved"), "B", &[figures]));
        }
    }
    Ok(rows)
}

/// Two rows of the same turns: the time of a step, and that of all processors together.
fn times(name: &str, mut ours: Side<'_>, mut peer: Side<'_>) -> Result<[Row; 2]> {
    eprintln!("{name} ...");
    let turn = |side: &mut Side<'_>| -> Result<[f64; 2]> {
        let before = side.0.cpu_ns()?;
        let time = side.turn()?;
        Ok([time, (side.0.cpu_ns()? - before) / 1e6 / side.2 as f64])
    };
    let mut turns = [Vec::new(), Vec::new()];
    for number in 0..=REPEATS {
        let (of_ours, of_peer) = if number % 2 == 0 {
            let of_ours = turn(&mut ours)?;
            (of_ours, turn(&mut peer)?)
        } else {
            let of_peer = turn(&mut peer)?;
            (turn(&mut ours)?, of_peer)
        };
        // The first pair is for caches and threads.
        if number > 0 {
            turns[0].push((of_ours[0], Some(of_peer[0])));
            turns[1].push((of_ours[1], Some(of_peer[1])));
        }
    }
    let rows = [
        Row::from_turns(name, "ms", &turns[0]),
        Row::from_turns(format!("{name}: time of processors"), "ms", &turns[1]),
    ];
    for row in &rows {
        eprintln!("  {:.4} ms, {:.3} of the peer's", row.value, row.ratio.unwrap_or(f64::NAN));
    }
    Ok(rows)
}
