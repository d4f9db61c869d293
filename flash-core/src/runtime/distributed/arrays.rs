//! The arrays of one run: the regions that each place has of them, and the tasks that touch them.
//!
//! An [`Array`] belongs to the thread that walks through the pipeline; tasks do not use it. Its directory
//! is ahead of them, as if all had succeeded: [`Array::take_back`] reverts failed copies, `settle.rs`
//! poisons the rest. Each place has a [`BufferHistory`]. A new task waits for the writers of what it reads
//! there, and for writers and readers of what it writes; then it is recorded itself. The host and its twin
//! have one history.
//!
//! Locks: the directory of a memory that the run writes is locked for the whole run, but for the time from
//! [`Array::leave`] to [`Array::lock`], in which the walk uses no array and none of its copies is in
//! flight. That of a memory that the run only reads is locked for each look (`shared_read.rs`), so only
//! one reference to it is alive at a time. Several are locked in the order of their memories' addresses.

use super::lane::{self, Lane, drive_until};
use super::lanes::Lanes;
use super::shared_read::{BufferPin, SharedRead};
use super::task::{Begin, Effort, Flight, MayFly, Outcome, TaskRef, Tasks, Waits};
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::coherence::DirectoryGuard;
use crate::memory::device::{CopyInFlight, DeviceMemory, Unfilled, memory_of};
use crate::memory::directory::{Directory, Place};
use crate::memory::incoming::Ticket;
use crate::memory::region::{Grid, GridBox, Region};
use crate::memory::routes;
use crate::memory::transfer::{End, Transfer};
use flash_types::Code;
use flash_types::abi;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

/// An array argument's memory, a slice of the host, or a second buffer.
pub(super) struct Array<'r> {
    header: ArrayOwner<'r>,
    pub(super) books: DirectoryAccess<'r>,
    /// The run is the memory's only holder.
    written: bool,
    /// In the order of places.
    pub(super) tracks: SmallVec<[(Place, BufferHistory); 2]>,
    /// Copies that may have failed.
    copies: Vec<CopyTask>,
    tidying: Tidying,
    /// For a shared array: buffers of the part that is being made.
    pub(super) pins: SmallVec<[BufferPin; 1]>,
    /// Devices that were lost during a copy.
    pub lost: Vec<&'static DeviceMemory>,
    /// The region that was poisoned when the run began.
    pub poisoned_before: Region,
}

enum ArrayOwner<'r> {
    Memory(&'r ArrayInner),
    /// A slice, or a second buffer: it ends with the run.
    Lent(Arc<ArrayInner>),
}

/// A copy of a region to a place.
struct CopyTask {
    from: Place,
    to: Place,
    region: Region,
    task: TaskRef,
    /// The booking, for a shared array.
    ticket: Option<Ticket>,
}

/// The address of an empty array: not NULL, and aligned for every type.
const NOWHERE: usize = 4096;

/// The directory of an array.
pub(super) enum DirectoryAccess<'r> {
    /// The memory's, locked for the whole run.
    Kept(DirectoryGuard<'r>),
    /// The memory's, currently unlocked.
    Left,
    /// The memory's, which the run and others only read: locked for each look.
    Shared(SharedRead<'r>),
    /// One for this run: of a lent array, or of a memory of which nothing can change.
    Own(Box<Directory>),
}

/// The state that makes this access an error.
const LEFT: &str = "the walk touches no array while a function of the host runs";

/// A directory, locked if others use it, too.
pub(super) enum DirectoryRead<'a> {
    HeldMemories(&'a Directory),
    Locked(DirectoryGuard<'a>),
}

/// A directory that may be changed.
pub(super) enum DirectoryWrite<'a> {
    HeldMemories(&'a mut Directory),
    Locked(DirectoryGuard<'a>),
}

impl Deref for DirectoryRead<'_> {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        match self {
            DirectoryRead::HeldMemories(directory) => directory,
            DirectoryRead::Locked(directory) => directory,
        }
    }
}

impl Deref for DirectoryWrite<'_> {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        match self {
            DirectoryWrite::HeldMemories(directory) => directory,
            DirectoryWrite::Locked(directory) => directory,
        }
    }
}

