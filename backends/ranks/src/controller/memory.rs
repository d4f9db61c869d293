//! Memory of agents' devices.
//!
//! *Shared* memory is this process's part of what the processes of the host share. The agents' devices that
//! work in the host's memory work in it; handles are addresses of this process, and the memory stays when an
//! agent is lost. Of other memories handles are numbers, with that of the process that has the buffer; what
//! goes to them from memory that is not shared goes through two blocks that are. Agents that share no memory
//! with this process have memories of their own only, and copy from each other.

use super::agents::Agent;
use super::calls::{Number, Reply};
use super::pieces::{self, Remote};
use super::{Asked, Controller, DeviceOf};
use crate::wire::{RemoteSpace, Request, Shape, Side, bad, failed};
use flash_backend::abi::{Buffer, CopyBox, MemorySpace, SPACE_HOST, SPACE_OF_PROCESS};
use flash_backend::host_memory::{self, copy_addresses};
use flash_backend::offload::staging::{self, Stage};
use flash_backend::{Code, Completion, Event, Failure};
use flash_net::{Peer, SharedHeap, Transport};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

/// The memory space of shared memory, of all devices of this backend. Others have numbers after it.
pub(crate) const SHARED: u32 = 1;

/// Bytes of a block through which copies go.
const PIECE: u64 = 4 << 20;

/// Rough rates, in bytes a second, by which the host chooses ways.
const WITHIN_HOST: f64 = 10e9;
const BY_AGENT: f64 = 5e9;

/// Bits of a buffer's number in its handle; the process that has it is above them.
const NUMBER: u32 = 40;

fn handle_of(peer: Peer, number: u64) -> u64 {
    u64::from(peer.0) << NUMBER | number
}

/// The process that has a buffer, and its number there.
pub(super) fn place_of(handle: u64) -> (Peer, u64) {
    (Peer((handle >> NUMBER) as u32), handle & ((1 << NUMBER) - 1))
}

/// The buffers of one device.
pub(crate) struct Buffers {
    controller: &'static Controller,
    agent: &'static Agent,
    device: u32,
    /// The device's memory spaces here: shared memory, or one for each of its own.
    spaces: Vec<MemorySpace>,
    /// The agent's numbers of them; none of shared memory.
    remote: Vec<u32>,
    /// Made when first needed.
    stages: Mutex<Option<[Block; 2]>>,
}

impl Buffers {
    /// Of a device with these memories. One that works in the host's memory works in shared memory, or, where
    /// none is shared, in a memory of its own.
    pub fn new(
        controller: &'static Controller,
        agent: &'static Agent,
        device: u32,
        works_in_hosts: bool,
        remote: &[RemoteSpace],
    ) -> Buffers {
        let all = remote.iter().map(|space| space.bytes).max().unwrap_or(0);
        let works_in_shared = works_in_hosts && controller.transport.memory(agent.peer()).is_some();
        let hosts = RemoteSpace { id: SPACE_HOST, kind: 0, numa_node: -1, bytes: all, alignment: 64 };
        let own: Vec<&RemoteSpace> = match (works_in_hosts, works_in_shared) {
            (true, true) => Vec::new(),
            (true, false) => vec![&hosts],
            (false, _) => remote.iter().filter(|space| space.id != SPACE_HOST).collect(),
        };
        let one = |space: &&RemoteSpace| MemorySpace {
            struct_size: size_of::<MemorySpace>() as u32,
            id: controller.space(agent, device),
            kind: space.kind,
            numa_node: space.numa_node,
            size: space.bytes,
            host_visible: 0,
            alignment: space.alignment,
        };
        Buffers {
            controller,
            agent,
            device,
            spaces: match works_in_shared {
                true => vec![MemorySpace { kind: SPACE_OF_PROCESS, ..host_memory::space(SHARED, all) }],
                false => own.iter().map(one).collect(),
            },
            remote: own.iter().map(|space| space.id).collect(),
            stages: Mutex::default(),
        }
    }

