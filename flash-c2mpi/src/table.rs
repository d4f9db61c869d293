//! Handles as numbers: a kind, a generation, and the place in a table.
//!
//! A number that was freed, or is of another kind, is found out: its place has another generation, for at
//! least as long as [`KEPT`] other numbers were freed after it. Places are never given back. A lookup takes
//! the read lock of its place and a count of the value, so that a value stays while a call uses it, whatever
//! other threads free.

use crate::error::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// What numbers stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A child rank.
    Child = 1,
    /// An internal buffer.
    Buffer = 2,
    /// A compute object.
    Object = 3,
    /// A request.
    Request = 4,
    /// Overrides.
    Info = 5,
    /// A communicator of child ranks.
    Comm = 6,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Child, Kind::Buffer, Kind::Object, Kind::Request, Kind::Info, Kind::Comm];

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Child => "child rank",
            Kind::Buffer => "buffer",
            Kind::Object => "compute object",
            Kind::Request => "request",
            Kind::Info => "info",
            Kind::Comm => "communicator of child ranks",
        }
    }

    /// The kind that a number says to be of.
    pub fn of(id: i32) -> Option<Kind> {
        let kind = (id as u32) >> KIND_AT;
        Kind::ALL.into_iter().find(|known| *known as u32 == kind)
    }

    fn code(self) -> Code {
        match self {
            Kind::Child | Kind::Buffer => Code::Rank,
            Kind::Object => Code::Object,
            Kind::Request => Code::Request,
            Kind::Info => Code::Info,
            Kind::Comm => Code::Comm,
        }
    }
}

const INDEX_BITS: u32 = 16;
const KIND_AT: u32 = 28;
const GENERATIONS: u32 = 1 << (KIND_AT - INDEX_BITS);
const CHUNK: usize = 256;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK;

/// At least this many places are free before one is taken again.
pub const KEPT: usize = 1024;

/// The values of one kind.
pub struct Table<T> {
    kind: Kind,
    chunks: [OnceLock<Box<[Place<T>]>>; CHUNKS],
    free: Mutex<Free>,
}

struct Place<T>(RwLock<Entry<T>>);

struct Entry<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Free {
    places: VecDeque<usize>,
    /// Places that were ever taken.
    used: usize,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new(kind: Kind) -> Table<T> {
        let free = Mutex::new(Free { places: VecDeque::new(), used: 0 });
        Table { kind, chunks: [const { OnceLock::new() }; CHUNKS], free }
    }

    fn place(&self, index: usize) -> Option<&Place<T>> {
        self.chunks[index / CHUNK].get().map(|chunk| &chunk[index % CHUNK])
    }

