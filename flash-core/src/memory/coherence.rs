//! The coherence of one memory: fetching to the host, copying to devices, dropping copies.
//!
//! A memory whose state word is not *tracked* is current on the host, poisoned nowhere, and copied nowhere,
//! and its directory is not looked at. What changes that sets the bit.
//!
//! Only a holder of the state word locks the directory. A shared holder may add what is current somewhere
//! only once it *is* there, as other shared holders trust the directory. Until then it keeps the lock, or
//! books the copy among the [`incoming`](super::incoming) ones. Poisoning, healing and taking away are for
//! the exclusive holder, or within some elements for their only holder ([`order`](super::order)); only the
//! copy of a place that no computation uses may go without that. A run that moves an array it writes may
//! unlock the directory while nothing is in flight but its own writes (`Directory::in_flight`).

use super::ArrayInner;
use super::device::{DeviceMemory, Taker, memory_of};
use super::directory::{Directory, Place};
use super::host_budget;
use super::incoming::{IncomingCopies, Ticket};
use super::region::{Grid, Region};
use super::residence::PublishedResidence;
use super::routes;
use super::transfer::Transfer;
use crate::error::Error;
use flash_backend::fork;
use flash_types::Code;
use std::ops::{Deref, DerefMut, Range};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// The directory of a memory, locked. When the lock ends, the memory's [residence](super::residence) is set
/// to what the directory says.
pub(crate) struct DirectoryGuard<'a> {
    lock: MutexGuard<'a, Option<Box<Directory>>>,
    home: &'a PublishedResidence,
    changed: bool,
}

impl Deref for DirectoryGuard<'_> {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        self.lock.as_deref().unwrap_or_else(|| unreachable!("made when it was locked"))
    }
}

impl DerefMut for DirectoryGuard<'_> {
    fn deref_mut(&mut self) -> &mut Directory {
        self.changed = true;
        self.lock.as_deref_mut().unwrap_or_else(|| unreachable!("made when it was locked"))
    }
}

impl DirectoryGuard<'_> {
    /// The copies in flight. The residence does not depend on them.
    pub fn arrivals(&mut self) -> &mut IncomingCopies<Place, Region> {
        let directory = self.lock.as_deref_mut();
        &mut directory.unwrap_or_else(|| unreachable!("made when it was locked")).arrivals
    }

    /// See [`Directory::stays_as_host_writes`]. The residence does not depend on it.
    fn stays_as_host_writes(&mut self) -> bool {
        self.lock.as_deref_mut().is_some_and(Directory::stays_as_host_writes)
    }
}

impl Drop for DirectoryGuard<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.home.set(self.lock.as_ref().and_then(|directory| directory.home()));
        }
    }
}

impl ArrayInner {
    /// The grid of its shape.
    pub fn grid(&self) -> Grid {
        Grid::new(self.shape(), self.len() as u64)
    }

