//! Checks of entry points on the shapes of their arguments.

use flash_core::kernel::Element;
use flash_core::{Error, FlashMemory};

/// An argument that does not fit the others.
pub(crate) fn refused(kernel: &str, argument: &str, text: String) -> Error {
    Error::argument(kernel, argument, text)
}

/// Checks that a vector has `n` elements, as many as `of_what` has.
pub(crate) fn vector<T: Element>(
    kernel: &str,
    (argument, vector): (&str, &FlashMemory<T>),
    n: usize,
    of_what: &str,
) -> Result<(), Error> {
    match vector.len() {
        len if len == n => Ok(()),
        len => Err(refused(
            kernel,
            argument,
            format!("expected {n} elements, as {of_what}, found {len}: pass an array of that length"),
        )),
    }
}

/// The leading dimension of a matrix that holds `rows` rows of `columns` elements: its shape is
/// `[leading dimension, rows]`, row by row.
pub(crate) fn matrix<T: Element>(
    kernel: &str,
    (argument, matrix): (&str, &FlashMemory<T>),
    [rows, columns]: [usize; 2],
) -> Result<u64, Error> {
    let fits = |leading: u64, there: u64| leading >= columns as u64 && there >= rows as u64;
    match *matrix.shape() {
        [leading, there] if fits(leading, there) => Ok(leading),
        _ => {
            let found = shape_of(matrix);
            Err(refused(
                kernel,
                argument,
                format!(
                    "expected a matrix of {rows} rows and {columns} columns, that is the shape [{columns}, {rows}] or larger extents, found {found}: give it such a shape, the length of a row first"
                ),
            ))
        }
    }
}

/// As [`matrix`], for a result: all of each row is written.
pub(crate) fn just<T: Element>(
    kernel: &str,
    (argument, of): (&str, &FlashMemory<T>),
    [rows, columns]: [usize; 2],
) -> Result<u64, Error> {
    match matrix(kernel, (argument, of), [rows, columns])? {
        leading if leading == columns as u64 => Ok(leading),
        leading => Err(refused(
            kernel,
            argument,
            format!(
                "expected rows of {columns} elements, which are all written, found {leading}: give it the shape [{columns}, {rows}]"
            ),
        )),
    }
}

/// The columns of a result of this many rows, whose shape is `[columns, rows]` or has more rows.
pub(crate) fn columns<T: Element>(
    kernel: &str,
    (argument, of): (&str, &FlashMemory<T>),
    rows: usize,
) -> Result<usize, Error> {
    match *of.shape() {
        [columns, there] if there >= rows as u64 => Ok(columns as usize),
        _ => {
            let found = shape_of(of);
            Err(refused(
                kernel,
                argument,
                format!(
                    "expected a matrix of {rows} rows, that is the shape [columns, {rows}] or more rows, found {found}: give it such a shape, the length of a row first"
                ),
            ))
        }
    }
}

/// The shape of an array, for an error.
fn shape_of<T: Element>(array: &FlashMemory<T>) -> String {
    match array.shape() {
        [] => format!("{} elements without a shape", array.len()),
        shape => format!("the shape {shape:?}"),
    }
}

/// Checks that two arrays have one shape.
pub(crate) fn equal<T: Element>(
    kernel: &str,
    (first, a): (&str, &FlashMemory<T>),
    (argument, b): (&str, &FlashMemory<T>),
) -> Result<(), Error> {
    let shape = |m: &FlashMemory<T>| match m.shape() {
        [] => vec![m.len() as u64],
        shape => shape.to_vec(),
    };
    match (shape(a), shape(b)) {
        (a, b) if a == b => Ok(()),
        (a, b) => Err(refused(
            kernel,
            argument,
            format!("expected the shape {a:?}, which `{first}` has, found {b:?}: pass arrays of one shape"),
        )),
    }
}
