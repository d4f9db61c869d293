//! What a trace shows, worked out from the events of its threads: rows of pieces that nest, and arrows.
//!
//! A span that is suspended becomes several pieces. Whatever the events are, the pieces of a row nest, and an
//! arrow has two ends, each at a piece: an `End` without a `Begin` is left out, and what is still open ends
//! with the trace.

use crate::event::{Category, Event, NameId, What};
use crate::recorder::Thread;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(crate) struct Timeline {
    pub(crate) names: Vec<Arc<str>>,
    /// Those of threads, in the order in which they came; then those of devices, by name.
    pub(crate) rows: Vec<Row>,
    pub(crate) arrows: Vec<Arrow>,
    pub(crate) samples: Vec<Sample>,
    /// In nanoseconds, from 0.
    pub(crate) end: u64,
}

#[derive(Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) of_device: bool,
    /// In the order of their begins; one that lies in another comes after it.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) instants: Vec<(u64, NameId)>,
    pub(crate) dropped: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// How many pieces it lies in.
    pub(crate) depth: usize,
    pub(crate) name: NameId,
    pub(crate) category: Category,
    pub(crate) numbers: [u64; 2],
    /// It goes on with a span that was suspended, and is suspended at its end.
    pub(crate) resumed: bool,
    pub(crate) suspended: bool,
}

pub(crate) struct Arrow {
    pub(crate) name: NameId,
    pub(crate) from: Place,
    pub(crate) to: Place,
}

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) row: usize,
    pub(crate) time: u64,
    /// No piece is open there.
    bare: bool,
}

/// A value of a counter, or of the length of a queue.
pub(crate) struct Sample {
    pub(crate) row: usize,
    pub(crate) time: u64,
    pub(crate) name: NameId,
    /// Of a queue, what it is told apart by.
    pub(crate) queue: Option<u64>,
    pub(crate) value: f64,
}

/// An end of an arrow, not matched with the other yet.
struct End {
    place: Place,
    key: u64,
    way: Way,
}

enum Way {
    Out { name: NameId, first: u64, count: u64 },
    In { nth: u64 },
}

struct Launch {
    begin: u64,
    end: u64,
    kernel: NameId,
    on_device: u64,
}

