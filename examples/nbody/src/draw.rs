//! Pictures of a state: the mass along z, over x and y, on a logarithmic scale.

use anyhow::Result;
use flash_examples::{Animation, Colours, Picture};

use crate::bodies::{Bodies, Scalar};

/// Pixels along each side.
const SIDE: usize = 384;
/// Pictures of a second of animation.
const PER_SECOND: u16 = 20;
/// Number of pictures of an animation, about.
const PICTURES: usize = 100;
/// Fewer bodies than this are drawn larger than a pixel.
const FEW: usize = 1000;
/// Brightness of the least mass in a picture.
const LEAST: f64 = 0.3;

/// The part of the plane that a picture shows: a square.
pub struct View {
    corner: [f64; 2],
    side: f64,
}

impl View {
    /// Around the centre of mass, with nearly all bodies: one in a hundred may be out of sight, so that a few
    /// bodies far out do not make all others small.
    pub fn of<T: Scalar>(mass: &[T], pos: &[[T; 3]]) -> Self {
        // Massless bodies only: their middle.
        let massless = mass.iter().all(|mass| mass.widened() == 0.0);
        let weight = |mass: &T| if massless { 1.0 } else { mass.widened() };
        let mut centre = [0.0; 2];
        let mut total = 0.0;
        for (mass, pos) in mass.iter().zip(pos) {
            let weight = weight(mass);
            total += weight;
            for axis in 0..2 {
                centre[axis] += weight * pos[axis].widened();
            }
        }
        let centre = centre.map(|sum| sum / total);
        let distance = |pos: &[T; 3]| {
            let apart = |axis: usize| (pos[axis].widened() - centre[axis]).abs();
            apart(0).max(apart(1))
        };
        let mut distances: Vec<f64> = pos.iter().map(distance).filter(|d| d.is_finite()).collect();
        distances.sort_by(f64::total_cmp);
        let nearly_all = distances.len() - distances.len() / 100;
        let half = nearly_all.checked_sub(1).map_or(0.0, |last| distances[last]) * 1.1;
        // One body, or all in one place: any square around it.
        let half = if half > 0.0 { half } else { 1.0 };
        Self { corner: centre.map(|c| c - half), side: 2.0 * half }
    }

    /// The pixel that shows a place, the y axis upwards.
    fn pixel<T: Scalar>(&self, pos: &[T; 3]) -> Option<(usize, usize)> {
        let along = |axis: usize| {
            let at = (pos[axis].widened() - self.corner[axis]) / self.side * SIDE as f64;
            (0.0..SIDE as f64).contains(&at).then_some(at as usize)
        };
        Some((along(0)?, SIDE - 1 - along(1)?))
    }

    /// The picture of a state.
    pub fn picture<T: Scalar>(&self, mass: &[T], pos: &[[T; 3]]) -> Result<Picture> {
        let few = mass.len() < FEW;
        let mut along_z = vec![0.0; SIDE * SIDE];
        // A body without mass is seen, too.
        let visible = |mass: &T| mass.widened().max(f64::MIN_POSITIVE);
        for (mass, pos) in mass.iter().zip(pos) {
            if let Some((x, y)) = self.pixel(pos) {
                along_z[y * SIDE + x] += visible(mass);
            }
        }
        if !few {
            along_z = smooth(&smooth(&along_z));
        }
        let most = along_z.iter().copied().fold(0.0, f64::max);
        // Of few bodies each is visible; of many, a pixel below a ten-thousandth of the densest is dark.
        let least = match few {
            true => along_z.iter().copied().filter(|&mass| mass > 0.0).fold(most, f64::min),
            false => most * 1e-4,
        };
        let range = (most / least).ln();
        let brightness = |mass: f64| match (range > 0.0, few) {
            (true, true) => LEAST + (1.0 - LEAST) * (mass / least).ln() / range,
            (true, false) => (mass / least).ln() / range,
            (false, _) => 1.0,
        };
        let size: usize = if few { 2 } else { 0 };
        let mut picture = Picture::new(SIDE, SIDE, Colours::Map)?;
        // The brightest last: it covers what is beside it.
        let mut pixels: Vec<usize> = (0..along_z.len()).filter(|&i| along_z[i] > 0.0).collect();
        pixels.sort_by(|&a, &b| along_z[a].total_cmp(&along_z[b]));
        for i in pixels {
            let (x, y) = (i % SIDE, i / SIDE);
            for (dx, dy) in (0..=2 * size).flat_map(|dx| (0..=2 * size).map(move |dy| (dx, dy))) {
                // A disc around the pixel. A coordinate below 0 wraps to a large one, which is outside and
                // ignored.
                if dx.abs_diff(size).pow(2) + dy.abs_diff(size).pow(2) <= size * size + 1 {
                    let at = |to: usize, d: usize| (to + d).wrapping_sub(size);
                    picture.set(at(x, dx), at(y, dy), brightness(along_z[i]));
                }
            }
        }
        Ok(picture)
    }
}

