//! How long a node runs, and how long it waits though it has data: always counted, as it takes a clock
//! reading for each wait and none for each datum.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an activation that has data waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum For {
    /// Room in an inbox, or its turn on a strand.
    Room,
    /// Things of a pool.
    Pool,
}

/// How long the activations of a node have waited: the sum of the ends of their waits, less the sum of the
/// begins. While some wait, it lacks their ends.
#[derive(Default)]
pub(crate) struct Waits {
    sums: [AtomicU64; 2],
    /// Activations that wait for pools now.
    for_pools: AtomicU32,
}

impl Waits {
    pub(crate) fn begins(&self, of: For) {
        self.sums[of as usize].fetch_sub(now(), Ordering::Relaxed);
        if of == For::Pool {
            self.for_pools.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn ends(&self, of: For) {
        self.sums[of as usize].fetch_add(now(), Ordering::Relaxed);
        if of == For::Pool {
            self.for_pools.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The time up to a moment at which `parked` activations wait for one or the other.
    pub(crate) fn until(&self, moment: u64, of: For, parked: u32) -> Duration {
        let for_pools = self.for_pools.load(Ordering::Relaxed);
        let waiting = match of {
            For::Room => parked.saturating_sub(for_pools),
            For::Pool => for_pools,
        };
        let sum = self.sums[of as usize].load(Ordering::Relaxed);
        let sum = sum.wrapping_add(moment.wrapping_mul(waiting.into()));
        // A wait that begins or ends right now may be counted by halves.
        Duration::from_nanos(if sum > i64::MAX as u64 { 0 } else { sum })
    }
}

/// Nanoseconds since this was first asked.
pub(crate) fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// How long a replica has run, in nanoseconds. One thread at a time adds to it.
#[derive(Default)]
pub(crate) struct Busy(AtomicU64);

impl Busy {
    #[inline]
    pub(crate) fn add(&self, nanoseconds: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(nanoseconds), Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
