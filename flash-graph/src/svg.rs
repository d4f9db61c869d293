//! Pictures as SVG.

use crate::layout::{Layout, Line, Point, Vertex, layout};
use crate::picture::{EdgeView, Form, NodeView, View, short_time};
use flash_trace::hooks::xml;
use std::fmt::Write;
use std::time::Duration;

/// Widths of a letter at the sizes of names and of other text, and their lines.
const NAME: f64 = 7.9;
const SMALL: f64 = 6.7;
const LINE: f64 = 15.0;
const BAR: f64 = 6.0;
const MARGIN: f64 = 16.0;
/// Letters of a text that are shown; all of it is in the tool tip.
const LETTERS: usize = 28;

const BUSY: &str = "#e5484d";
const ROOM: &str = "#3b82f6";
const POOL: &str = "#f5a524";
const IDLE: &str = "#e4e4e7";

const STYLE: &str = "text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px;fill:#27272a}\
.name{font-size:13px;font-weight:bold}.edge{fill:none;stroke:#71717a}\
.label{text-anchor:middle}.halo{stroke:#fff;stroke-width:3px;stroke-opacity:.8}.middle{text-anchor:middle}\
.scope{fill:#f4f4f5;stroke:#a1a1aa}.box{stroke:#52525b}";

pub(crate) fn draw(view: &View<'_>) -> String {
    let vertices: Vec<Vertex<'_>> = view.nodes.iter().map(|node| vertex(node, view.elapsed)).collect();
    let label = |edge: &EdgeView<'_>| {
        let width = edge.lines().iter().map(|line| width(&shown(line), SMALL)).fold(0.0, f64::max);
        Line { from: edge.from, to: edge.to, label: width }
    };
    let lines: Vec<Line> = view.edges.iter().map(label).collect();
    let layout = layout(&vertices, &lines);
    let title = match view.elapsed {
        None => view.name.to_string(),
        Some(elapsed) => format!("{}, {}", view.name, short_time(elapsed)),
    };
    let legend = legend(view.elapsed.is_some());
    let across = layout.size.0.max(legend.0).max(width(&title, NAME)) + 2.0 * MARGIN;
    let (top, under) = (MARGIN + 24.0, 34.0);
    let down = layout.size.1 + top + under + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across:.0} {down:.0}\" width=\"{across:.0}\" \
         height=\"{down:.0}\">\n<title>{0}</title>\n<style>{STYLE}</style>\n<defs><marker id=\"tip\" \
         viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#71717a\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text class=\"name\" x=\"{MARGIN}\" y=\"{1}\">{0}</text>\n",
        xml(&title),
        MARGIN + 10.0,
    );
    let _ = writeln!(svg, "<g transform=\"translate({MARGIN} {top})\">");
    drawing(&mut svg, view, &vertices, &layout);
    let _ = writeln!(
        svg,
        "</g>\n<g transform=\"translate({MARGIN} {:.0})\">{}</g>\n</svg>",
        down - under,
        legend.1
    );
    svg
}

fn vertex<'a>(node: &NodeView<'a>, elapsed: Option<Duration>) -> Vertex<'a> {
    let mut scopes: Vec<&str> = node.name.split('/').collect();
    scopes.pop();
    let lines = node.lines(elapsed);
    let texts = lines.iter().map(|line| width(line, SMALL)).chain([width(&name(node), NAME)]);
    let across = texts.fold(70.0, f64::max) + 20.0;
    let bar = if has_bar(node, elapsed) { BAR + 4.0 } else { 0.0 };
    Vertex { scopes, size: (across, LINE * (1 + lines.len()) as f64 + 12.0 + bar) }
}

fn has_bar(node: &NodeView<'_>, elapsed: Option<Duration>) -> bool {
    elapsed.is_some() && matches!(node.form, Form::Node | Form::Source)
}

fn name(node: &NodeView<'_>) -> String {
    let name = shown(node.last_name());
    if node.replicas > 1 { format!("{name} ×{}", node.replicas) } else { name }
}

fn drawing(svg: &mut String, view: &View<'_>, vertices: &[Vertex<'_>], layout: &Layout) {
    for frame in &layout.frames {
        let (Point { x, y }, (w, h)) = (frame.at, frame.size);
        let _ = writeln!(
            svg,
            "<g><rect class=\"scope\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"8\" \
             fill-opacity=\"{:.1}\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            if frame.depth > 1 { 0.6 } else { 1.0 },
            x + 10.0,
            y + 17.0,
            xml(&frame.name),
        );
    }
    for (edge, points) in view.edges.iter().zip(&layout.lines) {
        let dashes = if edge.copies { " stroke-dasharray=\"5 3\"" } else { "" };
        // Wider, the longer its queue was.
        let longest = edge.queue.as_ref().map_or(0, |queue| queue.longest);
        let wide = 1.0 + 0.7 * (longest as f64).max(1.0).log10();
        let _ = writeln!(
            svg,
            "<path class=\"edge\" stroke-width=\"{wide:.1}\"{dashes} marker-end=\"url(#tip)\" d=\"{}\"/>",
            path(points)
        );
    }
    for ((node, vertex), at) in view.nodes.iter().zip(vertices).zip(&layout.vertices) {
        draw_node(svg, node, view.elapsed, *at, vertex.size);
    }
    for (edge, at) in view.edges.iter().zip(&layout.labels) {
        let lines = edge.lines();
        let _ = write!(svg, "<g><title>{}</title>", xml(&format!("{} {}", edge.datum, lines[1..].join(" "))));
        for (i, line) in lines.iter().enumerate() {
            let (y, line) = (at.y - 5.0 + i as f64 * 18.0, xml(&shown(line)));
            // The first keeps it readable where a line goes through.
            for class in ["label halo", "label"] {
                let _ = write!(svg, "<text class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\">{line}</text>", at.x);
            }
        }
        svg.push_str("</g>\n");
    }
}

