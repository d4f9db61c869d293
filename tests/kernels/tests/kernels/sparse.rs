//! `smmm`.

use crate::{Real, all, near, numbers};
use flash::kernels::smmm;
use flash::kernels::smmm::Smmm;
use flash::prelude::*;

/// A matrix in CSR form, whose rows have 0 to `most` elements.
struct Sparse<T> {
    start: Vec<u64>,
    column: Vec<u32>,
    value: Vec<T>,
}

fn sparse<T: Real>(m: usize, k: usize, most: usize) -> Sparse<T> {
    let mut state = 99u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let (mut start, mut column) = (vec![0], Vec::new());
    for row in 0..m {
        // Every third row is empty.
        let elements = if row % 3 == 2 || k == 0 { 0 } else { below(most + 1) };
        column.extend((0..elements).map(|_| below(k) as u32));
        start.push(column.len() as u64);
    }
    let value = numbers(column.len(), 17);
    Sparse { start, column, value }
}

fn products<T: Real>(test: &str) {
    for ([m, n, k], most, more) in [
        ([1, 1, 1], 1, 0),
        ([5, 3, 4], 3, 2),
        ([40, 33, 25], 9, 0),
        ([200, 1, 70], 70, 0),
        ([3, 100, 1000], 500, 7),
        ([7, 0, 3], 2, 1),
        ([7, 5, 0], 0, 0),
    ] {
        let (a, lead) = (sparse::<T>(m, k, most), n + more);
        let b = numbers::<T>(k * lead, 18);
        let (mut sums, mut sizes) = (vec![0.0; m * n], vec![0.0; m * n]);
        for i in 0..m {
            for at in a.start[i] as usize..a.start[i + 1] as usize {
                for j in 0..n {
                    let product = a.value[at].wide() * b[a.column[at] as usize * lead + j].wide();
                    sums[i * n + j] += product;
                    sizes[i * n + j] += product.abs();
                }
            }
        }
        let (start, column, value) = (
            FlashMemory::from(&a.start[..]),
            FlashMemory::from(&a.column[..]),
            FlashMemory::from(&a.value[..]),
        );
        let b = FlashMemory::from(b).with_shape([lead, k]).unwrap();
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let c = FlashMemory::from(vec![T::of(7.0); m * n]).with_shape([n, m]).unwrap();
            rt.submit(smmm([m, n, k], (&start, &column, &value), &b, &c).unwrap()).exec([m]).unwrap();
            let c = c.read().unwrap();
            let bound = |i: usize| (most + 2) as f64 * T::EPSILON * sizes[i];
            near(&c, &sums, bound, &format!("{which}, {m} x {n} x {k}"));
            bits.push(c.iter().map(|c| c.bits()).collect());
        }
        for pair in bits.chunks(2) {
            assert!(pair[0] == pair[1], "whole and cut differ: {m} x {n} x {k} of {}", T::NAME);
        }
    }
}

#[test]
fn sparse_products_are_right_and_no_cut_changes_a_bit() {
    products::<f32>("sparse::sparse_products_are_right_and_no_cut_changes_a_bit");
    products::<f64>("sparse::sparse_products_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn what_does_not_fit_is_refused_and_wrong_rows_and_columns_are_found() {
    let rt = get_runtime("ALL_CPU").unwrap();
    let (column, value) = (FlashMemory::from([0u32, 1]), FlashMemory::from([1.0f32, 1.0]));
    let (b, c) = (FlashMemory::<f32>::zeroed([3, 2]), FlashMemory::<f32>::zeroed([3, 2]));
    let start = |s: [u64; 3]| FlashMemory::from(s);
    let refused = smmm([3, 3, 2], (&start([0, 1, 2]), &column, &value), &b, &c).map(|_| ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "kernel `flash.smmm`, argument `start`: expected 4 elements, as the matrix has rows, and one more, found 3: pass an array of that length"
    );
    let run = |start: FlashMemory<u64>, column: &FlashMemory<u32>| {
        let kernel = smmm([2, 3, 2], (&start, column, &value), &b, &c).unwrap();
        rt.submit(kernel).exec([2]).unwrap_err().to_string()
    };
    let outside = run(start([0, 1, 2]), &FlashMemory::from([0u32, 2]));
    assert!(outside.contains("column 2 is none of the rows of `b`"), "{outside}");
    // Rows of `b` beyond the matrix's columns are not read either, and shapes of the elements have no effect.
    let more = FlashMemory::<f32>::from([1.0; 9]).with_shape([3, 3]).unwrap();
    let flat = |x: FlashMemory<f32>| x.with_shape([1, 2]).unwrap();
    let value_2d = flat(FlashMemory::from([1.0f32, 1.0]));
    let run_2d = |column: [u32; 2]| {
        let (start, column) = (start([0, 1, 2]), FlashMemory::from(column).with_shape([1, 2]).unwrap());
        let kernel = smmm([2, 3, 2], (&start, &column, &value_2d), &more, &c).unwrap();
        rt.submit(kernel).exec([2])
    };
    run_2d([0, 1]).unwrap();
    assert_eq!(*c.read().unwrap(), [1.0; 6]);
    let outside = run_2d([0, 2]).unwrap_err().to_string();
    assert!(outside.contains("column 2 is none of the rows of `b`"), "{outside}");
    let decreasing = run(start([0, 2, 1]), &column);
    assert!(
        decreasing.contains("expected row pointers that do not decrease, found 2 and 1 of row 1"),
        "{decreasing}"
    );
    let beyond = run(start([0, 1, 3]), &column);
    assert!(beyond.contains("the box [0..3], which does not lie in the array of shape [2]"), "{beyond}");
    let short = Smmm::of(3, 3, FlashMemory::from([0u64, 1]), &column, &value, &b, &c);
    let short = rt.submit(short).exec([2]).unwrap_err().to_string();
    assert!(short.contains("row pointers of 2 elements, expected 3 at least"), "{short}");
}
