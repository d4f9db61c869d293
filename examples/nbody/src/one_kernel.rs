//! The same in the paper's form: one kernel over bodies, stages and steps. Barriers between its
//! stages take the place of the chain.

use anyhow::Result;
use flash::kernels::nbody::Simulate;
use flash::prelude::*;

use crate::bodies::{Bodies, Constants, Scalar};
use crate::watch::Watch;

/// Runs the steps on the runtime of this key. Gives the final state and the devices' names.
pub fn one_kernel<T: Scalar>(
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
        rt.submit(Simulate::of(g, softening2, dt, &mass, &pos, &vel, &acc)).exec((n, 2, watch.stride))?;
        watch.observe(&mass, &pos, &vel)?;
    }
    // end host

    let bodies = Bodies::copied(bodies.names, &mass.read()?, &pos.read()?, &vel.read()?);
    let devices = rt.devices();
    let devices = devices.iter().map(|device| device.id().to_string());
    Ok((bodies, devices.collect()))
}
