//! Matrices in formulas: as they are stored, or transposed.

use crate::shapes::refused;
use flash_core::kernel::Element;
use flash_core::{Error, FlashMemory};

/// A matrix in a formula such as that of [`gemm`](fn@crate::gemm): as it is stored, made of `&matrix`, or
/// [`transposed`].
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, T: Element> {
    memory: &'a FlashMemory<T>,
    transposed: bool,
}

/// The transposed matrix of what is stored. Nothing is moved: kernels read it so.
pub fn transposed<T: Element>(matrix: &FlashMemory<T>) -> Operand<'_, T> {
    Operand { memory: matrix, transposed: true }
}

impl<'a, T: Element> From<&'a FlashMemory<T>> for Operand<'a, T> {
    fn from(memory: &'a FlashMemory<T>) -> Operand<'a, T> {
        Operand { memory, transposed: false }
    }
}

/// An [`Operand`] whose shape is that of a matrix.
pub(crate) struct Factor<'a, T: Element> {
    pub memory: &'a FlashMemory<T>,
    /// Of the operand.
    pub rows: usize,
    /// Of the operand.
    pub columns: usize,
    /// Elements from stored row to row.
    pub leading: u64,
    /// 1: it is transposed.
    pub transposed: u32,
}

impl<'a, T: Element> Operand<'a, T> {
    /// # Errors
    /// [`Error::Argument`] if it has no shape of a matrix.
    pub(crate) fn factor(self, kernel: &str, argument: &str) -> Result<Factor<'a, T>, Error> {
        let [rows, columns] = size(kernel, (argument, self.memory))?;
        let leading = columns as u64;
        let [rows, columns] = if self.transposed { [columns, rows] } else { [rows, columns] };
        let transposed = u32::from(self.transposed);
        Ok(Factor { memory: self.memory, rows, columns, leading, transposed })
    }
}

/// The rows and columns of a matrix.
///
/// # Errors
/// [`Error::Argument`] if it has no shape of one.
pub(crate) fn size<T: Element>(
    kernel: &str,
    (argument, of): (&str, &FlashMemory<T>),
) -> Result<[usize; 2], Error> {
    match *of.shape() {
        [columns, rows] => Ok([rows as usize, columns as usize]),
        ref other => {
            let text = format!(
                "expected a matrix, that is a shape [columns, rows], found {} elements of the shape {other:?}: give it such a shape, the length of a row first",
                of.len()
            );
            Err(refused(kernel, argument, text))
        }
    }
}

/// Checks the extents of an argument in a formula.
///
/// # Errors
/// [`Error::Argument`] with both.
pub(crate) fn expect(
    kernel: &str,
    argument: &str,
    expected: [usize; 2],
    why: &str,
    found: [usize; 2],
) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    let ([rows, columns], [found_rows, found_columns]) = (expected, found);
    let text = format!(
        "expected {rows} rows and {columns} columns in the formula, {why}, found {found_rows} rows and {found_columns} columns: pass a matrix of that size, or the `transposed` one"
    );
    Err(refused(kernel, argument, text))
}
