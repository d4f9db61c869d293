//! The sweeps as tasks: one for each step and block of points, ordered by the points that they read and
//! write. Tasks of different steps run at the same time, and no thread waits at the end of a step.
//!
//! Along z, a block of step s + 1 begins two planes before that of step s. So a block may go on to the next
//! step when the blocks before it have, without the one behind it: its points are still in the cache. After
//! some steps (a *pass*) blocks begin where they did.

use crate::cube::{COLD, HOT, REACH, start};
use flash::kernels::simd::Number;
use flash::kernels::star::{Around, row, thirteenth};
use flash_tasks::{Datum, TaskError, TaskGraph};
use std::ops::Range;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Points of one plane and one block, row by row. A task reads or writes pieces.
struct Piece<T> {
    /// They begin with a line of the cache: so do all rows then, if their length allows it.
    first: usize,
    memory: Vec<T>,
}

impl<T: Number> Piece<T> {
    fn new(points: impl Iterator<Item = T>) -> Self {
        let points: Vec<T> = points.collect();
        let mut memory = vec![T::ZERO; points.len() + LINE / size_of::<T>()];
        let first = memory.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
        memory[first..][..points.len()].copy_from_slice(&points);
        memory.truncate(first + points.len());
        Self { first, memory }
    }

    fn points(&self) -> &[T] {
        &self.memory[self.first..]
    }

    fn points_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.first..]
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// A cube of points in blocks, twice: each step reads one array and writes the other.
pub struct Blocks<T> {
    size: usize,
    /// Where blocks begin along x, y and z, and the end.
    cuts: [Vec<usize>; 3],
    /// Steps of a pass.
    depth: usize,
    arrays: [Vec<RwLock<Piece<T>>>; 2],
    /// Rows of the wall, as long as any.
    hot: Vec<T>,
    cold: Vec<T>,
}

/// Iterations as graphs that are built once: one that is run again and again, and one for what is left. They
/// begin with the first array.
pub struct Sweeps<'a> {
    iterations: usize,
    /// Of a run of `kept`: an even number, after which the points are in the array where they were.
    steps: usize,
    kept: TaskGraph<'a>,
    rest: TaskGraph<'a>,
}

impl Sweeps<'_> {
    /// Runs all iterations. `done` is told how many are done, now and then.
    ///
    /// # Errors
    /// If a task panics.
    pub fn run(&mut self, mut done: impl FnMut(usize)) -> Result<(), TaskError> {
        for run in 1..=self.iterations.checked_div(self.steps).unwrap_or(0) {
            self.kept.run()?;
            done(run * self.steps);
        }
        self.rest.run()?;
        done(self.iterations);
        Ok(())
    }
}

/// A piece that is there, or the wall.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    points: Option<&'a [T]>,
    wall: &'a [T],
}

impl<'a, T> Rows<'a, T> {
    /// The row number `y` of `width` points.
    fn row(self, y: usize, width: usize) -> &'a [T] {
        self.points.map_or(&self.wall[..width], |points| &points[y * width..][..width])
    }
}

impl<T: Number> Blocks<T> {
    /// The cube at its start, in this many blocks along x, y and z. Passes have `depth` steps.
    ///
    /// # Panics
    /// If one of several blocks has fewer than two points along an axis, or `depth` is 0.
    pub fn new(size: usize, blocks: [usize; 3], depth: usize) -> Self {
        assert!(depth > 0, "a pass has a step");
        let cuts = blocks.map(|count| {
            assert!(
                count == 1 || (count > 0 && size / count >= REACH),
                "expected blocks of at least {REACH} points, found {count} blocks along {size}"
            );
            (0..=count).map(|block| block * size / count).collect::<Vec<_>>()
        });
        let array = || {
            let mut pieces = Vec::new();
            for z in 0..size {
                for ys in cuts[1].windows(2) {
                    for xs in cuts[0].windows(2) {
                        let points = (ys[0]..ys[1]).flat_map(|y| (xs[0]..xs[1]).map(move |x| start(x, y, z)));
                        pieces.push(RwLock::new(Piece::new(points)));
                    }
                }
            }
            pieces
        };
        let arrays = [array(), array()];
        let [hot, cold] = [HOT, COLD].map(|wall| vec![T::nearest(wall); size.max(REACH)]);
        Self { size, cuts, depth, arrays, hot, cold }
    }

    /// Blocks along an axis.
    fn blocks(&self, axis: usize) -> usize {
        self.cuts[axis].len() - 1
    }

    /// The number of a piece in its array.
    fn piece(&self, z: usize, by: usize, bx: usize) -> usize {
        (z * self.blocks(1) + by) * self.blocks(0) + bx
    }

