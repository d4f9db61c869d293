//! The reference problem: that of the oneAPI N-body sample and of the FLASH paper.

use anyhow::{Context, Result};
use rand_mt::Mt;

use crate::bodies::{Bodies, Scalar};

/// Bodies.
pub const BODIES: usize = 16_000;
/// Length of a step.
pub const DT: f64 = 0.1;
/// Gravitational constant, m^3 kg^-1 s^-2.
pub const GRAVITY: f64 = 6.67259e-11;
/// Softening length, squared.
pub const SOFTENING2: f64 = 1e-3;

/// Kinetic energies after steps 1 to 10, to five digits, as published with the sample.
const PUBLISHED: [f64; 10] =
    [26.405, 313.77, 926.56, 1866.4, 3135.6, 4737.6, 6676.6, 8957.7, 11587.0, 14572.0];

/// The published kinetic energy after `step` steps.
pub fn published(step: usize) -> Option<f64> {
    PUBLISHED.get(step.checked_sub(1)?).copied()
}

/// Whether `energy` is `published` within one unit of its fifth digit: the published digits are
/// rounded, and one of them lies on the edge.
pub fn agrees(energy: f64, published: f64) -> bool {
    let unit = 10f64.powi(published.abs().log10().floor() as i32 - 4);
    // A thousandth of a unit for the decimals themselves, which binary cannot hold.
    (energy - published).abs() <= unit * 1.001
}

/// The initial state of `n` bodies: three generators, each seeded with 42, one for positions (x,
/// y and z of a body in turn), one for velocities, one for masses. Drawn in single precision,
/// whatever the precision of the run.
pub fn generate<T: Scalar>(n: usize) -> Result<Bodies<T>> {
    let room = |error| Err(error).with_context(|| format!("no memory for {n} bodies: take fewer"));
    let (mut mass, mut pos, mut vel) = (Vec::new(), Vec::new(), Vec::new());
    mass.try_reserve_exact(n).or_else(room)?;
    pos.try_reserve_exact(n).or_else(room)?;
    vel.try_reserve_exact(n).or_else(room)?;

    let mut positions = Uniform::new();
    let mut velocities = Uniform::new();
    let mut masses = Uniform::new();
    for _ in 0..n {
        pos.push(std::array::from_fn(|_| T::from(positions.draw())));
        vel.push(std::array::from_fn(|_| T::from((2.0 * velocities.draw() - 1.0) * 1e-3)));
        mass.push(T::from(n as f32 * masses.draw()));
    }
    Ok(Bodies { names: None, mass, pos, vel })
}

/// Uniform numbers between 0 and 1: the generator's 32 bits over 2^32.
struct Uniform(Mt);

impl Uniform {
    fn new() -> Self {
        Self(Mt::new(42))
    }

    fn draw(&mut self) -> f32 {
        self.0.next_u32() as f32 / 4_294_967_296.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // As published: nine digits, one more than a float may need.
    #[expect(clippy::excessive_precision)]
    #[test]
    fn the_first_body_is_the_published_one() {
        let bodies = generate::<f32>(BODIES).expect("memory");
        assert_eq!(bodies.pos[0], [0.37454012, 0.796543002, 0.95071429]);
        assert_eq!(bodies.vel[0], [-0.00025091978, 0.000593086006, 0.000901428633]);
        assert_eq!(bodies.mass[0], 5992.64209);
        assert_eq!((bodies.len(), bodies.pos.len(), bodies.vel.len()), (BODIES, BODIES, BODIES));
    }

    #[test]
    fn double_precision_starts_from_the_single_precision_state() {
        let (single, double) = (generate::<f32>(7).expect("memory"), generate::<f64>(7).expect("memory"));
        assert_eq!(single.pos.map_widened(), double.pos);
        assert_eq!(single.vel.map_widened(), double.vel);
        assert_eq!(single.mass[6] as f64, double.mass[6]);
    }

    trait MapWidened {
        fn map_widened(&self) -> Vec<[f64; 3]>;
    }

    impl MapWidened for Vec<[f32; 3]> {
        fn map_widened(&self) -> Vec<[f64; 3]> {
            self.iter().map(|vector| vector.map(f64::from)).collect()
        }
    }

    #[test]
    fn agreement_is_one_unit_of_the_fifth_digit() {
        assert!(agrees(14571.504, 14572.0) && agrees(14571.0, 14572.0));
        assert!(!agrees(14570.9, 14572.0));
        assert!(agrees(26.406, 26.405) && !agrees(26.4062, 26.405));
        assert!(!agrees(f64::NAN, 26.405));
    }

    #[test]
    fn energies_are_published_for_steps_1_to_10() {
        assert_eq!((published(0), published(11)), (None, None));
        assert_eq!((published(1), published(10)), (Some(26.405), Some(14572.0)));
    }
}
