//! Linear algebra through dataflow graphs, beside the best call of the whole: by OpenBLAS or by blocks of our
//! own, with all threads. The matrices lie row by row on both sides: the product works on them in place, and
//! the factorisation's time has the copies to tiles and back in it.

use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::{Context, Result};
use flash::kernels::{gemm, potrf};
use flash::prelude::*;
use flash_cholesky::Cholesky;
use flash_gemm::plan::{Plan, Wish};
use flash_gemm::product::{Matrices, Product};
use std::time::Instant;

/// Rows and columns of the matrices.
const N: usize = 2048;
/// Of tiles, of those that are fast on few cores.
const TILE_OF_PRODUCT: usize = 1024;
const TILE_OF_FACTOR: usize = 256;

/// All rows.
pub fn rows() -> Result<Vec<Row>> {
    let rt = flash::get_runtime("ALL_CPU")?;
    Ok(vec![product(&rt)?, factor(&rt)?])
}

/// The implementations of whole calls that run here.
fn implementations(rt: &RuntimeObj, runs: impl Fn(&RuntimeObj) -> Result<()>) -> Vec<RuntimeObj> {
    let named = ["openblas", "blocked"].map(|name| rt.options(Implementation::named(name)));
    named.into_iter().filter(|rt| runs(rt).is_ok()).collect()
}

/// Of 10^9 operations per second.
fn rate(operations: f64, start: Instant) -> f64 {
    operations / start.elapsed().as_secs_f64() * 1e-9
}

/// Numbers from -1 to 1.
fn numbers<T: From<f32> + flash::kernels::simd::Number>(by: usize) -> Result<FlashMemory<T>> {
    let elements = (0..N * N).map(|i| T::from((i * by % 1009) as f32 / 504.5 - 1.0));
    Ok(elements.collect::<FlashMemory<T>>().with_shape([N, N])?)
}

fn product(rt: &RuntimeObj) -> Result<Row> {
    let (a, b, c) = (numbers::<f32>(337)?, numbers::<f32>(571)?, FlashMemory::zeroed([N, N]));
    let wish = Wish {
        sizes: [N; 3],
        tile: TILE_OF_PRODUCT,
        depth: 2,
        lookahead: 1,
        replicas: None,
        budget: None,
        adds: false,
    };
    let plan = Plan::of(wish, size_of::<f32>(), rt.devices())?;
    let product = Product::new(rt, plan);
    let whole = |rt: &RuntimeObj| Ok(rt.submit(gemm(1.0, &a, &b, 0.0, &c)?).exec([N])?);
    let whole_rts = implementations(rt, whole);
    let operations = plan.operations();
    Ok(pair(
        "sgemm 2048 through a graph of tiles (the best whole call)",
        "Gflop/s",
        REPEATS,
        || {
            let start = Instant::now();
            product.run(&Matrices::new(&a, &b, &c), |_, _| ()).expect("it runs");
            rate(operations, start)
        },
        Some(&mut || {
            best(&whole_rts, |rt| {
                let start = Instant::now();
                whole(rt).expect("it runs");
                rate(operations, start)
            })
        }),
        PAUSE,
    ))
}

fn factor(rt: &RuntimeObj) -> Result<Row> {
    let (original, a) = (numbers::<f64>(337)?, FlashMemory::<f64>::zeroed([N, N]));
    {
        let mut original = original.write()?;
        for i in 0..N {
            original[i * N + i] = N as f64;
            (0..i).for_each(|j| original[i * N + j] = original[j * N + i]);
        }
    }
    let fresh = || rt.pipeline().copy(&original, &a).exec().expect("it is as large");
    let cholesky = Cholesky::<f64>::new(rt, N, TILE_OF_FACTOR, None)?;
    let whole = |rt: &RuntimeObj| Ok(rt.submit(potrf(&a)?).exec([1])?);
    let whole_rts = implementations(rt, |rt| {
        fresh();
        whole(rt)
    });
    whole_rts.first().context("an implementation of potrf")?;
    let operations = (N as f64).powi(3) / 3.0;
    Ok(pair(
        "dpotrf 2048 through a graph of tiles (the best whole call)",
        "Gflop/s",
        REPEATS,
        || {
            fresh();
            let start = Instant::now();
            cholesky.run(&a, |_, _| ()).expect("it is positive definite");
            rate(operations, start)
        },
        Some(&mut || {
            best(&whole_rts, |rt| {
                fresh();
                let start = Instant::now();
                whole(rt).expect("it is positive definite");
                rate(operations, start)
            })
        }),
        PAUSE,
    ))
}

/// The greatest of rates.
fn best(runtimes: &[RuntimeObj], of: impl Fn(&RuntimeObj) -> f64) -> f64 {
    runtimes.iter().map(of).fold(0.0, f64::max)
}
