//! A device of another process.
//!
//! Its kernels are prepared there; a launch is one request. An agent's device that works in the host's memory
//! works here in the memory that the processes share, which is a memory space of its own: the controller
//! allocates it and copies to and from it without asking the agent. Other devices have their own memories.

use super::agents::{Agent, Of};
use super::calls::{Number, Reply};
use super::memory::{Buffers, SHARED, place_of};
use super::{Asked, Controller, DeviceOf};
use crate::wire::{self, ImplementationImage, LaunchImage, Place, RemoteDevice, Request, bad};
use flash_backend::abi::{self, Buffer, CopyBox, HAS_FEATURE, HAS_LIBRARY};
use flash_backend::{Code, Completion, Device, DeviceInfo, Event, Failure, Launch, Upcoming};
use flash_net::{Peer, Transport};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device of an agent.
pub struct RankDevice {
    controller: &'static Controller,
    pub(crate) agent: &'static Agent,
    /// The agent's number of it.
    number: u32,
    /// Its id there.
    pub(crate) id: String,
    info: DeviceInfo,
    buffers: Buffers,
    /// Features and libraries that were asked for.
    has: Mutex<HashMap<(u32, String), bool>>,
    /// Launches that come again, as they were sent.
    sent: Mutex<SentLaunches>,
}

/// Launches as they were sent, each in the place that its number has. There is room for a power of two.
#[derive(Default)]
struct SentLaunches(Vec<Option<Sent>>);

/// A launch that was sent to a process.
struct Sent {
    /// The number of those that are like it.
    like: u64,
    peer: Peer,
    request: Vec<u8>,
}

impl SentLaunches {
    /// Launches that are kept at first, and at most.
    const ROOM: [usize; 2] = [16, 4096];

    fn place(&self, like: u64) -> usize {
        // Numbers of one device may be a multiple of a power of two apart.
        (like.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.0.len().trailing_zeros())) as usize
    }

    fn find(&self, like: u64, peer: Peer) -> Option<&[u8]> {
        if self.0.is_empty() {
            return None;
        }
        let sent = self.0[self.place(like)].as_ref()?;
        (sent.like == like && sent.peer == peer).then_some(&sent.request)
    }

    /// Takes the place of one that has it, or makes more places.
    fn add(&mut self, new: Sent) {
        let [first, most] = Self::ROOM;
        if self.0.is_empty() {
            self.0.resize_with(first, || None);
        }
        let is_taken =
            |all: &Self| all.0[all.place(new.like)].as_ref().is_some_and(|old| old.like != new.like);
        while self.0.len() < most && is_taken(self) {
            let all = std::mem::take(&mut self.0);
            self.0.resize_with(2 * all.len(), || None);
            for sent in all.into_iter().flatten() {
                let place = self.place(sent.like);
                self.0[place] = Some(sent);
            }
        }
        let place = self.place(new.like);
        self.0[place] = Some(new);
    }
}

/// A kernel that a process of the agent has made ready; another one does, when the device is next used. It is
/// released there when it goes.
pub struct RankKernel {
    controller: &'static Controller,
    device: u32,
    implementation: &'static abi::Implementation,
    /// The process, and its number there: see [`place`].
    at: AtomicU64,
    /// Held by a thread that lets another process make it ready.
    again: Mutex<()>,
}

/// A process and a kernel's number there, in one word.
fn place(peer: Peer, number: u32) -> u64 {
    u64::from(peer.0) << 32 | u64::from(number)
}

impl RankKernel {
    /// Its number in the process that serves now, if that has it.
    fn number(&self, peer: Peer) -> Option<u32> {
        let at = self.at.load(Acquire);
        (at >> 32 == u64::from(peer.0)).then_some(at as u32)
    }

    #[cold]
    fn prepare(&self, peer: Peer) -> Result<u32, Failure> {
        let _again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = self.number(peer) {
            return Ok(number);
        }
        let number = self.controller.number() as u32;
        let implementation = ImplementationImage::of(self.implementation);
        let request = Request::Prepare { device: self.device, kernel: number, implementation };
        self.controller.ask(peer, &request, std::ptr::null())?;
        self.at.store(place(peer, number), Release);
        Ok(number)
    }
}

impl Drop for RankKernel {
    fn drop(&mut self) {
        let at = *self.at.get_mut();
        let release = Request::Release { device: self.device, kernel: at as u32 };
        self.controller.tell(Peer((at >> 32) as u32), &release);
    }
}

