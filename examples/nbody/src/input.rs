//! Bodies from a file of comma-separated values.
//!
//! The lines are split here and not by the `csv` crate. An error has to name the line as an editor counts it,
//! comments and empty lines included, and that crate gives the place where it began to look for a record.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Result;
use flash_examples::{Refused, is_not_zero, shown};

use crate::bodies::{Bodies, Scalar};

/// The columns of a file, in order.
pub const COLUMNS: [&str; 8] = ["name", "mass", "x", "y", "z", "vx", "vy", "vz"];

/// Reads the bodies of a file, in the precision of the run.
pub fn read<T: Scalar>(path: &Path) -> Result<Bodies<T>> {
    let bytes = flash_examples::read(path, "--input")?;
    parse(&bytes).map_err(|wrong| Refused(wrong.in_file(path)).into())
}

/// An error in a file, and its place.
#[derive(Debug, PartialEq)]
struct Malformed {
    /// From 1, with comments and empty lines.
    line: usize,
    /// The field, from 1.
    column: usize,
    /// What was expected, what was found, what to do.
    problem: String,
}

impl Malformed {
    fn in_file(&self, path: &Path) -> String {
        let Self { line, column, problem } = self;
        format!("{}, line {line}, column {column}: {problem}", path.display())
    }
}

fn parse<T: Scalar>(bytes: &[u8]) -> Result<Bodies<T>, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_text(bytes, error.valid_up_to()))?;
    // Spreadsheets put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let end = text.lines().count().max(1);

    let Some((line, header)) = lines.next() else {
        return Err(Malformed {
            line: end,
            column: 1,
            problem: format!(
                "expected the header `{}`, found the end of the file: is this the right file?",
                COLUMNS.join(",")
            ),
        });
    };
    check_header(line, header)?;

    let mut names = Vec::new();
    let mut bodies = Bodies { names: None, mass: Vec::new(), pos: Vec::new(), vel: Vec::new() };
    for (line, text) in lines {
        let fields = split(line, text)?;
        check_count(line, &fields)?;
        let number = |column: usize| number::<T>(line, column, &fields[column]);
        let mass = number(1)?;
        if mass.widened() < 0.0 {
            return Err(Malformed {
                line,
                column: 2,
                problem: format!(
                    "expected a mass of zero or more, found {}: drop the sign",
                    shown(&fields[1])
                ),
            });
        }
        bodies.mass.push(mass);
        bodies.pos.push([number(2)?, number(3)?, number(4)?]);
        bodies.vel.push([number(5)?, number(6)?, number(7)?]);
        names.push(fields[0].clone().into_owned());
    }
    if names.is_empty() {
        return Err(Malformed {
            line: end,
            column: 1,
            problem: "expected at least one body below the header, found the end of the file: add \
                      a line per body"
                .into(),
        });
    }
    bodies.names = Some(names);
    Ok(bodies)
}

fn check_header(line: usize, header: &str) -> Result<(), Malformed> {
    let fields = split(line, header)?;
    let found = |column: usize| fields.get(column).map(|field| field.trim());
    let wrong =
        (0..COLUMNS.len().max(fields.len())).find(|&column| found(column) != COLUMNS.get(column).copied());
    let Some(column) = wrong else {
        return Ok(());
    };
    let expected = match COLUMNS.get(column) {
        Some(name) => format!("the header's `{name}`"),
        None => "the end of the header".into(),
    };
    let found = found(column).map_or("the end of the line".into(), shown);
    Err(Malformed {
        line,
        column: column + 1,
        problem: format!(
            "expected {expected}, found {found}: the first line that is no comment has to be `{}`",
            COLUMNS.join(",")
        ),
    })
}

fn check_count(line: usize, fields: &[Cow<'_, str>]) -> Result<(), Malformed> {
    let (expected, found) = (COLUMNS.len(), fields.len());
    let (column, advice) = match found {
        _ if found < expected => (found + 1, "give the missing ones"),
        _ if found > expected => (
            expected + 1,
            "drop the rest, write decimals with a point, and put a name that has a comma in \
             double quotes",
        ),
        _ => return Ok(()),
    };
    Err(Malformed {
        line,
        column,
        problem: format!("expected {expected} fields ({}), found {found}: {advice}", COLUMNS.join(",")),
    })
}

/// The finite number in field `index`.
fn number<T: Scalar>(line: usize, index: usize, field: &str) -> Result<T, Malformed> {
    let text = field.trim();
    let problem = match (text.parse::<T>(), text.parse::<f64>()) {
        (Ok(number), _) if number.widened() == 0.0 && is_not_zero(text) => format!(
            "expected 0, or a number that {} can hold (from {:e} on), found {}: {}",
            T::NAME,
            T::LEAST.widened(),
            shown(text),
            advice::<T>(),
        ),
        (Ok(number), _) if number.widened().is_finite() => return Ok(number),
        // Out of the range of this precision, though written as a finite decimal.
        (Ok(_), Ok(_)) if text.contains(|c: char| c.is_ascii_digit()) => format!(
            "expected a number that {} can hold (up to {:e}), found {}: {}",
            T::NAME,
            T::LARGEST.widened(),
            shown(text),
            advice::<T>(),
        ),
        _ => format!(
            "expected a finite decimal number for `{}`, found {}: write it as 1.5 or 15e-1",
            COLUMNS[index],
            shown(text)
        ),
    };
    Err(Malformed { line, column: index + 1, problem })
}

fn advice<T: Scalar>() -> &'static str {
    match T::NAME {
        "f32" => "use --precision f64, or other units",
        _ => "use other units",
    }
}

