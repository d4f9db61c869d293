//! The cuts of a phase's rows. Every thread computes the same cuts from the same numbers, so that a ticket
//! alone identifies its rows.

use std::ops::Range;

/// How the phases of one launch are cut: `width` shares of `1 << log_chunks`
/// chunks each, at multiples of `1 << log_align` rows from the phase's start.
///
/// Each of the n chunks of a share is smaller than the one before by the same amount, down to `1 / n^2` of it
/// (trapezoid self-scheduling: Tzen and Ni, 1993). Threads wait for each other at the end for part of a last
/// chunk only, and there are few chunks to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Shares in a phase, at least 2.
    pub(crate) width: u32,
    pub(crate) log_chunks: u8,
    pub(crate) log_align: u8,
}

impl Shape {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.width) | u64::from(self.log_chunks) << 32 | u64::from(self.log_align) << 40
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self { width: word as u32, log_chunks: (word >> 32) as u8, log_align: (word >> 40) as u8 }
    }

    /// The rows of chunk `chunk` of share `share`. `per_share` is
    /// [`fraction`]`(width)`: a product instead of the two divisions, which
    /// would be a tenth of what a barrier takes.
    #[inline]
    pub(crate) fn rows(self, per_share: u64, phase: Range<u64>, share: u32, chunk: u32) -> Range<u64> {
        let length = phase.end.saturating_sub(phase.start);
        let (next_share, next_chunk) =
            if (chunk + 1) >> self.log_chunks == 0 { (share, chunk + 1) } else { (share + 1, 0) };
        phase.start + self.cut(per_share, length, share, chunk)
            ..phase.start + self.cut(per_share, length, next_share, next_chunk)
    }

    /// The beginning of chunk `chunk` of share `share`. Monotone in both; 0 for the first; `length` for the
    /// share after the last. So the chunks of all shares are disjoint and cover the phase, whatever is lost
    /// in rounding.
    #[inline]
    fn cut(self, per_share: u64, length: u64, share: u32, chunk: u32) -> u64 {
        if share >= self.width {
            return length;
        }
        // The rest of the share is proportional to the square of the remaining chunks: 1 - (n - c)^2 / n^2 =
        // c (2 n - c) / n^2 lies before.
        let before = u64::from(chunk) * ((2 << self.log_chunks) - u64::from(chunk));
        // Does not wrap: share <= width - 1 and per_share <= 2^64 / width + 1,
        // and the chunk adds less than one share.
        let part = u64::from(share) * per_share + before * (per_share >> (2 * self.log_chunks));
        let at = ((u128::from(length) * u128::from(part)) >> 64) as u64;
        let mask = (1_u64 << self.log_align) - 1;
        match at.checked_add(mask) {
            Some(up) => (up & !mask).min(length),
            None => length,
        }
    }
}

/// `1 / width` in units of `2^-64`, rounded up. `width` is at least 2.
pub(crate) fn fraction(width: u32) -> u64 {
    u64::MAX / u64::from(width) + 1
}
