//! Every kernel beside a library that shares no code with it: ndarray, faer and sprs, from single elements to
//! arrays beyond the caches.
//!
//! Sums are compared with the library's in double precision. A sum of n rounded products, added in any order,
//! has an error of at most n u / (1 - n u) of the sum of their sizes (Higham, Accuracy and Stability of
//! Numerical Algorithms, section 3.1), u being half of `EPSILON`. Half of [`bound`] is that for two sums of
//! n. The other half covers the second order and a last operation.

use crate::{Real, SETS, all, is_too_much, matrices, near, numbers};
use faer::Mat;
use flash::RuntimeObj;
use flash::kernels::{Csr, conv1d, ewmd, ewmm, js, mmm, mvm, smmm, spmv, vdp};
use flash::prelude::*;
use ndarray::{Array1, Array2, Array3, ArrayView1, s};
use sprs::CsMat;

/// The error allowed for a sum of `n` products whose sizes add up to `size`.
fn bound<T: Real>(n: usize, size: f64) -> f64 {
    2.0 * (n + 1) as f64 * T::EPSILON * size
}

/// Operations above which a kernel is run on the CPU only: the results of devices do not depend on sizes any
/// more.
const ON_DEVICES: usize = 5_000_000;

/// The runtimes for this number of operations.
fn on(
    everywhere: fn(&str) -> Vec<(String, RuntimeObj)>,
    test: &str,
    operations: usize,
) -> Vec<(String, RuntimeObj)> {
    if is_too_much(operations) {
        return Vec::new();
    }
    let mut runtimes = everywhere(test);
    let device = |which: &String| ["OPENCL", "INTEL", "NVIDIA"].iter().any(|key| which.starts_with(key));
    runtimes.retain(|(which, _)| operations <= ON_DEVICES || !device(which));
    runtimes
}

fn wide<T: Real>(x: &[T]) -> Array1<f64> {
    x.iter().map(|x| x.wide()).collect()
}

fn sizes(x: &Array1<f64>) -> Array1<f64> {
    x.mapv(f64::abs)
}

fn elements<T: Real>(test: &str) {
    for n in [1, 3, 31, 257, 5000, 65_537, 1_000_003] {
        let (a, mut b) = (numbers::<T>(n, 41), numbers::<T>(n, 42));
        b.iter_mut().filter(|b| b.wide() == 0.0).for_each(|b| *b = T::ONE);
        let (left, right) = (ArrayView1::from(&a), ArrayView1::from(&b));
        let (products, quotients) = (&left * &right, &left / &right);
        let (a, b) = (FlashMemory::from(&a[..]), FlashMemory::from(&b[..]));
        for (which, rt) in on(all, test, n) {
            let c = FlashMemory::zeroed(n);
            rt.submit(ewmm(&a, &b, &c).unwrap()).exec([n]).unwrap();
            let c_read = c.read().unwrap();
            // A single operation has one right result; OpenCL's quotient in single precision may be near it.
            for (i, (found, expected)) in c_read.iter().zip(&products).enumerate() {
                assert_eq!(found.bits(), expected.bits(), "{which}: product {i} of {n}, {}", T::NAME);
            }
            drop(c_read);
            rt.submit(ewmd(&a, &b, &c).unwrap()).exec([n]).unwrap();
            let ulps = if SETS.iter().any(|set| which.starts_with(set)) { 0 } else { 2 };
            for (i, (found, expected)) in c.read().unwrap().iter().zip(&quotients).enumerate() {
                let off = found.bits().abs_diff(expected.bits());
                assert!(off <= ulps, "{which}: quotient {i} of {n}, {}: {off} off", T::NAME);
            }
        }
    }
}

#[test]
fn products_and_quotients_are_those_of_ndarray() {
    elements::<f32>("libraries::products_and_quotients_are_those_of_ndarray");
    elements::<f64>("libraries::products_and_quotients_are_those_of_ndarray");
}

fn dots<T: Real>(test: &str) {
    for n in [1, 5, 33, 1023, 65_537, 1_000_003] {
        let (x, y) = (numbers::<T>(n, 43), numbers::<T>(n, 44));
        let (left, right) = (wide(&x), wide(&y));
        let (expected, size) = (left.dot(&right), sizes(&left).dot(&sizes(&right)));
        // Blocks of 4096, whose sums are added two by two; and all in a row, in double precision.
        let bound = bound::<T>(n.min(4096) + 20, size) + bound::<f64>(n, size);
        let (x, y) = (FlashMemory::from(x), FlashMemory::from(y));
        for (which, rt) in on(all, test, n) {
            let sum = FlashMemory::zeroed(1);
            rt.submit(vdp(&x, &y, &sum).unwrap()).exec([n]).unwrap();
            near(&sum.read().unwrap(), &[expected], |_| bound, &format!("{which}, {n}"));
        }
    }
}

#[test]
fn dot_products_are_those_of_ndarray() {
    dots::<f32>("libraries::dot_products_are_those_of_ndarray");
    dots::<f64>("libraries::dot_products_are_those_of_ndarray");
}