/// A step of a row: a piece begins, or ends.
pub(crate) enum Step<'a> {
    Begin(&'a Piece),
    End(&'a Piece),
}

impl Row {
    /// Its pieces as begins and ends, in their order. They nest.
    pub(crate) fn steps(&self, mut each: impl FnMut(Step<'_>)) {
        let mut open: Vec<&Piece> = Vec::new();
        for piece in &self.pieces {
            open.drain(piece.depth.min(open.len())..).rev().for_each(|ended| each(Step::End(ended)));
            each(Step::Begin(piece));
            open.push(piece);
        }
        open.into_iter().rev().for_each(|ended| each(Step::End(ended)));
    }
}

impl Timeline {
    pub(crate) fn new(
        threads: &[Arc<Thread>],
        names: Vec<Arc<str>>,
        window: RangeInclusive<u64>,
    ) -> Timeline {
        let (mut ends, mut launches) = (Vec::new(), BTreeMap::<NameId, Vec<Launch>>::new());
        let (mut rows, mut samples) = (Vec::new(), Vec::new());
        for thread in threads {
            let mut reader = Reader::new(rows.len(), *window.end());
            thread.events(|event| match event.what {
                What::Launch { kernel, device, wall, on_device } => {
                    let (begin, end) = (event.time, event.time.saturating_add(wall));
                    let on_device = u64::from(on_device);
                    launches.entry(device).or_default().push(Launch { begin, end, kernel, on_device });
                }
                What::Counter { name, value } => {
                    samples.push(Sample { row: rows.len(), time: event.time, name, queue: None, value });
                }
                What::Queue { name, key, len } => {
                    let (queue, value) = (Some(key), len as f64);
                    samples.push(Sample { row: rows.len(), time: event.time, name, queue, value });
                }
                _ => reader.read(event, &mut ends),
            });
            let mut row = reader.row;
            (row.name, row.dropped) = (thread.name.clone(), thread.dropped());
            rows.push(row);
        }
        let arrows = arrows(ends);
        let mut timeline = Timeline { names, rows, arrows, samples, end: 0 };
        timeline.ground();
        timeline.add_devices(launches);
        timeline.cut(window);
        timeline
    }

    /// Puts a piece without a length to each end of an arrow where there is none.
    fn ground(&mut self) {
        let mut new: Vec<Vec<Piece>> = self.rows.iter().map(|_| Vec::new()).collect();
        for Arrow { name, from, to } in &self.arrows {
            for place in [from, to].into_iter().filter(|place| place.bare) {
                new[place.row].push(Piece {
                    begin: place.time,
                    end: place.time,
                    depth: 0,
                    name: *name,
                    category: Category::Program,
                    numbers: [0; 2],
                    resumed: false,
                    suspended: false,
                });
            }
        }
        for (row, mut new) in self.rows.iter_mut().zip(new) {
            new.sort_by_key(|piece| piece.begin);
            new.dedup_by_key(|piece| (piece.begin, piece.name));
            // Nothing is open there, so a new one stands before an old one that begins at the same time, with
            // all that lies in that.
            let mut merged = Vec::with_capacity(row.pieces.len() + new.len());
            let mut new = new.into_iter().peekable();
            for piece in row.pieces.drain(..) {
                while let Some(next) = new.next_if(|next| piece.depth == 0 && next.begin <= piece.begin) {
                    merged.push(next);
                }
                merged.push(piece);
            }
            merged.extend(new);
            row.pieces = merged;
        }
    }

    /// Adds a row for each device, and further ones for launches that overlap.
    fn add_devices(&mut self, launches: BTreeMap<NameId, Vec<Launch>>) {
        let name_of =
            |id: NameId| self.names.get(id as usize).map_or_else(String::new, |name| name.to_string());
        let mut devices: Vec<_> = launches.into_iter().map(|(id, all)| (name_of(id), all)).collect();
        devices.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, mut all) in devices {
            all.sort_by_key(|launch| launch.begin);
            let mut lanes: Vec<Row> = Vec::new();
            for Launch { begin, end, kernel, on_device } in all {
                let free = |row: &Row| row.pieces.last().is_none_or(|last| last.end <= begin);
                let lane = lanes.iter().position(free).unwrap_or_else(|| {
                    let name = match lanes.len() {
                        0 => name.clone(),
                        n => format!("{name} ({})", n + 1),
                    };
                    lanes.push(Row { name, of_device: true, ..Row::default() });
                    lanes.len() - 1
                });
                lanes[lane].pieces.push(Piece {
                    begin,
                    end,
                    depth: 0,
                    name: kernel,
                    category: Category::Launch,
                    numbers: [on_device, 0],
                    resumed: false,
                    suspended: false,
                });
            }
            self.rows.extend(lanes);
        }
    }

    /// Leaves out what is not of the window, at whose begin the clock is set to 0.
    fn cut(&mut self, window: RangeInclusive<u64>) {
        let (from, to) = (*window.start(), *window.end());
        for row in &mut self.rows {
            row.pieces.retain(|piece| piece.begin <= to && piece.end >= from);
            for piece in &mut row.pieces {
                piece.begin = piece.begin.max(from) - from;
                piece.end = piece.end.min(to) - from;
            }
            row.instants.retain(|(time, _)| window.contains(time));
            row.instants.iter_mut().for_each(|(time, _)| *time -= from);
        }
        self.samples.retain(|sample| window.contains(&sample.time));
        self.samples.iter_mut().for_each(|sample| sample.time -= from);
        // Several threads change one counter.
        self.samples.sort_by_key(|sample| sample.time);
        self.arrows.retain(|arrow| window.contains(&arrow.from.time) && window.contains(&arrow.to.time));
        for arrow in &mut self.arrows {
            arrow.from.time -= from;
            arrow.to.time -= from;
        }
        self.end = to - from;
    }
}

/// Reads the events of one thread.
struct Reader {
    row: Row,
    number: usize,
    /// The stacks that run one on top of the other, the thread's own first, each with its open pieces.
    stacks: Vec<(u64, Vec<usize>)>,
    /// What is suspended, by stack.
    suspended: HashMap<u64, Vec<Piece>>,
    open: usize,
    last: u64,
}

impl Reader {
    fn new(number: usize, last: u64) -> Reader {
        let (row, suspended) = (Row::default(), HashMap::new());
        Reader { row, number, stacks: vec![(0, Vec::new())], suspended, open: 0, last }
    }

    fn begin(&mut self, piece: Piece) {
        let depth = self.open;
        self.open += 1;
        // What never ends, ends with the trace.
        self.row.pieces.push(Piece { depth, end: self.last.max(piece.begin), ..piece });
        let at = self.row.pieces.len() - 1;
        self.stacks.last_mut().expect("the thread's own").1.push(at);
    }

    fn end(&mut self, at: usize, time: u64) -> &mut Piece {
        self.open -= 1;
        let piece = &mut self.row.pieces[at];
        piece.end = time.max(piece.begin);
        piece
    }

    fn read(&mut self, Event { time, what }: Event, ends: &mut Vec<End>) {
        let place = Place { row: self.number, time, bare: self.open == 0 };
        match what {
            What::Begin { name, category, numbers } => {
                let (resumed, suspended) = (false, false);
                self.begin(Piece {
                    begin: time,
                    end: time,
                    depth: 0,
                    name,
                    category,
                    numbers,
                    resumed,
                    suspended,
                });
            }
            What::End => {
                if let Some(at) = self.stacks.last_mut().and_then(|(_, open)| open.pop()) {
                    self.end(at, time);
                }
            }
            What::Enter { stack } => {
                self.stacks.push((stack, Vec::new()));
                for piece in self.suspended.remove(&stack).unwrap_or_default() {
                    self.begin(Piece { begin: time, resumed: true, suspended: false, ..piece });
                }
            }
            What::Leave if self.stacks.len() > 1 => {
                let (stack, open) = self.stacks.pop().expect("more than the thread's own");
                let mut suspended = Vec::with_capacity(open.len());
                for at in open.into_iter().rev() {
                    let piece = self.end(at, time);
                    piece.suspended = true;
                    suspended.push(*piece);
                }
                suspended.reverse();
                if !suspended.is_empty() {
                    self.suspended.insert(stack, suspended);
                }
            }
            What::Leave => {}
            What::Instant { name } => self.row.instants.push((time, name)),
            What::Out { name, key, first, count } => {
                ends.push(End { place, key, way: Way::Out { name, first, count: count.into() } });
            }
            What::In { key, nth } => ends.push(End { place, key, way: Way::In { nth } }),
            What::Counter { .. } | What::Queue { .. } | What::Launch { .. } => {}
        }
    }
}

/// Matches the ends of arrows: each datum that comes with the last batch of its key that left and has it.
fn arrows(mut ends: Vec<End>) -> Vec<Arrow> {
    // Batches of a key that are kept for data that come late.
    const KEPT: usize = 4096;
    ends.sort_by_key(|end| (end.place.time, matches!(end.way, Way::In { .. })));
    let mut batches: HashMap<u64, BTreeMap<u64, (u64, NameId, Place)>> = HashMap::new();
    let mut arrows = Vec::new();
    for End { place, key, way } in ends {
        match way {
            Way::Out { name, first, count } => {
                let of_key = batches.entry(key).or_default();
                if first == 0 || of_key.len() >= KEPT {
                    // Another thing has this key now; or it is the oldest that nothing has come of.
                    match first {
                        0 => of_key.clear(),
                        _ => drop(of_key.pop_first()),
                    }
                }
                of_key.insert(first, (count, name, place));
            }
            Way::In { nth } => {
                let Some(of_key) = batches.get_mut(&key) else { continue };
                let Some((&first, &(count, name, from))) = of_key.range(..=nth).next_back() else { continue };
                if nth - first < count {
                    arrows.push(Arrow { name, from, to: place });
                }
                if count == 1 {
                    of_key.remove(&first);
                }
            }
        }
    }
    arrows
}
