//! Launches of a device, in order, in one stream.
//!
//! A submitted launch is recorded first. It goes to the driver with its neighbours, as one *batch*: when the
//! host queries or waits for one of them, or when the batch is full. So a launch makes no call of the driver
//! before it has to, a chain of launches becomes a graph ([`Graphs`]) where its shape repeats, and one event
//! serves many launches.
//!
//! - *Batches* are numbered in the order in which they go into the stream. One is *open*, all before it are
//!   sent.
//! - `done` is the latest batch that is known to be complete; so are all before it.
//! - `last` is the latest batch, if nothing came into the stream after it: a wait for it waits for the
//!   stream. It gets its event before anything else enters the stream.
//! - `refused` has the launches that the driver refused, until nothing asks for them.

use crate::context::{Context, Current, Event, Stream};
use crate::failure::{Call, failed};
use crate::graph::Graphs;
use cudarc::driver::sys::{
    CUdeviceptr, CUfunction, CUresult, cuLaunchCooperativeKernel, cuLaunchKernel, cuMemcpyDtoDAsync_v2,
};
use flash_backend::offload::Worker;
use flash_backend::{Completion, Failure};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Commands of a full batch. The device begins with them while the host records the next. The first batch of
/// an idle device is full with [`FIRST`], and each after it with twice as many, up to [`BATCH`]: so the
/// device begins early, and does not wait for the next.
const BATCH: usize = 128;
const FIRST: usize = 16;

/// A function of a module, which is never unloaded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Function(pub CUfunction);

// SAFETY: a function may be launched from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The launch configuration of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// All blocks are resident, and may wait for each other.
    pub cooperative: bool,
}

/// A command's work in the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Kernel(Function, Shape),
    /// Source, destination, bytes.
    Copy(CUdeviceptr, CUdeviceptr, usize),
}

/// A command of a batch.
#[derive(Clone)]
pub(crate) struct Command {
    pub work: Work,
    /// Its parameters: the first word of each. Those of the next command follow.
    pub parameters: std::ops::Range<u32>,
    /// The number of its launch, and the title for errors.
    launch: u64,
    title: Option<Arc<str>>,
}

/// Parameters of commands.
#[derive(Clone, Default)]
pub(crate) struct Parameters {
    /// The first word of each.
    starts: Vec<u32>,
    words: Vec<u64>,
}

/// Commands and their parameters.
#[derive(Clone, Default)]
pub(crate) struct Commands {
    pub all: Vec<Command>,
    parameters: Parameters,
}

/// Commands that go to the driver together.
#[derive(Default)]
struct Batch {
    number: u64,
    /// Recorded after it, before anything else follows.
    event: OnceLock<Event>,
}

/// The launches of a device.
pub(crate) struct Queue {
    context: Context,
    stream: Stream,
    state: Mutex<State>,
    done: AtomicU64,
    launches: AtomicU64,
    /// True if `refused` is not empty.
    any_refused: AtomicBool,
    /// Waits for launches and calls their callbacks. The driver's own callbacks may not call the driver, and
    /// are not called when the device is lost. Takes callbacks in the order of the calls: launches end in
    /// that order.
    waiter: Worker,
}

struct State {
    open: Arc<Batch>,
    commands: Commands,
    /// Commands with which the open batch is full.
    full: usize,
    last: Option<Arc<Batch>>,
    /// A batch that nothing refers to any more, for the next.
    spare: Option<Arc<Batch>>,
    graphs: Graphs,
    refused: HashMap<u64, Failure>,
}

/// A launch that is being recorded.
pub struct Writing {
    queue: &'static Queue,
    launch: u64,
    /// The batch of its last command.
    batch: Option<Arc<Batch>>,
    /// Recorded before it, if its time is wanted.
    start: Option<Event>,
    /// The host waits for it at once.
    awaited: bool,
}

/// Fires when a launch is complete.
pub(crate) struct Done {
    queue: &'static Queue,
    batch: Arc<Batch>,
    launch: u64,
    /// Recorded before it and after it, if its time is wanted.
    times: Option<[Event; 2]>,
}

impl Parameters {
    pub fn clear(&mut self) {
        self.starts.clear();
        self.words.clear();
    }

