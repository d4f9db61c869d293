//! The sweeps as launches of a kernel, on the devices of a runtime.

use crate::cube::{self, REACH, inside};
use anyhow::Result;
use flash::kernels::simd::Number;
use flash::kernels::star;
use flash::prelude::*;

/// All points after some iterations, without the wall, and the devices' names. `done` is told how many
/// iterations are done, after each.
///
/// # Errors
/// If there is no such runtime, or a launch fails.
pub fn run<T: Number>(
    key: &str,
    size: usize,
    iterations: usize,
    profile: &Profile,
    mut done: impl FnMut(usize) -> Result<()>,
) -> Result<(Vec<T>, Vec<String>)> {
    let start = cube::walled::<T>(size);
    let edge = size + 2 * REACH;

    // host
    let rt = get_runtime(key)?.options(profile);
    let mut from = FlashMemory::from(&start[..]).with_shape([edge; 3])?;
    let mut to = FlashMemory::from(start).with_shape([edge; 3])?;
    for iteration in 1..=iterations {
        rt.submit(star(&from, &to)?).exec((inside(size), inside(size), inside(size)))?;
        std::mem::swap(&mut from, &mut to);
        done(iteration)?;
    }
    // end host

    let devices = rt.devices().iter().map(|device| device.id().to_string()).collect();
    Ok((cube::bare(size, &from.read()?), devices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cube::one_loop;

    #[test]
    fn launches_give_the_bits_of_one_loop() -> Result<()> {
        let mut seen = Vec::new();
        let profile = Profile::new();
        let note = |iteration| {
            seen.push(iteration);
            Ok(())
        };
        let (points, devices) = run::<f32>("ALL_CPU", 9, 4, &profile, note)?;
        assert!(points == one_loop::<f32>(9, 4));
        assert!(!devices.is_empty());
        assert_eq!(seen, [1, 2, 3, 4]);
        assert!(run::<f64>("ALL_CPU", 9, 0, &profile, |_| Ok(()))?.0 == one_loop::<f64>(9, 0));
        Ok(())
    }
}