impl RankDevice {
    /// The devices of an agent, by what it said.
    ///
    /// # Errors
    /// Properties that cannot be read.
    pub(crate) fn all(
        controller: &'static Controller,
        agent: &'static Agent,
        found: Vec<RemoteDevice>,
    ) -> Result<Vec<RankDevice>, String> {
        let one = |(number, remote): (usize, RemoteDevice)| {
            let RemoteDevice { id, info, target, spaces } = remote;
            let mut info: DeviceInfo = serde_json::from_str(&info).map_err(|why| {
                bad(format!("properties of device {id} of {} that cannot be read: {why}", agent.name)).text
            })?;
            if info.targets.is_empty() {
                info.targets.push(target);
            }
            // A part of the host's memory would be this process's own.
            let works_in_hosts = std::mem::take(&mut info.host_memory);
            let is_apart = controller.transport.memory(agent.peer()).is_none();
            // Its agent then does one thing after the other, as it is asked. Where memory is shared nothing
            // is copied that a launch could wait for there.
            info.waits_in_queue = works_in_hosts && info.synchronous && is_apart;
            info.remote = true;
            info.synchronous = false;
            info.runs_functions = false;
            info.keeps_launches = true;
            info.suffix = match &agent.of {
                Of::Rank(rank) => format!("{rank}/{id}"),
                Of::Key(key) => format!("{id}@{}", key.rsplit_once('@').map_or("", |(_, agent)| agent)),
            };
            if matches!(agent.of, Of::Key(_)) {
                // The same device in this process is faster, and is taken where either would do.
                info.rate_hint *= 0.99;
            }
            let buffers = Buffers::new(controller, agent, number as u32, works_in_hosts, &spaces);
            Ok(RankDevice {
                controller,
                agent,
                number: number as u32,
                id,
                info,
                buffers,
                has: Mutex::default(),
                sent: Mutex::default(),
            })
        };
        found.into_iter().enumerate().map(one).collect()
    }

    /// True if its agent is lost for good.
    pub(crate) fn is_gone(&self) -> bool {
        self.controller.is_gone(self.agent)
    }

    /// Its properties.
    pub(crate) fn properties(&self) -> &DeviceInfo {
        &self.info
    }

    fn ask(&self, request: &Request<'_>) -> Result<Reply, Failure> {
        let peer = self.controller.serving(self.agent)?;
        self.controller.ask(peer, request, std::ptr::null()).map_err(|failure| self.named(failure))
    }

    /// With the name of the agent and its device, if the failure is the agent's.
    fn named(&self, failure: Failure) -> Failure {
        match failure.code {
            Code::Cancelled | Code::DeviceLost => failure,
            code => Failure::new(code, format!("{}, {}: {}", self.agent.name, self.id, failure.text)),
        }
    }

    /// Sends a launch to a process. After an error nothing was sent.
    fn begin(&self, launch: &Launch<'_, RankKernel>, peer: Peer) -> Result<(Peer, Number), Failure> {
        // Where nothing was in flight, no thread has noticed.
        if self.controller.is_lost(peer) {
            return Err(self.controller.loss_of(peer));
        }
        let like = launch.like();
        if let Some(request) = self.sent(like, peer) {
            return Ok((peer, self.controller.begin_with(peer, &request, &[], None)?));
        }
        let kernel = launch.kernel();
        let kernel = match kernel.number(peer) {
            Some(number) => number,
            None => kernel.prepare(peer)?,
        };
        let elsewhere = Cell::new(None);
        let image = LaunchImage::of(launch, |arg, data, handle| match arg.space {
            SHARED => self.buffers.offset(data.addr() as u64).map_or(Place::Nowhere, Place::Shared),
            _ if handle == 0 => Place::Nowhere,
            _ => {
                let (at, buffer) = place_of(handle);
                if at != peer {
                    elsewhere.set(Some(at));
                }
                Place::Buffer(buffer)
            }
        });
        if let Some(lost) = elsewhere.get() {
            return Err(self.controller.loss_of(lost));
        }
        let request = Request::Submit { device: self.number, kernel, launch: image };
        let request = wire::encode(&request).map_err(|error| wire::failed(&error))?;
        if like != 0 {
            self.all_sent().add(Sent { like, peer, request: request.to_vec() });
        }
        Ok((peer, self.controller.begin_with(peer, &request, &[], None)?))
    }

    /// How a launch with this number, which may be 0, was sent to this process, if it is known.
    fn sent(&self, like: u64, peer: Peer) -> Option<SmallVec<[u8; 512]>> {
        if like == 0 {
            return None;
        }
        self.all_sent().find(like, peer).map(SmallVec::from_slice)
    }

    fn all_sent(&self) -> MutexGuard<'_, SentLaunches> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, kind: u32, name: &str) -> bool {
        let known = || self.has.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = known().get(&(kind, name.to_owned())) {
            return *has;
        }
        let answer = self.ask(&Request::Has { device: self.number, kind, name });
        let has = matches!(answer, Ok(Reply::Yes(true)));
        if answer.is_ok() {
            known().insert((kind, name.to_owned()), has);
        }
        has
    }
}