    /// Adds a parameter.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.starts.push(self.words.len() as u32);
        self.words.extend(words_of(bytes));
    }

    /// Adds a parameter of whole words.
    #[inline]
    pub fn words(&mut self, words: &[u64]) {
        self.starts.push(self.words.len() as u32);
        self.words.extend_from_slice(words);
    }

    /// Adds others, with these bytes at some of them, by their numbers.
    #[inline]
    pub fn append<'v>(&mut self, others: &Parameters, with: impl Iterator<Item = (usize, &'v [u8])>) {
        let first = self.words.len();
        self.starts.extend(others.starts.iter().map(|start| first as u32 + start));
        self.words.extend_from_slice(&others.words);
        for (number, bytes) in with {
            let at = first + others.starts[number] as usize;
            self.words[at..].iter_mut().zip(words_of(bytes)).for_each(|(to, word)| *to = word);
        }
    }
}

/// Bytes as words, the last one filled up with zeros.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

impl Commands {
    fn clear(&mut self) {
        self.all.clear();
        self.parameters.clear();
    }

    /// Adds a command with the parameters that were added since the last one.
    fn push(&mut self, work: Work, launch: u64, title: Option<&Arc<str>>) {
        let first = self.all.last().map_or(0, |before| before.parameters.end);
        let parameters = first..self.parameters.starts.len() as u32;
        self.all.push(Command { work, parameters, launch, title: title.cloned() });
    }

    /// Pointers to a command's parameters, in the driver's form. They are only read.
    pub fn pointers(&self, command: &Command) -> SmallVec<[*mut c_void; 16]> {
        let Parameters { starts, words } = &self.parameters;
        let starts = &starts[command.parameters.start as usize..command.parameters.end as usize];
        let of = |&start: &u32| words.as_ptr().wrapping_add(start as usize).cast_mut().cast();
        starts.iter().map(of).collect()
    }

    /// All words of a command's parameters.
    pub fn words_of(&self, command: &Command) -> &[u64] {
        let Parameters { starts, words } = &self.parameters;
        let at = |parameter: u32| starts.get(parameter as usize).map_or(words.len(), |&start| start as usize);
        &words[at(command.parameters.start)..at(command.parameters.end)]
    }
}