    fn heap(&self) -> Result<&'static SharedHeap, Failure> {
        let none = || Failure::new(Code::Unsupported, "this world shares no memory");
        self.controller.transport.heap().ok_or_else(none)
    }

    /// The device's memory spaces.
    pub fn spaces(&self) -> &[MemorySpace] {
        &self.spaces
    }

    /// The agent's number of a space of the device.
    fn remote(&self, space: u32) -> Option<u32> {
        let at = self.spaces.iter().position(|own| own.id == space)?;
        self.remote.get(at).copied()
    }

    /// The offset of an address in shared memory, modulo 2^64.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let base = self.heap().ok()?.memory().base().addr() as u64;
        Some(address.wrapping_sub(base))
    }

    pub fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        let handle = match self.remote(space) {
            Some(remote) => {
                let (peer, buffer) = (self.controller.serving(self.agent)?, self.controller.number());
                self.ask(peer, &Request::Alloc { device: self.device, space: remote, buffer, bytes })?;
                handle_of(peer, buffer)
            }
            None if self.spaces.iter().any(|own| own.id == space) => {
                let heap = self.heap()?;
                let block = heap.alloc(bytes.max(1), 64).map_err(|error| failed(&error))?;
                let at = heap.memory().pointer(block.offset, block.bytes).map_err(|error| failed(&error))?;
                at.expose_provenance() as u64
            }
            None => {
                let text = format!("memory space {space} is none of this device");
                return Err(Failure::new(Code::Invalid, text));
            }
        };
        Ok(Buffer { space, reserved: 0, handle })
    }

    /// The world's file, and where a buffer in shared memory begins there.
    pub fn shared_file(&self, buffer: Buffer) -> Result<(i32, u64), Failure> {
        let none = || Failure::new(Code::Unsupported, "only a world that this process shares has a file");
        let world = self.controller.world.filter(|_| buffer.space == SHARED).ok_or_else(none)?;
        let (memory, at) = (self.heap()?.memory(), buffer.handle as usize);
        let offset = memory.find(std::ptr::without_provenance(at), 1);
        let offset = offset.ok_or_else(|| Failure::new(Code::Invalid, "a buffer that is not shared"))?;
        Ok((world.file().as_raw_fd(), memory.start() + offset))
    }

    /// # Safety
    /// The buffer has that many bytes, and nothing else uses it.
    pub unsafe fn clear(&self, buffer: Buffer, bytes: u64) -> Result<(), Failure> {
        if buffer.space != SHARED {
            let (peer, buffer) = place_of(buffer.handle);
            return self.ask(peer, &Request::Clear { device: self.device, buffer }).map(drop);
        }
        let at = std::ptr::with_exposed_provenance_mut::<u8>(buffer.handle as usize);
        // SAFETY: the caller vouches; handles are addresses.
        unsafe { std::ptr::write_bytes(at, 0, bytes as usize) };
        Ok(())
    }

    pub fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        if buffer.space != SHARED {
            let (peer, buffer) = place_of(buffer.handle);
            self.controller.tell(peer, &Request::Free { device: self.device, buffer });
            return Ok(());
        }
        let offset = self.offset(buffer.handle).unwrap_or(u64::MAX);
        self.heap()?.free(offset).map_err(|error| Failure::new(Code::Invalid, error.to_string()))
    }

    fn ask(&self, peer: Peer, request: &Request<'_>) -> Result<Reply, Failure> {
        self.controller.ask(peer, request, std::ptr::null())
    }

    fn is_address(buffer: Buffer) -> bool {
        matches!(buffer.space, SPACE_HOST | SHARED)
    }

    pub fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        let by_address = |space| matches!(space, SPACE_HOST | SHARED);
        match [from, to].map(|space| (by_address(space), self.remote(space).is_some())) {
            [(true, _), (true, _)] => Some(WITHIN_HOST),
            [(true, _), (_, true)] | [(_, true), (true, _)] | [(_, true), (_, true)] => Some(BY_AGENT),
            [_, (_, true)] => self.fetches_from(from).then_some(BY_AGENT),
            _ => None,
        }
    }

    /// True if the agent itself brings boxes from a memory space of another device: of one of its own, or of
    /// an agent that shares no memory with this process. Else two copies through shared memory are faster.
    fn fetches_from(&self, space: u32) -> bool {
        let Some((agent, _)) = self.controller.owner(space) else { return false };
        std::ptr::eq(agent, self.agent) || self.controller.transport.memory(agent.peer()).is_none()
    }

    /// Begins a copy to a buffer of this device from one of another.
    fn fetch(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Asked, Failure> {
        let [(source, from_buffer), (peer, buffer)] = [from, to].map(|buffer| place_of(buffer.handle));
        let none = || Failure::new(Code::Invalid, format!("memory space {} is of no agent", from.space));
        let (_, device) = self.controller.owner(from.space).ok_or_else(none)?;
        if self.controller.is_lost(source) {
            return Err(self.controller.loss_of(source));
        }
        let (shape, from) = (Shape::of(shape), (device, from_buffer));
        let request = Request::Fetch { device: self.device, buffer, shape, agent: source.0, from };
        let number = self.controller.begin(peer, &request)?;
        if source != peer {
            self.controller.calls.needs(number, source);
        }
        Ok(Asked { source: Some(source), ..self.asked(peer, number) })
    }

    /// Begins a copy. `None`: it is copied.
    ///
    /// # Safety
    /// The boxes lie inside the buffers, and nothing else touches them until it is complete.
    pub unsafe fn begin_copy(
        &self,
        from: Buffer,
        to: Buffer,
        shape: &CopyBox,
    ) -> Result<Option<Event>, Failure> {
        let is_of_other = !Buffers::is_address(from) && self.remote(from.space).is_none();
        if is_of_other && !shape.extent.contains(&0) {
            return self.fetch(from, to, shape).map(|asked| Some(Event::new(asked)));
        }
        // SAFETY: the caller vouches.
        unsafe { self.begin_own(from, to, shape) }
    }

    /// Begins to copy a box where no buffer is another device's, or none.
    ///
    /// # Safety
    /// As [`begin_copy`](Self::begin_copy).
    unsafe fn begin_own(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Option<Event>, Failure> {
        if shape.extent.contains(&0) {
            // Asks whether their processes are there.
            let remote = [from, to].into_iter().filter(|buffer| !Buffers::is_address(*buffer));
            let gone =
                remote.map(|buffer| place_of(buffer.handle).0).find(|peer| self.controller.is_lost(*peer));
            return gone.map_or(Ok(None), |peer| Err(self.controller.loss_of(peer)));
        }
        match [from, to].map(Buffers::is_address) {
            [true, true] => {
                // SAFETY: the caller vouches; handles are addresses.
                unsafe { copy_addresses(from.handle, to.handle, shape) };
                Ok(None)
            }
            [false, false] => {
                let [(peer, from), (other, to)] = [from, to].map(|buffer| place_of(buffer.handle));
                // One of them is in a process that is gone.
                let lost = [peer, other].into_iter().find(|peer| self.controller.is_lost(*peer));
                self.by_agent(lost.unwrap_or(peer), Side::Buffer(from), Side::Buffer(to), shape)
            }
            [is_up, _] => {
                let (host, device, end) = if is_up { (from, to, 0) } else { (to, from, 1) };
                let touched = Shape::of(shape).bytes(end)?;
                let at = std::ptr::with_exposed_provenance_mut::<u8>(host.handle as usize);
                let first = at.wrapping_add(touched.start as usize);
                let (peer, device) = place_of(device.handle);
                if self.controller.transport.memory(peer).is_none() {
                    let remote = Remote { agent: peer, device: self.device, buffer: device };
                    // SAFETY: the caller vouches.
                    return unsafe { pieces::begin(self.controller, is_up, host.handle, remote, shape) }
                        .map(Some);
                }
                let device = Side::Buffer(device);
                // What is shared needs no block in between.
                if self.heap()?.memory().find(first, touched.end - touched.start).is_some() {
                    let host = Side::Shared(self.offset(host.handle).unwrap_or(0));
                    let [from, to] = if is_up { [host, device] } else { [device, host] };
                    return self.by_agent(peer, from, to, shape);
                }
                // SAFETY: the caller vouches.
                unsafe { self.by_blocks(is_up, at, peer, device, shape) }.map(|()| None)
            }
        }
    }

    fn request(&self, from: Side, to: Side, shape: &CopyBox) -> Request<'static> {
        Request::Copy { device: self.device, from, to, shape: Shape::of(shape) }
    }

    fn by_agent(&self, peer: Peer, from: Side, to: Side, shape: &CopyBox) -> Result<Option<Event>, Failure> {
        let number = self.controller.begin(peer, &self.request(from, to, shape))?;
        Ok(Some(Event::new(self.asked(peer, number))))
    }

    /// The completion of a request to the device.
    fn asked(&self, peer: Peer, number: Number) -> Asked {
        Asked::waited(self.controller, DeviceOf { peer, number: self.device }, number)
    }

    /// # Safety
    /// As [`begin_copy`](Self::begin_copy), where one of the buffers is the host's, at `host`.
    unsafe fn by_blocks(
        &self,
        is_up: bool,
        host: *mut u8,
        peer: Peer,
        device: Side,
        shape: &CopyBox,
    ) -> Result<(), Failure> {
        let mut lock = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let stages = match &mut *lock {
            Some(stages) => stages,
            none => none.insert([self.block()?, self.block()?]),
        };
        let begin = |block: &mut Block, from: Side, to: Side, piece: &CopyBox| {
            let number = self.controller.begin(peer, &self.request(from, to, piece))?;
            block.busy = Some(self.asked(peer, number));
            Ok(())
        };
        // SAFETY: the caller vouches for the box; the lock is held, and the blocks have `PIECE` bytes.
        let outcome = unsafe {
            match is_up {
                true => staging::up(stages, PIECE, host, shape, |block, piece| {
                    begin(block, Side::Shared(block.offset), device, piece)
                }),
                false => staging::down(stages, PIECE, host, shape, |block, piece| {
                    begin(block, device, Side::Shared(block.offset), piece)
                }),
            }
        };
        if outcome.is_err() {
            // No block is in use when the lock is released.
            stages.iter_mut().for_each(|block| drop(block.settle()));
        }
        outcome
    }

    fn block(&self) -> Result<Block, Failure> {
        let heap = self.heap()?;
        let block = heap.alloc(PIECE, 4096).map_err(|error| failed(&error))?;
        let data = heap.memory().pointer(block.offset, PIECE).map_err(|error| bad(error.to_string()))?;
        Ok(Block { data, offset: block.offset, busy: None })
    }
}

/// A block of shared memory, for ever.
struct Block {
    data: *mut u8,
    offset: u64,
    /// The copy that uses it.
    busy: Option<Asked>,
}

// SAFETY: the holder of the lock is the only user of its memory.
unsafe impl Send for Block {}

impl Stage for Block {
    fn data(&self) -> *mut u8 {
        self.data
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.busy.take().map_or(Ok(()), |copy| copy.wait())
    }
}
