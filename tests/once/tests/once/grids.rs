//! Stencils: each cell from its neighbours.

use flash::MemoryView;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::compare;

/// A step of the heat equation; the border is not launched.
#[derive(KernelDefinition)]
#[kernel(name = "once.heat", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
struct Heat<'a> {
    rate: f32,
    from: Window<'a, Read<f32>>,
    to: Item<'a, Write<f32>>,
}

struct HeatOnce;

#[kernel(devices)]
impl CpuItem<Heat<'_>> for HeatOnce {
    fn item(ix: Index<2>, k: HeatItem<'_>) {
        let at = |x: usize, y: usize| k.from.at([x, y, 0]);
        let (x, y) = (ix[Heat::X], ix[Heat::Y]);
        let around = at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1);
        k.to.set(at(x, y) + k.rate * (around - 4.0 * at(x, y)));
    }
}

fn field(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1013) as f32 / 1013.0).collect()
}

#[test]
fn heat() {
    let (w, h) = (33, 29);
    compare("grids::heat", |rt| {
        let from = FlashMemory::from(field(w * h)).with_shape([w, h]).unwrap();
        let to = FlashMemory::from(vec![0.0_f32; w * h]).with_shape([w, h]).unwrap();
        rt.submit(Heat::of(0.1, &from, &to)).exec([1..w as u64 - 1, 1..h as u64 - 1]).unwrap();
        to.read().unwrap().to_vec()
    });
}

/// Some rows of flat memories: a view has an offset and a shape.
#[test]
fn heat_of_rows_in_the_middle() {
    let (w, h, first) = (33, 29, 7);
    let rows = |memory: &FlashMemory<f32>, run: &dyn Fn(MemoryView<'_, f32>)| {
        run(memory.view([w, h + 2 * first]).unwrap().rows(first..first + h).unwrap());
    };
    compare("grids::heat_of_rows_in_the_middle", |rt| {
        let (from, to) =
            (FlashMemory::from(field(w * (h + 2 * first))), FlashMemory::zeroed(w * (h + 2 * first)));
        rows(&from, &|from| {
            rows(&to, &|to| {
                let inside = [1..w as u64 - 1, 1..h as u64 - 1];
                rt.submit(Heat::of(0.1, from.clone(), to)).exec(inside).unwrap();
            });
        });
        let heated = to.read().unwrap().to_vec();
        // What a copy of the rows gives.
        let own = FlashMemory::from(&field(w * (h + 2 * first))[w * first..w * (first + h)]);
        let (own, copied) = (own.with_shape([w, h]).unwrap(), FlashMemory::zeroed([w, h]));
        rt.submit(Heat::of(0.1, &own, &copied)).exec([1..w as u64 - 1, 1..h as u64 - 1]).unwrap();
        assert_eq!(heated[w * first..w * (first + h)], copied.read().unwrap()[..]);
        assert!(heated[..w * first].iter().chain(&heated[w * (first + h)..]).all(|x| *x == 0.0));
        heated
    });
}

/// Jacobi in three dimensions: the mean of six neighbours.
#[derive(KernelDefinition)]
#[kernel(name = "once.jacobi", dims(x, y, z), part_by(z, from = stencil(x = 1, y = 1, z = 1)))]
struct Jacobi<'a> {
    from: Window<'a, Read<f64>>,
    to: Item<'a, Write<f64>>,
}

struct JacobiOnce;

#[kernel(devices)]
impl CpuItem<Jacobi<'_>> for JacobiOnce {
    fn item(ix: Index<3>, k: JacobiItem<'_>) {
        let [x, y, z] = ix.values();
        let mut sum = 0.0;
        for d in [0, 2] {
            sum += k.from.at([x + d - 1, y, z]);
            sum += k.from.at([x, y + d - 1, z]);
            sum += k.from.at([x, y, z + d - 1]);
        }
        k.to.set(sum / 6.0);
    }
}

