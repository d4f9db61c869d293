//! The directory of an array: where its elements are current, and which of them are poisoned.
//!
//! It is pure bookkeeping: it moves nothing and knows no device. Invariants:
//!
//! - every element is current in at least one place;
//! - a write of a region at a place makes it current there and nowhere else, and heals it;
//! - a copy makes a region current in one more place;
//! - a place forgets elements that are current elsewhere, too, and no others.
//!
//! A place may be the host's *twin*: a memory of devices that is the pages of the host's block. What is said
//! of the twin is said of the host, and it has a buffer of its own, by which devices know the pages.
//!
//! All regions are in the directory's own grid, see [`Region::of_block`] for boxes of another.

#[cfg(test)]
mod tests;

use super::device::DeviceCopy;
use super::incoming::{IncomingCopies, Reader, Ticket};
use super::region::{Grid, Region};
use super::residence::Residence;
use flash_types::abi::Buffer;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A place of elements: the host's memory, or that of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u32);

impl Place {
    /// The host, and all devices that use its memory in place.
    pub const HOST: Place = Place(0);

    /// The memory of a device, by a number that is unique in this process.
    pub const fn device(number: u32) -> Place {
        Place(number + 1)
    }

    /// The number of the device; `None` for the host.
    pub fn number(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// The state of one place.
#[derive(Debug)]
struct Site {
    place: Place,
    current: Region,
    /// Its buffer; none at the host, which has the array itself.
    copy: Option<DeviceCopy>,
}

/// What a [`Directory`] said at one time, of an array of which nothing was poisoned.
pub(crate) struct DirectoryState {
    grid: Grid,
    sites: Box<[(Place, Region, Option<BufferState>)]>,
    twin: Option<BufferState>,
}

/// A buffer, and the elements that it has room for.
type BufferState = (Buffer, Range<u64>);

fn buffer_state(copy: &DeviceCopy) -> BufferState {
    (copy.raw(), copy.range().clone())
}

/// The number of the place that the next one copies from, where so many have the elements: copies to many
/// places in their order are a binomial tree, whose depth is the logarithm of their number.
fn parent(places: usize) -> usize {
    places - (1 << places.ilog2())
}

/// The directory of one array.
#[derive(Debug)]
pub(crate) struct Directory {
    grid: Grid,
    /// In the order of places, the host first.
    sites: SmallVec<[Site; 2]>,
    /// Of each site the elements from the first to the last that is current there. They lie together: an
    /// array over many devices has many, few of which have some of a region.
    hulls: SmallVec<[Range<u64>; 2]>,
    /// The host's twin, and its buffer.
    twin: Option<Place>,
    twin_copy: Option<DeviceCopy>,
    /// When the twin's devices had last used it as the host last wrote.
    twin_used: u64,
    poison: Region,
    /// Copies in flight of concurrent readers.
    pub arrivals: IncomingCopies<Place, Region>,
    /// Number of threads that wait for an arrival, or for a copy to be given up.
    pub(super) waiting: u32,
    /// A run that moves the array is in flight: its writes are entered as if they were done. Others use only
    /// elements that it leaves alone.
    pub in_flight: bool,
}

impl Directory {
    /// Everything is current on the host and nowhere else, and nothing is poisoned.
    pub fn new(grid: Grid, twin: Option<Place>) -> Directory {
        let host = Site { place: Place::HOST, current: Region::all(&grid), copy: None };
        Directory {
            grid,
            hulls: smallvec![host.current.hull(&grid)],
            sites: smallvec![host],
            twin,
            twin_copy: None,
            twin_used: 0,
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

    /// Changes the grid to another shape with as many elements. False: some region would be many boxes, and
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
            // The bookings use the current grid.
            return false;
        }
        for coming in self.arrivals.elements_mut() {
            *coming = coming.regrid(&self.grid, &grid).unwrap_or_else(|| Region::all(&grid));
        }
        self.sites.iter_mut().zip(current).for_each(|(site, current)| site.current = current);
        self.poison = poison;
        self.grid = grid;
        (0..self.sites.len()).for_each(|at| self.has_changed(at));
        true
    }

    /// What is current at a site has changed.
    fn has_changed(&mut self, at: usize) {
        self.hulls[at] = self.sites[at].current.hull(&self.grid);
    }

    /// The sites that may have some of a region.
    fn sites_near(&self, region: &Region) -> impl Iterator<Item = usize> + '_ {
        let Range { start, end } = region.hull(&self.grid);
        let is_near = move |hull: &Range<u64>| hull.start < end && start < hull.end;
        self.hulls.iter().enumerate().filter(move |(_, hull)| is_near(hull)).map(|(at, _)| at)
    }

    /// Where what a place has is kept.
    fn kept_at(&self, place: Place) -> Place {
        if self.twin == Some(place) { Place::HOST } else { place }
    }

    fn site(&self, place: Place) -> Option<&Site> {
        let place = self.kept_at(place);
        Some(&self.sites[self.sites.binary_search_by_key(&place, |site| site.place).ok()?])
    }

    /// The site of a place, which is made if there is none.
    fn site_at(&mut self, place: Place) -> usize {
        let place = self.kept_at(place);
        self.sites.binary_search_by_key(&place, |site| site.place).unwrap_or_else(|at| {
            self.sites.insert(at, Site { place, current: Region::empty(), copy: None });
            self.hulls.insert(at, 0..0);
            at
        })
    }

    /// Places that have a buffer or something that is current, the host first.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.sites.iter().map(|s| s.place)
    }

