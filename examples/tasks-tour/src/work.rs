//! Numbers, matrices and grids.

use anyhow::{Result, ensure};
use flash_examples::expect;
use flash_tasks::{Scope, TaskError, TaskGraph, scope};
use std::sync::RwLock;

/// Each call is a task, which waits for the two that it spawns.
pub fn fibonacci() -> Result<String> {
    fn fib<'scope>(s: &'scope Scope<'scope, '_>, n: u32) -> Result<u64, TaskError> {
        if n < 2 {
            return Ok(n.into());
        }
        let a = s.spawn(move || fib(s, n - 1));
        let b = s.spawn(move || fib(s, n - 2));
        Ok(a.wait()?? + b.wait()??)
    }
    let number = scope(|s| fib(s, 24))??;
    expect(number, 46_368)?;
    Ok(format!("F(24) = {number}"))
}

/// A square matrix of f64, row by row.
type Matrix = Vec<f64>;

fn matrix(n: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
    (0..n * n).map(|at| f(at / n, at % n)).collect()
}

/// c = a b, a task for each band of rows of c.
pub fn matmul() -> Result<String> {
    const N: usize = 256;
    const ROWS: usize = 32;
    let a = matrix(N, |i, j| ((i * 7 + j * 3) % 11) as f64);
    let b = matrix(N, |i, j| ((i * 5 + j) % 13) as f64);
    let mut c = vec![0.0; N * N];
    scope(|s| {
        for (band, rows) in c.chunks_mut(ROWS * N).enumerate() {
            let (a, b) = (&a, &b);
            drop(s.spawn(move || {
                for (i, row) in rows.chunks_mut(N).enumerate() {
                    for (k, &factor) in a[(band * ROWS + i) * N..][..N].iter().enumerate() {
                        row.iter_mut().zip(&b[k * N..]).for_each(|(c, b)| *c += factor * b);
                    }
                }
            }));
        }
    })?;
    for at in (0..N * N).step_by(1009) {
        let expected: f64 = (0..N).map(|k| a[at / N * N + k] * b[k * N + at % N]).sum();
        expect(c[at], expected)?;
    }
    Ok(format!("{N} x {N}, in {} tasks", N / ROWS))
}

/// Factorises a = l l' by tiles. The graph is built once, and run for two matrices.
pub fn cholesky() -> Result<String> {
    const TILE: usize = 32;
    const TILES: usize = 8;
    const N: usize = TILE * TILES;
    // Symmetric, with a diagonal that outweighs the rest of its row.
    let element = |i: usize, j: usize| if i == j { N as f64 } else { 1.0 / (1.0 + i.abs_diff(j) as f64) };
    let tile = |ti: usize, tj: usize| matrix(TILE, |i, j| element(ti * TILE + i, tj * TILE + j));
    let tiles: Vec<RwLock<Matrix>> =
        (0..TILES * TILES).map(|at| RwLock::new(tile(at / TILES, at % TILES))).collect();
    let read = |i: usize, j: usize| tiles[i * TILES + j].read().expect("no task panics");
    let write = |i: usize, j: usize| tiles[i * TILES + j].write().expect("no task panics");

    let mut graph = TaskGraph::new();
    let data: Vec<_> = (0..TILES * TILES).map(|_| graph.datum()).collect();
    let datum = |i: usize, j: usize| data[i * TILES + j];
    for k in 0..TILES {
        graph.task(&[], &[datum(k, k)], move || potrf(&mut write(k, k), TILE));
        for i in k + 1..TILES {
            let solve = move || trsm(&read(k, k), &mut write(i, k), TILE);
            graph.task(&[datum(k, k)], &[datum(i, k)], solve);
        }
        for i in k + 1..TILES {
            for j in k + 1..=i {
                let update = move || gemm(&read(i, k), &read(j, k), &mut write(i, j), TILE);
                graph.task(&[datum(i, k), datum(j, k)], &[datum(i, j)], update);
            }
        }
    }
    let tasks = graph.len();
    for run in 0..2 {
        if run > 0 {
            (0..TILES * TILES).for_each(|at| *write(at / TILES, at % TILES) = tile(at / TILES, at % TILES));
        }
        graph.run()?;
    }
    // The squares of a row of l add up to an element of a's diagonal.
    for i in (0..N).step_by(17) {
        let row = |k: usize| read(i / TILE, k / TILE)[i % TILE * TILE + k % TILE];
        let sum: f64 = (0..=i).map(|k| row(k) * row(k)).sum();
        ensure!((sum - N as f64).abs() < 1e-9, "row {i} of l has the square {sum}, and a has {N} there");
    }
    Ok(format!("{N} x {N} in tiles of {TILE}: {tasks} tasks, run twice"))
}

