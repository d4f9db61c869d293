//! Child ranks: a function on some devices, or its failsafe.
//!
//! A message that is known to be short, as large ones of the same child rank were, runs in the call that
//! sends it. Others are started and run on the workers, or on the thread that receives them; where they are
//! received at once, they are not even started (`deferred.rs`). The rule is measured: see [`Timing`].
//!
//! A message whose device is lost runs again where it is received, on another device of the platform
//! (`replicas.rs`), if all that it needs for that is left: see [`Message::cannot_run_again`]. A child rank
//! that is stateful does not move.

use crate::config::Strategy;
use crate::deferred::{Deferred, begin_waiting};
use crate::error::{Code, Error, Result};
use crate::forward::{self, Forwarded};
use crate::mailbox::Envelope;
use crate::message::{Message, Outcome};
use crate::object::{Array, ComputeObj, Contents, Item, Place, Shape};
use crate::ranks::Ordinary;
use crate::replicas::{Replica, Replicas};
use crate::world::World;
use flash_core::descriptor::{Access, View};
use flash_core::memory::{AnyMemory, AnyType};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What runs where there is no implementation: it gets the arguments, whose arrays it reads and writes.
pub type Failsafe = Arc<dyn Fn(&Arc<ComputeObj>) -> std::result::Result<(), String> + Send + Sync>;

/// A child rank.
pub(crate) struct Child {
    id: AtomicI32,
    alias: String,
    pub world: Arc<World>,
    /// Its devices; none: it has only its failsafe.
    replicas: Replicas,
    strategy: Strategy,
    failsafe: Option<Failsafe>,
    turn: AtomicUsize,
    /// How many of its long messages in a row were received [right after](SOON) they were sent.
    soon: AtomicU32,
    /// It has buffers, so that all of its messages go to its first device.
    stateful: AtomicBool,
    buffers: Mutex<Vec<i32>>,
    freed: AtomicBool,
    /// Messages that were received; boxes, as mailboxes have them.
    #[allow(clippy::vec_box)]
    spare: Mutex<Vec<Box<Message>>>,
}

/// Where the result of a message goes.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// A parent rank of this process.
    Parent(u32),
    /// Another process, as a compute object or as the elements of its one array.
    Rank { to: Ordinary, is_object: bool },
}

/// What a device has to do.
#[derive(Default)]
pub(crate) struct Load {
    pub children: AtomicU32,
    pub messages: AtomicU32,
}

/// How long a function takes on a device.
///
/// A message runs at once if it has at most as many bytes as one that took at most [`SHORT`], and is started
/// if it has as many as one that took longer three times in a row. Between them, and each [`SAMPLE`]th time,
/// the time is taken. Before anything is known, messages up to [`SMALL`] are tried.
#[derive(Default)]
pub(crate) struct Timing {
    runs: AtomicU32,
    short_up_to: AtomicUsize,
    /// 0: nothing is known to be long.
    long_from: AtomicUsize,
    strikes: AtomicU32,
    /// Nanoseconds for a MiB, or for a message if it is shorter; 0: not measured.
    rate: AtomicU64,
}

/// Nanoseconds that a call may take to send.
const SHORT: u64 = 20_000;
/// Bytes that are tried.
const SMALL: usize = 64 << 10;
/// One in this many is measured.
const SAMPLE: u32 = 64;
/// A long message is received right after it was sent: a parked worker would not have come by then.
const SOON: Duration = Duration::from_micros(20);
/// After so many of these in a row the next one runs where it is received.
const IN_A_ROW: u32 = 4;
/// Messages that a child rank keeps.
const SPARE: usize = 64;
/// How often a message runs again whose device is lost: a kernel that ends its process ends no more.
const AGAIN: u32 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    AtOnce,
    Timed,
    Started,
}

