//! Where the boxes and edges of a picture go: in layers from left to right, scope by scope.
//!
//! A scope is laid out by itself, and is then one item in the scope around it. An edge that crosses the
//! border of a scope goes through a *port*, an item at the left or the right border. So every edge is, in
//! each scope that it goes through, an edge between two items, and boxes never overlap. Edges that lead back
//! have tracks of their own below everything else.
//!
//! Within a scope, an item's layer is the longest way to it. An edge over several layers gets an item without
//! a box in each, which keeps a way free. The order in a layer is by the mean of the neighbours, a few times
//! from both sides. Then items are put where their neighbours are, as near as their order and sizes allow.

/// Space around what is in a scope, for its title, between items of a layer, and for a track.
const PAD: f64 = 14.0;
const TITLE: f64 = 20.0;
const GAP: f64 = 18.0;
const TRACK: f64 = 16.0;
/// Space between layers besides the labels of edges.
const BETWEEN: f64 = 44.0;
const SWEEPS: usize = 6;

/// What is to be laid out.
pub(crate) struct Vertex<'a> {
    /// The scopes that it is in.
    pub(crate) scopes: Vec<&'a str>,
    pub(crate) size: (f64, f64),
}

pub(crate) struct Line {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The width of its label.
    pub(crate) label: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) depth: usize,
    pub(crate) at: Point,
    pub(crate) size: (f64, f64),
}

/// A layout.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) size: (f64, f64),
    /// The upper left corner of each vertex.
    pub(crate) vertices: Vec<Point>,
    /// The scopes, outer ones first.
    pub(crate) frames: Vec<Frame>,
    /// Of each line, the points that it goes through.
    pub(crate) lines: Vec<Vec<Point>>,
    /// The middle of each line's label.
    pub(crate) labels: Vec<Point>,
}

pub(crate) fn layout(vertices: &[Vertex<'_>], lines: &[Line]) -> Layout {
    let nowhere = Point { x: 0.0, y: 0.0 };
    let mut placed = Placed {
        vertices: vec![nowhere; vertices.len()],
        frames: Vec::new(),
        lines: vec![Vec::new(); lines.len()],
        labels: vec![nowhere; lines.len()],
    };
    let mut root =
        Scope { name: String::new(), depth: 0, path: Vec::new(), vertices: Vec::new(), inner: Vec::new() };
    for (index, vertex) in vertices.iter().enumerate() {
        root.add(&vertex.scopes, index);
    }
    let block = Block::of(&root, vertices, lines);
    block.place(nowhere, &mut placed);
    let Placed { vertices, frames, labels, lines } = placed;
    let joined = |mut parts: Vec<(i64, Vec<Point>)>| {
        parts.sort_by_key(|(rank, _)| *rank);
        parts.into_iter().flat_map(|(_, points)| points).collect()
    };
    let lines = lines.into_iter().map(joined).collect();
    Layout { size: block.size, vertices, frames, lines, labels }
}

/// A layout that is being put together: of each line its parts, with what they are sorted by.
struct Placed {
    vertices: Vec<Point>,
    frames: Vec<Frame>,
    lines: Vec<Vec<(i64, Vec<Point>)>>,
    labels: Vec<Point>,
}

/// A scope with what is in it.
struct Scope {
    name: String,
    depth: usize,
    /// The names of the scopes around it, and its own.
    path: Vec<String>,
    vertices: Vec<usize>,
    inner: Vec<Scope>,
}

impl Scope {
    fn add(&mut self, scopes: &[&str], vertex: usize) {
        let Some((first, rest)) = scopes.split_first() else { return self.vertices.push(vertex) };
        let at = self.inner.iter().position(|inner| inner.name == *first).unwrap_or_else(|| {
            let path = self.path.iter().cloned().chain([first.to_string()]).collect();
            let (name, depth) = (first.to_string(), self.depth + 1);
            self.inner.push(Scope { name, depth, path, vertices: Vec::new(), inner: Vec::new() });
            self.inner.len() - 1
        });
        self.inner[at].add(rest, vertex);
    }

    fn has(&self, vertex: &Vertex<'_>) -> bool {
        self.path.len() <= vertex.scopes.len() && self.path.iter().zip(&vertex.scopes).all(|(a, b)| a == b)
    }
}

/// What stands in a layer.
enum Content {
    Vertex(usize),
    Scope(Block),
    /// Where a line comes in, or leaves.
    Entry(usize),
    Exit(usize),
    /// A way for a line through a layer.
    Way,
}

struct Item {
    content: Content,
    size: (f64, f64),
    layer: usize,
    /// The middle, relative to its scope.
    y: f64,
}

/// A line within one scope: items from left to right, with the offset of its ends from their middles.
struct Part {
    line: usize,
    /// With those of its ways; if it leads back, just its ends.
    items: Vec<usize>,
    offsets: (f64, f64),
    /// The number of its track, if it leads back.
    track: Option<usize>,
    /// The label is here.
    labelled: bool,
}

impl Part {
    fn ends<'a>(&self, items: &'a [Item]) -> (&'a Content, &'a Content) {
        let last = self.items[self.items.len() - 1];
        (&items[self.items[0]].content, &items[last].content)
    }
}

