//! Moves from a file of comma-separated values.

use std::path::Path;

use anyhow::Result;
use flash_examples::{Refused, is_not_zero, shown};

/// The columns of a file, in order.
const COLUMNS: [&str; 2] = ["rx", "ry"];

/// The moves of a file along x and y: those of all particles in the first iteration, then in the second, ...
///
/// # Errors
/// If the file cannot be read; [`Refused`] with line and column if it is malformed, or its moves do not make
/// whole iterations.
pub fn read(path: &Path, particles: usize) -> Result<[Vec<f32>; 2]> {
    let bytes = flash_examples::read(path, "--input")?;
    let moves = parse(&bytes).map_err(|problem| Refused(format!("{}, {problem}", path.display())))?;
    let count = moves[0].len();
    if count == 0 || !count.is_multiple_of(particles) {
        return Err(Refused(format!(
            "{}: expected a multiple of {particles} moves, one per particle and iteration, found {count}: \
             give the number of --particles that the file is of",
            path.display()
        ))
        .into());
    }
    Ok(moves)
}

/// A field without the spaces around it and the quotes that some programs write.
fn bare(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).map_or(field, str::trim)
}

/// An error begins with its place: line and column, from 1, comments and empty lines counted.
fn parse(bytes: &[u8]) -> Result<[Vec<f32>; 2], String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let byte = bytes[error.valid_up_to()];
        format!("line {line}: expected UTF-8 text, found the byte {byte:#04x}: save the file as UTF-8")
    })?;
    // Spreadsheets put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let (line, header) = lines.next().unwrap_or((text.lines().count().max(1), ""));
    if !header.split(',').map(bare).eq(COLUMNS) {
        return Err(format!(
            "line {line}: expected the header `{}`, found {}: the first line that is no comment has to be that",
            COLUMNS.join(","),
            shown(header)
        ));
    }
    let mut moves = [Vec::new(), Vec::new()];
    for (line, text) in lines {
        let fields: Vec<&str> = text.split(',').collect();
        if fields.len() != COLUMNS.len() {
            return Err(format!(
                "line {line}: expected {} fields ({}), found {}: one move per line, decimals with a point",
                COLUMNS.len(),
                COLUMNS.join(","),
                fields.len()
            ));
        }
        for (column, (field, moves)) in fields.iter().zip(&mut moves).enumerate() {
            match bare(field).parse::<f32>() {
                Ok(number) if number.is_finite() && (number != 0.0 || !is_not_zero(field)) => {
                    moves.push(number);
                }
                _ => {
                    return Err(format!(
                        "line {line}, column {}: expected a finite number that f32 can hold for `{}`, found {}: \
                         write it as 0.015 or 1.5e-2",
                        column + 1,
                        COLUMNS[column],
                        shown(field.trim())
                    ));
                }
            }
        }
    }
    Ok(moves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_read_in_order_as_other_programs_write_them() {
        let expected = [vec![0.5, 1.0, -0.25], vec![-1e-3, 2.0, 0.0]];
        for text in [
            "rx,ry\n0.5,-1e-3\n1,2\n-.25,0\n",
            "\u{feff}# made\r\n\r\nrx, ry\r\n 0.5 ,-0.001\r\n# between\r\n1.,+2\r\n-0.25,-0\r\n",
            "\"rx\",\"ry\"\n\"0.5\",-1e-3\n1,\"2\"\n-.25,0\n",
        ] {
            assert_eq!(parse(text.as_bytes()).expect("moves"), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, parts) in [
            ("", ["line 1:", "the header `rx,ry`, found nothing"]),
            ("# only\n", ["line 1:", "found nothing"]),
            ("1,2\n", ["line 1:", "found `1,2`"]),
            ("rx\n1\n", ["line 1:", "found `rx`"]),
            ("\"rx,ry\"\n1,2\n", ["line 1:", "expected the header `rx,ry`"]),
            ("rx,ry\n1,\"\n", ["line 2, column 2:", "finite"]),
            ("rx,ry\n\n1,2,3\n", ["line 3:", "expected 2 fields (rx,ry), found 3"]),
            ("rx,ry\n1\n", ["line 2:", "found 1"]),
            ("rx,ry\n1,one\n", ["line 2, column 2:", "`ry`, found `one`"]),
            ("rx,ry\n1,2\n,2\n", ["line 3, column 1:", "found nothing"]),
            ("rx,ry\nnan,2\n", ["line 2, column 1:", "finite"]),
            ("rx,ry\n1e39,2\n", ["line 2, column 1:", "f32 can hold"]),
            ("rx,ry\n1,1e-60\n", ["line 2, column 2:", "f32 can hold"]),
        ] {
            let problem = parse(text.as_bytes()).expect_err(text);
            assert!(parts.iter().all(|part| problem.contains(part)), "{text:?}: {problem}");
        }
        let problem = parse(b"rx,ry\n1,\xff\n").expect_err("no text");
        assert!(problem.contains("line 2:") && problem.contains("0xff"), "{problem}");
    }

    #[test]
    fn a_file_has_whole_iterations() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("moves.csv");
        std::fs::write(&path, "rx,ry\n1,2\n3,4\n5,6\n").expect("written");
        assert_eq!(read(&path, 3).expect("one iteration")[0].len(), 3);
        let error = read(&path, 2).expect_err("one and a half");
        assert!(error.is::<Refused>() && error.to_string().contains("multiple of 2 moves"), "{error}");
        std::fs::write(&path, "rx,ry\n").expect("written");
        assert!(read(&path, 3).expect_err("none").to_string().contains("found 0"));
    }
}
