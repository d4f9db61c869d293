//! What is measured of the kernels that move bodies, particles and heat.

use super::c::{Kernels, Real};
use super::cases::{C, Case, Measure, numbers};
use crate::diffusion::{Diffusion, moves};
use crate::nbody::Accel;
use crate::peers::int;
use anyhow::Result;
use flash::kernels::diffusion::{count, heat, reach, stretches, walk};
use flash::kernels::nbody::{accelerate, integrate};
use flash::{FlashMemory, RuntimeObj, get_runtime};

fn vectors<T: Real>(n: usize) -> Result<FlashMemory<[T; 3]>> {
    Ok(numbers::<T>(3 * n).read()?.as_chunks::<3>().0.iter().copied().collect())
}

/// `nbody.accelerate`, of `n` bodies.
pub fn bodies_attracted<T: Real>(
    n: usize,
    threads: usize,
    c: Option<Accel<T>>,
    measure: Measure<'_>,
) -> Result<bool> {
    let bodies = |n: usize| -> Result<_> { Ok((vectors::<T>(n)?, numbers::<T>(n), FlashMemory::zeroed(n))) };
    let (many, one) = (&bodies(n)?, &bodies(1)?);
    let softening2 = T::of(1e-3);
    let record = |rt: &RuntimeObj, n: usize| {
        let (pos, mass, acc) = if n == 1 { one } else { many };
        Ok(rt.submit(accelerate(T::ONE, softening2, pos, mass, acc)?).defer([n]))
    };
    let best = c.map(|attract| {
        move || {
            let (pos, mass) = (many.0.read().expect("free"), many.1.read().expect("free"));
            let (pos, mass, mut acc) = (pos.as_ptr().cast(), mass.as_ptr(), many.2.write().expect("free"));
            let acc = acc.as_mut_ptr().cast();
            // SAFETY: all have `n` bodies.
            unsafe { attract(n, 0, n, T::ONE, softening2, pos, mass, acc, int(threads)) };
        }
    });
    measure(Case {
        kernel: "nbody.accelerate",
        bytes: None,
        unit: "G interactions/s",
        work: (n * n) as f64 / 1e9,
        submit: &|rt| record(rt, n),
        one: &|rt| record(rt, 1),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
        may_shrink: n > 1024,
    })
}

/// `nbody.integrate`.
pub fn bodies_moved<T: Real>(
    bytes: usize,
    threads: usize,
    c: Option<&Kernels<T>>,
    measure: Measure<'_>,
) -> Result<()> {
    let n = bytes / 9 / size_of::<T>();
    let bodies = |n: usize| -> Result<_> { Ok((vectors::<T>(n)?, vectors::<T>(n)?, FlashMemory::zeroed(n))) };
    let (many, one) = (&bodies(n)?, &bodies(1)?);
    // So short a step that numbers stay what they are, however often it is made.
    let dt = T::of(1e-9);
    let record = |rt: &RuntimeObj, n: usize| {
        let (acc, pos, vel) = if n == 1 { one } else { many };
        Ok(rt.submit(integrate(dt, acc, pos, vel)?).defer([n]))
    };
    let best = c.map(|c| {
        move || {
            let (acc, [mut pos, mut vel]) =
                (many.0.read().expect("free"), [&many.1, &many.2].map(|array| array.write().expect("free")));
            c.integrate(threads, dt, acc.as_flattened(), pos.as_flattened_mut(), vel.as_flattened_mut());
        }
    });
    measure(Case {
        kernel: "nbody.integrate",
        bytes: Some(bytes),
        unit: "GB/s",
        work: (5 * 3 * n * size_of::<T>()) as f64 / 1e9,
        submit: &|rt| record(rt, n),
        one: &|rt| record(rt, 1),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
        may_shrink: false,
    })?;
    Ok(())
}

/// Cells along a side.
const GRID: u32 = 22;

/// Iterations of a launch.
const ITERATIONS: usize = 256;

/// Particles all over the grid, with moves and a track.
struct Particles {
    n: usize,
    moves: [FlashMemory<f32>; 2],
    position: [FlashMemory<f32>; 2],
    cell: FlashMemory<u32>,
    track: FlashMemory<u32>,
}

impl Particles {
    /// With moves of the reference problem there, and the same way back: so they are where they were after
    /// each launch, to the last bit, for all numbers are multiples of 2^-16.
    fn new(n: usize, iterations: usize) -> Result<Particles> {
        const ONE: f32 = (1 << 16) as f32;
        let moves = moves(n * iterations.div_ceil(2)).map(|there| {
            let back = (iterations.div_ceil(2)..iterations).map(|i| iterations - 1 - i);
            let there = there.into_iter().map(|x| (x * ONE).round() / ONE).collect::<Vec<f32>>();
            let back = back.flat_map(|i| there[i * n..][..n].iter().map(|x| -x)).collect::<Vec<f32>>();
            there.into_iter().chain(back).collect::<FlashMemory<f32>>()
        });
        let place = |p: usize, step: usize| 1.0 + (p.wrapping_mul(step) % (20 << 16)) as f32 / ONE;
        let position = [40_503, 10_007].map(|step| (0..n).map(|p| place(p, step)).collect());
        let (cell, track) = (FlashMemory::zeroed(n), FlashMemory::zeroed([iterations + 1, n]));
        Ok(Particles { n, moves, position, cell, track })
    }