/// A scope, laid out.
struct Block {
    frame: Option<(String, usize)>,
    size: (f64, f64),
    items: Vec<Item>,
    parts: Vec<Part>,
    /// The left border and the width of each layer, without what is between.
    columns: Vec<(f64, f64)>,
    /// The y of the first track.
    tracks: f64,
    /// The offsets of lines at its borders, from its middle.
    ports: Vec<(usize, f64)>,
}

impl Block {
    fn of(scope: &Scope, vertices: &[Vertex<'_>], lines: &[Line]) -> Block {
        let item = |content, size| Item { content, size, layer: 0, y: 0.0 };
        let mut items: Vec<Item> = Vec::new();
        // The item that a vertex is in.
        let mut at = vec![usize::MAX; vertices.len()];
        for &vertex in &scope.vertices {
            at[vertex] = items.len();
            items.push(item(Content::Vertex(vertex), vertices[vertex].size));
        }
        for inner in &scope.inner {
            let block = Block::of(inner, vertices, lines);
            (0..vertices.len()).filter(|&i| inner.has(&vertices[i])).for_each(|i| at[i] = items.len());
            let size = block.size;
            items.push(item(Content::Scope(block), size));
        }
        let mut parts = Vec::new();
        for (line, Line { from, to, .. }) in lines.iter().enumerate() {
            let (starts, ends) = (at[*from], at[*to]);
            let (outside, own) = (starts == usize::MAX, starts == ends && starts != usize::MAX);
            // A line from a vertex to itself has a part; one within a scope is that scope's.
            let within = own && matches!(items[starts].content, Content::Scope(_));
            if within || outside && ends == usize::MAX {
                continue;
            }
            let mut port = |content| {
                items.push(item(content, (0.0, 10.0)));
                items.len() - 1
            };
            let from = if outside { port(Content::Entry(line)) } else { starts };
            let to = if ends == usize::MAX { port(Content::Exit(line)) } else { ends };
            let labelled = !outside && ends != usize::MAX;
            parts.push(Part { line, items: vec![from, to], offsets: (0.0, 0.0), track: None, labelled });
        }
        let frame = (scope.depth > 0).then(|| (scope.name.clone(), scope.depth));
        let mut block = Block {
            frame,
            size: (0.0, 0.0),
            items,
            parts,
            columns: Vec::new(),
            tracks: 0.0,
            ports: Vec::new(),
        };
        block.set_offsets();
        block.set_layers();
        block.add_ways();
        let mut layers = block.order();
        block.set_heights(&mut layers);
        block.set_columns(&layers, lines);
        block
    }

    /// Where lines meet the borders of inner scopes.
    fn set_offsets(&mut self) {
        let offset = |item: &Item, line: usize| match &item.content {
            Content::Scope(block) => {
                block.ports.iter().find(|port| port.0 == line).map_or(0.0, |port| port.1)
            }
            _ => 0.0,
        };
        for part in &mut self.parts {
            let ends = (&self.items[part.items[0]], &self.items[part.items[1]]);
            part.offsets = (offset(ends.0, part.line), offset(ends.1, part.line));
        }
    }

    /// Finds lines that lead back, and gives each item the layer after all that lead to it.
    fn set_layers(&mut self) {
        let count = self.items.len();
        let mut leaves: Vec<Vec<usize>> = vec![Vec::new(); count];
        self.parts.iter().enumerate().for_each(|(part, of)| leaves[of.items[0]].push(part));
        // Depth first: a line to an item on the path leads back.
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Not,
            OnPath,
            Done,
        }
        let mut seen = vec![Seen::Not; count];
        let mut order = Vec::with_capacity(count);
        let mut tracks = 0;
        let reached: Vec<bool> =
            (0..count).map(|item| self.parts.iter().any(|part| part.items[1] == item)).collect();
        let starts = (0..count).filter(|&item| !reached[item]).chain(0..count);
        for start in starts.collect::<Vec<_>>() {
            if seen[start] != Seen::Not {
                continue;
            }
            let mut path = vec![(start, 0)];
            seen[start] = Seen::OnPath;
            while let Some((item, next)) = path.last_mut() {
                let Some(&part) = leaves[*item].get(*next) else {
                    seen[*item] = Seen::Done;
                    order.push(*item);
                    path.pop();
                    continue;
                };
                *next += 1;
                let to = self.parts[part].items[1];
                match seen[to] {
                    Seen::Not => {
                        seen[to] = Seen::OnPath;
                        path.push((to, 0));
                    }
                    Seen::OnPath => {
                        self.parts[part].track = Some(tracks);
                        tracks += 1;
                    }
                    Seen::Done => {}
                }
            }
        }
        let has_entries = self.items.iter().any(|item| matches!(item.content, Content::Entry(_)));
        for item in order.iter().rev() {
            let is_entry = matches!(self.items[*item].content, Content::Entry(_));
            let least = usize::from(has_entries && !is_entry);
            self.items[*item].layer = self.items[*item].layer.max(least);
            for &part in leaves[*item].iter().filter(|&&part| self.parts[part].track.is_none()) {
                let (after, to) = (self.items[*item].layer + 1, self.parts[part].items[1]);
                self.items[to].layer = self.items[to].layer.max(after);
            }
        }
        // What nothing leads to stands right before what it leads to.
        for item in order {
            if reached[item] || matches!(self.items[item].content, Content::Entry(_)) {
                continue;
            }
            let next = leaves[item].iter().map(|&part| self.items[self.parts[part].items[1]].layer).min();
            self.items[item].layer = next.map_or(self.items[item].layer, |next| next.saturating_sub(1));
        }
        let last = self.items.iter().map(|item| item.layer).max().unwrap_or(0);
        let inner = |item: &Item| !matches!(item.content, Content::Exit(_));
        let exit = self.items.iter().filter(|item| inner(item)).map(|item| item.layer + 1).max().unwrap_or(0);
        for item in self.items.iter_mut().filter(|item| matches!(item.content, Content::Exit(_))) {
            item.layer = exit.max(last);
        }
    }

