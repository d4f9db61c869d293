//! `gemm`, `syrk`, `trsm` and `potrf`: what algorithms on tiles of matrices are made of.
//!
//! Errors are bounded as in Higham, Accuracy and Stability of Numerical Algorithms: of sums of products in
//! section 3.1; of a solution by its residual, theorem 8.5; of a factor by what it multiplies to, theorem
//! 10.3. All are `n` rounding errors of the sum of the sizes of `n` terms; the allowed ones are twice that
//! and a few.

use crate::matrices::{has_cublas, has_cusolver, with_openblas};
use crate::{Real, all_of, is_too_much, near, numbers};
use flash::RuntimeObj;
use flash::kernels::trsm::{Diagonal, Side};
use flash::kernels::{Operand, gemm, potrf, syrk, transposed, trsm};
use flash::prelude::*;
use flash_tests::emulated;

/// The CPU implementations whose bits do not depend on cuts.
const NAMES: [&str; 2] = ["blocked", "plain"];

/// The runtimes of all implementations of a kernel that GPUs have by a library, where they have that.
fn with_library(test: &str, library: &str, has: fn(&RuntimeObj) -> bool) -> Vec<(String, RuntimeObj)> {
    let mut all = all_of(test, &NAMES);
    if !emulated::is_here() {
        all.extend(with_openblas(test));
    }
    let (mut runtimes, mut libraries) = (Vec::new(), Vec::new());
    for (which, rt) in all {
        if !which.starts_with("NVIDIA_GPU") || !has(&rt) {
            runtimes.push((which, rt));
            continue;
        }
        // Its bits may depend on the number of rows.
        libraries.push((format!("{which}, by {library}"), rt.options(Implementation::named(library))));
        runtimes.push((which, rt.options(Implementation::named("any"))));
    }
    runtimes.append(&mut libraries);
    runtimes
}

/// The runtimes of all implementations of `gemm`, `syrk` and `trsm`.
fn everywhere(test: &str) -> Vec<(String, RuntimeObj)> {
    with_library(test, "cublas", has_cublas)
}

/// The runtimes of all implementations of `potrf`.
fn factorising(test: &str) -> Vec<(String, RuntimeObj)> {
    with_library(test, "cusolver", has_cusolver)
}

/// True for a runtime of a device, whose kernels leave out what is not there and cannot fail.
fn is_device(which: &str) -> bool {
    ["OPENCL", "INTEL", "NVIDIA"].iter().any(|key| which.starts_with(key))
}

fn bound<T: Real>(n: usize, size: f64) -> f64 {
    2.0 * (n + 4) as f64 * T::EPSILON * size
}

/// A matrix, row by row.
#[derive(Clone)]
struct Matrix<T> {
    rows: usize,
    columns: usize,
    elements: Vec<T>,
}

impl<T: Real> Matrix<T> {
    fn new([rows, columns]: [usize; 2], seed: u64) -> Matrix<T> {
        Matrix { rows, columns, elements: numbers(rows * columns, seed) }
    }

    /// Stored so that it is a matrix of this size, transposed or not.
    fn stored(is_transposed: bool, [rows, columns]: [usize; 2], seed: u64) -> Matrix<T> {
        Matrix::new(if is_transposed { [columns, rows] } else { [rows, columns] }, seed)
    }

    /// A lower triangle of a well-conditioned system; NaN where nothing may be read.
    fn triangle(n: usize, unit: bool, seed: u64) -> Matrix<T> {
        let mut matrix = Matrix::new([n, n], seed);
        for (at, element) in matrix.elements.iter_mut().enumerate() {
            let (i, j, value) = (at / n, at % n, Real::wide(*element));
            *element = T::of(match i.cmp(&j) {
                std::cmp::Ordering::Less => f64::NAN,
                std::cmp::Ordering::Equal if unit => f64::NAN,
                std::cmp::Ordering::Equal => 1.5 + value / 2.0,
                std::cmp::Ordering::Greater => value / f64::sqrt(n as f64),
            });
        }
        matrix
    }

    /// A positive definite matrix, symmetric but for NaN above the diagonal.
    fn definite(n: usize, seed: u64) -> Matrix<T> {
        let half = Matrix::<T>::new([n, n], seed);
        let mut matrix = Matrix { rows: n, columns: n, elements: vec![T::of(f64::NAN); n * n] };
        for i in 0..n {
            for j in 0..=i {
                let sum: f64 = (0..n).map(|p| half.at(false, i, p) * half.at(false, j, p)).sum();
                matrix.elements[i * n + j] = T::of(sum + if i == j { 1.0 } else { 0.0 });
            }
        }
        matrix
    }

