//! Diffusion, of particles and of a field.
//!
//! **Particles.** The problem is that of the oneAPI particle-diffusion sample, which is the FLASH paper's. A
//! grid has square cells with their centres at whole numbers; each has a circle in its middle. In iteration k
//! particle p of n moves by `(rx, ry)[k * n + p]`. It is *inside* the cell (floor(x + 1/2), floor(y + 1/2))
//! if that is on the grid and the particle is no further from the centre than the radius. Counted are, per
//! cell,
//!
//! 1. the particles that are inside, once per iteration;
//! 2. the particles whose cell it is now: one enters a cell when it is inside and was in none or another,
//!    and leaves it when it is inside none or another;
//! 3. entries.
//!
//! [`Walk`] moves particles and records the cell of each; [`Count`] counts. They are two kernels because they
//! are cut differently: a particle's way is sequential, counts are a sum over all moves.
//!
//! **A field.** [`Heat`] is one explicit step of the heat equation.

#[cfg(feature = "implementations")]
mod cpu;
#[cfg(all(test, feature = "implementations"))]
mod tests;

use flash_core::kernel::views::{Item, Read, ReadWrite, Reduce, Row, Sum, Whole, Window, Write};
use flash_core::kernel::{Boxes, Candidate, partition_map};
use flash_core::{Error, FlashMemory, KernelDefinition};

/// The number for "in no cell", in a track and as a particle's cell.
pub const OUTSIDE: u32 = u32::MAX;

/// The largest grid of [`Walk`], in cells along a side: numbers of cells stay exact in single precision.
pub const LARGEST_GRID: u32 = 4096;

/// The largest squared distance from a cell's centre that is inside a circle of this radius: the last float
/// whose square root, rounded to single precision, is not above it. Comparing squares so is the same, to the
/// last bit, as comparing distances, on devices with any square root.
///
/// Below zero, or NaN, nothing is inside: then it is -1.
///
/// # Examples
/// ```
/// use flash_kernels::diffusion::reach;
/// assert_eq!(reach(0.5), 0.25f32.next_up()); // whose root rounds to 0.5
/// ```
pub fn reach(radius: f32) -> f32 {
    if radius.is_nan() || radius < 0.0 {
        return -1.0;
    }
    let mut square = (radius * radius).min(f32::MAX);
    while square.sqrt() > radius {
        square = square.next_down();
    }
    while square < f32::MAX && square.next_up().sqrt() <= radius {
        square = square.next_up();
    }
    square
}

/// Moves every particle `iterations` times and writes its track; made by [`walk`]. Dimensions: (particle: n).
///
/// `rx` and `ry` have `iterations * n` elements, iteration by iteration; `x`, `y` and `cell` have n; `track`
/// has the shape `[l, n]`, l above `iterations`: entry 0 of a particle's row becomes the cell that it was in
/// before, entry k that after k iterations, [`OUTSIDE`] if none. The rest of a row is left unchanged.
///
/// # Errors
/// On the CPU, lengths that do not fit each other fail the launch; `walk` checks them. On devices particles
/// without all of their moves, or without a track for them, are not moved.
#[derive(KernelDefinition)]
#[kernel(name = "flash.diffusion.walk", dims(particle), part_by(particle))]
#[cfg_attr(feature = "implementations", implementations(
    opencl = "diffusion.cl", name = "any", cooperating;
    opencl = "walk_cpu.cl", name = "cpu", architecture = "cpu", cooperating, items_per_thread = 16;
    cuda = "diffusion.cu", cooperating, build_options = "--fmad=false"
))]
pub struct Walk<'a> {
    /// Cells along a side of the grid; at most [`LARGEST_GRID`].
    grid: u32,
    /// From [`reach`].
    reach: f32,
    /// Iterations of this launch.
    iterations: u64,
    /// Moves along x, in cells.
    rx: Whole<'a, Read<f32>>,
    /// Moves along y, in cells.
    ry: Whole<'a, Read<f32>>,
    /// Positions along x, in cells.
    x: Item<'a, ReadWrite<f32>>,
    /// Positions along y, in cells.
    y: Item<'a, ReadWrite<f32>>,
    /// The cells that the particles are in: x + y * grid, or [`OUTSIDE`].
    cell: Item<'a, ReadWrite<u32>>,
    /// A row per particle.
    track: Item<'a, ReadWrite<Row<u32>>>,
}

/// Iterations that one work item of [`Count`] counts: enough that there are far fewer accumulators than
/// moves, and few enough that several threads share a sum of some hundred iterations.
pub const STRETCH: usize = 8;

/// Counts the tracks of [`Walk`]; made by [`count`]. Dimensions: (stretch: [`stretches`] of the iterations,
/// particle: n).
///
/// `counts` has three planes of as many elements as there are cells, for the three counts of the module's
/// documentation; element x + y * grid + plane * grid^2. The counts are added to the old values.
///
/// # Errors
/// On the CPU, a track with cells beyond the planes, or too short for the launch, fails it. On devices such
/// cells are not counted, and tracks count up to their end.
#[derive(KernelDefinition)]
#[kernel(name = "flash.diffusion.count", dims(stretch, particle), part_by(particle))]
#[cfg_attr(feature = "implementations", implementations(opencl = "diffusion.cl", name = "any", cooperating; cuda = "diffusion.cu", cooperating, build_options = "--fmad=false", work_group_size = 256))]
pub struct Count<'a> {
    /// Iterations that are counted: the first of a track.
    iterations: u64,
    /// A row per particle.
    #[along(particle)]
    track: Item<'a, Read<Row<u32>>>,
    /// Three planes of cells.
    counts: Reduce<'a, ReadWrite<[u64]>, Sum>,
}

