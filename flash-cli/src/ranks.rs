//! What each process of `flash run`, or of a job of MPI, has to say, brought together at the first one.

use anyhow::{Context, Result, bail, ensure};
use flash_backend::settings;
use flash_net::{NetError, Peer, Progress, SharedTransport, Transport, World};
use flash_net_mpi::{Joining, MpiTransport, launched};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the others have to say it.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of one text at most.
const MOST: usize = 64 << 20;

/// How a frame begins: whether it is the last one of a text.
const MORE: u8 = 0;
const LAST: u8 = 1;

/// Joins the processes of `flash run` or of a launcher of MPI, if this is one of them.
pub fn join() -> Result<Option<Box<dyn Transport>>> {
    if let Some((world, me)) = World::from_environment()? {
        let joined = SharedTransport::join(&world, me).context("joining the processes of `flash run`")?;
        return Ok(Some(Box::new(joined)));
    }
    let Some(launched) = launched() else { return Ok(None) };
    let library = settings::process_text("rank.mpi_lib");
    let joining = Joining { library: library.as_deref().map(Path::new), ..Joining::default() };
    let joined = MpiTransport::join(&launched, &joining);
    Ok(Some(Box::new(joined.context("joining the processes of the launcher of MPI")?)))
}

/// Sends a text to the first process, where those of the others come back: by their numbers.
pub fn gather(transport: &dyn Transport, text: &str) -> Result<Option<Vec<(Peer, String)>>> {
    let until = Instant::now() + LIMIT;
    match transport.me() {
        Peer(0) => receive(transport, until).map(Some),
        _ => send(transport, text, until).map(|()| None),
    }
}

/// Sends it in pieces, and waits until all were taken.
fn send(transport: &dyn Transport, text: &str, until: Instant) -> Result<()> {
    let first = Peer(0);
    let mut pieces = text.as_bytes().chunks(transport.longest(first) - 1).peekable();
    while let Some(piece) = pieces.next() {
        let mark = if pieces.peek().is_some() { MORE } else { LAST };
        loop {
            let ticket = transport.ticket();
            match transport.post_parts(first, &[&[mark], piece]) {
                Ok(()) => break,
                Err(NetError::Full { .. }) if Instant::now() < until => transport.wait(ticket, Some(until)),
                Err(error) => return Err(error).context("telling rank 0 what this one has"),
            }
        }
    }
    Ok(())
}

fn receive(transport: &dyn Transport, until: Instant) -> Result<Vec<(Peer, String)>> {
    let mut texts = vec![(Vec::new(), false); transport.peers()];
    texts[0].1 = true;
    loop {
        let ticket = transport.ticket();
        let mut refused = None;
        let progress = transport.progress(&mut |from, frame| match (
            texts.get_mut(from.0 as usize),
            frame.split_first(),
        ) {
            (Some((text, is_whole)), Some((&mark @ (MORE | LAST), piece)))
                if !*is_whole && text.len() + piece.len() <= MOST =>
            {
                text.extend_from_slice(piece);
                *is_whole = mark == LAST;
            }
            _ => refused = Some(from),
        });
        if let Some(from) = refused {
            bail!(
                "rank {} says what no `flash` of this version does: start the same program in all ranks",
                from.0
            );
        }
        let Some(missing) = texts.iter().position(|(_, is_whole)| !is_whole) else { break };
        if progress != Progress::Some {
            if let Some(loss) = transport.lost(Peer(missing as u32)) {
                bail!("rank {missing} did not say what it has: {loss}");
            }
            let limit = LIMIT.as_secs();
            ensure!(Instant::now() < until, "rank {missing} did not say within {limit} s what it has");
            transport.wait(ticket, Some(until));
        }
    }
    let text = |(peer, (text, _)): (u32, (Vec<u8>, bool))| {
        let text = String::from_utf8(text).with_context(|| format!("what rank {peer} says is no text"))?;
        Ok((Peer(peer), text))
    };
    (0..).zip(texts).skip(1).map(text).collect()
}
