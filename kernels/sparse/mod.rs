//! Sparse matrices in CSR form (compressed sparse rows), and what the kernels for them share.
//!
//! A [`Csr`] is checked when it is made and cannot change afterwards, so that no launch has to check it.

pub(crate) mod check;
pub(crate) mod sums;

use crate::simd::Number;
use check::Fault;
use flash_core::kernel::Element;
use flash_core::memory::ReadGuard;
use flash_core::{Error, FlashMemory};
use std::fmt;

/// A sparse matrix in CSR form: for each row the elements that are stored, each with its column.
///
/// The elements of row i are those from `start[i]` to `start[i + 1]`, in any order. Several may be in one
/// column; they count as their sum. A handle is cheap to clone, and clones share the arrays.
///
/// Row pointers and columns never change: the arrays are the matrix's own. The values may, by
/// [`values`](Self::values), so that a matrix of the same pattern is not made anew.
///
/// # Examples
/// ```
/// use flash_kernels::Csr;
/// // Rows (2, 0, 5), (0, 0, 0) and (0, 3, 0).
/// let a = Csr::new([3, 3], [0, 2, 2, 3], [0, 2, 1], [2.0f64, 5.0, 3.0])?;
/// assert_eq!((a.rows(), a.columns(), a.len()), (3, 3, 3));
///
/// let wrong = Csr::new([2, 2], [0, 1, 2], [1, 2], [2.0f64, 3.0]).unwrap_err();
/// let text = wrong.to_string();
/// assert!(text.contains("argument `column`") && text.contains("found 2 in row 1 (element 1)"));
/// assert!(text.ends_with("columns begin at 0, these at 1; subtract 1 from each"));
/// # Ok::<(), flash_core::Error>(())
/// ```
pub struct Csr<T> {
    rows: usize,
    columns: usize,
    start: FlashMemory<u64>,
    column: FlashMemory<u32>,
    value: FlashMemory<T>,
}

impl<T: Number> Csr<T> {
    /// A matrix of `rows` and `columns`, of its row pointers, the columns of its elements, and their values.
    ///
    /// `start` has one element more than there are rows. It begins with 0, does not decrease, and ends with
    /// the number of elements, which `column` and `value` have. Columns begin at 0. A part of another matrix,
    /// whose first pointer is not 0, is refused: subtract the first pointer from each.
    ///
    /// Vectors and arrays are taken without a copy. A [`FlashMemory`] is, too, if it is the only handle to
    /// its memory. Of row pointers and columns that have other handles a copy is made, so that nothing else
    /// can change them; the values stay shared.
    ///
    /// # Errors
    /// [`Error::Contents`] if the arrays are no such matrix. It names the argument, the row and the element,
    /// what was expected and what was found. Those of [`FlashMemory::read`].
    pub fn new(
        [rows, columns]: [usize; 2],
        start: impl Into<FlashMemory<u64>>,
        column: impl Into<FlashMemory<u32>>,
        value: impl Into<FlashMemory<T>>,
    ) -> Result<Csr<T>, Error> {
        let (start, column, value) = (own(start.into())?, own(column.into())?, value.into());
        let refused = |fault: Fault| Error::contents("Csr", fault.argument, fault.text);
        check::whole([rows, columns], &start.read()?, &column.read()?, value.len()).map_err(refused)?;
        Ok(Csr { rows, columns, start, column, value })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of stored elements.
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// True if no element is stored.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// The row pointers: the first element of each row, and the end of the last.
    ///
    /// # Errors
    /// Those of [`FlashMemory::read`].
    pub fn row_pointers(&self) -> Result<ReadGuard<'_, u64>, Error> {
        self.start.read()
    }

    /// The column of each element.
    ///
    /// # Errors
    /// Those of [`FlashMemory::read`].
    pub fn column_indices(&self) -> Result<ReadGuard<'_, u32>, Error> {
        self.column.read()
    }

    /// The values of the elements, which may be written: by the host, or by launches.
    ///
    /// # Examples
    /// ```
    /// use flash_core::{FlashMemory, get_runtime};
    /// use flash_kernels::{Csr, spmv};
    /// # fn example() -> Result<(), flash_core::Error> {
    /// let a = Csr::new([1, 2], [0, 2], [0, 1], [1.0f32, 2.0])?;
    /// a.values().write()?.copy_from_slice(&[3.0, 4.0]);
    /// let (x, y) = (FlashMemory::from([1.0, 1.0]), FlashMemory::zeroed(1));
    /// get_runtime("ALL_ACCEL")?.submit(spmv(&a, &x, &y)?).exec([1])?;
    /// assert_eq!(*y.read()?, [7.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn values(&self) -> &FlashMemory<T> {
        &self.value
    }

    /// The arrays as arguments of kernels that only read them: row pointers, columns, values.
    pub(crate) fn arrays(&self) -> (&FlashMemory<u64>, &FlashMemory<u32>, &FlashMemory<T>) {
        (&self.start, &self.column, &self.value)
    }
}

/// The memory itself if nothing else can write it, or a copy.
fn own<U: Element>(memory: FlashMemory<U>) -> Result<FlashMemory<U>, Error> {
    if memory.is_unique() {
        return Ok(memory);
    }
    let elements = memory.read()?;
    Ok(FlashMemory::from(&elements[..]))
}

impl<T> Clone for Csr<T> {
    /// Another handle to the same matrix.
    fn clone(&self) -> Csr<T> {
        Csr {
            rows: self.rows,
            columns: self.columns,
            start: self.start.clone(),
            column: self.column.clone(),
            value: self.value.clone(),
        }
    }
}

impl<T: Element> fmt::Debug for Csr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Csr({} x {}, {} elements)", self.rows, self.columns, self.value.len())
    }
}
