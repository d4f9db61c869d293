//! The forms of the rows: a table for the terminal, one in Markdown, JSON for programs, and a chart of the
//! scores.

use crate::stats::Row;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const HEAD: [&str; 8] = ["name", "unit", "value", "min .. max", "p99", "peer", "ratio", "95 %"];

/// A row's cells below [`HEAD`].
fn cells(row: &Row) -> [String; 8] {
    let range = |[low, high]: [f64; 2]| format!("{} .. {}", figure(low), figure(high));
    [
        row.name.clone(),
        row.unit.clone(),
        figure(row.value),
        range([row.min, row.max]),
        figure(row.p99),
        row.peer.map_or_else(|| "-".into(), figure),
        row.ratio.map_or_else(|| "-".into(), figure),
        row.interval.map_or_else(|| "-".into(), range),
    ]
}

/// The rows as a table with aligned columns, ready to print.
pub fn table(rows: &[Row]) -> String {
    let head = std::iter::once(HEAD.map(String::from));
    aligned(&head.chain(rows.iter().map(cells)).collect::<Vec<_>>())
}

/// Cells below each other. The first two columns are words.
pub fn aligned<const N: usize>(all: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let width = |row: &[String; N]| row[column].chars().count();
        all.iter().map(width).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in all {
        let columns = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            // Words to the left, figures to the right.
            match column {
                0 | 1 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            }
        });
        text += columns.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The rows as a table in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let head = std::iter::once(HEAD.map(String::from));
    markdown_of(&head.chain(rows.iter().map(cells)).collect::<Vec<_>>())
}

