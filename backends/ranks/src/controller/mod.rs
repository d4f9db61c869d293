//! The controller's side: the world that it is in, the agents and their devices, and what is asked of them.
//!
//! Threads that wait take the frames that have come, for themselves and for others. While something is in
//! flight that no thread waits for, a thread of this module's does; else it sleeps. Callbacks of the host are
//! called by that thread or by another of this module's: a thread that waits may hold what they need.

mod agents;
mod calls;
mod device;
mod memory;
mod pieces;

pub(crate) use agents::{Of, served};
pub use device::RankDevice;

use crate::wire::{self, Answer, Head, Kind, Request};
use crate::world;
use agents::Agent;
use calls::{Callback, Calls, Destination, Number, Outcome, Reply, Unawaited};
use flash_backend::offload::Worker;
use flash_backend::{Code, Completion, Failure, Unavailable, caught, is_stopped};
use flash_net::{Detector, NetError, Peer, Progress, Transport, World};
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long the agents of a world have to say what they have.
const START: Duration = Duration::from_secs(60);
/// How often an agent of another host gets a sign of life, if it asks for one.
const SIGN: Duration = Duration::from_millis(100);
/// How often a thread that waits for a launch looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(5);

/// The controller of a world.
pub(crate) struct Controller {
    /// That of this host's processes, to which others can be added; over MPI there may be none.
    world: Option<&'static World>,
    transport: Detector<Box<dyn Transport>>,
    /// The agents that were started with it.
    ranks: Vec<&'static Agent>,
    calls: Calls,
    /// Numbers of kernels and buffers, which no two agents share.
    numbers: AtomicU64,
    /// Whose memory spaces are: agents' devices, with the agents' numbers of these, from space
    /// [`SHARED`](memory::SHARED) + 1 on.
    spaces: RwLock<Vec<(&'static Agent, u32)>>,
    /// Requests that no thread may be waiting for.
    unawaited: AtomicUsize,
    /// Wakes the thread that takes their answers.
    asleep: Mutex<()>,
    wanted: Condvar,
    /// Calls the host's callbacks that came to other threads.
    caller: Worker,
    /// Waits for copies of several pieces, for which no thread of the host does.
    copier: Worker,
    /// Starts processes.
    starter: Worker,
    /// Launches that no thread may be waiting for, and their flags, until they were told to stop or are over.
    stoppable: Mutex<Vec<Stoppable>>,
}

/// A launch that the host may ask to stop.
struct Stoppable {
    to: Peer,
    number: Number,
    flag: *const u32,
}

// SAFETY: the address of a number that is read atomically, from any thread.
unsafe impl Send for Stoppable {}

impl Controller {
    /// The controller of this process's world, which is made if there is none and it is to be `alone`. A
    /// process that gives no sign of life for longer than `limit` is lost.
    ///
    /// # Errors
    /// If this process is in none.
    pub fn start(limit: Duration, alone: bool) -> Result<&'static Controller, Unavailable> {
        let (transport, world) = world::of_controller(alone).map_err(Unavailable)?;
        Controller::on(transport, world, limit)
    }