impl DerefMut for DirectoryWrite<'_> {
    fn deref_mut(&mut self) -> &mut Directory {
        match self {
            DirectoryWrite::HeldMemories(directory) => directory,
            DirectoryWrite::Locked(directory) => directory,
        }
    }
}

/// Says when a list is searched for what is over: as entries may stay, whenever it has doubled.
#[derive(Default)]
struct Tidying {
    next: usize,
}

impl Tidying {
    /// Calls `tidy`, which returns the length afterwards, if the list is long enough.
    fn tidy(&mut self, length: usize, tidy: impl FnOnce() -> usize) {
        if length >= self.next.max(16) {
            self.next = 2 * tidy();
        }
    }
}

/// The last writers and readers of each region of a buffer.
#[derive(Default)]
pub(super) struct BufferHistory {
    writers: SmallVec<[(Region, TaskRef); 1]>,
    readers: SmallVec<[(Region, TaskRef); 1]>,
    tidying: Tidying,
}

impl BufferHistory {
    /// All tasks that touch the buffer are done.
    pub fn is_done(&self) -> bool {
        self.writers.iter().chain(&self.readers).all(|(_, task)| task.get().is_done())
    }

    /// Removes tasks that are done and succeeded: no task need wait for them. Failed writers stay.
    fn tidy(&mut self) {
        let BufferHistory { writers, readers, tidying } = self;
        tidying.tidy(writers.len() + readers.len(), || {
            readers.retain(|(_, task)| !task.get().is_done());
            writers.retain(|(_, task)| !task.get().is_done() || task.get().failed());
            writers.len() + readers.len()
        });
    }
}

/// The access of a part to a region of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// Reads it.
    Read,
    /// Reads and writes it.
    ReadWrite,
    /// Writes all of it.
    Write,
    /// Writes some of it; the rest keeps its value.
    WriteSome,
}

impl Touch {
    pub fn writes(self) -> bool {
        self != Touch::Read
    }

    /// The kernel depends on the old value.
    pub fn reads(self) -> bool {
        matches!(self, Touch::Read | Touch::ReadWrite)
    }
}

/// The destination of copies and tasks.
pub(super) struct TaskSink<'w> {
    pub tasks: &'w mut Tasks,
    pub lanes: &'w mut SmallVec<[&'static Lane; 8]>,
}

impl TaskSink<'_> {
    pub fn push(&mut self, lane: &'static Lane, task: TaskRef) {
        self.add(lane).push(task);
    }

    /// With a directory of others locked: ends of copies need it.
    fn put(&mut self, lane: &'static Lane, task: TaskRef) {
        self.add(lane).put(task);
    }

    fn add(&mut self, lane: &'static Lane) -> &'static Lane {
        if !self.lanes.iter().any(|known| std::ptr::eq(*known, lane)) {
            self.lanes.push(lane);
        }
        lane
    }

    /// Begins what was put.
    pub fn begin_ready(&self) {
        self.lanes.iter().for_each(|lane| lane.begin_ready());
    }

    /// Waits until all tasks are done.
    pub fn drain(&mut self) {
        let tasks = &mut *self.tasks;
        lane::drain(self.lanes, || tasks.all_done());
    }
}

