//! Memory slots: local ones, which this instance has, and global ones, which others reach.

use crate::{Error, Space};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;

/// The name of an exchange.
pub type Tag = u64;
/// The name of a slot in an exchange.
pub type Key = u64;

/// What a memory manager has behind a slot. Accesses are copies: nothing refers to memory that others may
/// write.
pub trait SlotMemory: Any + Send + Sync {
    /// The space.
    fn space(&self) -> &Space;
    /// Bytes.
    fn bytes(&self) -> u64;
    /// Copies bytes out. The range is in the slot.
    ///
    /// # Errors
    /// The device's.
    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error>;
    /// Copies bytes in. The range is in the slot.
    ///
    /// # Errors
    /// The device's.
    fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error>;
}

/// A part of this instance's memory. A clone is the same slot; the memory is freed with the last.
#[derive(Clone)]
pub struct LocalSlot(pub(crate) Arc<dyn SlotMemory>);

impl LocalSlot {
    /// The slot of a memory manager's memory.
    pub fn new(memory: impl SlotMemory) -> LocalSlot {
        LocalSlot(Arc::new(memory))
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Where it is.
    pub fn space(&self) -> &Space {
        self.0.space()
    }

    /// A place in it, for [`copy`](crate::copy).
    pub fn at(&self, offset: u64) -> LocalAt<'_> {
        LocalAt { slot: self, offset }
    }

    /// Copies bytes out of it.
    ///
    /// # Errors
    /// [`Error::Bounds`], or the device's.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.check("a read of", offset, to.len() as u64)?;
        self.0.read(offset, to)
    }

    /// Copies bytes into it.
    ///
    /// # Errors
    /// [`Error::Bounds`], or the device's.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.check("a write to", offset, from.len() as u64)?;
        self.0.write(offset, from)
    }

    /// Copies values of plain data out of it: `count` of them, from a byte on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn values<T: bytemuck::Pod>(&self, offset: u64, count: usize) -> Result<Vec<T>, Error> {
        self.check("a read of", offset, (count as u64).saturating_mul(size_of::<T>() as u64))?;
        let mut values = vec![T::zeroed(); count];
        self.0.read(offset, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// The 8 bytes from `offset` on as a number.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn number(&self, offset: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    pub(crate) fn memory<M: SlotMemory>(&self) -> Option<&M> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    pub(crate) fn check(&self, side: &'static str, offset: u64, bytes: u64) -> Result<(), Error> {
        let name = || format!("a local slot in {}", self.space());
        in_bounds(side, name, offset, bytes, self.bytes())
    }
}

impl std::fmt::Debug for LocalSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalSlot({} bytes in {})", self.bytes(), self.space())
    }
}

pub(crate) fn in_bounds(
    side: &'static str,
    slot: impl FnOnce() -> String,
    offset: u64,
    bytes: u64,
    size: u64,
) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::Bounds { side, slot: slot(), offset, bytes, size }),
    }
}

/// Where a global slot is. Stateless, and untrusted when it has come from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The instance that has the memory.
    pub owner: u32,
    /// The name of its exchange.
    pub tag: Tag,
    /// Its name in that exchange.
    pub key: Key,
    /// Where it begins, as its memory manager counts.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A slot of any instance that this one can reach. Made by `exchange`, `promote` and `attach` of one
/// communication manager, and of use to that one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GlobalSlot {
    pub(crate) place: Place,
    /// The number of the manager that made it.
    pub(crate) manager: u64,
}

impl GlobalSlot {
    /// A slot that a communication manager knows. `manager` is the manager's own number.
    pub fn new(place: Place, manager: u64) -> GlobalSlot {
        GlobalSlot { place, manager }
    }

    /// Where it is: for other instances, see [`CommunicationManager::attach`].
    ///
    /// [`CommunicationManager::attach`]: crate::CommunicationManager::attach
    pub fn place(&self) -> Place {
        self.place
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.place.bytes
    }

    /// A place in it, for [`copy`](crate::copy).
    pub fn at(&self, offset: u64) -> GlobalAt<'_> {
        GlobalAt { slot: self, offset }
    }

    pub(crate) fn check(&self, side: &'static str, offset: u64, bytes: u64) -> Result<(), Error> {
        let name = || {
            let Place { owner, tag, key, .. } = self.place;
            format!("the global slot (tag {tag}, key {key}) of instance {owner}")
        };
        in_bounds(side, name, offset, bytes, self.place.bytes)
    }
}

/// A byte of a local slot.
#[derive(Clone, Copy, Debug)]
pub struct LocalAt<'a> {
    pub(crate) slot: &'a LocalSlot,
    pub(crate) offset: u64,
}

/// A byte of a global slot.
#[derive(Clone, Copy, Debug)]
pub struct GlobalAt<'a> {
    pub(crate) slot: &'a GlobalSlot,
    pub(crate) offset: u64,
}
