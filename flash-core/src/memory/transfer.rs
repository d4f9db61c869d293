//! Copies between places, and their counters.
//!
//! A [`Transfer`] is two buffers of one array and its grid. It owns neither buffer and takes no lock. Its
//! callers see to it that both buffers live until the copy is complete, and that nothing writes the
//! elements at the source or touches them at the destination. `run` returns then; `begin` may leave the
//! last copy in flight, as a [`CopyInFlight`], which waits when it is dropped. What is current where is
//! for the caller to write into the directory.
//!
//! A region is copied box by box. The table of routes says which device does it; if none can, the elements
//! go through stages on the host. Copies inside one memory, and from host to host, are not counted. The
//! counters are sums without an order: a reader may see a copy in one and not yet in another.

use super::ArrayInner;
use super::device::{CopyInFlight, DeviceMemory, staging};
use super::directory::{Directory, Place};
use super::region::{Grid, GridBox, Region, runs};
use super::routes;
use crate::devices::After;
use crate::error::Error;
use flash_backend::host_memory::copy_addresses;
use flash_types::abi::{Buffer, CopyBox, SPACE_HOST};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A buffer from or to which elements of an array are copied.
#[derive(Clone, Copy)]
pub(crate) struct End {
    /// Its owner; `None`: the host.
    pub memory: Option<&'static DeviceMemory>,
    pub buffer: Buffer,
    /// The first element of the buffer.
    pub origin: u64,
}

/// Copies of one array's elements between two buffers.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    from: End,
    to: End,
    grid: Grid,
    element_size: u64,
}

impl End {
    /// The host's own memory, or a device's copy.
    ///
    /// # Errors
    /// If the device has no copy: an internal error, reported as such.
    pub fn of(header: &ArrayInner, directory: &Directory, place: Place) -> Result<End, Error> {
        if place == Place::HOST {
            return Ok(End::host(header.data()));
        }
        directory.copy(place).map(|copy| copy.end()).ok_or_else(|| Error::Backend {
            code: flash_types::Code::Invalid,
            text: format!("expected a buffer of {place:?} for the array, found none: please report it"),
        })
    }

    /// Host memory, by the address of element 0.
    pub fn host(data: *mut u8) -> End {
        let handle = data.expose_provenance() as u64;
        End { memory: None, buffer: Buffer { space: SPACE_HOST, reserved: 0, handle }, origin: 0 }
    }
}

impl Transfer {
    /// Between the current buffers of two places, for a region.
    ///
    /// # Errors
    /// If one of them has none.
    pub fn new(
        header: &ArrayInner,
        directory: &Directory,
        [from, to]: [Place; 2],
        region: &Region,
    ) -> Result<Transfer, Error> {
        if let Some(copy) = match (from, to) {
            (Place::HOST, device) | (device, Place::HOST) => directory.copy(device),
            _ => None,
        } {
            header.note_copy(copy.memory(), region.elements() * header.element_size());
        }
        let (from, to) = (End::of(header, directory, from)?, End::of(header, directory, to)?);
        Ok(Transfer::between(header, directory.grid(), from, to))
    }

    /// Between any two buffers of an array.
    pub fn between(header: &ArrayInner, grid: &Grid, from: End, to: End) -> Transfer {
        Transfer { from, to, grid: *grid, element_size: header.element_size() }
    }

    /// Copies a region; returns when it is complete. One copy per box: directly, with the destination's
    /// device if it can, else with the source's, else through the host. A device gets the next one before the
    /// last is complete, if it can.
    ///
    /// # Safety
    /// The region lies in both buffers, which live until the return; meanwhile it is not written at the
    /// source or touched at the destination.
    pub unsafe fn run(&self, region: &Region) -> Result<(), Error> {
        // SAFETY: the caller vouches; all of it is complete when this returns.
        unsafe { self.begin(region, &[])? }.map_or(Ok(()), CopyInFlight::wait)
    }

    /// The same; returns before the last copy is complete. `None`: all are. Nothing is copied before `after`
    /// is over.
    ///
    /// # Safety
    /// As [`run`](Self::run), from `after` on until it was waited for.
    pub unsafe fn begin(&self, region: &Region, after: &[After]) -> Result<Option<CopyInFlight>, Error> {
        // Copies in flight after a failure are waited for, too: as they are dropped.
        let mut all: SmallVec<[CopyInFlight; 4]> = SmallVec::new();
        for block in region.blocks() {
            // SAFETY: the caller vouches, for all of them.
            all.extend(unsafe { self.copy(block, after)? });
        }
        let last = all.pop();
        all.into_iter().try_for_each(CopyInFlight::wait)?;
        Ok(last)
    }

    /// Begins a copy; `None`: it is complete.
    ///
    /// # Safety
    /// As [`run`](Self::run), until it was waited for.
    unsafe fn copy(&self, block: &GridBox, after: &[After]) -> Result<Option<CopyInFlight>, Error> {
        let size = self.element_size;
        let runs = runs(&block.extent(), &self.grid);
        let first = self.grid.flat(block.begin) * size;
        let stride = runs.stride.map(|s| s * size);
        let shape = CopyBox {
            extent: [runs.length * size, runs.count[0], runs.count[1]],
            source_offset: first,
            source_stride: stride,
            destination_offset: first,
            destination_stride: stride,
        };
        // SAFETY: the caller vouches for the box, which `shape` is, in bytes.
        unsafe { BoxTransfer::new([self.from, self.to], shape, size).begin(after) }
    }
}

/// A copy of a box between two buffers.
pub(crate) struct BoxTransfer {
    from: End,
    to: End,
    /// In bytes of the buffers.
    shape: CopyBox,
}

