//! Numbers for generated matrices.

/// A number from -1 to below 1, in steps of 2^-23: the same for the same stream and number, and spread evenly
/// over the numbers of a stream.
pub fn uniform(stream: u64, number: u64) -> f32 {
    // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut x = number.wrapping_add(1 + (stream << 60)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bits = (x ^ (x >> 31)) >> 40;
    (bits as f32 - 8_388_608.0) / 8_388_608.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_minus_one_to_one_and_spread() {
        let all: Vec<f64> = (0..10_000).map(|number| f64::from(uniform(0, number))).collect();
        assert!(all.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = all.iter().sum::<f64>() / 1e4;
        let square = all.iter().map(|x| x * x).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.03 && (square - 1.0 / 3.0).abs() < 0.02, "{mean} {square}");
        assert_ne!(uniform(0, 5), uniform(1, 5));
    }
}
