//! Memory and communication of instances that share memory: processes of a host, or threads of a process.
//!
//! An instance is a peer of a [`flash_net`] world. Its slots are blocks of its arena. Global slots are ranges
//! of any arena, which this process reads and writes itself: a copy needs nothing of the other side. What has
//! to be agreed on (exchanges, fences) goes by frames.

mod frames;
mod memory;

pub(crate) use memory::Block;

use crate::Error;
use crate::managers::{CommunicationManager, Exchange, MemoryManager, Transfer};
use crate::slot::{GlobalSlot, Key, LocalSlot, Place, Tag};
use crate::topology::{Space, TopologyManager, spaces};
use crate::words::Words;
use flash_net::{Detector, Peer, Progress, SharedMemory, SharedTransport, Transport};
use frames::{Frames, Message};
use memory::{HEAD, Header, Registered, arena_words, source_of};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The transport of a group. A process that is stopped is lost; one that computes is not.
pub(crate) type Net = Detector<SharedTransport>;

/// Looks for what is waited for before the transport is asked, which takes longer.
const LOOKS: usize = 200;
/// How long a thread sleeps at most before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// One instance's end of a group.
pub(crate) struct Endpoint {
    pub(crate) transport: Arc<Net>,
    /// Of all instances: they are on this host.
    arenas: Vec<SharedMemory>,
    topology: Arc<dyn TopologyManager>,
    /// Of the topology when this was made: their sizes change, the spaces do not.
    spaces: OnceLock<Vec<Space>>,
    /// Tells its global slots from those of other managers of this process.
    number: u64,
    frames: Mutex<Frames>,
    /// Slots of exchanges, which others reach.
    exchanged: Mutex<HashMap<Tag, Vec<LocalSlot>>>,
}

impl Endpoint {
    pub(crate) fn new(transport: Arc<Net>, topology: Arc<dyn TopologyManager>) -> Endpoint {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let peers = (0..transport.peers() as u32).map(Peer);
        Endpoint {
            arenas: peers.filter_map(|peer| transport.memory(peer)).collect(),
            transport,
            topology,
            spaces: OnceLock::new(),
            number: NUMBER.fetch_add(1, Relaxed),
            frames: Mutex::default(),
            exchanged: Mutex::default(),
        }
    }

    fn me(&self) -> u32 {
        self.transport.me().0
    }

    fn others(&self) -> impl Iterator<Item = u32> {
        (0..self.transport.peers() as u32).filter(|peer| *peer != self.me())
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchanged(&self) -> MutexGuard<'_, HashMap<Tag, Vec<LocalSlot>>> {
        self.exchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes frames that have come.
    fn progress(&self) -> Progress {
        let progress = self.transport.progress(&mut |from, frame| self.frames().take(from.0, frame));
        if progress == Progress::Some {
            // What this thread took may be what another one waits for.
            self.transport.wake();
        }
        progress
    }

    /// Sends a frame; waits while the mailbox is full.
    fn post(&self, to: u32, message: &Message) -> Result<(), Error> {
        let frame = message.encode();
        loop {
            let ticket = self.transport.ticket();
            match self.transport.post(Peer(to), &frame) {
                Err(flash_net::NetError::Full { .. }) => {}
                other => return Ok(other?),
            }
            if self.progress() != Progress::Some {
                self.transport.wait(ticket, None);
            }
        }
    }

    /// Waits until the function gives something; for these instances, one of which does not come if it is
    /// gone.
    fn await_all<T>(
        &self,
        from: impl Fn() -> Vec<u32>,
        mut ready: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        loop {
            let ticket = self.transport.ticket();
            let progress = self.progress();
            if let Some(found) = ready()? {
                return Ok(found);
            }
            if progress == Progress::Some {
                continue;
            }
            if let Some(loss) = from().into_iter().find_map(|peer| self.transport.lost(Peer(peer))) {
                return Err(Error::Lost(Box::new(loss)));
            }
            self.transport.wait(ticket, None);
        }
    }

    fn arena(&self, owner: u32) -> Result<Words<'_>, Error> {
        let arena = self.arenas.get(owner as usize);
        let why = || format!("expected an instance below {}, found {owner}", self.arenas.len());
        Ok(arena_words(arena.ok_or_else(|| Error::refused("the place of a global slot", why()))?))
    }

    /// The header of a global slot, whose place was checked when the slot was made.
    fn header(&self, slot: &GlobalSlot) -> Result<(Header<'_>, Words<'_>), Error> {
        if slot.manager != self.number {
            let why = "expected a slot of this group's exchanges, found one of another group";
            return Err(Error::refused("a global slot", why));
        }
        let words = self.arena(slot.place.owner)?;
        Ok((Header::at(words, slot.place.start), words))
    }