/// The fields of a line. A field that begins with a double quote runs to the next one that is not
/// doubled.
fn split(line: usize, text: &str) -> Result<Vec<Cow<'_, str>>, Malformed> {
    let mut fields = Vec::with_capacity(COLUMNS.len());
    let mut rest = text;
    loop {
        let column = fields.len() + 1;
        let wrong = |problem: &str| Malformed { line, column, problem: problem.into() };
        let (field, tail) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
            Some(quoted) => {
                let (field, tail) = unquote(quoted).ok_or_else(|| {
                    wrong(
                        "expected a closing double quote, found the end of the line: close it; a \
                         quote inside a quoted field is written twice",
                    )
                })?;
                (Cow::Owned(field), tail)
            }
        };
        fields.push(field);
        match tail.strip_prefix(',') {
            Some(next) => rest = next,
            None if tail.trim().is_empty() => return Ok(fields),
            None => {
                return Err(wrong(
                    "expected a comma after the closing double quote, found more text: a quote \
                     inside a quoted field is written twice",
                ));
            }
        }
    }
}

/// The field up to its closing quote, and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, tail) = rest.split_once('"')?;
        field.push_str(part);
        match tail.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Some((field, tail)),
        }
    }
}

fn not_text(bytes: &[u8], valid: usize) -> Malformed {
    let good = &bytes[..valid];
    let line_start = good.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let count = |bytes: &[u8], wanted: u8| bytes.iter().filter(|&&byte| byte == wanted).count();
    Malformed {
        line: count(good, b'\n') + 1,
        column: count(&good[line_start..], b',') + 1,
        problem: format!("expected UTF-8 text, found the byte {:#04x}: save the file as UTF-8", bytes[valid]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "name,mass,x,y,z,vx,vy,vz\n";

    fn good(text: &str) -> Bodies<f64> {
        parse(text.as_bytes()).unwrap_or_else(|wrong| panic!("{text:?}: {wrong:?}"))
    }

    #[test]
    fn a_file_is_read_in_order() {
        let bodies = good(&format!("# from\n\n{HEADER}a,1,2,3,4,5,6,7\n# between\nb,0,-1,+2,.5,1.,1e3,-0\n"));
        assert_eq!(bodies.names, Some(vec!["a".into(), "b".into()]));
        assert_eq!(bodies.mass, [1.0, 0.0]);
        assert_eq!(bodies.pos, [[2.0, 3.0, 4.0], [-1.0, 2.0, 0.5]]);
        assert_eq!(bodies.vel, [[5.0, 6.0, 7.0], [1.0, 1000.0, 0.0]]);
    }

    #[test]
    fn line_ends_marks_spaces_and_quotes_are_taken_as_other_programs_write_them() {
        let plain = good(&format!("{HEADER}a,1,2,3,4,5,6,7\n"));
        for text in [
            "name,mass,x,y,z,vx,vy,vz\r\na,1,2,3,4,5,6,7\r\n".to_owned(),
            format!("\u{feff}{HEADER}a,1,2,3,4,5,6,7"),
            format!("{HEADER}a, 1 ,2,3,4,5,6,\t7\n\n  \n"),
            "name, mass, x, y, z, vx, vy, vz\n\"a\",\"1\",2,3,4,5,6,\"7\"\n# end".to_owned(),
        ] {
            assert_eq!(good(&text), plain, "{text:?}");
        }
        let quoted = good(&format!("{HEADER}\"a, \"\"b\"\"\",1,2,3,4,5,6,7\n"));
        assert_eq!(quoted.name(0), "a, \"b\"");
    }

    #[test]
    fn numbers_are_read_in_the_precision_of_the_run_and_not_widened() {
        let text = format!("{HEADER}a,0.1,0.2,0,0,0,0,0\n");
        assert_eq!(good(&text).mass[0], 0.1);
        assert_eq!(parse::<f32>(text.as_bytes()).expect("a file").mass[0], 0.1f32);
    }

    #[test]
    fn errors_name_line_and_column() {
        let body = |fields: &str| format!("# one\n{HEADER}\n# four\na,1,2,3,4,5,6,7\n{fields}\n");
        let cases: &[(String, usize, usize, &str)] = &[
            ("".into(), 1, 1, "expected the header"),
            ("\n# only a comment\n".into(), 2, 1, "expected the header"),
            (HEADER.into(), 1, 1, "at least one body"),
            (format!("{HEADER}# none\n"), 2, 1, "at least one body"),
            ("a,1,2,3,4,5,6,7\n".into(), 1, 1, "found `a`"),
            ("name;mass;x;y;z;vx;vy;vz\n".into(), 1, 1, "found `name;mass"),
            ("name,mass,x,y,z,vx,vy\n".into(), 1, 8, "found the end of the line"),
            ("# c\nname,mass,y,x,z,vx,vy,vz\n".into(), 2, 3, "expected the header's `x`, found `y`"),
            ("name,mass,x,y,z,vx,vy,vz,vz\n".into(), 1, 9, "expected the end of the header"),
            ("name,mass,x,x,y,z,vx,vy,vz\n".into(), 1, 4, "found `x`"),
            (body(HEADER.trim()), 6, 2, "found `mass`"),
            (body("b,1,2,3,4,5,6"), 6, 8, "found 7"),
            (body("b,1,2,3,4,5,6,7,8"), 6, 9, "found 9"),
            (body("b"), 6, 2, "found 1"),
            (body("b,one,2,3,4,5,6,7"), 6, 2, "`mass`, found `one`"),
            (body("b,1,2,,4,5,6,7"), 6, 4, "`y`, found nothing"),
            (body("b,1,2,3,4,5,6,nan"), 6, 8, "finite"),
            (body("b,1,2,3,inf,5,6,7"), 6, 5, "finite"),
            (body("b,1,2,3,4,-infinity,6,7"), 6, 6, "finite"),
            (body("b,-1,2,3,4,5,6,7"), 6, 2, "mass of zero or more"),
            (body("b,1,2,3,4,5,1e999,7"), 6, 7, "f64 can hold"),
            (body("b,1,2,3,4,0x10,6,7"), 6, 6, "`0x10`"),
            (body("b,1,2,3,4,5,1_0,7"), 6, 7, "`1_0`"),
            (body("\"b,1,2,3,4,5,6,7"), 6, 1, "closing double quote"),
            (body("\"b\"c,1,2,3,4,5,6,7"), 6, 1, "comma after"),
            (body("b,1,\"2,3,4,5,6,7"), 6, 3, "closing double quote"),
        ];
        for (text, line, column, part) in cases {
            let wrong = parse::<f64>(text.as_bytes()).expect_err(text);
            assert_eq!((wrong.line, wrong.column), (*line, *column), "{text:?}: {wrong:?}");
            assert!(wrong.problem.contains(part), "{text:?}: {wrong:?}");
        }
    }

    #[test]
    fn single_precision_refuses_what_only_double_precision_holds() {
        let text = format!("{HEADER}a,1,2,1e39,4,5,6,7\n");
        good(&text);
        let wrong = parse::<f32>(text.as_bytes()).expect_err("too large");
        assert_eq!((wrong.line, wrong.column), (2, 4));
        assert!(wrong.problem.contains("--precision f64"), "{wrong:?}");
        let text = format!("{HEADER}a,1,2,3,1e-60,5,6,7\n");
        good(&text);
        let wrong = parse::<f32>(text.as_bytes()).expect_err("too small");
        assert_eq!((wrong.line, wrong.column), (2, 5));
        assert!(wrong.problem.contains("from 1.4") && wrong.problem.contains("--precision f64"), "{wrong:?}");
        let wrong =
            parse::<f64>(format!("{HEADER}a,1,2,3,-1e-400,5,6,7\n").as_bytes()).expect_err("too small");
        assert!(wrong.problem.contains("use other units"), "{wrong:?}");
        good(&format!("{HEADER}a,1,2,3,-0.0e-400,5,6,7\n"));
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        let mut bytes = format!("{HEADER}a,1,2,3,4,5,6,7\nb,1,").into_bytes();
        bytes.extend(b"\xff2");
        let wrong = parse::<f64>(&bytes).expect_err("not UTF-8");
        assert_eq!((wrong.line, wrong.column), (3, 3));
        assert!(wrong.problem.contains("0xff"), "{wrong:?}");
    }

    #[test]
    fn long_fields_are_cut_in_errors() {
        let text = format!("{HEADER}a,{},2,3,4,5,6,7\n", "é".repeat(1000));
        let wrong = parse::<f64>(text.as_bytes()).expect_err("not a number");
        assert!(wrong.problem.len() < 250, "{wrong:?}");
    }
}
