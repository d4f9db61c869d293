//! The order of pending pipelines.
//!
//! A pipeline that does not run at once enters here, with the extent of each memory that it touches. It comes
//! after all pipelines there that it conflicts with: some element is touched by both, and written by one. It
//! also comes after the entries that it names, which may be pipelines or events: an event is an entry without
//! memories, which leaves when it is signalled. All that is decided when it lines up, for all its memories
//! under one lock. So pipelines are ordered as wholes, and there is no circle of waits. It is started when it
//! is ready and the last of those before it has left.
//!
//! Per memory there is a line of the pipelines that later ones are compared with. A pipeline that writes all
//! that an earlier one touches comes after that one, and takes its place.
//!
//! A device that works without the host *has* a pipeline when all launches of it are in the device's queue. A
//! pipeline that says which device it runs on may be given to that device before its turn, when the device
//! has all those before it: then the device keeps them in order, and the host need not be there in between.
//! It *follows* them ([`Start::follow`]), and becomes ready a second time for what is to be done in its turn:
//! its end, or all of it if the device did not take it. So pipelines still leave one after another. At most
//! [`FOLLOWERS`] are with a device at a time; the others follow as these leave.
//!
//! Two that are there at the same time may use different parts of one memory, so they may not both *walk* it:
//! move it between devices and update the directory. A run asks for all the memories that it walks at once,
//! and holds nothing that the others wait for.
//!
//! Memories are numbers here, the touched elements are an [`Extent`], and how a pipeline runs is not known:
//! the models include this file beside their own `sync`.

use super::Refused;
use super::sync::{Condvar, Mutex, MutexGuard, before_sleep, is_child};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry as Place;
use std::collections::{HashSet, VecDeque};

/// A pipeline's number in the order; never reused.
pub(crate) type Ticket = u64;

/// A device's number, of those that work without the host.
pub(crate) type DeviceNumber = usize;

/// At most this many pipelines are with one device before another follows them. The word of a memory counts
/// 127 that run; a driver keeps a few KiB for each launch.
pub(super) const FOLLOWERS: usize = 100;

/// Some elements of a memory.
pub(crate) trait Extent: Clone {
    /// True if some element is in both.
    fn overlaps(&self, other: &Self) -> bool;
    /// True if all of the other is in it.
    fn contains(&self, other: &Self) -> bool;
}

/// A pipeline's use of a memory. Every memory at most once per pipeline.
#[derive(Clone)]
pub(crate) struct Touch<E> {
    pub memory: u64,
    /// The elements that are read or written.
    pub touched: E,
    /// The elements of those that are written; `None`: none.
    pub written: Option<E>,
}

impl<E: Extent> Touch<E> {
    fn conflicts(&self, other: &Touch<E>) -> bool {
        let writes = |one: &Touch<E>, other: &Touch<E>| {
            one.written.as_ref().is_some_and(|written| written.overlaps(&other.touched))
        };
        writes(self, other) || writes(other, self)
    }

    /// Everything that conflicts with the other conflicts with this one, too.
    fn covers(&self, other: &Touch<E>) -> bool {
        self.written.as_ref().is_some_and(|written| written.contains(&other.touched))
    }
}

/// What a pipeline that is ready does. One of the two is called, once, outside the lock, on the thread that
/// made it ready, or on that which changed what comes before.
pub(crate) trait Start: Send {
    /// All pipelines before have left.
    fn start(self: Box<Self>, ticket: Ticket);

    /// Its device has all pipelines before that have not left. It becomes [`ready`](Order::ready) once more.
    fn follow(self: Box<Self>, ticket: Ticket);
}

/// Of a pipeline without a device.
impl<F: FnOnce(Ticket) + Send> Start for F {
    fn start(self: Box<Self>, ticket: Ticket) {
        self(ticket);
    }

    fn follow(self: Box<Self>, _: Ticket) {
        unreachable!("a pipeline that says no device is not asked to follow");
    }
}

/// The order. There is one per process.
pub(crate) struct Order<E> {
    table: Mutex<Table<E>>,
    /// Signalled when a pipeline has left, or a walk has ended.
    changed: Condvar,
}

