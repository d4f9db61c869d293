//! Energies of a state, in double precision whatever the precision of the run.

use rayon::prelude::*;

use crate::bodies::{Constants, Scalar};

/// Kinetic energy: 1/2 sum m v^2.
pub fn kinetic<T: Scalar>(mass: &[T], vel: &[[T; 3]]) -> f64 {
    let doubled: f64 = mass
        .iter()
        .zip(vel)
        .map(|(mass, vel)| mass.widened() * vel.map(|part| part.widened().powi(2)).iter().sum::<f64>())
        .sum();
    0.5 * doubled
}

/// Potential energy: once per pair, -G m_i m_j (d^2 + softening^2)^(-1/2).
///
/// n^2/2 pairs, over all cores. The result does not depend on their number.
pub fn potential<T: Scalar>(mass: &[T], pos: &[[T; 3]], constants: &Constants<T>) -> f64 {
    let axis = |k: usize| pos.iter().map(|pos| pos[k].widened()).collect();
    let system = System {
        mass: mass.iter().map(|mass| mass.widened()).collect(),
        axes: [axis(0), axis(1), axis(2)],
        softening2: constants.softening2.widened(),
    };
    let rows: Vec<f64> =
        (0..mass.len()).into_par_iter().map(|i| system.mass[i] * system.partners(i)).collect();
    -constants.g.widened() * rows.iter().sum::<f64>()
}

/// Lanes that the compiler may put into vector registers. A plain sum has to keep its order.
const LANES: usize = 8;

/// One list per quantity: the layout that vectorises.
struct System {
    mass: Vec<f64>,
    axes: [Vec<f64>; 3],
    softening2: f64,
}

impl System {
    /// Sum over j > i of m_j (d_ij^2 + softening^2)^(-1/2).
    fn partners(&self, i: usize) -> f64 {
        let here = self.axes.each_ref().map(|axis| axis[i]);
        let term = |mass: f64, x: f64, y: f64, z: f64| {
            let (dx, dy, dz) = (x - here[0], y - here[1], z - here[2]);
            mass / (dx * dx + dy * dy + dz * dz + self.softening2).sqrt()
        };
        let (mass, mass_rest) = self.mass[i + 1..].as_chunks::<LANES>();
        let [(x, x_rest), (y, y_rest), (z, z_rest)] =
            self.axes.each_ref().map(|axis| axis[i + 1..].as_chunks::<LANES>());

        let mut sums = [0.0; LANES];
        for (((mass, x), y), z) in mass.iter().zip(x).zip(y).zip(z) {
            for lane in 0..LANES {
                sums[lane] += term(mass[lane], x[lane], y[lane], z[lane]);
            }
        }
        let rest = mass_rest.iter().zip(x_rest).zip(y_rest).zip(z_rest);
        let rest: f64 = rest.map(|(((&mass, &x), &y), &z)| term(mass, x, y, z)).sum();
        sums.iter().sum::<f64>() + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem;

    #[test]
    fn two_bodies_by_hand() {
        let (mass, pos) = ([2.0, 3.0], [[0.0, 0.0, 0.0], [0.0, 3.0, 4.0]]);
        assert_eq!(kinetic(&mass, &[[1.0, 2.0, 2.0], [0.0, 0.0, 1.0]]), 9.0 + 1.5);
        let constants = |softening2| Constants { g: 10.0, softening2, dt: 0.1 };
        assert_eq!(potential(&mass, &pos, &constants(0.0)), -12.0);
        assert_eq!(potential(&mass, &pos, &constants(11.0)), -10.0);
    }

    #[test]
    fn one_body_has_no_potential() {
        let constants = Constants { g: 1.0, softening2: 0.0, dt: 0.1 };
        assert_eq!(potential(&[1.0], &[[0.0; 3]], &constants), 0.0);
    }

    #[test]
    fn lanes_and_threads_count_every_pair_once() {
        let constants = Constants { g: 1.0, softening2: 1e-3, dt: 0.1 };
        for n in [2, 7, 8, 9, 16, 17, 18, 100] {
            let bodies = problem::generate::<f64>(n).expect("memory");
            let mut expected = 0.0;
            for i in 0..n {
                for j in i + 1..n {
                    let d2: f64 = (0..3).map(|k| (bodies.pos[i][k] - bodies.pos[j][k]).powi(2)).sum();
                    expected -= bodies.mass[i] * bodies.mass[j] / (d2 + 1e-3).sqrt();
                }
            }
            let found = potential(&bodies.mass, &bodies.pos, &constants);
            assert!((found / expected - 1.0).abs() < 1e-13, "{n} bodies: {found} for {expected}");
        }
    }

    #[test]
    fn the_solar_system_has_its_known_energy() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/solar-system.csv");
        let bodies = crate::input::read::<f64>(path.as_ref()).expect("the file");
        let constants = Constants { g: 1.0, softening2: 0.0, dt: 0.01 };
        let total = kinetic(&bodies.mass, &bodies.vel) + potential(&bodies.mass, &bodies.pos, &constants);
        assert!((total - -0.169075164).abs() < 5e-10, "{total}");
    }
}