fn matrices_and_vectors<T: Real>(test: &str) {
    for [m, n] in [[1, 1], [7, 3], [33, 129], [501, 77], [1025, 8200]] {
        let (a, x) = (numbers::<T>(m * n, 45), numbers::<T>(n, 46));
        let matrix = wide(&a).into_shape_with_order((m, n)).unwrap();
        let (expected, size) = (matrix.dot(&wide(&x)), matrix.mapv(f64::abs).dot(&sizes(&wide(&x))));
        let (a, x) = (FlashMemory::from(a).with_shape([n, m]).unwrap(), FlashMemory::from(x));
        for (which, rt) in on(all, test, m * n) {
            let y = FlashMemory::zeroed(m);
            rt.submit(mvm([m, n], &a, &x, &y).unwrap()).exec([m]).unwrap();
            let expected = expected.as_slice().unwrap();
            near(&y.read().unwrap(), expected, |i| bound::<T>(n, size[i]), &format!("{which}, {m} x {n}"));
        }
    }
}

#[test]
fn products_of_matrices_and_vectors_are_those_of_ndarray() {
    matrices_and_vectors::<f32>("libraries::products_of_matrices_and_vectors_are_those_of_ndarray");
    matrices_and_vectors::<f64>("libraries::products_of_matrices_and_vectors_are_those_of_ndarray");
}

fn matrices_and_matrices<T: Real>(test: &str) {
    for [m, n, k] in [[1, 1, 1], [5, 7, 3], [33, 65, 17], [129, 130, 131], [1031, 1100, 900]] {
        let (a, b) = (numbers::<T>(m * k, 47), numbers::<T>(k * n, 48));
        let left = Mat::from_fn(m, k, |i, l| a[i * k + l].wide());
        let right = Mat::from_fn(k, n, |l, j| b[l * n + j].wide());
        let abs = |of: &Mat<f64>| Mat::from_fn(of.nrows(), of.ncols(), |i, j| of[(i, j)].abs());
        let (product, size) = (&left * &right, &abs(&left) * &abs(&right));
        let expected: Vec<f64> = (0..m * n).map(|at| product[(at / n, at % n)]).collect();
        let (a, b) = (FlashMemory::from(a), FlashMemory::from(b));
        let (a, b) = (a.with_shape([k, m]).unwrap(), b.with_shape([n, k]).unwrap());
        for (which, rt) in on(matrices::everywhere, test, m * n * k) {
            let c = FlashMemory::zeroed([n, m]);
            rt.submit(mmm([m, n, k], &a, &b, &c).unwrap()).exec([m]).unwrap();
            let bound = |at: usize| bound::<T>(k, size[(at / n, at % n)]);
            near(&c.read().unwrap(), &expected, bound, &format!("{which}, {m} x {n} x {k}"));
        }
    }
}

#[test]
fn products_of_matrices_are_those_of_faer() {
    matrices_and_matrices::<f32>("libraries::products_of_matrices_are_those_of_faer");
    matrices_and_matrices::<f64>("libraries::products_of_matrices_are_those_of_faer");
}

fn sparse_products<T: Real>(test: &str) {
    for ([m, n, k], most) in [([1, 1, 1], 1), ([9, 5, 7], 4), ([333, 17, 211], 30), ([20_000, 33, 5003], 60)]
    {
        // Rows of 0 to `most` elements, a fixed distance apart, from some column on.
        let columns = |row: usize| {
            let (elements, apart) = (row * 7919 % (most + 1), (k / most).max(1));
            (0..elements.min(k)).map(move |i| (row * 31 % apart + i * apart) % k)
        };
        let mut start = vec![0usize];
        let mut column = Vec::new();
        for row in 0..m {
            column.extend(columns(row));
            start.push(column.len());
        }
        let (value, b) = (numbers::<T>(column.len(), 49), numbers::<T>(k * n, 50));
        let dense = wide(&b).into_shape_with_order((k, n)).unwrap();
        let sparse = CsMat::new((m, k), start.clone(), column.clone(), wide(&value).to_vec());
        let sizes_of = sparse.map(|x| x.abs());
        let expected: Array2<f64> = &sparse * &dense;
        let size: Array2<f64> = &sizes_of * &dense.mapv(f64::abs);
        let (expected, size) = (expected.flatten().to_vec(), size.flatten().to_vec());
        let x = numbers::<T>(k, 55);
        let (y_expected, y_size) = (&sparse * &wide(&x), &sizes_of * &sizes(&wide(&x)));
        let start: FlashMemory<u64> = start.into_iter().map(|at| at as u64).collect();
        let operations = column.len() * n;
        let column: FlashMemory<u32> = column.into_iter().map(|at| at as u32).collect();
        let a = Csr::new([m, k], start, column, value).unwrap();
        let (x, b) = (FlashMemory::from(x), FlashMemory::from(b).with_shape([n, k]).unwrap());
        for (which, rt) in on(all, test, operations) {
            let y = FlashMemory::zeroed(m);
            rt.submit(spmv(&a, &x, &y).unwrap()).exec([m]).unwrap();
            let (expected_of, bound_of) = (y_expected.as_slice().unwrap(), |i| bound::<T>(most, y_size[i]));
            near(&y.read().unwrap(), expected_of, bound_of, &format!("{which}, {m} x {k}"));
            let c = FlashMemory::zeroed([n, m]);
            rt.submit(smmm(&a, &b, &c).unwrap()).exec([m]).unwrap();
            let bound = |at: usize| bound::<T>(most, size[at]);
            near(&c.read().unwrap(), &expected, bound, &format!("{which}, {m} x {n} x {k}"));
        }
    }
}

