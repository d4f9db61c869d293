//! Round trips of a byte through mailboxes in shared memory, between two processes with a processor each that
//! are both awake.

use super::meter::{Meter, Side, row, serve};
use super::mpi::Family;
use crate::dispatch::per_call;
use crate::halo::{Socket, ZeroMq};
use crate::peers::or_without;
use crate::stats::{REPEATS, Row, try_pair};
use anyhow::{Context, Result, bail};
use flash_net::{Peer, Progress, SharedTransport, Transport, World};
use std::time::Duration;

/// The part of a process.
pub const CHILD: &str = "ranks.mailbox";

/// Round trips of a turn.
pub const TRIPS: usize = 20_000;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    const NAME: &str = "round trip of 1 B through mailboxes";
    let mut rows = Vec::new();
    let mut ours = Meter::of_world(CHILD, &[])?;
    for family in Family::ALL {
        if let Some(mut peer) = or_without(family.name, family.peer())? {
            let name = format!("{NAME}, against that of {} by MPI_Send and MPI_Recv", family.name);
            let ours = Side(&mut ours, "trip", TRIPS);
            rows.push(row(name, "ns", ours, Side(&mut peer, "trip", TRIPS))?);
        }
    }
    let mut ours = || ours.ask("trip", TRIPS);
    if let Some(mut zeromq) = or_without("ZeroMQ", ZeroMq::new(1))? {
        let name = format!("{NAME}, against that of ZeroMQ by ipc, of two threads");
        let mut peer = || Ok(zeromq.ns());
        rows.push(try_pair(name, "ns", REPEATS, &mut ours, Some(&mut peer), Duration::ZERO)?);
    }
    let mut socket = Socket::new(1)?;
    let name = format!("{NAME}, against that of a Unix socket, of two threads");
    rows.push(try_pair(name, "ns", REPEATS, &mut ours, Some(&mut || Ok(socket.ns())), Duration::ZERO)?);
    Ok(rows)
}

/// A process of the world.
pub fn measure() -> Result<()> {
    let (world, me) = World::from_environment()?.context("this process is in no world")?;
    let transport = SharedTransport::join(&world, me)?;
    if me != Peer(0) {
        answer(&transport);
        return Ok(());
    }
    serve(|_, count| {
        // Awake from here on.
        (0..100).try_for_each(|_| trip(&transport))?;
        let mut outcome = Ok(());
        let ns = per_call(count, || {
            if outcome.is_ok() {
                outcome = trip(&transport);
            }
        });
        outcome.map(|()| ns)
    })
}

/// Sends a byte and waits for it.
fn trip(transport: &SharedTransport) -> Result<()> {
    transport.post(Peer(1), b"1")?;
    let mut has_come = false;
    while !has_come {
        let ticket = transport.ticket();
        if transport.progress(&mut |_, frame| has_come = frame == b"1") == Progress::Nothing {
            if let Some(loss) = transport.lost(Peer(1)) {
                bail!("{loss}");
            }
            transport.wait(ticket, None);
        }
    }
    Ok(())
}

/// Sends all frames back until the other process is gone.
fn answer(transport: &SharedTransport) {
    while transport.lost(Peer(0)).is_none() {
        let ticket = transport.ticket();
        let progress = transport.progress(&mut |from, frame| {
            // There is room for the one frame on its way; if the other has gone, the loop ends.
            let _ = transport.post(from, frame);
        });
        if progress == Progress::Nothing {
            transport.wait(ticket, None);
        }
    }
}