impl Queue {
    pub fn new(context: Context, stream: Stream) -> Queue {
        let state = State {
            open: Arc::new(Batch { number: 1, event: OnceLock::new() }),
            commands: Commands::default(),
            full: FIRST,
            last: None,
            spare: None,
            graphs: Graphs::default(),
            refused: HashMap::new(),
        };
        Queue {
            context,
            stream,
            state: Mutex::new(state),
            done: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            any_refused: AtomicBool::new(false),
            waiter: Worker::new("flash-cuda"),
        }
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Begins to record a launch. `timed`: what came before it is sent, and its time is taken. `awaited`: the
    /// host waits for it at once.
    pub fn write(&'static self, timed: bool, awaited: bool) -> Result<Writing, Failure> {
        let start = timed.then(|| self.point()).transpose()?;
        Ok(Writing { queue: self, launch: self.launches.fetch_add(1, Relaxed), batch: None, start, awaited })
    }

    /// Lets `work` use the stream, after all that was recorded. What it enqueued before an error is waited
    /// for.
    pub fn other(
        &'static self,
        timed: bool,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Done, Failure> {
        let current = self.context.enter()?;
        let mut state = self.state();
        self.send(&mut state, &current);
        self.mark(&mut state, &current)?;
        let start = timed.then(|| Event::record(&current, self.context, self.stream, true)).transpose()?;
        // The lock keeps other launches out meanwhile.
        if let Err(failure) = work() {
            drop(state);
            let _ = self.stream.finish();
            return Err(failure);
        }
        let event = || Event::record(&current, self.context, self.stream, timed);
        let times = start.map(|start| event().map(|end| [start, end])).transpose()?;
        // The open batch is empty: this batch takes its number.
        let batch = state.close();
        let _ = batch.event.set(event()?);
        Ok(Done { queue: self, batch, launch: self.launches.fetch_add(1, Relaxed), times })
    }

    /// Lets what is recorded from now on run after an event.
    pub fn wait_for(&self, current: &Current, event: &Event) -> Result<(), Failure> {
        let mut state = self.state();
        self.send(&mut state, current);
        self.mark(&mut state, current)?;
        event.before(current, self.stream)
    }

    /// An event after all that was recorded.
    fn point(&self) -> Result<Event, Failure> {
        let current = self.context.enter()?;
        let mut state = self.state();
        self.send(&mut state, &current);
        Event::record(&current, self.context, self.stream, true)
    }

    /// Sends what was recorded, and notes that other work follows in the stream.
    pub fn before_other_work(&self, current: &Current) -> Result<(), Failure> {
        let mut state = self.state();
        self.send(&mut state, current);
        self.mark(&mut state, current)
    }

    /// Sends the open batch. A command that the driver refuses goes to `refused`.
    fn send(&self, state: &mut State, current: &Current) {
        if state.commands.all.is_empty() {
            return;
        }
        let marked = self.mark(state, current);
        let State { commands, graphs, refused, .. } = state;
        if marked.is_err() || !graphs.launch(commands, self.context, self.stream) {
            for command in &commands.all {
                if let Err(failure) = marked.clone().and_then(|()| self.launch(commands, command)) {
                    refused.entry(command.launch).or_insert(failure);
                    self.any_refused.store(true, Relaxed);
                }
            }
        }
        commands.clear();
        state.last = Some(state.close());
    }

    /// Records the event of the latest batch, if it may be asked for.
    fn mark(&self, state: &mut State, current: &Current) -> Result<(), Failure> {
        let Some(mut last) = state.last.take() else { return Ok(()) };
        if Arc::get_mut(&mut last).is_some() {
            state.spare = Some(last);
        } else if last.number > self.done.load(Relaxed) {
            let event = Event::record(current, self.context, self.stream, false)?;
            let _ = last.event.set(event);
        }
        Ok(())
    }

    /// Gives one command to the driver.
    fn launch(&self, commands: &Commands, command: &Command) -> Result<(), Failure> {
        let stream = self.stream.get();
        match command.work {
            Work::Copy(from, to, bytes) => {
                // SAFETY: both buffers have `bytes` bytes and stay until the launch is done.
                unsafe { cuMemcpyDtoDAsync_v2(to, from, bytes, stream) }.call("cuMemcpyDtoDAsync")
            }
            Work::Kernel(Function(function), Shape { grid, block, shared, cooperative }) => {
                let mut pointers = commands.pointers(command);
                let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
                // SAFETY: a function of this context and all of its parameters, whose sizes were compared
                // with the function's; what they point to on the device stays until the launch is done.
                let result = unsafe {
                    if cooperative {
                        let to = pointers.as_mut_ptr();
                        cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, to)
                    } else {
                        let to = pointers.as_mut_ptr();
                        cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, to, null_mut())
                    }
                };
                if result == CUresult::CUDA_SUCCESS {
                    return Ok(());
                }
                let failure = failed("cuLaunchKernel", result);
                let title = command.title.as_deref().unwrap_or_default();
                Err(Failure::new(
                    failure.code,
                    format!("{title}: {grid:?} blocks of {block:?} threads: {}", failure.text),
                ))
            }
        }
    }

    /// Waits until a batch has ended.
    fn wait(&self, batch: &Arc<Batch>) -> Result<(), Failure> {
        if batch.number <= self.done.load(Relaxed) {
            return Ok(());
        }
        let current = self.context.enter()?;
        let mut state = self.state();
        if state.open.number == batch.number {
            self.send(&mut state, &current);
        }
        drop(state);
        // A batch without an event is the latest, or was until now: what follows it is waited for, too.
        match batch.event.get() {
            Some(event) => event.wait()?,
            None => self.stream.finish()?,
        }
        self.done.fetch_max(batch.number, Relaxed);
        Ok(())
    }

    /// Whether a batch is complete. An error counts: the wait reports it.
    fn is_done(&self, batch: &Arc<Batch>) -> Result<bool, Failure> {
        if batch.number <= self.done.load(Relaxed) {
            return Ok(true);
        }
        let current = self.context.enter()?;
        // A batch without an event is complete by now, or could not get one, for want of resources.
        let reached = match self.event_of(batch, &current)? {
            Some(event) => event.reached()?,
            None => self.stream.is_done()?,
        };
        if reached {
            self.done.fetch_max(batch.number, Relaxed);
        }
        Ok(reached)
    }

