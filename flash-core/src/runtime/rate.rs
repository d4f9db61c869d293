//! The rate of a kernel on a device: the median of the last few launches, so that one disturbed launch has no
//! effect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

/// Number of launches in the median.
const KEPT: usize = 5;

/// A device with an empty share is still measured once in this many launches.
const PROBED: u32 = 64;

/// A pipeline that may be small is tried as one once in this many launches.
const TRIED: u32 = 16;

/// Nanoseconds per work item of the last few launches.
#[derive(Default)]
pub(crate) struct Rate {
    /// Bits of `f32`s; 0: none yet.
    samples: [AtomicU32; KEPT],
    next: AtomicU32,
    /// Median of the samples.
    median: AtomicU32,
    /// Cut launches in which its share was empty.
    left_out: AtomicU32,
    /// Pipelines that were not tried as small ones.
    untried: AtomicU32,
}

/// The rates of a context, by kernel, implementation and device, whatever the runtime and its options.
#[derive(Default)]
pub(crate) struct Rates(Mutex<BTreeMap<[String; 3], Arc<Rate>>>);

impl Rates {
    /// The rate of an implementation of a kernel on a device. Asked for when a kernel is prepared.
    pub fn of(&self, kernel: &str, implementation: &str, device: &str) -> Arc<Rate> {
        let key = [kernel, implementation, device].map(str::to_owned);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_default().clone()
    }
}

impl Rate {
    /// Adds a launch. Two at once may overwrite each other's sample, which loses one.
    pub fn add(&self, nanoseconds: u64, items: u64) {
        if items > 0 {
            let sample = (nanoseconds as f32 / items as f32).max(f32::MIN_POSITIVE);
            let at = self.next.fetch_add(1, Relaxed) as usize % KEPT;
            self.samples[at].store(sample.to_bits(), Relaxed);
            self.median.store(self.median_now(), Relaxed);
        }
    }

    /// Adds a launch that took no longer than this, unless that is known.
    pub fn add_at_most(&self, nanoseconds: u64, items: u64) {
        if self.get().is_none_or(|known| nanoseconds as f64 <= known * items as f64) {
            self.add(nanoseconds, items);
        }
    }

    /// Forgets all launches but this one.
    pub fn set(&self, nanoseconds: u64, items: u64) {
        (0..KEPT).for_each(|_| self.add(nanoseconds, items));
    }

    fn median_now(&self) -> u32 {
        let mut all: smallvec::SmallVec<[u32; KEPT]> =
            self.samples.iter().map(|sample| sample.load(Relaxed)).filter(|bits| *bits != 0).collect();
        // Bits of positive numbers are in the order of the numbers.
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }

    /// Nanoseconds per item; `None` before the first launch.
    pub fn get(&self) -> Option<f64> {
        let bits = self.median.load(Relaxed);
        (bits != 0).then(|| f64::from(f32::from_bits(bits)))
    }
}

impl Rate {
    /// Whether a device whose share would be empty gets a small part, to be measured. It does while an
    /// outlier among few launches could keep it out for ever, and now and then, because devices change.
    pub fn wants_probe(&self) -> bool {
        (self.next.load(Relaxed) as usize) < KEPT
            || self.left_out.fetch_add(1, Relaxed) % PROBED == PROBED - 1
    }

    /// Whether a pipeline that may be small is tried as one: the first, and now and then.
    pub fn wants_trial(&self) -> bool {
        self.untried.fetch_add(1, Relaxed).is_multiple_of(TRIED)
    }
}

/// Shares of a launch for devices: in proportion to their rates. One whose rate is unknown gets as much as
/// the others if none is known, and a probe of 1 % if some are.
pub(super) fn weights(rates: impl Iterator<Item = Option<f64>>) -> SmallVec<[f64; 8]> {
    // Speeds, where they are known.
    let mut weights: SmallVec<[f64; 8]> =
        rates.map(|rate| rate.map_or(UNKNOWN, |nanoseconds| 1.0 / nanoseconds)).collect();
    let unknown = weights.iter().filter(|speed| **speed == UNKNOWN).count();
    let total: f64 = weights.iter().filter(|speed| **speed != UNKNOWN).sum();
    let probe = if unknown == weights.len() { 1.0 } else { total * 0.01 / unknown.max(1) as f64 };
    weights.iter_mut().filter(|speed| **speed == UNKNOWN).for_each(|speed| *speed = probe);
    weights
}

/// No speed.
const UNKNOWN: f64 = -1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_launches_counts() {
        let rate = Rate::default();
        assert_eq!(rate.get(), None);
        rate.add(1, 0);
        assert_eq!(rate.get(), None);
        for nanoseconds in [100, 100, 1_000_000, 100, 1] {
            rate.add(nanoseconds, 10);
        }
        assert_eq!(rate.get(), Some(10.0));
        for _ in 0..3 {
            rate.add(40, 10);
        }
        assert_eq!(rate.get(), Some(4.0));
    }

    #[test]
    fn a_launch_that_took_at_most_so_long_tells_nothing_if_that_is_longer_than_known() {
        let rate = Rate::default();
        rate.add_at_most(50, 10);
        assert_eq!(rate.get(), Some(5.0));
        for _ in 0..KEPT {
            rate.add_at_most(60, 10);
        }
        assert_eq!(rate.get(), Some(5.0));
        for _ in 0..KEPT {
            rate.add_at_most(40, 10);
        }
        assert_eq!(rate.get(), Some(4.0));
    }

    #[test]
    fn who_is_left_out_is_probed_until_it_is_known_and_now_and_then() {
        let rate = Rate::default();
        for _ in 0..KEPT {
            assert!(rate.wants_probe());
            rate.add(1, 1);
        }
        let probes: Vec<bool> = (0..2 * PROBED).map(|_| rate.wants_probe()).collect();
        assert_eq!(probes.iter().filter(|probe| **probe).count(), 2);
        assert!(probes[PROBED as usize - 1]);
    }

    #[test]
    fn shares_follow_rates_and_who_is_unknown_is_probed() {
        assert_eq!(weights([None, None, None].into_iter())[..], [1.0; 3]);
        assert_eq!(weights([Some(2.0), Some(4.0)].into_iter())[..], [0.5, 0.25]);
        let probed = weights([Some(2.0), None, None].into_iter());
        assert_eq!(probed[1], probed[2]);
        assert!((probed[1] + probed[2]) / probed.iter().sum::<f64>() <= 0.01);
    }
}
