//! The report of a run of particles, for programs to read.

use anyhow::Result;
use serde::Serialize;

/// What could not be measured is null. Lists hold a value per plane of counts.
#[derive(Serialize)]
pub struct Report<'a> {
    pub runtime: &'a str,
    pub devices: &'a [String],
    pub particles: usize,
    pub iterations: usize,
    /// `philox`, `splitmix` or `file`.
    pub source: &'a str,
    pub sums: [u64; 3],
    /// Of the cell in which particles start.
    pub centre: [u64; 3],
    pub fnv1a64: [String; 3],
    /// Of all launches, from submission to completion.
    pub seconds: f64,
    pub dispatch_overhead_percent: Option<f64>,
}

/// Any report as a file.
pub fn json(report: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(report)?;
    text.push(b'\n');
    Ok(text)
}

/// FNV-1a of 64 bits over counts as little-endian numbers of 64 bits, in hexadecimal digits.
pub fn fnv1a64(counts: &[u64]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = counts.iter().flat_map(|count| count.to_le_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_fnv_1a_of_bytes() {
        // Of nothing, and of the eight bytes `foobarba`.
        assert_eq!(fnv1a64(&[]), "cbf29ce484222325");
        assert_eq!(fnv1a64(&[u64::from_le_bytes(*b"foobarba")]), by_hand(b"foobarba"));
        assert_eq!(by_hand(b"foobar"), "85944171f73967e8"); // as its authors publish
    }

    fn by_hand(bytes: &[u8]) -> String {
        let mut hash = 14_695_981_039_346_656_037_u64;
        for byte in bytes {
            hash ^= u64::from(*byte);
            hash = hash.wrapping_mul(1_099_511_628_211);
        }
        format!("{hash:016x}")
    }
}
