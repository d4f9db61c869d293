//! A trace as one picture: for pages, and for a first look. It has no zoom, so what is too short to be seen
//! is left out.

use crate::event::Category;
use crate::rows::{Piece, Timeline};
use std::fmt::Write as _;
use std::io::{self, Write};

const WIDTH: f64 = 1200.0;
const NAMES: f64 = 150.0;
const MARGIN: f64 = 12.0;
const HEAD: f64 = 26.0;
/// The height of a span, and the space after a row.
const SPAN: f64 = 20.0;
const GAP: f64 = 10.0;
/// Spans and arrows shorter than this are drawn only where nothing is.
const LEAST: f64 = 0.3;
const MOST_ARROWS: usize = 2000;
const LETTER: f64 = 6.7;

const STYLE: &str = "text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px;fill:#27272a}\
.time{text-anchor:middle;fill:#71717a}.tick{stroke:#e4e4e7}.arrow{stroke:#3f3f46;stroke-opacity:.55;fill:none}";
/// Colours of spans, by their names.
const COLOURS: [&str; 10] = [
    "#93c5fd", "#fca5a5", "#86efac", "#fcd34d", "#c4b5fd", "#f9a8d4", "#5eead4", "#fdba74", "#a5b4fc",
    "#bef264",
];

pub(crate) fn write(timeline: &Timeline, to: &mut impl Write) -> io::Result<()> {
    let scale = (WIDTH - NAMES) / timeline.end.max(1) as f64;
    let x = |time: u64| MARGIN + NAMES + time as f64 * scale;
    // Where each row begins.
    let mut tops = Vec::new();
    let mut y = MARGIN + HEAD;
    for row in &timeline.rows {
        tops.push(y);
        let deepest = row.pieces.iter().map(|piece| piece.depth + 1).max().unwrap_or(1);
        y += SPAN * deepest as f64 + GAP;
    }
    let (across, down) = (WIDTH + 2.0 * MARGIN, y + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across} {down}\" width=\"{across}\" \
         height=\"{down}\">\n<style>{STYLE}</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" \
         markerWidth=\"6\" markerHeight=\"6\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" \
         fill=\"#3f3f46\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (time, label) in ticks(timeline.end) {
        let x = x(time);
        let _ = writeln!(
            svg,
            "<path class=\"tick\" d=\"M{x:.1} {HEAD}V{y:.1}\"/><text class=\"time\" x=\"{x:.1}\" y=\"20\">{label}</text>"
        );
    }
    let name = |id: u32| timeline.names.get(id as usize).map_or("", |name| name);
    for (row, top) in timeline.rows.iter().zip(&tops) {
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
            top + 14.0,
            xml(&cut(&row.name, NAMES - 8.0))
        );
        // Up to where spans are drawn, by depth.
        let mut drawn: Vec<f64> = Vec::new();
        for piece in &row.pieces {
            let (left, right) = (x(piece.begin), x(piece.end));
            if drawn.len() <= piece.depth {
                drawn.resize(piece.depth + 1, 0.0);
            }
            if right - drawn[piece.depth] < LEAST {
                continue;
            }
            drawn[piece.depth] = right;
            span(&mut svg, piece, name(piece.name), (left, right - left), top + SPAN * piece.depth as f64);
        }
        to.write_all(std::mem::take(&mut svg).as_bytes())?;
    }
    for arrow in timeline.arrows.iter().take(MOST_ARROWS) {
        let end = |place: crate::rows::Place| {
            let pieces = &timeline.rows[place.row].pieces;
            let before = pieces.partition_point(|piece| piece.begin <= place.time);
            let here = pieces[..before].iter().rev().find(|piece| piece.end >= place.time);
            let depth = here.map_or(0, |piece| piece.depth);
            (x(place.time), tops[place.row] + SPAN * depth as f64 + SPAN / 2.0)
        };
        let ((x1, y1), (x2, y2)) = (end(arrow.from), end(arrow.to));
        let _ = writeln!(
            svg,
            "<path class=\"arrow\" marker-end=\"url(#tip)\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"><title>{}</title></path>",
            xml(name(arrow.name))
        );
    }
    svg.push_str("</svg>\n");
    to.write_all(svg.as_bytes())
}

fn span(svg: &mut String, piece: &Piece, name: &str, (x, across): (f64, f64), y: f64) {
    let sum = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let colour = match piece.category {
        Category::Worker => "#f4f4f5",
        _ => COLOURS[sum % COLOURS.len()],
    };
    let numbers = piece.category.numbers().iter().zip(piece.numbers);
    let numbers: String = numbers.map(|(what, number)| format!(", {what} {number}")).collect();
    let title = format!("{name}: {}{numbers}", time(piece.end - piece.begin));
    let _ = write!(
        svg,
        "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" \
         fill=\"{colour}\" stroke=\"#52525b\" stroke-width=\"0.4\"/>",
        xml(&title),
        across.max(0.4),
        SPAN - 2.0
    );
    if across > 4.0 * LETTER {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 3.0,
            y + 13.0,
            xml(&cut(name, across - 6.0))
        );
    }
    svg.push_str("</g>\n");
}

/// What fits into a width.
fn cut(text: &str, width: f64) -> String {
    let most = (width / LETTER).max(1.0) as usize;
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Round times up to an end, ten at most.
fn ticks(end: u64) -> Vec<(u64, String)> {
    let least = (end / 10).max(1);
    let power = 10_u64.pow(least.ilog10());
    let step = [1, 2, 5, 10].into_iter().map(|n| n * power).find(|step| *step >= least).unwrap_or(least);
    (0..).map(|n| n * step).take_while(|at| *at <= end).map(|at| (at, time(at))).collect()
}

fn time(nanoseconds: u64) -> String {
    let (unit, name) = match nanoseconds {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = nanoseconds as f64 / unit;
    let digits = if value.fract() == 0.0 { 0 } else { 2 };
    format!("{value:.digits$} {name}")
}

/// Text as XML has it, which has no control characters.
///
/// ```
/// assert_eq!(flash_trace::hooks::xml("a < \"b\""), "a &lt; &quot;b&quot;");
/// ```
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for end in [0, 1, 9, 10, 11, 99, 1234, 5_000_000, 123_456_789_012] {
            let ticks = ticks(end);
            assert!(!ticks.is_empty() && ticks.len() <= 12, "{end}: {ticks:?}");
            assert!(ticks.iter().all(|(at, _)| *at <= end));
        }
        let labels: Vec<String> = ticks(5_000).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels[..4], ["0 ns", "500 ns", "1 us", "1.50 us"]);
    }
}
