//! A world: one sparse file in memory with everything that its processes share.
//!
//! | part | written by |
//! |---|---|
//! | head: a magic number, version, places, bytes of an arena | the process that makes the world |
//! | number of peers: places that are in use | the process that adds a peer |
//! | per peer: its doorbell, its name and processors as assigned, its entry as it joins | the one that makes the world, the peer; the doorbell by all |
//! | per pair: a mailbox | sender and receiver |
//! | per peer: an arena | all |
//!
//! The file is sealed against changes of its size, so that no process can take memory away from under the
//! others. Sizes are read from it once, when it is opened, and are checked against the file's. Nothing else
//! in it is relied on.

use crate::doorbell::Doorbell;
use crate::error::NetError;
use crate::mailbox::{LINE, Ring};
use crate::mapping::{Mapping, PAGE};
use crate::memory::SharedMemory;
use crate::sync::{AtomicU32, AtomicU64};
use crate::transport::Peer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// "FLASHnet", and the version of everything that processes of different builds would have to agree on.
const MAGIC: u64 = u64::from_be_bytes(*b"FLASHnet");
const VERSION: u64 = 1;

/// Bytes of the head.
const HEAD: usize = 32;
/// Where the number of peers is.
const IN_USE: u64 = 128;

/// Peers of a world, at most.
pub const MAX_PEERS: usize = 1024;

/// Places of a world for peers that are added.
const SPARE: usize = 60;

/// Memory of a mailbox. The line of its own before each keeps the mailboxes of one receiver apart in its
/// caches.
/// Miri takes a step for each word of it at each use.
const RING: u64 = if cfg!(miri) { 8 << 10 } else { 64 << 10 };
const MAILBOX: u64 = 128 + RING;

/// Memory of a peer: the doorbell, the state, and two records.
const MEMBER: u64 = 32 << 10;
const SLEEPING: u64 = 128;
const STATE: u64 = 256;
const ASSIGNED: u64 = 512;
const JOINED: u64 = 16 << 10;
/// Bytes of a record with its length.
const RECORD: u64 = 15 << 10;

/// Arenas start here, and have a multiple of this, so that large pages may be used.
const ARENA_UNIT: u64 = 2 << 20;

/// A peer as the process that makes the world wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it is called in messages.
    pub name: String,
    /// The processors it is given. None: all that it may run on.
    pub cpus: Vec<usize>,
}

/// What a peer says of itself when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// When the process started, in the system's unit: tells it from a later one of the same number.
    pub(crate) started: u64,
    pub(crate) cpus: Vec<usize>,
}

/// A peer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent = 0,
    Joining = 1,
    Joined = 2,
    Left = 3,
}

/// Where things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Peers that there can be.
    places: u64,
    arena: u64,
}

impl Layout {
    fn members(self) -> u64 {
        PAGE
    }

    fn mailboxes(self) -> u64 {
        self.members() + self.places * MEMBER
    }

    fn mailbox(self, from: Peer, to: Peer) -> u64 {
        let (from, to) = (u64::from(from.0), u64::from(to.0));
        assert!(from < self.places && to < self.places);
        self.mailboxes() + (to * self.places + from) * MAILBOX
    }

    fn arenas(self) -> u64 {
        (self.mailboxes() + self.places * self.places * MAILBOX).next_multiple_of(ARENA_UNIT)
    }

    fn total(self) -> u64 {
        self.arenas() + self.places * self.arena
    }

    /// Of places and arenas that are not yet known to be valid.
    fn checked(places: u64, arena: u64) -> Option<Layout> {
        let valid = (1..=MAX_PEERS as u64).contains(&places)
            && (ARENA_UNIT..=1 << 46).contains(&arena)
            && arena.is_multiple_of(ARENA_UNIT)
            && places * arena <= 1 << 46;
        valid.then_some(Layout { places, arena })
    }
}

/// A world, mapped: what endpoints of this process stand on.
pub(crate) struct Segment {
    mapping: Arc<Mapping>,
    layout: Layout,
}

impl Segment {
    fn new(mapping: Mapping, layout: Layout) -> Segment {
        // Mailboxes are sparse, and most of a page of theirs is not used.
        mapping.prefer_large_pages(layout.arenas(), layout.total() - layout.arenas());
        Segment { mapping: Arc::new(mapping), layout }
    }