#[test]
fn jacobi() {
    let n = 9;
    compare("grids::jacobi", |rt| {
        let values = field(n * n * n).into_iter().map(f64::from).collect::<Vec<f64>>();
        let from = FlashMemory::from(values).with_shape([n, n, n]).unwrap();
        let to = FlashMemory::from(vec![0.0_f64; n * n * n]).with_shape([n, n, n]).unwrap();
        let inner = 1..n as u64 - 1;
        rt.submit(Jacobi::of(&from, &to)).exec([inner.clone(), inner.clone(), inner]).unwrap();
        to.read().unwrap().to_vec()
    });
}

/// A generation of Life on a torus, of cells that are 0 or 1.
#[derive(KernelDefinition)]
#[kernel(name = "once.life", dims(x, y))]
struct Life<'a> {
    width: u32,
    height: u32,
    was: Whole<'a, Read<u8>>,
    is: Item<'a, Write<u8>>,
}

struct LifeOnce;

#[kernel(devices)]
impl CpuItem<Life<'_>> for LifeOnce {
    fn item(ix: Index<2>, k: LifeItem<'_>) {
        let (w, h) = (k.width as usize, k.height as usize);
        let mut neighbours = 0;
        for dy in 0..3 {
            for dx in 0..3 {
                if dx == 1 && dy == 1 {
                    continue;
                }
                let (x, y) = ((ix[0] + w + dx - 1) % w, (ix[1] + h + dy - 1) % h);
                neighbours += k.was[x + y * w];
            }
        }
        k.is.set(match (k.was[ix[0] + ix[1] * w], neighbours) {
            (1, 2 | 3) => 1,
            (0, 3) => 1,
            _ => 0,
        });
    }
}

#[test]
fn life() {
    let (w, h) = (23, 17);
    compare("grids::life", |rt| {
        let cells = (0..w * h).map(|i| u8::from((i * i + i / 3) % 3 == 0)).collect::<Vec<u8>>();
        let was = FlashMemory::from(cells);
        let is = FlashMemory::from(vec![9_u8; w * h]);
        rt.submit(Life::of(w as u32, h as u32, &was, &is)).exec([w as u64, h as u64]).unwrap();
        is.read().unwrap().to_vec()
    });
}

/// A box blur of radius 1 and one of radius 3 along rows, with the border repeated.
#[derive(KernelDefinition)]
#[kernel(name = "once.blur", dims(x, y))]
struct Blur<'a> {
    width: u64,
    from: Whole<'a, Read<f32>>,
    near: Item<'a, Write<f32>>,
    far: Item<'a, Write<f32>>,
}

struct BlurOnce;

/// The mean around an element of a row of `w` elements, which begins at `row`.
#[kernel_fn]
fn mean<const R: usize>(from: &[f32], row: usize, w: usize, at: usize) -> f32 {
    let mut sum = 0.0;
    for i in 0..=2 * R {
        let x = (at + i).saturating_sub(R).min(w - 1);
        sum += from[row + x];
    }
    sum / (2 * R + 1) as f32
}

#[kernel(devices)]
impl CpuItem<Blur<'_>> for BlurOnce {
    fn item(ix: Index<2>, k: BlurItem<'_>) {
        let w = k.width as usize;
        k.near.set(mean::<1>(k.from, ix[1] * w, w, ix[0]));
        k.far.set(mean::<3>(k.from, ix[1] * w, w, ix[0]));
    }
}

#[test]
fn blur() {
    let (w, h) = (21, 8);
    compare("grids::blur", |rt| {
        let from = FlashMemory::from(field(w * h));
        let [near, far] = [0.0_f32; 2].map(|zero| FlashMemory::from(vec![zero; w * h]));
        rt.submit(Blur::of(w as u64, &from, &near, &far)).exec([w as u64, h as u64]).unwrap();
        [near.read().unwrap().to_vec(), far.read().unwrap().to_vec()].concat()
    });
}

