//! What kernels check of the matrices that they get.

/// Checks that an array has a matrix of `rows` and `columns`, which is stored row by row with `leading`
/// elements from row to row.
///
/// # Panics
/// If it does not: the kernel fails.
#[track_caller]
pub(crate) fn check(kernel: &str, (name, len): (&str, usize), [rows, columns]: [usize; 2], leading: usize) {
    let needed = match rows {
        0 => 0,
        _ => (rows - 1).saturating_mul(leading).saturating_add(columns),
    };
    assert!(
        (leading >= columns || rows == 0) && len >= needed,
        "{kernel}: expected {needed} elements of `{name}` for {rows} rows of {columns}, {leading} apart, found {len}: pass a larger array, or the right leading dimension"
    );
}

/// The stored rows and columns of a factor of `rows` and `columns`.
pub(crate) fn stored<N>(transposed: bool, [rows, columns]: [N; 2]) -> [N; 2] {
    if transposed { [columns, rows] } else { [rows, columns] }
}
