//! Numbers for tests that try many things: the same ones each time.

use std::ops::Range;

/// Numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// Any number.
    #[allow(clippy::should_implement_trait)] // there is always a next one
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A range inside `0..n` that is not empty.
    pub fn range(&mut self, n: usize) -> Range<usize> {
        let (a, b) = (self.below(n), self.below(n));
        a.min(b)..a.max(b) + 1
    }
}
