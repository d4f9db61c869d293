//! The matrices of a run, and what their product is.

use anyhow::{Context, Result};
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash_examples::uniform;

/// Multiplications up to which all of a product is checked.
const ALL: usize = 1 << 27;

/// Which matrix: the elements of each are other ones.
#[derive(Clone, Copy)]
pub enum Name {
    A,
    B,
    C,
}

/// An element of a generated matrix, by its number row by row.
pub fn element<T: From<f32>>(name: Name, number: usize) -> T {
    T::from(uniform(name as u64, number as u64))
}

/// A generated matrix, row by row.
///
/// # Errors
/// If there is no memory for it.
pub fn generated<T: Number + From<f32>>(name: Name, [rows, columns]: [usize; 2]) -> Result<FlashMemory<T>> {
    let memory = zeroed([rows, columns])?;
    let mut elements = memory.write().with_context(|| no_room::<T>([rows, columns]))?;
    elements.iter_mut().enumerate().for_each(|(number, to)| *to = element(name, number));
    drop(elements);
    Ok(memory)
}

/// A matrix of zeros, row by row.
///
/// # Errors
/// If there is no address space for it.
pub fn zeroed<T: Number>([rows, columns]: [usize; 2]) -> Result<FlashMemory<T>> {
    FlashMemory::try_zeroed([columns, rows]).with_context(|| no_room::<T>([rows, columns]))
}

fn no_room<T>([rows, columns]: [usize; 2]) -> String {
    let bytes = rows * columns * size_of::<T>();
    format!("no memory for {rows} by {columns} elements ({bytes} bytes): take smaller matrices")
}

/// What a check has found.
#[derive(Debug, PartialEq)]
pub struct Checked {
    pub elements: usize,
    /// The greatest error, over what rounding can bring about.
    pub worst: f64,
}

/// Compares a product of [`generated`] matrices with sums in double precision: all of it if that is cheap,
/// else the first, the last and the middle row of each row of tiles. An element is right if it differs by no
/// more than k + 2 roundings of the sum of absolute values (Higham, Accuracy and Stability of Numerical
/// Algorithms, section 3.5).
///
/// # Errors
/// Which element is wrong first. Those of the memories.
pub fn check<T: Number + From<f32>>(
    [m, k, n]: [usize; 3],
    adds: bool,
    tile: usize,
    [a, b, c]: [&FlashMemory<T>; 3],
) -> Result<Checked> {
    let (a, b, c) = (a.read()?, b.read()?, c.read()?);
    let all = m.checked_mul(k).and_then(|mk| mk.checked_mul(n)).is_some_and(|products| products <= ALL);
    let is_checked = |row: usize| {
        let (first, last) = (row / tile * tile, (row / tile * tile + tile).min(m) - 1);
        all || [first, (first + last) / 2, last].contains(&row)
    };
    let unit = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON } / 2.0;
    let (mut sums, mut sizes) = (vec![0.0f64; n], vec![0.0f64; n]);
    let mut checked = Checked { elements: 0, worst: 0.0 };
    for row in (0..m).filter(|&row| is_checked(row)) {
        for (column, (sum, size)) in sums.iter_mut().zip(&mut sizes).enumerate() {
            *sum = if adds { element(Name::C, row * n + column) } else { 0.0 };
            *size = sum.abs();
        }
        for (l, &a) in a[row * k..][..k].iter().enumerate() {
            let a: f64 = a.into();
            for ((sum, size), &b) in sums.iter_mut().zip(&mut sizes).zip(&b[l * n..][..n]) {
                let product = a * Into::<f64>::into(b);
                *sum += product;
                *size += product.abs();
            }
        }
        for (column, (sum, size)) in sums.iter().zip(&sizes).enumerate() {
            let found: f64 = c[row * n + column].into();
            let error = (found - sum).abs() / ((k + 2) as f64 * unit * size).max(f64::MIN_POSITIVE);
            if error.is_nan() || error > 1.0 {
                anyhow::bail!(
                    "--check: row {row}, column {column}: expected {sum:e} and an error of at most {:e}, found {found:e}",
                    (k + 2) as f64 * unit * size
                );
            }
            checked.worst = checked.worst.max(error);
        }
        checked.elements += n;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product in single precision, one sum after the other.
    fn product([m, k, n]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
        let at = |i: usize| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum();
        (0..m * n).map(at).collect()
    }

    #[test]
    fn a_right_product_is_right_and_one_wrong_element_is_found() {
        let sizes = [7, 40, 5];
        let a = generated::<f32>(Name::A, [7, 40]).expect("room");
        let b = generated::<f32>(Name::B, [40, 5]).expect("room");
        let c = FlashMemory::from(product(sizes, &a.read().expect("a"), &b.read().expect("b")));
        let c = c.with_shape([5, 7]).expect("as many");
        let found = check(sizes, false, 3, [&a, &b, &c]).expect("it is right");
        assert_eq!(found.elements, 35);
        assert!(found.worst > 0.0 && found.worst <= 1.0, "{found:?}");
        for wrong in [c.get(23).expect("there") + 1e-3, f32::NAN] {
            let right = std::mem::replace(&mut c.write().expect("c")[23], wrong);
            let error = check(sizes, false, 3, [&a, &b, &c]).expect_err("it is wrong").to_string();
            assert!(error.contains("row 4, column 3: expected "), "{error}");
            c.write().expect("c")[23] = right;
        }
        assert!(check(sizes, true, 3, [&a, &b, &c]).is_err(), "nothing was added");
    }

    #[test]
    fn what_no_memory_holds_is_an_error() {
        let error = generated::<f64>(Name::A, [1 << 25, 1 << 25]).map(|_| ()).expect_err("too large");
        assert!(format!("{error:#}").contains("no memory for 33554432 by 33554432 elements"), "{error:#}");
    }
}
