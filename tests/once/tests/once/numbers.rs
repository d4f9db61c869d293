//! Kernels of numbers: loops, branches, functions.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::{close, compare};

/// Iterations of `z = z * z + c` until `z` leaves the circle of radius 2.
#[derive(KernelDefinition)]
#[kernel(name = "once.mandelbrot", dims(x, y))]
struct Mandelbrot<'a> {
    step: f64,
    most: u32,
    count: Item<'a, Write<u32>>,
}

struct MandelbrotOnce;

#[kernel(devices)]
impl CpuItem<Mandelbrot<'_>> for MandelbrotOnce {
    fn item(ix: Index<2>, k: MandelbrotItem<'_>) {
        let (cx, cy) = (ix[0] as f64 * k.step - 2.0, ix[1] as f64 * k.step - 1.0);
        let (mut x, mut y, mut n) = (0.0, 0.0, 0);
        while n < k.most && x * x + y * y <= 4.0 {
            (x, y) = (x * x - y * y + cx, 2.0 * x * y + cy);
            n += 1;
        }
        k.count.set(n);
    }
}

#[test]
fn mandelbrot() {
    compare("numbers::mandelbrot", |rt| {
        let count = FlashMemory::from(vec![0_u32; 30 * 20]);
        rt.submit(Mandelbrot::of(0.1, 60, &count)).exec([30, 20]).unwrap();
        count.read().unwrap().to_vec()
    });
}

/// A complex number.
#[derive(Clone, Copy, Staged)]
struct Complex {
    re: f32,
    im: f32,
}

#[kernel_fn]
fn product(a: Complex, b: Complex) -> Complex {
    Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

#[kernel_fn]
fn quotient(a: Complex, b: Complex) -> Complex {
    let Complex { re, im } = b;
    let square = re * re + im * im;
    if square == 0.0 {
        return Complex { re: 0.0, im: 0.0 };
    }
    let over = product(a, Complex { re, im: -im });
    Complex { re: over.re / square, im: over.im / square }
}

/// A polynomial of complex numbers, by Horner, over another.
#[derive(KernelDefinition)]
#[kernel(name = "once.complex", dims(i))]
struct Rational<'a> {
    coefficients: Whole<'a, Read<[f32; 2]>>,
    z: Item<'a, Read<[f32; 2]>>,
    value: Item<'a, Write<[f32; 2]>>,
}

struct RationalOnce;

#[kernel(devices)]
impl CpuItem<Rational<'_>> for RationalOnce {
    fn item(_: Index<1>, k: RationalItem<'_>) {
        let [re, im] = *k.z;
        let z = Complex { re, im };
        let mut sum = Complex { re: 0.0, im: 0.0 };
        for i in (0..k.coefficients.len()).rev() {
            sum = product(sum, z);
            sum.re += k.coefficients[i][0];
            sum.im += k.coefficients[i][1];
        }
        let value = quotient(sum, z);
        k.value.set([value.re, value.im]);
    }
}

#[test]
fn complex_numbers() {
    compare("numbers::complex_numbers", |rt| {
        let coefficients = FlashMemory::from(vec![[0.5_f32, 1.0], [-2.0, 0.25], [0.125, 3.0]]);
        let z = FlashMemory::from(
            (0..50)
                .map(|i| [i as f32 * 0.1, 1.0 - i as f32 * 0.03])
                .chain([[0.0; 2]])
                .collect::<Vec<[f32; 2]>>(),
        );
        let value = FlashMemory::from(vec![[9.0_f32; 2]; 51]);
        rt.submit(Rational::of(&coefficients, &z, &value)).exec([51]).unwrap();
        value.read().unwrap().to_vec()
    });
}

/// The normal distribution, by Abramowitz and Stegun 26.2.17.
#[kernel_fn]
fn normal(x: f64) -> f64 {
    let t = 1.0 / 0.2316419_f64.mul_add(x.abs(), 1.0);
    let poly =
        t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    let tail = (-0.5 * x * x).exp() * 0.3989422804014327 * poly;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// The price of a European call.
#[derive(KernelDefinition)]
#[kernel(name = "once.black_scholes", dims(option))]
struct BlackScholes<'a> {
    rate: f64,
    volatility: f64,
    spot: Item<'a, Read<f64>>,
    strike: Item<'a, Read<f64>>,
    years: Item<'a, Read<f64>>,
    price: Item<'a, Write<f64>>,
}

struct BlackScholesOnce;

#[kernel(devices)]
impl CpuItem<BlackScholes<'_>> for BlackScholesOnce {
    fn item(_: Index<1>, k: BlackScholesItem<'_>) {
        let (spot, strike, years) = (*k.spot, *k.strike, *k.years);
        let deviation = k.volatility * years.sqrt();
        let up = ((spot / strike).ln() + (k.rate + 0.5 * k.volatility * k.volatility) * years) / deviation;
        k.price.set(spot * normal(up) - strike * (-k.rate * years).exp() * normal(up - deviation));
    }
}

#[test]
fn black_scholes() {
    close("numbers::black_scholes", 1e-13, |rt| {
        let [spot, strike, years] = [(20.0, 1.3), (25.0, 0.9), (0.1, 0.07)].map(|(from, step)| {
            FlashMemory::from((0..64).map(|i| from + step * f64::from(i % 32)).collect::<Vec<f64>>())
        });
        let price = FlashMemory::from(vec![0.0_f64; 64]);
        rt.submit(BlackScholes::of(0.02, 0.3, &spot, &strike, &years, &price)).exec([64]).unwrap();
        price.read().unwrap().to_vec()
    });
}