    /// Memory of this process for a world.
    fn anonymous(layout: Layout) -> Result<Segment, NetError> {
        Ok(Segment::new(Mapping::anonymous(layout.total())?, layout))
    }

    /// Peers that there can be.
    pub(crate) fn places(&self) -> usize {
        self.layout.places as usize
    }

    /// The number of peers. It grows.
    pub(crate) fn peers(&self) -> usize {
        // Whatever another process writes there.
        self.words(IN_USE, 8)[0].load(Acquire).clamp(1, self.layout.places) as usize
    }

    /// Takes the next place; `None` if there is none.
    fn take_place(&self) -> Option<Peer> {
        let count = &self.words(IN_USE, 8)[0];
        let one_more = |count: u64| (count < self.layout.places).then_some(count + 1);
        count.fetch_update(Release, Relaxed, one_more).ok().map(|place| Peer(place as u32))
    }

    /// The words of a range that starts at a multiple of 8. Arenas are not among them.
    fn words(&self, offset: u64, bytes: u64) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset + bytes <= self.layout.arenas());
        let start = self.mapping.base().wrapping_add(offset as usize).cast::<AtomicU64>();
        // SAFETY: mapped for as long as this lives, aligned as a page plus a multiple of 8, and outside of
        // the arenas. This process only makes atomic accesses there. Another process is bound by no rule of
        // this one's; whatever it does, an atomic load gives some value, and any value is valid.
        unsafe { std::slice::from_raw_parts(start, (bytes / 8) as usize) }
    }

    /// The first half of a word, which is never used as a whole one.
    fn half(&self, offset: u64) -> &AtomicU32 {
        let word = self.words(offset, 8)[0].as_ptr().cast::<u32>();
        // SAFETY: mapped and aligned as the word; only ever used through this.
        unsafe { AtomicU32::from_ptr(word) }
    }

    fn member(&self, peer: Peer) -> u64 {
        assert!(u64::from(peer.0) < self.layout.places);
        self.layout.members() + u64::from(peer.0) * MEMBER
    }

    pub(crate) fn bell(&self, of: Peer) -> Doorbell<'_> {
        let member = self.member(of);
        Doorbell { count: self.half(member), sleeping: self.half(member + SLEEPING) }
    }

    /// The mailbox of a pair.
    pub(crate) fn ring(&self, from: Peer, to: Peer) -> Ring<'_> {
        let words = self.words(self.layout.mailbox(from, to), MAILBOX);
        Ring::new(&words[2 * LINE..], &words[0], &words[1])
    }

    pub(crate) fn arena(&self, of: Peer) -> SharedMemory {
        assert!(u64::from(of.0) < self.layout.places);
        let start = self.layout.arenas() + u64::from(of.0) * self.layout.arena;
        SharedMemory::new(Arc::clone(&self.mapping), start, self.layout.arena)
    }

    fn state_word(&self, peer: Peer) -> &AtomicU64 {
        &self.words(self.member(peer) + STATE, 8)[0]
    }

    /// The peer's state. What the peer wrote before it said so is visible.
    pub(crate) fn state(&self, peer: Peer) -> Result<State, String> {
        match self.state_word(peer).load(Acquire) {
            0 => Ok(State::Absent),
            1 => Ok(State::Joining),
            2 => Ok(State::Joined),
            3 => Ok(State::Left),
            other => Err(format!("its state is {other:#x}, expected 0 to 3")),
        }
    }

    pub(crate) fn set_state(&self, peer: Peer, state: State) {
        self.state_word(peer).store(state as u64, Release);
    }

    /// Takes the place of a peer that has not joined yet.
    pub(crate) fn claim(&self, peer: Peer) -> bool {
        let (absent, joining) = (State::Absent as u64, State::Joining as u64);
        self.state_word(peer).compare_exchange(absent, joining, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn assigned(&self, peer: Peer) -> Result<Member, String> {
        self.read(self.member(peer) + ASSIGNED)
    }

    pub(crate) fn entry(&self, peer: Peer) -> Result<Entry, String> {
        self.read(self.member(peer) + JOINED)
    }

    pub(crate) fn write_entry(&self, peer: Peer, entry: &Entry) -> Result<(), NetError> {
        self.write(self.member(peer) + JOINED, entry)
    }

    fn write_members(&self, members: &[Member]) -> Result<(), NetError> {
        for (peer, member) in (0..).map(Peer).zip(members) {
            self.assign(peer, member)?;
        }
        self.words(IN_USE, 8)[0].store(members.len() as u64, Release);
        Ok(())
    }

    fn assign(&self, peer: Peer, member: &Member) -> Result<(), NetError> {
        self.write(self.member(peer) + ASSIGNED, member)
    }

    fn write<T: Serialize>(&self, offset: u64, value: &T) -> Result<(), NetError> {
        let bytes = postcard::to_allocvec(value).expect("names and numbers are written");
        let words = self.words(offset, RECORD);
        if bytes.len() > (words.len() - 1) * 8 {
            let why = format!("{} bytes, expected at most {}", bytes.len(), (words.len() - 1) * 8);
            return Err(NetError::World { what: "writing the name and the processors of a peer", why });
        }
        for (word, bytes) in words[1..].iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        words[0].store(bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, offset: u64) -> Result<T, String> {
        let words = self.words(offset, RECORD);
        let length = words[0].load(Relaxed);
        if length > (words.len() as u64 - 1) * 8 {
            return Err(format!("its record has {length} bytes, expected at most {}", RECORD - 8));
        }
        let length = length as usize;
        let words = words[1..1 + length.div_ceil(8)].iter();
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        bytes.truncate(length);
        postcard::from_bytes(&bytes).map_err(|error| format!("its record cannot be read: {error}"))
    }
}

/// The memory of a world, by a file that can be handed to other processes. See [`SharedTransport`] for
/// joining.
///
/// [`SharedTransport`]: crate::SharedTransport
#[derive(Debug)]
pub struct World {
    file: File,
    layout: Layout,
}

impl World {
    /// A new world of these peers, with room for 60 more, and with arenas of 4 times the memory of this
    /// machine, at least 64 GiB, as far as addresses last. They are sparse: what is not touched takes no
    /// memory.
    ///
    /// # Errors
    /// If the system refuses the memory, there are no peers or more than [`MAX_PEERS`], or a name is too
    /// long.
    pub fn create(members: &[Member]) -> Result<World, NetError> {
        // SAFETY: a question to the system.
        let pages = u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).unwrap_or(0);
        let wanted = (4 * pages * PAGE).max(64 << 30);
        let spare = SPARE.min(MAX_PEERS.saturating_sub(members.len()));
        let limit = (1 << 46) / (members.len() + spare) as u64;
        World::with(members, spare, wanted.min(limit))
    }

    /// A new world of these peers and no others, with arenas of this many bytes, rounded to 2 MiB.
    ///
    /// # Errors
    /// As [`World::create`].
    pub fn with_arenas(members: &[Member], bytes: u64) -> Result<World, NetError> {
        World::with(members, 0, bytes)
    }

    fn with(members: &[Member], spare: usize, bytes: u64) -> Result<World, NetError> {
        let layout = layout(members.len(), spare, bytes)?;
        let file = create_file(layout.total())?;
        let world = World { file, layout };
        let segment = world.map()?;
        segment.write_members(members)?;
        let head = [MAGIC, VERSION, layout.places, layout.arena].map(u64::to_ne_bytes);
        let source = |source| NetError::System { what: "writing the head of a world", source };
        world.file.write_all_at(head.as_flattened(), 0).map_err(source)?;
        Ok(world)
    }

    /// Adds a peer. A process joins as it later.
    ///
    /// # Errors
    /// If there is no place left, or the name is too long.
    pub fn add(&self, member: &Member) -> Result<Peer, NetError> {
        let segment = self.map()?;
        let full = || NetError::World {
            what: "adding a process to a world",
            why: format!("all its {} places have been used", segment.places()),
        };
        let peer = segment.take_place().ok_or_else(full)?;
        segment.assign(peer, member)?;
        Ok(peer)
    }

    /// The world of a file that another process made.
    ///
    /// # Errors
    /// If it is no such file, or not sealed.
    pub fn from_file(file: OwnedFd) -> Result<World, NetError> {
        let refuse = |why: String| NetError::World { what: "opening the memory of a world", why };
        let file = File::from(file);
        // SAFETY: a question about the descriptor.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        let needed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        if seals < 0 || seals & needed != needed {
            return Err(refuse(format!(
                "expected a file sealed against changes of its size, found seals {seals}"
            )));
        }
        let source = |source| NetError::System { what: "reading the head of a world", source };
        let size = file.metadata().map_err(source)?.len();
        if size < PAGE {
            return Err(refuse(format!("expected at least {PAGE} bytes, found {size}")));
        }
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0).map_err(source)?;
        let [magic, version, places, arena] = [0, 1, 2, 3].map(|i| u64::from_ne_bytes(head.as_chunks().0[i]));
        if magic != MAGIC || version != VERSION {
            return Err(refuse(format!(
                "expected {MAGIC:#x}, version {VERSION}, found {magic:#x}, version {version}: all processes of a \
                 world are of one version of FLASH"
            )));
        }
        match Layout::checked(places, arena) {
            Some(layout) if layout.total() == size => Ok(World { file, layout }),
            _ => Err(refuse(format!(
                "{places} places with arenas of {arena} bytes do not make its {size} bytes"
            ))),
        }
    }

    /// What a peer was given when it was added.
    ///
    /// # Errors
    /// If there is no such peer, or its record cannot be read.
    pub fn member(&self, peer: Peer) -> Result<Member, NetError> {
        let segment = self.map()?;
        if peer.0 as usize >= segment.peers() {
            return Err(NetError::NoPeer { found: peer, peers: segment.peers() });
        }
        segment.assigned(peer).map_err(|why| NetError::World { what: "reading what a peer was given", why })
    }

    /// Peers that there can be, those that are gone included.
    pub fn places(&self) -> usize {
        self.layout.places as usize
    }

    /// True if a process has joined as this peer, or is about to; also after it has left.
    ///
    /// # Errors
    /// [`NetError::NoPeer`], or the system's answer.
    pub fn is_taken(&self, peer: Peer) -> Result<bool, NetError> {
        let segment = self.map()?;
        if peer.0 as usize >= segment.peers() {
            return Err(NetError::NoPeer { found: peer, peers: segment.peers() });
        }
        Ok(segment.state(peer) != Ok(State::Absent))
    }

    /// Bytes of it that take memory now.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn bytes_in_memory(&self) -> Result<u64, NetError> {
        let source = |source| NetError::System { what: "asking for the memory of a world", source };
        Ok(self.file.metadata().map_err(source)?.blocks() * 512)
    }

    pub(crate) fn map(&self) -> Result<Segment, NetError> {
        // SAFETY: made or opened, each with this size, and sealed.
        let mapping = unsafe { Mapping::of(&self.file, self.layout.total()) }?;
        Ok(Segment::new(mapping, self.layout))
    }

    /// The file that the processes share. It is sealed against changes of its size.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the arenas start in the file.
    #[cfg(test)]
    pub(crate) fn before_arenas(&self) -> u64 {
        self.layout.arenas()
    }

    /// Where the lines of a mailbox start in the file.
    #[cfg(test)]
    pub(crate) fn mailbox(&self, from: Peer, to: Peer) -> u64 {
        self.layout.mailbox(from, to) + 128
    }
}

