//! Data objects: large data that one instance publishes and others get, whole or in parts, when they want to.
//!
//! Each instance has a table, which it made global once. An entry says where an object is and its generation,
//! a number that is never used again. What gets an object reads its entry before and after the copy: one that
//! was destroyed meanwhile is an error, and not other data.

use crate::Error;
use crate::managers::{CommunicationManager, Exchange, Managers, copy};
use crate::slot::{LocalAt, LocalSlot, Place, Tag};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of an entry: generation, start, bytes.
const ENTRY: u64 = 24;

/// What names an object. Stateless: it can be sent, and is not trusted where it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// The instance that published it.
    pub owner: u32,
    /// Its place in that one's table.
    pub entry: u32,
    /// Tells it from others at that place.
    pub generation: u64,
}

impl ObjectId {
    /// Bytes of an id.
    pub const BYTES: usize = 16;

    /// As bytes, for a message.
    pub fn to_bytes(self) -> [u8; ObjectId::BYTES] {
        let mut bytes = [0; ObjectId::BYTES];
        bytes[..4].copy_from_slice(&self.owner.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.entry.to_le_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// The id of [`to_bytes`](Self::to_bytes); `None` of another number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<ObjectId> {
        let bytes: &[u8; ObjectId::BYTES] = bytes.try_into().ok()?;
        let ([owner, entry], [generation]) = (bytes[..8].as_chunks().0, bytes[8..].as_chunks().0) else {
            return None;
        };
        let (owner, entry) = (u32::from_le_bytes(*owner), u32::from_le_bytes(*entry));
        Some(ObjectId { owner, entry, generation: u64::from_le_bytes(*generation) })
    }
}

/// The objects of a group.
pub struct Objects {
    communication: Arc<dyn CommunicationManager>,
    me: u32,
    table: LocalSlot,
    tables: Exchange,
    /// An entry on its way: of one call at a time, which is why they take `&mut`.
    scratch: LocalSlot,
    /// Those of this instance, by entry.
    published: HashMap<u32, LocalSlot>,
    generations: u64,
}

/// An object that can be got.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    id: ObjectId,
    place: Place,
}

impl Handle {
    /// Bytes of the object.
    pub fn bytes(&self) -> u64 {
        self.place.bytes
    }
}

impl Objects {
    /// The objects of this group, at most `most` at a time of each instance. Collective.
    ///
    /// # Errors
    /// Those of `alloc` and `exchange`.
    pub fn new(hicr: &Managers, tag: Tag, most: u32) -> Result<Objects, Error> {
        let spaces = hicr.memory.spaces()?;
        let space = spaces.first().ok_or_else(|| Error::refused("objects", "expected a memory space"))?;
        let me = hicr.instances.current().number;
        let table = hicr.memory.alloc(space, u64::from(most) * ENTRY)?;
        let scratch = hicr.memory.alloc(space, ENTRY)?;
        let tables = hicr.communication.exchange(tag, &[(me.into(), &table)])?;
        let communication = hicr.communication.clone();
        Ok(Objects { communication, me, table, tables, scratch, published: HashMap::new(), generations: 0 })
    }

    /// Lets others get what is in a slot, until it is destroyed or these objects are dropped.
    ///
    /// # Errors
    /// [`Error::Refused`] if the table is full, or others cannot reach the slot.
    pub fn publish(&mut self, slot: &LocalSlot) -> Result<ObjectId, Error> {
        let place = self.communication.promote(slot)?.place();
        let most = (self.table.bytes() / ENTRY) as u32;
        let Some(entry) = (0..most).find(|entry| !self.published.contains_key(entry)) else {
            let why = format!("expected at most {most} objects of an instance at a time: destroy one");
            return Err(Error::refused("publishing an object", why));
        };
        self.generations += 1;
        let id = ObjectId { owner: self.me, entry, generation: self.generations };
        let at = u64::from(entry) * ENTRY;
        self.table.write(at + 8, bytemuck::cast_slice(&[place.start, place.bytes]))?;
        self.table.write(at, &id.generation.to_ne_bytes())?;
        self.published.insert(entry, slot.clone());
        Ok(id)
    }

    /// Ends an object of this instance. Its memory is the program's again.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is no object of this instance, or was destroyed.
    pub fn destroy(&mut self, id: ObjectId) -> Result<(), Error> {
        let at = u64::from(id.entry) * ENTRY;
        let is_known = id.owner == self.me
            && self.published.contains_key(&id.entry)
            && self.table.number(at)? == id.generation;
        if !is_known {
            return Err(gone(id));
        }
        self.table.write(at, &[0; 8])?;
        self.published.remove(&id.entry);
        Ok(())
    }

    /// A handle of an object of any instance.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such object (any more); [`Error::Lost`] if its instance is gone.
    pub fn handle(&mut self, id: ObjectId) -> Result<Handle, Error> {
        let [generation, start, bytes] = self.entry(id)?;
        if generation != id.generation || generation == 0 {
            return Err(self.communication.lost(id.owner).unwrap_or_else(|| gone(id)));
        }
        Ok(Handle { id, place: Place { owner: id.owner, tag: 0, key: 0, start, bytes } })
    }

    /// Copies bytes of an object to a local slot, and waits for them.
    ///
    /// # Errors
    /// [`Error::Bounds`]; [`Error::Refused`] if it was destroyed: what was copied is of no use then.
    pub fn get(&mut self, handle: &Handle, offset: u64, to: LocalAt<'_>, bytes: u64) -> Result<(), Error> {
        // A handle may be older than the object that is there now.
        self.handle(handle.id)?;
        let object = self.communication.attach(handle.place)?;
        copy(&*self.communication, to, object.at(offset), bytes)?;
        self.handle(handle.id).map(drop)
    }

    fn entry(&self, id: ObjectId) -> Result<[u64; 3], Error> {
        let table = self.tables.get(id.owner.into())?;
        if u64::from(id.entry) >= table.bytes() / ENTRY {
            return Err(gone(id));
        }
        // The generation first: what it says of is there, or something newer, which `get` notices.
        let (at, communication) = (u64::from(id.entry) * ENTRY, &*self.communication);
        copy(communication, self.scratch.at(0), table.at(at), 8)?;
        copy(communication, self.scratch.at(8), table.at(at + 8), ENTRY - 8)?;
        let entry: Vec<u64> = self.scratch.values(0, 3)?;
        Ok([entry[0], entry[1], entry[2]])
    }
}

fn gone(id: ObjectId) -> Error {
    let what = format!("object {} at entry {} of instance {}", id.generation, id.entry, id.owner);
    Error::refused(what, "expected one that is published, found none: it was destroyed, or never was")
}
