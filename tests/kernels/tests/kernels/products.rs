//! `vdp` and `mvm`: sums of products.

use crate::{Real, all, near, numbers};
use flash::kernels::mvm::Mvm;
use flash::kernels::{mvm, vdp};
use flash::prelude::*;

/// The sum of products, and of their sizes.
fn dot<T: Real>(x: &[T], y: &[T]) -> (f64, f64) {
    let products = x.iter().zip(y).map(|(x, y)| x.wide() * y.wide());
    products.fold((0.0, 0.0), |(sum, size), product| (sum + product, size + product.abs()))
}

/// The error allowed for a sum of `n` products whose sizes add up to `size`: a chain of additions in each
/// lane, of which there are at least 16.
fn bound<T: Real>(n: usize, size: f64) -> f64 {
    (n as f64 / 16.0 + 16.0) * T::EPSILON * size
}

fn vectors<T: Real>(test: &str) {
    for n in [1, 2, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097, 100_003] {
        let (x, y) = (numbers::<T>(n, 5), numbers::<T>(n, 6));
        let (expected, size) = dot(&x, &y);
        let (x, y) = (FlashMemory::from(x), FlashMemory::from(y));
        let mut bits = Vec::new();
        for (which, rt) in all(test) {
            let sum = FlashMemory::zeroed(1);
            rt.submit(vdp(&x, &y, &sum).unwrap()).exec([n]).unwrap();
            let found = sum.get(0).unwrap();
            near(&[found], &[expected], |_| bound::<T>(n.min(4096), size), &format!("{which}, {n}"));
            bits.push(found.bits());
        }
        for pair in bits.chunks(2) {
            assert_eq!(pair[0], pair[1], "whole and cut, {n} of {}", T::NAME);
        }
    }
}

#[test]
fn dot_products_are_right_and_no_cut_changes_a_bit() {
    vectors::<f32>("products::dot_products_are_right_and_no_cut_changes_a_bit");
    vectors::<f64>("products::dot_products_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn dot_products_do_not_depend_on_the_number_of_threads() {
    let (x, y) = (numbers::<f32>(300_001, 7), numbers::<f32>(300_001, 8));
    let run = || {
        let (x, y, sum) = (FlashMemory::from(&x[..]), FlashMemory::from(&y[..]), FlashMemory::zeroed(1));
        get_runtime("ALL_CPU").unwrap().submit(vdp(&x, &y, &sum).unwrap()).exec([x.len()]).unwrap();
        sum.get(0).unwrap().to_bits()
    };
    let here = run();
    for threads in ["1", "2", "7"] {
        flash_tests::in_process(&[("FLASH_CPU_THREADS", threads), ("EXPECTED", &here.to_string())], || {
            assert_eq!(run().to_string(), std::env::var("EXPECTED").unwrap(), "{threads} threads");
        });
    }
}

#[test]
fn what_is_not_a_number_stays_in_a_dot_product() {
    for (which, rt) in all("products::what_is_not_a_number_stays_in_a_dot_product") {
        for (at, value) in [(0, f64::NAN), (70, f64::NAN), (99, f64::INFINITY)] {
            let mut x = vec![1.0; 100];
            x[at] = value;
            let (x, y, sum) = (FlashMemory::from(x), FlashMemory::from([0.5; 100]), FlashMemory::zeroed(1));
            rt.submit(vdp(&x, &y, &sum).unwrap()).exec([100]).unwrap();
            near(&[sum.get(0).unwrap()], &[value], |_| 0.0, &which);
        }
    }
}

fn matrix_and_vector<T: Real>(test: &str) {
    for [m, n, leading] in [[1, 1, 1], [1, 100, 100], [3, 2, 5], [17, 65, 65], [100, 33, 40], [257, 129, 129]]
    {
        let (a, x) = (numbers::<T>(m * leading, 9), numbers::<T>(n, 10));
        let expected: Vec<(f64, f64)> = a.chunks(leading).map(|row| dot(&row[..n], &x)).collect();
        let (sums, sizes): (Vec<f64>, Vec<f64>) = expected.into_iter().unzip();
        let a = FlashMemory::from(a).with_shape([leading, m]).unwrap();
        let x = FlashMemory::from(x);
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let y = FlashMemory::zeroed(m);
            rt.submit(mvm([m, n], &a, &x, &y).unwrap()).exec([m]).unwrap();
            let y = y.read().unwrap();
            near(&y, &sums, |i| bound::<T>(n, sizes[i]), &format!("{which}, {m} x {n}"));
            bits.push(y.iter().map(|y| y.bits()).collect());
        }
        for pair in bits.chunks(2) {
            assert_eq!(pair[0], pair[1], "whole and cut, {m} x {n} of {}", T::NAME);
        }
    }
}

#[test]
fn products_of_matrices_and_vectors_are_right_and_no_cut_changes_a_bit() {
    matrix_and_vector::<f32>("products::products_of_matrices_and_vectors_are_right_and_no_cut_changes_a_bit");
    matrix_and_vector::<f64>("products::products_of_matrices_and_vectors_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn what_does_not_fit_is_refused_and_both_sides_named() {
    let a = FlashMemory::<f32>::zeroed([4, 3]);
    let (three, four) = (FlashMemory::zeroed(3), FlashMemory::zeroed(4));
    let text = |error: flash::Error| error.to_string();
    assert_eq!(
        mvm([3, 5], &a, &four, &three).map(|_| ()).map_err(text).unwrap_err(),
        "kernel `flash.mvm`, argument `a`: expected a matrix of 3 rows and 5 columns, that is the shape [5, 3] or larger extents, found the shape [4, 3]: give it such a shape, the length of a row first"
    );
    assert_eq!(
        mvm([3, 4], &four, &four, &three).map(|_| ()).map_err(text).unwrap_err(),
        "kernel `flash.mvm`, argument `a`: expected a matrix of 3 rows and 4 columns, that is the shape [4, 3] or larger extents, found 4 elements without a shape: give it such a shape, the length of a row first"
    );
    assert_eq!(
        mvm([3, 4], &a, &three, &three).map(|_| ()).map_err(text).unwrap_err(),
        "kernel `flash.mvm`, argument `x`: expected 4 elements, as the matrix has columns, found 3: pass an array of that length"
    );
    assert_eq!(
        vdp(&three, &four, &three).map(|_| ()).map_err(text).unwrap_err(),
        "kernel `flash.vdp`, argument `y`: expected 3 elements, as `x` has, found 4: pass an array of that length"
    );
    // By `of`, errors that the types do not show are found when the kernel runs.
    let kernel = Mvm::<f32>::of(5, &a, &four, &three);
    let error = get_runtime("ALL_CPU").unwrap().submit(kernel).exec([3]).unwrap_err().to_string();
    assert!(error.contains("flash.mvm: expected a vector of 5 elements, found 4"), "{error}");
}