/// Spreads every pixel's mass over its neighbours, half of it staying in its column and half of that in its
/// row.
fn smooth(density: &[f64]) -> Vec<f64> {
    let spread = |from: &[f64], distance: usize| -> Vec<f64> {
        let at = |i: Option<usize>| i.and_then(|i| from.get(i)).copied().unwrap_or(0.0);
        let around = |i: usize| at(i.checked_sub(distance)) + at(i.checked_add(distance));
        (0..from.len()).map(|i| 0.5 * from[i] + 0.25 * around(i)).collect()
    };
    spread(&spread(density, 1), SIDE)
}

/// An animation of a run, in the view of its initial state.
pub struct Film {
    view: View,
    /// Steps between two pictures.
    every: usize,
    steps: usize,
    animation: Animation,
}

impl Film {
    /// Begins with the picture of the initial state.
    pub fn new<T: Scalar>(bodies: &Bodies<T>, steps: usize) -> Result<Self> {
        let animation = Animation::new((SIDE, SIDE), Colours::Map, PER_SECOND)?;
        let view = View::of(&bodies.mass, &bodies.pos);
        let mut film = Self { view, every: steps.div_ceil(PICTURES).max(1), steps, animation };
        film.show(&bodies.mass, &bodies.pos)?;
        Ok(film)
    }

    /// Whether the state after this number of steps is to be shown.
    pub fn wants(&self, done: usize) -> bool {
        done.is_multiple_of(self.every) || done == self.steps
    }

    /// Appends the picture of a state.
    pub fn show<T: Scalar>(&mut self, mass: &[T], pos: &[[T; 3]]) -> Result<()> {
        self.animation.push(self.view.picture(mass, pos)?)
    }

    /// The animation.
    pub fn finish(self) -> Animation {
        self.animation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem;

    #[test]
    fn bodies_are_where_they_are_and_the_heaviest_is_the_brightest() {
        let pos = [[-1.0, 0.0, 5.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
        let view = View { corner: [-2.0, -2.0], side: 4.0 };
        let pixels = pos.map(|pos| view.pixel(&pos).expect("inside"));
        assert_eq!(pixels, [(96, 191), (288, 191), (192, 95)]);
        assert_eq!(view.pixel(&[2.0, 0.0, 0.0]), None);
        assert_eq!(view.pixel(&[f64::NAN, 0.0, 0.0]), None);

        let mut expected = Picture::new(SIDE, SIDE, Colours::Map).expect("a size");
        for ((x, y), value) in pixels.into_iter().zip([1.0, LEAST, 0.65]) {
            for (dx, dy) in (0..5).flat_map(|dx| (0..5).map(move |dy| (dx, dy))) {
                if (dx as i32 - 2).pow(2) + (dy as i32 - 2).pow(2) <= 5 {
                    expected.set(x + dx - 2, y + dy - 2, value);
                }
            }
        }
        assert_eq!(view.picture(&[100.0, 1.0, 10.0], &pos).expect("a picture"), expected);
    }

    #[test]
    fn a_cloud_is_smoothed_and_keeps_its_mass() {
        let mut density = vec![0.0; SIDE * SIDE];
        density[100 * SIDE + 50] = 16.0;
        let smoothed = smooth(&density);
        let around = |dx: usize, dy: usize| smoothed[(99 + dy) * SIDE + 49 + dx];
        assert_eq!([around(1, 1), around(0, 1), around(1, 2), around(2, 0)], [4.0, 2.0, 2.0, 1.0]);
        assert_eq!(smoothed.iter().sum::<f64>(), 16.0);
        let cloud = problem::generate::<f32>(FEW).expect("memory");
        let picture = View::of(&cloud.mass, &cloud.pos).picture(&cloud.mass, &cloud.pos).expect("a picture");
        assert_ne!(picture, Picture::new(SIDE, SIDE, Colours::Map).expect("a size"));
    }

    #[test]
    fn any_state_has_a_view_with_its_bodies() {
        let cube = problem::generate::<f32>(5000).expect("memory");
        let seen = |mass: &[f32], pos: &[[f32; 3]]| {
            let view = View::of(mass, pos);
            pos.iter().filter(|pos| view.pixel(pos).is_some()).count()
        };
        assert!(seen(&cube.mass, &cube.pos) >= 4950);
        let mut thrown = cube.pos.clone();
        thrown[7] = [1e30, 0.0, 0.0];
        let masses = vec![0.0; 5000];
        assert_eq!(seen(&masses[..1], &cube.pos[..1]), 1);
        assert_eq!(seen(&masses, &vec![[3.0; 3]; 5000]), 5000);
        assert!(seen(&cube.mass[..5], &cube.pos[..5]) == 5);
        assert!(View::of(&masses, &cube.pos).picture(&masses, &cube.pos).is_ok());
    }

    #[test]
    fn an_animation_has_the_first_the_last_and_about_a_hundred_pictures() {
        let bodies = problem::generate::<f64>(10).expect("memory");
        for (steps, shown) in [(0, 0), (1, 1), (100, 100), (101, 51), (1000, 100)] {
            let film = Film::new(&bodies, steps).expect("a film");
            let wanted: Vec<usize> = (1..=steps).filter(|&step| film.wants(step)).collect();
            assert_eq!(wanted.len(), shown, "{steps} steps");
            assert_eq!(wanted.last().copied().unwrap_or(0), steps);
        }
    }
}
