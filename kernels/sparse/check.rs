//! What makes arrays a sparse matrix in CSR form: the checks of [`Csr::new`](super::Csr::new), and those of
//! raw arrays before a launch, with the same texts.

use flash_core::kernel::{Contents, WrongContents};
use std::ops::Range;

/// What is wrong, and with which argument.
pub(crate) type Fault = WrongContents;

/// The greatest row pointer: signed 64-bit numbers hold it.
const MOST: u64 = i64::MAX as u64;

fn fault(argument: &'static str, text: String) -> Fault {
    WrongContents { argument, text }
}

/// Checks a whole matrix of this many rows and columns, of `elements` values.
pub(crate) fn whole(
    [rows, columns]: [usize; 2],
    start: &[u64],
    column: &[u32],
    elements: usize,
) -> Result<(), Fault> {
    let wanted = rows.saturating_add(1);
    if start.len() != wanted {
        let text = format!(
            "expected {wanted} row pointers, one more than there are rows, found {}: pass the end of the last row, too",
            start.len()
        );
        return Err(fault("start", text));
    }
    if column.len() != elements {
        let text = format!(
            "expected {elements} columns, as `value` has elements, found {}: pass one for each element",
            column.len()
        );
        return Err(fault("column", text));
    }
    if start[0] != 0 {
        let first = start[0];
        let text = format!(
            "expected 0 as the first row pointer, found {first}: pointers count from the first element, subtract {first} from each"
        );
        return Err(fault("start", text));
    }
    pointers(start, 0..rows)?;
    if start[rows] != elements as u64 {
        let text = format!(
            "expected {elements} as the last row pointer, number {rows}, as `value` has elements, found {}: the last is the end of the last row",
            start[rows]
        );
        return Err(fault("start", text));
    }
    columns_below(columns, "the matrix has as many", start, 0..rows, column)
}

/// Checks the rows of raw arrays that a launch uses: their pointers, and that their columns are below
/// `columns`, because `of_what`. The first pointer need not be 0, and there may be more pointers and
/// elements.
pub(crate) fn rows(launch: &Contents<'_>, of_what: &str, columns: usize) -> Result<(), Fault> {
    let (start, column) = (launch.elements::<u64>("start"), launch.elements::<u32>("column"));
    let rows = launch.values("row");
    if rows.is_empty() {
        return Ok(());
    }
    let wanted = rows.end.saturating_add(1);
    if (start.len() as u64) < wanted {
        let text = format!(
            "expected {wanted} row pointers at least, one more than there are rows, found {}: pass the end of the last row, too",
            start.len()
        );
        return Err(fault("start", text));
    }
    // They lie in `start`.
    let rows = rows.start as usize..rows.end as usize;
    pointers(start, rows.clone())?;
    let (values, last) = (launch.len("value"), start[rows.end]);
    for (argument, elements) in [("value", values), ("column", column.len() as u64)] {
        if last > elements {
            let text = format!(
                "expected {last} elements at least, the row pointer {} of `start`, found {elements}: row pointers count elements",
                rows.end
            );
            return Err(fault(argument, text));
        }
    }
    columns_below(columns, of_what, start, rows, column)
}

/// Checks that the pointers of these rows do not decrease, and are no negative numbers.
fn pointers(start: &[u64], rows: Range<usize>) -> Result<(), Fault> {
    let first = rows.start;
    let of_rows = &start[first..=rows.end];
    if let Some(at) = of_rows.iter().position(|pointer| *pointer > MOST) {
        let (number, found) = (first + at, of_rows[at]);
        let text = format!(
            "expected row pointers below 2^63, found {found} as number {number}: as a signed number it is {}, which is negative",
            found as i64
        );
        return Err(fault("start", text));
    }
    if let Some(at) = of_rows.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(fault("start", decreasing(first + at, of_rows[at], of_rows[at + 1])));
    }
    Ok(())
}

/// The text for a row that ends before it begins.
pub(crate) fn decreasing(row: usize, begin: u64, end: u64) -> String {
    format!(
        "expected row pointers that do not decrease, found {begin} and {end} of row {row}: a row begins where the one before it ends"
    )
}