/// Cells as a table in Markdown; the first row is its head.
pub fn markdown_of<const N: usize>(all: &[[String; N]]) -> String {
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().map(|cell| cell.trim().replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let Some((head, rows)) = all.split_first() else { return String::new() };
    line(head) + &format!("|{}\n", "---|".repeat(N)) + &rows.iter().map(line).collect::<String>()
}

/// The rows as a JSON list of objects with [`Row`]'s fields.
pub fn json(rows: &[Row]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// The goal of a score, as its least value.
const GOAL: f64 = 0.99;

/// The scores as bars, with a line for the goal, and the least and the greatest turn of each.
pub fn svg(rows: &[Row]) -> String {
    let (left, width, step) = (250.0, 500.0, 20.0);
    let scores: Vec<&Row> = rows.iter().filter(|row| row.name.ends_with(" score")).collect();
    let most = scores.iter().map(|row| row.value).fold(1.2, f64::max);
    let x = |score: f64| left + width * (score / most).clamp(0.0, 1.0);
    let (height, goal) = (step * (scores.len() as f64 + 2.0), x(GOAL));
    let (right, end) = (left + width, left + width + 70.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {end} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (i, row) in scores.iter().enumerate() {
        let (top, name) = (step * (i as f64 + 1.0), row.name.trim_end_matches(" score"));
        let (middle, base) = (top + step / 2.0, top + step * 0.7);
        let fill = if row.value >= GOAL { "#4477aa" } else { "#cc6677" };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{name}</text>\
             <rect x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"black\"/>\
             <text x=\"{:.1}\" y=\"{base:.1}\">{:.3}</text>",
            left - 8.0,
            top + 2.0,
            x(row.value) - left,
            step - 4.0,
            x(row.min),
            x(row.max),
            right + 8.0,
            row.value
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{goal:.1}\" x2=\"{goal:.1}\" y1=\"{step}\" y2=\"{height}\" stroke=\"black\" \
         stroke-dasharray=\"4 3\"/><text x=\"{goal:.1}\" y=\"14\" text-anchor=\"middle\">{GOAL}</text>\n</svg>"
    );
    text
}

/// Four significant digits, and never fewer than the whole number has.
pub fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".into();
    }
    if magnitude < 1e-4 {
        return format!("{value:.3e}");
    }
    let decimals =
        [1000.0, 100.0, 10.0, 1.0, 0.1, 0.01].iter().take_while(|bound| magnitude < **bound).count();
    format!("{value:.decimals$}")
}

/// Writes a text to a file.
///
/// # Errors
///
/// If the file cannot be written; the error names it.
pub fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// An error if a file cannot be written. An existing file keeps its contents, and no new one is left.
pub fn can_write(file: &Path) -> Result<()> {
    // A link to nothing counts as a file.
    let is_new = file.symlink_metadata().is_err();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).with_context(|| format!("cannot write {}", file.display()))?;
    if is_new {
        std::fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(turns: &[(f64, Option<f64>)]) -> Row {
        Row::from_turns("launch", "ns", turns)
    }

    #[test]
    fn the_tables_columns_line_up() {
        let rows = [row(&[(345.6, Some(760.0))]), Row::from_turns("a longer name", "us", &[(0.01234, None)])];
        let expected = "\
name           unit    value          min .. max      p99   peer   ratio  95 %
launch         ns      345.6      345.6 .. 345.6    345.6  760.0  0.4547     -
a longer name  us    0.01234  0.01234 .. 0.01234  0.01234      -       -     -
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn figures_have_four_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (123_456.7, "123457"),
            (1234.5, "1234"),
            (99.99, "99.99"),
            (1.02, "1.020"),
            (0.000_01, "1.000e-5"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn json_is_a_list_of_rows_with_null_for_no_peer() -> Result<()> {
        let text = json(&[row(&[(2.0, None)])])?.replace(['\n', ' '], "");
        assert_eq!(
            text,
            r#"[{"name":"launch","unit":"ns","value":2.0,"min":2.0,"max":2.0,"p99":2.0,"peer":null,"ratio":null,"interval":null}]"#
        );
        Ok(())
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = write(Path::new("/nowhere/rows.json"), "").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nowhere/rows.json");
        assert_eq!(can_write(Path::new("/nowhere/rows.json")).unwrap_err().to_string(), error.to_string());
    }

    #[test]
    fn looking_whether_a_file_can_be_written_changes_nothing() -> Result<()> {
        let directory = tempfile::tempdir()?;
        let (new, old) = (directory.path().join("new.json"), directory.path().join("old.json"));
        std::fs::write(&old, "rows")?;
        can_write(&new)?;
        can_write(&old)?;
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&old)?, "rows");
        Ok(())
    }

    #[test]
    fn markdown_has_a_line_per_row_and_no_bar_inside_a_cell() {
        let rows = [row(&[(345.6, Some(760.0))]), Row::from_turns("a|b", "us", &[(0.5, None)])];
        let expected = "\
| name | unit | value | min .. max | p99 | peer | ratio | 95 % |
|---|---|---|---|---|---|---|---|
| launch | ns | 345.6 | 345.6 .. 345.6 | 345.6 | 760.0 | 0.4547 | - |
| a\\|b | us | 0.5000 | 0.5000 .. 0.5000 | 0.5000 | - | - | - |
";
        assert_eq!(markdown(&rows), expected);
    }

    #[test]
    fn the_chart_has_a_bar_per_score_and_the_goal() {
        let score = |name: &str, value| Row::from_turns(name, "score", &[(value, None)]);
        let rows =
            [score("vdp f32 ALL_CPU score", 1.0), score("js f32 ALL_CPU score", 0.5), row(&[(1.0, None)])];
        let text = svg(&rows);
        let bars: Vec<&str> = text.lines().filter(|line| line.contains("<rect x=")).collect();
        assert_eq!(bars.len(), 2, "{text}");
        // 500 wide for 1.2.
        assert!(bars[0].contains(">vdp f32 ALL_CPU<") && bars[0].contains("width=\"416.7\""), "{text}");
        assert!(bars[1].contains(">js f32 ALL_CPU<") && bars[1].contains("width=\"208.3\""), "{text}");
        assert!(text.contains(">0.99<") && text.trim_end().ends_with("</svg>"), "{text}");
    }
}
