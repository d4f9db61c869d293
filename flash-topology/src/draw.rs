//! A picture of machines as SVG: boxes in boxes, by what shares what.

use crate::text::{device, size};
use crate::{Cache, CpuSet, Holds, Host, Topology};
use std::fmt::Write;

const LETTER: f64 = 6.7;
const LINE: f64 = 15.0;
const PAD: f64 = 7.0;
/// How much wider than high a group of boxes is to be.
const SHAPE: f64 = 2.0;
/// Boxes in boxes at most: no machine has more levels.
const DEPTH: usize = 12;
/// Colours of processes, in turn.
const COLOURS: [&str; 8] =
    ["#93c5fd", "#fcd34d", "#86efac", "#f9a8d4", "#c4b5fd", "#fdba74", "#67e8f9", "#d4d4d8"];

const STYLE: &str = "text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px;fill:#27272a}\
.name{font-weight:bold}rect{stroke:#71717a}";

/// A box: lines of text, and boxes inside.
struct Shape {
    lines: Vec<String>,
    fill: &'static str,
    inside: Vec<Shape>,
    /// Set by `arrange`: boxes in a row, and width and height.
    columns: usize,
    size: (f64, f64),
}

impl Shape {
    fn new(lines: Vec<String>, fill: &'static str, inside: Vec<Shape>) -> Shape {
        let mut shape = Shape { lines, fill, inside, columns: 1, size: (0.0, 0.0) };
        shape.arrange();
        shape
    }

    fn arrange(&mut self) {
        let text = self.lines.iter().map(|line| line.chars().count() as f64 * LETTER).fold(0.0, f64::max);
        let above = self.lines.len() as f64 * LINE;
        let count = self.inside.len() as f64;
        let widest = self.inside.iter().map(|one| one.size.0).fold(1.0, f64::max);
        let highest = self.inside.iter().map(|one| one.size.1).fold(1.0, f64::max);
        self.columns =
            ((count * highest * SHAPE / widest).sqrt().ceil() as usize).clamp(1, self.inside.len().max(1));
        let mut inside = (0.0_f64, 0.0);
        for row in self.inside.chunks(self.columns) {
            let (width, height) = extent(row);
            inside = (inside.0.max(width), inside.1 + height + PAD);
        }
        self.size =
            (text.max(inside.0) + 2.0 * PAD, above + inside.1 + PAD + if count > 0.0 { 0.0 } else { 3.0 });
    }

    fn draw(&self, svg: &mut String, (x, y): (f64, f64)) {
        let (width, height) = self.size;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{}\"/>",
            self.fill
        );
        for (i, line) in self.lines.iter().enumerate() {
            let class = if i == 0 && !self.inside.is_empty() { " class=\"name\"" } else { "" };
            let at = y + LINE * (i as f64 + 0.9);
            let _ = writeln!(svg, "<text{class} x=\"{:.1}\" y=\"{at:.1}\">{}</text>", x + PAD, escaped(line));
        }
        let mut down = y + LINE * self.lines.len() as f64 + PAD;
        for row in self.inside.chunks(self.columns) {
            let mut across = x + PAD;
            for one in row {
                one.draw(svg, (across, down));
                across += one.size.0 + PAD;
            }
            down += extent(row).1 + PAD;
        }
    }
}