impl Device for RankDevice {
    type Kernel = RankKernel;

    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<RankKernel, Failure> {
        let kernel = RankKernel {
            controller: self.controller,
            device: self.number,
            implementation,
            at: AtomicU64::new(place(Peer(0), 0)),
            again: Mutex::new(()),
        };
        let prepare = || kernel.prepare(self.controller.serving(self.agent)?);
        // A process that goes meanwhile has run nothing: another one may.
        let lost = |failure: &Failure| failure.code == Code::DeviceLost;
        let outcome = prepare().or_else(|failure| if lost(&failure) { prepare() } else { Err(failure) });
        outcome.map_err(|failure| self.named(failure))?;
        Ok(kernel)
    }

    fn preload(&self, implementation: &'static abi::Implementation) {
        let implementation = ImplementationImage::of(implementation);
        let _ = self.ask(&Request::Preload { device: self.number, implementation });
    }

    fn has_feature(&self, feature: &str) -> bool {
        self.has(HAS_FEATURE, feature)
    }

    fn has_library(&self, names: &str) -> bool {
        self.has(HAS_LIBRARY, names)
    }

    fn submit(&self, launch: &Launch<'_, RankKernel>) -> Result<Option<Event>, Failure> {
        let (peer, number) = match self.begin(launch, self.agent.peer()) {
            // It was not sent: another process may run it.
            Err(failure) if failure.code == Code::DeviceLost => {
                self.begin(launch, self.controller.serving(self.agent)?)
            }
            begun => begun,
        }
        .map_err(|failure| self.named(failure))?;
        if !launch.is_awaited() {
            let (stop, of) = (launch.stop_flag(), DeviceOf { peer, number: self.number });
            return Ok(Some(Event::new(match launch.is_waited_for() && stop.is_null() {
                true => Asked::waited(self.controller, of, number),
                false => Asked::new(self.controller, of, number, stop),
            })));
        }
        let reply = self.controller.wait_for(peer, number, launch.stop_flag());
        if let Reply::Done(start, end) = reply.map_err(|failure| self.named(failure))? {
            launch.report_unasked(end.saturating_sub(start));
        }
        Ok(None)
    }

    fn run_after(&self, event: &Event, _: Upcoming) -> Result<bool, Failure> {
        // Its process was asked for that before, and does one after the other.
        let own = DeviceOf { peer: self.agent.peer(), number: self.number };
        Ok(event.completion::<Asked>().is_some_and(|asked| asked.of == own && asked.in_queue()))
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        self.buffers.spaces().to_vec()
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    fn shared_file(&self, buffer: Buffer) -> Result<(i32, u64), Failure> {
        self.buffers.shared_file(buffer)
    }

    unsafe fn clear(&self, buffer: Buffer, bytes: u64) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.clear(buffer, bytes) }
    }

    fn free(&self, buffer: Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn copy_box(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<(), Failure> {
        // SAFETY: the caller vouches.
        let copy = unsafe { self.buffers.begin_copy(from, to, shape)? };
        copy.map_or(Ok(()), |copy| copy.wait())
    }

    unsafe fn begin_copy(&self, from: Buffer, to: Buffer, shape: &CopyBox) -> Result<Option<Event>, Failure> {
        // SAFETY: the caller vouches.
        unsafe { self.buffers.begin_copy(from, to, shape) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        self.buffers.can_copy(from, to)
    }

    fn query(&self, key: &str) -> Option<String> {
        match key {
            "rank" => match self.agent.of {
                Of::Rank(rank) => return Some(rank.to_string()),
                Of::Key(_) => return None,
            },
            "pid" => return Some(self.controller.pid(self.agent.peer())?.to_string()),
            _ => {}
        }
        match self.ask(&Request::Query { device: self.number, key }) {
            Ok(Reply::Text(text)) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_were_sent_are_found_while_there_is_room() {
        let mut all = SentLaunches::default();
        let sent = |like: u64, peer| Sent { like, peer: Peer(peer), request: like.to_le_bytes().to_vec() };
        assert_eq!(all.find(1, Peer(1)), None);
        // As the numbers of one of many devices are.
        let numbers = || (1..1000u64).map(|i| 64 * i);
        numbers().for_each(|like| all.add(sent(like, 1)));
        let found = numbers().filter(|like| all.find(*like, Peer(1)) == Some(&like.to_le_bytes()));
        assert!(found.count() > 900);
        assert_eq!(all.find(64 * 1000, Peer(1)), None);
        // Another process has taken its place.
        all.add(sent(64, 2));
        assert_eq!((all.find(64, Peer(1)), all.find(64, Peer(2))), (None, Some(&64u64.to_le_bytes()[..])));
        (0..100_000).for_each(|like| all.add(sent(like, 1)));
        assert!(all.0.len() <= SentLaunches::ROOM[1] && all.find(99_999, Peer(1)).is_some());
    }
}
