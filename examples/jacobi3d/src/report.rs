//! What came out of a run: for people, for programs, and as a picture.

use anyhow::Result;
use flash::kernels::simd::Number;
use flash_examples::{Colours, Picture};
use serde::Serialize;

/// The temperatures at the end.
#[derive(Serialize)]
pub struct Summary {
    pub mean: f64,
    pub least: f64,
    pub greatest: f64,
    /// FNV-1a of 64 bits over the points in double precision, as little-endian bytes, in hexadecimal digits.
    pub fnv1a64: String,
}

impl Summary {
    pub fn of<T: Number>(points: &[T]) -> Self {
        let (mut sum, mut least, mut greatest) = (0.0, f64::INFINITY, f64::NEG_INFINITY);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for &point in points {
            let point: f64 = point.into();
            sum += point;
            (least, greatest) = (point.min(least), point.max(greatest));
            for byte in point.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Self { mean: sum / points.len() as f64, least, greatest, fnv1a64: format!("{hash:016x}") }
    }
}

/// The report of a run, for programs to read. What does not apply, or could not be measured, is null.
#[derive(Serialize)]
pub struct Report<'a> {
    pub size: u32,
    pub iterations: u32,
    pub precision: &'a str,
    /// Blocks along x, y and z, and steps of a pass, if tasks ran.
    pub tasks: Option<[usize; 3]>,
    pub depth: Option<u32>,
    /// The runtime's key and its devices, if launches ran.
    pub runtime: Option<&'a str>,
    pub devices: Option<&'a [String]>,
    pub temperature: &'a Summary,
    /// Whether one loop gave the same bits, if that was to be checked.
    pub checked: Option<bool>,
    pub seconds: f64,
    pub updates_per_second: Option<f64>,
    pub dispatch_overhead_percent: Option<f64>,
}

impl Report<'_> {
    pub fn json(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// The temperatures in the plane in the middle along y. The z axis goes upwards.
pub fn picture<T: Number>(size: usize, points: &[T]) -> Result<Picture> {
    let mut picture = Picture::new(size, size, Colours::Map)?;
    for z in 0..size {
        let row = &points[(z * size + size / 2) * size..][..size];
        row.iter().enumerate().for_each(|(x, &point)| picture.set(x, size - 1 - z, point.into()));
    }
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_of_all_points() {
        let summary = Summary::of(&[0.5f32, 0.25, 0.75]);
        assert_eq!((summary.mean, summary.least, summary.greatest), (0.5, 0.25, 0.75));
        assert_eq!(summary.fnv1a64, Summary::of(&[0.5f64, 0.25, 0.75]).fnv1a64);
        assert_ne!(summary.fnv1a64, Summary::of(&[0.25f64, 0.5, 0.75]).fnv1a64);
        // Of the eight bytes of 0.0, by hand.
        let zeros =
            (0..8).fold(14_695_981_039_346_656_037_u64, |hash, _| hash.wrapping_mul(1_099_511_628_211));
        assert_eq!(Summary::of(&[0.0f64]).fnv1a64, format!("{zeros:016x}"));
    }

    #[test]
    fn the_picture_is_of_the_middle_with_the_first_plane_at_the_bottom() -> Result<()> {
        let mut points = [0.0f32; 27];
        points[3 + 2] = 1.0; // x = 2, y = 1, z = 0
        points[18 + 3] = 0.5; // x = 0, y = 1, z = 2
        points[1] = 1.0; // y = 0
        let mut expected = Picture::new(3, 3, Colours::Map)?;
        expected.set(2, 2, 1.0);
        expected.set(0, 0, 0.5);
        assert_eq!(picture(3, &points)?, expected);
        Ok(())
    }
}
