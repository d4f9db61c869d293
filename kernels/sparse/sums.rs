//! The elements of sparse rows on the CPU, and sums over them for few columns of the dense factor: so few
//! that they do not fill the registers of a row of the product.
//!
//! A row of the product is one register, or two that overlap, of a power of two of its columns. Several
//! elements of the sparse row are added beside each other, since one addition waits for the one before.
//!
//! Each column is checked when it is used, which is one comparison for all columns of the product.

use super::check::decreasing;
use crate::simd::{InstructionSet, Number};
use std::ops::Range;

/// From this many elements on, several of a row are added beside each other also where the product has one
/// column. A shorter row ends before additions have to wait long, and each loop more is one more end that a
/// CPU guesses wrongly.
const LONG: usize = 32;
/// The same where the dense factor has more bytes than [`NEAR`]: loads from far caches take longer than
/// additions, and run further ahead through code of one loop.
const LONG_IF_FAR: usize = 64;
const NEAR: usize = 256 << 10;

/// The elements of a row, for implementations of one row at a time.
///
/// # Panics
/// If the row ends before it begins.
pub(crate) fn row(kernel: &str, start: &[u64], row: usize) -> Range<usize> {
    let (begin, end) = (start[row], start[row + 1]);
    assert!(begin <= end, "{kernel}: {}", decreasing(row, begin, end));
    begin as usize..end as usize
}

/// The elements of a run of rows, and the dense factor.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a, T> {
    kernel: &'static str,
    /// Number of the first row.
    first: usize,
    /// One more than there are rows. The first is that of `columns[0]` and `values[0]`, the last their end.
    pointers: &'a [u64],
    pub columns: &'a [u32],
    pub values: &'a [T],
    /// Row by row.
    pub b: &'a [T],
    /// Elements of `b` from row to row.
    pub leading: usize,
}

