//! The processes of a job that are on one host: they share memory, and exchange frames through it. Each has
//! its number of the job there, too, so that nothing is translated.
//!
//! When a job starts, the first process of a host makes the memory, and the others open it by the number of
//! its descriptor in the first one. *Invariant.* All of a host's processes use it, or none does: a process
//! either joins, which stays visible in the memory, or says to the others that it does not, and never both.
//! Each waits until it knows this of all.

use crate::receiver::{APART, WORLD};
use crate::transport::{MpiTransport, Remote};
use flash_net::{How, Member, NetError, Peer, SharedTransport, Transport, World};
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

/// What the processes of this host share.
pub(crate) struct Near {
    pub world: World,
    pub transport: SharedTransport,
    /// Per process of the job: whether it is one of them.
    is_here: Vec<bool>,
    /// Whether the job has no other processes.
    pub is_all: bool,
}

impl Near {
    /// True of the processes of this host, and of those that were added to the job's.
    pub fn has(&self, peer: Peer) -> bool {
        self.is_here.get(peer.0 as usize).is_none_or(|is_here| *is_here)
    }
}

impl MpiTransport {
    /// Lets the processes of this host share memory, once all of the job have said what they are.
    pub(crate) fn share_memory(&self) {
        let is_known = |remote: &Remote| remote.info.get().is_some() || remote.gone.get().is_some();
        self.take_until(|| self.others().all(|(_, remote)| is_known(remote)).then_some(()));
        let shared = |(peer, remote): (Peer, &Remote)| match peer == self.me() {
            true => (peer, self.own.shared),
            false => (peer, remote.shared.load(Relaxed)),
        };
        let all = (0..).map(Peer).zip(&self.peers).map(shared).filter(|(_, shared)| *shared > 0);
        let of_host: Vec<(Peer, u32)> = all.collect();
        let here = sharing(&of_host, self.me());
        match self.join_near(&here) {
            Ok(near) => drop(self.near.set(near)),
            Err(why) => {
                self.say_to(&here, APART, why.as_bytes());
                if here.len() > 1 && here[0] == self.me() {
                    let _ = self.why_apart.set(why);
                }
            }
        }
    }

    /// With the processes of this host that are to share memory: this one, and maybe others.
    fn join_near(&self, here: &[Peer]) -> Result<Near, String> {
        let text = |error: NetError| error.to_string();
        let (me, first) = (self.me(), here[0]);
        let world = if first == me {
            let member = |rank| Member { name: self.own.name_of(Peer(rank)), cpus: Vec::new() };
            let members: Vec<Member> = (0..self.peers.len() as u32).map(member).collect();
            let world = World::create(&members).map_err(text)?;
            self.say_to(here, WORLD, &(world.file().as_raw_fd() as u32).to_le_bytes());
            world
        } else {
            let remote = &self.peers[first.0 as usize];
            let descriptor = self.take_until(|| match remote.world.get() {
                Some(descriptor) => Some(Ok(*descriptor)),
                None => self.never_joins(first).map(Err),
            })?;
            let pid = remote.info.get().map_or(0, |info| info.pid);
            World::of_process(pid, descriptor).map_err(text)?
        };
        let transport = SharedTransport::join_among(&world, me, here).map_err(text)?;
        // One may have joined, and ended since: whether it never will is asked first.
        let joined = |peer: &Peer| match (self.never_joins(*peer), transport.info(*peer)) {
            (_, Some(_)) => Some(Ok(())),
            (never, None) => never.map(Err),
        };
        here.iter().try_for_each(|peer| self.take_until(|| joined(peer)))?;
        let is_here: Vec<bool> =
            (0..self.peers.len() as u32).map(|rank| here.contains(&Peer(rank))).collect();
        let is_all = !is_here.contains(&false);
        Ok(Near { world, transport, is_here, is_all })
    }

    /// Why a process that has not joined never will, if that is known.
    fn never_joins(&self, peer: Peer) -> Option<String> {
        let remote = &self.peers[peer.0 as usize];
        let why = remote.apart.get().cloned();
        let why = why.or_else(|| remote.gone.get().map(|_| "it has ended".to_owned()))?;
        Some(format!("{}: {why}", self.own.name_of(peer)))
    }

    /// Sends a message to the others of these.
    fn say_to(&self, here: &[Peer], tag: c_int, message: &[u8]) {
        for peer in here.iter().copied().filter(|peer| *peer != self.me()) {
            let remote = &self.peers[peer.0 as usize];
            if remote.gone.get().is_some() {
                continue;
            }
            let sent = self.outbox(remote).send(&self.mpi, peer.0, tag, message.iter().copied(), false);
            if let Err(why) = sent {
                self.lose(peer, How::Unreachable(why));
            }
        }
    }

    /// What a peer shares with this process, if it does.
    pub(crate) fn near(&self, peer: Peer) -> Option<&SharedTransport> {
        self.near.get().filter(|near| near.has(peer)).map(|near| &near.transport)
    }

    /// The world of the processes of this host, to which others can be added; `None` if they share none.
    pub fn world(&self) -> Option<&World> {
        self.near.get().map(|near| &near.world)
    }

    /// Why the processes of this host share no memory, where they were to; in the first of them.
    pub fn why_apart(&self) -> Option<&str> {
        self.why_apart.get().map(String::as_str)
    }
}

/// Those that share memory with a process, by all of its host and how many of them each says that do.
fn sharing(of_host: &[(Peer, u32)], me: Peer) -> Vec<Peer> {
    // Where two are equal the processes are in one group.
    let group = |at: usize| (of_host[at].1, at as u32 / of_host[at].1.max(1));
    let own = of_host.iter().position(|(peer, _)| *peer == me).map(group);
    (0..of_host.len()).filter(|at| Some(group(*at)) == own).map(|at| of_host[at].0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_share_memory_that_come_one_after_the_other_and_say_the_same() {
        let groups = |of_host: &[(u32, u32)]| {
            let all: Vec<(Peer, u32)> = of_host.iter().map(|(rank, shared)| (Peer(*rank), *shared)).collect();
            let numbers = |me| sharing(&all, me).into_iter().map(|peer| peer.0).collect::<Vec<u32>>();
            all.iter().map(|(me, _)| numbers(*me)).collect::<Vec<_>>()
        };
        let all = u32::MAX;
        assert_eq!(groups(&[(0, all), (3, all), (4, all)]), vec![[0, 3, 4]; 3]);
        assert_eq!(groups(&[(0, 2), (3, 2), (4, 2)]), [&[0, 3][..], &[0, 3], &[4]]);
        assert_eq!(groups(&[(0, 2), (1, 1), (2, 2), (3, 2)]), [&[0][..], &[1], &[2, 3], &[2, 3]]);
        assert_eq!(groups(&[(5, all)]), [[5]]);
    }
}
