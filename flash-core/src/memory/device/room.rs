//! Room in the memory of a device: the budget, and what goes when it is used up.
//!
//! Cached buffers go first, then copies without users, the least recently used first. A thread that takes
//! copies away is a [`Taker`]: it holds arrays that nothing uses, one at a time, so that no other thread can
//! evict them. Takers wait for no other thread's room. So a thread that finds none waits until a taker has
//! ended, and tries again. It may have locked directories of memories that it holds; a taker locks others.

use super::{DeviceBuffer, DeviceMemory};
use crate::error::{DeviceMemoryError, Error};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How many takers have begun, and ended.
#[derive(Clone, Copy)]
struct Takers {
    begun: u64,
    ended: u64,
}

static TAKERS: Mutex<Takers> = Mutex::new(Takers { begun: 0, ended: 0 });
/// A taker has ended.
static ENDED: Condvar = Condvar::new();

fn takers() -> MutexGuard<'static, Takers> {
    TAKERS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Its thread takes copies of arrays away while this lives.
pub(in crate::memory) struct Taker(());

impl Taker {
    pub fn new() -> Taker {
        takers().begun += 1;
        Taker(())
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        takers().ended += 1;
        ENDED.notify_all();
    }
}

impl Takers {
    /// This thread has found no room since then, and was a taker once. Waits until another one has ended, no
    /// longer than until this time. False: there was no other.
    fn wait_for_another(self, until: Instant) -> bool {
        let mut now = takers();
        if now.begun == self.begun + 1 && self.ended == self.begun {
            return false;
        }
        while now.ended == self.ended + 1 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            now = ENDED.wait_timeout(now, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        Instant::now() < until
    }
}

impl DeviceMemory {
    /// Makes room for this many bytes. Frees the cache, then evicts copies without users, the least recently
    /// used first; what is current only there is copied to the host first. Returns the buffer of an evicted
    /// copy, if its size is right; otherwise the bytes are claimed. If that is not enough, other threads may
    /// hold what could go, to take it away themselves: it is tried again when they have.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`] if there is no room; those of copies.
    pub(super) fn make_room(&'static self, bytes: u64) -> Result<Option<DeviceBuffer>, Error> {
        let mut missing = self.claim(bytes);
        if missing > 0 && bytes > self.budget() {
            return Err(self.too_little(bytes, String::new()));
        }
        // A limit, in case some thread evicts all the time.
        let until = Instant::now() + Duration::from_secs(1);
        while missing > 0 {
            let before = *takers();
            self.trim(missing);
            missing = self.claim(bytes);
            if missing == 0 {
                break;
            }
            let evicted = self.evict(missing)?;
            if let Some(buffer) = self.cached(bytes) {
                return Ok(Some(buffer));
            }
            // Another taker may have held what is lacking.
            if evicted == 0 && !before.wait_for_another(until) {
                return Err(self.too_little(bytes, String::new()));
            }
        }
        Ok(None)
    }

    /// Counts this many more bytes as used, if the budget has them. Returns the number that is missing.
    fn claim(&self, bytes: u64) -> u64 {
        let mut pool = self.pool();
        let all = pool.used.saturating_add(pool.cached).saturating_add(bytes);
        let missing = all.saturating_sub(self.budget());
        if missing == 0 {
            pool.used += bytes;
        }
        missing
    }

    /// Frees buffers of the cache, the largest first, until this many bytes are free or none is left.
    pub fn trim(&self, bytes: u64) {
        let mut freed = Vec::new();
        let mut pool = self.pool();
        let mut left = bytes;
        while left > 0
            && let Some((size, buffers)) = pool.free.pop_last()
        {
            for buffer in buffers {
                pool.cached -= size;
                left = left.saturating_sub(size);
                freed.push((buffer, size));
            }
        }
        drop(pool);
        freed.into_iter().for_each(|(buffer, size)| self.free_allocated(buffer, size));
    }

    /// Evicts copies without users, the least recently used first, until this many bytes went to the cache.
    /// Returns how many did.
    pub(super) fn evict(&self, bytes: u64) -> Result<u64, Error> {
        let _taker = Taker::new();
        let mut candidates = self.copied();
        candidates.sort_by_key(|(used, _)| *used);
        let mut freed = 0;
        for (_, header) in candidates {
            if freed >= bytes {
                break;
            }
            // In use, perhaps by the thread that needs this room: it stays.
            if !header.state.try_evict() {
                continue;
            }
            let outcome = header.evict(self.place);
            header.end_evict();
            freed += outcome?;
        }
        Ok(freed)
    }

    #[cold]
    pub(super) fn too_little(&self, wanted: u64, reason: String) -> Error {
        let pool = self.pool();
        Error::DeviceMemory(Box::new(DeviceMemoryError {
            device: self.device.id().to_owned(),
            wanted,
            budget: self.budget(),
            held: pool.used,
            reason,
        }))
    }
}
