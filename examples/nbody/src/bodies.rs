//! The state of a system of bodies, in either precision.

use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

use anyhow::{Result, bail};
use flash::kernels::simd::Number;
use flash_examples::Refused;

/// The operations on a number that this program needs beside those of the kernels.
///
/// `Debug` prints the shortest decimal that reads back the same.
pub trait Scalar: Number + FromStr + Debug + From<f32> + Send + Sync {
    /// As on the command line.
    const NAME: &str;
    /// The largest finite value.
    const LARGEST: Self;
    /// The least number above 0.
    const LEAST: Self;

    /// The nearest value of this precision.
    fn narrowed(value: f64) -> Self;

    /// The same value in double precision.
    fn widened(self) -> f64 {
        self.into()
    }
}

impl Scalar for f32 {
    const NAME: &str = "f32";
    const LARGEST: Self = f32::MAX;
    const LEAST: Self = f32::from_bits(1);

    fn narrowed(value: f64) -> Self {
        value as f32
    }
}

impl Scalar for f64 {
    const NAME: &str = "f64";
    const LARGEST: Self = f64::MAX;
    const LEAST: Self = f64::from_bits(1);

    fn narrowed(value: f64) -> Self {
        value
    }
}

/// The constants of the formula.
#[derive(Clone, Copy, Debug)]
pub struct Constants<T> {
    /// Gravitational constant.
    pub g: T,
    /// Softening length, squared.
    pub softening2: T,
    /// Length of a step.
    pub dt: T,
}

/// A system of bodies. All lists have one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Bodies<T> {
    /// Names, where the bodies came with some.
    pub names: Option<Vec<String>>,
    pub mass: Vec<T>,
    pub pos: Vec<[T; 3]>,
    pub vel: Vec<[T; 3]>,
}

impl<T: Scalar> Bodies<T> {
    /// A copy of these lists.
    pub fn copied(names: Option<Vec<String>>, mass: &[T], pos: &[[T; 3]], vel: &[[T; 3]]) -> Self {
        Self { names, mass: mass.to_vec(), pos: pos.to_vec(), vel: vel.to_vec() }
    }

    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// The name of body `i`, counted from 0.
    pub fn name(&self, i: usize) -> String {
        match &self.names {
            Some(names) => names[i].clone(),
            None => format!("body{i}"),
        }
    }

    /// Refuses two bodies in one place where no softening keeps their attraction finite.
    pub fn check_distinct(&self, softening2: T) -> Result<()> {
        if softening2.widened() != 0.0 {
            return Ok(());
        }
        let mut seen = HashMap::with_capacity(self.len());
        for (i, position) in self.pos.iter().enumerate() {
            // Adding zero makes -0 and 0 one place.
            let place = position.map(|coordinate| (coordinate.widened() + 0.0).to_bits());
            if let Some(first) = seen.insert(place, i) {
                let (first, second) = (self.name(first), self.name(i));
                return Err(Refused(format!(
                    "without softening: expected bodies in different places, found `{first}` and \
                     `{second}` both at {position:?} in {}: move one, or give a --softening above 0",
                    T::NAME
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Fails where a position or velocity is no longer a number.
    pub fn check_finite(&self) -> Result<()> {
        let finite = |vector: &[T; 3]| vector.iter().all(|part| part.widened().is_finite());
        let lost = (0..self.len()).find(|&i| !finite(&self.pos[i]) || !finite(&self.vel[i]));
        if let Some(i) = lost {
            bail!(
                "after the run: expected finite positions and velocities, found body `{}` at {:?} \
                 with velocity {:?}: bodies came too close or too fast for these steps; take a \
                 smaller --dt or a larger --softening, or --precision f64",
                self.name(i),
                self.pos[i],
                self.vel[i]
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(x: [f32; 2]) -> Bodies<f32> {
        Bodies {
            names: None,
            mass: vec![1.0; 2],
            pos: x.map(|x| [x, 0.0, 0.0]).to_vec(),
            vel: vec![[0.0; 3]; 2],
        }
    }

    #[test]
    fn bodies_in_one_place_need_softening() {
        assert!(pair([0.0, 1.0]).check_distinct(0.0).is_ok());
        assert!(pair([1.0, 1.0]).check_distinct(0.1).is_ok());
        let error = pair([0.0, -0.0]).check_distinct(0.0).expect_err("one place");
        assert!(error.is::<Refused>());
        let text = error.to_string();
        assert!(text.contains("`body0`") && text.contains("`body1`"), "{text}");
    }

    #[test]
    fn a_state_that_is_no_number_is_found() {
        assert!(pair([0.0, 1.0]).check_finite().is_ok());
        let error = pair([0.0, f32::NAN]).check_finite().expect_err("not finite");
        assert!(error.to_string().contains("`body1`"), "{error}");
    }
}