    /// The event of a batch, which is sent. `None`: it is complete.
    fn event_of<'b>(&self, batch: &'b Batch, current: &Current) -> Result<Option<&'b Event>, Failure> {
        if batch.number <= self.done.load(Relaxed) {
            return Ok(None);
        }
        let mut state = self.state();
        if state.open.number == batch.number {
            self.send(&mut state, current);
        }
        if batch.event.get().is_none() {
            self.mark(&mut state, current)?;
        }
        Ok(batch.event.get())
    }

    /// The error with which the driver refused a launch. It stays until [`forget`](Self::forget), for all
    /// that wait.
    fn refusal(&self, launch: u64) -> Option<Failure> {
        if !self.any_refused.load(Relaxed) {
            return None;
        }
        self.state().refused.get(&launch).cloned()
    }

    /// Nothing asks for a launch any more.
    fn forget(&self, launch: u64) {
        if self.any_refused.load(Relaxed) {
            self.state().refused.remove(&launch);
        }
    }
}

impl State {
    /// Closes the open batch, and opens the next.
    fn close(&mut self) -> Arc<Batch> {
        let number = self.open.number + 1;
        let mut next = self.spare.take().unwrap_or_default();
        match Arc::get_mut(&mut next) {
            Some(batch) => (batch.number, batch.event) = (number, OnceLock::new()),
            None => next = Arc::new(Batch { number, event: OnceLock::new() }),
        }
        std::mem::replace(&mut self.open, next)
    }
}

impl Writing {
    /// Records a command; `fill` adds its parameters.
    ///
    /// # Errors
    /// If a full batch cannot be sent off.
    pub(crate) fn push(
        &mut self,
        work: Work,
        title: Option<&Arc<str>>,
        fill: impl FnOnce(&mut Parameters),
    ) -> Result<(), Failure> {
        let queue = self.queue;
        let mut state = queue.state();
        let commands = &mut state.commands;
        fill(&mut commands.parameters);
        commands.push(work, self.launch, title);
        if self.batch.as_ref().is_none_or(|batch| batch.number != state.open.number) {
            self.batch = Some(state.open.clone());
        }
        if state.commands.all.len() == 1 && state.open.number <= queue.done.load(Relaxed) + 1 {
            state.full = FIRST;
        }
        if state.commands.all.len() >= state.full {
            state.full = BATCH.min(2 * state.full);
            let current = queue.context.enter()?;
            queue.send(&mut state, &current);
        }
        Ok(())
    }

    /// Ends the launch. `None`: it had no command, or was waited for.
    pub(crate) fn end(self) -> Result<Option<Done>, Failure> {
        let Writing { queue, launch, batch, start, awaited } = self;
        let times = start.map(|start| queue.point().map(|end| [start, end])).transpose()?;
        let Some(batch) = batch else { return Ok(None) };
        if awaited && times.is_none() {
            let waited = queue.wait(&batch);
            let refused = queue.refusal(launch).map_or(Ok(()), Err);
            queue.forget(launch);
            return waited.and(refused).map(|()| None);
        }
        Ok(Some(Done { queue, batch, launch, times }))
    }

    /// Ends it after an error: what was recorded of it is sent, and waited for.
    pub(crate) fn abandon(self) {
        let _ = Writing { start: None, awaited: true, ..self }.end();
    }
}

impl Done {
    /// Lets what a stream of this context gets from now on run after it. False: it has ended, or the host has
    /// to wait.
    pub(crate) fn before(&self, current: &Current, stream: Stream) -> Result<bool, Failure> {
        let event = self.queue.event_of(&self.batch, current)?;
        event.map_or(Ok(false), |event| event.before(current, stream).map(|()| true))
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.queue.forget(self.launch);
    }
}

impl Completion for Done {
    fn ready(&self) -> bool {
        self.queue.is_done(&self.batch).unwrap_or(true)
    }

    fn wait(&self) -> Result<(), Failure> {
        self.queue.wait(&self.batch)?;
        self.queue.refusal(self.launch).map_or(Ok(()), Err)
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        let (queue, batch) = (self.queue, self.batch.clone());
        queue.waiter.run(Box::new(move || {
            // The callback asks for the outcome.
            let _ = queue.wait(&batch);
            callback();
        }));
    }

    fn times(&self) -> Option<(u64, u64)> {
        let [start, end] = self.times.as_ref()?;
        // It was recorded after the batch's event, which has been waited for.
        end.wait().ok()?;
        Some((0, end.since(start)?))
    }
}
