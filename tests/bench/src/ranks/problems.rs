//! The heat equation and gravity on two processes: beside two threads of one process, and beside C with MPI.
//!
//! Both sides compute the same sums on problems of one size: `solve` here, `mpi.c` there. The C has kernels
//! of its own, so a ratio has the difference of the kernels, too.

use super::meter::{Meter, Side, row};
use super::mpi::{Family, WAYS};
use super::solve;
use crate::peers::or_without;
use crate::stats::{REPEATS, Row, turns};
use anyhow::Result;

/// What a row says, what it asks for, and steps of a turn.
const PROBLEMS: [(&str, &str, usize); 2] =
    [("heat of 2048 x 2048", "heat", 40), ("gravity of 16,000 bodies", "nbody", 3)];

/// What a row says of the shares of the processes, and what it asks for.
const SHARES: [(&str, &str); 2] = [("shares as measured", ""), ("equal shares", "halves.")];

/// Turns until the rates of both devices are known.
const FIRST: usize = 10;

/// This process's processor and the other's. A key `RANK` may mean other devices of it.
const BOTH: [(&str, &str); 2] = [(solve::KEY, "ALL_CPU,RANK:1/ALL_CPU"), ("FLASH_CPU_THREADS", "1")];

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    if flash_net::cpus().len() < 2 {
        eprintln!("one CPU: two processes that compute at the same time are not measured");
        return Ok(Vec::new());
    }
    let mut rows = against_threads()?;
    rows.extend(against_c()?);
    Ok(rows)
}

/// Where the processes share memory.
fn against_threads() -> Result<Vec<Row>> {
    let mut ours = Meter::of_world(solve::CHILD, &BOTH)?;
    let threads = [(solve::KEY, "ALL_CPU"), ("FLASH_CPU_THREADS", "2")];
    let mut peer = Meter::of_process(solve::CHILD, &threads)?;
    let mut rows = Vec::new();
    for (problem, what, steps) in PROBLEMS {
        warm(&mut ours, what, steps)?;
        for (shares, prefix) in SHARES {
            let name =
                format!("{problem}, a step, 2 processes of a thread, {shares}, against one of 2 threads");
            let what_of_ours = format!("{prefix}{what}");
            let ours = Side(&mut ours, &what_of_ours, steps);
            rows.push(row(name, "ms", ours, Side(&mut peer, what, steps))?);
        }
    }
    Ok(rows)
}

/// Where a launcher of MPI has started them.
fn against_c() -> Result<Vec<Row>> {
    let family = Family::OPEN_MPI;
    let Some(mut peer) = or_without(family.name, family.peer())? else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for (way, shared) in WAYS {
        let mut ours = family.ours(solve::CHILD, &[BOTH[0], BOTH[1], shared])?;
        for (problem, what, steps) in PROBLEMS {
            warm(&mut ours, what, steps)?;
            for (shares, prefix) in SHARES {
                let name = format!(
                    "{problem}, a step, 2 processes {way} {}, {shares}, against C with MPI",
                    family.name
                );
                let what_of_ours = format!("{prefix}{what}");
                rows.extend(times(
                    &name,
                    Side(&mut ours, &what_of_ours, steps),
                    Side(&mut peer, what, steps),
                )?);
                let [what_of_ours, what] = [&what_of_ours, what].map(|what| format!("bytes.{what}"));
                let figures = (ours.ask(&what_of_ours, steps)?, Some(peer.ask(&what, steps)?));
                rows.push(Row::from_turns(format!("{name}: bytes moved"), "B", &[figures]));
            }
        }
    }
    Ok(rows)
}

fn warm(meter: &mut Meter, what: &str, steps: usize) -> Result<()> {
    (0..FIRST).try_for_each(|_| meter.ask(what, steps).map(drop))
}

/// Two rows of the same turns: the time of a step, and that of all processors together.
fn times(name: &str, mut ours: Side<'_>, mut peer: Side<'_>) -> Result<[Row; 2]> {
    eprintln!("{name} ...");
    let turn = |side: &mut Side<'_>| -> Result<[f64; 2]> {
        let before = side.0.cpu_ns()?;
        let time = side.turn()?;
        Ok([time, (side.0.cpu_ns()? - before) / 1e6 / side.2 as f64])
    };
    let turns = turns(REPEATS, || turn(&mut ours), || turn(&mut peer))?;
    let of = |figure: usize| -> Vec<_> {
        turns.iter().map(|(ours, peer)| (ours[figure], Some(peer[figure]))).collect()
    };
    let rows = [
        Row::from_turns(name, "ms", &of(0)),
        Row::from_turns(format!("{name}: time of processors"), "ms", &of(1)),
    ];
    for row in &rows {
        eprintln!("  {:.4} ms, {:.3} of the peer's", row.value, row.ratio.unwrap_or(f64::NAN));
    }
    Ok(rows)
}