pub(super) struct Table<E> {
    next: Ticket,
    entries: FxHashMap<Ticket, Entry>,
    /// The lines of memories that are touched.
    lines: FxHashMap<u64, Line<E>>,
    /// Memories that are walked: by one writer (`None`), or by this many readers.
    walked: FxHashMap<u64, Option<u32>>,
    /// Devices that have pipelines.
    devices: FxHashMap<DeviceNumber, Pipelines>,
    /// Number of threads that wait for a change.
    waiting: u32,
    /// Number of those that hold guards: they are told, too, when a pipeline is ready or is behind guards.
    watching: u32,
}

/// The pipelines that later ones are compared with, with their use of the line's memory.
type Line<E> = SmallVec<[(Ticket, Touch<E>); 1]>;

/// Those of one device.
#[derive(Default)]
struct Pipelines {
    /// The number of those that it has.
    there: usize,
    /// Those that could follow when there were too many.
    more: VecDeque<Ticket>,
}

struct Entry {
    memories: SmallVec<[u64; 4]>,
    /// Number of those before it that have not left, and one more until it is ready or withdraws; each counts
    /// once for each memory over which they conflict, and for each time that it is named.
    before: usize,
    after: Vec<Ticket>,
    /// Set when it is ready, taken when it is started. A pipeline that withdraws has none.
    start: Option<Box<dyn Start>>,
    guards: Guards,
    /// The device that it may be given to before its turn; `None`: it has been asked to follow already, or
    /// may not be.
    follows: Option<DeviceNumber>,
    /// How many of `before` that device has.
    ahead: usize,
    /// The device that has it.
    there: Option<DeviceNumber>,
}

/// A pipeline that is to go on.
enum Next {
    Start(Ticket, Box<dyn Start>),
    Follow(Ticket, Box<dyn Start>),
}

impl Next {
    fn go(self) {
        match self {
            Next::Start(ticket, start) => start.start(ticket),
            Next::Follow(ticket, start) => start.follow(ticket),
        }
    }
}

/// Whether a pipeline waits for guards of the host.
#[derive(Clone, Copy, PartialEq)]
enum Guards {
    /// Not known yet: it has just lined up.
    Unknown,
    /// It does.
    Awaited,
    /// It does not, and will not.
    None,
}

impl<E> Default for Order<E> {
    fn default() -> Order<E> {
        let (entries, lines, walked, devices) = Default::default();
        let table = Table { next: 0, entries, lines, walked, devices, waiting: 0, watching: 0 };
        Order { table: Mutex::new(table), changed: Condvar::new() }
    }
}

impl<E: Extent> Order<E> {
    /// The lock of all of it.
    pub(super) fn table(&self) -> &Mutex<Table<E>> {
        &self.table
    }