    /// An element, of the transposed matrix or not.
    fn at(&self, is_transposed: bool, i: usize, j: usize) -> f64 {
        let [i, j] = if is_transposed { [j, i] } else { [i, j] };
        self.elements[i * self.columns + j].wide()
    }

    fn memory(&self) -> FlashMemory<T> {
        FlashMemory::from(&self.elements[..]).with_shape([self.columns, self.rows]).unwrap()
    }
}

fn operand<T: Real>(is_transposed: bool, memory: &FlashMemory<T>) -> Operand<'_, T> {
    if is_transposed { transposed(memory) } else { memory.into() }
}

/// Asserts that cut launches have the bits of the whole ones before them.
struct Bits(Vec<u64>);

impl Bits {
    #[track_caller]
    fn check<T: Real>(&mut self, found: &[T], which: &str, what: &str) {
        let bits: Vec<u64> = found.iter().map(|x| x.bits()).collect();
        assert!(!which.ends_with("cut") || self.0 == bits, "{which}, {what}: a cut changes bits");
        self.0 = bits;
    }
}

/// 1 and 0, those of factorisations, and those that nothing may be read with.
const SCALES: [[f64; 2]; 5] = [[1.0, 0.0], [-1.0, 1.0], [0.5, -2.0], [0.0, 0.5], [0.0, 0.0]];

fn products<T: Real>(test: &str) {
    const SIZES: [[usize; 3]; 9] = [
        [1, 1, 1],
        [2, 3, 4],
        [15, 33, 9],
        [13, 31, 7],
        [64, 64, 64],
        [3, 4, 0],
        [3, 0, 2],
        [70, 90, 130],
        [130, 65, 600], // for libraries, too
    ];
    let runtimes = everywhere(test);
    for [m, n, k] in SIZES.into_iter().filter(|[m, n, k]| !is_too_much(m * n * k)) {
        for (turned, [alpha, beta]) in (0..4).flat_map(|turned| SCALES.map(|scales| (turned, scales))) {
            // The large ones once each.
            if m * n * k > 200_000 && (beta != -2.0) {
                continue;
            }
            let [of_a, of_b] = [turned & 1 != 0, turned & 2 != 0];
            let mut a = Matrix::<T>::stored(of_a, [m, k], 101);
            let b = Matrix::<T>::stored(of_b, [k, n], 102);
            let mut c = Matrix::<T>::new([m, n], 103);
            // What is multiplied with 0 is not read.
            if alpha == 0.0 {
                a.elements.fill(T::of(f64::NAN));
            }
            if beta == 0.0 {
                c.elements.fill(T::of(f64::NAN));
            }
            let (mut sums, mut sizes) = (vec![0.0; m * n], vec![0.0; m * n]);
            for (at, (sum, size)) in sums.iter_mut().zip(&mut sizes).enumerate() {
                let (i, j) = (at / n, at % n);
                if beta != 0.0 {
                    *sum = beta * c.at(false, i, j);
                    *size = sum.abs();
                }
                for l in (0..k).filter(|_| alpha != 0.0) {
                    let product = alpha * a.at(of_a, i, l) * b.at(of_b, l, j);
                    *sum += product;
                    *size += product.abs();
                }
            }
            let (a, b) = (a.memory(), b.memory());
            let mut bits = Bits(Vec::new());
            let what = format!("{alpha} * {m} x {k} ({of_a}) * {k} x {n} ({of_b}) + {beta}, {}", T::NAME);
            for (which, rt) in &runtimes {
                let to = c.memory();
                let (left, right) = (operand(of_a, &a), operand(of_b, &b));
                let kernel = gemm(T::of(alpha), left, right, T::of(beta), &to).unwrap();
                rt.submit(kernel).exec([m]).unwrap();
                let to = to.read().unwrap();
                near(&to, &sums, |i| bound::<T>(k, sizes[i]), &format!("{which}, {what}"));
                bits.check(&to, which, &what);
            }
        }
    }
}

#[test]
fn products_of_all_forms_are_added_and_no_cut_changes_a_bit() {
    products::<f32>("factors::products_of_all_forms_are_added_and_no_cut_changes_a_bit");
    products::<f64>("factors::products_of_all_forms_are_added_and_no_cut_changes_a_bit");
}