    /// The part of a region that is not current at a place: it must be copied before it is read there.
    pub fn lacks(&self, place: Place, region: &Region) -> Region {
        match self.site(place) {
            // The usual case: nothing is missing.
            Some(site) if site.current.contains(region) => Region::empty(),
            Some(site) => region.without(&site.current),
            None => region.clone(),
        }
    }

    /// The part of a region that one of several holders has to copy to a place, and whether others copy some
    /// of it. Its own bookings count as present.
    pub fn lacks_for(&self, reader: Reader, place: Place, region: &Region) -> (Region, bool) {
        let mut lacking = self.lacks(place, region);
        if lacking.is_empty() {
            return (lacking, false);
        }
        let place = self.kept_at(place);
        self.arrivals.own(reader, place).for_each(|own| lacking.subtract(own));
        let mut awaited = false;
        for coming in self.arrivals.of_others(reader, place) {
            awaited |= coming.overlaps(&lacking);
            lacking.subtract(coming);
        }
        (lacking, awaited)
    }

    /// True if a copy to a place is in flight: its buffer must stay.
    pub fn is_expecting(&self, place: Place) -> bool {
        self.arrivals.any(self.kept_at(place))
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

    /// The sources for elements that a place lacks: the places with the lowest `cost`, of equal ones the
    /// host. Where several with the lowest have all of them, it is [one of these](parent). The returned
    /// regions are disjoint and together are `lacking`.
    pub fn sources(
        &self,
        place: Place,
        lacking: &Region,
        cost: impl Fn(Place) -> u64,
    ) -> SmallVec<[(Place, Region); 2]> {
        self.sources_for(None, place, lacking, cost)
    }

    /// The same for a reader, which can copy from a place to which a copy of its own is in flight: it waits
    /// for that.
    pub fn sources_for(
        &self,
        reader: Option<Reader>,
        place: Place,
        lacking: &Region,
        cost: impl Fn(Place) -> u64,
    ) -> SmallVec<[(Place, Region); 2]> {
        if lacking.is_empty() {
            return SmallVec::new();
        }
        let place = self.kept_at(place);
        let has_some = |site: &&Site| site.place != place && site.current.overlaps(lacking);
        let near = self.sites_near(lacking).map(|at| &self.sites[at]);
        let current = near.filter(has_some).map(|site| (0, site.place, &site.current));
        let mut order: SmallVec<[(u64, Place, &Region); 4]> = current.collect();
        let there = order.len();
        for (to, brings) in reader.into_iter().flat_map(|reader| self.arrivals.underway(reader)) {
            if self.kept_at(to) != place && brings.contains(lacking) {
                order.push((0, to, brings));
            }
        }
        // Costs are looked up where there is a choice.
        if order.len() > 1 {
            order.iter_mut().for_each(|(each, from, _)| *each = cost(*from));
            let least = order.iter().map(|(cost, ..)| *cost).min().unwrap_or(0);
            let cheapest = || order.iter().filter(|(cost, ..)| *cost == least);
            if cheapest().all(|(.., has)| has.contains(lacking)) {
                let from = cheapest().nth(parent(cheapest().count()));
                return from.map(|(_, from, _)| (*from, lacking.clone())).into_iter().collect();
            }
            // Elements that are there are not waited for.
            order.truncate(there);
            // The order of equal ones stays.
            order.sort_by_key(|(cost, ..)| *cost);
        }
        let (mut left, mut sources) = (lacking.clone(), SmallVec::new());
        for (_, place, current) in order {
            if left.is_empty() {
                break;
            }
            let from = left.intersection(current);
            if !from.is_empty() {
                left.subtract(&from);
                sources.push((place, from));
            }
        }
        debug_assert!(left.is_empty(), "every element is current somewhere");
        sources
    }

    /// True if the contents of a place's buffer were lost, and nothing was copied there since: another is to
    /// take its place.
    pub fn has_lost_buffer(&self, place: Place) -> bool {
        self.copy(place).is_some_and(DeviceCopy::is_lost) && self.current(place).is_empty()
    }

    /// If a place has no buffer of its own, and another has all of a region that lies in one piece: that
    /// other place.
    pub fn whole_source(
        &self,
        reader: Option<Reader>,
        place: Place,
        region: &Region,
        cost: impl Fn(Place) -> u64,
    ) -> Option<Place> {
        if self.copy(place).is_some() || self.kept_at(place) != place {
            return None;
        }
        let hull = region.hull(&self.grid);
        if hull.end - hull.start != region.elements() {
            return None;
        }
        match self.sources_for(reader, place, region, cost)[..] {
            [(from, _)] => Some(from),
            _ => None,
        }
    }

    /// A region was copied to a place.
    pub fn copied(&mut self, place: Place, region: &Region) {
        let at = self.site_at(place);
        self.sites[at].current.add(region);
        self.has_changed(at);
    }

    /// A booked copy has arrived.
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
        let own = self.site_at(place);
        let near: SmallVec<[usize; 8]> = self.sites_near(region).filter(|at| *at != own).collect();
        for at in near {
            self.sites[at].current.subtract(region);
            self.has_changed(at);
        }
        self.sites[own].current.add(region);
        self.has_changed(own);
        self.poison.subtract(region);
    }

