//! Several processes: launches and steps on the processors of all of them, mailboxes and channels between
//! them, beside one process and beside what others do.
//!
//! Each process has a processor of its own where there are two. Turns of both sides interleave, as in all
//! benchmarks: see [`meter`].

mod agent;
mod mailbox;
mod meter;
mod mpi;
mod solve;

use crate::stats::Row;
use anyhow::Result;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let mut rows = agent::rows()?;
    rows.extend(mailbox::rows()?);
    rows.extend(mpi::rows()?);
    Ok(rows)
}

/// What a process does; false: nothing of that name.
pub fn measure(what: &str) -> Result<bool> {
    match what {
        agent::CHILD => agent::measure()?,
        mailbox::CHILD => mailbox::measure()?,
        solve::CHILD => solve::measure()?,
        _ => return Ok(false),
    }
    Ok(true)
}