/// The transpose of a matrix.
#[derive(KernelDefinition)]
#[kernel(name = "once.transpose", dims(column, row))]
struct Transpose<'a, T: Element> {
    rows: u64,
    from: Whole<'a, Read<T>>,
    to: Item<'a, Write<T>>,
}

struct TransposeOnce;

#[kernel(devices, for(f32, i64))]
impl<T: Element> CpuItem<Transpose<'_, T>> for TransposeOnce {
    fn item(ix: Index<2>, k: TransposeItem<'_, T>) {
        k.to.set(k.from[ix[1] + ix[0] * k.rows as usize]);
    }
}

#[test]
fn transpose() {
    let (columns, rows) = (7, 13);
    compare("grids::transpose", |rt| {
        let from = FlashMemory::from((0..columns * rows).map(|i| i as i64 * 3 - 5).collect::<Vec<i64>>());
        let to = FlashMemory::from(vec![0_i64; columns * rows]);
        rt.submit(Transpose::of(rows as u64, &from, &to)).exec([columns as u64, rows as u64]).unwrap();
        to.read().unwrap().to_vec()
    });
}

const DIRECTIONS: [[i32; 2]; 9] =
    [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]];
const WEIGHTS: [f64; 9] =
    [4.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 9.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0, 1.0 / 36.0];

/// A step of the lattice Boltzmann method on a torus, D2Q9: an array for each direction.
#[derive(KernelDefinition)]
#[kernel(name = "once.lbm", dims(x, y))]
struct Lbm<'a> {
    width: u64,
    height: u64,
    omega: f64,
    from: [Whole<'a, Read<f64>>; 9],
    to: [Item<'a, Write<f64>>; 9],
}

struct LbmOnce;

/// The distribution in equilibrium along a direction.
#[kernel_fn]
fn equilibrium(direction: usize, rho: f64, ux: f64, uy: f64) -> f64 {
    let [ex, ey] = DIRECTIONS[direction];
    let eu = ex as f64 * ux + ey as f64 * uy;
    WEIGHTS[direction] * rho * (1.0 + 3.0 * eu + 4.5 * eu * eu - 1.5 * (ux * ux + uy * uy))
}

#[kernel(devices)]
impl CpuItem<Lbm<'_>> for LbmOnce {
    fn item(ix: Index<2>, k: LbmItem<'_>) {
        let (w, h) = (k.width as i64, k.height as i64);
        let mut f = [0.0; 9];
        let (mut rho, mut mx, mut my) = (0.0, 0.0, 0.0);
        for i in 0..9 {
            let [ex, ey] = DIRECTIONS[i];
            let x = (ix[0] as i64 - i64::from(ex) + w) % w;
            let y = (ix[1] as i64 - i64::from(ey) + h) % h;
            f[i] = k.from[i][(x + y * w) as usize];
            rho += f[i];
            mx += f[i] * ex as f64;
            my += f[i] * ey as f64;
        }
        for i in 0..9 {
            k.to[i].set(f[i] + k.omega * (equilibrium(i, rho, mx / rho, my / rho) - f[i]));
        }
    }
}

#[test]
fn lbm() {
    let (w, h) = (12, 10);
    compare("grids::lbm", |rt| {
        let value = |d: usize, i: usize| WEIGHTS[d] * (1.0 + 0.01 * ((i * 31 + d) % 17) as f64);
        let mut from: [FlashMemory<f64>; 9] =
            std::array::from_fn(|d| (0..w * h).map(|i| value(d, i)).collect());
        let mut to: [FlashMemory<f64>; 9] = std::array::from_fn(|_| FlashMemory::zeroed(w * h));
        for _ in 0..3 {
            rt.submit(Lbm::of(w as u64, h as u64, 0.7, &from, &to)).exec([w as u64, h as u64]).unwrap();
            std::mem::swap(&mut from, &mut to);
        }
        from.map(|direction| direction.read().unwrap().to_vec()).concat()
    });
}