impl Timing {
    #[inline]
    fn way(&self, bytes: usize) -> Way {
        let long = self.long_from.load(Relaxed);
        if bytes >= if long == 0 { SMALL + 1 } else { long } {
            return Way::Started;
        }
        let runs = self.runs.load(Relaxed);
        self.runs.store(runs.wrapping_add(1), Relaxed);
        match bytes <= self.short_up_to.load(Relaxed) && !runs.is_multiple_of(SAMPLE) {
            true => Way::AtOnce,
            false => Way::Timed,
        }
    }

    #[cold]
    fn measured(&self, bytes: usize, nanoseconds: u64) {
        self.rate(bytes, nanoseconds);
        if nanoseconds <= SHORT {
            self.strikes.store(0, Relaxed);
            self.short_up_to.fetch_max(bytes, Relaxed);
        } else if self.strikes.fetch_add(1, Relaxed) >= 2 {
            self.strikes.store(0, Relaxed);
            let before = self.long_from.load(Relaxed);
            self.long_from.store(if before == 0 { bytes } else { before.min(bytes) }.max(1), Relaxed);
            self.short_up_to.fetch_min(bytes.saturating_sub(1), Relaxed);
        }
    }

    fn rate(&self, bytes: usize, nanoseconds: u64) {
        let mebibytes = (bytes as u64).div_ceil(1 << 20).max(1);
        let now = (nanoseconds / mebibytes).max(1);
        let before = self.rate.load(Relaxed);
        self.rate.store(if before == 0 { now } else { (3 * before + now) / 4 }, Relaxed);
    }
}

impl Load {
    /// Child ranks and messages.
    pub fn now(&self) -> u32 {
        self.children.load(Relaxed) + self.messages.load(Relaxed)
    }
}

impl Timing {
    /// Nanoseconds for a MiB; 0: not measured.
    pub fn now(&self) -> u64 {
        self.rate.load(Relaxed)
    }
}

impl Child {
    /// A child rank of these devices.
    pub fn new(
        world: Arc<World>,
        alias: String,
        replicas: Replicas,
        strategy: Strategy,
        failsafe: Option<Failsafe>,
    ) -> Child {
        Child {
            id: AtomicI32::new(0),
            alias,
            world,
            replicas,
            strategy,
            failsafe,
            turn: AtomicUsize::new(0),
            soon: AtomicU32::new(0),
            stateful: AtomicBool::new(false),
            buffers: Mutex::default(),
            freed: AtomicBool::new(false),
            spare: Mutex::default(),
        }
    }

    #[inline]
    pub fn id(&self) -> i32 {
        self.id.load(Relaxed)
    }

    pub fn set_id(&self, id: i32) {
        self.id.store(id, Relaxed);
    }

    /// The ids of its devices.
    pub fn devices(&self) -> Vec<String> {
        self.replicas.used().flat_map(|(_, replica)| replica.devices()).collect()
    }

    /// It was freed: nothing comes from it any more.
    pub fn is_freed(&self) -> bool {
        self.freed.load(Relaxed)
    }

