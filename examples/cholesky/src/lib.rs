//! The Cholesky factorisation of a matrix of tiles, as a dataflow graph.
//!
//! A node for each kernel, and a [`Ledger`](ledger) that knows which tile can have which step next. All steps
//! of a tile are taken one after the other, in a fixed order, so the bits of the factor depend on the size of
//! the tiles and on the implementations, and on nothing else.
//!
//! Why a graph of four nodes and not a task for each step: a step is asked for when it can run, so nothing is
//! built for those of later columns, a picture shows the four kernels with their counts and times, and
//! the most urgent step is the next one.

mod ledger;

use flash::kernels::gemm::Gemm;
use flash::kernels::potrf::{Potrf, check};
use flash::kernels::simd::Number;
use flash::kernels::syrk::Syrk;
use flash::kernels::trsm::Trsm;
use flash::prelude::*;
use flash::{Error, OnCaller};
use flash_graph::{Graph, GraphError, Output, Run, devices_of};
use ledger::{Ledger, Step, Tile};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most tiles along a row.
pub const MOST_TILES: usize = 4096;

/// Why there is no factor.
#[derive(Debug)]
pub enum Failed {
    /// The matrix is not positive definite: this pivot, counted from 0, is not positive.
    Pivot(usize),
    /// Something else.
    Graph(GraphError),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Pivot(row) => write!(
                f,
                "expected a positive definite matrix, found that the pivot in row {row}, counted from 0, is not positive: check the matrix, or add something to its diagonal"
            ),
            Failed::Graph(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failed {}

/// Factorisations of matrices of one size. Memory for tiles is kept from one to the next.
pub struct Cholesky<T> {
    n: usize,
    edge: usize,
    /// Of one device each.
    runtimes: Vec<RuntimeObj>,
    /// Rows of tiles of the lower triangle.
    tiles: Arc<Vec<Vec<FlashMemory<T>>>>,
    replicas: Option<usize>,
}

impl<T: Number> Cholesky<T> {
    /// Of matrices of `n` rows in tiles of `edge` rows, which are at most [`MOST_TILES`] and at least 1. As
    /// many steps run at the same time as there are `replicas`, or as suit the devices.
    ///
    /// # Errors
    /// If there is no memory for the tiles.
    pub fn new(
        rt: &RuntimeObj,
        n: usize,
        edge: usize,
        replicas: Option<usize>,
    ) -> Result<Cholesky<T>, Error> {
        let edge = edge.min(n);
        let len = |tile: usize| edge.min(n - tile * edge);
        let row = |i: usize| (0..=i).map(|j| FlashMemory::try_zeroed([len(j), len(i)])).collect();
        let tiles = (0..n.div_ceil(edge)).map(row).collect::<Result<Vec<_>, Error>>()?;
        // Launches are pieces of parallel work already.
        let runtimes = devices_of(&rt.options(OnCaller));
        Ok(Cholesky { n, edge, runtimes, tiles: Arc::new(tiles), replicas })
    }

    /// The tiles of the lower triangle.
    pub fn count(&self) -> usize {
        self.tiles.iter().map(Vec::len).sum()
    }

    /// The lower triangle of `a`, of the shape `[n, n]`, becomes its factor. `watch` gets the run, and an
    /// output with a datum for each tile that is done.
    ///
    /// # Errors
    /// If the matrix is not positive definite, and those of the devices; the lower triangle is unspecified
    /// then.
    pub fn run(&self, a: &FlashMemory<T>, watch: impl FnOnce(&Run, &Output<()>)) -> Result<(), Failed> {
        let pivot = Arc::new(AtomicUsize::new(0));
        let (g, done) = self.graph(a, &pivot);
        let run = g.start().map_err(Failed::Graph)?;
        watch(&run, &done);
        run.wait().map_err(|error| match row_of_pivot(&error) {
            Some(row) => Failed::Pivot(pivot.load(Ordering::Relaxed) * self.edge + row),
            None => Failed::Graph(error),
        })
    }

    /// `pivot` gets the number of the tile that is factorised: there is one at a time.
    fn graph(&self, a: &FlashMemory<T>, pivot: &Arc<AtomicUsize>) -> (Graph, Output<()>) {
        let g = Graph::new("cholesky");
        let done = g.output("done");
        let devices = || self.runtimes.iter().map(|rt| rt.devices()[0].info());
        let suits = devices().map(|info| if info.runs_functions { info.threads.max(1) as usize } else { 4 });
        let at_once = self.replicas.unwrap_or_else(|| suits.sum());
        let rows = self.tiles.len();

        let columns = (0..rows).flat_map(move |j| (j..rows).map(move |i| [i, j]));
        let all = g.source("tiles", columns);
        let (of, tiles) = (a.clone(), self.tiles(0));
        let load = g.launch("load", at_once, move |&tile: &Tile| Ok(tiles.load(&of, tile)));
        g.edge(&all.out, &load);
        let ledger = g.node("ledger", move |_| Ledger::new(rows)).unbounded().priority(1);
        g.edge(&load.out, &ledger);

        // The more steps wait for one, the more urgent it is.
        let (tiles, number) = (self.tiles(3), pivot.clone());
        let factor = g.launch("factor", 1, move |&step: &Step| {
            number.store(step.tile()[0], Ordering::Relaxed);
            Ok(tiles.step(step)?)
        });
        let tiles = self.tiles(2);
        let solve = g.launch("solve", at_once, move |&step: &Step| Ok(tiles.step(step)?));
        let tiles = self.tiles(1);
        let update = g.launch("update", at_once, move |&step: &Step| Ok(tiles.step(step)?));
        let update = update.by_priority(|step: &Step| -(step.tile()[1] as i64)).unbounded();
        let (factor, solve) = (factor.priority(3), solve.priority(2));
        g.edge(&ledger.out.0, &factor);
        g.edge(&ledger.out.1, &solve);
        g.edge(&ledger.out.2, &update);
        g.edge(&solve.out, &ledger);
        g.edge(&update.out, &ledger);
        if devices().all(|info| info.runs_functions) {
            g.edge(&factor.out, &ledger);
        } else {
            // Other devices cannot tell.
            let tiles = self.tiles.clone();
            let checked = g.try_map("check pivots", move |step: Step| {
                check(&tiles[step.tile()[0]][step.tile()[0]])?;
                Ok(step)
            });
            g.edge(&factor.out, &checked);
            g.edge(&checked.out, &ledger);
        }

        let (of, tiles) = (a.clone(), self.tiles(0));
        let store = g.launch("store", at_once, move |&tile: &Tile| Ok(tiles.store(&of, tile)));
        g.edge(&ledger.out.3, &store);
        let stored = g.map("stored", |_: Tile| ());
        g.edge(&store.out, &stored);
        g.edge(&stored.out, &done);
        (g, done)
    }

    /// For launches of a priority.
    fn tiles(&self, priority: i32) -> Tiles<T> {
        Tiles {
            n: self.n,
            edge: self.edge,
            tiles: self.tiles.clone(),
            runtimes: self.runtimes.iter().map(|rt| rt.options(Priority(priority))).collect(),
        }
    }
}

/// What launches need to know.
#[derive(Clone)]
struct Tiles<T> {
    n: usize,
    edge: usize,
    tiles: Arc<Vec<Vec<FlashMemory<T>>>>,
    /// Of one device each.
    runtimes: Vec<RuntimeObj>,
}

impl<T: Number> Tiles<T> {
    /// Elements of a row of tiles, or of a column.
    fn along(&self, tile: usize) -> Range<u64> {
        (tile * self.edge) as u64..((tile + 1) * self.edge).min(self.n) as u64
    }

    fn len(&self, tile: usize) -> u64 {
        self.along(tile).end - self.along(tile).start
    }

    fn of(&self, [i, j]: Tile) -> FlashMemory<T> {
        self.tiles[i][j].clone()
    }

    /// Rows of tiles go round the devices.
    fn runtime(&self, [i, _]: Tile) -> &RuntimeObj {
        &self.runtimes[i % self.runtimes.len()]
    }

    /// From the matrix, and back to it.
    fn load(&self, a: &FlashMemory<T>, tile: Tile) -> Pipeline<'static> {
        let pipeline = self.runtime(tile).pipeline();
        pipeline.copy_box(a.clone(), self.in_matrix(tile), self.of(tile), self.whole(tile))
    }

    fn store(&self, a: &FlashMemory<T>, tile: Tile) -> Pipeline<'static> {
        let pipeline = self.runtime(tile).pipeline();
        pipeline.copy_box(self.of(tile), self.whole(tile), a.clone(), self.in_matrix(tile))
    }