    /// Drops the elements of a region that are current elsewhere, too. The rest is current at the place only.
    /// Returns it.
    pub fn forget(&mut self, place: Place, region: &Region) -> Region {
        let place = self.kept_at(place);
        let mut dropped = Region::empty();
        for site in self.sites.iter().filter(|s| s.place != place) {
            dropped.add(&site.current.intersection(region));
        }
        let at = self.site_at(place);
        self.sites[at].current.subtract(&dropped);
        self.has_changed(at);
        self.sites[at].current.intersection(region)
    }

    /// A place is lost: neither the host nor its twin. Elements that were current only there are poisoned,
    /// and count as current on the host.
    pub fn lost(&mut self, place: Place) {
        debug_assert!(self.kept_at(place) != Place::HOST, "the host's pages are the process's own");
        let only = self.only_at(place);
        self.poison.add(&only);
        let at = self.site_at(place);
        self.sites[0].current.add(&only);
        self.sites[at].current = Region::empty();
        [0, at].into_iter().for_each(|at| self.has_changed(at));
    }

    /// The elements that are current at this place and nowhere else.
    pub fn only_at(&self, place: Place) -> Region {
        let place = self.kept_at(place);
        let mut only = self.current(place);
        for site in self.sites.iter().filter(|s| s.place != place) {
            only.subtract(&site.current);
        }
        only
    }

    /// Poisons a region that should have been written. Where it is current does not change.
    pub fn poison(&mut self, region: &Region) {
        self.poison.add(region);
    }

    /// Removes the poison from a region.
    pub fn heal(&mut self, region: &Region) {
        self.poison.subtract(region);
    }

    /// The poisoned part of a region.
    pub fn poison_in(&self, region: &Region) -> Region {
        self.poison.intersection(region)
    }

    /// True if some of a region is poisoned.
    pub fn poisoned(&self, region: &Region) -> bool {
        self.poison.overlaps(region)
    }

