//! Arrays that a run only reads, while other runs may read them, too.
//!
//! Their directory is locked to look and to book, and never while a run waits. A copy is booked
//! ([`incoming`](crate::memory::incoming)), put into a lane, and marks itself as arrived. A copy of another
//! run is waited for on the walk, which drives its lanes meanwhile, and not by a task. Tasks wait only for
//! tasks of their own run, so that lanes with priorities have no circle.
//!
//! The buffer for a part is *pinned* when it was found, or booked, to have what the part needs. It stays
//! until the part has run, whatever others do to the memory's copies. A holder of pins waits for tasks only;
//! a run that waits for others' pins (because it needs room, [`Array::spill_shared`]) holds none. So there is
//! no circle here, either.

use super::arrays::{Array, DirectoryAccess, TaskSink, end_copy, rank};
use super::lane::{Lane, drive_until};
use super::task::Begin;
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::coherence::DirectoryGuard;
use crate::memory::device::{DeviceBuffer, DeviceCopy, DeviceMemory, LastUse, Unfilled};
use crate::memory::directory::{Directory, Place};
use crate::memory::incoming::{Reader, Ticket};
use crate::memory::region::Region;
use crate::memory::transfer::Transfer;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A run's share of a memory that others read, too; ends with the run.
pub(super) struct SharedRead<'r> {
    header: &'r ArrayInner,
    reader: Reader,
}

impl<'r> SharedRead<'r> {
    pub fn of(header: &'r ArrayInner) -> SharedRead<'r> {
        SharedRead::locked(header, header.directory())
    }

    /// The same, of a memory whose directory is locked.
    pub fn locked(header: &'r ArrayInner, mut directory: DirectoryGuard<'_>) -> SharedRead<'r> {
        let reader = directory.arrivals().enter();
        SharedRead { header, reader }
    }

    /// The locked directory.
    pub fn directory(&self) -> DirectoryGuard<'r> {
        self.header.directory()
    }
}

impl Drop for SharedRead<'_> {
    fn drop(&mut self) {
        self.directory().arrivals().leave(self.reader);
    }
}

/// A place's buffer, kept for a part that will use it.
pub(super) struct BufferPin {
    pub place: Place,
    pub buffer: Arc<DeviceBuffer>,
    /// Its first element.
    pub first: u64,
}

/// A copy in flight. If it is dropped without an outcome, the copy has failed.
struct BookedCopy<'r> {
    header: &'r ArrayInner,
    ticket: Option<Ticket>,
    /// The buffer that it fills.
    unfilled: Unfilled,
}

impl BookedCopy<'_> {
    fn arrived(mut self) {
        std::mem::take(&mut self.unfilled).filled();
        if let Some(ticket) = self.ticket.take() {
            self.header.arrived(ticket, true);
        }
    }
}

impl Drop for BookedCopy<'_> {
    fn drop(&mut self) {
        // Before others take the buffer for one that they may copy to.
        drop(std::mem::take(&mut self.unfilled));
        if let Some(ticket) = self.ticket.take() {
            self.header.arrived(ticket, false);
        }
    }
}

impl<'r> Array<'r> {
    pub(super) fn share(&self) -> (&'r ArrayInner, Reader) {
        match &self.books {
            DirectoryAccess::Shared(share) => (share.header, share.reader),
            _ => unreachable!("only asked of what is shared"),
        }
    }

    /// Makes room for a region at the place, and copies the missing data; pins its buffer.
    pub fn prepare_shared(
        &mut self,
        device: Option<&'static DeviceMemory>,
        region: &Region,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let (header, reader) = self.share();
        let place = device.map_or(Place::HOST, DeviceMemory::place);
        let mut unfilled = Unfilled::default();
        loop {
            let mut directory = match device {
                Some(device) => {
                    let hull = region.hull(&self.grid());
                    let mut directory = header.directory();
                    match directory.whole_source(Some(reader), place, region, |from| rank(from, Some(device)))
                    {
                        Some(from)
                            if directory.lacks_for(reader, place, region) == (region.clone(), false)
                                && self.by_writer(from, region.clone()).len() == 1 =>
                        {
                            unfilled = device.reserve_to_fill(header, &mut directory, hull)?;
                            directory
                        }
                        _ => self.make_shared_room(directory, device, hull, ways)?,
                    }
                }
                None => {
                    header.commit(region.hull(&self.grid()))?;
                    header.directory()
                }
            };
            self.pin(place, &directory);
            // What the host's twin lacks, the host does.
            let place = header.kept_at(place);
            let device = device.filter(|_| place != Place::HOST);
            let (lacking, awaited) = directory.lacks_for(reader, place, region);
            let sources = directory.sources_for(Some(reader), place, &lacking, |from| rank(from, device));
            for (from, part) in sources {
                for part in self.by_writer(from, part) {
                    let unfilled = std::mem::take(&mut unfilled);
                    self.copy_shared([from, place], part, unfilled, &mut directory, ways)?;
                }
            }
            drop(directory);
            if !lacking.is_empty() {
                ways.begin_ready();
            }
            if !awaited {
                return Ok(());
            }
            drive_until(ways.lanes, || !header.directory().lacks_for(reader, place, region).1);
        }
    }

