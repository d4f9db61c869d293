//! The agent's side: a process that serves its devices to a controller.
//!
//! One thread takes requests and answers them. What may take long it gives to the device's worker thread: a
//! launch or a copy, unless it is known to be short and the worker is idle, and what compiles. So it
//! always hears of launches that are to stop, and that the controller has gone. Answers come from any thread.
//!
//! *Order.* What touches buffers of one device is done in the order in which the controller asked for it, by
//! the worker or, while that is idle, by the thread that takes requests. A controller relies on that for
//! devices whose launches return when they are done.
//!
//! An agent ends with its controller. Nothing of a device outlives it.

mod device;
mod fetch;
mod library;
mod recent;
mod signature;
#[cfg(test)]
mod tests;

use crate::wire::{self, Answer, Head, Kind, Request, Shape, bad};
use crate::world;
use device::{Kernel, LocalDevice};
use fetch::{Fetches, Source};
use flash_backend::abi::{ABI_MAJOR, ABI_MINOR};
use flash_backend::{Code, Failure};
use flash_net::{Detector, NetError, Peer, Progress, SharedMemory, Transport};
use recent::{Ready, Recent};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The controller is peer 0.
const CONTROLLER: Peer = Peer(0);

/// A controller of another host that gives no sign of life for this long has ended.
const SILENCE: Duration = Duration::from_secs(30);

/// What an agent has done, and has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentState {
    /// Ids of its devices.
    pub devices: Vec<String>,
    /// Launches that it was asked for.
    pub launches: u64,
    /// Bytes of the buffers that it has allocated.
    pub bytes: u64,
}

/// Is told of changes while the agent has nothing else to do.
static REPORT: OnceLock<fn(&AgentState)> = OnceLock::new();

/// At most once in this time.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Has a function told what this process does as an agent, soon after it has changed.
pub fn report_to(report: fn(&AgentState)) {
    let _ = REPORT.set(report);
}

/// An agent, for as long as its process lives: threads of backends answer through it.
pub(crate) struct Agent {
    transport: Box<dyn Transport>,
    /// The controller's, if it shares any.
    memory: Option<SharedMemory>,
    devices: Vec<LocalDevice>,
    kernels: Mutex<HashMap<u32, Arc<Kernel>>>,
    recent: Mutex<Recent>,
    /// The flags of launches that have not ended, by the numbers of their requests.
    running: Mutex<HashMap<u32, Arc<AtomicU32>>>,
    /// Bodies of answers that these processes have not read.
    lent: Mutex<HashSet<(Peer, u64)>>,
    /// Copies from other agents.
    fetches: Mutex<Fetches>,
    launches: AtomicU64,
    /// Work items of a launch and bytes of a buffer, at most.
    most: u64,
}

/// Serves the devices of this process's registry until the controller has gone.
///
/// # Errors
/// If this process is in no world, or the controller is of another version.
pub(crate) fn serve() -> Result<(), Failure> {
    let unavailable = |why: String| Failure::new(Code::Unavailable, why);
    // Before it joins, as drivers take their time: from then on it answers.
    let devices = device::all(world::key().as_deref())?;
    let transport = world::of_agent().map_err(unavailable)?;
    // A controller on another host has ended when it is silent.
    let transport: Box<dyn Transport> = match transport.is_watched_by_frames(CONTROLLER) {
        true => Box::new(Detector::new(transport, SILENCE)),
        false => transport,
    };
    Agent::new(transport, devices, u64::MAX).run();
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frames that were taken, one after the other.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Of each the sender and the end.
    ends: Vec<(Peer, usize)>,
}

/// A request and its answer: the other process, and the number.
#[derive(Clone, Copy)]
struct Exchange {
    peer: Peer,
    number: u32,
}

impl Exchange {
    fn controller(number: u32) -> Exchange {
        Exchange { peer: CONTROLLER, number }
    }
}

