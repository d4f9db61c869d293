//! Sources of moves: streams of random numbers, any part of which can be computed by itself.
//!
//! A stream of N moves along x and as many along y is numbered 0 to 2 N: first all along x, then all along y.
//! Both generators are functions of that number, so that moves are made when they are needed, by all cores.

use clap::ValueEnum;
use rayon::prelude::*;

/// A stream of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Normally distributed moves, mean 0 and deviation 0.03, by Philox4x32-10 and the inverse of the
    /// distribution, as in the published sample
    Philox,
    /// Uniform moves of up to 0.0625 either way by SplitMix64: the same on every machine, to the last bit
    Splitmix,
}

/// Deviation of the normally distributed moves, in cells.
const DEVIATION: f64 = 0.03;

impl Source {
    /// As on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Philox => "philox",
            Self::Splitmix => "splitmix",
        }
    }

    /// The moves with these numbers.
    pub fn moves(self, seed: u64, numbers: std::ops::Range<u64>) -> Vec<f32> {
        match self {
            Self::Splitmix => numbers.into_par_iter().map(|number| splitmix(seed, number)).collect(),
            Self::Philox => numbers.into_par_iter().map(|number| gaussian(seed, number)).collect(),
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014). Each step adds the increment to the state, so any state can be
/// computed at once.
fn splitmix(seed: u64, number: u64) -> f32 {
    const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(INCREMENT.wrapping_mul(number.wrapping_add(1)));
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let z = z ^ (z >> 31);
    (((z >> 40) as f64 / f64::from(1 << 24) - 0.5) * 0.125) as f32
}

/// A normally distributed number: the inverse of the distribution at the number's word.
fn gaussian(seed: u64, number: u64) -> f32 {
    let block = philox(seed, number / 4);
    (DEVIATION * normal_quantile(uniform(block[(number % 4) as usize]))) as f32
}

/// A number between 0 and 1 for a word: r / 2^32 + 1/2, r being the word as a signed one in single precision,
/// as the sample's library has it. 0 and 1, which have no inverse, are moved half a step inwards.
///
/// All moves are within five units of the library's last digit, and no closer: it computes the inverse in
/// single precision, by different instructions on each kind of CPU, which do not agree. Those for AVX2 give
/// the published sums, those for AVX-512 8 and 1 less in the first and the third.
fn uniform(word: u32) -> f64 {
    const STEP: f64 = 1.0 / (1u64 << 32) as f64;
    (f64::from(word.cast_signed() as f32) * STEP + 0.5).clamp(0.5 * STEP, 1.0 - 0.5 * STEP)
}

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011): four words for a counter of 128 bits and a key of 64.
fn philox(key: u64, counter: u64) -> [u32; 4] {
    philox_of([counter as u32, (counter >> 32) as u32, 0, 0], [key as u32, (key >> 32) as u32])
}

fn philox_of(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const ROUNDS: usize = 10;
    const FACTORS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const INCREMENTS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    for _ in 0..ROUNDS {
        let product = |i: usize| u64::from(FACTORS[i]) * u64::from(counter[2 * i]);
        let [(high0, low0), (high1, low1)] = [0, 1].map(|i| ((product(i) >> 32) as u32, product(i) as u32));
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(INCREMENTS[0]), key[1].wrapping_add(INCREMENTS[1])];
    }
    counter
}

/// The number below which a part `p` of a standard normal distribution lies, to about 1e-16 of it, for `p`
/// from 1e-10 to 1 - 1e-10: Wichura's algorithm AS 241 (1988), quotients of polynomials of degree 7 for the
/// middle and the tails. (Its third quotient, for values further out, is left out: no word reaches them.)
fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * polynomial(&MIDDLE[0], r) / polynomial(&MIDDLE[1], r);
    }
    let r = (-p.min(1.0 - p).ln()).sqrt() - 1.6;
    (polynomial(&TAIL[0], r) / polynomial(&TAIL[1], r)).copysign(q)
}

/// The polynomial with these coefficients, the constant first.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

const MIDDLE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];

const TAIL: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_words_that_its_authors_publish() {
        assert_eq!(philox_of([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox_of([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox_of([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
        // What the sample's library begins with, for its seed.
        assert_eq!(philox(777, 0), [0x5a5c_541a, 0xad10_854d, 0x1ad1_11e2, 0xde3a_6707]);
    }

    #[test]
    fn the_first_moves_are_those_of_the_samples_library_but_for_its_rounding() {
        let library = [0.031_477_869, -0.027_917_635, 0.007_970_048, -0.010_108_393];
        for (found, expected) in Source::Philox.moves(777, 0..4).into_iter().zip(library) {
            let error = (f64::from(found) / expected - 1.0f64).abs();
            assert!(error < 3e-7, "{found} for {expected}");
        }
    }

    // As published: more digits than a float may need.
    #[expect(clippy::excessive_precision)]
    #[test]
    fn the_exact_stream_begins_as_published() {
        assert_eq!(Source::Splitmix.moves(777, 0..3), [-0.00300765038, 0.0190742612, -0.0235167369]);
    }

    #[test]
    fn a_part_of_a_stream_is_that_part_of_it() {
        for source in [Source::Philox, Source::Splitmix] {
            let all = source.moves(5, 0..1000);
            assert_eq!(source.moves(5, 333..700), all[333..700]);
            assert_eq!(source.moves(5, u64::from(u32::MAX) * 8..u64::from(u32::MAX) * 8 + 5).len(), 5);
            assert_ne!(source.moves(6, 0..1000), all);
        }
    }

    /// From tables with 16 digits.
    #[test]
    fn quantiles_are_exact_in_the_middle_and_far_out() {
        for (p, expected) in [
            (0.5, 0.0),
            (0.25, -0.674_489_750_196_081_7),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
            (1e-9, -5.997_807_015_007_687),
            (0.925, 1.439_531_470_938_456),
        ] {
            let found = normal_quantile(p);
            assert!((found - expected).abs() <= 1e-14 * f64::abs(expected), "{p}: {found} for {expected}");
        }
    }

    #[test]
    fn normal_moves_have_their_mean_and_deviation_and_are_finite_at_the_ends() {
        let moves = Source::Philox.moves(1, 0..1_000_000);
        let mean = moves.iter().map(|&v| f64::from(v)).sum::<f64>() / 1e6;
        let variance = moves.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / 1e6;
        assert!(mean.abs() < 1e-4 && (variance.sqrt() - DEVIATION).abs() < 1e-4, "{mean} {variance}");
        for word in [i32::MIN, i32::MIN + 1, -1, 0, i32::MAX - 100, i32::MAX] {
            let quantile = normal_quantile(uniform(word.cast_unsigned()));
            assert!(quantile.abs() < 6.5, "{word}: {quantile}");
        }
        assert_eq!(uniform(0), 0.5);
    }
}