    /// Keeps a way free in each layer that a line crosses.
    fn add_ways(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.track.is_none()) {
            let [from, to] = part.items[..] else { continue };
            let ways = (self.items[from].layer + 1..self.items[to].layer).map(|layer| {
                self.items.push(Item { content: Content::Way, size: (0.0, 12.0), layer, y: 0.0 });
                self.items.len() - 1
            });
            let ways: Vec<usize> = ways.collect();
            part.items.splice(1..1, ways);
        }
    }

    /// The neighbours of each item in the layer before and after it, with the difference of the y's that
    /// makes the line to it straight.
    fn neighbours(&self) -> [Vec<Vec<(usize, f64)>>; 2] {
        let mut neighbours = [vec![Vec::new(); self.items.len()], vec![Vec::new(); self.items.len()]];
        for part in self.parts.iter().filter(|part| part.track.is_none()) {
            let last = part.items.len() - 2;
            for (i, pair) in part.items.windows(2).enumerate() {
                let from = if i == 0 { part.offsets.0 } else { 0.0 };
                let to = if i == last { part.offsets.1 } else { 0.0 };
                neighbours[0][pair[1]].push((pair[0], from - to));
                neighbours[1][pair[0]].push((pair[1], to - from));
            }
        }
        neighbours
    }

    /// The items of each layer, from above.
    fn order(&mut self) -> Vec<Vec<usize>> {
        let count = self.items.iter().map(|item| item.layer + 1).max().unwrap_or(0);
        let mut layers = vec![Vec::new(); count];
        (0..self.items.len()).for_each(|item| layers[self.items[item].layer].push(item));
        let neighbours = self.neighbours();
        let mut place = vec![0.0; self.items.len()];
        let set = |place: &mut Vec<f64>, layer: &[usize]| {
            layer.iter().enumerate().for_each(|(i, &item)| place[item] = i as f64);
        };
        layers.iter().for_each(|layer| set(&mut place, layer));
        let (mut best, mut fewest) = (layers.clone(), self.crossings(&place));
        for sweep in 0..SWEEPS {
            let side = &neighbours[sweep % 2];
            let mut numbers: Vec<usize> = (0..count).collect();
            if sweep % 2 == 1 {
                numbers.reverse();
            }
            for number in numbers {
                let mean = |item: usize| match side[item].len() {
                    0 => place[item],
                    // Where a scope's lines come in counts, too, but less than the order.
                    n => {
                        side[item].iter().map(|(other, by)| place[*other] + by / 1e4).sum::<f64>() / n as f64
                    }
                };
                let mut layer: Vec<(f64, usize)> =
                    layers[number].iter().map(|&item| (mean(item), item)).collect();
                layer.sort_by(|a, b| a.0.total_cmp(&b.0));
                layers[number] = layer.into_iter().map(|(_, item)| item).collect();
                set(&mut place, &layers[number]);
            }
            let crossings = self.crossings(&place);
            if crossings < fewest {
                (best, fewest) = (layers.clone(), crossings);
            }
        }
        best
    }

    /// How many pairs of lines cross, for pictures that are small enough for one to look.
    fn crossings(&self, place: &[f64]) -> usize {
        let steps = self.parts.iter().filter(|part| part.track.is_none());
        let steps = steps.flat_map(|part| part.items.windows(2).map(|pair| (pair[0], pair[1])));
        let mut steps: Vec<_> = steps.map(|(a, b)| (self.items[a].layer, place[a], place[b])).collect();
        steps.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).unwrap_or(std::cmp::Ordering::Equal));
        if steps.len() > 2000 {
            return 0;
        }
        let crosses = |(i, a): (usize, &(usize, f64, f64))| {
            steps[i + 1..].iter().take_while(|b| b.0 == a.0).filter(|b| b.1 > a.1 && b.2 < a.2).count()
        };
        steps.iter().enumerate().map(crosses).sum()
    }

    /// Puts the items of each layer where their neighbours are, as near as may be.
    fn set_heights(&mut self, layers: &mut [Vec<usize>]) {
        let neighbours = self.neighbours();
        for layer in layers.iter() {
            let mut y = 0.0;
            for &item in layer {
                let height = self.items[item].size.1;
                self.items[item].y = y + height / 2.0;
                y += height + GAP;
            }
        }
        for sweep in 0..2 * SWEEPS {
            let sides: &[usize] = if sweep + 2 >= 2 * SWEEPS { &[0, 1] } else { &[sweep % 2] };
            let mut numbers: Vec<usize> = (0..layers.len()).collect();
            if sweep % 2 == 1 {
                numbers.reverse();
            }
            for number in numbers {
                let layer = &layers[number];
                let wish = |item: usize| {
                    let near = || sides.iter().flat_map(|&side| &neighbours[side][item]);
                    match near().count() {
                        0 => self.items[item].y,
                        n => near().map(|(other, by)| self.items[*other].y + by).sum::<f64>() / n as f64,
                    }
                };
                let wishes: Vec<f64> = layer.iter().map(|&item| wish(item)).collect();
                let heights: Vec<f64> = layer.iter().map(|&item| self.items[item].size.1).collect();
                for (&item, y) in layer.iter().zip(spread(&wishes, &heights)) {
                    self.items[item].y = y;
                }
            }
        }
        let top = self.items.iter().map(|item| item.y - item.size.1 / 2.0).fold(f64::INFINITY, f64::min);
        let above = if self.frame.is_some() { TITLE + PAD } else { 0.0 };
        self.items.iter_mut().for_each(|item| item.y += above - top);
    }

    /// Sets where layers are, and the size.
    fn set_columns(&mut self, layers: &[Vec<usize>], lines: &[Line]) {
        let pad = if self.frame.is_some() { PAD } else { 0.0 };
        let back = self.parts.iter().filter(|part| part.track.is_some()).count();
        // A port stands on the border itself.
        let mut x = 0.0;
        for (number, layer) in layers.iter().enumerate() {
            let is_border = layer.iter().all(|&item| {
                matches!(self.items[item].content, Content::Entry(_) | Content::Exit(_))
                    && self.frame.is_some()
            });
            let width = layer.iter().map(|&item| self.items[item].size.0).fold(0.0, f64::max);
            if number == 0 && !is_border {
                x += pad;
            }
            self.columns.push((x, width));
            x += width;
            let labels = self.parts.iter().filter(|part| part.labelled && part.track.is_none());
            let labels = labels.filter(|part| self.items[part.items[0]].layer == number);
            let label = labels.map(|part| lines[part.line].label).fold(0.0, f64::max);
            let is_last = number + 1 == layers.len();
            match (is_last, is_border) {
                (false, _) => x += if label > 0.0 { label + BETWEEN } else { BETWEEN / 2.0 },
                (true, true) => {}
                (true, false) => x += pad,
            }
        }
        let bottom = self.items.iter().map(|item| item.y + item.size.1 / 2.0).fold(0.0, f64::max);
        self.tracks = bottom + TRACK;
        let height = bottom + TRACK * back as f64 + if back > 0 { TRACK / 2.0 } else { 0.0 };
        let title =
            self.frame.as_ref().map_or(0.0, |(name, _)| 8.0 * name.chars().count() as f64 + 2.0 * pad);
        let width = x.max(title).max(1.0);
        // Ports on the right border stay there.
        if let (Some(last), Some(layer)) = (self.columns.last_mut(), layers.last())
            && layer.iter().all(|&item| matches!(self.items[item].content, Content::Exit(_)))
        {
            last.0 = width;
        }
        self.size = (width, height.max(1.0) + pad);
        for item in &self.items {
            if let Content::Entry(line) | Content::Exit(line) = item.content {
                self.ports.push((line, item.y - self.size.1 / 2.0));
            }
        }
    }

    /// Puts it at a place.
    fn place(&self, at: Point, layout: &mut Placed) {
        if let Some((name, depth)) = &self.frame {
            layout.frames.push(Frame { name: name.clone(), depth: *depth, at, size: self.size });
        }
        let corner = |item: &Item| Point {
            x: at.x + self.columns[item.layer].0 + (self.columns[item.layer].1 - item.size.0) / 2.0,
            y: at.y + item.y - item.size.1 / 2.0,
        };
        for item in &self.items {
            match &item.content {
                Content::Vertex(vertex) => layout.vertices[*vertex] = corner(item),
                Content::Scope(block) => block.place(corner(item), layout),
                _ => {}
            }
        }
        for part in &self.parts {
            let points = match part.track {
                None => self.forward(part, at),
                Some(track) => self.back(part, track, at),
            };
            if part.labelled {
                // Between the layers of its first step, or on its track.
                let (a, b) =
                    if part.track.is_none() { (points[1], points[2]) } else { (points[2], points[3]) };
                layout.labels[part.line] = Point { x: (a.x + b.x) / 2.0, y: (a.y + b.y) / 2.0 };
            }
            // From the inside of scopes outwards, and in again.
            let depth = self.frame.as_ref().map_or(0, |(_, depth)| *depth as i64);
            let rank = match part.ends(&self.items) {
                (_, Content::Exit(_)) => -depth,
                (Content::Entry(_), _) => depth,
                _ => 0,
            };
            layout.lines[part.line].push((rank, points));
        }
    }

    /// The points of a line that leads forward: from border to border of each layer.
    fn forward(&self, part: &Part, at: Point) -> Vec<Point> {
        let last = part.items.len() - 1;
        let mut points = Vec::new();
        for (i, &number) in part.items.iter().enumerate() {
            let item = &self.items[number];
            let (left, width) = self.columns[item.layer];
            let y = at.y
                + item.y
                + match i {
                    0 => part.offsets.0,
                    i if i == last => part.offsets.1,
                    _ => 0.0,
                };
            let middle = left + width / 2.0;
            if i > 0 {
                points.push(Point { x: at.x + left, y });
                points.push(Point { x: at.x + middle - item.size.0 / 2.0, y });
            }
            if i < last {
                points.push(Point { x: at.x + middle + item.size.0 / 2.0, y });
                points.push(Point { x: at.x + left + width, y });
            }
        }
        points
    }

    /// The points of a line that leads back: down beside its begin, along its track, up beside its end.
    fn back(&self, part: &Part, track: usize, at: Point) -> Vec<Point> {
        let (from, to) = (&self.items[part.items[0]], &self.items[part.items[1]]);
        let aside = 8.0 + 3.0 * (track % 4) as f64;
        let (left, width) = self.columns[from.layer];
        let right = at.x + left + width;
        let start = Point { x: at.x + left + (width + from.size.0) / 2.0, y: at.y + from.y + part.offsets.0 };
        let (left, width) = self.columns[to.layer];
        let end = Point { x: at.x + left + (width - to.size.0) / 2.0, y: at.y + to.y + part.offsets.1 };
        let y = at.y + self.tracks + TRACK * track as f64;
        let point = |x, y| Point { x, y };
        vec![
            start,
            point(right + aside, start.y),
            point(right + aside, y),
            point(at.x + left - aside, y),
            point(at.x + left - aside, end.y),
            end,
        ]
    }
}

/// Places items of some heights in their order, apart, so that the squares of the distances from where they
/// wish to be are least (isotonic regression by pooling).
fn spread(wishes: &[f64], heights: &[f64]) -> Vec<f64> {
    let mut offsets = Vec::with_capacity(wishes.len());
    let mut offset = 0.0;
    for (i, height) in heights.iter().enumerate() {
        if i > 0 {
            offset += (heights[i - 1] + height) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    // Groups of items that touch: the sum of their wishes, and their number.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (wish, offset) in wishes.iter().zip(&offsets) {
        groups.push((wish - offset, 1));
        while let [.., before, last] = &groups[..]
            && before.0 / before.1 as f64 >= last.0 / last.1 as f64
        {
            let joined = (before.0 + last.0, before.1 + last.1);
            groups.truncate(groups.len() - 2);
            groups.push(joined);
        }
    }
    let places = groups.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    places.zip(offsets).map(|(place, offset)| place + offset).collect()
}
