//! Kernels of points, particles and matrices.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{close, compare};

fn points(n: usize) -> Vec<[f32; 3]> {
    let at = |i: usize, by: usize| ((i * by) % 97) as f32 / 97.0;
    (0..n).map(|i| [at(i, 31), at(i, 57), at(i, 71)]).collect()
}

/// The nearest of some centres.
#[derive(KernelDefinition)]
#[kernel(name = "once.nearest", dims(point))]
struct Nearest<'a> {
    centres: Whole<'a, Read<[f32; 3]>>,
    points: Item<'a, Read<[f32; 3]>>,
    nearest: Item<'a, Write<u32>>,
}

struct NearestOnce;

#[kernel(devices)]
impl CpuItem<Nearest<'_>> for NearestOnce {
    fn item(_: Index<1>, k: NearestItem<'_>) {
        let (mut best, mut least) = (0, f32::MAX);
        for c in 0..k.centres.len() {
            let mut square = 0.0;
            for axis in 0..3 {
                let d = k.points[axis] - k.centres[c][axis];
                square += d * d;
            }
            if square < least {
                least = square;
                best = c as u32;
            }
        }
        k.nearest.set(best);
    }
}

#[test]
fn nearest() {
    compare("bodies::nearest", |rt| {
        let (centres, points) = (FlashMemory::from(points(7)), FlashMemory::from(points(90)));
        let nearest = FlashMemory::from(vec![0_u32; 90]);
        rt.submit(Nearest::of(&centres, &points, &nearest)).exec([90]).unwrap();
        nearest.read().unwrap().to_vec()
    });
}

/// Softened gravity.
#[derive(KernelDefinition)]
#[kernel(name = "once.gravity", dims(body))]
struct Gravity<'a> {
    softening: f32,
    position: Whole<'a, Read<[f32; 3]>>,
    mass: Whole<'a, Read<f32>>,
    acceleration: Item<'a, Write<[f32; 3]>>,
}

struct GravityOnce;

#[kernel(devices)]
impl CpuItem<Gravity<'_>> for GravityOnce {
    fn item(ix: Index<1>, k: GravityItem<'_>) {
        let [x, y, z] = k.position[ix[0]];
        let mut sum = [0.0; 3];
        for j in 0..k.mass.len() {
            let other = k.position[j];
            let d = [other[0] - x, other[1] - y, other[2] - z];
            let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + k.softening;
            let weight = k.mass[j] / (square * square.sqrt());
            for axis in 0..3 {
                sum[axis] += d[axis] * weight;
            }
        }
        k.acceleration.set(sum);
    }
}

#[test]
fn gravity() {
    compare("bodies::gravity", |rt| {
        let position = FlashMemory::from(points(60));
        let mass = FlashMemory::from((0..60).map(|i| 1.0 + i as f32).collect::<Vec<f32>>());
        let acceleration = FlashMemory::from(vec![[0.0_f32; 3]; 60]);
        rt.submit(Gravity::of(0.01, &position, &mass, &acceleration)).exec([60]).unwrap();
        acceleration.read().unwrap().to_vec()
    });
}

/// Forces between pairs nearer than a cutoff, Lennard-Jones.
#[derive(KernelDefinition)]
#[kernel(name = "once.forces", dims(atom))]
struct Forces<'a, T: Real> {
    cutoff: T,
    position: Whole<'a, Read<[T; 3]>>,
    force: Item<'a, Write<[T; 3]>>,
}

struct ForcesOnce;

/// The force over the distance, of the square of the distance.
#[kernel_fn]
fn lennard_jones<T: Real>(square: T) -> T {
    let inverse = T::of(1.0) / square;
    let sixth = inverse * inverse * inverse;
    T::of(24.0) * inverse * sixth * (T::of(2.0) * sixth - T::of(1.0))
}

#[kernel(devices, for(f32, f64))]
impl<T: Real> CpuItem<Forces<'_, T>> for ForcesOnce {
    fn item(ix: Index<1>, k: ForcesItem<'_, T>) {
        let own = k.position[ix[0]];
        let mut sum = [T::of(0.0); 3];
        for j in 0..k.position.len() {
            if j == ix[0] {
                continue;
            }
            let mut d = k.position[j];
            let mut square = T::of(0.0);
            for axis in 0..3 {
                d[axis] = own[axis] - d[axis];
                square += d[axis] * d[axis];
            }
            if square < k.cutoff * k.cutoff {
                let factor = lennard_jones(square);
                for axis in 0..3 {
                    sum[axis] += d[axis] * factor;
                }
            }
        }
        k.force.set(sum);
    }
}