    /// A number for a value.
    ///
    /// # Errors
    /// [`Code::Memory`] if 65536 values are alive.
    pub fn insert(&self, value: Arc<T>) -> Result<i32> {
        let index = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let all = CHUNK * CHUNKS;
            if free.places.len() > KEPT || free.used == all {
                free.places.pop_front()
            } else {
                free.used += 1;
                Some(free.used - 1)
            }
        };
        let full = || {
            let name = self.kind.name();
            Error::new(Code::Memory, format!("there are {} numbers of a {name}: free some", CHUNK * CHUNKS))
        };
        let index = index.ok_or_else(full)?;
        let chunk = self.chunks[index / CHUNK].get_or_init(|| {
            (0..CHUNK).map(|_| Place(RwLock::new(Entry { generation: 0, value: None }))).collect()
        });
        let mut entry = chunk[index % CHUNK].0.write().unwrap_or_else(PoisonError::into_inner);
        entry.value = Some(value);
        Ok(((self.kind as u32) << KIND_AT | entry.generation << INDEX_BITS | index as u32) as i32)
    }

    /// The value of a number.
    ///
    /// # Errors
    /// Those of the kind: the number is none, of another kind, or freed.
    #[inline]
    pub fn get(&self, id: i32) -> Result<Arc<T>> {
        let bits = id as u32;
        if bits >> KIND_AT == self.kind as u32
            && let Some(place) = self.place((bits & ((1 << INDEX_BITS) - 1)) as usize)
        {
            let entry = place.0.read().unwrap_or_else(PoisonError::into_inner);
            if entry.generation == (bits >> INDEX_BITS) % GENERATIONS
                && let Some(value) = &entry.value
            {
                return Ok(value.clone());
            }
        }
        Err(self.refused(id))
    }

    /// Takes the value of a number, which is freed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn remove(&self, id: i32) -> Result<Arc<T>> {
        let bits = id as u32;
        let index = (bits & ((1 << INDEX_BITS) - 1)) as usize;
        if bits >> KIND_AT == self.kind as u32
            && let Some(place) = self.place(index)
        {
            let mut entry = place.0.write().unwrap_or_else(PoisonError::into_inner);
            if entry.generation == (bits >> INDEX_BITS) % GENERATIONS
                && let Some(value) = entry.value.take()
            {
                entry.generation = (entry.generation + 1) % GENERATIONS;
                drop(entry);
                self.free.lock().unwrap_or_else(PoisonError::into_inner).places.push_back(index);
                return Ok(value);
            }
        }
        Err(self.refused(id))
    }

    #[cold]
    #[inline(never)]
    fn refused(&self, id: i32) -> Error {
        let name = self.kind.name();
        let found = match Kind::of(id) {
            Some(kind) if kind == self.kind => format!("{id:#x}, which was freed"),
            Some(kind) => format!("{id:#x}, which is of a {}", kind.name()),
            None if id == 0 => "0".to_owned(),
            None => format!("{id}, which is none"),
        };
        Error::new(self.kind.code(), format!("expected the number of a {name}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positive_and_freed_ones_are_found_out() {
        static TABLE: Table<u32> = Table::new(Kind::Child);
        let first = TABLE.insert(Arc::new(7)).unwrap();
        assert!(first > 0 && Kind::of(first) == Some(Kind::Child));
        assert_eq!(*TABLE.get(first).unwrap(), 7);
        assert_eq!(*TABLE.remove(first).unwrap(), 7);
        for error in [TABLE.get(first).unwrap_err(), TABLE.remove(first).unwrap_err()] {
            assert!(error.code == Code::Rank && error.text.contains("which was freed"), "{error}");
        }
        assert!(TABLE.get(0).unwrap_err().text.ends_with("found 0"));
        assert!(TABLE.get(5).unwrap_err().text.contains("5, which is none"));
        let buffer = 2 << KIND_AT;
        assert!(TABLE.get(buffer).unwrap_err().text.contains("which is of a buffer"));
        assert!(TABLE.get(-1).is_err());
    }

    #[test]
    fn places_are_used_again_when_many_are_free() {
        static TABLE: Table<usize> = Table::new(Kind::Object);
        let first = TABLE.insert(Arc::new(0)).unwrap();
        TABLE.remove(first).unwrap();
        for round in 0..10 * KEPT {
            let id = TABLE.insert(Arc::new(round)).unwrap();
            assert_eq!(*TABLE.remove(id).unwrap(), round);
            assert!(TABLE.get(id).is_err());
        }
        assert!(TABLE.free.lock().unwrap().used <= KEPT + 2);
    }

    #[test]
    fn a_full_table_is_an_error_and_takes_more_after_a_free() {
        static TABLE: Table<usize> = Table::new(Kind::Buffer);
        let all: Vec<i32> = (0..CHUNK * CHUNKS).map(|at| TABLE.insert(Arc::new(at)).unwrap()).collect();
        let error = TABLE.insert(Arc::new(0)).unwrap_err();
        assert!(error.code == Code::Memory && error.text.contains("free some"), "{error}");
        TABLE.remove(all[77]).unwrap();
        let again = TABLE.insert(Arc::new(1)).unwrap();
        assert!(again != all[77] && *TABLE.get(again).unwrap() == 1);
        assert!(all.iter().enumerate().all(|(at, id)| at == 77 || *TABLE.get(*id).unwrap() == at));
    }
}