/// The segment of a world in this process's own memory.
pub(crate) fn anonymous(members: &[Member], arena: u64) -> Result<Segment, NetError> {
    let segment = Segment::anonymous(layout(members.len(), 0, arena)?)?;
    segment.write_members(members)?;
    Ok(segment)
}

fn layout(peers: usize, spare: usize, arena: u64) -> Result<Layout, NetError> {
    // Down where up would be too far: the largest arenas that are asked for are a limit of addresses.
    let arena = (arena / ARENA_UNIT).max(1) * ARENA_UNIT;
    let checked = (peers > 0).then(|| Layout::checked((peers + spare) as u64, arena)).flatten();
    checked.ok_or_else(|| NetError::World {
        what: "making a world",
        why: format!(
            "expected 1 to {MAX_PEERS} peers and at most 64 TiB of arenas, found {peers} peers with {arena} bytes \
             each"
        ),
    })
}

/// A sealed file in memory.
fn create_file(bytes: u64) -> Result<File, NetError> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a name that ends with 0.
    let file = unsafe { libc::memfd_create(c"flash-world".as_ptr(), flags) };
    if file < 0 {
        return Err(NetError::last("making a file in memory"));
    }
    // SAFETY: a new descriptor, which nothing else has.
    let file = unsafe { File::from_raw_fd(file) };
    file.set_len(bytes)
        .map_err(|source| NetError::System { what: "giving a file in memory its size", source })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: seals of the file just made.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(NetError::last("sealing a file in memory"));
    }
    Ok(file)
}