impl Agent {
    fn new(transport: Box<dyn Transport>, devices: Vec<LocalDevice>, most: u64) -> &'static Agent {
        Box::leak(Box::new(Agent {
            memory: transport.memory(CONTROLLER),
            transport,
            devices,
            kernels: Mutex::default(),
            recent: Mutex::default(),
            running: Mutex::default(),
            lent: Mutex::default(),
            fetches: Mutex::default(),
            launches: AtomicU64::new(0),
            most,
        }))
    }

    /// One of this process, for the devices of a key.
    ///
    /// # Errors
    /// Those of the key.
    pub fn here(transport: Box<dyn Transport>, key: &str, most: u64) -> Result<&'static Agent, Failure> {
        Ok(Agent::new(transport, device::all(Some(key))?, most))
    }

    fn run(&'static self) {
        let mut frames = Frames::default();
        let mut told = None;
        loop {
            let ticket = self.transport.ticket();
            if !self.poll(&mut frames) {
                if self.transport.lost(CONTROLLER).is_some() {
                    return;
                }
                let until = REPORT.get().and_then(|report| self.tell(*report, &mut told));
                match self.devices.iter().any(LocalDevice::computes) {
                    true => self.transport.doze(ticket, until),
                    false => self.transport.wait(ticket, until),
                }
            }
        }
    }

    /// Takes the frames that have come. True if there were any.
    pub fn poll(&'static self, frames: &mut Frames) -> bool {
        frames.bytes.clear();
        frames.ends.clear();
        let progress = self.transport.progress(&mut |from, frame| {
            frames.bytes.extend_from_slice(frame);
            frames.ends.push((from, frames.bytes.len()));
        });
        let mut begin = 0;
        for (from, end) in frames.ends.drain(..) {
            self.take(from, &frames.bytes[begin..end]);
            begin = end;
        }
        matches!(progress, Progress::Some)
    }

    /// True if nothing that it was asked for is still to be done.
    pub fn is_idle(&self) -> bool {
        let is_copying = !lock(&self.fetches).is_empty();
        !is_copying && self.devices.iter().all(LocalDevice::is_idle) && lock(&self.running).is_empty()
    }

    /// Gives back what its controller has made.
    pub fn forget(&self) {
        lock(&self.recent).clear();
        lock(&self.kernels).clear();
        self.devices.iter().for_each(LocalDevice::free_all);
        *lock(&self.fetches) = Fetches::default();
        let lent = std::mem::take(&mut *lock(&self.lent));
        if let Some(heap) = self.transport.heap() {
            lent.into_iter().for_each(|(_, offset)| drop(heap.free(offset)));
        }
    }

    /// Tells what has changed since it was told; until when that has to wait, if it has.
    fn tell(&self, report: fn(&AgentState), told: &mut Option<(AgentState, Instant)>) -> Option<Instant> {
        let state = self.state();
        match told {
            Some((known, _)) if *known == state => None,
            Some((_, at)) if at.elapsed() < REPORT_EVERY => Some(*at + REPORT_EVERY),
            _ => {
                report(&state);
                *told = Some((state, Instant::now()));
                None
            }
        }
    }

    fn state(&self) -> AgentState {
        AgentState {
            devices: self.devices.iter().map(|device| device.id().to_owned()).collect(),
            launches: self.launches.load(Relaxed),
            bytes: self.devices.iter().map(LocalDevice::bytes).sum(),
        }
    }

    fn take(&'static self, from: Peer, frame: &[u8]) {
        let Ok((head, rest)) = Head::split(frame) else { return };
        let this = Exchange { peer: from, number: head.number };
        let body = wire::body(&self.transport, from, head, rest);
        if head.kind == Kind::Answer {
            // What was lent is read. To say so may wait for room, and this thread does not.
            if let (Ok((_, Some(offset))), Some(device)) = (&body, self.devices.first()) {
                let (read, to) =
                    (Request::Read { offset: *offset }, Exchange { peer: from, number: u32::MAX });
                self.later(device, move || drop(self.send(to, Kind::Request, &read)));
            }
            return self.piece_came(this, body.map(|(body, _)| body));
        }
        // What is asked for borrows the body.
        let served = body.and_then(|(body, _)| match from {
            CONTROLLER => {
                let again = lock(&self.recent).find(&body);
                if let Some(ready) = again {
                    self.launches.fetch_add(1, Relaxed);
                    self.launch(head.number, ready);
                    return Ok(());
                }
                let (request, behind) = wire::decode(&body)?;
                self.serve(head.number, request, [&body, behind])
            }
            _ => match wire::decode(&body)?.0 {
                Request::Get { device, buffer, shape } => self.get(this, device, buffer, shape),
                Request::Read { offset } => {
                    self.was_read(from, offset);
                    Ok(())
                }
                _ => Err(bad("a request of an agent that only a controller may make".into())),
            },
        });
        let Err(failure) = served else { return };
        match self.devices.first() {
            // That may wait for room, and this thread does not wait for other agents.
            Some(device) if from != CONTROLLER => {
                self.later(device, move || self.answer_failure(this, &failure))
            }
            _ => self.answer_failure(this, &failure),
        }
    }

    /// Answers with a box of a buffer.
    fn get(&'static self, this: Exchange, device: u32, buffer: u64, shape: Shape) -> Result<(), Failure> {
        let device = self.device(device)?;
        let get = device.get(buffer, shape)?;
        // This thread does not wait for room.
        if get.is_short() && !matches!(self.try_answer(this, get.run()?), Err(NetError::Full { .. })) {
            return Ok(());
        }
        self.later(device, move || match get.run() {
            Ok(bytes) => self.answer_with(this, &Answer::Bytes, bytes),
            Err(failure) => self.answer_failure(this, &failure),
        });
        Ok(())
    }

    /// Does what is asked, or begins it. `came` is all that came, `behind` what of it is behind the request.
    /// An error is the answer.
    fn serve(
        &'static self,
        number: u32,
        request: Request<'_>,
        [came, behind]: [&[u8]; 2],
    ) -> Result<(), Failure> {
        let done = || self.answer(number, &Answer::Done { start: 0, end: 0 });
        match request {
            Request::Hello { version, abi } => {
                let (ours, our_abi) = (wire::VERSION, [ABI_MAJOR, ABI_MINOR]);
                if (version, abi) != (ours, our_abi) {
                    return Err(bad(format!(
                        "expected version {ours} and plugin interface {our_abi:?}, found {version} and {abi:?}"
                    )));
                }
                let devices = self.devices.iter().map(LocalDevice::remote).collect::<Result<_, _>>()?;
                self.answer(number, &Answer::Devices(devices));
            }
            Request::Prepare { device, kernel, implementation } => {
                let (device, implementation) = (self.device(device)?, library::of(&implementation)?);
                self.later(device, move || {
                    let prepared = device.prepare(implementation);
                    match prepared {
                        Ok(prepared) => {
                            lock(&self.recent).clear();
                            lock(&self.kernels).insert(kernel, Arc::new(prepared));
                            self.answer(number, &Answer::Done { start: 0, end: 0 });
                        }
                        Err(failure) => self.answer_failure(Exchange::controller(number), &failure),
                    }
                });
            }
            Request::Release { device, kernel } => {
                self.device(device)?;
                lock(&self.recent).clear();
                let released = lock(&self.kernels).remove(&kernel);
                drop(released);
            }
            Request::Preload { device, implementation } => {
                let (device, implementation) = (self.device(device)?, library::of(&implementation)?);
                self.later(device, move || {
                    device.preload(implementation);
                    self.answer(number, &Answer::Done { start: 0, end: 0 });
                });
            }
            Request::Submit { device, kernel, launch } => {
                self.launches.fetch_add(1, Relaxed);
                self.check_size(launch.items(), "work items")?;
                let device = self.device(device)?;
                let kernel = lock(&self.kernels).get(&kernel).cloned();
                let kernel = kernel.filter(|kernel| kernel.is_of(device));
                let kernel =
                    kernel.ok_or_else(|| bad("a launch of a kernel that was not prepared".into()))?;
                let launch = Arc::new(device.checked(self.memory.as_ref(), &kernel, &launch)?);
                // None is run, and a device might look at the first one.
                if launch.phases.is_empty() && launch.space().items > 0 {
                    done();
                } else {
                    let ready = Ready { device, kernel, launch };
                    lock(&self.recent).add(came, ready.clone());
                    self.launch(number, ready);
                }
            }
            Request::Cancel { number } => {
                if let Some(flag) = lock(&self.running).get(&number) {
                    flag.store(1, Relaxed);
                }
                self.cancel_fetch(number);
            }
            Request::Alloc { device, space, buffer, bytes } => {
                self.check_size(bytes, "bytes")?;
                self.device(device)?.alloc(space, buffer, bytes)?;
                done();
            }
            Request::Free { device, buffer } => {
                let device = self.device(device)?;
                lock(&self.recent).clear();
                device.free(buffer);
            }
            Request::Clear { device, buffer } => {
                let device = self.device(device)?;
                let buffer = device.held(buffer)?;
                self.later(device, move || self.answer_outcome(number, buffer.clear()));
            }
            Request::Copy { device, from, to, shape } => {
                let device = self.device(device)?;
                let copy = device.copy(self.memory.as_ref(), from, to, shape)?;
                self.later(device, move || self.answer_outcome(number, copy.run()));
            }
            Request::Put { device, buffer, shape } => {
                let device = self.device(device)?;
                match device.put(buffer, shape, behind, device.is_idle())? {
                    Some(copy) => self.later(device, move || self.answer_outcome(number, copy.run())),
                    None => done(),
                }
            }
            Request::Get { device, buffer, shape } => {
                self.get(Exchange::controller(number), device, buffer, shape)?;
            }
            Request::Fetch { device, buffer, shape, agent, from } => {
                let source = Source { peer: Peer(agent), device: from.0, buffer: from.1 };
                self.fetch(number, self.device(device)?, buffer, source, shape)?;
            }
            Request::Query { device, key } => {
                let text = self.device(device)?.query(key)?;
                self.answer(number, &Answer::Text(text.into()));
            }
            Request::Has { device, kind, name } => {
                let has = self.device(device)?.has(kind, name);
                self.answer(number, &Answer::Yes(has));
            }
            Request::Read { offset } => self.was_read(CONTROLLER, offset),
        }
        Ok(())
    }

    /// Frees what was lent to a process, which has read it.
    fn was_read(&self, by: Peer, offset: u64) {
        if lock(&self.lent).remove(&(by, offset))
            && let Some(heap) = self.transport.heap()
        {
            let _ = heap.free(offset);
        }
    }

    fn check_size(&self, found: u64, what: &str) -> Result<(), Failure> {
        match found <= self.most {
            true => Ok(()),
            false => Err(bad(format!("{found} {what}, expected at most {}", self.most))),
        }
    }

    fn device(&'static self, number: u32) -> Result<&'static LocalDevice, Failure> {
        let found = self.devices.get(number as usize);
        found.ok_or_else(|| bad(format!("device {number} of {}", self.devices.len())))
    }

    /// Runs a launch here if it is short, else on the device's worker.
    fn launch(&'static self, number: u32, Ready { device, kernel, launch }: Ready) {
        let flag = Arc::new(AtomicU32::new(0));
        let items = launch.space().items;
        let is_synchronous = kernel.is_synchronous();
        // Nothing can ask it to stop: that would come on this thread.
        let is_here = is_synchronous && kernel.is_short(items) && device.is_idle();
        if !is_here {
            lock(&self.running).insert(number, flag.clone());
        }
        let run = move || {
            let measured = kernel.clone();
            let over = move |outcome: Result<(u64, u64), Failure>| {
                if !is_here {
                    lock(&self.running).remove(&number);
                }
                match outcome {
                    Ok((start, end)) => {
                        measured.took(items, end.saturating_sub(start));
                        self.answer(number, &Answer::Done { start, end });
                    }
                    Err(failure) => self.answer_failure(Exchange::controller(number), &failure),
                }
            };
            device.submit(&kernel, launch, flag, over);
        };
        // Devices with queues of their own return at once.
        match is_here || !is_synchronous {
            true => run(),
            false => self.later(device, run),
        }
    }

    /// Lets a device's thread do something, after what it was given before.
    fn later(&'static self, device: &'static LocalDevice, job: impl FnOnce() + Send + 'static) {
        // The thread that takes frames sleeps while threads of this process compute, and looks for what comes
        // next once they do not.
        device.later(job, || self.transport.wake());
    }

    fn answer_outcome(&self, number: u32, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.answer(number, &Answer::Done { start: 0, end: 0 }),
            Err(failure) => self.answer_failure(Exchange::controller(number), &failure),
        }
    }

    fn answer_failure(&self, to: Exchange, failure: &Failure) {
        let answer = Answer::Failed { code: failure.code.raw(), text: (&*failure.text).into() };
        self.answer_with(to, &answer, &[]);
    }

    fn answer(&self, number: u32, answer: &Answer<'_>) {
        self.answer_with(Exchange::controller(number), answer, &[]);
    }

    /// Sends an answer, and bytes behind it. A process that has gone needs none.
    fn answer_with(&self, to: Exchange, answer: &Answer<'_>, bytes: &[u8]) {
        let _ = match answer {
            Answer::Done { .. } | Answer::Yes(_) => self.send(to, Kind::Answer, answer),
            _ => wire::encode(answer).and_then(|answer| self.post(|| self.lend(to, &answer, bytes))),
        };
    }

    /// Sends bytes that were asked for, if there is room.
    fn try_answer(&self, to: Exchange, bytes: &[u8]) -> Result<(), NetError> {
        self.lend(to, &wire::encode(&Answer::Bytes)?, bytes)
    }

    /// Sends an answer, and bytes behind it, which may stay in this process's memory until they are read.
    fn lend(&self, to: Exchange, answer: &[u8], bytes: &[u8]) -> Result<(), NetError> {
        // Before the other process can say that it has read it.
        let mut lent = lock(&self.lent);
        let block = wire::send(&self.transport, to.peer, (to.number, Kind::Answer), answer, bytes)?;
        lent.extend(block.map(|block| (to.peer, block.offset)));
        Ok(())
    }

    /// Sends a message that fits into a frame; waits for room.
    fn send(&self, to: Exchange, kind: Kind, message: &impl Serialize) -> Result<(), NetError> {
        let body = wire::encode(message)?;
        self.post(|| wire::send(&self.transport, to.peer, (to.number, kind), &body, &[]).map(drop))
    }

    /// The same, if there is room.
    fn try_send(&self, to: Exchange, kind: Kind, message: &impl Serialize) -> Result<(), NetError> {
        wire::send(&self.transport, to.peer, (to.number, kind), &wire::encode(message)?, &[]).map(drop)
    }

    /// Calls what posts a frame until there is room for it.
    fn post(&self, post: impl Fn() -> Result<(), NetError>) -> Result<(), NetError> {
        loop {
            let ticket = self.transport.ticket();
            match post() {
                Err(NetError::Full { .. }) => {
                    self.transport.wait(ticket, Some(Instant::now() + Duration::from_millis(1)));
                }
                sent => return sent,
            }
        }
    }
}