#[test]
fn products_of_sparse_matrices_are_those_of_sprs() {
    sparse_products::<f32>("libraries::products_of_sparse_matrices_are_those_of_sprs");
    sparse_products::<f64>("libraries::products_of_sparse_matrices_are_those_of_sprs");
}

fn convolutions<T: Real>(test: &str) {
    for (k, n) in [(1, 1), (3, 7), (31, 1000), (64, 4097), (63, 1_000_000)] {
        let (filter, signal) = (numbers::<T>(k, 51), numbers::<T>(n, 52));
        let len = n - k + 1;
        // A multiple of the signal from each place on.
        let sum = |filter: &Array1<f64>, signal: &Array1<f64>| {
            let mut out = Array1::<f64>::zeros(len);
            for (j, h) in filter.iter().enumerate() {
                out.scaled_add(*h, &signal.slice(s![k - 1 - j..k - 1 - j + len]));
            }
            out
        };
        let (h, x) = (wide(&filter), wide(&signal));
        let (expected, size) = (sum(&h, &x), sum(&sizes(&h), &sizes(&x)));
        let (filter, signal) = (FlashMemory::from(filter), FlashMemory::from(signal));
        for (which, rt) in on(all, test, len * k) {
            let out = FlashMemory::zeroed(len);
            rt.submit(conv1d(&filter, &signal, &out).unwrap()).exec([len]).unwrap();
            let expected = expected.as_slice().unwrap();
            near(&out.read().unwrap(), expected, |i| bound::<T>(k, size[i]), &format!("{which}, {k} in {n}"));
        }
    }
}

#[test]
fn convolutions_are_sums_of_ndarrays_slices() {
    convolutions::<f32>("libraries::convolutions_are_sums_of_ndarrays_slices");
    convolutions::<f64>("libraries::convolutions_are_sums_of_ndarrays_slices");
}

#[allow(clippy::reversed_empty_ranges)] // of ndarray's slices: ends below 0 count from the last
fn sweeps<T: Real>(test: &str) {
    for [nx, ny, nz] in [[3, 3, 3], [5, 4, 7], [33, 18, 9], [130, 130, 130]] {
        let n = nx * ny * nz;
        let (u, f) = (numbers::<T>(n, 53), numbers::<T>(n, 54));
        let cube = |x: &[T]| wide(x).into_shape_with_order((nz, ny, nx)).unwrap();
        let sweep = |u: &Array3<f64>, f: &Array3<f64>| {
            let mut to = u.clone();
            let around = [s![1..-1, 1..-1, ..-2], s![1..-1, 1..-1, 2..], s![1..-1, ..-2, 1..-1]];
            let around = around.map(|part| u.slice(part)).into_iter();
            let around = around.chain(
                [s![1..-1, 2.., 1..-1], s![..-2, 1..-1, 1..-1], s![2.., 1..-1, 1..-1]]
                    .map(|part| u.slice(part)),
            );
            let mut sum = f.slice(s![1..-1, 1..-1, 1..-1]).mapv(|f| -0.0625 * f);
            around.for_each(|neighbours| sum += &neighbours);
            to.slice_mut(s![1..-1, 1..-1, 1..-1]).assign(&(sum / 6.0));
            to.flatten().to_vec()
        };
        let expected = sweep(&cube(&u), &cube(&f));
        let memory = |x: &[T]| FlashMemory::from(x).with_shape([nx, ny, nz]).unwrap();
        let (from, f) = (memory(&u), memory(&f));
        for (which, rt) in on(all, test, 7 * n) {
            let to = memory(&u);
            let dims = (1..nx - 1, 1..ny - 1, 1..nz - 1);
            rt.submit(js(T::of(0.25), &from, &f, &to).unwrap()).exec(dims).unwrap();
            // Seven terms below 1, and a division by 6, or a product with a sixth.
            let what = format!("{which}, {nx} x {ny} x {nz}");
            near(&to.read().unwrap(), &expected, |_| bound::<T>(9, 7.0 / 6.0), &what);
        }
    }
}

#[test]
fn sweeps_are_sums_of_ndarrays_slices() {
    sweeps::<f32>("libraries::sweeps_are_sums_of_ndarrays_slices");
    sweeps::<f64>("libraries::sweeps_are_sums_of_ndarrays_slices");
}