    fn lock(&self) -> MutexGuard<'_, Table<E>> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sleeps until a pipeline has left or a walk has ended.
    fn wait<'t>(&self, mut table: MutexGuard<'t, Table<E>>) -> MutexGuard<'t, Table<E>> {
        before_sleep();
        table.waiting += 1;
        let mut table = self.changed.wait(table).unwrap_or_else(|e| e.into_inner());
        table.waiting -= 1;
        table
    }

    /// Takes a place behind all pipelines there that it conflicts with, and behind those of `after` that have
    /// not left.
    pub fn line_up(&self, touches: &[Touch<E>], after: impl IntoIterator<Item = Ticket>) -> Ticket {
        self.line_up_for(None, touches, after)
    }

    /// The same, for a pipeline that may be given to a device before its turn.
    pub fn line_up_for(
        &self,
        device: Option<DeviceNumber>,
        touches: &[Touch<E>],
        after: impl IntoIterator<Item = Ticket>,
    ) -> Ticket {
        let mut table = self.lock();
        let ticket = table.next;
        table.next += 1;
        let memories: SmallVec<[u64; 4]> = touches.iter().map(|touch| touch.memory).collect();
        let guards = if memories.is_empty() { Guards::None } else { Guards::Unknown };
        let entry = Entry {
            memories,
            before: 1,
            after: Vec::new(),
            start: None,
            guards,
            follows: device,
            ahead: 0,
            there: None,
        };
        let entry = table.line_up(ticket, entry, touches, after);
        table.entries.insert(ticket, entry);
        ticket
    }

    /// It may be started from now on: perhaps before this returns.
    pub fn ready(&self, ticket: Ticket, start: Box<dyn Start>) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&ticket) else { return };
        entry.guards = Guards::None;
        entry.start = Some(start);
        let next = match entry.step() {
            true => entry.start.take().map(|start| Next::Start(ticket, start)),
            false => table.follow(ticket),
        };
        self.settled(table);
        next.into_iter().for_each(Next::go);
    }

    /// The device that it said it runs on has all of it. Asks those to follow that come after it.
    pub fn is_there(&self, ticket: Ticket, device: DeviceNumber) {
        let mut table = self.lock();
        let next = table.is_there(ticket, device);
        drop(table);
        next.into_iter().for_each(Next::go);
    }

    /// It is behind guards: it will be ready when they are released, or withdraw.
    pub fn behind_guards(&self, ticket: Ticket) {
        let mut table = self.lock();
        if let Some(entry) = table.entries.get_mut(&ticket) {
            entry.guards = Guards::Awaited;
        }
        self.settled(table);
    }

    /// It is known whether a pipeline waits for guards: tells the threads that must not wait for it then.
    fn settled(&self, table: MutexGuard<'_, Table<E>>) {
        let watching = table.watching > 0;
        drop(table);
        if watching {
            self.changed.notify_all();
        }
    }

    /// True if it comes after a pipeline that waits for guards, directly or by way of others. Waits until it
    /// is known of all of them.
    pub fn is_behind_guards(&self, ticket: Ticket) -> bool {
        let mut table = self.lock();
        loop {
            if table.comes_after(ticket, Guards::Awaited) {
                return true;
            }
            if !table.comes_after(ticket, Guards::Unknown) {
                return false;
            }
            table = self.watch(table);
        }
    }

    /// Sleeps until a pipeline has left, or is known to wait for guards, or not to.
    fn watch<'t>(&self, mut table: MutexGuard<'t, Table<E>>) -> MutexGuard<'t, Table<E>> {
        table.watching += 1;
        let mut table = self.wait(table);
        table.watching -= 1;
        table
    }

    /// Leaves, having been started, and starts those that were waiting for it only. (Not before: in its lines
    /// it stands for others that have not left.)
    pub fn leave(&self, ticket: Ticket) {
        let mut table = self.lock();
        let ready = table.leave(ticket);
        self.left(table, ready);
    }

    /// Leaves without having run, when all pipelines before have left. Others come only after it, and not
    /// after those that it stands for.
    pub fn withdraw(&self, ticket: Ticket) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&ticket) else { return };
        entry.guards = Guards::None;
        match entry.step() {
            true => {
                let ready = table.leave(ticket);
                self.left(table, ready);
            }
            false => self.settled(table),
        }
    }

    /// True if it has not left.
    pub fn has(&self, ticket: Ticket) -> bool {
        self.lock().entries.contains_key(&ticket)
    }

    /// True if a pipeline comes after it that may follow it on their device.
    pub fn is_followed(&self, ticket: Ticket) -> bool {
        let table = self.lock();
        let Some(entry) = table.entries.get(&ticket).filter(|entry| entry.follows.is_some()) else {
            return false;
        };
        entry
            .after
            .iter()
            .any(|next| table.entries.get(next).is_some_and(|next| next.follows == entry.follows))
    }

    /// True if others come before it that have not left, or it is not ready.
    pub fn waits(&self, ticket: Ticket) -> bool {
        self.lock().entries.get(&ticket).is_some_and(|entry| entry.before > 0)
    }

    /// True if the second comes after the first, directly or by way of others. `known` has some that are
    /// known to come before the second; those by way of which it comes after are added to it.
    pub fn precedes(&self, first: Ticket, second: Ticket, known: &mut HashSet<Ticket>) -> bool {
        known.contains(&first) || self.lock().precedes(first, second, known)
    }

    /// A pipeline has left: lets those go on that waited for this.
    fn left(&self, table: MutexGuard<'_, Table<E>>, ready: Vec<Next>) {
        let waiting = table.waiting > 0;
        drop(table);
        if waiting {
            self.changed.notify_all();
        }
        ready.into_iter().for_each(Next::go);
    }

    /// The result of `take`, if no pipeline there writes any of a memory's elements; none lines up meanwhile.
    pub fn beside<R>(&self, memory: u64, extent: &E, take: impl FnOnce() -> Option<R>) -> Option<R> {
        let table = self.lock();
        if table.conflicting(memory, extent, false).next().is_some() { None } else { take() }
    }

    /// Waits until no pipeline there writes any of a memory's elements; `written`: or reads some of them.
    /// Fails with [`Refused::Borrowed`] if the thread `holds` guards and one of those pipelines waits for
    /// guards, or comes after one that does.
    pub fn wait_beside(&self, memory: u64, extent: &E, written: bool, holds: bool) -> Result<(), Refused> {
        let mut table = self.lock();
        loop {
            let mut conflicting = table.conflicting(memory, extent, written).peekable();
            if conflicting.peek().is_none() {
                return Ok(());
            }
            if is_child() {
                return Err(Refused::Forked);
            }
            if !holds {
                drop(conflicting);
                table = self.wait(table);
                continue;
            }
            let is_behind = |ticket| {
                let itself = table.entries.get(&ticket);
                itself.is_some_and(|entry| entry.guards == Guards::Awaited)
                    || table.comes_after(ticket, Guards::Awaited)
            };
            if conflicting.any(is_behind) {
                return Err(Refused::Borrowed);
            }
            drop(conflicting);
            table = self.watch(table);
        }
    }

    /// Waits until no writer walks any of these memories, and nothing at all walks one that is written here;
    /// from then on this run does, until [`end_walk`](Self::end_walk).
    pub fn walk(&self, memories: &[(u64, bool)]) {
        let mut table = self.lock();
        let free = |table: &Table<E>| {
            memories.iter().all(|(memory, written)| match table.walked.get(memory) {
                None => true,
                Some(readers) => readers.is_some() && !written,
            })
        };
        while !free(&table) {
            table = self.wait(table);
        }
        for &(memory, written) in memories {
            let walked = table.walked.entry(memory).or_insert(Some(0));
            *walked = walked.filter(|_| !written).map(|readers| readers + 1);
        }
    }

    /// Ends the walk that [`walk`](Self::walk) began.
    pub fn end_walk(&self, memories: &[(u64, bool)]) {
        let mut table = self.lock();
        for (memory, _) in memories {
            match table.walked.get_mut(memory) {
                Some(Some(readers)) if *readers > 1 => *readers -= 1,
                _ => drop(table.walked.remove(memory)),
            }
        }
        let waiting = table.waiting > 0;
        drop(table);
        if waiting {
            self.changed.notify_all();
        }
    }
}

