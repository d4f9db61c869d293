//! A program of C2MPI: its configuration, its parent ranks, and what they have claimed.
//!
//! Child ranks and buffers have numbers of the process (`table.rs`), and belong to the world that claimed
//! them, which frees what is left of them when it ends.

use crate::attributes::{Attribute, Attributes, Overrides};
use crate::child::{Child, Failsafe, Load, Timing, To};
use crate::config::{Config, Function, Platform, Strategy};
use crate::deferred::begin_waiting;
use crate::error::{Code, Error, Result};
use crate::forward;
use crate::frame::Frame;
use crate::functions;
use crate::mailbox::{self, ANY_SOURCE, ANY_TAG, Envelope, Mailbox, Ticket, Wanted};
use crate::message::{self, Into, Message};
use crate::object::ComputeObj;
use crate::replicas::{Replica, Replicas};
use crate::table::{Kind, Table};
use flash_core::descriptor::Implementation;
use flash_core::devices::DeviceHandle;
use flash_core::memory::{AnyMemory, AnyType};
use flash_core::runtime::BoundKernel;
use flash_core::{Context, workers};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

static CHILDREN: Table<Child> = Table::new(Kind::Child);
static BUFFERS: Table<Buffer> = Table::new(Kind::Buffer);

/// A program of C2MPI.
pub struct World {
    config: Config,
    context: Context,
    mailboxes: Vec<Mailbox>,
    /// The child ranks and buffers that are not freed.
    alive: Mutex<BTreeSet<i32>>,
    /// Turns of platforms.
    turns: Mutex<HashMap<String, Arc<AtomicUsize>>>,
    loads: Mutex<HashMap<String, Arc<Load>>>,
    timings: Mutex<HashMap<(String, String), Arc<Timing>>>,
    ended: AtomicBool,
}

/// An internal buffer.
struct Buffer {
    memory: Mutex<AnyMemory>,
    /// 0: of none.
    child: i32,
}

/// What was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The child rank.
    pub source: i32,
    /// The tag.
    pub tag: i32,
    /// Bytes of arrays that were written.
    pub bytes: u64,
}

/// Where a receive puts what it gets.
pub enum Target<'a> {
    /// A compute object: its arrays, or all of it, if it is empty.
    Object(&'a ComputeObj),
    /// The elements of one array, at most this many.
    ///
    /// # Safety
    /// See [`World::receive`].
    Array(*mut u8, usize, AnyType),
}

/// A receive that goes on.
pub struct Receive(Mutex<State>);

enum State {
    Came(Envelope),
    Waits(Post, Arc<Ticket>),
    Done,
}

/// The mailbox that a ticket is in.
struct Post {
    world: Arc<World>,
    parent: u32,
}