    /// The controller of a world.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn on(
        transport: Box<dyn Transport>,
        world: Option<&'static World>,
        limit: Duration,
    ) -> Result<&'static Controller, Unavailable> {
        let ranks = (1..transport.peers() as u32).map(|rank| Agent::of_rank(Peer(rank))).collect();
        let controller: &'static Controller = Box::leak(Box::new(Controller {
            world,
            transport: Detector::new(transport, limit),
            ranks,
            calls: Calls::new(),
            numbers: AtomicU64::new(1),
            spaces: RwLock::default(),
            unawaited: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wanted: Condvar::new(),
            caller: Worker::new("flash-ranks-done"),
            copier: Worker::new("flash-rank-copy"),
            starter: Worker::new("flash-ranks-start"),
            stoppable: Mutex::default(),
        }));
        let thread = std::thread::Builder::new().name("flash-ranks".to_owned());
        let started = thread.spawn(|| controller.take_unawaited());
        started.map_err(|error| Unavailable(format!("a thread for the answers of agents: {error}")))?;
        Ok(controller)
    }

    /// The devices of the agents that were started with it.
    ///
    /// # Errors
    /// If one of them does not say what it has.
    pub fn devices(&'static self) -> Result<Vec<RankDevice>, Unavailable> {
        self.devices_of(&self.ranks)
    }

    fn devices_of(&'static self, agents: &[&'static Agent]) -> Result<Vec<RankDevice>, Unavailable> {
        let found = self.ask_all(agents).map_err(|failure| Unavailable(failure.text))?;
        let devices = found.into_iter().map(|(agent, found)| RankDevice::all(self, agent, found));
        let devices: Result<Vec<Vec<RankDevice>>, String> = devices.collect();
        Ok(devices.map_err(Unavailable)?.into_iter().flatten().collect())
    }

    /// The devices of another agent of a process.
    ///
    /// # Errors
    /// As [`devices`](Self::devices).
    pub fn devices_at(&'static self, peer: Peer) -> Result<Vec<RankDevice>, Unavailable> {
        self.devices_of(&[Agent::of_rank(peer)])
    }

    /// A number for a memory space of an agent's device.
    fn space(&self, agent: &'static Agent, device: u32) -> u32 {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        spaces.push((agent, device));
        memory::SHARED + spaces.len() as u32
    }

    /// The agent of a memory space, and its number of the device. None: shared memory, or the host's.
    fn owner(&self, space: u32) -> Option<(&'static Agent, u32)> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space.checked_sub(memory::SHARED + 1)? as usize).copied()
    }

    /// A number for a kernel or a buffer.
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// Sends a request. Its answer is to be waited for, or left.
    fn begin(&self, to: Peer, request: &Request<'_>) -> Result<Number, Failure> {
        self.begin_with(to, &wire::encode(request).map_err(|error| wire::failed(&error))?, &[], None)
    }

    /// The same, as it was written, with bytes behind it, or in its answer.
    fn begin_with(
        &self,
        to: Peer,
        request: &[u8],
        bytes: &[u8],
        destination: Option<Destination>,
    ) -> Result<Number, Failure> {
        let number = loop {
            match self.calls.take(to) {
                Some(number) => break number,
                None => self.take_some(),
            }
        };
        if let Some(destination) = destination {
            self.calls.brings(number, destination);
        }
        match self.post(to, (number.0, Kind::Request), request, bytes) {
            Ok(lent) => {
                if let Some(lent) = self.calls.lend(number, lent) {
                    self.take_back(lent);
                }
                Ok(number)
            }
            Err(failure) => {
                self.calls.give_up(number);
                Err(failure)
            }
        }
    }

    /// Sends a request that has no answer. Nothing is said to an agent that has gone.
    fn tell(&self, to: Peer, request: &Request<'_>) {
        if let Ok(request) = wire::encode(request) {
            let _ = self.post(to, (u32::MAX, Kind::Request), &request, &[]);
        }
    }

    fn post(
        &self,
        to: Peer,
        head: (u32, Kind),
        request: &[u8],
        bytes: &[u8],
    ) -> Result<Option<wire::Lent>, Failure> {
        loop {
            match wire::send(&self.transport, to, head, request, bytes) {
                // The agent may be waiting for room for its answers.
                Err(NetError::Full { .. }) => self.take_some(),
                outcome => return outcome.map_err(|error| wire::failed(&error)),
            }
        }
    }

    fn take_back(&self, lent: wire::Lent) {
        if let Some(heap) = self.transport.heap() {
            let _ = heap.free(lent.offset);
        }
    }

    /// Asks, and waits for the answer. `stop`: NULL, or the flag of a launch, which lives as long.
    fn ask(&self, to: Peer, request: &Request<'_>, stop: *const u32) -> Outcome {
        self.wait_for(to, self.begin(to, request)?, stop)
    }

    fn wait_for(&self, from: Peer, number: Number, stop: *const u32) -> Outcome {
        self.wait_until(from, number, stop, None);
        self.taken(number)
    }

    fn taken(&self, number: Number) -> Outcome {
        let none = || Err(wire::bad("an answer was taken twice".into()));
        self.calls.take_outcome(number).unwrap_or_else(none)
    }

    /// Waits for an answer. False: the time is over.
    fn wait_until(&self, from: Peer, number: Number, stop: *const u32, until: Option<Instant>) -> bool {
        let mut is_told = false;
        let looks = || {
            // SAFETY: the caller's flag, which lives until the launch is over.
            if !is_told && unsafe { is_stopped(stop) } {
                is_told = true;
                self.tell(from, &Request::Cancel { number: number.0 });
            }
            let again = !stop.is_null() && !is_told;
            again.then(|| Instant::now() + LOOK)
        };
        self.take_until(|| self.calls.is_answered(number), looks, until)
    }

    /// Takes answers until something `is_there`. `looks` is called before each wait, and may say when it is
    /// to be called again. False: the time is over.
    fn take_until(
        &self,
        is_there: impl Fn() -> bool,
        mut looks: impl FnMut() -> Option<Instant>,
        until: Option<Instant>,
    ) -> bool {
        loop {
            let ticket = self.transport.ticket();
            if is_there() {
                return true;
            }
            let again = looks();
            if self.take() {
                continue;
            }
            self.settle_losses();
            if is_there() {
                return true;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
            self.transport.wait(ticket, again.into_iter().chain(until).min());
        }
    }

    /// Takes answers, or waits until there may be some.
    fn take_some(&self) {
        let ticket = self.transport.ticket();
        if !self.take() {
            self.settle_losses();
            self.transport.wait(ticket, Some(Instant::now() + LOOK));
        }
    }

    /// Takes answers that have come. True if there was any.
    fn take(&self) -> bool {
        let callbacks = self.take_answers();
        let any = callbacks.is_some();
        callbacks.into_iter().flatten().for_each(|callback| self.caller.run(callback));
        any
    }

    /// The same; gives the callbacks of the host. `None`: no answer has come.
    fn take_answers(&self) -> Option<Vec<Callback>> {
        // What frames bring about is done when they are taken, since it may send some.
        let (mut callbacks, mut read) = (Vec::new(), Vec::new());
        let progress = self.transport.progress(&mut |from, frame| {
            let (settled, offset) = self.answered(from, frame);
            callbacks.extend(settled);
            read.extend(offset.map(|offset| (from, offset)));
        });
        if !matches!(progress, Progress::Some) {
            return None;
        }
        // They may be what other threads wait for.
        self.transport.wake();
        read.into_iter().for_each(|(from, offset)| self.tell(from, &Request::Read { offset }));
        Some(callbacks)
    }

    /// What is to be called, and the place of a body in the agent's memory.
    fn answered(&self, from: Peer, frame: &[u8]) -> (Vec<Callback>, Option<u64>) {
        let Ok((head, rest)) = Head::split(frame) else { return (Vec::new(), None) };
        if head.kind != Kind::Answer {
            return (Vec::new(), None);
        }
        let number = Number(head.number);
        let (outcome, offset) = match wire::body(&self.transport, from, head, rest) {
            Ok((body, offset)) => (self.reply(number, from, &body), offset),
            Err(failure) => (Err(failure), None),
        };
        (self.settle(number, from, outcome), offset)
    }

    /// What an answer says. Bytes that it brings are put where they belong.
    fn reply(&self, number: Number, from: Peer, body: &[u8]) -> Outcome {
        let (answer, behind) = wire::decode(body)?;
        Ok(match answer {
            Answer::Done { start, end } => Reply::Done(start, end),
            Answer::Failed { code, text } => return Err(Failure::new(Code::of(code), text)),
            Answer::Devices(devices) => Reply::Devices(devices),
            Answer::Text(text) => Reply::Text(text.into_owned()),
            Answer::Yes(yes) => Reply::Yes(yes),
            Answer::Bytes => {
                self.calls.bring(number, from, behind)?;
                Reply::Done(0, 0)
            }
        })
    }

    /// Ends a request. What the host wants to be called comes back.
    fn settle(&self, number: Number, from: Peer, outcome: Outcome) -> Vec<Callback> {
        let settled = {
            // Before the answer is seen: the host may free the flag of a launch then. Held, so that a launch
            // whose flag is noted just now is noted before this, or finds its answer.
            let mut stoppable = self.stoppable();
            stoppable.retain(|launch| launch.number != number);
            self.calls.settle(number, from, outcome)
        };
        settled.lent.into_iter().for_each(|lent| self.take_back(lent));
        if settled.was_counted {
            self.unawaited.fetch_sub(1, SeqCst);
        }
        settled.callbacks
    }

    fn stoppable(&self) -> MutexGuard<'_, Vec<Stoppable>> {
        self.stoppable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers for agents that have gone.
    fn settle_losses(&self) {
        for agent in (1..self.transport.peers() as u32).map(Peer) {
            let Some(loss) = self.transport.lost(agent) else { continue };
            // Their agents end them, and answer, so that nothing of them comes later.
            let needing = self.calls.needing(agent);
            let lost = self.calls.to(agent);
            if !needing.is_empty() || !lost.is_empty() {
                self.end_if_silent(agent, &loss.how);
            }
            for (to, number) in needing {
                self.tell(to, &Request::Cancel { number: number.0 });
            }
            let lost = lost.into_iter();
            let callbacks: Vec<_> =
                lost.map(|number| self.settle(number, agent, Err(wire::gone(&loss)))).collect();
            if !callbacks.is_empty() {
                self.transport.wake();
            }
            callbacks.into_iter().flatten().for_each(|callback| self.caller.run(callback));
        }
    }

    /// The process of an agent.
    fn pid(&self, agent: Peer) -> Option<u32> {
        Some(self.transport.info(agent)?.pid)
    }

    /// True if an agent has gone.
    fn is_lost(&self, agent: Peer) -> bool {
        self.transport.lost(agent).is_some()
    }

    /// What is said of a process that is gone.
    fn loss_of(&self, peer: Peer) -> Failure {
        match self.transport.lost(peer) {
            Some(loss) => wire::gone(&loss),
            None => wire::bad(format!("a buffer of {peer} in a launch for another process")),
        }
    }

    /// Takes the answers that no thread waits for, for ever.
    fn take_unawaited(&self) {
        // Agents of other hosts know by that alone that this process is there.
        let is_far = |agent| self.transport.is_watched_by_frames(Peer(agent));
        let pause = match (1..self.transport.peers() as u32).any(is_far) {
            true => SIGN,
            false => Duration::from_secs(86400),
        };
        loop {
            let mut lock = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            while self.unawaited.load(Acquire) == 0 {
                let (again, waited) =
                    self.wanted.wait_timeout(lock, pause).unwrap_or_else(PoisonError::into_inner);
                lock = again;
                if waited.timed_out() {
                    break;
                }
            }
            drop(lock);
            let ticket = self.transport.ticket();
            if let Some(callbacks) = self.take_answers() {
                // Each is of another owner, and this thread holds nothing.
                callbacks.into_iter().for_each(|callback| drop(caught(callback)));
            } else {
                self.settle_losses();
                let looks = self.stop_launches();
                if self.unawaited.load(Acquire) > 0 {
                    self.transport.wait(ticket, looks.then(|| Instant::now() + LOOK));
                }
            }
        }
    }

    /// Leaves the answer of a request to the thread that takes those. `leave` says whether it is left to it
    /// by this: else it was over, or was left before.
    fn leave<R>(&self, leave: impl FnOnce() -> (R, bool)) -> R {
        let before = self.unawaited.fetch_add(1, SeqCst);
        let (result, is_left) = leave();
        // Others may have counted on this one to wake the thread meanwhile.
        let is_wanted = is_left || self.unawaited.fetch_sub(1, SeqCst) > 1;
        if before == 0 && is_wanted {
            drop(self.asleep.lock().unwrap_or_else(PoisonError::into_inner));
            self.wanted.notify_one();
        }
        result
    }

    /// Tells agents of launches that are to stop. True if there are others that may be.
    fn stop_launches(&self) -> bool {
        let mut told = Vec::new();
        let mut all = self.stoppable();
        // SAFETY: flags of launches that are not over: they leave the list before.
        all.retain(|launch| match unsafe { is_stopped(launch.flag) } {
            true => {
                told.push((launch.to, launch.number));
                false
            }
            false => true,
        });
        let looks = !all.is_empty();
        drop(all);
        told.into_iter().for_each(|(to, number)| self.tell(to, &Request::Cancel { number: number.0 }));
        looks
    }
}

