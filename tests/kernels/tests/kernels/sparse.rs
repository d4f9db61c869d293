//! Sparse matrices: what makes one, `smmm`, and `spmv`.

use crate::{Real, all, near, numbers};
use flash::kernels::smmm::Smmm;
use flash::kernels::spmv::Spmv;
use flash::kernels::{Csr, smmm, spmv};
use flash::prelude::*;
use flash::{Context, Error};

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
    // Each number of columns that has code of its own, and some that have not.
    let few = (0..=20).chain([31, 32]).map(|n| ([9, n, 12], 8, n % 3));
    for ([m, n, k], most, more) in few.chain([
        ([1, 1, 1], 1, 0),
        ([5, 3, 4], 3, 2),
        ([40, 33, 25], 9, 0),
        ([200, 1, 70], 70, 0),
        ([3, 100, 1000], 500, 7),
        ([7, 0, 3], 2, 1),
        ([7, 5, 0], 0, 0),
    ]) {
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
        let a = Csr::new([m, k], a.start, a.column, a.value).unwrap();
        let b = FlashMemory::from(b).with_shape([lead, k]).unwrap();
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let c = FlashMemory::from(vec![T::of(7.0); m * n]).with_shape([n, m]).unwrap();
            rt.submit(smmm(&a, &b, &c).unwrap()).exec([m]).unwrap();
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

fn products_with_vectors<T: Real>(test: &str) {
    for ([m, k], most) in
        [([1, 1], 1), ([5, 4], 3), ([40, 25], 9), ([200, 70], 70), ([3, 5000], 2000), ([7, 0], 0)]
    {
        let a = sparse::<T>(m, k, most);
        let x = numbers::<T>(k, 19);
        let (mut sums, mut sizes) = (vec![0.0; m], vec![0.0; m]);
        for i in 0..m {
            for at in a.start[i] as usize..a.start[i + 1] as usize {
                let product = a.value[at].wide() * x[a.column[at] as usize].wide();
                sums[i] += product;
                sizes[i] += product.abs();
            }
        }
        let (a, x) = (Csr::new([m, k], a.start, a.column, a.value).unwrap(), FlashMemory::from(x));
        let mut bits: Vec<Vec<u64>> = Vec::new();
        for (which, rt) in all(test) {
            let y = FlashMemory::from(vec![T::of(7.0); m]);
            rt.submit(spmv(&a, &x, &y).unwrap()).exec([m]).unwrap();
            let y = y.read().unwrap();
            let bound = |i: usize| (most + 2) as f64 * T::EPSILON * sizes[i];
            near(&y, &sums, bound, &format!("{which}, {m} x {k}"));
            bits.push(y.iter().map(|y| y.bits()).collect());
        }
        for pair in bits.chunks(2) {
            assert!(pair[0] == pair[1], "whole and cut differ: {m} x {k} of {}", T::NAME);
        }
    }
}

#[test]
fn products_with_vectors_are_right_and_no_cut_changes_a_bit() {
    products_with_vectors::<f32>("sparse::products_with_vectors_are_right_and_no_cut_changes_a_bit");
    products_with_vectors::<f64>("sparse::products_with_vectors_are_right_and_no_cut_changes_a_bit");
}

#[test]
fn a_matrix_is_checked_when_it_is_made() {
    let refused = |start: &[u64], column: &[u32]| {
        let error = Csr::new([2, 2], start, column, [1.0f32, 1.0]).unwrap_err();
        assert!(matches!(error, Error::Contents { .. }), "{error:?}");
        error.to_string()
    };
    // Columns that begin at 1.
    assert_eq!(
        refused(&[0, 1, 2], &[1, 2]),
        "`Csr`, argument `column`: expected columns below 2, as the matrix has as many, found 2 in row 1 (element 1): columns begin at 0, these at 1; subtract 1 from each"
    );
    assert_eq!(
        refused(&[0, 2, 1], &[0, 1]),
        "`Csr`, argument `start`: expected row pointers that do not decrease, found 2 and 1 of row 1: a row begins where the one before it ends"
    );
}

#[test]
fn what_others_have_of_its_arrays_does_not_change_a_matrix() {
    let (start, column) = (FlashMemory::from([0u64, 1, 2]), FlashMemory::from([0u32, 1]));
    let value = FlashMemory::from([2.0f64, 3.0]);
    let a = Csr::new([2, 2], start.clone(), column.clone(), value.clone()).unwrap();
    start.write().unwrap().fill(9);
    column.write().unwrap().fill(9);
    assert_eq!(*a.row_pointers().unwrap(), [0, 1, 2]);
    assert_eq!(*a.column_indices().unwrap(), [0, 1]);
    // Values are no part of the pattern.
    value.write().unwrap()[1] = 5.0;
    let (x, y) = (FlashMemory::from([1.0, 1.0]), FlashMemory::zeroed(2));
    get_runtime("ALL_CPU").unwrap().submit(spmv(&a.clone(), &x, &y).unwrap()).exec([2]).unwrap();
    assert_eq!(*y.read().unwrap(), [2.0, 5.0]);
}

#[test]
fn factors_and_products_that_do_not_fit_are_refused() {
    let a = Csr::new([2, 3], [0, 1, 2], [0, 2], [1.0f32, 1.0]).unwrap();
    let zeroed = |shape: &[usize]| FlashMemory::<f32>::zeroed(shape);
    let product =
        |b: &[usize], c: &[usize]| smmm(&a, &zeroed(b), &zeroed(c)).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        product(&[4, 3], &[8]),
        "kernel `flash.smmm`, argument `c`: expected a matrix of 2 rows, that is the shape [columns, 2] or more rows, found 8 elements without a shape: give it such a shape, the length of a row first"
    );
    let wide = product(&[4, 2], &[4, 2]);
    assert!(wide.contains("argument `b`: expected a matrix of 3 rows and 4 columns"), "{wide}");
    let vector = |x: usize, y: usize| spmv(&a, &zeroed(&[x]), &zeroed(&[y])).map(|_| ()).unwrap_err();
    assert_eq!(
        vector(2, 2).to_string(),
        "kernel `flash.spmv`, argument `x`: expected 3 elements, as the matrix has columns, found 2: pass an array of that length"
    );
    assert!(vector(3, 3).to_string().contains("argument `y`: expected 2 elements, as the matrix has rows"));
    // Rows of `b` beyond the matrix's columns are there for nothing.
    let (b, c) = (FlashMemory::from([1.0f32; 9]).with_shape([3, 3]).unwrap(), zeroed(&[3, 2]));
    let a = Csr::new([2, 2], [0, 1, 2], [0, 1], [1.0f32, 1.0]).unwrap();
    get_runtime("ALL_CPU").unwrap().submit(smmm(&a, &b, &c).unwrap()).exec([2]).unwrap();
    assert_eq!(*c.read().unwrap(), [1.0; 6]);
}