    fn global(&self, place: Place) -> Result<GlobalSlot, Error> {
        let refuse = |why: String| Err(Error::refused("the place of a global slot", why));
        let Place { owner, start, bytes, .. } = place;
        let size = self.arena(owner)?.0.len() as u64 * 8;
        let fits =
            start >= HEAD && start % HEAD == 0 && start.checked_add(bytes).is_some_and(|end| end <= size);
        if !fits {
            return refuse(format!(
                "expected a multiple of {HEAD} and a size in the {size} bytes of instance {owner}, found {start} and \
                 {bytes} bytes"
            ));
        }
        Ok(GlobalSlot::new(place, self.number))
    }

    fn place(&self, slot: &LocalSlot, tag: Tag, key: Key) -> Result<Place, Error> {
        let block = slot.memory::<Block>().filter(|block| Arc::ptr_eq(&block.transport, &self.transport));
        match block {
            Some(block) => Ok(Place { owner: self.me(), tag, key, start: block.start, bytes: slot.bytes() }),
            None => Err(Error::refused(
                "a global slot",
                "expected memory that this group's memory manager allocated, found other memory, which the other \
                 instances cannot reach: allocate a slot, and copy",
            )),
        }
    }
}

impl MemoryManager for Endpoint {
    fn spaces(&self) -> Result<Vec<Space>, Error> {
        Ok(spaces(&self.topology.topology()?))
    }

    fn alloc(&self, space: &Space, bytes: u64) -> Result<LocalSlot, Error> {
        self.known(space)?;
        Ok(LocalSlot::new(Block::new(&self.transport, space.clone(), bytes)?))
    }

    unsafe fn register(&self, space: &Space, memory: *mut u8, bytes: u64) -> Result<LocalSlot, Error> {
        self.known(space)?;
        // SAFETY: as promised to this function.
        Ok(LocalSlot::new(unsafe { Registered::new(space.clone(), memory, bytes) }?))
    }

    fn fill(&self, slot: &LocalSlot, value: u8) -> Result<(), Error> {
        let (words, first, _) = source_of(slot)?;
        words.fill(first, slot.bytes() as usize, value);
        Ok(())
    }
}

impl Endpoint {
    fn known(&self, space: &Space) -> Result<(), Error> {
        let known = match self.spaces.get() {
            Some(known) => known,
            None => {
                let found = self.spaces()?;
                self.spaces.get_or_init(|| found)
            }
        };
        if known.iter().any(|one| (&one.device, one.number) == (&space.device, space.number)) {
            return Ok(());
        }
        Err(Error::NoSpace { found: space.clone(), known: known.iter().map(Space::to_string).collect() })
    }
}

impl CommunicationManager for Endpoint {
    fn transfer(&self, transfer: Transfer<'_>, bytes: u64) -> Result<(), Error> {
        let length = bytes as usize;
        match transfer {
            Transfer::Local { to, from } => {
                from.slot.check("a copy from", from.offset, bytes)?;
                to.slot.check("a copy to", to.offset, bytes)?;
                let (source, first, sent) = source_of(from.slot)?;
                let (target, start, received) = source_of(to.slot)?;
                target.copy(start + to.offset as usize, source, first + from.offset as usize, length);
                sent.sent().fetch_add(1, Release);
                received.received().fetch_add(1, Release);
            }
            Transfer::Put { to, from } => {
                from.slot.check("a copy from", from.offset, bytes)?;
                to.slot.check("a copy to", to.offset, bytes)?;
                let (source, first, sent) = source_of(from.slot)?;
                let (received, target) = self.header(to.slot)?;
                let start = (to.slot.place.start + to.offset) as usize;
                target.copy(start, source, first + from.offset as usize, length);
                sent.sent().fetch_add(1, Release);
                received.received().fetch_add(1, Release);
                self.transport.ring(Peer(to.slot.place.owner))?;
            }
            Transfer::Get { to, from } => {
                from.slot.check("a copy from", from.offset, bytes)?;
                to.slot.check("a copy to", to.offset, bytes)?;
                let (sent, source) = self.header(from.slot)?;
                let (target, start, received) = source_of(to.slot)?;
                let first = (from.slot.place.start + from.offset) as usize;
                target.copy(start + to.offset as usize, source, first, length);
                sent.sent().fetch_add(1, Release);
                received.received().fetch_add(1, Release);
                self.transport.ring(Peer(from.slot.place.owner))?;
            }
        }
        Ok(())
    }

    fn fence(&self, tag: Tag) -> Result<(), Error> {
        for other in self.others() {
            self.post(other, &Message::Fence { tag })?;
        }
        let missing = || self.others().filter(|peer| !self.frames().has_fence(tag, *peer)).collect();
        self.await_all(missing, || {
            let mut frames = self.frames();
            frames.check()?;
            let all = self.others().all(|peer| frames.has_fence(tag, peer));
            Ok(all.then(|| self.others().for_each(|peer| frames.take_fence(tag, peer))))
        })
    }

    fn fence_slot(&self, slot: &LocalSlot, sent: u64, received: u64) -> Result<(), Error> {
        let (_, _, header) = source_of(slot)?;
        let others: Vec<u32> = self.others().collect();
        self.wait(&others, &mut || {
            Ok(header.sent().load(Acquire) >= sent && header.received().load(Acquire) >= received)
        })
    }