#[test]
fn forces() {
    compare("bodies::forces", |rt| {
        let at = points(40);
        let wide = at.iter().map(|p| p.map(f64::from)).collect::<Vec<[f64; 3]>>();
        let (at, wide) = (FlashMemory::from(at), FlashMemory::from(wide));
        let force = FlashMemory::from(vec![[0.0_f32; 3]; 40]);
        let wide_force = FlashMemory::from(vec![[0.0_f64; 3]; 40]);
        rt.submit(Forces::of(0.4_f32, &at, &force)).exec([40]).unwrap();
        rt.submit(Forces::of(0.4_f64, &wide, &wide_force)).exec([40]).unwrap();
        let narrow = force.read().unwrap().iter().map(|f| f.map(f64::from)).collect::<Vec<[f64; 3]>>();
        [narrow, wide_force.read().unwrap().to_vec()].concat()
    });
}

/// A particle with a charge.
#[derive(Clone, Copy, Debug, PartialEq, Element, Staged)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    velocity: [f32; 3],
    charge: f32,
    hits: u32,
}

/// A step of particles in a magnetic field along z (Boris), inside a box with walls.
#[derive(KernelDefinition)]
#[kernel(name = "once.push", dims(particle))]
struct Push<'a> {
    dt: f32,
    field: f32,
    particles: Item<'a, ReadWrite<Particle>>,
}

struct PushOnce;

/// Turns a velocity around z.
#[kernel_fn]
fn turn(velocity: &mut [f32; 3], angle: f32) {
    let t = angle * 0.5;
    let s = 2.0 * t / (1.0 + t * t);
    let (x, y) = (velocity[0] + velocity[1] * t, velocity[1] - velocity[0] * t);
    velocity[0] += y * s;
    velocity[1] -= x * s;
}

#[kernel(devices)]
impl CpuItem<Push<'_>> for PushOnce {
    fn item(_: Index<1>, k: PushItem<'_>) {
        let mut p = *k.particles;
        turn(&mut p.velocity, k.field * p.charge * k.dt);
        for axis in 0..3 {
            p.position[axis] += p.velocity[axis] * k.dt;
            if p.position[axis] < 0.0 || p.position[axis] > 1.0 {
                p.velocity[axis] = -p.velocity[axis];
                p.position[axis] = p.position[axis].clamp(0.0, 1.0);
                p.hits += 1;
            }
        }
        *k.particles = p;
    }
}

#[test]
fn push() {
    compare("bodies::push", |rt| {
        let particle = |(i, position): (usize, [f32; 3])| Particle {
            position,
            velocity: [1.0 - position[0], position[1] - 0.5, 0.3],
            charge: (i % 3) as f32 - 1.0,
            hits: 0,
        };
        let particles =
            FlashMemory::from(points(70).into_iter().enumerate().map(particle).collect::<Vec<Particle>>());
        for _ in 0..5 {
            rt.submit(Push::of(0.1, 2.0, &particles)).exec([70]).unwrap();
        }
        particles.read().unwrap().to_vec()
    });
}

/// A sparse matrix times a vector, row by row.
#[derive(KernelDefinition)]
#[kernel(name = "once.sparse", dims(row))]
struct Sparse<'a> {
    start: Whole<'a, Read<u32>>,
    column: Whole<'a, Read<u32>>,
    value: Whole<'a, Read<f64>>,
    x: Whole<'a, Read<f64>>,
    y: Item<'a, Write<f64>>,
}

struct SparseOnce;

#[kernel(devices)]
impl CpuItem<Sparse<'_>> for SparseOnce {
    fn item(ix: Index<1>, k: SparseItem<'_>) {
        let row = ix[0];
        let mut sum = 0.0;
        for i in k.start[row]..k.start[row + 1] {
            let i = i as usize;
            sum = k.value[i].mul_add(k.x[k.column[i] as usize], sum);
        }
        k.y.set(sum);
    }
}

