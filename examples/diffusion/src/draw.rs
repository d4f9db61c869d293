//! Pictures of particles and of what cells have counted.

use anyhow::Result;
use flash_examples::{Colours, Picture};

/// Pictures of a second of animation.
pub const PER_SECOND: u16 = 15;
/// Number of pictures of an animation, about.
pub const PICTURES: usize = 60;
/// Pixels along each side of a picture, about.
const SIDE: usize = 440;
/// Brightness of a count of one.
const LEAST: f64 = 0.15;

/// The counts of a plane on a logarithmic scale, and marks where particles are. The y axis goes upwards.
pub fn picture(grid: usize, counts: &[u64], x: &[f32], y: &[f32]) -> Result<Picture> {
    let cell = (SIDE / grid).max(1);
    let side = grid * cell;
    let mut picture = Picture::new(side, side, Colours::Map)?;
    let most = counts.iter().copied().max().unwrap_or(0).max(2) as f64;
    for (i, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let brightness = LEAST + (1.0 - LEAST) * (count as f64).ln() / most.ln();
        let (left, top) = (i % grid * cell, (grid - 1 - i / grid) * cell);
        // A dark line between cells that have room for one.
        let inner = if cell > 4 { cell - 1 } else { cell };
        for (dx, dy) in (0..inner).flat_map(|dx| (0..inner).map(move |dy| (dx, dy))) {
            picture.set(left + dx, top + dy, brightness);
        }
    }
    for (&x, &y) in x.iter().zip(y) {
        // Cells have their centres at whole numbers.
        let [x, y] = [x, y].map(|at| (f64::from(at) + 0.5) * cell as f64);
        let inside = 0.0..side as f64;
        if inside.contains(&x) && inside.contains(&y) {
            let (x, y) = (x as usize, side - 1 - y as usize);
            let dot = if cell > 4 { 2 } else { 1 };
            for (dx, dy) in (0..dot).flat_map(|dx| (0..dot).map(move |dy| (dx, dy))) {
                picture.mark(x + dx, y + dy);
            }
        }
    }
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_particles_are_where_they_are() {
        // Cells of one pixel: a grid as large as the picture.
        let mut counts = vec![0; SIDE * SIDE];
        (counts[1 + 2 * SIDE], counts[5]) = (1, 100);
        let found = picture(SIDE, &counts, &[3.4, -9.0, f32::NAN], &[3.6, 0.0, 0.0]).expect("a picture");
        let mut expected = Picture::new(SIDE, SIDE, Colours::Map).expect("a size");
        expected.set(1, SIDE - 3, LEAST);
        expected.set(5, SIDE - 1, 1.0);
        expected.mark(3, SIDE - 5);
        assert_eq!(found, expected);
    }

    #[test]
    fn any_grid_has_a_picture() {
        for (grid, side) in [(1, 440), (22, 440), (300, 300), (4096, 4096)] {
            assert_eq!(
                picture(grid, &vec![1; grid * grid], &[0.0], &[0.0]).expect("one").size(),
                (side, side)
            );
        }
    }
}
