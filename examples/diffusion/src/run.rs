//! The host code of particles: their ways, then the counts, some iterations at a time.

use anyhow::Result;
use flash::kernels::diffusion::{OUTSIDE, count, stretches, walk};
use flash::prelude::*;

use crate::watch::{Problem, Watch};

/// Runs all iterations on the runtime of this key. Gives the counts and the devices' names.
pub fn particles(
    runtime: &str,
    Problem { grid, radius, particles: n, stride, .. }: Problem,
    profile: &Profile,
    watch: &mut Watch<'_>,
) -> Result<(Vec<u64>, Vec<String>)> {
    let (cells, start) = ((grid * grid) as usize, (grid / 2) as f32);

    // host
    let rt = get_runtime(runtime)?.options(profile);
    let [x, y] = [start; 2].map(|start| FlashMemory::from(vec![start; n]));
    let (cell, counts) = (FlashMemory::from(vec![OUTSIDE; n]), FlashMemory::zeroed(3 * cells));
    let track = FlashMemory::zeroed((stride + 1) * n).with_shape([stride + 1, n])?;
    while let Some((iterations, [rx, ry])) = watch.moves() {
        rt.submit(walk(grid, radius, [&rx, &ry], [&x, &y], &cell, &track)?).exec([n])?;
        rt.submit(count(iterations, &track, &counts)?).exec((stretches(iterations), n))?;
        watch.observe(&x, &y, &counts)?;
    }
    // end host

    let devices = rt.devices().iter().map(|device| device.id().to_string()).collect();
    let counts = counts.read()?.to_vec();
    Ok((counts, devices))
}
