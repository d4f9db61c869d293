//! The arrays of one run: who has what of them, and which tasks touch it.

use super::lane::{Lane, Lanes, drive_until};
use super::task::{TaskRef, Tasks, Waits};
use crate::abi;
use crate::error::Error;
use crate::memory::Header;
use crate::memory::device::{DeviceMemory, Side};
use crate::memory::directory::{Directory, Place};
use crate::memory::region::{Block, Grid, Region};
use smallvec::SmallVec;
use std::sync::MutexGuard;

/// An array argument's memory, a slice of the host, or a second buffer.
pub(super) struct Array<'r> {
    pub header: Option<&'r Header>,
    /// Where it is on the host.
    pub host: *mut u8,
    /// Bytes of an element.
    pub size: u64,
    books: Books<'r>,
    tracks: SmallVec<[(Place, Track); 2]>,
    /// What was poisoned when the run began.
    pub poisoned_before: Region,
}

/// The directory of an array.
enum Books<'r> {
    /// The memory's, locked for the whole run.
    Kept(MutexGuard<'r, Directory>),
    /// One for this run: a slice of the host, a second buffer, or a memory of which nothing can change.
    Own(Directory),
}

/// Who wrote and who read which region of a buffer last.
#[derive(Default)]
struct Track {
    writers: SmallVec<[(Region, TaskRef); 4]>,
    readers: SmallVec<[(Region, TaskRef); 4]>,
}

impl Track {
    /// Lets go of what is done and well: nobody need wait for it. Failed writers stay.
    fn tidy(&mut self) {
        if self.writers.len() + self.readers.len() > 8 {
            self.readers.retain(|(_, task)| !task.get().is_done());
            self.writers.retain(|(_, task)| !task.get().is_done() || task.get().failed());
        }
    }
}

/// How a part touches a region of an array.
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

    /// What was there before matters to the kernel.
    pub fn reads(self) -> bool {
        matches!(self, Touch::Read | Touch::ReadWrite)
    }
}

/// What copies and tasks are put into.
pub(super) struct Ways<'w> {
    pub tasks: &'w mut Tasks,
    pub lanes: &'w mut SmallVec<[&'static Lane; 8]>,
}

impl Ways<'_> {
    pub fn push(&mut self, lane: &'static Lane, task: TaskRef) {
        if !self.lanes.iter().any(|known| std::ptr::eq(*known, lane)) {
            self.lanes.push(lane);
        }
        lane.push(task);
    }

    /// Waits until all tasks are done.
    pub fn drain(&mut self) {
        let tasks = &mut *self.tasks;
        drive_until(self.lanes, || tasks.all_done());
    }
}

impl<'r> Array<'r> {
    /// A memory. `changes`: the run may write it, or give devices copies of it.
    pub fn of_memory(header: &'r Header, changes: bool) -> Array<'r> {
        let books = if changes || header.state.noted() {
            Books::Kept(header.directory())
        } else {
            Books::Own(Directory::new(Grid::new(header.shape(), header.len() as u64)))
        };
        Array::new(Some(header), header.data(), header.element_size() as u64, books)
    }

    /// An array that ends with the run.
    pub fn of_host(host: *mut u8, elements: u64, size: u64, grid: Option<Grid>) -> Array<'r> {
        let grid = grid.unwrap_or_else(|| Grid::new(&[], elements));
        Array::new(None, host, size, Books::Own(Directory::new(grid)))
    }