impl<'a, T: Number> Run<'a, T> {
    /// The elements of some rows. `elements` gives the columns and the values of a range of them.
    ///
    /// # Panics
    /// If there are too few row pointers, or the last row ends before the first begins.
    #[inline(always)]
    pub fn new(
        kernel: &'static str,
        start: &'a [u64],
        rows: Range<usize>,
        elements: impl FnOnce(Range<usize>) -> (&'a [u32], &'a [T]),
        b: &'a [T],
        leading: usize,
    ) -> Run<'a, T> {
        let Some(pointers) = start.get(rows.start..=rows.end) else {
            panic!(
                "{kernel}: expected {} row pointers at least, one more than there are rows, found {}",
                rows.end + 1,
                start.len()
            )
        };
        let mut run = Run { kernel, first: rows.start, pointers, columns: &[], values: &[], b, leading };
        let (begin, end) = (pointers[0], pointers[rows.len()]);
        if begin > end {
            run.decreases();
        }
        (run.columns, run.values) = elements(begin as usize..end as usize);
        assert!(run.columns.len() == run.values.len(), "{kernel}: expected a column for each value");
        run
    }

    /// Number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.pointers.len() - 1
    }

    /// The elements of a row, by their places in `columns` and `values`, both of which have them.
    ///
    /// # Panics
    /// If row pointers decrease.
    #[inline(always)]
    pub fn row(&self, row: usize) -> Range<usize> {
        let begin = self.pointers[0];
        let [from, to] = [row, row + 1].map(|row| self.pointers[row].wrapping_sub(begin) as usize);
        if from > to || to > self.columns.len() {
            self.decreases();
        }
        from..to
    }

    #[cold]
    fn decreases(&self) -> ! {
        match self.pointers.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(row) => {
                let text = decreasing(self.first + row, self.pointers[row], self.pointers[row + 1]);
                panic!("{}: {text}", self.kernel)
            }
            None => unreachable!("the rows lie between the first pointer and the last"),
        }
    }

    /// Calls `each` with every row and its sums: of `W` columns from the first on, and of `W` columns from
    /// number `second` on, if `P` is 2. `U` elements are added beside each other. The bits of a sum depend on
    /// the row's elements, the size of `b` and `U`, not on the run.
    ///
    /// # Panics
    /// If row pointers decrease; with the text of `outside` for a column for which `b` has no such elements;
    /// or if the CPU lacks the instructions.
    #[inline(always)]
    pub fn sums<I: InstructionSet, const W: usize, const P: usize, const U: usize>(
        self,
        second: usize,
        outside: impl Fn(u32) -> String,
        mut each: impl FnMut(usize, [[T; W]; P]),
    ) {
        I::assert_there();
        let dense = Dense {
            b: self.b,
            leading: self.leading,
            second,
            columns: self.columns_of(if P == 2 { second + W } else { W }),
            outside,
        };
        let long = if size_of_val(self.b) > NEAR { LONG_IF_FAR } else { LONG };
        for row in 0..self.rows() {
            let elements = self.row(row);
            let (columns, values) = (&self.columns[elements.clone()], &self.values[elements]);
            let mut sums = [[[T::ZERO; W]; P]; U];
            if W * P == 1 && columns.len() < long {
                let mut sum = T::ZERO;
                for (column, value) in columns.iter().zip(values) {
                    // SAFETY: the only part, of one element.
                    let b = unsafe { dense.part::<1>(*column, 0)[0] };
                    // In two steps: a product does not wait for the sum before it.
                    sum += *value * b;
                }
                each(row, [[sum; W]; P]);
                continue;
            }
            let (column_chunks, column_rest) = columns.as_chunks::<U>();
            let (value_chunks, value_rest) = values.as_chunks::<U>();
            for (columns, values) in column_chunks.iter().zip(value_chunks) {
                for u in 0..U {
                    dense.add::<I, W, P>(&mut sums[u], columns[u], values[u]);
                }
            }
            for ((sums, column), value) in sums.iter_mut().zip(column_rest).zip(value_rest) {
                dense.add::<I, W, P>(sums, *column, *value);
            }
            let mut width = U / 2;
            while width > 0 {
                let (sums, others) = sums.split_at_mut(width);
                let others = others.as_flattened().as_flattened();
                for (sum, other) in sums.as_flattened_mut().as_flattened_mut().iter_mut().zip(others) {
                    *sum += *other;
                }
                width /= 2;
            }
            each(row, sums[0]);
        }
    }

    /// The number of columns for which `b` has `n` elements each.
    fn columns_of(&self, n: usize) -> u64 {
        match self.b.len().checked_sub(n) {
            None => 0,
            Some(behind) => behind.checked_div(self.leading).map_or(u64::MAX, |rows| rows as u64 + 1),
        }
    }
}

/// The dense factor.
struct Dense<'a, T, F> {
    b: &'a [T],
    leading: usize,
    second: usize,
    /// For columns below this number `b` has the elements that are read.
    columns: u64,
    outside: F,
}

impl<T: Number, F: Fn(u32) -> String> Dense<'_, T, F> {
    /// Adds one element to the sums of its row.
    // A function, because compilers do not always inline closures. What is not inlined lacks the caller's
    // instruction set.
    #[inline(always)]
    fn add<I: InstructionSet, const W: usize, const P: usize>(
        &self,
        sums: &mut [[T; W]; P],
        column: u32,
        value: T,
    ) {
        for (part, sums) in sums.iter_mut().enumerate() {
            // SAFETY: one of the `P` parts, of `W` elements.
            for (sum, b) in sums.iter_mut().zip(unsafe { self.part::<W>(column, part) }) {
                *sum = I::mul_add(value, b, *sum);
            }
        }
    }

    /// The elements of `b` that are for a part of the sums.
    ///
    /// # Panics
    /// If the column is not below [`columns`](Self::columns).
    ///
    /// # Safety
    /// It is a part for which `columns` was counted, and has as many elements.
    #[inline(always)]
    unsafe fn part<const W: usize>(&self, column: u32, part: usize) -> [T; W] {
        if u64::from(column) >= self.columns {
            self.fail(column);
        }
        let first = column as usize * self.leading + part * self.second;
        // SAFETY: `column` is below `columns`, so that `b` has the elements of all parts, the last of which
        // ends with `second + W`.
        unsafe { self.b.as_ptr().add(first).cast::<[T; W]>().read() }
    }

    #[cold]
    #[inline(never)]
    fn fail(&self, column: u32) -> ! {
        panic!("{}", (self.outside)(column))
    }
}