impl<'r> Array<'r> {
    /// A memory, which the run writes, or only reads. `copied`: it may give devices copies of it.
    pub fn of_memory(header: &'r ArrayInner, written: bool, copied: bool) -> Array<'r> {
        let books = if written {
            DirectoryAccess::Kept(header.directory())
        } else if copied || header.state.is_tracked() {
            DirectoryAccess::Shared(SharedRead::of(header))
        } else {
            DirectoryAccess::Own(Box::new(Directory::new(header.grid(), header.twin())))
        };
        Array::new(ArrayOwner::Memory(header), books, written)
    }

    /// True if none of its copies is in flight.
    pub fn has_copied(&self) -> bool {
        self.copies.iter().all(|copy| copy.task.get().is_done())
    }

    /// Unlocks the directory of a memory that the run writes while others use other elements of it. No copy
    /// is in flight, and the directory's entries for the written elements will hold.
    pub fn leave(&mut self) {
        if !self.written || !matches!(self.books, DirectoryAccess::Kept(_)) {
            return;
        }
        self.take_back();
        self.directory_mut().in_flight = true;
        self.books = DirectoryAccess::Left;
    }

    /// Locks the directory again. In the order of addresses, as at the beginning.
    pub fn lock(&mut self) {
        if let (DirectoryAccess::Left, ArrayOwner::Memory(header)) = (&self.books, &self.header) {
            let mut directory = header.directory();
            if directory.in_flight {
                directory.in_flight = false;
            }
            self.books = DirectoryAccess::Kept(directory);
        }
    }

    /// Memory of the host for the run to use.
    pub fn lent(data: *mut u8, len: u64, element_size: u64, shape: &[u64]) -> Array<'r> {
        let header = ArrayInner::lent(data, len as usize, element_size as usize, shape);
        let books = DirectoryAccess::Own(Box::new(Directory::new(header.grid(), header.twin())));
        Array::new(ArrayOwner::Lent(header), books, true)
    }

