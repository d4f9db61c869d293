//! The kernels that algorithms on tiles are made of, on one tile.

use super::c::Real;
use super::cases::{Best, Case, Measure, Submit, numbers};
use anyhow::Result;
use flash::kernels::trsm::{Diagonal, Side};
use flash::kernels::{gemm, potrf, syrk, transposed, trsm};
use flash::{FlashMemory, RuntimeObj, get_runtime};
use flash_core::descriptor::Implementation;

/// Rows and columns of a tile.
const EDGE: usize = 512;

/// Two factors, a result, and a matrix that is its own factor: the one of a triangle, too.
struct Tiles<T: Real> {
    n: usize,
    all: [FlashMemory<T>; 3],
    identity: FlashMemory<T>,
}

impl<T: Real> Tiles<T> {
    fn new(n: usize) -> Result<Tiles<T>> {
        let shaped = |memory: FlashMemory<T>| memory.with_shape([n, n]);
        let all = [shaped(numbers(n * n))?, shaped(numbers(n * n))?, shaped(numbers(n * n))?];
        let diagonal = |at: usize| if at.is_multiple_of(n + 1) { T::ONE } else { T::ZERO };
        Ok(Tiles { n, all, identity: shaped((0..n * n).map(diagonal).collect())? })
    }
}

/// Records a launch of a kernel. What it writes is the same each time.
type Record<T> = for<'a> fn(&RuntimeObj, &'a Tiles<T>) -> Result<flash::Pipeline<'a>>;

fn kernels<T: Real>() -> [([&'static str; 2], f64, Record<T>); 4] {
    [
        (["gemm", "gemm blocked"], 2.0, |rt, Tiles { n, all: [a, b, c], .. }| {
            Ok(rt.submit(gemm(T::ONE, a, transposed(b), T::ZERO, c)?).defer([*n]))
        }),
        (["syrk", "syrk blocked"], 1.0, |rt, Tiles { n, all: [a, _, c], .. }| {
            Ok(rt.submit(syrk(T::ONE, a, T::ZERO, c)?).defer([*n]))
        }),
        (["trsm", "trsm blocked"], 1.0, |rt, Tiles { n, all: [_, _, c], identity }| {
            let l = transposed(identity);
            Ok(rt.submit(trsm(Side::Right, l, Diagonal::Stored, T::ONE, c)?).defer([*n]))
        }),
        (["potrf", "potrf blocked"], 1.0 / 3.0, |rt, tiles| {
            Ok(rt.submit(potrf(&tiles.identity)?).defer([1usize]))
        }),
    ]
}

/// Each kernel, and where OpenBLAS is taken on the CPU, blocks of our own beside it.
pub fn of_a_tile<T: Real>(has_openblas: bool, cpu: bool, measure: Measure<'_>) -> Result<()> {
    let one = &Tiles::<T>::new(1)?;
    for ([name, blocked], operations, record) in kernels::<T>() {
        let mut n = EDGE;
        loop {
            let tiles = &Tiles::<T>::new(n)?;
            let named = |rt: &RuntimeObj, is_blocked| match is_blocked {
                true => rt.options(Implementation::named("blocked")),
                false => rt.clone(),
            };
            let case = |kernel, is_blocked, best: &[Best<'_>], measure: Measure<'_>| {
                let submit: Submit<'_> = &|rt| record(&named(rt, is_blocked), tiles);
                let single: Submit<'_> = &|rt| record(&named(rt, is_blocked), one);
                measure(Case {
                    kernel,
                    bytes: None,
                    unit: "GFLOP/s",
                    work: operations * (n * n * n) as f64 / 1e9,
                    submit,
                    one: single,
                    best,
                    may_shrink: !cpu && n > 64,
                })
            };
            let mut done = case(name, false, &[], measure)?;
            if has_openblas {
                let through = record(&get_runtime("ALL_CPU")?, tiles)?;
                let through = || through.exec().expect("it runs");
                done &= case(blocked, true, &[("OpenBLAS", &through)], measure)?;
            }
            if done {
                break;
            }
            n /= 2;
        }
    }
    Ok(())
}