/// A device of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceOf {
    peer: Peer,
    /// The process's number of it.
    number: u32,
}

/// The completion of a request.
pub(crate) struct Asked {
    controller: &'static Controller,
    answer: Arc<Unawaited>,
    of: DeviceOf,
    /// Another agent that it takes to answer: if it has gone, that is why there is a failure.
    source: Option<Peer>,
}

impl Asked {
    /// `stop`: NULL, or the flag of a launch, which lives until that is over.
    fn new(controller: &'static Controller, of: DeviceOf, number: Number, stop: *const u32) -> Asked {
        if !stop.is_null() {
            controller.stoppable().push(Stoppable { to: of.peer, number, flag: stop });
        }
        let answer = controller.leave(|| controller.calls.unawaited(number, true));
        if answer.outcome().is_some() {
            controller.stoppable().retain(|launch| launch.number != number);
        }
        Asked { controller, answer, of, source: None }
    }

    /// The same of what is not to be stopped, and whose answer a thread of the host takes soon.
    fn waited(controller: &'static Controller, of: DeviceOf, number: Number) -> Asked {
        Asked { controller, answer: controller.calls.unawaited(number, false).0, of, source: None }
    }
}

impl Completion for Asked {
    fn in_queue(&self) -> bool {
        // What another agent brings comes when that has it.
        self.source.is_none()
    }

    fn ready(&self) -> bool {
        // It may be among answers that no thread has taken.
        self.answer.outcome().is_some() || self.controller.take() && self.answer.outcome().is_some()
    }

    fn wait(&self) -> Result<(), Failure> {
        if self.answer.outcome().is_none() {
            self.controller.take_until(|| self.answer.outcome().is_some(), || None, None);
        }
        let Some(Err(failure)) = self.answer.outcome() else { return Ok(()) };
        Err(match self.source.filter(|source| self.controller.is_lost(*source)) {
            Some(source) => self.controller.loss_of(source),
            None => failure.clone(),
        })
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        if let Some(callback) = self.controller.leave(|| self.answer.on_outcome(callback)) {
            callback();
        }
    }

    fn times(&self) -> Option<(u64, u64)> {
        match self.answer.outcome()? {
            Ok(Reply::Done(start, end)) => Some((*start, *end)),
            _ => None,
        }
    }
}
