//! A Cholesky factorisation by tiles, as one pipeline: what scheduling a task costs.
//!
//! The tiles are so small that the kernels take next to nothing, and each is a memory of its own, so that
//! almost all dependencies that a factorisation of this many tiles can have are there.

use flash::kernel::views::{Item, Read, ReadWrite, Row};
use flash::kernel::{CpuItem, Index};
use flash::{Error, FlashMemory, KernelDefinition, Pipeline, RuntimeObj, kernel};

/// Rows and columns of a tile.
const EDGE: usize = 8;
/// Elements of a tile, by columns.
const TILE: usize = EDGE * EDGE;

/// A tile on the diagonal becomes its own Cholesky factor.
#[derive(KernelDefinition)]
#[kernel(name = "bench.potrf", dims(i))]
struct Potrf<'a> {
    a: Item<'a, ReadWrite<Row<f64>>>,
}

/// A tile below it is multiplied by the inverse of the transposed factor.
#[derive(KernelDefinition)]
#[kernel(name = "bench.trsm", dims(i))]
struct Trsm<'a> {
    l: Item<'a, Read<Row<f64>>>,
    b: Item<'a, ReadWrite<Row<f64>>>,
}

/// c = c - a aT, on the diagonal.
#[derive(KernelDefinition)]
#[kernel(name = "bench.syrk", dims(i))]
struct Syrk<'a> {
    a: Item<'a, Read<Row<f64>>>,
    c: Item<'a, ReadWrite<Row<f64>>>,
}

/// c = c - a bT.
#[derive(KernelDefinition)]
#[kernel(name = "bench.gemm", dims(i))]
struct Gemm<'a> {
    a: Item<'a, Read<Row<f64>>>,
    b: Item<'a, Read<Row<f64>>>,
    c: Item<'a, ReadWrite<Row<f64>>>,
}

struct Tiles;

#[kernel]
impl CpuItem<Potrf<'_>> for Tiles {
    fn item(_: Index<1>, k: PotrfItem<'_>) {
        potrf(k.a);
    }
}

#[kernel]
impl CpuItem<Trsm<'_>> for Tiles {
    fn item(_: Index<1>, k: TrsmItem<'_>) {
        trsm(k.l, k.b);
    }
}

#[kernel]
impl CpuItem<Syrk<'_>> for Tiles {
    fn item(_: Index<1>, k: SyrkItem<'_>) {
        gemm(k.a, k.a, k.c);
    }
}

#[kernel]
impl CpuItem<Gemm<'_>> for Tiles {
    fn item(_: Index<1>, k: GemmItem<'_>) {
        gemm(k.a, k.b, k.c);
    }
}

/// A tile, whose length the compiler then knows.
fn tile(elements: &[f64]) -> &[f64; TILE] {
    elements.try_into().expect("a tile")
}

fn tile_mut(elements: &mut [f64]) -> &mut [f64; TILE] {
    elements.try_into().expect("a tile")
}

fn potrf(a: &mut [f64]) {
    factor(tile_mut(a), EDGE);
}

/// The factor of a matrix of `n` rows, by columns, in its lower triangle.
fn factor(a: &mut [f64], n: usize) {
    for k in 0..n {
        let root = a[k + n * k].sqrt();
        a[k + n * k] = root;
        for i in k + 1..n {
            a[i + n * k] /= root;
        }
        for j in k + 1..n {
            let by = a[j + n * k];
            for i in j..n {
                a[i + n * j] -= a[i + n * k] * by;
            }
        }
    }
}

fn trsm(l: &[f64], b: &mut [f64]) {
    let (l, b) = (tile(l), tile_mut(b));
    for k in 0..EDGE {
        for i in 0..EDGE {
            b[i + EDGE * k] /= l[k + EDGE * k];
        }
        for j in k + 1..EDGE {
            for i in 0..EDGE {
                b[i + EDGE * j] -= b[i + EDGE * k] * l[j + EDGE * k];
            }
        }
    }
}

fn gemm(a: &[f64], b: &[f64], c: &mut [f64]) {
    let (a, b, c) = (tile(a), tile(b), tile_mut(c));
    for k in 0..EDGE {
        for j in 0..EDGE {
            for i in 0..EDGE {
                c[i + EDGE * j] -= a[i + EDGE * k] * b[j + EDGE * k];
            }
        }
    }
}

/// A step of the factorisation, with the numbers of the tiles that it reads and of the one that it writes.
#[derive(Clone, Copy)]
enum Step {
    Potrf(usize),
    Trsm(usize, usize),
    Syrk(usize, usize),
    Gemm(usize, usize, usize),
}

/// The steps of a factorisation of `tiles` by `tiles` tiles.
fn steps(tiles: usize) -> impl Iterator<Item = Step> {
    (0..tiles).flat_map(move |k| {
        let panel = (k + 1..tiles).map(move |i| Step::Trsm(at(k, k), at(i, k)));
        let rest = (k + 1..tiles).flat_map(move |j| {
            let diagonal = Step::Syrk(at(j, k), at(j, j));
            let below = (j + 1..tiles).map(move |i| Step::Gemm(at(i, k), at(j, k), at(i, j)));
            std::iter::once(diagonal).chain(below)
        });
        std::iter::once(Step::Potrf(at(k, k))).chain(panel).chain(rest)
    })
}

