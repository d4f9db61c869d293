//! The memory spaces of a device's memory, in which its buffers are.
//!
//! A device lists its spaces. The first that is not the host's is its main one; those that are as well
//! reached by the host, and that no other memory has, add their room to it. A buffer lies in the first space
//! that has room for it.

use crate::devices::DeviceHandle;
use crate::error::Error;
use flash_types::Code;
use flash_types::abi::{Buffer, MemorySpace, SPACE_HOST, SPACE_OF_PROCESS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The spaces of a device's memory.
pub(super) struct Spaces {
    main: Space,
    further: Box<[Space]>,
    /// Handles of buffers are addresses in this process.
    have_addresses: bool,
    /// The main space is this process's own.
    outlive_devices: bool,
}

struct Space {
    id: u32,
    /// Bytes; 0: unknown.
    size: u64,
    /// Bytes of all buffers in it, with those of the cache.
    used: AtomicU64,
}

/// The main space of such a list: its first that is not the host's.
pub(super) fn main(listed: &[MemorySpace]) -> u32 {
    listed.iter().map(|space| space.id).find(|id| *id != SPACE_HOST).unwrap_or(SPACE_HOST)
}

impl Spaces {
    /// Those of a device that lists these. `is_taken`: another memory has it.
    pub fn of(
        device: &DeviceHandle,
        listed: &[MemorySpace],
        mut is_taken: impl FnMut(u32) -> bool,
    ) -> Spaces {
        let main = main(listed);
        let is_visible = |id: u32| listed.iter().any(|space| space.id == id && space.host_visible != 0);
        let have_addresses = main == SPACE_HOST || is_visible(main);
        let is_reached = |id: u32| {
            [[SPACE_HOST, id], [id, SPACE_HOST], [main, id], [id, main]]
                .into_iter()
                .all(|pair| device.api.can_copy.is_none() || device.copies(pair).is_some())
        };
        let room = |id: u32| {
            let size = listed.iter().find(|space| space.id == id).map_or(0, |space| space.size);
            Space { id, size, used: AtomicU64::new(0) }
        };
        let mut further: Vec<Space> = Vec::new();
        for MemorySpace { id, .. } in listed {
            let is_known = [SPACE_HOST, main].contains(id) || further.iter().any(|space| space.id == *id);
            if !is_known && is_visible(*id) == have_addresses && is_reached(*id) && !is_taken(*id) {
                further.push(room(*id));
            }
        }
        let is_own = |space: &MemorySpace| space.id == main && space.kind == SPACE_OF_PROCESS;
        let outlive_devices = listed.iter().any(is_own);
        Spaces { main: room(main), further: further.into(), have_addresses, outlive_devices }
    }

    fn all(&self) -> impl Iterator<Item = &Space> {
        std::iter::once(&self.main).chain(&self.further)
    }

    pub fn main(&self) -> u32 {
        self.main.id
    }

    pub fn have_addresses(&self) -> bool {
        self.have_addresses
    }

    pub fn outlive_devices(&self) -> bool {
        self.outlive_devices
    }

    pub fn has(&self, id: u32) -> bool {
        self.all().any(|space| space.id == id)
    }

    /// Bytes of all of them, if their sizes are known.
    pub fn bytes(&self) -> Option<u64> {
        let is_known = self.all().all(|space| space.size > 0);
        is_known.then(|| self.all().fold(0, |sum: u64, space| sum.saturating_add(space.size)))
    }

    /// A buffer of `bytes` bytes in the first space that has room for it; `alloc` makes one in a space.
    ///
    /// # Errors
    /// Those of `alloc`; that of the last space if all have too little room.
    pub fn alloc(
        &self,
        bytes: u64,
        mut alloc: impl FnMut(u32) -> Result<Buffer, Error>,
    ) -> Result<Buffer, Error> {
        if self.further.is_empty() {
            return alloc(self.main.id);
        }
        let mut outcome = None;
        for space in self.all() {
            if !space.claim(bytes) {
                continue;
            }
            match alloc(space.id) {
                Ok(buffer) => return Ok(buffer),
                Err(error) => {
                    space.used.fetch_sub(bytes, Relaxed);
                    let is_full = matches!(error, Error::Backend { code: Code::OutOfMemory, .. });
                    outcome = Some(Err(error));
                    if !is_full {
                        break;
                    }
                }
            }
        }
        outcome.unwrap_or_else(|| {
            let text = format!(
                "none of its {} memory spaces has room for {bytes} bytes in one piece",
                1 + self.further.len()
            );
            Err(Error::Backend { code: Code::OutOfMemory, text })
        })
    }

    /// A buffer of a space was freed.
    pub fn freed(&self, id: u32, bytes: u64) {
        if !self.further.is_empty()
            && let Some(space) = self.all().find(|space| space.id == id)
        {
            space.used.fetch_sub(bytes, Relaxed);
        }
    }
}

impl Space {
    /// Counts this many more bytes as used. False: it has no room for them.
    fn claim(&self, bytes: u64) -> bool {
        let more = |used: u64| {
            let all = used.saturating_add(bytes);
            (self.size == 0 || all <= self.size).then_some(all)
        };
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}