    /// Ends it. Returns its buffers.
    pub fn end(&self) -> Vec<i32> {
        self.freed.store(true, Relaxed);
        std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It gets a buffer.
    pub fn add_buffer(&self, buffer: i32) {
        self.stateful.store(true, Relaxed);
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    /// It loses a buffer. It stays stateful.
    pub fn remove_buffer(&self, buffer: i32) {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != buffer);
    }

    /// The number of the device for a message.
    fn choose(&self) -> usize {
        let all = self.replicas.len();
        if all <= 1 || self.stateful.load(Relaxed) {
            return self.replicas.in_use(0);
        }
        match self.strategy {
            Strategy::Pinned => self.replicas.in_use(0),
            Strategy::RoundRobin => self.replicas.in_use(self.turn.fetch_add(1, Relaxed) % all),
            Strategy::LeastLoaded => self.least(|replica| u64::from(replica.load.messages.load(Relaxed))),
            // One that was not measured has 0, and is tried.
            Strategy::Fastest => self.least(|replica| replica.timing.now()),
        }
    }

    fn least(&self, of: impl Fn(&Replica) -> u64) -> usize {
        self.replicas.used().min_by_key(|(_, replica)| of(replica)).map_or(0, |(at, _)| at)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// What is wrong with the arguments. That a kernel fails comes out where the message is received.
    pub fn send(self: &Arc<Self>, contents: &Contents, to: To, tag: i32) -> Result<()> {
        for owner in Message::state(contents) {
            if owner != self.id() {
                let text = format!(
                    "expected buffers of child rank {:#x} ({}) or of 0, found one of {owner:#x}",
                    self.id(),
                    self.alias
                );
                return Err(Error::new(Code::Rank, text));
            }
        }
        if let To::Parent(to) = to {
            self.world.mailbox(to)?;
        }
        begin_waiting();
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut message = spare.unwrap_or_default();
        let at = self.choose();
        match self.run(&mut message, contents, at, matches!(to, To::Parent(_))) {
            Ok(()) => {
                message.replica = at;
                if let Some(replica) = self.replicas.get(at) {
                    replica.load.messages.fetch_add(1, Relaxed);
                }
                let envelope = Envelope { tag, from: self.clone(), message: Some(message) };
                match to {
                    To::Rank { to, is_object } => forward::put(Forwarded { envelope, to, is_object }),
                    To::Parent(to) => {
                        let mailbox = self.world.mailbox(to)?;
                        mailbox.put(envelope);
                        if self.is_freed() {
                            mailbox.forget(self.id());
                        }
                        Ok(())
                    }
                }
            }
            Err(error) => {
                self.keep(message);
                Err(error)
            }
        }
    }

    /// Runs or starts a message. `is_received`: this process receives it.
    fn run(&self, message: &mut Message, contents: &Contents, at: usize, is_received: bool) -> Result<()> {
        let Some(replica) = self.replicas.get(at) else {
            message.fill(contents, &[], None, false)?;
            message.outcome = Outcome::Done(self.save(message));
            return Ok(());
        };
        let keep = replica.may_leave && !self.stateful.load(Relaxed);
        message.fill(contents, &replica.descriptors(), Some(replica), keep)?;
        let way = match replica.timing.way(message.bytes) {
            // To be compared it has to be measured.
            Way::Started if self.strategy == Strategy::Fastest && replica.timing.now() == 0 => Way::Timed,
            way => way,
        };
        let begin = (way == Way::Timed).then(Instant::now);
        let outcome = match (way, &replica.kernels[..]) {
            (Way::Started, _) => {
                let pipeline = replica.pipeline(message)?;
                // A device that works by itself had better begin.
                let is_soon = is_received && self.soon.load(Relaxed) >= IN_A_ROW;
                message.outcome = match is_soon && replica.runs_here {
                    true => Outcome::Deferred(Deferred::new(pipeline)),
                    false => Outcome::Running(pipeline.exec_async()),
                };
                message.sent = is_received.then(Instant::now);
                return Ok(());
            }
            (_, [kernel]) => match message.kernels().next() {
                Some((arguments, dimensions)) => kernel.launch(&arguments, dimensions),
                None => Ok(()),
            },
            _ => replica.pipeline(message)?.exec(),
        };
        if let Some(begin) = begin {
            replica.timing.measured(message.bytes, begin.elapsed().as_nanos() as u64);
        }
        message.outcome = match outcome {
            Ok(()) => Outcome::Done(Ok(())),
            Err(error) => self.settle(message, error)?,
        };
        Ok(())
    }

    /// What a launch that failed means: an error of the call, or an outcome of the message.
    #[cold]
    fn settle(&self, message: &mut Message, error: flash_core::Error) -> Result<Outcome> {
        let no_implementation = matches!(error.cause(), flash_core::Error::NoImplementation(_));
        let is_lost = error.code() == Some(flash_core::Code::DeviceLost);
        let error = Error::from(error);
        match error.code {
            Code::Implementation if no_implementation && self.failsafe.is_some() => {
                message.all_written();
                Ok(Outcome::Done(self.save(message)))
            }
            Code::Kernel | Code::Implementation => Err(error),
            _ if is_lost => Ok(Outcome::Lost(error)),
            _ => Ok(Outcome::Done(Err(error))),
        }
    }

    /// Runs a message again whose device was lost: on another one, or on the same, if there is no other, as
    /// another process may serve that by then; at last by the failsafe.
    ///
    /// # Errors
    /// Why it does not run again, or how that fails.
    #[cold]
    pub fn run_again(&self, message: &mut Message, mut lost: Error) -> Result<()> {
        loop {
            let why = match self.stateful.load(Relaxed) {
                true => Some(
                    "it has buffers of its own, so it stays on its device: write the buffers anew, as what only the device had is lost",
                ),
                false => message.cannot_run_again(),
            };
            if let Some(why) = why {
                let text = format!(
                    "{}; child rank {:#x} ({}) does not run it on another device: {why}",
                    lost.text,
                    self.id(),
                    self.alias
                );
                return Err(Error::new(Code::Device, text));
            }
            message.restore()?;
            if message.again >= AGAIN {
                if self.failsafe.is_none() {
                    return Err(lost);
                }
                message.all_written();
                return self.save(message);
            }
            message.again += 1;
            self.leave(message);
            message.replica = self.replicas.other_than(message.replica);
            let Some(replica) = self.replicas.get(message.replica) else { return Err(lost) };
            replica.load.messages.fetch_add(1, Relaxed);
            message.show(replica)?;
            message.outcome = match replica.pipeline(message)?.exec() {
                Ok(_) => Outcome::Done(Ok(())),
                Err(error) => self.settle(message, error)?,
            };
            match &message.outcome {
                Outcome::Lost(error) => lost = error.clone(),
                Outcome::Done(outcome) => return outcome.clone(),
                _ => return Ok(()),
            }
        }
    }

    /// True if what a device made is gone with it, which comes out when that is read.
    pub fn has_lost(&self, message: &Message, error: &Error) -> bool {
        matches!(error.code, Code::Device | Code::Failed)
            && self.replicas.get(message.replica).is_some_and(|replica| replica.may_leave)
    }

    /// A device has a message less.
    fn leave(&self, message: &Message) {
        if let Some(replica) = self.replicas.get(message.replica) {
            replica.load.messages.fetch_sub(1, Relaxed);
        }
    }

    /// Runs the failsafe.
    #[cold]
    fn save(&self, message: &Message) -> Result<()> {
        let Some(failsafe) = &self.failsafe else {
            let text = format!("`{}` has no implementation and no failsafe", self.alias);
            return Err(Error::new(Code::Implementation, text));
        };
        let object = Arc::new(message.object()?);
        let failed = |text: String| {
            Error::new(Code::Failed, format!("the failsafe of `{}` failed: {text}", self.alias))
        };
        failsafe(&object).map_err(failed)
    }

    /// Waits for the end of a message, and gives its outcome.
    pub fn outcome(&self, message: &mut Message) -> Result<()> {
        let sent = message.sent.take();
        let mut is_soon = sent.is_some_and(|sent| sent.elapsed() < SOON);
        let ended = match &message.outcome {
            Outcome::Running(handle) => Some(handle.wait()),
            Outcome::Deferred(deferred) => {
                let (outcome, has_waited) = deferred.receive();
                is_soon &= has_waited;
                Some(outcome)
            }
            _ => None,
        };
        if sent.is_some() {
            let row = if is_soon { self.soon.load(Relaxed).saturating_add(1) } else { 0 };
            self.soon.store(row, Relaxed);
        }
        if let Some(outcome) = ended {
            message.outcome = match outcome {
                Ok(()) => Outcome::Done(Ok(())),
                Err(error) => self.settle(message, error)?,
            };
        }
        match &message.outcome {
            Outcome::Nothing | Outcome::Running(_) | Outcome::Deferred(_) => Ok(()),
            Outcome::Done(outcome) => outcome.clone(),
            Outcome::Lost(error) => {
                let error = error.clone();
                self.run_again(message, error)
            }
        }
    }

    /// The device of a message; `None`: it is the failsafe's.
    pub fn replica_of(&self, message: &Message) -> Option<&Replica> {
        self.replicas.get(message.replica)
    }

    /// Takes back a message that was received, or that nothing will receive.
    pub fn release(&self, mut message: Box<Message>) {
        self.leave(&message);
        let was_received =
            !matches!(message.outcome, Outcome::Running(_) | Outcome::Deferred(_)) || message.is_finished();
        message.outcome = Outcome::Nothing;
        if was_received {
            self.keep(message);
        }
    }

    fn keep(&self, message: Box<Message>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(message);
        }
    }

    /// The arguments of a child rank whose kernel takes one thing and writes one array.
    ///
    /// # Errors
    /// [`Code::Kernel`] if it takes others.
    pub fn single(&self, element: AnyType, count: usize, data: *const u8) -> Result<Contents> {
        let own = Array {
            element,
            shape: Shape::from_slice(&[count as u64]),
            place: Place::External(data.expose_provenance()),
        };
        let Some((_, replica)) = self.replicas.used().next() else {
            return Ok(Contents::new(
                SmallVec::from_iter([Item::Array(0)]),
                SmallVec::from_iter([own]),
                Vec::new(),
            ));
        };
        let refused = || {
            let kernels = replica.descriptors();
            let names: Vec<String> = kernels.iter().map(|k| format!("{}{}", k.name, k.signature())).collect();
            let text = format!(
                "expected a kernel that takes a `{}` and writes an array, for a message without a compute object, found {}: send a compute object",
                element.name,
                names.join(", then ")
            );
            Error::new(Code::Kernel, text)
        };
        let [kernel] = &replica.kernels[..] else { return Err(refused()) };
        let mut contents = None;
        for descriptor in kernel.descriptors() {
            let (mut items, mut arrays): (SmallVec<[Item; 8]>, SmallVec<[Array; 4]>) = Default::default();
            let (mut taken, mut written) = (0, 0);
            for argument in &descriptor.arguments {
                let is_written = argument.access != Access::Read && argument.view != View::Scalar;
                taken += usize::from(argument.access != Access::Write);
                written += usize::from(is_written);
                let fits = argument.element.agrees(&element);
                match argument.view {
                    View::Scalar if fits && count == 1 => {
                        // SAFETY: the caller of the send vouches for one element there.
                        let bytes = unsafe { std::slice::from_raw_parts(data, element.size) };
                        items.push(Item::Scalar(element, SmallVec::from_slice(bytes)));
                    }
                    View::Scalar => taken += 2,
                    _ if argument.access == Access::Write => {
                        let single = argument.reduce.as_ref().is_some_and(|reduce| !reduce.array);
                        let len = if single { 1 } else { count as u64 };
                        let of = AnyType::new(&argument.element)?;
                        let place = Place::Owned(AnyMemory::fixed(of, &[len])?);
                        items.push(Item::Array(arrays.len()));
                        arrays.push(Array { element: of, shape: Shape::from_slice(&[len]), place });
                    }
                    _ if fits => {
                        items.push(Item::Array(arrays.len()));
                        arrays.push(own.clone());
                    }
                    _ => taken += 2,
                }
            }
            if taken == 1 && written == 1 {
                contents = Some(Contents::new(items, arrays, Vec::new()));
                break;
            }
        }
        contents.ok_or_else(refused)
    }
}