partition_map! {
    /// Sets no box: it refuses a part whose neighbours would be looked up at wrong places.
    static FIELD = "diffusion.field": |at: &Candidate<'_>, _: &mut Boxes| {
        let (shape, width) = (at.shape("from"), at.scalar::<u64>("width"));
        assert!(
            matches!(*shape, [x, _] if x == width),
            "expected `from` of the shape [{width}, ..], found {shape:?}"
        );
    };
}

/// One explicit step of the heat equation on a field with insulated borders; made by [`heat`]. Dimensions:
/// (x: width, y: height).
///
/// to = from + rate * (the four neighbours' sum - 4 from), where a neighbour beyond the border is the cell
/// itself; rate = D dt / h^2. Both arrays have the shape `[width, height]`. If rate is at most [`STABLE`], no
/// value leaves the range of the initial values, up to rounding.
///
/// # Errors
/// A launch beyond the shape of `to` is refused. On the CPU, `from` of another shape fails the launch.
/// Devices leave out rows that are not in both arrays, and all rows if `width` is not that of `to`; the
/// contents of `to` there are unspecified.
#[derive(KernelDefinition)]
#[kernel(name = "flash.diffusion.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1), map = FIELD))]
#[cfg_attr(feature = "implementations", implementations(opencl = "heat.c", name = "any", cooperating; cuda = "heat.c", cooperating, build_options = "--fmad=false"))]
pub struct Heat<'a> {
    /// D dt / h^2.
    rate: f32,
    /// Width of the field.
    width: u64,
    /// Height of the field.
    height: u64,
    /// The field before.
    from: Window<'a, Read<f32>>,
    /// The field after.
    to: Item<'a, Write<f32>>,
}

/// The largest rate of [`Heat`] at which it is stable.
pub const STABLE: f32 = 0.25;

/// [`Walk`] on a grid of `grid` x `grid` cells with circles of this radius. The number of iterations follows
/// from the lengths of `moves` (along x, along y) and `cell`; launch it over `cell.len()` particles.
///
/// # Errors
/// [`Error::Shape`] if the grid has no cell or more than [`LARGEST_GRID`] along a side, or if the lengths and
/// the shape of `track` are not those that [`Walk`] names.
pub fn walk<'a>(
    grid: u32,
    radius: f32,
    moves: [&'a FlashMemory<f32>; 2],
    position: [&'a FlashMemory<f32>; 2],
    cell: &'a FlashMemory<u32>,
    track: &'a FlashMemory<u32>,
) -> Result<Walk<'a>, Error> {
    if !(1..=LARGEST_GRID).contains(&grid) {
        return wrong(format!("expected a grid of 1 to {LARGEST_GRID} cells along a side, found {grid}"));
    }
    let (n, [rx, ry], [x, y]) = (cell.len(), moves.map(FlashMemory::len), position.map(FlashMemory::len));
    if x != n || y != n {
        return wrong(format!("expected x, y and cell of one length, found {x}, {y} and {n}"));
    }
    if rx != ry || (n == 0 && rx > 0) || !rx.is_multiple_of(n.max(1)) {
        return wrong(format!("expected rx and ry of iterations x {n} particles, found {rx} and {ry}"));
    }
    let iterations = (rx / n.max(1)) as u64;
    let fits = |shape: &[u64]| shape.len() == 2 && shape[0] > iterations && shape[1] == n as u64;
    if !fits(track.shape()) {
        return wrong(format!(
            "expected a track of the shape [l, {n}], l above {iterations} iterations, found {:?}",
            track.shape()
        ));
    }
    let ([rx, ry], [x, y]) = (moves, position);
    Ok(Walk::of(grid, reach(radius), iterations, rx, ry, x, y, cell, track))
}

/// [`Count`] of the first `iterations` of a track; launch it over ([`stretches`] of them, particles).
///
/// # Errors
/// [`Error::Shape`] if `track` has not two dimensions, the first above `iterations`, or `counts` is not three
/// planes.
pub fn count<'a>(
    iterations: usize,
    track: &'a FlashMemory<u32>,
    counts: &'a FlashMemory<u64>,
) -> Result<Count<'a>, Error> {
    let iterations = iterations as u64;
    if !matches!(track.shape(), [l, _] if *l > iterations) {
        return wrong(format!(
            "expected a track of the shape [l, particles], l above {iterations} iterations, found {:?}",
            track.shape()
        ));
    }
    if !counts.len().is_multiple_of(3) {
        return wrong(format!(
            "expected counts of three planes of one size, found {} elements",
            counts.len()
        ));
    }
    Ok(Count::of(iterations, track, counts))
}

/// The extent of [`Count`]'s first dimension for this number of iterations.
pub fn stretches(iterations: usize) -> usize {
    iterations.div_ceil(STRETCH)
}

/// [`Heat`]; launch it over the fields' shape.
///
/// # Errors
/// [`Error::Shape`] if the fields do not have one shape of two dimensions.
pub fn heat<'a>(rate: f32, from: &'a FlashMemory<f32>, to: &'a FlashMemory<f32>) -> Result<Heat<'a>, Error> {
    match (from.shape(), to.shape()) {
        (&[width, height], other) if *other == [width, height] => Ok(Heat::of(rate, width, height, from, to)),
        (from, to) => {
            wrong(format!("expected two fields of one shape [width, height], found {from:?} and {to:?}"))
        }
    }
}

fn wrong<T>(text: String) -> Result<T, Error> {
    Err(Error::Shape(text))
}
