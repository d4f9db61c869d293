//! Several processes: launches and steps on the processors of all of them, mailboxes and channels between
//! them, beside one process and beside what others do.
//!
//! Each process has a processor of its own where there are two. Turns of both sides interleave, as in all
//! benchmarks: see [`meter`].

mod agent;
mod hicr;
mod mailbox;
mod meter;
mod mpi;
mod problems;
mod solve;

use crate::stats::Row;
use anyhow::Result;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = agent::rows()?;
    for more in [mailbox::rows, mpi::rows, hicr::rows, problems::rows] {
        rows.extend(more()?);
    }
    Ok(rows)
}

/// What a process does; false: nothing of that name.
pub fn measure(what: &str) -> Result<bool> {
    match what {
        agent::CHILD => agent::measure()?,
        mailbox::CHILD => mailbox::measure()?,
        solve::CHILD => solve::measure()?,
        _ => return hicr::measure(what),
    }
    Ok(true)
}
