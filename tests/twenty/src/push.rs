//! A step of particles in a magnetic field along z (Boris), inside a box with walls.

use crate::{Problem, points};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

/// A particle with a charge.
#[derive(Clone, Copy, Element, Staged)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    velocity: [f32; 3],
    charge: f32,
    hits: u32,
}

#[derive(KernelDefinition)]
#[kernel(name = "twenty.push", dims(particle))]
#[implementations(opencl = "push.cl", name = "by_hand", priority = -4, cooperating)]
struct Push<'a> {
    dt: f32,
    field: f32,
    particles: Item<'a, ReadWrite<Particle>>,
}

/// Turns a velocity around z.
#[kernel_fn]
fn turn(velocity: &mut [f32; 3], angle: f32) {
    let t = angle * 0.5;
    let s = 2.0 * t / (1.0 + t * t);
    let (x, y) = (velocity[0] + velocity[1] * t, velocity[1] - velocity[0] * t);
    velocity[0] += y * s;
    velocity[1] -= x * s;
}

once! {{
    impl CpuItem<Push<'_>> for Once {
        fn item(_: Index<1>, k: PushItem<'_>) {
            let mut p = *k.particles;
            turn(&mut p.velocity, k.field * p.charge * k.dt);
            for axis in 0..3 {
                p.position[axis] += p.velocity[axis] * k.dt;
                if p.position[axis] < 0.0 || p.position[axis] > 1.0 {
                    p.velocity[axis] = -p.velocity[axis];
                    p.position[axis] = p.position[axis].clamp(0.0, 1.0);
                    p.hits += 1;
                }
            }
            *k.particles = p;
        }
    }
}}

struct Particles(FlashMemory<Particle>);

pub fn problem(n: usize) -> Box<dyn Problem> {
    let particle = |(i, position): (usize, [f32; 3])| Particle {
        position,
        velocity: [1.0 - position[0], position[1] - 0.5, 0.3],
        charge: (i % 3) as f32 - 1.0,
        hits: 0,
    };
    Box::new(Particles(points(n).into_iter().enumerate().map(particle).collect()))
}

impl Problem for Particles {
    fn items(&self) -> u64 {
        self.0.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Push::of(0.1, 2.0, &self.0)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        let all = |p: &Particle| {
            let numbers = p.position.into_iter().chain(p.velocity).chain([p.charge, p.hits as f32]);
            numbers.map(f64::from).collect::<Vec<f64>>()
        };
        Ok(self.0.read()?.iter().flat_map(all).collect())
    }
}
