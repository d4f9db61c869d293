//! `--record`: the whole run as one pipeline, written to a file with the bodies as they are now.

use std::path::Path;

use anyhow::Result;
use flash::kernels::nbody::{Accelerate, Integrate, Simulate};
use flash::prelude::*;
use flash::recording::Data;

use crate::args::{Args, Form};
use crate::bodies::{Bodies, Constants, Scalar};

/// The contents of the file: JSON if the path ends in `.json`, else the binary form.
pub fn recording<T: Scalar>(
    args: &Args,
    path: &Path,
    bodies: &Bodies<T>,
    constants: &Constants<T>,
) -> Result<Vec<u8>> {
    let Constants { g, softening2, dt } = *constants;
    let (n, steps) = (bodies.len(), args.steps);
    let rt = get_runtime(&args.runtime)?;
    let (mass, acc) = (FlashMemory::from(&bodies.mass[..]), FlashMemory::zeroed(n));
    let [pos, vel] = [&bodies.pos[..], &bodies.vel[..]].map(FlashMemory::from);
    let mut pipeline = rt.pipeline();
    match args.form {
        Form::TwoKernels => {
            for _ in 0..steps {
                pipeline = pipeline
                    .submit(Accelerate::of(g, softening2, &pos, &mass, &acc))
                    .defer([n])
                    .submit(Integrate::of(dt, &acc, &pos, &vel))
                    .defer([n]);
            }
        }
        Form::OneKernel => {
            let simulate = Simulate::of(g, softening2, dt, &mass, &pos, &vel, &acc);
            pipeline = pipeline.submit(simulate).defer((n, 2, steps));
        }
    }
    let recording = pipeline.recording(Data::With)?;
    match path.extension().is_some_and(|e| e == "json") {
        true => Ok(recording.to_json()?.into_bytes()),
        false => Ok(recording.to_bytes()?),
    }
}
