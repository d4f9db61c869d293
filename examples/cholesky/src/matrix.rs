//! The matrix of a run, and whether a factor is one of it.

use anyhow::{Context, Result};
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash_examples::uniform;

/// Multiplications up to which all of a factor is checked.
const ALL: usize = 1 << 28;

/// An element of the generated matrix, which is symmetric.
pub fn element<T: Number + From<f32>>(n: usize, diagonal: T, [i, j]: [usize; 2]) -> T {
    let (i, j) = (i.max(j), i.min(j));
    let element = T::from(uniform(0, (i * n + j) as u64));
    if i == j { element + diagonal } else { element }
}

/// The generated matrix, row by row.
///
/// # Errors
/// If there is no memory for it.
pub fn generated<T: Number + From<f32>>(n: usize, diagonal: T) -> Result<FlashMemory<T>> {
    let no_room = || {
        let bytes = n * n * size_of::<T>();
        format!("no memory for {n} by {n} elements ({bytes} bytes): take a smaller matrix")
    };
    let memory = FlashMemory::try_zeroed([n, n]).with_context(no_room)?;
    let mut elements = memory.write().with_context(no_room)?;
    for (i, row) in elements.chunks_exact_mut(n).enumerate() {
        row.iter_mut().enumerate().for_each(|(j, to)| *to = element(n, diagonal, [i, j]));
    }
    drop(elements);
    Ok(memory)
}

/// What a check has found.
#[derive(Debug, PartialEq)]
pub struct Checked {
    pub elements: usize,
    /// The greatest error, over what rounding can bring about.
    pub worst: f64,
}

/// Compares a factor's product with the [`generated`] matrix in double precision: all of the lower triangle
/// if that is cheap, else the first, the last and the middle row of each row of tiles. An element is right if
/// it differs by no more than n + 1 roundings of the sum of absolute values (Higham, Accuracy and Stability
/// of Numerical Algorithms, theorem 10.3).
///
/// # Errors
/// Which element is wrong first. Those of the memory.
pub fn check<T: Number + From<f32>>(
    n: usize,
    diagonal: T,
    tile: usize,
    l: &FlashMemory<T>,
) -> Result<Checked> {
    let l = l.read()?;
    let all = n.checked_mul(n).and_then(|square| square.checked_mul(n)).is_some_and(|cube| cube / 6 <= ALL);
    let is_checked = |row: usize| {
        let (first, last) = (row / tile * tile, (row / tile * tile + tile).min(n) - 1);
        all || [first, (first + last) / 2, last].contains(&row)
    };
    let unit = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON } / 2.0;
    let mut checked = Checked { elements: 0, worst: 0.0 };
    for i in (0..n).filter(|&row| is_checked(row)) {
        for j in 0..=i {
            let products = l[i * n..][..=j].iter().zip(&l[j * n..][..=j]);
            let products = products.map(|(&a, &b)| Into::<f64>::into(a) * Into::<f64>::into(b));
            let (found, size) = products.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            let expected: f64 = element(n, diagonal, [i, j]).into();
            let error = (found - expected).abs() / ((n + 1) as f64 * unit * size).max(f64::MIN_POSITIVE);
            if error.is_nan() || error > 1.0 {
                anyhow::bail!(
                    "--check: row {i}, column {j} of the factor's product: expected {expected:e} and an error of at most {:e}, found {found:e}",
                    (n + 1) as f64 * unit * size
                );
            }
            checked.worst = checked.worst.max(error);
        }
        checked.elements += i + 1;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_factor_is_right_and_one_wrong_element_is_found() {
        // Row by row, the usual loops (Golub and Van Loan, Matrix Computations, section 4.2).
        let n = 20;
        let a = generated::<f64>(n, n as f64).expect("room");
        {
            let mut a = a.write().expect("a");
            for i in 0..n {
                for j in 0..=i {
                    let sum = (0..j).map(|p| a[i * n + p] * a[j * n + p]).sum::<f64>();
                    let rest = a[i * n + j] - sum;
                    a[i * n + j] = if i == j { rest.sqrt() } else { rest / a[j * n + j] };
                }
            }
        }
        let found = check(n, n as f64, 8, &a).expect("it is right");
        assert_eq!(found.elements, 210);
        assert!(found.worst <= 1.0, "{found:?}");
        for wrong in [a.get(13 * n + 7).expect("there") + 1e-9, f64::NAN] {
            let right = std::mem::replace(&mut a.write().expect("a")[13 * n + 7], wrong);
            let error = check(n, n as f64, 8, &a).expect_err("it is wrong").to_string();
            assert!(error.contains("row 13, column 7 of"), "{error}");
            a.write().expect("a")[13 * n + 7] = right;
        }
    }
}