    fn in_matrix(&self, [i, j]: Tile) -> [Range<u64>; 2] {
        [self.along(j), self.along(i)]
    }

    fn whole(&self, [i, j]: Tile) -> [Range<u64>; 2] {
        [0..self.len(j), 0..self.len(i)]
    }

    fn step(&self, step: Step) -> Result<Pipeline<'static>, Error> {
        let (rt, [i, j]) = (self.runtime(step.tile()), step.tile());
        let (minus, c, rows, columns) = (T::ZERO - T::ONE, self.of([i, j]), self.len(i), self.len(j));
        Ok(match step {
            // One item has all of it.
            Step::Factor(_) => rt.submit(Potrf::of(rows, rows, c.into_range(..)?)).defer([1usize]),
            Step::Solve(_) => {
                let l = self.of([j, j]);
                // x * l^T = c
                rt.submit(Trsm::of(T::ONE, columns, columns, 1, 1, 0, columns, columns, l, c)).defer([rows])
            }
            Step::Update { by, .. } if i == j => {
                let (a, k) = (self.of([i, by]), self.len(by));
                rt.submit(Syrk::of(minus, T::ONE, k, 0, k, columns, a, c)).defer([rows])
            }
            Step::Update { by, .. } => {
                let (a, b, k) = (self.of([i, by]), self.of([j, by]), self.len(by));
                rt.submit(Gemm::of(minus, T::ONE, columns, k, 0, 1, k, k, columns, a, b, c)).defer([rows])
            }
        })
    }
}

/// The row of a pivot in its tile, if it was what ended a graph.
fn row_of_pivot(error: &GraphError) -> Option<usize> {
    let GraphError::Failed { text, .. } = error else { return None };
    // As the kernel says it: "found the pivot -1e0 in row 3 of 64".
    let (_, after) = text.split_once("found the pivot ")?;
    let (_, after) = after.split_once(" in row ")?;
    after.split(' ').next()?.parse().ok()
}