    /// The planes of block `bz` in a step of a pass.
    fn planes(&self, bz: usize, step: usize) -> Range<usize> {
        let cut = |at: usize| match self.cuts[2][at] {
            end if at == self.blocks(2) => end,
            begin => begin.saturating_sub(REACH * step),
        };
        cut(bz)..cut(bz + 1)
    }

    /// The pieces beside those of a block in `planes`, by their numbers: the same block in the planes before
    /// and behind, and the blocks before and behind along y and x.
    fn beside(&self, planes: &Range<usize>, [by, bx]: [usize; 2]) -> Vec<usize> {
        let more = planes.start.saturating_sub(REACH)..(planes.end + REACH).min(self.size);
        let mut beside: Vec<_> = more.map(|z| self.piece(z, by, bx)).collect();
        for z in planes.clone() {
            let y = [by.checked_sub(1), Some(by + 1).filter(|&by| by < self.blocks(1))];
            let x = [bx.checked_sub(1), Some(bx + 1).filter(|&bx| bx < self.blocks(0))];
            beside.extend(y.into_iter().flatten().map(|by| self.piece(z, by, bx)));
            beside.extend(x.into_iter().flatten().map(|bx| self.piece(z, by, bx)));
        }
        beside
    }

    /// The tasks of some iterations. Afterwards the points are in the array `iterations % 2`.
    pub fn sweeps(&self, iterations: usize) -> Sweeps<'_> {
        let steps = (2 * self.depth).min(iterations & !1);
        let rest = iterations.checked_rem(steps).unwrap_or(iterations);
        Sweeps { iterations, steps, kept: self.graph(steps), rest: self.graph(rest) }
    }

    /// The tasks of `steps` steps, from the first array to the second, and so on.
    fn graph(&self, steps: usize) -> TaskGraph<'_> {
        let mut graph = TaskGraph::new();
        let data = [(); 2].map(|()| self.arrays[0].iter().map(|_| graph.datum()).collect::<Vec<Datum>>());
        let all = |array: usize, pieces: &[usize]| -> Vec<Datum> {
            pieces.iter().map(|&piece| data[array][piece]).collect()
        };
        for pass in (0..steps).step_by(self.depth) {
            for bz in 0..self.blocks(2) {
                for step in 0..self.depth.min(steps - pass) {
                    let (from, planes) = ((pass + step) % 2, self.planes(bz, step));
                    if planes.is_empty() {
                        continue;
                    }
                    for by in 0..self.blocks(1) {
                        for bx in 0..self.blocks(0) {
                            let own: Vec<_> = planes.clone().map(|z| self.piece(z, by, bx)).collect();
                            let reads = all(from, &self.beside(&planes, [by, bx]));
                            let planes = planes.clone();
                            let task = graph.task(&reads, &all(1 - from, &own), move || {
                                self.sweep(from, planes.clone(), [by, bx]);
                            });
                            graph.name(task, format!("block {bx}, {by}, {bz}"));
                        }
                    }
                }
            }
        }
        graph
    }

    /// One step of a block's points in `planes`.
    fn sweep(&self, from: usize, planes: Range<usize>, [by, bx]: [usize; 2]) {
        const FREE: &str = "tasks are ordered by the pieces that they read and write";
        let read = |z: Option<usize>, by: Option<usize>, bx: Option<usize>| {
            let (z, by, bx) = (z.filter(|&z| z < self.size)?, by?, bx?);
            if by >= self.blocks(1) || bx >= self.blocks(0) {
                return None;
            }
            let piece: RwLockReadGuard<'_, Piece<T>> =
                self.arrays[from][self.piece(z, by, bx)].try_read().expect(FREE);
            Some(piece)
        };
        let widths =
            [0, 1].map(|axis| self.cuts[axis].windows(2).map(|cut| cut[1] - cut[0]).collect::<Vec<_>>());
        let (width, height) = (widths[0][bx], widths[1][by]);
        // The pieces of this block, from two planes before to two planes behind.
        let column: Vec<_> = (planes.start..planes.end + 2 * REACH)
            .map(|z| read(z.checked_sub(REACH), Some(by), Some(bx)))
            .collect();
        let scale = thirteenth();
        for (at, z) in planes.enumerate() {
            let guards = [
                read(Some(z), by.checked_sub(1), Some(bx)),
                read(Some(z), Some(by + 1), Some(bx)),
                read(Some(z), Some(by), bx.checked_sub(1)),
                read(Some(z), Some(by), Some(bx + 1)),
            ];
            let [above, below, left, right] = guards
                .each_ref()
                .map(|guard| Rows { points: guard.as_ref().map(|guard| guard.points()), wall: &self.cold });
            let plane = |at: usize, z: usize| {
                let wall = if z < REACH { &self.hot } else { &self.cold };
                Rows { points: column[at].as_ref().map(|guard| guard.points()), wall }
            };
            let [z2, z1, own, z3, z4] = [0, 1, 2, 3, 4].map(|by| plane(at + by, z + by));
            let height_above = by.checked_sub(1).map_or(REACH, |by| widths[1][by]);
            let width_left = bx.checked_sub(1).map_or(REACH, |bx| widths[0][bx]);
            let width_right = widths[0].get(bx + 1).copied().unwrap_or(REACH);
            let mut to: RwLockWriteGuard<'_, Piece<T>> =
                self.arrays[1 - from][self.piece(z, by, bx)].try_write().expect(FREE);
            for (y, to) in to.points_mut().chunks_mut(width).enumerate() {
                // The row `y - REACH + at` of this block, or of those above and below.
                let of = |at: usize| match (y + at).checked_sub(REACH) {
                    None => above.row(height_above + y + at - REACH, width),
                    Some(y) if y >= height => below.row(y - height, width),
                    Some(y) => own.row(y, width),
                };
                let (before, behind) = (left.row(y, width_left), right.row(y, width_right));
                let around = Around {
                    before: [before[before.len() - 2], before[before.len() - 1]],
                    middle: own.row(y, width),
                    behind: [behind[0], behind[1]],
                    y: [of(0), of(1), of(3), of(4)],
                    z: [z2, z1, z3, z4].map(|plane| plane.row(y, width)),
                };
                row(scale, &around, to);
            }
        }
    }

    /// The points of an array.
    ///
    /// # Panics
    /// If a task of a graph has panicked.
    pub fn points(&self, array: usize) -> Vec<T> {
        let n = self.size;
        let mut points = vec![T::ZERO; n * n * n];
        for z in 0..n {
            for (by, ys) in self.cuts[1].windows(2).enumerate() {
                for (bx, xs) in self.cuts[0].windows(2).enumerate() {
                    let piece = self.arrays[array][self.piece(z, by, bx)].read().expect("no task panicked");
                    for (row, y) in piece.points().chunks(xs[1] - xs[0]).zip(ys[0]..ys[1]) {
                        points[(z * n + y) * n..][xs[0]..xs[1]].copy_from_slice(row);
                    }
                }
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cube::one_loop;

    fn check<T: Number>(size: usize, blocks: [usize; 3], depth: usize, iterations: usize) {
        let cube = Blocks::<T>::new(size, blocks, depth);
        let mut told = Vec::new();
        cube.sweeps(iterations).run(|done| told.push(done)).expect("no task panics");
        let same = cube.points(iterations % 2) == one_loop::<T>(size, iterations);
        assert!(
            same,
            "{size} in {blocks:?}, depth {depth}, {iterations} iterations: other bits than one loop"
        );
        assert!(told.is_sorted() && told.last() == Some(&iterations), "{told:?}");
    }

    #[test]
    fn blocks_of_any_number_give_the_bits_of_one_loop() {
        for blocks in [[1, 1, 1], [1, 1, 7], [2, 3, 4], [5, 1, 2], [1, 7, 1], [7, 7, 7]] {
            for (depth, iterations) in [(1, 5), (2, 11), (5, 0), (5, 1), (5, 23), (20, 11)] {
                check::<f32>(15, blocks, depth, iterations);
                check::<f64>(15, blocks, depth, iterations);
            }
        }
        check::<f32>(1, [1, 1, 1], 3, 5);
        check::<f32>(3, [1, 1, 1], 2, 4);
        check::<f64>(33, [2, 2, 16], 4, 9);
    }

    #[test]
    fn kept_sweeps_go_on_where_they_ended() {
        let cube = Blocks::<f64>::new(12, [1, 2, 3], 2);
        let mut sweeps = cube.sweeps(6);
        for runs in 1..=3 {
            sweeps.run(|_| ()).expect("no task panics");
            assert!(cube.points(0) == one_loop::<f64>(12, 6 * runs), "after {runs} runs");
        }
    }

    #[test]
    fn each_step_covers_all_planes_once() {
        for (size, count, depth) in [(15, 4, 6), (15, 7, 3), (8, 1, 9), (64, 8, 8)] {
            let cube = Blocks::<f32>::new(size, [1, 1, count], depth);
            for step in 0..depth {
                let planes: Vec<_> = (0..count).flat_map(|block| cube.planes(block, step)).collect();
                assert!(planes.into_iter().eq(0..size), "{size} in {count}, step {step}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "expected blocks of at least 2 points, found 8 blocks along 15")]
    fn blocks_that_are_too_thin_are_refused() {
        Blocks::<f32>::new(15, [1, 8, 1], 1);
    }
}