    /// The buffer of a place.
    pub fn copy(&self, place: Place) -> Option<&DeviceCopy> {
        if self.twin == Some(place) {
            return self.twin_copy.as_ref();
        }
        self.site(place)?.copy.as_ref()
    }

    /// Sets, replaces or removes the buffer of a place; returns the old one. Before a removal the place has
    /// [forgotten](Self::forget) everything, but for the twin.
    pub fn set_copy(&mut self, place: Place, copy: Option<DeviceCopy>) -> Option<DeviceCopy> {
        if self.twin == Some(place) {
            return std::mem::replace(&mut self.twin_copy, copy);
        }
        let at = self.site_at(place);
        let site = &mut self.sites[at];
        debug_assert!(copy.is_some() || site.current.is_empty(), "something was current in the buffer");
        let old = std::mem::replace(&mut site.copy, copy);
        let is_kept = |s: &Site| s.place == Place::HOST || s.copy.is_some() || !s.current.is_empty();
        let mut kept = self.sites.iter().map(is_kept);
        self.hulls.retain(|_| kept.next().unwrap_or(true));
        self.sites.retain(|site| is_kept(site));
        old
    }

    /// Devices of the host's twin do not know its pages any more.
    pub fn drop_twin_copy(&mut self) {
        self.twin_copy = None;
    }

    /// What it says now. `None`: something is poisoned, or about to change.
    pub fn state(&self) -> Option<DirectoryState> {
        let site = |site: &Site| (site.place, site.current.clone(), site.copy.as_ref().map(buffer_state));
        (self.poison.is_empty() && !self.in_flight).then(|| DirectoryState {
            grid: self.grid,
            sites: self.sites.iter().map(site).collect(),
            twin: self.twin_copy.as_ref().map(buffer_state),
        })
    }

    /// True if it says what it said then, and all contents of its buffers are there.
    pub fn is_as(&self, state: &DirectoryState) -> bool {
        let is_same = |copy: &Option<DeviceCopy>, then: &Option<BufferState>| match (copy, then) {
            (Some(copy), Some((raw, range))) => {
                copy.raw() == *raw && copy.range() == range && !copy.is_lost()
            }
            (None, None) => true,
            _ => false,
        };
        let mut sites = self.sites.iter().zip(&state.sites);
        self.poison.is_empty()
            && !self.in_flight
            && self.grid == state.grid
            && self.sites.len() == state.sites.len()
            && is_same(&self.twin_copy, &state.twin)
            && sites.all(|(site, (place, current, copy))| {
                site.place == *place && site.current.blocks() == current.blocks() && is_same(&site.copy, copy)
            })
    }

    /// The buffers of all places.
    pub fn copies(&self) -> impl Iterator<Item = &DeviceCopy> {
        self.sites.iter().filter_map(|site| site.copy.as_ref()).chain(&self.twin_copy)
    }

    /// The device that used it last, if one box of the array is current there and nothing is poisoned.
    pub fn home(&self) -> Option<Residence> {
        if !self.poison.is_empty() {
            return None;
        }
        let homes = self.sites.iter().filter_map(|site| {
            let copy = if site.place == Place::HOST { &self.twin_copy } else { &site.copy };
            match (site.current.blocks(), copy) {
                ([block], Some(copy)) => Some((site, *block, copy)),
                _ => None,
            }
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

    /// True if everything is current on the host, and nothing is poisoned.
    pub fn is_all_at_host(&self) -> bool {
        self.poison.is_empty() && self.sites[0].current.elements() == self.grid.elements()
    }

    /// True if the directory is not needed: everything is current on the host, nothing is poisoned, and no
    /// device has a copy. Then the memory need not be tracked.
    pub fn is_plain(&self) -> bool {
        self.is_all_at_host() && self.twin_copy.is_none() && self.sites.len() == 1
    }

    /// Called when the host is about to write. True if it changes nothing: the host and its twin have
    /// everything alone, and the twin's devices have used it since the host last wrote. They know its pages
    /// on then; others would make the memory tracked for nothing.
    pub fn stays_as_host_writes(&mut self) -> bool {
        let used = self.twin_copy.as_ref().map_or(0, |copy| copy.last_use().get());
        let stays = used != std::mem::replace(&mut self.twin_used, used);
        stays && !self.in_flight && self.sites.len() == 1 && self.is_all_at_host()
    }
}