impl BoxTransfer {
    /// `shape`: in bytes, from the first elements of the two arrays on, whose elements have `size` bytes.
    pub fn new([from, to]: [End; 2], shape: CopyBox, size: u64) -> BoxTransfer {
        let source_offset = shape.source_offset.wrapping_sub(from.origin.wrapping_mul(size));
        let destination_offset = shape.destination_offset.wrapping_sub(to.origin.wrapping_mul(size));
        BoxTransfer { from, to, shape: CopyBox { source_offset, destination_offset, ..shape } }
    }

    /// Copies it; returns when it is done.
    ///
    /// # Safety
    /// The box lies in both buffers, which live until the return; nothing writes it at the source or touches
    /// it at the destination meanwhile.
    pub unsafe fn run(&self) -> Result<(), Error> {
        // SAFETY: the caller vouches; it is over when this returns.
        unsafe { self.begin(&[])? }.map_or(Ok(()), CopyInFlight::wait)
    }

    /// Begins it; `None`: it is done. With `after` it is between the host and a device.
    ///
    /// # Safety
    /// As [`run`](Self::run), from `after` on until it was waited for.
    unsafe fn begin(&self, after: &[After]) -> Result<Option<CopyInFlight>, Error> {
        let bytes = self.shape.extent.iter().product();
        if bytes == 0 {
            return Ok(None);
        }
        if let (Some(after), true) = (after.first(), self.from.memory.is_some() == self.to.memory.is_some()) {
            let text = format!(
                "expected work to wait for only in a copy between the host and a device, found {} in another: please report it",
                after.device.id()
            );
            return Err(Error::Backend { code: flash_types::Code::Invalid, text });
        }
        let (from, to, shape) = (self.from.buffer, self.to.buffer, &self.shape);
        let (a, b) = match (self.from.memory, self.to.memory) {
            (None, None) => {
                // SAFETY: the caller vouches; both are memory of the host.
                unsafe { copy_addresses(from.handle, to.handle, shape) };
                return Ok(None);
            }
            // Inside one memory: no transfer, and not counted.
            (Some(a), Some(b)) if std::ptr::eq(a, b) => {
                // SAFETY: the caller vouches.
                return unsafe { a.copy_box(from, to, shape, &[]) }.map(Some);
            }
            ends => ends,
        };
        let place = |memory: Option<&'static DeviceMemory>| memory.map_or(Place::HOST, DeviceMemory::place);
        let route = routes::route(place(a), place(b));
        // SAFETY: the caller vouches, for each.
        let copy = |by: &'static DeviceMemory| unsafe {
            match (a, b) {
                (Some(a), Some(b)) => by.copy_box_between([(a, from), (b, to)], shape),
                _ => by.copy_box(from, to, shape, after),
            }
        };
        let copy = route.by.map(copy).transpose()?;
        match (a, b) {
            (Some(a), None) => a.counters.from_device.add(bytes),
            (None, Some(b)) => b.counters.to_device.add(bytes),
            (Some(_), Some(b)) if copy.is_some() => b.counters.between.add(bytes),
            (Some(a), Some(b)) => {
                // SAFETY: the caller vouches.
                unsafe { staging::copy([a, b], from, to, shape)? };
                a.counters.from_device.add(bytes);
                b.counters.to_device.add(bytes);
            }
            (None, None) => {}
        }
        Ok(copy)
    }
}

/// Copies of one direction.
#[derive(Default)]
pub(super) struct Counter {
    copies: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn add(&self, bytes: u64) {
        self.copies.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn get(&self) -> Moved {
        Moved { copies: self.copies.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

/// The copies of one device.
#[derive(Default)]
pub(super) struct Counters {
    to_device: Counter,
    from_device: Counter,
    between: Counter,
}

impl DeviceMemory {
    /// All copies so far.
    pub fn transfers(&self) -> Transfers {
        let counters = &self.counters;
        Transfers {
            to_device: counters.to_device.get(),
            from_device: counters.from_device.get(),
            between_devices: counters.between.get(),
        }
    }
}

/// The copies in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// Number of copies, each of one box.
    pub copies: u64,
    /// Bytes of all copies.
    pub bytes: u64,
}

/// Copies to and from the memory of a device since the process began: all zeros for a device that uses the
/// host's memory. The difference of two values gives the copies between them.
///
/// # Examples
/// ```
/// use flash_core::memory::Transfers;
/// # let device_transfers = Transfers::default;
/// let before = device_transfers();
/// // ... launches ...
/// let moved = device_transfers() - before;
/// assert_eq!(moved.to_device.bytes, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Transfers {
    /// From the host's memory to the device's.
    pub to_device: Moved,
    /// From the device's memory to the host's.
    pub from_device: Moved,
    /// Directly from another device's memory to this one's. A copy through the host counts there as one
    /// from the device, and here as one to it.
    pub between_devices: Moved,
}

impl Sub for Moved {
    type Output = Moved;

    fn sub(self, before: Moved) -> Moved {
        Moved {
            copies: self.copies.saturating_sub(before.copies),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

impl Sub for Transfers {
    type Output = Transfers;

    /// The copies since `before`.
    fn sub(self, before: Transfers) -> Transfers {
        Transfers {
            to_device: self.to_device - before.to_device,
            from_device: self.from_device - before.from_device,
            between_devices: self.between_devices - before.between_devices,
        }
    }
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |m: Moved| format!("{} bytes in {} copies", m.bytes, m.copies);
        write!(
            f,
            "to the device {}, from it {}, from other devices {}",
            part(self.to_device),
            part(self.from_device),
            part(self.between_devices)
        )
    }
}