impl Entry {
    /// One dependency less; true if that was the last.
    fn step(&mut self) -> bool {
        self.before -= 1;
        self.before == 0
    }

    /// True if it is ready, and its device has all those before it.
    fn may_follow(&self) -> bool {
        self.follows.is_some() && self.start.is_some() && self.before > 0 && self.before == self.ahead
    }
}

impl<E: Extent> Table<E> {
    /// Removes a pipeline that leaves, and those that have withdrawn and waited for nothing else: a loop, as
    /// there may be any number of them, each behind the other. Returns those that go on now.
    fn leave(&mut self, mut ticket: Ticket) -> Vec<Next> {
        let (mut withdrawn, mut ready) = (Vec::new(), Vec::new());
        loop {
            if let Some(entry) = self.entries.remove(&ticket) {
                for memory in entry.memories {
                    if let Place::Occupied(mut line) = self.lines.entry(memory) {
                        line.get_mut().retain(|(other, _)| *other != ticket);
                        if line.get().is_empty() {
                            line.remove();
                        }
                    }
                }
                for next in entry.after {
                    let Some(after) = self.entries.get_mut(&next) else { continue };
                    if entry.there.is_some() && entry.there == after.follows {
                        after.ahead -= 1;
                    }
                    if !after.step() {
                        ready.extend(self.follow(next));
                        continue;
                    }
                    match after.start.take() {
                        Some(start) => ready.push(Next::Start(next, start)),
                        None => withdrawn.push(next),
                    }
                }
                ready.extend(entry.there.and_then(|device| self.has_left(device)));
            }
            match withdrawn.pop() {
                Some(next) => ticket = next,
                None => return ready,
            }
        }
    }