    fn new(header: ArrayOwner<'r>, books: DirectoryAccess<'r>, written: bool) -> Array<'r> {
        let mut array = Array {
            header,
            books,
            written,
            tracks: SmallVec::new(),
            copies: Vec::new(),
            tidying: Tidying::default(),
            pins: SmallVec::new(),
            lost: Vec::new(),
            poisoned_before: Region::empty(),
        };
        let all = Region::all(&array.grid());
        let poisoned = array.directory().poison_in(&all);
        array.poisoned_before = poisoned;
        array
    }

    pub fn header(&self) -> &ArrayInner {
        match &self.header {
            ArrayOwner::Memory(header) => header,
            ArrayOwner::Lent(header) => header,
        }
    }

    /// Bytes of an element.
    pub fn size(&self) -> u64 {
        self.header().element_size()
    }

    /// The directory. For a shared array only one reference at a time: it is locked.
    pub fn directory(&self) -> DirectoryRead<'_> {
        match &self.books {
            DirectoryAccess::Kept(directory) => DirectoryRead::HeldMemories(directory),
            DirectoryAccess::Own(directory) => DirectoryRead::HeldMemories(directory),
            DirectoryAccess::Shared(share) => DirectoryRead::Locked(share.directory()),
            DirectoryAccess::Left => unreachable!("{LEFT}"),
        }
    }

    pub fn directory_mut(&mut self) -> DirectoryWrite<'_> {
        match &mut self.books {
            DirectoryAccess::Kept(directory) => DirectoryWrite::HeldMemories(directory),
            DirectoryAccess::Own(directory) => DirectoryWrite::HeldMemories(directory),
            DirectoryAccess::Shared(share) => DirectoryWrite::Locked(share.directory()),
            DirectoryAccess::Left => unreachable!("{LEFT}"),
        }
    }

    /// The grid of its regions.
    pub fn grid(&self) -> Grid {
        *self.directory().grid()
    }

    /// The region of a box that a launch sees in a grid of its own, which begins with element `offset` of the
    /// array. The second value: the region is exact.
    pub fn region_of(&mut self, block: &GridBox, seen: &Grid, offset: u64) -> (Region, bool) {
        let grid = self.grid();
        if block.is_empty() {
            return (Region::empty(), true);
        }
        if *seen == grid && offset == 0 {
            return (Region::from(*block), true);
        }
        let hull = block.hull(seen);
        let flat = hull.start + offset..hull.end + offset;
        if hull.end - hull.start == block.elements() {
            return (Region::of_range(&grid, flat), true);
        }
        if let Some(region) = Region::of_block(block, seen, offset, &grid) {
            return (region, true);
        }
        if offset == 0 && seen.elements() == grid.elements() && self.directory_mut().regrid(*seen) {
            for (_, track) in &mut self.tracks {
                for (region, _) in track.writers.iter_mut().chain(&mut track.readers) {
                    *region = region.regrid(&grid, seen).unwrap_or_else(|| Region::all(seen));
                }
            }
            for copy in &mut self.copies {
                copy.region = copy.region.regrid(&grid, seen).unwrap_or_else(|| Region::all(seen));
            }
            let before = self.poisoned_before.regrid(&grid, seen);
            self.poisoned_before = before.unwrap_or_else(|| Region::all(seen));
            return (Region::from(*block), true);
        }
        (Region::of_range(&grid, flat), false)
    }

    fn track(&mut self, place: Place) -> &mut BufferHistory {
        let place = self.header().kept_at(place);
        let at = self.tracks.binary_search_by_key(&place, |(known, _)| *known);
        let at = at.unwrap_or_else(|at| {
            self.tracks.insert(at, (place, BufferHistory::default()));
            at
        });
        &mut self.tracks[at].1
    }

    /// Makes room for a region at the place, and copies the missing data if it is needed there.
    pub fn prepare(
        &mut self,
        device: Option<&'static DeviceMemory>,
        region: &Region,
        touch: Touch,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let place = device.map_or(Place::HOST, DeviceMemory::place);
        if region.is_empty() {
            return Ok(());
        }
        if let DirectoryAccess::Shared(_) = self.books {
            return self.prepare_shared(device, region, ways);
        }
        let hull = region.hull(&self.grid());
        let mut unfilled = Unfilled::default();
        if let Some(device) = device {
            let cost = |from| rank(from, Some(device));
            let whole = || self.directory().whole_source(None, place, region, cost);
            match if touch == Touch::Write { None } else { whole() } {
                Some(from) if self.by_writer(from, region.clone()).len() == 1 => {
                    let (header, directory) = self.sole_directory();
                    unfilled = device.reserve_to_fill(header, directory, hull.clone())?;
                }
                _ => self.make_room(device, hull.clone(), ways)?,
            }
        }
        // What the host's twin lacks, the host does.
        let place = self.header().kept_at(place);
        let device = device.filter(|_| place != Place::HOST);
        if device.is_none() {
            self.header().commit(hull)?;
        }
        if touch == Touch::Write {
            return Ok(());
        }
        let lacking = self.directory().lacks(place, region);
        if lacking.is_empty() {
            return Ok(());
        }
        let sources = self.directory().sources(place, &lacking, |from| rank(from, device));
        for (from, part) in sources {
            for part in self.by_writer(from, part) {
                self.copy([from, place], part, std::mem::take(&mut unfilled), ways)?;
            }
        }
        Ok(())
    }

    /// Splits a region into pieces, each of which is made by one unfinished or failed task. So a copy that
    /// fails loses no more than that task did not make.
    pub(super) fn by_writer(&mut self, place: Place, region: Region) -> SmallVec<[Region; 2]> {
        let (mut pieces, mut rest) = (SmallVec::new(), region);
        for (written, task) in &self.track(place).writers {
            if (task.get().failed() || !task.get().is_done()) && written.overlaps(&rest) {
                pieces.push(rest.intersection(written));
                rest.subtract(written);
            }
        }
        if !rest.is_empty() {
            pieces.push(rest);
        }
        pieces
    }

    /// A buffer for all that the place has and these elements.
    pub fn make_room(
        &mut self,
        device: &'static DeviceMemory,
        hull: Range<u64>,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let place = device.place();
        if hull.is_empty() {
            return Ok(());
        }
        if let DirectoryAccess::Shared(_) = self.books {
            let directory = self.share().0.directory();
            return self.make_shared_room(directory, device, hull, ways).map(drop);
        }
        let is_replaced = |directory: &Directory| {
            let too_small = directory.copy(place).is_some_and(|copy| !copy.has_room(&hull));
            too_small || directory.has_lost_buffer(place)
        };
        if is_replaced(&self.directory()) {
            self.end_use(place, ways.lanes);
        }
        let (header, directory) = self.sole_directory();
        if let Some(grown) = device.reserve(header, directory, hull)? {
            // SAFETY: the old buffer is no longer used, and the new one not yet; what is current in the old
            // one has room in the new one.
            if let Err(error) = unsafe { grown.transfer.run(&directory.current(place)) } {
                directory.set_copy(place, Some(grown.old));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The array, and its directory, which no other run reads.
    fn sole_directory(&mut self) -> (&ArrayInner, &mut Directory) {
        let header: &ArrayInner = match &self.header {
            ArrayOwner::Memory(header) => header,
            ArrayOwner::Lent(header) => header,
        };
        match &mut self.books {
            DirectoryAccess::Kept(directory) => (header, directory),
            DirectoryAccess::Own(directory) => (header, directory),
            DirectoryAccess::Shared(_) | DirectoryAccess::Left => unreachable!("{LEFT}"),
        }
    }

    /// Waits until no task of this run uses a place's buffer: it will be replaced.
    pub(super) fn end_use(&mut self, place: Place, lanes: &[&'static Lane]) {
        let track = self.tracks.iter().find(|(known, _)| *known == place);
        drive_until(lanes, || track.is_none_or(|(_, track)| track.is_done()));
        self.take_back();
    }

    /// Puts a copy of a region from one place to another, which it fills, into a lane.
    fn copy(
        &mut self,
        [from, to]: [Place; 2],
        region: Region,
        unfilled: Unfilled,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        if to == Place::HOST {
            self.header().commit(region.hull(&self.grid()))?;
        }
        let transfer = Transfer::new(self.header(), &self.directory(), [from, to], &region)?;
        let moved = region.clone();
        let work = move |begin: Begin<'_>| {
            // SAFETY: both ends are buffers of the array, which stay until the run is over; the copy is after
            // all that writes its source and all that touches its destination.
            let copy = unsafe { transfer.begin(&moved, begin.after)? };
            end_copy(copy, begin.may_fly, || unfilled.filled())
        };
        // SAFETY: it borrows nothing.
        unsafe { self.put_copy([from, to], region.clone(), None, work, ways) };
        self.directory_mut().copied(to, &region);
        Ok(())
    }

    /// Puts the copy of a region into a lane, after all that writes its source and all that touches its
    /// destination.
    ///
    /// # Safety
    /// What `work` borrows lives until the run is over, and may be used from any thread.
    pub(super) unsafe fn put_copy<'w>(
        &mut self,
        [from, to]: [Place; 2],
        region: Region,
        ticket: Option<Ticket>,
        work: impl FnOnce(Begin<'_>) -> Result<Option<Flight<'w>>, Error> + 'w,
        ways: &mut TaskSink<'_>,
    ) {
        let mut waits = Waits::default();
        self.wait_to_read(from, &region, 0, &mut waits);
        self.wait_to_write(to, &region, &mut waits);
        // The host has no lanes: the copy goes into a lane of the other side.
        let device = memory_of(to).or_else(|| memory_of(from));
        // One between two memories may be the other device's, and of several boxes the host waits for the
        // first.
        let flies = (from == Place::HOST || to == Place::HOST)
            && region.blocks().len() == 1
            && device.is_some_and(|device| device.device().info().waits_in_queue);
        // At about 10 GB/s.
        let expected = region.elements() * self.size() / 10;
        let effort = Effort { expected, flies };
        // SAFETY: as the caller says.
        let task = unsafe { ways.tasks.add_copy(waits, effort, Box::new(move |begin| Ok(work(begin)?))) };
        self.has_read(from, &region, task);
        self.has_written(to, &region, task);
        if let Some(device) = device {
            let Array { copies, tidying, .. } = self;
            tidying.tidy(copies.len(), || {
                copies.retain(|copy| !copy.task.get().is_done() || copy.task.get().failed());
                copies.len()
            });
            self.copies.push(CopyTask { from, to, region, task, ticket });
            let lane = &Lanes::of(device.device()).copies;
            match ticket {
                // The directory is locked.
                Some(_) => ways.put(lane, task),
                None => ways.push(lane, task),
            }
        }
    }

    /// One end of a copy: the array's buffer at a place.
    pub fn end(&self, place: Place) -> Result<End, Error> {
        End::of(self.header(), &self.directory(), place)
    }

    /// The buffer of a place for the part that is being made, for copies.
    pub fn part_end(&self, place: Place) -> Result<End, Error> {
        match (memory_of(place), self.buffer(place)) {
            (Some(memory), Some((buffer, origin))) => Ok(End { memory: Some(memory), buffer, origin }),
            _ => self.end(place),
        }
    }

    /// Adds the tasks that a reader of a region at a place waits for.
    pub fn wait_to_read(&mut self, place: Place, region: &Region, argument: u32, waits: &mut Waits) {
        for (written, task) in &self.track(place).writers {
            if written.overlaps(region) {
                waits.reads(*task, argument);
            }
        }
    }

    /// Adds the tasks that a writer of a region at a place waits for.
    pub fn wait_to_write(&mut self, place: Place, region: &Region, waits: &mut Waits) {
        let track = self.track(place);
        for (touched, task) in track.writers.iter().chain(&track.readers) {
            if touched.overlaps(region) {
                waits.after(*task);
            }
        }
    }

    /// True if a task of this run writes something of a region at a place.
    pub fn is_written(&self, place: Place, region: &Region) -> bool {
        let place = self.header().kept_at(place);
        let track = self.tracks.iter().find(|(known, _)| *known == place);
        track.is_some_and(|(_, track)| track.writers.iter().any(|(written, _)| written.overlaps(region)))
    }

    /// Records that a task reads a region at a place.
    pub fn has_read(&mut self, place: Place, region: &Region, task: TaskRef) {
        let track = self.track(place);
        track.tidy();
        track.readers.push((region.clone(), task));
    }

    /// Records that a task writes a region at a place: later tasks wait for it, and for none before it.
    pub fn has_written(&mut self, place: Place, region: &Region, task: TaskRef) {
        let track = self.track(place);
        for list in [&mut track.writers, &mut track.readers] {
            list.retain(|(touched, _)| {
                if region.contains(touched) {
                    return false;
                }
                if touched.overlaps(region) {
                    touched.subtract(region);
                }
                !touched.is_empty()
            });
        }
        track.writers.push((region.clone(), task));
    }

    /// The buffer of a place, and its first element.
    fn buffer(&self, place: Place) -> Option<(abi::Buffer, u64)> {
        match &self.books {
            DirectoryAccess::Shared(_) => {
                self.pins.iter().find(|pin| pin.place == place).map(|pin| (pin.buffer.raw(), pin.first))
            }
            _ => self.directory().copy(place).map(|copy| (copy.raw(), copy.range().start)),
        }
    }

    /// Sets the place of an argument's elements on a device. `offset`: the array's element that is the
    /// argument's first.
    pub fn address(&self, arg: &mut abi::Arg, part: &mut abi::Part, place: Place, offset: u64) {
        let Some(memory) = memory_of(place) else { return };
        let Some((buffer, first)) = self.buffer(place) else {
            // None of it is touched: there is no buffer.
            arg.space = memory.space();
            arg.buffer = 0;
            arg.data = match memory.has_addresses() {
                true => std::ptr::without_provenance_mut(NOWHERE),
                false => std::ptr::null_mut(),
            };
            return;
        };
        // Modulo 2^64: the buffer may begin before the argument's first element, or after it.
        part.origin = first.wrapping_sub(offset);
        arg.space = buffer.space;
        arg.buffer = buffer.handle;
        arg.data = match memory.has_addresses() {
            true => {
                let first = buffer.handle.wrapping_sub(part.origin.wrapping_mul(self.size()));
                std::ptr::with_exposed_provenance_mut(first as usize)
            }
            false => std::ptr::null_mut(),
        };
    }

    /// Takes the array's copy from a device; what is current only there is copied to the host first. No task
    /// that uses it is left.
    pub fn spill(&mut self, device: &'static DeviceMemory, lanes: &[&'static Lane]) -> Result<(), Error> {
        let place = device.place();
        if self.header().kept_at(place) == Place::HOST {
            // It is the host's memory already.
            return Ok(());
        }
        if let DirectoryAccess::Shared(_) = self.books {
            return self.spill_shared(place, lanes);
        }
        if self.directory().copy(place).is_none() {
            return Ok(());
        }
        self.take_back();
        self.header().home.leave();
        let only = self.directory().only_at(place);
        self.header().commit(only.hull(&self.grid()))?;
        let transfer = Transfer::new(self.header(), &self.directory(), [place, Place::HOST], &only)?;
        // SAFETY: the run holds the array, and none of its tasks uses it now.
        unsafe { transfer.run(&only)? };
        let mut directory = self.directory_mut();
        directory.copied(Place::HOST, &only);
        let all = Region::all(directory.grid());
        directory.forget(place, &all);
        directory.set_copy(place, None);
        drop(directory);
        self.forget_users(place);
        Ok(())
    }

    /// A place no longer has a buffer, and no task uses it.
    pub(super) fn forget_users(&mut self, place: Place) {
        // A reader on the host of what a failed task should have made must see the failure.
        let gone = std::mem::take(self.track(place));
        let failed = gone.writers.into_iter().filter(|(_, task)| task.get().failed() && !task.get().copies);
        self.track(Place::HOST).writers.extend(failed);
    }

    /// For memory that the run uses: the error that kept it from coming back to the host.
    pub fn not_fetched(&self) -> Option<Error> {
        let lent = matches!(self.header, ArrayOwner::Lent(_));
        let mut fetched = self.copies.iter().filter(|copy| lent && copy.to == Place::HOST);
        fetched.find_map(|copy| match copy.task.get().failure()? {
            Outcome::Error(error) | Outcome::Late(error) | Outcome::NotBrought(error) => Some(error.clone()),
            // The task that should have made it has failed, and reports that.
            Outcome::Skipped(_) | Outcome::Unknown => None,
        })
    }

    /// Reverts the directory for failed copies, as far as they are done.
    pub fn take_back(&mut self) {
        let (done, rest) =
            std::mem::take(&mut self.copies).into_iter().partition(|copy| copy.task.get().is_done());
        self.copies = rest;
        let done: Vec<CopyTask> = done;
        for copy in done {
            let Some(failure) = copy.task.get().failure() else { continue };
            match (&self.books, copy.ticket) {
                (DirectoryAccess::Shared(share), Some(ticket)) => share.directory().arrivals().forget(ticket),
                _ => drop(self.directory_mut().forget(copy.to, &copy.region)),
            }
            if matches!(failure, Outcome::Error(Error::Backend { code: Code::DeviceLost, .. })) {
                let ends = [copy.from, copy.to].into_iter().filter_map(memory_of);
                self.lost.extend(ends.filter(|memory| memory.is_lost()));
            }
        }
    }

    /// A device is lost: elements that were current only there are poisoned.
    pub fn lose(&mut self, device: &'static DeviceMemory) {
        self.directory_mut().lost(device.place());
    }

    /// The run is over: the memory's word says whether it is tracked.
    pub fn close(&mut self) {
        if let (ArrayOwner::Memory(header), DirectoryAccess::Kept(_) | DirectoryAccess::Shared(_)) =
            (&self.header, &self.books)
            && !self.directory().is_plain()
        {
            header.state.track();
        }
    }
}

/// Ends a copy, or leaves it to its device; `then` is called when it is complete.
pub(super) fn end_copy<'w>(
    copy: Option<CopyInFlight>,
    may_fly: MayFly,
    then: impl FnOnce() + 'w,
) -> Result<Option<Flight<'w>>, Error> {
    if may_fly != MayFly::No
        && let Some(work) = copy.as_ref().and_then(CopyInFlight::work)
    {
        let end = move |_| {
            copy.map_or(Ok(()), CopyInFlight::wait)?;
            then();
            Ok(())
        };
        return Ok(Some(Flight { work: Some(work), end: Box::new(end) }));
    }
    copy.map_or(Ok(()), CopyInFlight::wait)?;
    then();
    Ok(None)
}

/// What it costs to copy an element from a place to a device, or to the host.
pub(super) fn rank(from: Place, to: Option<&'static DeviceMemory>) -> u64 {
    routes::route(from, to.map_or(Place::HOST, DeviceMemory::place)).cost
}