    /// Its directory. The caller holds the state.
    pub fn directory(&self) -> DirectoryGuard<'_> {
        self.directory_when(|_| true)
    }

    /// Its directory once `is_so` holds of it, which arriving copies bring about. The caller holds the state.
    fn directory_when(&self, is_so: impl Fn(&Directory) -> bool) -> DirectoryGuard<'_> {
        let mut lock = self.directory.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            let directory = lock.get_or_insert_with(|| Box::new(Directory::new(self.grid(), self.twin())));
            if is_so(directory) {
                return DirectoryGuard { lock, home: &self.home, changed: false };
            }
            fork::before_sleep();
            directory.waiting += 1;
            lock = self.arrived.wait(lock).unwrap_or_else(|e| e.into_inner());
            if let Some(directory) = lock.as_mut() {
                directory.waiting -= 1;
            }
        }
    }

    /// What was booked is there, or `well` is false and it will not come.
    pub fn arrived(&self, ticket: Ticket, well: bool) {
        let mut directory = self.directory();
        match well {
            true => directory.arrived(ticket),
            false => directory.arrivals().given_up(ticket),
        }
        let waiting = directory.waiting > 0;
        drop(directory);
        if waiting {
            self.arrived.notify_all();
        }
    }

    /// Drops a directory in which there is nothing to look up. True if there is something, and the memory
    /// must stay tracked. For the exclusive holder.
    pub fn settle(&self) -> bool {
        if self.home.is_some() {
            return true;
        }
        self.tidied().1
    }

    /// Its directory, which is dropped first if there is nothing to look up in it, and whether the memory
    /// must stay tracked.
    fn tidied(&self) -> (MutexGuard<'_, Option<Box<Directory>>>, bool) {
        let mut lock = self.directory.lock().unwrap_or_else(|e| e.into_inner());
        *lock = lock.take().filter(|directory| !directory.is_plain() || directory.in_flight);
        let tracked = lock.is_some() || !self.is_whole();
        (lock, tracked)
    }

    /// Makes all of it writable for the host, if there is nothing else to look up. False if there is. The
    /// caller holds the memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[cold]
    pub fn is_only_reserved(&self) -> Result<bool, Error> {
        let lock = self.directory.lock().unwrap_or_else(|e| e.into_inner());
        if lock.as_ref().is_some_and(|directory| !directory.is_plain() || directory.in_flight) {
            return Ok(false);
        }
        self.commit(0..self.len() as u64)?;
        Ok(true)
    }

    /// Ends the hold of a launch that writes. The memory is tracked afterwards if there is something to look
    /// up.
    pub fn release_written(&self) {
        self.state.release_write(self.settle());
    }

    /// Marks as poisoned what should have been written and was not. For its exclusive holder, which leaves
    /// the memory tracked. `region` is of the grid of the memory's shape.
    #[cold]
    pub fn poison(&self, region: &Region) {
        let mut directory = self.directory();
        match region.regrid(&self.grid(), directory.grid()) {
            Some(region) => directory.poison(&region),
            None => {
                let hull = Region::of_range(directory.grid(), region.hull(&self.grid()));
                directory.poison(&hull);
            }
        }
    }

    /// All of a range was written where everything is current. For the exclusive holder.
    #[cold]
    pub fn heal(&self, range: Range<u64>) {
        let mut directory = self.directory();
        let region = Region::of_range(directory.grid(), range);
        directory.heal(&region);
    }

    /// True if something of a range is poisoned.
    #[cold]
    pub fn poisoned(&self, range: Range<u64>) -> bool {
        let directory = self.directory();
        directory.poisoned(&Region::of_range(directory.grid(), range))
    }

    /// Ends the hold of a pending pipeline that has written. `looked`: it has used the directory, or may
    /// have.
    pub fn release_pending_written(&self, looked: bool) {
        if !looked {
            return self.state.release_pending_write(None);
        }
        // Others may be pending for other elements: what they say of the directory comes before this, or
        // after.
        let (_directory, tracked) = self.tidied();
        self.state.release_pending_write(Some(tracked));
    }

    /// Ends a hold in which copies were taken from devices.
    pub fn end_evict(&self) {
        // Guards may look into the directory: what they say of it comes before this, or after.
        let (_directory, tracked) = self.tidied();
        self.state.end_evict(tracked);
    }

    /// Prepares the host's reading of a range: refuses poison, and fetches what is not current there, in
    /// granules.
    ///
    /// # Errors
    /// [`Error::Poisoned`], and those of copies. Nothing is lost then: what was fetched is there, and the
    /// rest is where it was.
    #[cold]
    pub fn host_reads(&self, range: Range<u64>) -> Result<(), Error> {
        // What others bring to the host is waited for, so that it is not copied a second time.
        let mut directory = self.directory_when(|directory| {
            let wanted = || Region::of_range(directory.grid(), range.clone());
            directory.is_all_at_host()
                || directory.has(Place::HOST, &wanted())
                || !directory.is_expecting(Place::HOST)
        });
        if directory.is_all_at_host() {
            return Ok(());
        }
        let wanted = Region::of_range(directory.grid(), range.clone());
        if directory.poisoned(&wanted) {
            return Err(Error::Poisoned);
        }
        if directory.has(Place::HOST, &wanted) {
            return Ok(());
        }
        if directory.in_flight {
            return self.fetch(&mut directory, &wanted);
        }
        let granule = u64::from(self.granule.load(Ordering::Relaxed));
        let step = (granule / self.element_size().max(1)).max(1);
        let around = range.start / step * step..range.end.next_multiple_of(step).min(self.len() as u64);
        if around == range {
            return self.fetch(&mut directory, &wanted);
        }
        let around = Region::of_range(directory.grid(), around);
        match self.fetch(&mut directory, &around) {
            // The elements around the range may be where nothing can be fetched from.
            Err(_) if !directory.poisoned(&wanted) => self.fetch(&mut directory, &wanted),
            outcome => outcome,
        }
    }

    /// Prepares the host's reading and writing of everything: fetches all, heals, and makes the host the only
    /// place. For the exclusive holder.
    ///
    /// # Errors
    /// Those of copies, [`Error::OutOfMemory`]; nothing is lost.
    #[cold]
    pub fn host_writes(&self) -> Result<(), Error> {
        self.take_over(|directory, all| self.fetch(directory, all))
    }

    /// The same, where the host is about to write every element: fetches nothing.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; nothing is lost.
    #[cold]
    pub fn host_overwrites(&self) -> Result<(), Error> {
        self.take_over(|directory, all| {
            directory.written(Place::HOST, all);
            Ok(())
        })
    }

    /// Makes the host the only place, after `fetch`.
    fn take_over(
        &self,
        fetch: impl FnOnce(&mut Directory, &Region) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut directory = self.directory();
        self.commit(0..self.len() as u64)?;
        // A child of `fork` has no agents, and launches on what is not tracked alone.
        if directory.stays_as_host_writes() && !fork::is_child() {
            return Ok(());
        }
        let all = Region::all(directory.grid());
        fetch(&mut directory, &all)?;
        only_at_host(&mut directory, &all);
        directory.heal(&all);
        Ok(())
    }

    /// Fetches everything to the host, and makes it the only place. For the exclusive holder.
    ///
    /// # Errors
    /// Those of copies, [`Error::OutOfMemory`]; nothing is lost.
    #[cold]
    fn fetch_all(&self) -> Result<(), Error> {
        let mut directory = self.directory();
        let all = Region::all(directory.grid());
        self.fetch(&mut directory, &all)?;
        only_at_host(&mut directory, &all);
        Ok(())
    }

    /// Copies to the host what is not current there.
    fn fetch(&self, directory: &mut Directory, region: &Region) -> Result<(), Error> {
        let lacking = directory.lacks(Place::HOST, region);
        if !lacking.is_empty() {
            // A device is needed, and perhaps the lock of its routes.
            fork::check()?;
        }
        for (from, part) in
            directory.sources(Place::HOST, &lacking, |from| routes::route(from, Place::HOST).cost)
        {
            self.commit(part.hull(directory.grid()))?;
            let transfer = Transfer::new(self, directory, [from, Place::HOST], &part)?;
            // SAFETY: the caller holds the memory, so nothing writes it; what is not current on the host is
            // not read there, and the lock keeps others from fetching it.
            if let Err(error) = unsafe { transfer.run(&part) } {
                if matches!(error, Error::Backend { code: Code::DeviceLost, .. }) {
                    directory.lost(from);
                    // Its other arrays: when no directory is locked any more.
                    memory_of(from).into_iter().for_each(DeviceMemory::note_loss);
                }
                return Err(error);
            }
            directory.copied(Place::HOST, &part);
        }
        Ok(())
    }

    /// Makes a region current on a device: a buffer with room for it, and copies of what it lacks. The caller
    /// holds the memory.
    ///
    /// # Errors
    /// Those of allocation and of copies; nothing is lost.
    #[cfg(test)]
    pub fn make_current(&self, device: &'static DeviceMemory, region: &Region) -> Result<(), Error> {
        let mut directory = self.directory();
        let hull = region.hull(directory.grid());
        if let Some(grown) = device.reserve(self, &mut directory, hull)? {
            // SAFETY: both buffers live, and what is current in the old one has room in the new one.
            let moved = unsafe { grown.transfer.run(&directory.current(device.place())) };
            if let Err(error) = moved {
                // The old buffer is as it was, and takes its place again.
                directory.set_copy(device.place(), Some(grown.old));
                return Err(error);
            }
        }
        let lacking = directory.lacks(device.place(), region);
        let cost = |from| routes::route(from, device.place()).cost;
        for (from, part) in directory.sources(device.place(), &lacking, cost) {
            let transfer = Transfer::new(self, &directory, [from, device.place()], &part)?;
            // SAFETY: the memory is held, so nothing writes it; what is lacking here is not read here, and
            // the lock keeps others from copying it.
            unsafe { transfer.run(&part)? };
            directory.copied(device.place(), &part);
        }
        Ok(())
    }

    /// Gives back the host's memory of what is current elsewhere, too, if nothing uses the array just now.
    /// Returns how many bytes that are. Never waits.
    pub(super) fn give_back(&self) -> u64 {
        if self.committed() == 0 { 0 } else { self.give_back_now() }
    }

    pub(super) fn give_back_now(&self) -> u64 {
        if !self.state.try_idle() {
            return 0;
        }
        // Whoever lends it does so before it gives back its hold, which this thread has seen.
        let bytes = if self.is_lent() { 0 } else { self.drop_host() };
        self.end_evict();
        bytes
    }

    /// Called before the host reads some of it, and without a hold: if the host has more than its budget by
    /// now, this array's host memory is given back first.
    pub(super) fn relieve(&self) {
        if self.state.is_tracked() && host_budget::excess(0) > 0 {
            let _taker = Taker::new();
            self.give_back();
        }
    }

    /// The same for the exclusive holder.
    fn drop_host(&self) -> u64 {
        let mut directory = self.directory();
        let all = Region::all(directory.grid());
        let only = directory.only_at(Place::HOST);
        if only.elements() == all.elements() || directory.in_flight {
            return 0;
        }
        directory.forget(Place::HOST, &all);
        self.pinned.forget();
        // What only the host has stays, and so does what lies between.
        let (kept, len) = (only.hull(directory.grid()), self.len() as u64);
        let kept = if kept.is_empty() { len..len } else { kept };
        // SAFETY: the caller holds the memory alone; before and behind `kept`, all is current elsewhere, and
        // the directory does not say any more that the host has it.
        unsafe { self.uncommit(0..kept.start) + self.uncommit(kept.end..len) }
    }

    /// Drops a place's copy, after copying to the host what is current only there. Returns how many bytes
    /// went to the cache. For the exclusive holder, or a thread that
    /// [evicts](super::state::State::try_evict).
    ///
    /// # Errors
    /// Those of copies; then the copy stays.
    pub fn evict(&self, place: Place) -> Result<u64, Error> {
        let mut directory = self.directory();
        if self.kept_at(place) == Place::HOST {
            directory.set_copy(place, None);
            return Ok(0);
        }
        let only = directory.only_at(place);
        self.fetch(&mut directory, &only)?;
        let all = Region::all(directory.grid());
        let left = directory.forget(place, &all);
        debug_assert!(left.is_empty());
        Ok(directory.set_copy(place, None).map_or(0, |copy| copy.bytes()))
    }

    /// A place is lost, for a holder: what was current only there is poisoned.
    pub fn lost(&self, place: Place) {
        self.directory().lost(place);
    }

    /// A place is lost, with its copy. The caller has taken the memory as for [`evict`](Self::evict).
    pub fn lose(&self, place: Place) {
        let mut directory = self.directory();
        directory.lost(place);
        directory.set_copy(place, None);
    }
}

impl ArrayInner {
    /// Ends what devices have of it, unless other handles are in use. Fails where there is poison: healing is
    /// not done here.
    pub(super) fn come_home(&self) -> Result<(), Error> {
        match self.state.launch_write() {
            Err(_) => return Ok(()),
            Ok(false) => {
                self.state.release_write(false);
                return Ok(());
            }
            Ok(true) => {}
        }
        let outcome = match self.poisoned(0..self.len() as u64) {
            true => Err(Error::Poisoned),
            false => self.fetch_all(),
        };
        self.release_written();
        outcome
    }
}

/// The host has everything, and no other place has anything.
fn only_at_host(directory: &mut Directory, all: &Region) {
    let devices: Vec<Place> = directory.places().filter(|p| *p != Place::HOST).collect();
    for place in devices {
        directory.forget(place, all);
        directory.set_copy(place, None);
    }
    directory.drop_twin_copy();
}
