//! Arrays that a run only reads, as other runs do at the same time.
//!
//! Their directory is locked to look and to book, and never while a run waits. A copy is booked
//! ([`arrivals`](crate::memory::arrivals)), put into a lane, and says itself that it has arrived. What another run
//! brings is waited for on the walk, which drives its lanes meanwhile, and not by a task: tasks wait for tasks of
//! their own run only, so that lanes with priorities have no circle.
//!
//! The buffer that a part will use is *pinned* when it was found, or booked, to have what the part needs: from then
//! until the part has run, whatever others do to the memory's copies. Who holds pins waits for tasks only; who waits
//! until others' pins end (in need of room, [`Array::spill_shared`]) holds none. So there is no circle here, either.

use super::arrays::{Array, DirectoryAccess, TaskSink, rank};
use super::lane::{Lane, drive_until};
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::coherence::DirectoryGuard;
use crate::memory::device::{DeviceBuffer, DeviceCopy, DeviceMemory, LastUse};
use crate::memory::directory::{Directory, Place};
use crate::memory::incoming::{Reader, Ticket};
use crate::memory::region::Region;
use crate::memory::transfer::Transfer;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The part of a run in a memory that it shares; ends with it.
pub(super) struct SharedRead<'r> {
    header: &'r ArrayInner,
    reader: Reader,
}

impl<'r> SharedRead<'r> {
    pub fn of(header: &'r ArrayInner) -> SharedRead<'r> {
        let reader = header.directory().arrivals().enter();
        SharedRead { header, reader }
    }

    /// Locked.
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
    /// The element with which it begins.
    pub first: u64,
}

/// A copy on its way. If nothing was said of it when this ends, it will not come.
struct BookedCopy<'r> {
    header: &'r ArrayInner,
    ticket: Option<Ticket>,
}

impl BookedCopy<'_> {
    fn arrived(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.header.arrived(ticket, true);
        }
    }
}

impl Drop for BookedCopy<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.header.arrived(ticket, false);
        }
    }
}

impl<'r> Array<'r> {
    fn share(&self) -> (&'r ArrayInner, Reader) {
        match &self.books {
            DirectoryAccess::Shared(share) => (share.header, share.reader),
            _ => unreachable!("only asked of what is shared"),
        }
    }

    /// Gives the place room for a region, and what it lacks of it; pins its buffer.
    pub fn prepare_shared(
        &mut self,
        device: Option<&'static DeviceMemory>,
        region: &Region,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let (header, reader) = self.share();
        let place = device.map_or(Place::HOST, DeviceMemory::place);
        loop {
            let mut directory = match device {
                Some(device) => {
                    let hull = region.hull(&self.grid());
                    self.make_shared_room(device, hull, ways)?
                }
                None => header.directory(),
            };
            self.pin(place, &directory);
            let (lacking, awaited) = directory.lacks_for(reader, place, region);
            let sources = directory.sources(place, &lacking, |from| rank(from, device));
            for (from, part) in sources {
                for part in self.by_writer(from, part) {
                    self.copy_shared([from, place], part, &mut directory, ways)?;
                }
            }
            drop(directory);
            if !awaited {
                return Ok(());
            }
            drive_until(ways.lanes, || !header.directory().lacks_for(reader, place, region).1);
        }
    }

    /// Pins what a place has now.
    fn pin(&mut self, place: Place, directory: &Directory) {
        self.pins.retain(|pin| pin.place != place);
        let pin = |copy: &DeviceCopy| BufferPin { place, buffer: copy.keep(), first: copy.range().start };
        self.pins.extend(directory.copy(place).map(pin));
    }

    /// Ends the pin of a place: who uses the buffer keeps it.
    pub fn unpin(&mut self, place: Place) -> Option<Arc<DeviceBuffer>> {
        let at = self.pins.iter().position(|pin| pin.place == place)?;
        Some(self.pins.swap_remove(at).buffer)
    }

    /// A buffer over all that the place has and these elements. Gives the directory back locked.
    pub fn make_shared_room(
        &mut self,
        device: &'static DeviceMemory,
        hull: Range<u64>,
        ways: &mut TaskSink<'_>,
    ) -> Result<DirectoryGuard<'r>, Error> {
        let (header, place) = (self.share().0, device.place());
        let mut is_out_of_use = false;
        loop {
            let mut directory = header.directory();
            match directory.copy(place) {
                Some(copy) if copy.has_room(&hull) => {
                    copy.last_use().set(LastUse::now());
                    return Ok(directory);
                }
                Some(_) if !is_out_of_use || directory.is_expecting(place) => {
                    drop(directory);
                    // Others' pins are not waited for: they keep the buffer that is too small.
                    self.end_use(place, ways.lanes);
                    drive_until(ways.lanes, || !header.directory().is_expecting(place));
                    is_out_of_use = true;
                    continue;
                }
                _ => {}
            }
            if let Some(grown) = device.reserve(header, &mut directory, hull.clone())? {
                // SAFETY: nothing comes to the old buffer, and who has it reads it; nobody has the new one yet; what is
                // current in the old one has room in the new one.
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
        directory: &mut DirectoryGuard<'_>,
        ways: &mut TaskSink<'_>,
    ) -> Result<(), Error> {
        let (header, reader) = self.share();
        let transfer = Transfer::new(header, directory, [from, to], &region)?;
        let buffers: SmallVec<[Arc<DeviceBuffer>; 2]> =
            [from, to].into_iter().filter_map(|place| Some(directory.copy(place)?.keep())).collect();
        let ticket = directory.arrivals().book(reader, to, region.clone());
        let booked = BookedCopy { header, ticket: Some(ticket) };
        let moved = region.clone();
        let work = move || {
            // SAFETY: both ends are buffers of the array, which are kept here; the memory is held, so that nobody
            // writes it; nobody reads at its target what is lacking there, and who else would bring it waits.
            unsafe { transfer.run(&moved)? };
            booked.arrived();
            drop(buffers);
            Ok(())
        };
        // SAFETY: it borrows the memory, which is held until the run is over.
        unsafe { self.put_copy([from, to], region, Some(ticket), work, ways) };
        Ok(())
    }

    /// Takes from a place what it has of the array; what is current only there comes to the host before. No task of
    /// this run uses it, and none of its arrays is pinned. Returns when nobody has the buffer any more.
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
        let transfer = Transfer::new(header, &directory, [place, Place::HOST], &only)?;
        // SAFETY: the memory is held, so that nobody writes it; what is current only there nobody reads on the host, and
        // nobody brings it there while the directory is locked.
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
