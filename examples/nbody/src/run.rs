//! The host code: a chain of two kernels per step.

use anyhow::Result;
use flash::kernels::nbody::{Accelerate, Integrate};
use flash::prelude::*;

use crate::bodies::{Bodies, Constants, Scalar};
use crate::watch::Watch;

/// Runs the steps on the runtime of this key. Gives the final state and the devices' names.
pub fn two_kernels<T: Scalar>(
    runtime: &str,
    bodies: Bodies<T>,
    Constants { g, softening2, dt }: Constants<T>,
    profile: &Profile,
    watch: &mut Watch<'_, T>,
) -> Result<(Bodies<T>, Vec<String>)> {
    let n = bodies.len();

    // host
    let rt = get_runtime(runtime)?.options(profile);
    let (mass, acc) = (FlashMemory::from(bodies.mass), FlashMemory::zeroed(n));
    let [pos, vel] = [bodies.pos, bodies.vel].map(FlashMemory::from);
    while watch.more()? {
        rt.submit(Accelerate::of(g, softening2, &pos, &mass, &acc))
            .defer([n])
            .submit(Integrate::of(dt, &acc, &pos, &vel))
            .exec([n])?;
        watch.observe(&mass, &pos, &vel)?;
    }
    // end host

    let bodies = Bodies::copied(bodies.names, &mass.read()?, &pos.read()?, &vel.read()?);
    let devices = rt.devices();
    let devices = devices.iter().map(|device| device.id().to_string());
    Ok((bodies, devices.collect()))
}