fn symmetric<T: Real>(test: &str) {
    const SIZES: [[usize; 2]; 7] = [[1, 1], [3, 5], [31, 33], [65, 64], [3, 0], [130, 9], [200, 150]];
    let runtimes = everywhere(test);
    for [n, k] in SIZES.into_iter().filter(|[n, k]| !is_too_much(n * n * k / 2)) {
        for (of_a, [alpha, beta]) in [false, true].into_iter().flat_map(|of_a| SCALES.map(|s| (of_a, s))) {
            let mut a = Matrix::<T>::stored(of_a, [n, k], 111);
            let mut c = Matrix::<T>::new([n, n], 112);
            if alpha == 0.0 {
                a.elements.fill(T::of(f64::NAN));
            }
            let (mut sums, mut sizes) = (vec![0.0; n * n], vec![0.0; n * n]);
            for at in 0..n * n {
                let (i, j) = (at / n, at % n);
                // Above the diagonal everything stays.
                if j > i {
                    c.elements[at] = T::of(7.0 + at as f64);
                    sums[at] = c.elements[at].wide();
                    continue;
                }
                match beta {
                    0.0 => c.elements[at] = T::of(f64::NAN),
                    _ => sums[at] = beta * c.at(false, i, j),
                }
                sizes[at] = sums[at].abs();
                for l in (0..k).filter(|_| alpha != 0.0) {
                    let product = alpha * a.at(of_a, i, l) * a.at(of_a, j, l);
                    sums[at] += product;
                    sizes[at] += product.abs();
                }
            }
            let a = a.memory();
            let mut bits = Bits(Vec::new());
            let what = format!("{alpha} * {n} x {k} ({of_a}) + {beta}, {}", T::NAME);
            for (which, rt) in &runtimes {
                let to = c.memory();
                let kernel = syrk(T::of(alpha), operand(of_a, &a), T::of(beta), &to).unwrap();
                rt.submit(kernel).exec([n]).unwrap();
                let to = to.read().unwrap();
                near(&to, &sums, |i| bound::<T>(k, sizes[i]), &format!("{which}, {what}"));
                bits.check(&to, which, &what);
            }
        }
    }
}

#[test]
fn lower_triangles_of_symmetric_products_are_added_and_no_cut_changes_a_bit() {
    symmetric::<f32>("factors::lower_triangles_of_symmetric_products_are_added_and_no_cut_changes_a_bit");
    symmetric::<f64>("factors::lower_triangles_of_symmetric_products_are_added_and_no_cut_changes_a_bit");
}

/// Work items of a launch.
fn items(side: Side, rows: usize) -> usize {
    match side {
        Side::Left => 1,
        Side::Right => rows,
    }
}