    fn new(header: Option<&'r Header>, host: *mut u8, size: u64, books: Books<'r>) -> Array<'r> {
        let mut array =
            Array { header, host, size, books, tracks: SmallVec::new(), poisoned_before: Region::empty() };
        array.poisoned_before = array.directory().poison_of_all();
        array
    }

    pub fn directory(&self) -> &Directory {
        match &self.books {
            Books::Kept(directory) => directory,
            Books::Own(directory) => directory,
        }
    }

    pub fn directory_mut(&mut self) -> &mut Directory {
        match &mut self.books {
            Books::Kept(directory) => directory,
            Books::Own(directory) => directory,
        }
    }

    /// A box that a launch sees in a grid of its own, beginning with element `offset` of the array. The
    /// second value: the region is just that, not more.
    pub fn region_of(&mut self, block: &Block, seen: &Grid, offset: u64) -> (Region, bool) {
        let grid = *self.directory().grid();
        if *seen == grid && offset == 0 {
            return (Region::from(*block), true);
        }
        if block.is_empty() {
            return (Region::empty(), true);
        }
        let hull = block.hull(seen);
        let flat = hull.start + offset..hull.end + offset;
        if hull.end - hull.start == block.elements() {
            return (Region::of_range(&grid, flat), true);
        }
        if offset == 0 && seen.elements() == grid.elements() {
            if let Some(region) = Region::of_block(block, seen, &grid) {
                return (region, true);
            }
            if self.directory_mut().regrid(*seen) {
                for (_, track) in &mut self.tracks {
                    for (region, _) in track.writers.iter_mut().chain(&mut track.readers) {
                        *region = region.regrid(&grid, seen).unwrap_or_else(|| Region::all(seen));
                    }
                }
                self.poisoned_before = self.directory().poison_of_all();
                return (Region::from(*block), true);
            }
        }
        (Region::of_range(&grid, flat), false)
    }

    fn track(&mut self, place: Place) -> &mut Track {
        let at = self.tracks.iter().position(|(known, _)| *known == place);
        let at = at.unwrap_or_else(|| {
            self.tracks.push((place, Track::default()));
            self.tracks.len() - 1
        });
        &mut self.tracks[at].1
    }

    /// Gives the place room for a region, and what it lacks of it if that is needed there.
    pub fn prepare(
        &mut self,
        device: Option<&'static DeviceMemory>,
        region: &Region,
        touch: Touch,
        ways: &mut Ways<'_>,
    ) -> Result<(), Error> {
        let place = device.map_or(Place::HOST, DeviceMemory::place);
        if region.is_empty() {
            return Ok(());
        }
        if let Some(device) = device {
            self.make_room(device, region, ways)?;
        }
        if touch == Touch::Write {
            return Ok(());
        }
        let lacking = self.directory().lacks(place, region);
        if lacking.is_empty() {
            return Ok(());
        }
        let sources = self.directory().sources(place, &lacking, |from| DeviceMemory::distance(from, place));
        for (from, part) in sources {
            self.copy(from, place, part, ways)?;
        }
        Ok(())
    }

    /// A buffer over all that the place has and this region.
    fn make_room(
        &mut self,
        device: &'static DeviceMemory,
        region: &Region,
        ways: &mut Ways<'_>,
    ) -> Result<(), Error> {
        let place = device.place();
        let hull = region.hull(self.directory().grid());
        match self.directory().copy(place).map(|copy| copy.range.clone()) {
            Some(range) if range.start <= hull.start && hull.end <= range.end => return Ok(()),
            // Who uses the buffer that is too small must be done with it.
            Some(_) => ways.drain(),
            None => {}
        }
        let size = self.size;
        device.ensure(self.directory_mut(), hull, size)
    }

    /// Puts a copy of a region from one place to another into a lane.
    fn copy(&mut self, from: Place, to: Place, region: Region, ways: &mut Ways<'_>) -> Result<(), Error> {
        let (source, target) = (self.side(from), self.side(to));
        let mut waits = Waits::default();
        for (written, task) in &self.track(from).writers {
            if written.overlaps(&region) {
                waits.reads(*task, 0);
            }
        }
        self.wait_to_write(to, &region, &mut waits);
        let (grid, size, moved) = (*self.directory().grid(), self.size, region.clone());
        // The copy runs at the device that has a lane for it: the target, unless that is the host.
        let device = DeviceMemory::at(to).or_else(|| DeviceMemory::at(from));
        let Some(device) = device else {
            return Err(Error::Backend {
                code: crate::error::Code::Other,
                text: "a copy from the host to the host was asked for".into(),
            });
        };
        let bytes = moved.elements() * size;
        let work = move || DeviceMemory::copy(&source, &target, &grid, &moved, size);
        // About 10 GB/s.
        let expected = bytes / 10;
        // SAFETY: the sides are buffers of arrays that are held until the run is over; the copy is after all
        // that writes its source and all that touches its target.
        let task = unsafe { ways.tasks.add(waits, expected, Box::new(work)) };
        self.has_read(from, &region, task);
        self.has_written(to, &region, task);
        self.directory_mut().copied(to, &region);
        ways.push(&Lanes::of(device.device().id()).copies, task);
        Ok(())
    }

    /// A buffer of the array, for copies.
    fn side(&self, place: Place) -> Side {
        match self.directory().copy(place) {
            Some(copy) => Side { place, buffer: copy.buffer, begin: copy.range.start },
            None => Side {
                place: Place::HOST,
                buffer: abi::Buffer { space: abi::SPACE_HOST, reserved: 0, handle: self.host as u64 },
                begin: 0,
            },
        }
    }

    /// What a reader of a region at a place waits for.
    pub fn wait_to_read(&mut self, place: Place, region: &Region, argument: u32, waits: &mut Waits) {
        for (written, task) in &self.track(place).writers {
            if written.overlaps(region) {
                waits.reads(*task, argument);
            }
        }
    }

    /// What a writer of a region at a place waits for.
    pub fn wait_to_write(&mut self, place: Place, region: &Region, waits: &mut Waits) {
        let track = self.track(place);
        for (touched, task) in track.writers.iter().chain(&track.readers) {
            if touched.overlaps(region) {
                waits.after(*task);
            }
        }
    }

    /// A task reads a region at a place.
    pub fn has_read(&mut self, place: Place, region: &Region, task: TaskRef) {
        let track = self.track(place);
        track.tidy();
        track.readers.push((region.clone(), task));
    }

    /// A task writes a region at a place: who comes later waits for it, and for nobody before it.
    pub fn has_written(&mut self, place: Place, region: &Region, task: TaskRef) {
        let track = self.track(place);
        for list in [&mut track.writers, &mut track.readers] {
            list.retain(|(touched, _)| {
                if touched.overlaps(region) {
                    touched.subtract(region);
                }
                !touched.is_empty()
            });
        }
        track.writers.push((region.clone(), task));
    }

    /// Fills in where an argument finds its elements at a place. `offset`: the array's element that is the
    /// argument's first.
    pub fn address(&self, arg: &mut abi::Arg, part: &mut abi::Part, place: Place, offset: u64) {
        let Some(copy) = self.directory().copy(place) else {
            return;
        };
        // Modulo 2^64: the buffer may begin before the argument's first element, or after.
        part.origin = copy.range.start.wrapping_sub(offset);
        arg.space = copy.buffer.space;
        arg.buffer = copy.buffer.handle;
        let first = copy.buffer.handle.wrapping_sub(part.origin.wrapping_mul(self.size));
        let visible = DeviceMemory::at(place).is_some_and(DeviceMemory::has_addresses);
        arg.data = if visible { first as *mut std::ffi::c_void } else { std::ptr::null_mut() };
    }
}

impl Array<'_> {
    /// A device is gone: what was only there is poisoned.
    pub fn lose(&mut self, device: &'static DeviceMemory) {
        let place = device.place();
        let directory = self.directory_mut();
        let all = Region::all(directory.grid());
        let left = directory.forget(place, &all);
        if !left.is_empty() {
            // It must be current somewhere: what the host has is as good as anything.
            directory.copied(Place::HOST, &left);
            directory.forget(place, &left);
            directory.poison(&left);
        }
        if let Some(copy) = directory.set_copy(place, None) {
            device.free(copy);
        }
    }

    /// The run is over: buffers that were its own go, and the memory's word says whether there is something
    /// to look up.
    pub fn close(&mut self) {
        match &mut self.books {
            Books::Kept(directory) => {
                if let Some(header) = self.header
                    && !directory.is_plain()
                {
                    header.state.note();
                }
            }
            Books::Own(directory) => {
                let places: SmallVec<[Place; 4]> = directory.places().collect();
                for place in places {
                    if let (Some(device), Some(copy)) = (DeviceMemory::at(place), directory.set_copy(place, None))
                    {
                        device.free(copy);
                    }
                }
            }
        }
    }
}