/// Row pointers, columns, and the errors of kernels on the CPU that get them raw.
type Wrong = ([u64; 3], [u32; 2], &'static str);

/// For two rows, and two columns of the matrix.
const WRONG: [Wrong; 5] = [
    ([0, 1, 2], [0, 2], "column 2 is none of the"),
    ([0, 1, 2], [1, 2], "column 2 is none of the"),
    ([0, 2, 1], [0, 1], "expected row pointers that do not decrease, found 2 and 1 of row 1"),
    ([0, 1, 3], [0, 1], "element 2 of an array of 2"),
    ([3, 1, 2], [0, 1], "expected row pointers that do not decrease, found 3 and 1 of row 0"),
];

#[test]
fn wrong_rows_and_columns_of_raw_arrays_are_found_on_the_cpu() {
    let value = FlashMemory::from([1.0f32, 1.0]);
    for implementation in ["avx512", "avx2", "portable", "plain"] {
        let rt = get_runtime("ALL_CPU").unwrap().options(Implementation::named(implementation));
        for (start, column, expected) in WRONG {
            let (start, column) = (FlashMemory::from(start), FlashMemory::from(column));
            for n in [1u64, 3, 40] {
                let [b, c] = [(); 2].map(|()| FlashMemory::<f32>::zeroed([n, 2]));
                let (b, start) = (b.range(..).unwrap(), &start);
                match rt.submit(Smmm::of(n, n, start, &column, &value, b, &c)).exec([2]) {
                    Err(Error::NoImplementation(_)) => continue,
                    ran => {
                        let error = ran.unwrap_err().to_string();
                        assert!(error.contains(expected), "{implementation}, {n}: {error}");
                    }
                }
            }
            let (x, y) = (FlashMemory::<f32>::zeroed(2), FlashMemory::<f32>::zeroed(2));
            match rt.submit(Spmv::of(&start, &column, &value, &x, &y)).exec([2]) {
                Err(Error::NoImplementation(_)) => continue,
                ran => {
                    let error = ran.unwrap_err().to_string();
                    assert!(error.contains(expected), "{implementation}: {error}");
                }
            }
        }
    }
    let rt = get_runtime("ALL_CPU").unwrap();
    let (column, c) = (FlashMemory::from([0u32, 1]), FlashMemory::<f32>::zeroed([3, 2]));
    let short =
        Smmm::of(3, 3, FlashMemory::from([0u64, 1]), &column, &value, &c, FlashMemory::zeroed([3, 2]));
    let short = rt.submit(short).exec([2]).unwrap_err().to_string();
    assert!(
        short.contains("expected 3 row pointers at least, one more than there are rows, found 2"),
        "{short}"
    );
}

#[test]
fn with_check_bounds_each_device_refuses_raw_arrays_with_the_same_text() {
    let test = "sparse::with_check_bounds_each_device_refuses_raw_arrays_with_the_same_text";
    flash_tests::in_process_of(test, &[], || each_device_refuses_raw_arrays(test));
}

fn each_device_refuses_raw_arrays(test: &str) {
    // The first context of a process, of that with the emulated driver, too.
    let checks = Context::builder().set("check_bounds", true).build().unwrap();
    let keys: Vec<String> = all(test).iter().map(|(which, _)| which.clone()).collect();
    let key = |which: &String| match which.split(',').next() {
        Some(device) if device.contains(':') => device.to_owned(),
        _ => "ALL_CPU".to_owned(),
    };
    let keys: std::collections::BTreeSet<String> = keys.iter().map(key).collect();
    let value = FlashMemory::from([1.0f32, 1.0]);
    for key in &keys {
        let whole = checks.runtime(key).unwrap();
        for rt in [whole.options(Subspaces(2)), whole] {
            let run = |start: &[u64], column: [u32; 2]| {
                let (start, column) = (FlashMemory::from(start), FlashMemory::from(column));
                let (x, y) = (FlashMemory::from([1.0f32, 2.0]), FlashMemory::<f32>::zeroed(2));
                let vector = rt.submit(Spmv::of(&start, &column, &value, &x, &y)).exec([2]);
                let [b, c] = [(); 2].map(|()| FlashMemory::from([1.0f32; 6]).with_shape([3, 2]).unwrap());
                let matrix = rt.submit(Smmm::of(3, 3, &start, &column, &value, &b, &c)).exec([2]);
                match (vector, matrix) {
                    (Ok(()), Ok(())) => {
                        assert_eq!(*y.read().unwrap(), [1.0, 2.0], "{key}");
                        Ok(())
                    }
                    (Err(vector), Err(matrix)) => {
                        assert!(matches!(y.read(), Err(Error::Poisoned)), "{key}");
                        let [vector, matrix] = [vector, matrix].map(|error| error.cause().to_string());
                        let common = vector.replace("spmv", "smmm").replace("`x` has as many elements", "-");
                        assert_eq!(common, matrix.replace("`b` has as many rows", "-"), "{key}");
                        Err(vector)
                    }
                    (vector, matrix) => panic!("{key}: {vector:?}, but {matrix:?}"),
                }
            };
            run(&[0, 1, 2], [0, 1]).unwrap();
            for (start, column, expected) in [
                (
                    &[0, 1, 2][..],
                    [1, 2],
                    "kernel `flash.spmv`, argument `column`: expected columns below 2, as `x` has as many elements, found 2 in row 1 (element 1): columns begin at 0, these at 1; subtract 1 from each",
                ),
                (
                    &[0, 2, 1],
                    [0, 1],
                    "kernel `flash.spmv`, argument `start`: expected row pointers that do not decrease, found 2 and 1 of row 1: a row begins where the one before it ends",
                ),
                (
                    &[0, 1, 3],
                    [0, 1],
                    "kernel `flash.spmv`, argument `value`: expected 3 elements at least, the row pointer 2 of `start`, found 2: row pointers count elements",
                ),
                (
                    &[0, 1],
                    [0, 1],
                    "kernel `flash.spmv`, argument `start`: expected 3 row pointers at least, one more than there are rows, found 2: pass the end of the last row, too",
                ),
                (
                    &[0, u64::MAX, 2],
                    [0, 1],
                    "kernel `flash.spmv`, argument `start`: expected row pointers below 2^63, found 18446744073709551615 as number 1: as a signed number it is -1, which is negative",
                ),
            ] {
                assert_eq!(run(start, column).unwrap_err(), expected, "{key}");
            }
        }
    }
}
