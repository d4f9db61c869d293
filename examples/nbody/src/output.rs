//! Bodies to a file of comma-separated values, as `input.rs` reads them.

use anyhow::{Context, Result};

use crate::bodies::{Bodies, Scalar};
use crate::input::COLUMNS;

/// The state as a file. Numbers have as many digits as read back the same.
pub fn csv<T: Scalar>(bodies: &Bodies<T>) -> Result<Vec<u8>> {
    // With the comment character set, a name that begins with it is quoted.
    let mut writer = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for i in 0..bodies.len() {
        writer.write_field(bodies.name(i))?;
        let ([x, y, z], [vx, vy, vz]) = (bodies.pos[i], bodies.vel[i]);
        for number in [bodies.mass[i], x, y, z, vx, vy, vz] {
            writer.write_field(format!("{number:?}"))?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.into_inner().context("--output: cannot be formatted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{input, problem};

    fn there_and_back<T: Scalar>(bodies: &Bodies<T>) -> Bodies<T> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("bodies.csv");
        std::fs::write(&path, csv(bodies).expect("a file")).expect("written");
        input::read(&path).expect("a good file")
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let mut single = problem::generate::<f32>(100).expect("memory");
        single.pos[3] = [f32::MAX, f32::MIN_POSITIVE, -1e-45];
        single.names = Some((0..100).map(|i| single.name(i)).collect());
        assert_eq!(there_and_back(&single), single);
        let mut double = problem::generate::<f64>(100).expect("memory");
        double.pos[3] = [f64::MAX, 1.0 / 3.0, -5e-324];
        double.names = Some((0..100).map(|i| double.name(i)).collect());
        assert_eq!(there_and_back(&double), double);
    }

    #[test]
    fn names_of_every_kind_read_back_the_same() {
        let mut bodies = problem::generate::<f64>(7).expect("memory");
        let names = ["#1", "a, b", "\"quoted\"", "", " ", "ε Eridani", "'"];
        bodies.names = Some(names.map(String::from).to_vec());
        assert_eq!(there_and_back(&bodies), bodies);
    }
}