#[test]
fn sparse() {
    compare("bodies::sparse", |rt| {
        let lengths = (0..30_u32).map(|row| row % 5);
        let start: Vec<u32> = lengths
            .clone()
            .scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n)))
            .chain([lengths.sum()])
            .collect();
        let count = start[30];
        let column = FlashMemory::from((0..count).map(|i| i * 7 % 30).collect::<Vec<u32>>());
        let value = FlashMemory::from((0..count).map(|i| f64::from(i) * 0.37 - 3.0).collect::<Vec<f64>>());
        let x = FlashMemory::from((0..30).map(|i| 1.0 / f64::from(i + 1)).collect::<Vec<f64>>());
        let (start, y) = (FlashMemory::from(start), FlashMemory::from(vec![9.0_f64; 30]));
        rt.submit(Sparse::of(&start, &column, &value, &x, &y)).exec([30]).unwrap();
        y.read().unwrap().to_vec()
    });
}

/// A product of matrices, of which each item has one row of the result.
#[derive(KernelDefinition)]
#[kernel(name = "once.rows_product", dims(row))]
struct Product<'a> {
    a: Item<'a, Read<Row<f32>>>,
    b: Whole<'a, Read<f32>>,
    c: Item<'a, Write<Row<f32>>>,
}

struct ProductOnce;

#[kernel(devices)]
impl CpuItem<Product<'_>> for ProductOnce {
    fn item(_: Index<1>, k: ProductItem<'_>) {
        let columns = k.c.len();
        for column in 0..columns {
            let mut sum = 0.0;
            for i in 0..k.a.len() {
                sum += k.a[i] * k.b[i * columns + column];
            }
            k.c[column] = sum;
        }
    }
}

#[test]
fn product() {
    let (rows, inner, columns) = (9, 11, 5);
    compare("bodies::product", |rt| {
        let of = |n: usize| (0..n).map(|i| (i % 13) as f32 * 0.3 - 1.0).collect::<Vec<f32>>();
        let a = FlashMemory::from(of(rows * inner)).with_shape([inner, rows]).unwrap();
        let b = FlashMemory::from(of(inner * columns));
        let c = FlashMemory::from(vec![0.0_f32; rows * columns]).with_shape([columns, rows]).unwrap();
        rt.submit(Product::of(&a, &b, &c)).exec([rows as u64]).unwrap();
        c.read().unwrap().to_vec()
    });
}

/// A stage of a fast Fourier transform: butterflies of `half` apart.
#[derive(KernelDefinition)]
#[kernel(name = "once.butterfly", dims(i))]
struct Butterfly<'a> {
    half: u32,
    from: Whole<'a, Read<[f64; 2]>>,
    to: Item<'a, Write<[f64; 2]>>,
}

struct ButterflyOnce;

#[kernel(devices)]
impl CpuItem<Butterfly<'_>> for ButterflyOnce {
    fn item(ix: Index<1>, k: ButterflyItem<'_>) {
        let (i, half) = (ix[0], k.half as usize);
        let angle = -std::f64::consts::PI * (i & (half - 1)) as f64 / k.half as f64;
        let (even, odd) = (k.from[i & !half], k.from[i | half]);
        let (c, s) = (angle.cos(), angle.sin());
        let turned = [odd[0] * c - odd[1] * s, odd[0] * s + odd[1] * c];
        let sign = if i & half == 0 { 1.0 } else { -1.0 };
        k.to.set([even[0] + sign * turned[0], even[1] + sign * turned[1]]);
    }
}

#[test]
fn butterflies() {
    close("bodies::butterflies", 1e-12, |rt| {
        let n = 32_u32;
        let reversed = |i: u32| f64::from((i.reverse_bits() >> 27) % 7) - 2.5;
        let mut from = FlashMemory::from((0..n).map(|i| [reversed(i), 0.0]).collect::<Vec<[f64; 2]>>());
        let mut half = 1;
        while half < n {
            let to = FlashMemory::from(vec![[0.0_f64; 2]; n as usize]);
            rt.submit(Butterfly::of(half, &from, &to)).exec([u64::from(n)]).unwrap();
            (from, half) = (to, 2 * half);
        }
        from.read().unwrap().as_flattened().to_vec()
    });
}