/// Number of the tile in row `i` and column `j` of the lower triangle.
fn at(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// A symmetric matrix that has a factor, as tiles of its lower triangle.
pub struct Matrix {
    tiles: usize,
    initial: Vec<[f64; TILE]>,
    memories: Vec<FlashMemory<f64>>,
    /// What the direct calls work on.
    direct: Vec<[f64; TILE]>,
}

impl Matrix {
    pub fn new(tiles: usize) -> Matrix {
        let n = tiles * EDGE;
        let mut initial = vec![[0.0; TILE]; at(tiles, 0)];
        for j in 0..n {
            for i in j..n {
                let value = element(i, j, n);
                let (row, column) = (i / EDGE, j / EDGE);
                initial[at(row, column)][i % EDGE + EDGE * (j % EDGE)] = value;
                if row == column {
                    initial[at(row, column)][j % EDGE + EDGE * (i % EDGE)] = value;
                }
            }
        }
        let memories = initial.iter().map(|tile| FlashMemory::from(tile.to_vec())).collect();
        let direct = initial.clone();
        Matrix { tiles, initial, memories, direct }
    }

    /// Number of tasks of a factorisation.
    pub fn tasks(&self) -> usize {
        steps(self.tiles).count()
    }

    /// As it was before it was factorised.
    pub fn reset(&mut self) -> Result<(), Error> {
        for (memory, tile) in self.memories.iter().zip(&self.initial) {
            memory.write()?.copy_from_slice(tile);
        }
        self.direct.copy_from_slice(&self.initial);
        Ok(())
    }

    /// The factorisation as a pipeline.
    pub fn pipeline<'a>(&'a self, rt: &RuntimeObj) -> Pipeline<'a> {
        let m = |tile: usize| &self.memories[tile];
        steps(self.tiles).fold(rt.pipeline(), |p, step| match step {
            Step::Potrf(a) => p.submit(Potrf::of(m(a))).defer([1usize]),
            Step::Trsm(l, b) => p.submit(Trsm::of(m(l), m(b))).defer([1usize]),
            Step::Syrk(a, c) => p.submit(Syrk::of(m(a), m(c))).defer([1usize]),
            Step::Gemm(a, b, c) => p.submit(Gemm::of(m(a), m(b), m(c))).defer([1usize]),
        })
    }

    /// The same kernels, called one after another.
    pub fn call(&mut self) {
        let tiles = &mut self.direct;
        for step in steps(self.tiles) {
            match step {
                Step::Potrf(a) => potrf(&mut tiles[a]),
                Step::Trsm(l, b) => {
                    let l = tiles[l];
                    trsm(&l, &mut tiles[b]);
                }
                Step::Syrk(a, c) => {
                    let a = tiles[a];
                    gemm(&a, &a, &mut tiles[c]);
                }
                Step::Gemm(a, b, c) => {
                    let (a, b) = (tiles[a], tiles[b]);
                    gemm(&a, &b, &mut tiles[c]);
                }
            }
        }
    }

    /// The largest difference between what the pipeline made and the factor of the whole matrix.
    pub fn error(&self) -> Result<f64, Error> {
        let n = self.tiles * EDGE;
        let mut whole = vec![0.0; n * n];
        for j in 0..n {
            for i in j..n {
                whole[i + n * j] = element(i, j, n);
            }
        }
        factor(&mut whole, n);
        let mut worst = 0.0f64;
        for row in 0..self.tiles {
            for column in 0..=row {
                let tile = self.memories[at(row, column)].read()?;
                for (e, value) in tile.iter().enumerate() {
                    let (i, j) = (row * EDGE + e % EDGE, column * EDGE + e / EDGE);
                    if i >= j {
                        // Not `max`, which takes a number before one that is none.
                        let difference = (value - whole[i + n * j]).abs();
                        worst = if difference > worst || difference.is_nan() { difference } else { worst };
                    }
                }
            }
        }
        Ok(worst)
    }
}

/// An element of a matrix of `n` rows: something below 1, and more than the rest of its row on the diagonal.
fn element(i: usize, j: usize, n: usize) -> f64 {
    let off = ((i * 31 + j * 17) % 97) as f64 / 97.0;
    if i == j { n as f64 + off } else { off }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::get_runtime;

    #[test]
    fn a_factorisation_has_as_many_tasks_as_one_counts() {
        let count = |which: fn(&Step) -> bool| steps(64).filter(which).count();
        assert_eq!(count(|s| matches!(s, Step::Potrf(_))), 64);
        assert_eq!(count(|s| matches!(s, Step::Trsm(..))), 2_016);
        assert_eq!(count(|s| matches!(s, Step::Syrk(..))), 2_016);
        assert_eq!(count(|s| matches!(s, Step::Gemm(..))), 41_664);
    }

    #[test]
    fn the_pipeline_and_the_calls_make_the_factor() {
        let mut matrix = Matrix::new(6);
        let rt = get_runtime("ALL_CPU").unwrap();
        assert!(matrix.error().unwrap() > 1.0, "it is not factorised yet");
        matrix.pipeline(&rt).exec().unwrap();
        assert!(matrix.error().unwrap() < 1e-12);
        matrix.call();
        for (memory, tile) in matrix.memories.iter().zip(&matrix.direct) {
            assert_eq!(memory.read().unwrap()[..], tile[..]);
        }
        matrix.reset().unwrap();
        assert!(matrix.error().unwrap() > 1.0);
    }
}