    fn exchange(&self, tag: Tag, slots: &[(Key, &LocalSlot)]) -> Result<Exchange, Error> {
        let mine = slots.iter().map(|(key, slot)| self.place(slot, tag, *key));
        let mine = mine.collect::<Result<Vec<Place>, Error>>();
        // The others wait for this instance also when its own slots are wrong.
        let sent: &[Place] = mine.as_deref().unwrap_or_default();
        let messages = frames::exchange(tag, sent, mine.is_err());
        for other in self.others() {
            messages.iter().try_for_each(|message| self.post(other, message))?;
        }
        let missing = || self.others().filter(|peer| !self.frames().has_exchange(tag, *peer)).collect();
        let lists = self.await_all(missing, || {
            let mut frames = self.frames();
            frames.check()?;
            let all = self.others().all(|peer| frames.has_exchange(tag, peer));
            let take = |peer| (peer, frames.take_exchange(tag, peer));
            Ok(all.then(|| self.others().map(take).collect::<Vec<_>>()))
        })?;
        let mut places = mine?;
        for (peer, list) in lists {
            let refused = || {
                let why =
                    format!("instance {peer} cannot make the slots that it gave global, and has the error");
                Error::refused(format!("the exchange with tag {tag}"), why)
            };
            for (key, start, bytes) in list.ok_or_else(refused)? {
                places.push(Place { owner: peer, tag, key, start, bytes });
            }
        }
        places.sort_by_key(|place| place.key);
        if let Some([a, b]) = places.array_windows().find(|[a, b]| a.key == b.key) {
            let why = format!(
                "expected a key per slot, found {} of instance {} and of instance {}",
                a.key, a.owner, b.owner
            );
            return Err(Error::refused(format!("the exchange with tag {tag}"), why));
        }
        let slots_of_all =
            places.into_iter().map(|place| self.global(place)).collect::<Result<Vec<_>, _>>()?;
        let kept = slots.iter().map(|(_, slot)| LocalSlot::clone(slot));
        self.exchanged().entry(tag).or_default().extend(kept);
        Ok(Exchange { tag, slots: slots_of_all })
    }

    fn release(&self, tag: Tag) {
        let slots = self.exchanged().remove(&tag);
        drop(slots);
    }

    fn promote(&self, slot: &LocalSlot) -> Result<GlobalSlot, Error> {
        self.global(self.place(slot, 0, 0)?)
    }

    fn attach(&self, place: Place) -> Result<GlobalSlot, Error> {
        self.global(place)
    }

    fn lock(&self, slot: &GlobalSlot) -> Result<bool, Error> {
        let (header, _) = self.header(slot)?;
        let mine = u64::from(self.me()) + 1;
        match header.lock().compare_exchange(0, mine, Acquire, Relaxed) {
            Ok(_) => Ok(true),
            Err(holder) if holder == mine => Ok(false),
            Err(holder) => match u32::try_from(holder - 1).ok().and_then(|peer| self.lost(peer)) {
                Some(lost) => Err(lost),
                None => Ok(false),
            },
        }
    }

    fn unlock(&self, slot: &GlobalSlot) -> Result<(), Error> {
        let (header, _) = self.header(slot)?;
        let mine = u64::from(self.me()) + 1;
        match header.lock().compare_exchange(mine, 0, Release, Relaxed) {
            Ok(_) => self.others().try_for_each(|peer| Ok(self.transport.ring(Peer(peer))?)),
            Err(0) => Err(Error::refused("unlocking a global slot", "it is not locked")),
            Err(holder) => {
                let why = format!("instance {} has the lock, not this one", holder.wrapping_sub(1));
                Err(Error::refused("unlocking a global slot", why))
            }
        }
    }

    fn wait(&self, from: &[u32], ready: &mut dyn FnMut() -> Result<bool, Error>) -> Result<(), Error> {
        for _ in 0..LOOKS {
            if ready()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        loop {
            let ticket = self.transport.ticket();
            let progress = self.progress();
            if ready()? {
                return Ok(());
            }
            if progress == Progress::Some {
                continue;
            }
            let lost = |peer: &u32| (*peer != self.me()).then(|| self.transport.lost(Peer(*peer))).flatten();
            let losses: Vec<_> = from.iter().filter_map(lost).collect();
            if losses.len() == from.len() {
                // What the last of them had copied before it ended is there now.
                return match (ready()?, losses.into_iter().next()) {
                    (false, Some(loss)) => Err(Error::Lost(Box::new(loss))),
                    (false, None) => {
                        Err(Error::refused("a wait", "expected instances to wait for, found none"))
                    }
                    (true, _) => Ok(()),
                };
            }
            // Copies of other threads of this instance ring no bell.
            self.transport.wait(ticket, Some(Instant::now() + LOOK));
        }
    }

    fn lost(&self, instance: u32) -> Option<Error> {
        self.progress();
        self.transport.lost(Peer(instance)).map(|loss| Error::Lost(Box::new(loss)))
    }
}