    /// Pins the current buffer of a place.
    fn pin(&mut self, place: Place, directory: &Directory) {
        self.pins.retain(|pin| pin.place != place);
        let pin = |copy: &DeviceCopy| BufferPin { place, buffer: copy.keep(), first: copy.range().start };
        self.pins.extend(directory.copy(place).map(pin));
    }

    /// Ends the pin of a place: the caller keeps the buffer for the part.
    pub fn unpin(&mut self, place: Place) -> Option<Arc<DeviceBuffer>> {
        let at = self.pins.iter().position(|pin| pin.place == place)?;
        Some(self.pins.swap_remove(at).buffer)
    }

    /// A buffer for all that the place has and these elements. Takes the directory, and returns it, locked;
    /// meanwhile it may be unlocked.
    pub fn make_shared_room(
        &mut self,
        mut directory: DirectoryGuard<'r>,
        device: &'static DeviceMemory,
        hull: Range<u64>,
        ways: &mut TaskSink<'_>,
    ) -> Result<DirectoryGuard<'r>, Error> {
        let (header, place) = (self.share().0, device.place());
        let mut is_out_of_use = false;
        loop {
            match directory.copy(place) {
                Some(copy) if copy.has_room(&hull) && !directory.has_lost_buffer(place) => {
                    copy.last_use().set(LastUse::now());
                    return Ok(directory);
                }
                Some(_) if !is_out_of_use || directory.is_expecting(place) => {
                    drop(directory);
                    // It does not wait for others' pins: they keep the buffer that is too small.
                    self.end_use(place, ways.lanes);
                    drive_until(ways.lanes, || !header.directory().is_expecting(place));
                    is_out_of_use = true;
                    directory = header.directory();
                    continue;
                }
                _ => {}
            }
            if let Some(grown) = device.reserve(header, &mut directory, hull.clone())? {
                // SAFETY: no copy to the old buffer is in flight, and its users only read it; the new one is
                // not used yet; what is current in the old one has room in the new one.
                if let Err(error) = unsafe { grown.transfer.run(&directory.current(place)) } {
                    directory.set_copy(place, Some(grown.old));
                    return Err(error);
                }
            }
            return Ok(directory);
        }
    }

    /// Books a copy, and puts it into a lane.
    fn copy_shared(
        &mut self,
        [from, to]: [Place; 2],
        region: Region,
        unfilled: Unfilled,
        directory: &mut DirectoryGuard<'_>,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let (header, reader) = self.share();
        if to == Place::HOST {
            header.commit(region.hull(directory.grid()))?;
        }
        let transfer = Transfer::new(header, directory, [from, to], &region)?;
        let buffers: SmallVec<[Arc<DeviceBuffer>; 2]> =
            [from, to].into_iter().filter_map(|place| Some(directory.copy(place)?.keep())).collect();
        let ticket = directory.arrivals().book(reader, to, region.clone());
        let booked = BookedCopy { header, ticket: Some(ticket), unfilled };
        let moved = region.clone();
        let work = move |begin: Begin<'_>| {
            // SAFETY: both ends are buffers of the array, which are kept here; the memory is held, so that it
            // is not written; the missing elements are not read at the destination, and other runs that need
            // them wait.
            let copy = unsafe { transfer.begin(&moved, begin.after)? };
            end_copy(copy, begin.may_fly, move || {
                booked.arrived();
                drop(buffers);
            })
        };
        // SAFETY: it borrows the memory, which is held until the run is over.
        unsafe { self.put_copy([from, to], region, Some(ticket), work, ways) };
        Ok(())
    }

    /// Takes the array's copy from a place; what is current only there is copied to the host first. No task
    /// of this run uses it, and none of its arrays is pinned. Returns when the buffer has no users.
    pub fn spill_shared(&mut self, place: Place, lanes: &[&'static Lane]) -> Result<(), Error> {
        let header = self.share().0;
        let rests =
            |directory: &Directory| !directory.is_expecting(place) && !directory.is_expecting(Place::HOST);
        self.take_back();
        let mut directory = loop {
            let directory = header.directory();
            if rests(&directory) {
                break directory;
            }
            drop(directory);
            drive_until(lanes, || rests(&header.directory()));
        };
        if directory.copy(place).is_none() {
            return Ok(());
        }
        // Launches that share the hold may use it without a pin.
        header.home.leave();
        let only = directory.only_at(place);
        header.commit(only.hull(directory.grid()))?;
        let transfer = Transfer::new(header, &directory, [place, Place::HOST], &only)?;
        // SAFETY: the memory is held, so that it is not written; what is current only there is not read on
        // the host, and is not copied there while the directory is locked.
        unsafe { transfer.run(&only)? };
        directory.copied(Place::HOST, &only);
        let all = Region::all(directory.grid());
        directory.forget(place, &all);
        let gone = directory.set_copy(place, None);
        drop(directory);
        drive_until(lanes, || gone.as_ref().is_none_or(|copy| !copy.is_kept()));
        self.forget_users(place);
        Ok(())
    }
}