/// A step of an inclusive prefix sum: each element and the one `distance` before it.
#[derive(KernelDefinition)]
#[kernel(name = "once.scan_step", dims(i, step), group_by(step))]
struct Scan<'a> {
    #[along(i)]
    values: Phased<'a, u32>,
}

struct ScanOnce;

#[kernel(devices)]
impl CpuItem<Scan<'_>> for ScanOnce {
    fn item(ix: Index<2>, mut k: ScanItem<'_>) {
        let distance = 1 << ix[1];
        if ix[0] >= distance {
            k.values.set(k.values.own().wrapping_add(k.values.get(ix[0] - distance)));
        }
    }
}

#[test]
fn prefix_sum() {
    compare("numbers::prefix_sum", |rt| {
        let values = FlashMemory::from((0..200_u32).map(|i| i * i + 1).collect::<Vec<u32>>());
        rt.submit(Scan::of(&values)).exec([200, 8]).unwrap();
        values.read().unwrap().to_vec()
    });
}

/// A histogram: a value goes into its bin, and the largest and the number of all are kept.
#[derive(KernelDefinition)]
#[kernel(name = "once.histogram", dims(i))]
struct Histogram<'a> {
    width: f32,
    x: Item<'a, Read<f32>>,
    bins: Reduce<'a, Write<[u64]>, Sum>,
    largest: Reduce<'a, Write<f32>, Max>,
}

struct HistogramOnce;

#[kernel(devices)]
impl CpuItem<Histogram<'_>> for HistogramOnce {
    fn item(_: Index<1>, mut k: HistogramItem<'_>) {
        let bin = (*k.x / k.width) as usize;
        k.bins.put(bin.min(k.bins.len() - 1), 1);
        k.largest.put(*k.x);
    }
}

#[test]
fn histogram() {
    compare("numbers::histogram", |rt| {
        let x =
            FlashMemory::from((0..5000).map(|i| ((i * 7919) % 1013) as f32 / 100.0).collect::<Vec<f32>>());
        let (bins, largest) = (FlashMemory::from(vec![0_u64; 12]), FlashMemory::from(vec![0.0_f32]));
        rt.submit(Histogram::of(1.0, &x, &bins, &largest)).exec([5000]).unwrap();
        let mut all = bins.read().unwrap().to_vec();
        all.push(largest.read().unwrap()[0].to_bits().into());
        all
    });
}

/// Counts by atomic operations.
#[derive(KernelDefinition)]
#[kernel(name = "once.counts", dims(i))]
struct Counts<'a> {
    at: Item<'a, Read<u32>>,
    counts: Scatter<'a, u32>,
    least: Scatter<'a, i32>,
}

struct CountsOnce;

#[kernel(devices)]
impl CpuItem<Counts<'_>> for CountsOnce {
    fn item(ix: Index<1>, k: CountsItem<'_>) {
        let at = *k.at as usize;
        k.counts.add(at, 1);
        k.least.min(at, 40 - ix[0] as i32);
    }
}

#[test]
fn counts() {
    compare("numbers::counts", |rt| {
        let at = FlashMemory::from((0..777_u32).map(|i| i * i % 11).collect::<Vec<u32>>());
        let (counts, least) = (FlashMemory::from(vec![0_u32; 11]), FlashMemory::from(vec![100_i32; 11]));
        rt.submit(Counts::of(&at, &counts, &least)).exec([777]).unwrap();
        let least = least.read().unwrap().iter().map(|x| x.cast_unsigned()).collect::<Vec<u32>>();
        [counts.read().unwrap().to_vec(), least].concat()
    });
}

/// A diagonal of the Smith-Waterman matrix: `best` of cell (i, diagonal - i).
#[derive(KernelDefinition)]
#[kernel(name = "once.smith_waterman", dims(i, diagonal), sort_by(diagonal))]
struct SmithWaterman<'a> {
    gap: i32,
    a: Whole<'a, Read<u8>>,
    b: Whole<'a, Read<u8>>,
    #[along(i)]
    once: Phased<'a, i32>,
    #[along(i)]
    twice: Phased<'a, i32>,
    #[along(i)]
    best: Item<'a, ReadWrite<i32>>,
}

struct SmithWatermanOnce;

#[kernel(devices)]
impl CpuItem<SmithWaterman<'_>> for SmithWatermanOnce {
    fn item(ix: Index<2>, mut k: SmithWatermanItem<'_>) {
        let [i, diagonal] = ix.values();
        if diagonal < i || diagonal - i >= k.b.len() {
            return;
        }
        let j = diagonal - i;
        let before = |values: i32, there: bool| if there { values } else { 0 };
        let (mut left, mut corner) = (0, 0);
        if i > 0 {
            left = k.once.get(i - 1);
            corner = k.twice.get(i - 1);
        }
        let up = before(k.once.own(), j > 0);
        let score = if k.a[i] == k.b[j] { 3 } else { -3 };
        let value = (before(corner, j > 0) + score).max(left - k.gap).max(up - k.gap).max(0);
        k.twice.set(k.once.own());
        k.once.set(value);
        if value > *k.best {
            *k.best = value;
        }
    }
}

#[test]
fn smith_waterman() {
    compare("numbers::smith_waterman", |rt| {
        let [a, b] = [b"ACACACTAGGTTACA".to_vec(), b"AGCACACATTGGACA".to_vec()];
        let (n, m) = (a.len() as u64, b.len() as u64);
        let [once, twice, best] = [0_i32; 3].map(|zero| FlashMemory::from(vec![zero; a.len()]));
        let (a, b) = (FlashMemory::from(a), FlashMemory::from(b));
        rt.submit(SmithWaterman::of(2, &a, &b, &once, &twice, &best)).exec([n, n + m - 1]).unwrap();
        best.read().unwrap().to_vec()
    });
}
