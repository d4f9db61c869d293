//! The order of pending pipelines: who comes after whom.
//!
//! A pipeline that does not run at once enters here, with the memories that it touches, and comes
//! after everybody there that it conflicts with: that is decided when it enters, for all its memories
//! under one lock, so pipelines are ordered as wholes and nobody waits in a circle. It is started when
//! the last of those before it has left. Only neighbours are kept: per memory the last writer, and the
//! readers since. The readers came after the writer, and the next writer comes after the readers.
//!
//! Memories are numbers here, and how a pipeline runs is not known: the models include this file beside
//! their own `sync`.

use super::sync::{Mutex, MutexGuard};
use std::collections::HashMap;

/// A pipeline's number in the order; never used again.
pub(crate) type Ticket = u64;

/// A memory, and whether the pipeline writes it. Every memory at most once per pipeline.
pub(crate) type Touch = (usize, bool);

/// Called once, outside the lock, when everybody before has left: on the thread that enters, or on the
/// thread of the last that left.
pub(crate) type Start = Box<dyn FnOnce(Ticket) + Send>;

/// The order. There is one per process.
#[derive(Default)]
pub(crate) struct Order(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: Ticket,
    entries: HashMap<Ticket, Entry>,
    /// Of memories that somebody there touches.
    lines: HashMap<usize, Line>,
}

struct Entry {
    touches: Vec<Touch>,
    /// So many of those before it are there; one counts once for each memory over which they conflict.
    before: usize,
    after: Vec<Ticket>,
    /// Taken when it is started.
    start: Option<Start>,
}

#[derive(Default)]
struct Line {
    writer: Option<Ticket>,
    /// Since that writer.
    readers: Vec<Ticket>,
}

impl Order {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Enters behind everybody there. `start` may be called before this returns.
    pub fn enter(&self, touches: Vec<Touch>, start: Start) {
        let mut table = self.lock();
        let ticket = table.next;
        table.next += 1;
        let before = table.line_up(ticket, &touches);
        let at_once = before == 0;
        let (now, later) = if at_once { (Some(start), None) } else { (None, Some(start)) };
        table.entries.insert(ticket, Entry { touches, before, after: Vec::new(), start: later });
        drop(table);
        if let Some(start) = now {
            start(ticket);
        }
    }

    /// Leaves, having run, and starts those that were waiting for it alone.
    pub fn leave(&self, ticket: Ticket) {
        let mut table = self.lock();
        let Some(entry) = table.entries.remove(&ticket) else {
            return;
        };
        for (memory, _) in entry.touches {
            if let Some(line) = table.lines.get_mut(&memory) {
                line.readers.retain(|reader| *reader != ticket);
                line.writer = line.writer.filter(|writer| *writer != ticket);
                if line.writer.is_none() && line.readers.is_empty() {
                    table.lines.remove(&memory);
                }
            }
        }
        let mut ready = Vec::new();
        for next in entry.after {
            if let Some(entry) = table.entries.get_mut(&next) {
                entry.before -= 1;
                if entry.before == 0 {
                    ready.extend(entry.start.take().map(|start| (next, start)));
                }
            }
        }
        drop(table);
        ready.into_iter().for_each(|(ticket, start)| start(ticket));
    }
}

impl Table {
    /// Takes the last place in the lines of its memories; how many are before it.
    fn line_up(&mut self, ticket: Ticket, touches: &[Touch]) -> usize {
        let Table { entries, lines, .. } = self;
        let mut before = 0;
        let mut come_after = |other: Ticket| {
            if let Some(entry) = entries.get_mut(&other) {
                entry.after.push(ticket);
                before += 1;
            }
        };
        for &(memory, written) in touches {
            let line = lines.entry(memory).or_default();
            if !written {
                line.writer.into_iter().for_each(&mut come_after);
                line.readers.push(ticket);
                continue;
            }
            // The readers come after the writer themselves; those that have left are not in the line, and
            // the writer of a line with readers left before them, or is before them.
            line.readers.drain(..).for_each(&mut come_after);
            line.writer.replace(ticket).into_iter().for_each(&mut come_after);
        }
        before
    }
}