/// Checks the columns of the elements of these rows, whose pointers lie in `column` and do not decrease.
fn columns_below(
    columns: usize,
    of_what: &str,
    start: &[u64],
    rows: Range<usize>,
    column: &[u32],
) -> Result<(), Fault> {
    let (begin, end) = (start[rows.start] as usize, start[rows.end] as usize);
    let all = &column[begin..end];
    // The greatest is found in registers, the first that is wrong is not.
    let greatest = all.iter().copied().max();
    if greatest.is_none_or(|greatest| (greatest as usize) < columns) {
        return Ok(());
    }
    let at = all.iter().position(|column| *column as usize >= columns).unwrap_or(0);
    let element = begin + at;
    let row = rows.start + start[rows.start + 1..=rows.end].partition_point(|end| *end as usize <= element);
    let smallest = all.iter().copied().min().unwrap_or(0);
    let found = all[at];
    let advice = match (found as usize == columns, smallest) {
        (true, 1..) => "columns begin at 0, these at 1; subtract 1 from each",
        (true, 0) => "columns begin at 0",
        (false, _) => "pass columns that exist",
    };
    let text = format!(
        "expected columns below {columns}, as {of_what}, found {found} in row {row} (element {element}): {advice}"
    );
    Err(fault("column", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: [usize; 2], start: &[u64], column: &[u32], elements: usize) -> (&'static str, String) {
        let fault = whole(shape, start, column, elements).unwrap_err();
        (fault.argument, fault.text)
    }

    #[test]
    fn a_row_is_found_by_its_element_also_behind_empty_rows() {
        let (argument, text) = text([5, 4], &[0, 1, 1, 1, 3, 3], &[0, 3, 9], 3);
        assert_eq!(argument, "column");
        assert!(text.contains("found 9 in row 3 (element 2): pass columns that exist"), "{text}");
    }

    #[test]
    fn matrices_of_nothing_are_matrices() {
        whole([0, 0], &[0], &[], 0).unwrap();
        whole([3, 0], &[0; 4], &[], 0).unwrap();
        whole([0, 7], &[0], &[], 0).unwrap();
    }

    #[test]
    fn each_fault_has_one_text_that_names_the_argument_and_the_place() {
        for (shape, start, column, elements, expected) in [
            (
                [2, 2],
                &[0u64, 1][..],
                &[0u32, 1][..],
                2,
                ("start", "expected 3 row pointers, one more than there are rows, found 2"),
            ),
            (
                [2, 2],
                &[0, 1, 2, 2],
                &[0, 1],
                2,
                ("start", "expected 3 row pointers, one more than there are rows, found 4"),
            ),
            (
                [2, 2],
                &[],
                &[],
                0,
                ("start", "expected 3 row pointers, one more than there are rows, found 0"),
            ),
            ([2, 2], &[0, 1, 2], &[0], 2, ("column", "expected 2 columns, as `value` has elements, found 1")),
            ([2, 2], &[1, 2, 3], &[1, 2], 2, ("start", "expected 0 as the first row pointer, found 1")),
            ([2, 2], &[0, 2, 1], &[0, 1], 2, ("start", "found 2 and 1 of row 1")),
            (
                [2, 2],
                &[0, u64::MAX, 2],
                &[0, 1],
                2,
                ("start", "found 18446744073709551615 as number 1: as a signed number it is -1"),
            ),
            (
                [2, 2],
                &[0, 1, 1 << 63],
                &[0, 1],
                2,
                ("start", "expected row pointers below 2^63, found 9223372036854775808 as number 2"),
            ),
            (
                [2, 2],
                &[0, 1, 3],
                &[0, 1],
                2,
                ("start", "expected 2 as the last row pointer, number 2, as `value` has elements, found 3"),
            ),
            (
                [2, 2],
                &[0, 1, 1],
                &[0, 1],
                2,
                ("start", "expected 2 as the last row pointer, number 2, as `value` has elements, found 1"),
            ),
            (
                [2, 2],
                &[0, 1, 2],
                &[1, 2],
                2,
                ("column", "columns begin at 0, these at 1; subtract 1 from each"),
            ),
            ([2, 2], &[0, 1, 2], &[0, 2], 2, ("column", "found 2 in row 1 (element 1): columns begin at 0")),
            (
                [2, 2],
                &[0, 1, 2],
                &[3, 1],
                2,
                ("column", "found 3 in row 0 (element 0): pass columns that exist"),
            ),
        ] {
            let (argument, text) = text(shape, start, column, elements);
            assert_eq!(argument, expected.0, "{text}");
            assert!(text.contains(expected.1), "expected {:?} in {text:?}", expected.1);
        }
    }
}
