//! Matrices in blocks, which are the data of a graph.

use anyhow::Result;
use flash_examples::expect;
use flash_graph::{Cx, Graph, Out};
use std::sync::Arc;

/// Rows and columns of a matrix, and of a block.
const N: usize = 96;
const BLOCK: usize = 32;
const BLOCKS: usize = N / BLOCK;

/// A square matrix, row by row.
type Matrix = Arc<Vec<f64>>;

/// A block: its row and column among the blocks, and its elements.
struct Block {
    at: [usize; 2],
    elements: Vec<f64>,
}

fn matrix(f: impl Fn(usize, usize) -> usize) -> Matrix {
    Arc::new((0..N * N).map(|at| f(at / N, at % N) as f64).collect())
}

impl Block {
    fn of(matrix: &[f64], at: [usize; 2]) -> Block {
        let rows = (0..BLOCK).flat_map(|row| &matrix[(at[0] * BLOCK + row) * N + at[1] * BLOCK..][..BLOCK]);
        Block { at, elements: rows.copied().collect() }
    }

    fn write(&self, matrix: &mut [f64]) {
        for (row, elements) in self.elements.chunks(BLOCK).enumerate() {
            matrix[(self.at[0] * BLOCK + row) * N + self.at[1] * BLOCK..][..BLOCK].copy_from_slice(elements);
        }
    }
}

/// The blocks of all rows and columns.
fn places() -> impl Iterator<Item = [usize; 2]> {
    (0..BLOCKS * BLOCKS).map(|at| [at / BLOCKS, at % BLOCKS])
}

/// c = a * b, element by element: two matrices become pairs of blocks, the pairs products, and the products a
/// matrix.
pub fn hadamard() -> Result<String> {
    let a = matrix(|i, j| i + j);
    let b = matrix(|i, j| i * j % 7);

    let g = Graph::new("hadamard");
    let (pairs, products) = (g.input::<(Matrix, Matrix)>("matrices"), g.output::<Block>("products"));
    let cut = g.each("cut", |(a, b): (Matrix, Matrix), out: &mut Out<(Block, Block)>, _: &mut Cx<'_>| {
        places().for_each(|at| out.emit((Block::of(&a, at), Block::of(&b, at))));
        Ok(())
    });
    let multiply = g.map("multiply", |(mut a, b): (Block, Block)| {
        a.elements.iter_mut().zip(&b.elements).for_each(|(a, b)| *a *= b);
        a
    });
    let multiply = multiply.replicas(4);
    g.edge(&pairs, &cut);
    g.edge(&cut.out, &multiply);
    g.edge(&multiply.out, &products);

    let run = g.start()?;
    run.push_all(&pairs, [(a.clone(), b.clone())])?;
    run.close();
    let mut c = vec![0.0; N * N];
    run.results(&products).for_each(|block| block.write(&mut c));
    run.wait()?;
    for at in 0..N * N {
        expect(c[at], a[at] * b[at])?;
    }
    Ok(format!("{N} x {N}, in {} blocks", BLOCKS * BLOCKS))
}

/// c = a b. Blocks of a and b are paired by what they have in common, multiplied on replicas, and the partial
/// products of a block of c are added up in one order, when all are there: so the bits do not depend on which
/// comes first.
pub fn product() -> Result<String> {
    struct Partial {
        k: usize,
        block: Block,
    }
    let a = matrix(|i, j| (i * 7 + j * 3) % 11);
    let b = matrix(|i, j| (i * 5 + j) % 13);

    let g = Graph::new("product");
    let (of_a, of_b) = (g.input::<Arc<Block>>("a"), g.input::<Arc<Block>>("b"));
    let blocks_of_c = g.output::<Block>("c");
    // A block of a is needed in each column of c, one of b in each row.
    let columns =
        g.each("columns", |a: Arc<Block>, out: &mut Out<([usize; 3], Arc<Block>)>, _: &mut Cx<'_>| {
            (0..BLOCKS).for_each(|j| out.emit(([a.at[0], j, a.at[1]], a.clone())));
            Ok(())
        });
    let rows = g.each("rows", |b: Arc<Block>, out: &mut Out<([usize; 3], Arc<Block>)>, _: &mut Cx<'_>| {
        (0..BLOCKS).for_each(|i| out.emit(([i, b.at[1], b.at[0]], b.clone())));
        Ok(())
    });
    let pair = g.join("pair", (&columns.out, &rows.out), |a| a.0, |b| b.0);
    type Keyed = ([usize; 3], Arc<Block>);
    let multiply = g.map("multiply", |(([i, j, k], a), (_, b)): (Keyed, Keyed)| {
        let mut elements = vec![0.0; BLOCK * BLOCK];
        for (a, c) in a.elements.chunks(BLOCK).zip(elements.chunks_mut(BLOCK)) {
            for (a, b) in a.iter().zip(b.elements.chunks(BLOCK)) {
                c.iter_mut().zip(b).for_each(|(c, b)| *c += a * b);
            }
        }
        Partial { k, block: Block { at: [i, j], elements } }
    });
    let multiply = multiply.replicas(4);
    let gather = g.gather("gather", BLOCKS, |partial: &Partial| partial.block.at);
    let sum = g.map("sum", |(at, mut partials): ([usize; 2], Vec<Partial>)| {
        partials.sort_by_key(|partial| partial.k);
        let mut elements = vec![0.0; BLOCK * BLOCK];
        for partial in &partials {
            elements.iter_mut().zip(&partial.block.elements).for_each(|(sum, x)| *sum += x);
        }
        Block { at, elements }
    });
    g.edge(&of_a, &columns);
    g.edge(&of_b, &rows);
    g.edge(&pair.out, &multiply);
    g.edge(&multiply.out, &gather);
    g.edge(&gather.out, &sum);
    g.edge(&sum.out, &blocks_of_c);

    let run = g.start()?;
    run.push_all(&of_a, places().map(|at| Arc::new(Block::of(&a, at))))?;
    run.push_all(&of_b, places().map(|at| Arc::new(Block::of(&b, at))))?;
    run.close();
    let mut c = vec![0.0; N * N];
    run.results(&blocks_of_c).for_each(|block| block.write(&mut c));
    run.wait()?;
    for at in (0..N * N).step_by(61) {
        let expected: f64 = (0..N).map(|k| a[at / N * N + k] * b[k * N + at % N]).sum();
        expect(c[at], expected)?;
    }
    Ok(format!("{N} x {N}, in {} products of blocks", BLOCKS * BLOCKS * BLOCKS))
}