    /// See [`Order::is_there`].
    fn is_there(&mut self, ticket: Ticket, device: DeviceNumber) -> Vec<Next> {
        let Some(entry) = self.entries.get_mut(&ticket) else { return Vec::new() };
        entry.there = Some(device);
        let after = std::mem::take(&mut entry.after);
        self.devices.entry(device).or_default().there += 1;
        for next in &after {
            if let Some(next) = self.entries.get_mut(next)
                && next.follows == Some(device)
            {
                next.ahead += 1;
            }
        }
        let ready = after.iter().filter_map(|next| self.follow(*next)).collect();
        if let Some(entry) = self.entries.get_mut(&ticket) {
            entry.after = after;
        }
        ready
    }

    /// Asks a pipeline to follow, if it may.
    fn follow(&mut self, ticket: Ticket) -> Option<Next> {
        let entry = self.entries.get_mut(&ticket).filter(|entry| entry.may_follow())?;
        let pipelines = self.devices.entry(entry.follows?).or_default();
        if pipelines.there >= FOLLOWERS {
            pipelines.more.push_back(ticket);
            return None;
        }
        // Until it is ready once more.
        entry.before += 1;
        entry.follows = None;
        Some(Next::Follow(ticket, entry.start.take()?))
    }

    /// One of the pipelines that a device had has left. Returns another that follows.
    fn has_left(&mut self, device: DeviceNumber) -> Option<Next> {
        let pipelines = self.devices.get_mut(&device)?;
        pipelines.there -= 1;
        if pipelines.there == 0 {
            self.devices.remove(&device);
            return None;
        }
        while self.devices.get(&device)?.there < FOLLOWERS {
            // Some were started meanwhile.
            let ticket = self.devices.get_mut(&device)?.more.pop_front()?;
            if let Some(next) = self.follow(ticket) {
                return Some(next);
            }
        }
        None
    }

    /// Gives an entry the last place in the lines of its memories, behind those that it conflicts with and
    /// those of `after`.
    fn line_up(
        &mut self,
        ticket: Ticket,
        mut entry: Entry,
        touches: &[Touch<E>],
        after: impl IntoIterator<Item = Ticket>,
    ) -> Entry {
        let mut comes_after = |other: Option<&mut Entry>| {
            if let Some(other) = other {
                other.after.push(ticket);
                entry.before += 1;
                entry.ahead += usize::from(other.there.is_some() && other.there == entry.follows);
            }
        };
        for touch in touches {
            let line = self.lines.entry(touch.memory).or_default();
            line.retain(|(other, theirs)| {
                if touch.conflicts(theirs) {
                    comes_after(self.entries.get_mut(other));
                }
                !touch.covers(theirs)
            });
            line.push((ticket, touch.clone()));
        }
        after.into_iter().for_each(|other| comes_after(self.entries.get_mut(&other)));
        entry
    }

    /// The pipelines there that write any of a memory's elements; `written`: or that read some. (A pipeline
    /// that is no longer in the line is covered by one that came later.)
    fn conflicting(&self, memory: u64, extent: &E, written: bool) -> impl Iterator<Item = Ticket> {
        let line = self.lines.get(&memory).map_or(&[][..], SmallVec::as_slice);
        let conflicts = move |touch: &Touch<E>| match &touch.written {
            _ if written => touch.touched.overlaps(extent),
            Some(writes) => writes.overlaps(extent),
            None => false,
        };
        line.iter().filter(move |(_, touch)| conflicts(touch)).map(|(ticket, _)| *ticket)
    }

    /// See [`Order::precedes`].
    fn precedes(&self, first: Ticket, second: Ticket, known: &mut HashSet<Ticket>) -> bool {
        let (mut path, mut seen) = (vec![(first, 0)], HashSet::new());
        while let Some((at, next)) = path.last_mut() {
            let after = self.entries.get(at).and_then(|entry| entry.after.get(*next)).copied();
            *next += 1;
            match after {
                None => drop(path.pop()),
                Some(after) if after == second || known.contains(&after) => {
                    known.extend(path.iter().map(|(ticket, _)| *ticket));
                    return true;
                }
                Some(after) if after < second && seen.insert(after) => path.push((after, 0)),
                Some(_) => {}
            }
        }
        false
    }

    /// True if a pipeline comes after one of which this is known, or not.
    fn comes_after(&self, ticket: Ticket, guards: Guards) -> bool {
        let mut known = HashSet::new();
        let mut earlier =
            self.entries.iter().filter(|(other, entry)| **other < ticket && entry.guards == guards);
        earlier.any(|(other, _)| self.precedes(*other, ticket, &mut known))
    }
}