impl World {
    /// A program with this configuration.
    pub fn new(config: Config, context: Context) -> Arc<World> {
        let mailboxes = (0..config.parents()).map(|_| Mailbox::default()).collect();
        Arc::new(World {
            config,
            context,
            mailboxes,
            alive: Mutex::default(),
            turns: Mutex::default(),
            loads: Mutex::default(),
            timings: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of parent ranks.
    pub fn parents(&self) -> u32 {
        self.mailboxes.len() as u32
    }

    /// Frees all that is left, and ends what waits for messages.
    pub fn end(&self) {
        begin_waiting();
        forward::finish();
        self.ended.store(true, Relaxed);
        let left = std::mem::take(&mut *lock(&self.alive));
        for id in left {
            // What another thread frees at the same time is freed.
            let _ = self.free(id);
        }
        self.mailboxes.iter().for_each(Mailbox::close);
    }

    pub(crate) fn mailbox(&self, parent: u32) -> Result<&Mailbox> {
        self.mailboxes.get(parent as usize).ok_or_else(|| {
            let text = format!(
                "expected a parent rank from 0 to {}, found {parent}: `max_slots` of `host_list` says how many there are",
                self.parents() - 1
            );
            Error::new(Code::Rank, text)
        })
    }

    /// Claims a function: a child rank, by its number.
    ///
    /// # Errors
    /// [`Code::Busy`] inside a kernel; [`Code::Alias`]; [`Code::Implementation`] if nothing implements it and
    /// it has no failsafe: the text lists functions, kernels and devices; [`Code::Config`] for an unknown
    /// platform; [`Code::Memory`].
    pub fn claim(
        self: &Arc<Self>,
        alias: &str,
        failsafe: Option<Failsafe>,
        overrides: &Overrides,
    ) -> Result<i32> {
        if self.ended.load(Relaxed) {
            return Err(Error::new(Code::Init, "the program is finalised"));
        }
        if workers::in_kernel() && !workers::in_host_function() {
            let text = format!(
                "expected a claim of `{alias}` by the host, found one inside a kernel: claim it before the launch, or in a function of the host"
            );
            return Err(Error::new(Code::Busy, text));
        }
        let is_packaged = || functions::has_alias(&self.context, alias);
        let (function, platform) = self.config.claimed(alias, overrides, is_packaged)?;
        let replicas = match self.replicas(&function, &platform) {
            Ok(replicas) => replicas,
            Err(error) if error.code == Code::Implementation && failsafe.is_some() => Replicas::none(),
            Err(error) => return Err(error),
        };
        let strategy = platform.strategy;
        let child = Arc::new(Child::new(self.clone(), alias.to_owned(), replicas, strategy, failsafe));
        let id = CHILDREN.insert(child.clone())?;
        child.set_id(id);
        lock(&self.alive).insert(id);
        Ok(id)
    }

    /// The devices for a function, as many as it wants and there are.
    fn replicas(self: &Arc<Self>, function: &Function, platform: &Platform) -> Result<Replicas> {
        let stages: Vec<Function> = match &function.pipeline[..] {
            [] => vec![function.clone()],
            aliases => {
                aliases.iter().map(|alias| self.config.function(alias).cloned()).collect::<Result<_>>()?
            }
        };
        let kernels = stages.iter().map(|stage| functions::kernel_of(stage, &self.context));
        let kernels: Vec<String> = kernels.collect::<Result<_>>()?;
        let found = self.context.runtime(&platform.key)?;
        let mut devices: Vec<&'static DeviceHandle> = found.devices().to_vec();
        let all = devices.len();
        let mut refused: Vec<String> = Vec::new();
        devices.retain(|device| match unfit(device, &function.attributes) {
            None => true,
            Some(why) => {
                refused.push(format!("{}: {why}", device.id()));
                false
            }
        });
        self.order(&mut devices, platform, &kernels);
        let mut count = function.repl as usize;
        if platform.strategy == Strategy::Pinned {
            devices.truncate(1);
            count = 1;
        }
        let (world, names) = (self.clone(), kernels.clone());
        let bind = Box::new(move |device| world.replica(device, &stages, &names));
        let replicas = Replicas::new(devices, count, bind, &mut |device, error| {
            refused.push(format!("{}: {}", device.id(), error.text));
        });
        if replicas.len() == 0 {
            let text = format!(
                "`{}` ({}): expected one of {all} devices of `{}` to run {}, found none: {}",
                function.alias,
                function.attributes.words(),
                platform.key,
                kernels.join(", "),
                refused.join("; ")
            );
            return Err(Error::new(Code::Implementation, text));
        }
        Ok(replicas)
    }

    /// Puts the device that the strategy prefers in front.
    fn order(&self, devices: &mut [&'static DeviceHandle], platform: &Platform, kernels: &[String]) {
        match platform.strategy {
            Strategy::Pinned => {}
            Strategy::RoundRobin if devices.is_empty() => {}
            Strategy::RoundRobin => {
                let turn = lock(&self.turns).entry(platform.id.clone()).or_default().clone();
                devices.rotate_left(turn.fetch_add(1, Relaxed) % devices.len());
            }
            Strategy::LeastLoaded => devices.sort_by_key(|device| self.load(device).now()),
            Strategy::Fastest => devices.sort_by_key(|device| self.timing(device, kernels).now()),
        }
    }

    fn load(&self, device: &DeviceHandle) -> Arc<Load> {
        lock(&self.loads).entry(device.id().to_owned()).or_default().clone()
    }

    fn timing(&self, device: &DeviceHandle, kernels: &[String]) -> Arc<Timing> {
        lock(&self.timings).entry((device.id().to_owned(), kernels.join(","))).or_default().clone()
    }

    fn replica(
        &self,
        device: &'static DeviceHandle,
        stages: &[Function],
        kernels: &[String],
    ) -> Result<Replica> {
        let runtime = self.context.runtime(device.id())?;
        let mut bound = Vec::new();
        for (stage, kernel) in stages.iter().zip(kernels) {
            bound.push(self.bind(&runtime, stage, kernel)?);
        }
        Ok(Replica::new(runtime, bound, self.load(device), self.timing(device, kernels)))
    }

    fn bind(&self, runtime: &flash_core::RuntimeObj, stage: &Function, kernel: &str) -> Result<BoundKernel> {
        if stage.attributes.get(Attribute::SwPid).is_none() {
            let bound = runtime.bind(kernel)?;
            bound.prepare()?;
            return Ok(bound);
        }
        let mut first = None;
        for name in functions::implementations(&self.context, kernel, &stage.attributes) {
            let bound = runtime.options(Implementation::named(&name)).bind(kernel)?;
            match bound.prepare() {
                Ok(()) => return Ok(bound),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.map_or_else(
            || {
                let all = functions::implementations(&self.context, kernel, &Attributes::default());
                let all: Vec<String> = all.into_iter().collect();
                let words = stage.attributes.words();
                Error::new(
                    Code::Implementation,
                    format!("expected an implementation of {words}, found {}", all.join(", ")),
                )
            },
            Error::from,
        ))
    }

    fn child(&self, id: i32) -> Result<Arc<Child>> {
        CHILDREN.get(id)
    }

    /// The ids of the devices of a child rank; none: it has only its failsafe.
    ///
    /// # Errors
    /// [`Code::Rank`].
    pub fn devices(&self, child: i32) -> Result<Vec<String>> {
        Ok(self.child(child)?.devices())
    }

    /// Creates a buffer of zeros, of a child rank, which becomes stateful, or of the framework: 0.
    ///
    /// # Errors
    /// [`Code::Rank`]; [`Code::Memory`].
    pub fn create_buffer(&self, child: i32, element: AnyType, shape: &[u64]) -> Result<i32> {
        let owner = if child == 0 { None } else { Some(self.child(child)?) };
        crate::object::count(element, shape)?;
        let memory = AnyMemory::fixed(element, shape)?;
        let id = BUFFERS.insert(Arc::new(Buffer { memory: Mutex::new(memory), child }))?;
        lock(&self.alive).insert(id);
        if let Some(owner) = owner {
            owner.add_buffer(id);
            if owner.is_freed() {
                let _ = self.free(id);
            }
        }
        Ok(id)
    }

    /// Gives a buffer a shape of as many elements, before it is an argument.
    ///
    /// # Errors
    /// [`Code::Rank`]; [`Code::Count`] for another number of elements; [`Code::Busy`] if an object or a
    /// message has it.
    pub fn shape_buffer(&self, buffer: i32, shape: &[u64]) -> Result<()> {
        let buffer = BUFFERS.get(buffer)?;
        let mut memory = lock(&buffer.memory);
        let element = memory.element();
        if crate::object::count(element, shape)? != memory.len() {
            let text = format!("expected a shape of {} elements, found {shape:?}", memory.len());
            return Err(Error::new(Code::Count, text));
        }
        memory.retype(element, shape).map_err(|error| Error::new(Code::Busy, error.to_string()))
    }

    /// Adds a buffer to an object, as its next argument.
    ///
    /// # Errors
    /// [`Code::Rank`]; [`Code::Busy`].
    pub fn add_buffer(&self, object: &ComputeObj, buffer: i32) -> Result<()> {
        let buffer = BUFFERS.get(buffer)?;
        let memory = lock(&buffer.memory).clone();
        object.add_buffer(memory, buffer.child)
    }

    fn check_buffer(memory: &AnyMemory, count: usize, element: AnyType) -> Result<()> {
        if memory.element() != element {
            let text =
                format!("expected `{}`, as the buffer has, found `{}`", memory.element().name, element.name);
            return Err(Error::new(Code::Type, text));
        }
        if memory.len() != count {
            let text = format!("expected the {} elements of the buffer, found {count}", memory.len());
            return Err(Error::new(Code::Count, text));
        }
        Ok(())
    }

    /// Writes all elements of a buffer.
    ///
    /// # Errors
    /// [`Code::Rank`]; [`Code::Type`] and [`Code::Count`] if the elements are not as the buffer's; what a
    /// device says.
    ///
    /// # Safety
    /// There are that many elements at the address.
    pub unsafe fn write_buffer(
        &self,
        buffer: i32,
        data: *const u8,
        count: usize,
        element: AnyType,
    ) -> Result<()> {
        let memory = lock(&BUFFERS.get(buffer)?.memory).clone();
        World::check_buffer(&memory, count, element)?;
        message::writes(&memory);
        begin_waiting();
        if count > 0 {
            // SAFETY: the caller vouches.
            let bytes = unsafe { std::slice::from_raw_parts(data, count * element.size) };
            memory.write()?.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Reads all elements of a buffer.
    ///
    /// # Errors
    /// As [`write_buffer`](Self::write_buffer).
    ///
    /// # Safety
    /// There is room for that many elements at the address.
    pub unsafe fn read_buffer(
        &self,
        buffer: i32,
        data: *mut u8,
        count: usize,
        element: AnyType,
    ) -> Result<()> {
        let memory = lock(&BUFFERS.get(buffer)?.memory).clone();
        World::check_buffer(&memory, count, element)?;
        begin_waiting();
        let bytes = memory.read(0..count)?;
        // SAFETY: the caller vouches.
        unsafe { std::ptr::copy(bytes.as_ptr(), data, bytes.len()) };
        Ok(())
    }

    /// Frees a child rank, with its buffers and the messages that were not received, or a buffer.
    ///
    /// # Errors
    /// [`Code::Rank`] if it is none, or freed.
    pub fn free(&self, id: i32) -> Result<()> {
        // What was sent runs, also if nothing receives it.
        begin_waiting();
        if Kind::of(id) == Some(Kind::Buffer) {
            let buffer = BUFFERS.remove(id)?;
            if let Ok(child) = CHILDREN.get(buffer.child) {
                child.remove_buffer(id);
            }
            lock(&self.alive).remove(&id);
            return Ok(());
        }
        let child = CHILDREN.remove(id)?;
        for buffer in child.end() {
            let _ = BUFFERS.remove(buffer);
            lock(&self.alive).remove(&buffer);
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.forget(id));
        lock(&self.alive).remove(&id);
        Ok(())
    }

    /// Sends a compute object to a child rank; the result is for a parent rank.
    ///
    /// # Errors
    /// [`Code::Rank`] for a child or parent rank that is none; [`Code::Tag`]; [`Code::Kernel`] for arguments
    /// that do not fit; [`Code::Busy`].
    pub fn send(&self, object: &ComputeObj, child: i32, to: u32, tag: i32) -> Result<()> {
        send(object, &self.child(child)?, To::Parent(to), tag)
    }

    /// Sends one array, or one scalar, to a child rank whose kernel takes that and writes one array.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Safety
    /// There are that many elements at the address.
    pub unsafe fn send_array(
        &self,
        elements: (*const u8, usize, AnyType),
        child: i32,
        to: u32,
        tag: i32,
    ) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe { self.send_array_to(elements, child, To::Parent(to), tag) }
    }

    /// The same, wherever the result goes.
    ///
    /// # Safety
    /// As for [`send_array`](Self::send_array).
    pub(crate) unsafe fn send_array_to(
        &self,
        (data, count, element): (*const u8, usize, AnyType),
        child: i32,
        to: To,
        tag: i32,
    ) -> Result<()> {
        check_tag(tag)?;
        let child = self.child(child)?;
        let contents = child.single(element, count, data)?;
        child.send(&contents, to, tag)
    }

    fn source(&self, wanted: Wanted) -> Result<Option<Arc<Child>>> {
        if wanted.tag != ANY_TAG {
            check_tag(wanted.tag)?;
        }
        match wanted.child {
            ANY_SOURCE => Ok(None),
            child => self.child(child).map(Some),
        }
    }

    fn is_alive(&self, source: Option<&Arc<Child>>) -> bool {
        !self.ended.load(Relaxed) && source.is_none_or(|child| !child.is_freed())
    }

    /// Receives a message of a parent rank: waits for it, and for its end.
    ///
    /// # Errors
    /// [`Code::Rank`]; [`Code::Tag`]; [`Code::Gone`] if the child rank is freed meanwhile; [`Code::Type`] and
    /// [`Code::Count`] if the message does not fit the target, and is lost then; what went wrong with the
    /// message.
    ///
    /// # Safety
    /// An array has room for as many elements as it says; what objects have, as their makers vouched.
    pub unsafe fn receive(&self, target: &Target<'_>, parent: u32, wanted: Wanted) -> Result<Status> {
        self.receive_of(target, parent, wanted, self.source(wanted)?.as_ref())
    }

    /// As [`receive`](Self::receive), from a child rank that is known.
    pub(crate) fn receive_of(
        &self,
        target: &Target<'_>,
        parent: u32,
        wanted: Wanted,
        source: Option<&Arc<Child>>,
    ) -> Result<Status> {
        if wanted.tag != ANY_TAG {
            check_tag(wanted.tag)?;
        }
        let mailbox = self.mailbox(parent)?;
        if wanted.is_wild() {
            begin_waiting();
        }
        let envelope = match mailbox.take(wanted) {
            Some(envelope) => {
                if !envelope.is_deferred() {
                    begin_waiting();
                }
                envelope
            }
            None => {
                begin_waiting();
                mailbox.wait(wanted, || self.is_alive(source))?
            }
        };
        deliver(envelope, target)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`Code::Rank`], [`Code::Tag`].
    pub fn post(self: &Arc<Self>, parent: u32, wanted: Wanted) -> Result<Receive> {
        let mailbox = self.mailbox(parent)?;
        let source = self.source(wanted)?;
        begin_waiting();
        let state = match mailbox.post(wanted) {
            Ok(envelope) => State::Came(envelope),
            Err(ticket) => State::Waits(Post { world: self.clone(), parent }, ticket),
        };
        // One that was freed meanwhile may have missed the ticket.
        match (&state, self.is_alive(source.as_ref())) {
            (State::Waits(_, ticket), false) => {
                mailbox.withdraw(ticket);
                Err(mailbox::gone(wanted))
            }
            _ => Ok(Receive(Mutex::new(state))),
        }
    }

    /// Waits for a message, and says what it is.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn probe(&self, parent: u32, wanted: Wanted) -> Result<Status> {
        let source = self.source(wanted)?;
        begin_waiting();
        self.mailbox(parent)?.probe(wanted, || self.is_alive(source.as_ref()), status_of)
    }

    /// Receives a message that has finished, if there is one.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    ///
    /// # Safety
    /// As for [`receive`](Self::receive).
    pub unsafe fn receive_now(
        &self,
        target: &Target<'_>,
        parent: u32,
        wanted: Wanted,
    ) -> Result<Option<Status>> {
        let source = self.source(wanted)?;
        begin_waiting();
        match self.mailbox(parent)?.take_finished(wanted) {
            Some(envelope) => deliver(envelope, target).map(Some),
            None if self.is_alive(source.as_ref()) => Ok(None),
            None => Err(mailbox::gone(wanted)),
        }
    }

    /// Says what a message is that has finished, if there is one.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn probe_now(&self, parent: u32, wanted: Wanted) -> Result<Option<Status>> {
        self.source(wanted)?;
        begin_waiting();
        let found = self
            .mailbox(parent)?
            .look(wanted, |envelope| envelope.is_finished().then(|| status_of(envelope)));
        Ok(found.flatten())
    }
}

impl Receive {
    /// Waits for the message, and writes it. Again: it has ended.
    ///
    /// # Errors
    /// As [`World::receive`].
    ///
    /// # Safety
    /// As for [`World::receive`].
    pub unsafe fn wait(&self, target: &Target<'_>) -> Result<Status> {
        begin_waiting();
        let state = std::mem::replace(&mut *lock(&self.0), State::Done);
        match state {
            State::Came(envelope) => deliver(envelope, target),
            State::Waits(_, ref ticket) => deliver(ticket.wait()?, target),
            State::Done => Err(ended()),
        }
    }

    /// Writes the message if it has finished.
    ///
    /// # Errors
    /// As [`World::receive`].
    ///
    /// # Safety
    /// As for [`World::receive`].
    pub unsafe fn test(&self, target: &Target<'_>) -> Result<Option<Status>> {
        begin_waiting();
        let mut state = lock(&self.0);
        if let State::Waits(_, ticket) = &*state
            && let Some(envelope) = ticket.take()?
        {
            *state = State::Came(envelope);
        }
        match std::mem::replace(&mut *state, State::Done) {
            State::Came(envelope) if envelope.is_finished() => deliver(envelope, target).map(Some),
            State::Done => Err(ended()),
            other => {
                *state = other;
                Ok(None)
            }
        }
    }
}

impl Drop for Receive {
    fn drop(&mut self) {
        if let State::Waits(mailbox, ticket) = &*lock(&self.0)
            && let Ok(mailbox) = mailbox.world.mailbox(mailbox.parent)
        {
            mailbox.withdraw(ticket);
        }
    }
}

fn ended() -> Error {
    Error::new(Code::Request, "expected a request that goes on, found one that has ended")
}

fn status_of(envelope: &Envelope) -> Status {
    let bytes = envelope.message.as_ref().map_or(0, |message| message.written_bytes());
    Status { source: envelope.from.id(), tag: envelope.tag, bytes }
}

/// A child rank, whatever world it is of.
#[inline]
pub(crate) fn child(id: i32) -> Result<Arc<Child>> {
    CHILDREN.get(id)
}

/// Sends a compute object to a child rank.
pub(crate) fn send(object: &ComputeObj, child: &Arc<Child>, to: To, tag: i32) -> Result<()> {
    check_tag(tag)?;
    let contents = object.read()?;
    child.send(&contents, to, tag)
}

fn deliver(mut envelope: Envelope, target: &Target<'_>) -> Result<Status> {
    let Envelope { tag, from: child, message } = &mut envelope;
    let (source, tag) = (child.id(), *tag);
    let Some(message) = message.as_mut() else {
        return Ok(Status { source, tag, bytes: 0 });
    };
    let into = match target {
        Target::Object(object) => Into::Object(object),
        Target::Array(data, count, element) => Into::Array(*data, *count, *element),
    };
    let bytes = finished(child, message, |message| message.deliver(&into, child.replica_of(message)))?;
    Ok(Status { source, tag, bytes })
}

/// Waits for the end of a message, and gives what `take` takes of what its function has made.
pub(crate) fn finished<R>(
    child: &Child,
    message: &mut Message,
    mut take: impl FnMut(&mut Message) -> Result<R>,
) -> Result<R> {
    child.outcome(message).inspect_err(|_| message.discard())?;
    loop {
        match take(message) {
            Err(error) if child.has_lost(message, &error) => {
                child.run_again(message, error).inspect_err(|_| message.discard())?;
            }
            taken => return taken,
        }
    }
}

/// Writes what another process has sent as a compute object.
///
/// # Errors
/// What went wrong with the function that should have made it; [`Code::Type`], [`Code::Count`] and others if
/// it does not fit.
pub(crate) fn deliver_frame(frame: Frame<'_>, object: &ComputeObj) -> Result<u64> {
    let with_scalars = frame.is_sent && !object.is_empty()?;
    let mut message = Message::of_frame(frame)?;
    if with_scalars {
        message.scalars().try_for_each(|(position, element, _)| object.check_scalar(position, element))?;
    }
    let bytes = message.deliver(&Into::Object(object), None)?;
    if with_scalars {
        message.scalars().try_for_each(|(position, _, bytes)| object.set_scalar(position, bytes))?;
    }
    Ok(bytes)
}

pub(crate) fn check_tag(tag: i32) -> Result<()> {
    match tag >= 0 {
        true => Ok(()),
        false => Err(Error::new(Code::Tag, format!("expected a tag from 0 on, found {tag}"))),
    }
}

/// Why a device does not fit the attributes of hardware.
fn unfit(device: &DeviceHandle, attributes: &Attributes) -> Option<String> {
    let info = device.info();
    let backend = device.id().rsplit_once(':').map_or(device.id(), |(backend, _)| backend);
    let facts = [
        (Attribute::Vid, &*info.vendor),
        (Attribute::Pid, &*info.name),
        (Attribute::SsVid, backend),
        (Attribute::SsPid, device.id()),
    ];
    let (attribute, found) =
        facts.into_iter().find(|(attribute, found)| !attributes.takes(*attribute, found))?;
    let pattern = attributes.get(attribute).unwrap_or_default();
    Some(format!("expected {} `{pattern}`, found `{found}`", attribute.name()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
