//! A process that launches on the runtime of a key: empty kernels, steps of the heat equation, steps of
//! gravity. It is the agent of another process, or answers what it is asked.

use super::agent::CHAIN;
use super::meter::serve;
use crate::dispatch::{memories, per_call};
use crate::kernels::Empty;
use crate::nbody;
use anyhow::{Context, Result, bail, ensure};
use flash::kernels::diffusion::heat;
use flash::kernels::nbody::{Accelerate, Integrate};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use flash_core::descriptor::weights;
use std::time::Instant;

/// The part of a process.
pub const CHILD: &str = "ranks.solve";
/// The variable that names the runtime's key.
pub const KEY: &str = "FLASH_TEST_KEY";

/// Cells along a side of the field; as in `mpi.c`.
const WIDTH: usize = 2048;
/// Bodies; as in `mpi.c`.
const BODIES: usize = 16_000;

/// Serves another process, or answers requests.
pub fn measure() -> Result<()> {
    let rt = get_runtime(&std::env::var(KEY).with_context(|| format!("expected a key in {KEY}"))?)?;
    // Shares follow the rates of the devices that were measured, unless they are said.
    let halves = rt.options(weights([1, 1]));
    let (mut field, mut bodies) = (None, None);
    serve(|what, count| {
        let (is_bytes, problem) = without("bytes.", what);
        let (is_halved, problem) = without("halves.", problem);
        let rt = if is_halved { &halves } else { &rt };
        let (before, start) = (bytes(rt), Instant::now());
        match problem {
            "launch" => return launch(rt, count),
            "chain" => return chain(rt, count),
            "heat" => steps_of_heat(rt, made(&mut field, new_field)?, count)?,
            "nbody" => steps_of_gravity(rt, made(&mut bodies, || Ok(Bodies::new()))?, count)?,
            _ => bail!("there is no measurement `{what}`"),
        }
        let (ms, bytes) = (start.elapsed().as_nanos() as f64 / 1e6, bytes(rt) - before);
        Ok(if is_bytes { bytes as f64 } else { ms } / count as f64)
    })
}

/// Whether a request begins so, and what follows.
fn without<'a>(prefix: &str, what: &'a str) -> (bool, &'a str) {
    what.strip_prefix(prefix).map_or((false, what), |rest| (true, rest))
}

/// What is there, or is made now.
fn made<T>(place: &mut Option<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if place.is_none() {
        *place = Some(make()?);
    }
    place.as_ref().context("it was made just now")
}

/// Nanoseconds of a blocking launch of the empty kernel.
pub fn launch(rt: &RuntimeObj, count: usize) -> Result<f64> {
    let [x, y, z] = &memories();
    let one = || rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]);
    one()?;
    Ok(per_call(count, || one().expect("it has run before")))
}

/// Nanoseconds of each kernel of a chain, built and run, of this many chains.
pub fn chain(rt: &RuntimeObj, count: usize) -> Result<f64> {
    let [x, y, z] = &memories();
    let one = || {
        let mut chain = rt.pipeline();
        for _ in 0..CHAIN {
            chain = chain.submit(Empty::of(1.0, x, y, z)).defer([1usize]);
        }
        chain.exec()
    };
    one()?;
    Ok(per_call(count, || one().expect("it has run before")) / CHAIN as f64)
}

/// Bytes that were copied to and from all devices so far.
fn bytes(rt: &RuntimeObj) -> u64 {
    let moved = rt.devices().iter().map(|device| device.transfers());
    moved.map(|all| all.to_device.bytes + all.from_device.bytes + all.between_devices.bytes).sum()
}

/// A field with one warm cell, and room for the next step.
fn new_field() -> Result<[FlashMemory<f32>; 2]> {
    let field = || FlashMemory::<f32>::zeroed(WIDTH * WIDTH).with_shape([WIDTH, WIDTH]);
    let fields = [field()?, field()?];
    fields[0].write()?[WIDTH / 2] = 1.0;
    Ok(fields)
}

/// The last step writes to the first array.
fn steps_of_heat(rt: &RuntimeObj, [even, odd]: &[FlashMemory<f32>; 2], count: usize) -> Result<()> {
    ensure!(count.is_multiple_of(2), "expected an even number of steps, found {count}");
    let mut steps = rt.pipeline();
    for step in 0..count {
        let (from, to) = if step % 2 == 0 { (even, odd) } else { (odd, even) };
        steps = steps.submit(heat(0.2, from, to)?).defer([WIDTH, WIDTH]);
    }
    Ok(steps.exec()?)
}

struct Bodies {
    mass: FlashMemory<f32>,
    pos: FlashMemory<[f32; 3]>,
    vel: FlashMemory<[f32; 3]>,
    acc: FlashMemory<[f32; 3]>,
}

impl Bodies {
    fn new() -> Bodies {
        let (pos, mass) = nbody::bodies::<f32>(BODIES);
        let zeros = || FlashMemory::zeroed(BODIES);
        // Of iterators: such arrays lie in memory that agents of this machine share.
        Bodies {
            mass: mass.into_iter().collect(),
            pos: pos.into_iter().collect(),
            vel: zeros(),
            acc: zeros(),
        }
    }
}

fn steps_of_gravity(rt: &RuntimeObj, Bodies { mass, pos, vel, acc }: &Bodies, count: usize) -> Result<()> {
    let mut steps = rt.pipeline();
    for _ in 0..count {
        steps = steps
            .submit(Accelerate::of(nbody::G as f32, nbody::SOFTENING2 as f32, pos, mass, acc))
            .defer([BODIES])
            .submit(Integrate::of(1e-3, acc, pos, vel))
            .defer([BODIES]);
    }
    Ok(steps.exec()?)
}