fn draw_node(
    svg: &mut String,
    node: &NodeView<'_>,
    elapsed: Option<Duration>,
    at: Point,
    (w, h): (f64, f64),
) {
    let (x, y, middle) = (at.x, at.y, at.x + w / 2.0);
    let round = if matches!(node.form, Form::Input | Form::Output) { h / 2.0 } else { 4.0 };
    let shares = node.shares(elapsed.unwrap_or_default());
    // From white to red, by how busy it is.
    let heat = |part: f64| (255.0 - shares[0] * part).round();
    let fill = match has_bar(node, elapsed) {
        true => format!("rgb(255,{},{})", heat(90.0), heat(90.0)),
        false => "#fff".into(),
    };
    let lines = node.lines(elapsed);
    let _ = write!(
        svg,
        "<g><title>{}</title><rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" \
         rx=\"{round:.1}\" fill=\"{fill}\"/><text class=\"name middle\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
        xml(&format!("{}\n{}", node.name, lines.join("\n"))),
        y + 18.0,
        xml(&name(node)),
    );
    for (i, line) in lines.iter().enumerate() {
        let y = y + 18.0 + LINE * (i + 1) as f64;
        let _ = write!(svg, "<text class=\"middle\" x=\"{middle:.1}\" y=\"{y:.1}\">{}</text>", xml(line));
    }
    if has_bar(node, elapsed) {
        let (mut left, full, y) = (x + 6.0, w - 12.0, y + h - BAR - 5.0);
        let mut bar = |share: f64, color: &str| {
            let across = share * full;
            if across >= 0.05 {
                let _ = write!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{across:.1}\" height=\"{BAR}\" fill=\"{color}\"/>"
                );
            }
            left += across;
        };
        // Several replicas may wait for one thing, so the parts may be more than the whole.
        let sum = shares.iter().sum::<f64>().max(1.0);
        let parts = shares.map(|share| share / sum);
        parts.iter().zip([BUSY, ROOM, POOL]).for_each(|(part, color)| bar(*part, color));
        bar((1.0 - parts.iter().sum::<f64>()).max(0.0), IDLE);
    }
    svg.push_str("</g>\n");
}

/// A line through points, with curves where it goes from one height to another.
fn path(points: &[Point]) -> String {
    let mut path = String::new();
    for (i, pair) in points.windows(2).enumerate() {
        let [a, b] = pair else { continue };
        if i == 0 {
            let _ = write!(path, "M{:.1} {:.1}", a.x, a.y);
        }
        if a == b {
            continue;
        }
        let slanted = (a.x - b.x).abs() > 0.05 && (a.y - b.y).abs() > 0.05;
        let _ = match slanted {
            true => {
                let middle = (a.x + b.x) / 2.0;
                write!(path, "C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}", a.y, b.y, b.x, b.y)
            }
            false => write!(path, "L{:.1} {:.1}", b.x, b.y),
        };
    }
    path
}

/// What the colours mean, and its width.
fn legend(ran: bool) -> (f64, String) {
    let colours: &[(&str, &str)] = match ran {
        true => &[
            (BUSY, "busy"),
            (ROOM, "waits for room, or its turn"),
            (POOL, "waits for a pool"),
            (IDLE, "idle"),
        ],
        false => &[],
    };
    let (mut x, mut svg) = (0.0, String::new());
    for (colour, text) in colours {
        let _ = write!(
            svg,
            "<rect x=\"{x:.0}\" y=\"0\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"10\">{text}</text>",
            x + 17.0
        );
        x += 17.0 + width(text, SMALL) + 18.0;
    }
    let dashes = "dashes: copies";
    let wide = if ran { "width: longest queue" } else { "" };
    for text in [dashes, wide] {
        let _ = write!(svg, "<text x=\"{x:.0}\" y=\"10\">{text}</text>");
        x += width(text, SMALL) + 18.0;
    }
    (x, svg)
}

/// The first letters of a text.
fn shown(text: &str) -> String {
    match text.chars().nth(LETTERS) {
        None => text.to_string(),
        Some(_) => text.chars().take(LETTERS - 1).chain(['…']).collect(),
    }
}

/// The width of a text, about: letters of East Asia are two wide.
fn width(text: &str, letter: f64) -> f64 {
    text.chars().map(|c| if c >= '\u{1100}' { 2.0 } else { 1.0 }).sum::<f64>() * letter
}
