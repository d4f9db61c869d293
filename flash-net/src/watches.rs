//! What a transport knows of the processes of its peers: whether they run, and when they were last heard.

use crate::process::Watch;
use crate::transport::Peer;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The processes of a transport's peers.
#[derive(Debug)]
pub struct Watches(Mutex<Books>);

#[derive(Debug)]
struct Books {
    /// Those that run, as far as is known.
    processes: Vec<(Peer, Watch)>,
    /// Per peer: frames heard, and when that was found.
    heard: Vec<(u64, Option<Instant>)>,
}

impl Watches {
    /// Of this many peers, of whose processes nothing is known.
    pub fn new(peers: usize) -> Watches {
        Watches(Mutex::new(Books { processes: Vec::new(), heard: vec![(0, None); peers] }))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a process that started then, as [`started`](crate::started) says. False: it has ended. Of one
    /// that the system does not let us watch, silence is all that can be noticed.
    pub fn add(&self, peer: Peer, pid: u32, started: u64) -> bool {
        match Watch::new(pid, started) {
            Ok(Some(watch)) => self.books().processes.push((peer, watch)),
            Ok(None) => return false,
            Err(_) => {}
        }
        true
    }

    /// Notes how many frames were heard of the peers, in their order. Those whose processes have ended come
    /// back, each once.
    pub fn look(&self, heard: impl Iterator<Item = u64>) -> Vec<(Peer, Option<ExitStatus>)> {
        let mut books = self.books();
        for (count, (known, at)) in heard.zip(&mut books.heard) {
            if *known != count {
                (*known, *at) = (count, Some(Instant::now()));
            }
        }
        let ended = Watch::ended(books.processes.iter().map(|(peer, watch)| (*peer, watch)));
        books.processes.retain(|(peer, _)| ended.iter().all(|(gone, _)| gone != peer));
        ended
    }

    /// When a peer was last found to have been heard.
    pub fn last_heard(&self, peer: Peer) -> Option<Instant> {
        self.books().heard.get(peer.0 as usize)?.1
    }

    /// Ends a process by force. True if it has ended within the limit; `None` if it is not watched.
    pub fn end(&self, peer: Peer, limit: Duration) -> Option<bool> {
        let books = self.books();
        let (_, watch) = books.processes.iter().find(|(watched, _)| *watched == peer)?;
        let watch = watch.try_clone();
        // Others look while this waits.
        drop(books);
        Some(watch.is_ok_and(|watch| watch.end(limit)))
    }
}