/// The lower triangle l of a tile a = l l', in place.
fn potrf(a: &mut [f64], n: usize) {
    for j in 0..n {
        for i in j..n {
            let dot: f64 = (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum();
            let rest = a[i * n + j] - dot;
            a[i * n + j] = if i == j { rest.sqrt() } else { rest / a[j * n + j] };
        }
    }
}

/// Solves x l' = b for x, in place of b.
fn trsm(l: &[f64], b: &mut [f64], n: usize) {
    for row in b.chunks_mut(n) {
        for j in 0..n {
            let dot: f64 = (0..j).map(|k| row[k] * l[j * n + k]).sum();
            row[j] = (row[j] - dot) / l[j * n + j];
        }
    }
}

/// c = c - a b'.
fn gemm(a: &[f64], b: &[f64], c: &mut [f64], n: usize) {
    for i in 0..n {
        for j in 0..n {
            let dot: f64 = a[i * n..][..n].iter().zip(&b[j * n..][..n]).map(|(a, b)| a * b).sum();
            c[i * n + j] -= dot;
        }
    }
}

/// Heat in a cube whose one side is hot: each step a new cube from the one before, in bands, which wait for
/// the bands beside them only. The same as one loop after the other, bit for bit.
pub fn jacobi() -> Result<String> {
    const N: usize = 48;
    const BAND: usize = 8;
    const STEPS: usize = 20;
    let start: Matrix = (0..N * N * N).map(|at| if at < N * N { 100.0 } else { 0.0 }).collect();
    let bands = || start.chunks(BAND * N * N).map(|band| RwLock::new(band.to_vec())).collect::<Vec<_>>();
    let cubes = [bands(), bands()];

    let mut graph = TaskGraph::new();
    let data = [(); 2].map(|()| (0..N / BAND).map(|_| graph.datum()).collect::<Vec<_>>());
    for step in 0..STEPS {
        let (from, to) = (step % 2, (step + 1) % 2);
        for band in 0..N / BAND {
            let near = band.saturating_sub(1)..(band + 2).min(N / BAND);
            let (old, new) = (&cubes[from][near.clone()], &cubes[to][band]);
            graph.task(&data[from][near.clone()], &data[to][band..=band], move || {
                let old: Vec<_> = old.iter().map(|band| band.read().expect("no task panics")).collect();
                let at = |x: usize, yz: usize| old[x / BAND - near.start][x % BAND * N * N + yz];
                step_of(&mut new.write().expect("no task panics"), band * BAND, at);
            });
        }
    }
    graph.run()?;
    drop(graph);

    let mut alone = [start.clone(), start.clone()];
    for step in 0..STEPS {
        let old = std::mem::take(&mut alone[step % 2]);
        step_of(&mut alone[(step + 1) % 2], 0, |x, yz| old[x * N * N + yz]);
        alone[step % 2] = old;
    }
    let together: Matrix =
        cubes[STEPS % 2].iter().flat_map(|band| band.read().expect("no task panics").clone()).collect();
    ensure!(together == alone[STEPS % 2], "the tasks and one loop give different cubes");
    let mean = together.iter().sum::<f64>() / together.len() as f64;
    return Ok(format!("{N}^3, {STEPS} steps in bands of {BAND}: mean {mean:.4}"));

    /// The mean of the six points beside each inner point, for the planes of `new`: the first is plane `x0`.
    fn step_of(new: &mut [f64], x0: usize, old: impl Fn(usize, usize) -> f64) {
        for (dx, plane) in new.chunks_mut(N * N).enumerate() {
            let x = x0 + dx;
            if x == 0 || x == N - 1 {
                continue;
            }
            for y in 1..N - 1 {
                for z in 1..N - 1 {
                    let at = y * N + z;
                    let beside = old(x, at - 1) + old(x, at + 1) + old(x, at - N) + old(x, at + N);
                    plane[at] = (old(x - 1, at) + old(x + 1, at) + beside) / 6.0;
                }
            }
        }
    }
}
