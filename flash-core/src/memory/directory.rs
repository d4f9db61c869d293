//! Where the elements of an array are current, and which of them are poisoned: the directory.
//!
//! Pure bookkeeping: it moves nothing and knows no device. Invariants:
//!
//! - every element is current in at least one place;
//! - whoever writes a region at a place makes it current there and nowhere else, and heals it;
//! - a copy makes a region current in one place more;
//! - a place forgets what is current elsewhere, too, and nothing else.
//!
//! All regions are in the directory's own grid, see [`Region::of_block`] for boxes of another.

#[cfg(test)]
mod tests;

use super::device::DeviceCopy;
use super::incoming::{IncomingCopies, Reader, Ticket};
use super::region::{Grid, Region};
use super::residence::Residence;
use smallvec::{SmallVec, smallvec};

/// Where elements can be: in the host's memory, or in that of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u32);

impl Place {
    /// The host, and all devices that use its memory in place.
    pub const HOST: Place = Place(0);

    /// The memory of a device, by a number that no other in this process has.
    pub const fn device(number: u32) -> Place {
        Place(number + 1)
    }

    /// The number of the device; `None` for the host.
    pub fn number(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// What a place has of an array.
#[derive(Debug)]
struct Site {
    place: Place,
    current: Region,
    /// Its buffer; none at the host, which has the array itself.
    copy: Option<DeviceCopy>,
}

/// Who has what of one array.
#[derive(Debug)]
pub(crate) struct Directory {
    grid: Grid,
    /// The host first, then devices in the order in which they came.
    sites: SmallVec<[Site; 2]>,
    poison: Region,
    /// What those that only read have on its way.
    pub arrivals: IncomingCopies<Place, Region>,
    /// So many wait for something to arrive, or to be given up.
    pub(super) waiting: u32,
    /// A run that moves the array is on its way: what it writes is said to be where it will be. Others look
    /// only at what it leaves alone.
    pub in_flight: bool,
}

impl Directory {
    /// Everything is current on the host and nowhere else, and nothing is poisoned.
    pub fn new(grid: Grid) -> Directory {
        let host = Site { place: Place::HOST, current: Region::all(&grid), copy: None };
        Directory {
            grid,
            sites: smallvec![host],
            poison: Region::empty(),
            arrivals: IncomingCopies::default(),
            waiting: 0,
            in_flight: false,
        }
    }

    /// The grid of all its regions.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Sees the array in another shape of as many elements. False: some region would be many boxes, and
    /// nothing has changed.
    pub fn regrid(&mut self, grid: Grid) -> bool {
        if grid == self.grid {
            return true;
        }
        let change = |region: &Region| region.regrid(&self.grid, &grid);
        let current: Option<Vec<Region>> = self.sites.iter().map(|s| change(&s.current)).collect();
        let (Some(current), Some(poison)) = (current, change(&self.poison)) else {
            return false;
        };
        if self.arrivals.is_shared() {
            // The others count in the grid that is.
            return false;
        }
        for coming in self.arrivals.elements_mut() {
            *coming = coming.regrid(&self.grid, &grid).unwrap_or_else(|| Region::all(&grid));
        }
        self.sites.iter_mut().zip(current).for_each(|(site, current)| site.current = current);
        self.poison = poison;
        self.grid = grid;
        true
    }

    fn site(&self, place: Place) -> Option<&Site> {
        self.sites.iter().find(|s| s.place == place)
    }

    fn site_mut(&mut self, place: Place) -> &mut Site {
        let at = self.sites.iter().position(|s| s.place == place).unwrap_or_else(|| {
            self.sites.push(Site { place, current: Region::empty(), copy: None });
            self.sites.len() - 1
        });
        &mut self.sites[at]
    }

    /// Places that have a buffer or something that is current, the host first.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.sites.iter().map(|s| s.place)
    }

    /// What of a region is not current at a place: what must be copied before it is read there.
    pub fn lacks(&self, place: Place, region: &Region) -> Region {
        match self.site(place) {
            // As it mostly is: nothing to make.
            Some(site) if site.current.contains(region) => Region::empty(),
            Some(site) => region.without(&site.current),
            None => region.clone(),
        }
    }

    /// What of a region one who shares the hold has to bring to a place, and whether others bring some of it. What he
    /// brings himself, he has.
    pub fn lacks_for(&self, reader: Reader, place: Place, region: &Region) -> (Region, bool) {
        let mut lacking = self.lacks(place, region);
        if lacking.is_empty() {
            return (lacking, false);
        }
        self.arrivals.own(reader, place).for_each(|own| lacking.subtract(own));
        let mut awaited = false;
        for coming in self.arrivals.of_others(reader, place) {
            awaited |= coming.overlaps(&lacking);
            lacking.subtract(coming);
        }
        (lacking, awaited)
    }

    /// True if something is on its way to a place: its buffer must stay.
    pub fn is_expecting(&self, place: Place) -> bool {
        self.arrivals.any(place)
    }

    /// True if all of a region is current at a place.
    pub fn has(&self, place: Place, region: &Region) -> bool {
        self.site(place).map_or(region.is_empty(), |site| site.current.contains(region))
    }

    /// What is current at a place.
    pub fn current(&self, place: Place) -> Region {
        self.site(place).map_or_else(Region::empty, |s| s.current.clone())
    }

    /// Number of elements of a region that are current at a place.
    pub fn elements_at(&self, place: Place, region: &Region) -> u64 {
        self.site(place).map_or(0, |s| s.current.intersection(region).elements())
    }

    /// From where to take what a place lacks: the host first, then places with a lower `rank`. The
    /// regions of the answer are disjoint and together are `lacking`.
    pub fn sources(
        &self,
        place: Place,
        lacking: &Region,
        rank: impl Fn(Place) -> u32,
    ) -> SmallVec<[(Place, Region); 2]> {
        let mut order: SmallVec<[&Site; 4]> = self.sites.iter().filter(|s| s.place != place).collect();
        order.sort_by_key(|s| (s.place != Place::HOST, rank(s.place)));
        let (mut left, mut sources) = (lacking.clone(), SmallVec::new());
        for site in order {
            if left.is_empty() {
                break;
            }
            let from = left.intersection(&site.current);
            if !from.is_empty() {
                left.subtract(&from);
                sources.push((site.place, from));
            }
        }
        debug_assert!(left.is_empty(), "every element is current somewhere");
        sources
    }

    /// A region was copied to a place.
    pub fn copied(&mut self, place: Place, region: &Region) {
        self.site_mut(place).current.add(region);
    }

    /// What was booked is where it was to be.
    pub fn arrived(&mut self, ticket: Ticket) {
        if let Some((place, region)) = self.arrivals.arrived(ticket) {
            self.copied(place, &region);
        }
    }

    /// A region was written at a place: it is current there only, and healed.
    pub fn written(&mut self, place: Place, region: &Region) {
        if region.is_empty() {
            return;
        }
        for site in self.sites.iter_mut().filter(|s| s.place != place) {
            site.current.subtract(region);
        }
        self.site_mut(place).current.add(region);
        self.poison.subtract(region);
    }

    /// Drops of a region what is current elsewhere, too. What remains is current at the place only.
    pub fn forget(&mut self, place: Place, region: &Region) -> Region {
        let mut dropped = Region::empty();
        for site in self.sites.iter().filter(|s| s.place != place) {
            dropped.add(&site.current.intersection(region));
        }
        let site = self.site_mut(place);
        site.current.subtract(&dropped);
        site.current.intersection(region)
    }

    /// A place is lost. What was current only there is gone: poisoned, and the host has to do for it.
    pub fn lost(&mut self, place: Place) {
        let only = self.only_at(place);
        self.poison.add(&only);
        self.sites[0].current.add(&only);
        self.site_mut(place).current = Region::empty();
    }

    /// What is current at this place and nowhere else.
    pub fn only_at(&self, place: Place) -> Region {
        let mut only = self.current(place);
        for site in self.sites.iter().filter(|s| s.place != place) {
            only.subtract(&site.current);
        }
        only
    }

    /// What should have been written there was not. Where it is current does not change.
    pub fn poison(&mut self, region: &Region) {
        self.poison.add(region);
    }

    /// Nothing of a region is poisoned any more.
    pub fn heal(&mut self, region: &Region) {
        self.poison.subtract(region);
    }

    /// What of a region is poisoned.
    pub fn poison_in(&self, region: &Region) -> Region {
        self.poison.intersection(region)
    }

    /// True if some of a region is poisoned.
    pub fn poisoned(&self, region: &Region) -> bool {
        self.poison.overlaps(region)
    }

    /// The buffer of a place.
    pub fn copy(&self, place: Place) -> Option<&DeviceCopy> {
        self.site(place)?.copy.as_ref()
    }

    /// Gives a place a buffer, or another one, or takes it away; answers with the old one. Who takes it
    /// away has let the place [`forget`](Self::forget) everything.
    pub fn set_copy(&mut self, place: Place, copy: Option<DeviceCopy>) -> Option<DeviceCopy> {
        let site = self.site_mut(place);
        debug_assert!(copy.is_some() || site.current.is_empty(), "something was current in the buffer");
        let old = std::mem::replace(&mut site.copy, copy);
        self.sites.retain(|s| s.place == Place::HOST || s.copy.is_some() || !s.current.is_empty());
        old
    }

    /// Devices forget where the array is on the host.
    pub fn unpin(&mut self) {
        self.sites.iter_mut().filter_map(|site| site.copy.as_mut()).for_each(DeviceCopy::unpin);
    }

    /// The device that used it last, if one box of the array is current there and nothing is poisoned.
    pub fn home(&self) -> Option<Residence> {
        if !self.poison.is_empty() {
            return None;
        }
        let homes = self.sites.iter().filter_map(|site| match (site.current.blocks(), &site.copy) {
            ([block], Some(copy)) => Some((site, *block, copy)),
            _ => None,
        });
        let (home, block, copy) = homes.max_by_key(|(.., copy)| copy.last_use().get())?;
        let others = self.sites.iter().filter(|site| site.place != home.place);
        let only = !others.flat_map(|site| site.current.blocks()).any(|other| other.overlaps(&block));
        Some(Residence {
            memory: copy.memory(),
            buffer: copy.raw(),
            first: copy.range().start,
            last_use: copy.last_use().clone(),
            grid: self.grid,
            block,
            all: block == self.grid.block(),
            only,
        })
    }

    /// True if there is nothing to look up: all is current on the host, nothing is poisoned, and no
    /// device has a copy. Then the memory need not be noted.
    pub fn is_plain(&self) -> bool {
        self.poison.is_empty()
            && matches!(&self.sites[..], [host] if host.current.elements() == self.grid.elements())
    }
}