fn systems<T: Real>(test: &str) {
    // Unknowns, and systems.
    const SIZES: [[usize; 2]; 8] = [[1, 1], [2, 3], [5, 1], [33, 17], [64, 5], [4, 0], [0, 4], [150, 200]];
    let runtimes = everywhere(test);
    let cases = |n: usize| {
        let forms = [Side::Left, Side::Right].into_iter().flat_map(|side| {
            [false, true].into_iter().flat_map(move |of_l| {
                [Diagonal::Stored, Diagonal::Unit].map(|diagonal| (side, of_l, diagonal))
            })
        });
        let alphas: &[f64] = if n > 100 { &[-0.5] } else { &[1.0, -0.5, 0.0] };
        forms.flat_map(move |form| alphas.iter().map(move |alpha| (form, *alpha)))
    };
    for [n, count] in SIZES.into_iter().filter(|[n, count]| !is_too_much(n * n * count / 2)) {
        for ((side, of_l, diagonal), alpha) in cases(n) {
            let is_unit = diagonal == Diagonal::Unit;
            let mut l = Matrix::<T>::triangle(n, is_unit, 121);
            let [rows, columns] = if side == Side::Left { [n, count] } else { [count, n] };
            let mut b = Matrix::<T>::new([rows, columns], 122);
            if alpha == 0.0 {
                l.elements.fill(T::of(f64::NAN));
                b.elements.fill(T::of(f64::NAN));
            }
            // The factor of an unknown in an equation.
            let factor = |equation: usize, unknown: usize| {
                let [i, j] = if side == Side::Left { [equation, unknown] } else { [unknown, equation] };
                let [i, j] = if of_l { [j, i] } else { [i, j] };
                match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal if is_unit => 1.0,
                    _ => l.at(false, i, j),
                }
            };
            let factors: Vec<f64> = (0..n * n).map(|at| factor(at / n, at % n)).collect();
            let memory = l.memory();
            let mut bits = Bits(Vec::new());
            let what = format!("{side:?}, {of_l}, {diagonal:?}, {alpha}, {n} x {count}, {}", T::NAME);
            for (which, rt) in &runtimes {
                let to = b.memory();
                let kernel = trsm(side, operand(of_l, &memory), diagonal, T::of(alpha), &to).unwrap();
                rt.submit(kernel).exec([items(side, rows)]).unwrap();
                let to = to.read().unwrap();
                bits.check(&to, which, &what);
                if alpha == 0.0 {
                    assert!(to.iter().all(|x| x.wide() == 0.0), "{which}, {what}");
                    continue;
                }
                let at = |x: &[T], unknown: usize, system: usize| {
                    let [i, j] = if side == Side::Left { [unknown, system] } else { [system, unknown] };
                    x[i * columns + j].wide()
                };
                for system in 0..count {
                    let x: Vec<f64> = (0..n).map(|unknown| at(&to, unknown, system)).collect();
                    for equation in 0..n {
                        let right = alpha * at(&b.elements, equation, system);
                        let (mut off, mut size) = (-right, right.abs());
                        for (factor, x) in factors[equation * n..][..n].iter().zip(&x) {
                            off += factor * x;
                            size += (factor * x).abs();
                        }
                        let allowed = bound::<T>(n, size);
                        assert!(
                            off.abs() <= allowed,
                            "{which}, {what}: equation {equation} of {system}: {off:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn triangular_systems_of_all_forms_are_solved_and_no_cut_changes_a_bit() {
    systems::<f32>("factors::triangular_systems_of_all_forms_are_solved_and_no_cut_changes_a_bit");
    systems::<f64>("factors::triangular_systems_of_all_forms_are_solved_and_no_cut_changes_a_bit");
}

/// Asserts that the lower triangle of `l` is the factor of `a`, and that nothing is written above it.
#[track_caller]
fn is_factor<T: Real>(l: &Matrix<T>, a: &Matrix<T>, what: &str) {
    let n = a.rows;
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        if j > i {
            assert!(l.at(false, i, j).is_nan(), "{what}, {n}: {i}, {j} is above the diagonal");
            continue;
        }
        let terms = || (0..=j).map(|p| l.at(false, i, p) * l.at(false, j, p));
        let off = terms().sum::<f64>() - a.at(false, i, j);
        let allowed = bound::<T>(n, terms().map(f64::abs).sum());
        assert!(off.abs() <= allowed, "{what}, {n} of {}: {i}, {j}: {off:e}", T::NAME);
    }
}

fn cholesky<T: Real>(test: &str) {
    let runtimes = factorising(test);
    for n in [0, 1, 2, 5, 33, 64, 65, 260].into_iter().filter(|n| !is_too_much(n * n * n / 3)) {
        let a = Matrix::<T>::definite(n, 131);
        for (which, rt) in &runtimes {
            let to = a.memory();
            rt.submit(potrf(&to).unwrap()).exec([1]).unwrap();
            potrf::check(&to).unwrap();
            is_factor(&Matrix { elements: to.read().unwrap().to_vec(), ..a }, &a, which);
        }
    }
}

#[test]
fn factors_multiply_to_the_matrix_and_leave_the_other_triangle_alone() {
    cholesky::<f32>("factors::factors_multiply_to_the_matrix_and_leave_the_other_triangle_alone");
    cholesky::<f64>("factors::factors_multiply_to_the_matrix_and_leave_the_other_triangle_alone");
}

/// Some matrices one after another, with more elements behind each row and behind the last one.
fn several<T: Real>(test: &str) {
    const BETWEEN: f64 = 7.0;
    let runtimes = factorising(test);
    for (n, more, rest, count) in
        [(0, 0, 3, 2), (1, 2, 0, 5), (7, 0, 0, 4), (20, 3, 11, 3), (33, 31, 1, 2), (150, 5, 0, 2)]
    {
        if is_too_much(count * n * n * n / 3) {
            continue;
        }
        let (lda, len) = (n + more, n * (n + more) + rest);
        let matrices: Vec<_> = (0..count).map(|k| Matrix::<T>::definite(n, 171 + k as u64)).collect();
        let mut elements = vec![T::of(BETWEEN); count * len];
        for (to, matrix) in elements.chunks_exact_mut(len).zip(&matrices) {
            for i in 0..n {
                to[i * lda..][..n].copy_from_slice(&matrix.elements[i * n..][..n]);
            }
        }
        for (which, rt) in &runtimes {
            let a = FlashMemory::from(&elements[..]);
            let kernel = potrf::Potrf::of(n as u64, lda as u64, &a);
            rt.submit(kernel).exec([count]).unwrap();
            let found = a.read().unwrap();
            for (k, (found, matrix)) in found.chunks_exact(len).zip(&matrices).enumerate() {
                let what = format!("{which}, matrix {k} of {count}, {lda} apart");
                let at = |(i, j): (usize, usize)| found[i * lda + j];
                let elements = (0..n * n).map(|at_| at((at_ / n, at_ % n))).collect();
                is_factor(&Matrix { elements, ..*matrix }, matrix, &what);
                let between = (0..len).filter(|at| n == 0 || at / lda >= n || at % lda >= n);
                between.for_each(|at| assert_eq!(found[at].wide(), BETWEEN, "{what}: element {at}"));
            }
        }
    }
}

#[test]
fn several_matrices_are_factorised_each_in_its_place() {
    several::<f32>("factors::several_matrices_are_factorised_each_in_its_place");
    several::<f64>("factors::several_matrices_are_factorised_each_in_its_place");
}

/// An identity, but for a pivot. Its element on the diagonal is positive where it can be.
fn with_pivot<T: Real>(n: usize, row: usize, pivot: f64) -> FlashMemory<T> {
    let element = |at: usize| match (at / n, at % n) {
        (i, j) if i == row && j + 1 == row => 2.0,
        (i, j) if i == row && j == row => pivot + if row == 0 { 0.0 } else { 4.0 },
        (i, j) => f64::from(u8::from(i == j)),
    };
    (0..n * n).map(|at| T::of(element(at))).collect::<FlashMemory<T>>().with_shape([n, n]).unwrap()
}

fn pivots<T: Real>(test: &str) {
    let cases = [
        (1, 0, 0.0, "0e0"),
        (1, 0, -3.0, "-3e0"),
        (2, 1, 0.0, "0e0"),
        (5, 3, -2.5, "-2.5e0"),
        (90, 70, f64::NAN, "NaN"),
        (90, 89, -0.125, "-1.25e-1"),
        // Beyond what is too small for libraries.
        (260, 259, f64::NAN, "NaN"),
        (260, 200, -0.125, "-1.25e-1"),
    ];
    for (which, rt) in factorising(test) {
        for (n, row, pivot, shown) in cases.into_iter().filter(|(n, ..)| !is_too_much(n * n * n / 3)) {
            let a = with_pivot::<T>(n, row, pivot);
            let error = match rt.submit(potrf(&a).unwrap()).exec([1]) {
                Err(error) if !is_device(&which) => {
                    assert!(matches!(a.get(0), Err(flash::Error::Poisoned)), "{which}");
                    error
                }
                // Kernels of devices cannot report it.
                Ok(()) if is_device(&which) => potrf::check(&a).unwrap_err(),
                other => panic!("{which}: {other:?}"),
            };
            let expected = |pivot: &str| {
                format!(
                    "expected a positive definite matrix, found the pivot {pivot} in row {row} of {n}, counted from 0: check the matrix, or add something to its diagonal"
                )
            };
            let text = error.to_string();
            let is_there = |pivot| text.contains(&expected(pivot));
            // cuSOLVER says only the row.
            let is_right = is_there(shown) || which.ends_with("by cusolver") && is_there("NaN");
            assert!(is_right && text.contains("flash.potrf"), "{which}, {n}, {row}: {text}");
            // The device goes on.
            let a = Matrix::<T>::definite(3, 132);
            let to = a.memory();
            rt.submit(potrf(&to).unwrap()).exec([1]).unwrap();
            potrf::check(&to).unwrap();
            is_factor(&Matrix { elements: to.read().unwrap().to_vec(), ..a }, &a, &which);
        }
    }
}

#[test]
fn a_pivot_that_is_not_positive_is_an_error_with_its_row_and_value() {
    pivots::<f32>("factors::a_pivot_that_is_not_positive_is_an_error_with_its_row_and_value");
    pivots::<f64>("factors::a_pivot_that_is_not_positive_is_an_error_with_its_row_and_value");
}

/// Launches with sizes that the arrays do not have: devices leave out what is not there, libraries refuse
/// them.
#[test]
fn code_for_devices_stays_inside_its_arrays() {
    use flash::kernels::{gemm::Gemm, potrf::Potrf, syrk::Syrk, trsm::Trsm};
    const MANY: u64 = 1 << 40;
    const TEST: &str = "factors::code_for_devices_stays_inside_its_arrays";
    let on_devices = |mut runtimes: Vec<(String, RuntimeObj)>| {
        runtimes.retain(|(which, _)| is_device(which));
        runtimes
    };
    for (which, rt) in &on_devices(everywhere(TEST)) {
        let [a, c] =
            [16, 12].map(|n: usize| numbers::<f64>(n, 161).into_iter().collect::<FlashMemory<f64>>());
        let done = |result: Result<(), flash::Error>, what: &str| {
            assert!(result.is_ok() != which.ends_with("by cublas"), "{which}, {what}: {result:?}");
            // What a library refuses is poisoned.
            c.write().unwrap().fill(1.0);
        };
        for (n, k, lda, ldb) in [
            (4, MANY, MANY, 4),
            (4, 4, u64::MAX, 4),
            (4, 4, 4, u64::MAX),
            (4, MANY, 0, 0),
            (MANY, 4, 4, MANY),
            (9, 4, 4, 9),
        ] {
            for turned in [[0, 0], [1, 1]] {
                let kernel = Gemm::of(1.0, 0.0, n, k, turned[0], turned[1], lda, ldb, 4, &a, &a, &c);
                done(rt.submit(kernel).exec([3]), &format!("gemm {n} {k} {lda} {ldb} {turned:?}"));
            }
        }
        for (k, lda) in [(MANY, 4), (MANY, MANY), (4, u64::MAX), (MANY, 0)] {
            for turned in [0, 1] {
                let kernel = Syrk::of(1.0, 0.0, k, turned, lda, 4, &a, &c);
                done(rt.submit(kernel).exec([3]), &format!("syrk {k} {lda} {turned}"));
            }
        }
        for (n, width, ldl, ldb) in [
            (MANY, MANY, MANY, MANY),
            (3, 4, u64::MAX, 4),
            (3, MANY, 3, MANY),
            (5, 2, 5, 4),
            (3, 4, 3, u64::MAX),
        ] {
            for (right, items) in [(0, 1), (1, 3)] {
                let kernel = Trsm::of(1.0, n, width, right, 0, 0, ldl, ldb, &a, &c);
                done(rt.submit(kernel).exec([items]), &format!("trsm {n} {width} {right} {ldl} {ldb}"));
            }
        }
    }
    for (which, rt) in &on_devices(factorising(TEST)) {
        let c = FlashMemory::<f64>::zeroed(12);
        for (n, lda) in [(4, 4), (3, u64::MAX), (MANY, MANY), (MANY, 0)] {
            let result = rt.submit(Potrf::of(n, lda, &c)).exec([1]);
            assert!(result.is_ok() != which.ends_with("by cusolver"), "{which}, {n} {lda}: {result:?}");
            c.write().unwrap().fill(1.0);
        }
        // The distance of a single row may be anything.
        rt.submit(Potrf::of(1, i64::MAX as u64, &c)).exec([1]).unwrap();
        assert_eq!(c.get(0).unwrap(), 1.0, "{which}");
    }
}

#[test]
fn a_kernel_that_shares_its_work_out_itself_is_not_said_to_leave_threads_idle() {
    const TEST: &str = "factors::a_kernel_that_shares_its_work_out_itself_is_not_said_to_leave_threads_idle";
    const NAME: &str = "FLASH_TEST_IMPLEMENTATION";
    if let Ok(name) = std::env::var(NAME) {
        let a = Matrix::<f64>::definite(5, 151).memory();
        let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named(name));
        return rt.submit(potrf(&a).unwrap()).exec([1]).unwrap();
    }
    for (name, is_said) in [("plain", true), ("blocked", false)] {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture", "--test-threads=1"]);
        let done = command.env(NAME, name).env("FLASH_CPU_THREADS", "2").output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{text}");
        assert_eq!(text.contains("most threads idle"), is_said, "{name}: {text}");
    }
}

/// The result of each kernel on the devices of a key, with shares of two to one, as bits.
fn results<T: Real>(key: &str, name: &str) -> Vec<Vec<u64>> {
    let rt = get_runtime(key).unwrap();
    let shares = weights([2, 1].into_iter().take(rt.devices().len()));
    let rt = rt.options(shares).options(Implementation::named(name));
    let (m, n, k) = (129, 70, 90);
    let of = |memory: &FlashMemory<T>| memory.read().unwrap().iter().map(|x| x.bits()).collect::<Vec<_>>();
    let mut results = Vec::new();
    for of_a in [false, true] {
        let (a, b) =
            (Matrix::<T>::stored(of_a, [m, k], 141).memory(), Matrix::<T>::new([k, n], 142).memory());
        let c = Matrix::<T>::new([m, n], 143).memory();
        rt.submit(gemm(T::of(0.5), operand(of_a, &a), &b, T::of(-2.0), &c).unwrap()).exec([m]).unwrap();
        results.push(of(&c));
        let c = Matrix::<T>::new([m, m], 144).memory();
        rt.submit(syrk(T::of(-1.0), operand(of_a, &a), T::ONE, &c).unwrap()).exec([m]).unwrap();
        results.push(of(&c));
        let l = Matrix::<T>::triangle(n, false, 145).memory();
        for (side, shape) in [(Side::Left, [n, m]), (Side::Right, [m, n])] {
            let b = Matrix::<T>::new(shape, 146).memory();
            let kernel = trsm(side, operand(of_a, &l), Diagonal::Stored, T::of(0.5), &b).unwrap();
            rt.submit(kernel).exec([items(side, shape[0])]).unwrap();
            results.push(of(&b));
        }
    }
    let a = Matrix::<T>::definite(n, 147).memory();
    rt.submit(potrf(&a).unwrap()).exec([1]).unwrap();
    results.push(of(&a));
    results
}

#[test]
fn two_devices_give_the_bits_of_one() {
    for devices in [&[("FLASH_CPU_DEVICES", "2")][..], flash_tests::APART[2]] {
        flash_tests::in_process(devices, || {
            for name in NAMES {
                let (one, two) = (flash_tests::id(0), flash_tests::key());
                assert!(results::<f32>(&one, name) == results::<f32>(&two, name), "{name} of f32");
                assert!(results::<f64>(&one, name) == results::<f64>(&two, name), "{name} of f64");
            }
        });
    }
}

#[test]
fn matrices_that_do_not_fit_are_refused_and_named() {
    let [a, b, c] = [[4, 3], [5, 4], [5, 3]].map(|shape: [usize; 2]| FlashMemory::<f32>::zeroed(shape));
    let text = |result: Result<(), flash::Error>| result.unwrap_err().to_string();
    assert!(gemm(1.0, &a, &b, 0.0, &c).is_ok());
    assert!(gemm(1.0, transposed(&b), transposed(&a), 0.0, &FlashMemory::zeroed([3, 5])).is_ok());
    assert_eq!(
        text(gemm(1.0, &a, transposed(&b), 0.0, &c).map(|_| ())),
        "kernel `flash.gemm`, argument `b`: expected 4 rows and 5 columns in the formula, the columns of `a` and of `c`, found 5 rows and 4 columns: pass a matrix of that size, or the `transposed` one"
    );
    assert_eq!(
        text(gemm(1.0, &b, &b, 0.0, &c).map(|_| ())),
        "kernel `flash.gemm`, argument `a`: expected 3 rows and 5 columns in the formula, the rows of `c`, found 4 rows and 5 columns: pass a matrix of that size, or the `transposed` one"
    );
    let flat = FlashMemory::<f32>::zeroed(12);
    assert_eq!(
        text(gemm(1.0, &flat, &b, 0.0, &c).map(|_| ())),
        "kernel `flash.gemm`, argument `a`: expected a matrix, that is a shape [columns, rows], found 12 elements of the shape []: give it such a shape, the length of a row first"
    );
    assert!(text(syrk(1.0, &a, 0.0, &c).map(|_| ())).contains("argument `c`: expected 3 rows and 3 columns"));
    let of_a = transposed(&a);
    assert!(
        text(syrk(1.0, of_a, 0.0, &c).map(|_| ())).contains("argument `c`: expected 4 rows and 4 columns")
    );
    let solve = |side| text(trsm(side, &a, Diagonal::Unit, 1.0, &c).map(|_| ()));
    assert!(
        solve(Side::Left)
            .contains("argument `l`: expected 3 rows and 3 columns in the formula, as `b` has rows")
    );
    assert!(
        solve(Side::Right).contains("`l`: expected 5 rows and 5 columns in the formula, as `b` has columns")
    );
    assert!(text(potrf(&a).map(|_| ())).contains("argument `a`: expected 3 rows and 3 columns"));
    assert!(text(potrf::check(&a)).contains("argument `a`: expected 3 rows and 3 columns"));
}

#[test]
fn raw_arrays_that_are_too_short_make_kernels_fail() {
    use flash::kernels::{gemm::Gemm, potrf::Potrf, syrk::Syrk, trsm::Trsm};
    let [few, c] = [11, 12].map(FlashMemory::<f64>::zeroed);
    for name in NAMES {
        let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named(name));
        let gemm = |flags: [u32; 2], [lda, ldb]: [u64; 2], a, b| {
            let kernel = Gemm::of(1.0, 0.0, 4, 4, flags[0], flags[1], lda, ldb, 4, a, b, &c);
            let text = rt.submit(kernel).exec([3]).unwrap_err().to_string();
            c.write().unwrap().fill(0.0);
            text
        };
        let [enough, more] = [16, 25].map(FlashMemory::<f64>::zeroed);
        let expected = "flash.gemm: expected 12 elements of `a` for 3 rows of 4, 4 apart, found 11: pass";
        assert!(gemm([0, 0], [4, 4], &few, &enough).contains(expected), "{name}");
        // Up to the last row of the launch, or of the work item.
        let expected = "elements of `a` for 4 rows of ";
        assert!(gemm([1, 0], [4, 4], &few, &enough).contains(expected), "{name}");
        let expected = "flash.gemm: expected 16 elements of `b` for 4 rows of 4, 4 apart, found 11: pass";
        assert!(gemm([0, 0], [4, 4], &enough, &few).contains(expected), "{name}");
        let expected = "flash.gemm: expected 13 elements of `b` for 4 rows of 4, 3 apart, found 16: pass";
        assert!(gemm([0, 1], [4, 3], &enough, &enough).contains(expected), "{name}");
        let kernel = Gemm::of(1.0, 0.0, 5, 4, 0, 0, 4, 5, 4, &enough, &more, &c);
        let text = rt.submit(kernel).exec([3]).unwrap_err().to_string();
        assert!(text.contains("rows of 4 elements in `c`, at least 5 each"), "{name}: {text}");
        c.write().unwrap().fill(0.0);

        let kernel = Syrk::of(1.0, 0.0, 4, 0, 4, 4, &few, &c);
        let text = rt.submit(kernel).exec([3]).unwrap_err().to_string();
        assert!(text.contains("flash.syrk: expected 12 elements of `a` for 3 rows of 4"), "{name}: {text}");
        c.write().unwrap().fill(0.0);
        let kernel = Syrk::of(1.0, 0.0, 4, 0, 4, 3, &enough, &c);
        let text = rt.submit(kernel).exec([4]).unwrap_err().to_string();
        assert!(text.contains("rows of 3 elements in `c`, at least 4 each"), "{name}: {text}");
        c.write().unwrap().fill(0.0);

        for (right, items, expected) in [
            (0, 1, "flash.trsm: expected 20 elements of `b` for 5 rows of 4, 4 apart, found 12"),
            (1, 3, "flash.trsm: expected 16 elements of `l` for 4 rows of 4, 4 apart, found 11"),
        ] {
            let (n, l) = if right == 1 { (4, &few) } else { (5, &more) };
            let kernel = Trsm::of(1.0, n, 4, right, 0, 0, n, 4, l, &c);
            let text = rt.submit(kernel).exec([items]).unwrap_err().to_string();
            assert!(text.contains(expected), "{name}: {text}");
            c.write().unwrap().fill(0.0);
        }
        let kernel = Trsm::of(1.0, 4, 4, 1, 0, 0, 4, 4, &enough, &c);
        let text = rt.submit(kernel).exec([1]).unwrap_err().to_string();
        assert!(text.contains("launch with the dimensions [rows of b]"), "{name}: {text}");
        c.write().unwrap().fill(0.0);
        let text = rt.submit(Potrf::of(4, 4, &c)).exec([1]).unwrap_err().to_string();
        assert!(text.contains("flash.potrf: expected 16 elements of `a` for 4 rows of 4"), "{name}: {text}");
        c.write().unwrap().fill(0.0);
    }
}