/// Width and height of boxes in a row.
fn extent(row: &[Shape]) -> (f64, f64) {
    let width: f64 = row.iter().map(|one| one.size.0 + PAD).sum();
    (width - PAD, row.iter().map(|one| one.size.1).fold(0.0, f64::max))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Characters that XML has no way to write.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A group of processors that share something, outer ones first.
struct Group {
    cpus: CpuSet,
    line: String,
    fill: &'static str,
}

fn groups(host: &Host) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut add = |cpus: CpuSet, line: String, fill| groups.push(Group { cpus, line, fill });
    for socket in &host.sockets {
        let cpus = socket.cores.iter().fold(CpuSet::new(), |all, core| all.union(&core.cpus));
        add(cpus, format!("socket {}", socket.number), "#f4f4f5");
    }
    for node in &host.nodes {
        add(node.cpus.clone(), format!("NUMA node {}, {}", node.number, size(node.bytes)), "#ecfdf5");
    }
    let data = |cache: &&Cache| cache.holds != Holds::Instructions;
    let mut caches: Vec<&Cache> = host.caches.iter().filter(data).collect();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.level));
    for cache in caches {
        let data = if cache.holds == Holds::Data { "d" } else { "" };
        add(cache.cpus.clone(), format!("L{}{data} {}", cache.level, size(cache.bytes)), "#fffbeb");
    }
    for core in host.cores() {
        add(core.cpus.clone(), format!("core {}", core.number), "#ffffff");
    }
    // Larger ones first; of equal ones, in the order above.
    groups.sort_by_key(|group| std::cmp::Reverse(group.cpus.len()));
    groups
}

/// Boxes of the processors `cpus`: of the groups that are in them, and of those that are in none.
fn nest(host: &Host, groups: &[Group], cpus: &CpuSet, depth: usize) -> Vec<Shape> {
    let (mut left, mut shapes) = (cpus.clone(), Vec::new());
    if depth < DEPTH {
        for (i, group) in groups.iter().enumerate() {
            // One that overlaps another without being in it is not drawn.
            if group.cpus.is_empty() || !group.cpus.is_subset(&left) {
                continue;
            }
            let inside = nest(host, &groups[i + 1..], &group.cpus, depth + 1);
            shapes.push(Shape::new(vec![group.line.clone()], group.fill, inside));
            left = left.iter().filter(|cpu| !group.cpus.contains(*cpu)).collect();
        }
    }
    shapes.extend(left.iter().map(|cpu| {
        let user = host.processes.iter().position(|process| process.cpus.contains(cpu));
        let fill = user.map_or("#ffffff", |process| COLOURS[process % COLOURS.len()]);
        Shape::new(vec![format!("cpu {cpu}")], fill, Vec::new())
    }));
    shapes
}

fn host(host: &Host) -> Shape {
    let mut inside = nest(host, &groups(host), &host.cpus(), 0);
    // Memory without processors.
    let lonely = host.nodes.iter().filter(|node| node.cpus.is_empty());
    inside.extend(lonely.map(|node| {
        Shape::new(vec![format!("NUMA node {}, {}", node.number, size(node.bytes))], "#ecfdf5", Vec::new())
    }));
    inside.extend(host.devices.iter().map(|one| Shape::new(device(one), "#eff6ff", Vec::new())));
    inside.extend(host.processes.iter().enumerate().map(|(i, process)| {
        let name = if process.name.is_empty() { "process" } else { &process.name };
        let lines = vec![format!("{name}, pid {}", process.pid), format!("cpus {}", process.cpus)];
        Shape::new(lines, COLOURS[i % COLOURS.len()], Vec::new())
    }));
    let name = if host.name.is_empty() { "any host" } else { &host.name };
    Shape::new(vec![name.to_owned(), host.model.clone()], "#fafafa", inside)
}

impl Topology {
    /// A picture of the machines as SVG: processors in the caches, NUMA nodes and sockets that they share, in
    /// the colours of the processes that may use them (the first, of several); devices; processes.
    ///
    /// # Examples
    /// ```
    /// let svg = flash_topology::Topology::read().svg();
    /// assert!(svg.starts_with("<svg") && svg.contains("cpu 0"));
    /// ```
    pub fn svg(&self) -> String {
        let all = Shape::new(Vec::new(), "#ffffff", self.hosts.iter().map(host).collect());
        let (width, height) = all.size;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\">\n<style>{STYLE}</style>\n"
        );
        all.draw(&mut svg, (0.0, 0.0));
        svg.push_str("</svg>\n");
        svg
    }
}