    fn walk<'a>(&'a self, rt: &RuntimeObj) -> Result<flash::Pipeline<'a>> {
        let (moves, position) = (self.moves.each_ref(), self.position.each_ref());
        Ok(rt.submit(walk(GRID, 0.5, moves, position, &self.cell, &self.track)?).defer([self.n]))
    }
}

/// `diffusion.walk` and `diffusion.count`.
pub fn particles(bytes: usize, threads: usize, c: Option<&Diffusion>, measure: Measure<'_>) -> Result<()> {
    let one = &Particles::new(1, 1)?;
    // Moves along two axes and a track, 4 bytes each.
    let mut n = bytes / 12 / ITERATIONS;
    loop {
        let many = &Particles::new(n, ITERATIONS)?;
        let best = c.map(|c| {
            move || {
                let moves = many.moves.each_ref().map(|moves| moves.read().expect("free"));
                let [mut x, mut y] = many.position.each_ref().map(|at| at.write().expect("free"));
                let (mut cell, mut track) =
                    (many.cell.write().expect("free"), many.track.write().expect("free"));
                let moves = moves.each_ref().map(|moves| &moves[..]);
                c.walk(threads, (GRID, reach(0.5)), moves, [&mut x, &mut y], &mut cell, &mut track);
            }
        });
        if measure(Case {
            kernel: "diffusion.walk",
            bytes: Some(12 * n * ITERATIONS),
            unit: "G moves/s",
            work: (n * ITERATIONS) as f64 / 1e9,
            submit: &|rt| many.walk(rt),
            one: &|rt| one.walk(rt),
            best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
            may_shrink: n > 1024,
        })? {
            break;
        }
        n /= 2;
    }
    // A track alone, of particles of which there are some.
    let some = Particles::new(1024, ITERATIONS)?;
    some.walk(&get_runtime("ALL_CPU")?)?.exec()?;
    let (some, n) = (some.track.read()?, bytes / 4 / (ITERATIONS + 1));
    let entries = (0..n * (ITERATIONS + 1)).map(|at| some[at % some.len()]);
    let track = &entries.collect::<FlashMemory<u32>>().with_shape([ITERATIONS + 1, n])?;
    let cells = (GRID * GRID) as usize;
    let counts = &FlashMemory::<u64>::zeroed(3 * cells);
    let best = c.map(|c| {
        move || {
            let (track, mut counts) = (track.read().expect("free"), counts.write().expect("free"));
            // SAFETY: tracks of `walk` on this grid.
            unsafe { c.count(threads, ITERATIONS, &track, &mut counts) };
        }
    });
    measure(Case {
        kernel: "diffusion.count",
        bytes: Some(bytes),
        unit: "G moves/s",
        work: (n * ITERATIONS) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(count(ITERATIONS, track, counts)?).defer((stretches(ITERATIONS), n))),
        one: &|rt| Ok(rt.submit(count(1, &one.track, counts)?).defer((1usize, 1usize))),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
        may_shrink: false,
    })?;
    Ok(())
}

/// `diffusion.heat`.
pub fn field(bytes: usize, threads: usize, c: Option<&Diffusion>, measure: Measure<'_>) -> Result<()> {
    const RATE: f32 = 0.2;
    let (width, height) = (2048, bytes / 8 / 2048);
    let fields = |shape: [usize; 2]| -> Result<_> {
        let from = numbers::<f32>(shape[0] * shape[1]).with_shape(shape)?;
        Ok((from, FlashMemory::zeroed(shape)))
    };
    let (many, one) = (&fields([width, height])?, &fields([1, 1])?);
    let best = c.map(|c| {
        move || {
            let (from, mut to) = (many.0.read().expect("free"), many.1.write().expect("free"));
            c.heat(threads, width, RATE, &from, &mut to);
        }
    });
    measure(Case {
        kernel: "diffusion.heat",
        bytes: Some(bytes),
        unit: "GB/s",
        work: (8 * width * height) as f64 / 1e9,
        submit: &|rt| Ok(rt.submit(heat(RATE, &many.0, &many.1)?).defer((width, height))),
        one: &|rt| Ok(rt.submit(heat(RATE, &one.0, &one.1)?).defer((1usize, 1usize))),
        best: best.as_ref().map(|best| (C, best as &dyn Fn())).as_slice(),
        may_shrink: false,
    })?;
    Ok(())
}
