//! The in-order queue of launches, and which of them have ended.
//!
//! The event of a command costs time, and keeping it beyond the command's end costs more: the thread that
//! releases it then destroys the command, which otherwise the driver's own threads do (2 of the 8
//! microseconds that an empty launch takes on Intel's runtimes). So few commands have an event. The commands
//! that a thread enqueues one after another are a *batch*. Its first has an event. If there are more, a
//! marker after the last has another: the queue runs in order, so all have ended when that one has. A failure
//! is reported for every launch of the batch. OpenCL leaves open what becomes of the commands after one that
//! failed: where a driver goes on with them, only the success of the first and of the marker is reported, as
//! it is of a kernel that writes to the wrong place.
//!
//! - The open batch is the one to which the next command of its thread belongs. It has at least one command.
//! - `last` is the event of the first command, or of the latest if the launch is timed.
//! - A marker is enqueued when a batch is closed whose last command has no event.
//! - A batch is closed when it has [`BATCH`] commands, when the host queries it, and when another thread
//!   enqueues: so a thread waits only for its own launches.
//! - A timed launch is a batch of its own.
//! - An awaited launch is in no batch: the thread that launches it waits for it, and nothing else refers to
//!   it.

use crate::counted::Counted;
use crate::event::enqueue_barrier;
use crate::failure::{Call, failed};
use crate::places::{Overlays, Place, Places};
use cl3::error_codes::{CL_SUCCESS, DLOPEN_FUNCTION_NOT_AVAILABLE, DLOPEN_RUNTIME_LOAD_FAILED};
use cl3::{OpenCl, load_library};
use flash_backend::{Completion, Failure};
use opencl3::command_queue::{CommandQueue, finish};
use opencl3::event::Event;
use opencl3::types::{cl_command_queue, cl_event, cl_int, cl_mem};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Commands of a batch.
const BATCH: u32 = 256;

/// Commands of one launch that are enqueued before a wait for their end: drivers keep resources for each.
const RUN_AHEAD: u32 = 4096;

/// Commands whose end is observed together.
#[derive(Default)]
struct Batch {
    /// The batch in which its first launch began, if not this one.
    before: Option<flash_backend::Event>,
    /// Set when it is closed.
    end: OnceLock<End>,
    /// Its outcome, once it is known.
    outcome: OnceLock<Result<(), Failure>>,
}

/// Commands that were enqueued one after another, at least one.
struct Row {
    /// The event of the first command, if `last` is of another.
    first: Option<Counted<Event>>,
    last: Counted<Event>,
    /// Commands without an event follow that of `last`.
    goes_on: bool,
    /// Number of commands.
    count: u32,
    /// Number of commands of the queue up to its last.
    number: u64,
}

/// The end of commands to which none is added any more.
struct End {
    /// Its `last` is of the last command, or a marker after that.
    row: Row,
    /// Why there is no marker: the whole queue was waited for instead.
    unmarked: Option<Failure>,
}

/// The launches of a device.
pub(crate) struct Queue {
    queue: CommandQueue,
    /// A wait for all commands takes less time than a wait for one: 48 us instead of 78 on Intel's FPGA
    /// emulator. Elsewhere it takes as much, or more.
    finishes: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// Number of commands so far.
    number: u64,
    /// For a device that works in place.
    overlays: Overlays,
}

/// The open batch.
struct Open {
    batch: Arc<Batch>,
    /// The event of every launch in it.
    event: flash_backend::Event,
    thread: usize,
    row: Row,
}

/// The commands of a launch.
pub struct Commands<'q> {
    queue: &'q Arc<Queue>,
    timed: bool,
    awaited: bool,
    /// The event of the batch of its last command.
    event: Option<flash_backend::Event>,
    /// For an awaited launch.
    row: Option<Row>,
    /// Commands since it last waited.
    count: u32,
}

/// Exclusive use of the queue, until a command is enqueued.
pub(crate) struct Alone<'c, 'q> {
    commands: &'c mut Commands<'q>,
    state: MutexGuard<'q, State>,
    places: Places<'c>,
}

/// Fires when a batch has ended.
pub(crate) struct Done {
    queue: Arc<Queue>,
    batch: Arc<Batch>,
}

impl Queue {
    /// `finishes`: a wait for all commands takes less time than a wait for one.
    pub fn new(queue: CommandQueue, finishes: bool) -> Arc<Queue> {
        Arc::new(Queue { queue, finishes, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// OpenCL's handle.
    pub fn raw(&self) -> cl_command_queue {
        self.queue.get()
    }

    /// Begins a launch. `awaited`: it is waited for at its end.
    pub fn begin(self: &Arc<Queue>, timed: bool, awaited: bool) -> Commands<'_> {
        if timed {
            self.close(&mut self.state());
        }
        Commands { queue: self, timed, awaited, event: None, row: None, count: 0 }
    }

    /// Releases the buffers over host memory that is freed.
    pub fn forget(&self, bytes: Range<usize>) {
        self.state().overlays.forget(bytes);
    }

    /// Waits for everything that was enqueued.
    fn finish(&self) -> Result<(), Failure> {
        finish(self.queue.get()).call("clFinish")
    }

    /// Closes the open batch.
    fn close(&self, state: &mut State) {
        let Some(Open { batch, row, .. }) = state.open.take() else { return };
        let _ = batch.end.set(self.end_of(row));
    }

    /// Lets what comes from now on run after a command of another queue.
    pub fn wait_for(&self, after: &Counted<Event>) -> Result<(), Failure> {
        let mut state = self.state();
        self.close(&mut state);
        // No wait for what came before waits for that.
        state.number += 1;
        enqueue_barrier(self.queue.get(), after)
    }

    /// The end of commands after which nothing was enqueued.
    fn end_of(&self, mut row: Row) -> End {
        let mut unmarked = None;
        if row.goes_on {
            let marker = enqueue("clEnqueueMarkerWithWaitList", true, |opencl, event| {
                opencl.clEnqueueMarkerWithWaitList(self.queue.get(), 0, null(), event)
            });
            match marker {
                Ok(marker) => row.marked(marker.expect("an event was asked for")),
                Err(failure) => {
                    // Without a marker, only this shows that it has ended.
                    let _ = self.finish();
                    unmarked = Some(failure);
                }
            }
        }
        End { row, unmarked }
    }

    /// The end of a batch, which is closed if it is open.
    fn end<'b>(&self, batch: &'b Arc<Batch>) -> &'b End {
        batch.end.get().unwrap_or_else(|| {
            let mut state = self.state();
            if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.batch, batch)) {
                self.close(&mut state);
            }
            // If another thread closed it, it did so under the lock.
            batch.end.get().expect("a batch is open or closed")
        })
    }
}

impl<'q> Commands<'q> {
    /// Takes the queue: nothing else enqueues, and no buffer is freed, until it is given back.
    pub(crate) fn alone<'c>(&'c mut self, places: Places<'c>) -> Alone<'c, 'q> {
        let mut state = self.queue.state();
        state.overlays.limit();
        Alone { commands: self, state, places }
    }

    /// Waits, if very many commands are in flight. No lock is held meanwhile: a callback of their end may
    /// launch.
    pub fn keep_pace(&mut self) -> Result<(), Failure> {
        if self.count >= RUN_AHEAD {
            self.count = 0;
            self.queue.finish()?;
            self.wait()?;
            // A timed launch stays one batch.
            if let Some(event) = self.event.take_if(|_| !self.timed) {
                event.wait()?;
            }
        }
        Ok(())
    }

    /// Waits for everything that was enqueued. No lock is held meanwhile, as above.
    pub fn finish(&self) -> Result<(), Failure> {
        self.queue.finish()
    }

    /// Waits for the enqueued part of an awaited launch.
    fn wait(&mut self) -> Result<(), Failure> {
        let Some(row) = self.row.take() else { return Ok(()) };
        let end = match row.goes_on {
            true => {
                let _alone = self.queue.state();
                self.queue.end_of(row)
            }
            false => End { row, unmarked: None },
        };
        end.wait(self.queue)
    }

    /// Ends the launch. `None`: it is complete.
    pub fn end(mut self) -> Result<Option<flash_backend::Event>, Failure> {
        if self.timed {
            self.queue.close(&mut self.queue.state());
        }
        self.wait()?;
        Ok(self.event)
    }

    /// Ends it after an error: a command that was enqueued is waited for.
    pub fn abandon(self) {
        let _ = self.queue.finish();
    }
}

impl Alone<'_, '_> {
    /// Changes whenever the handle of a buffer may come to mean another one.
    pub fn gone(&self) -> u64 {
        self.places.gone(&self.state.overlays)
    }

    /// The buffer of a place; NULL for one without bytes.
    pub fn buffer(&mut self, place: Place) -> Result<cl_mem, Failure> {
        self.places.buffer(&mut self.state.overlays, place)
    }

    /// Enqueues a command by a call of OpenCL, which gets the place for its event, or NULL.
    ///
    /// # Errors
    /// That of the call. Commands that were enqueued before stay enqueued.
    pub fn push(
        &mut self,
        name: &str,
        call: impl FnOnce(&OpenCl, cl_command_queue, *mut cl_event) -> Option<cl_int>,
    ) -> Result<(), Failure> {
        let Alone { commands: Commands { queue, timed, awaited, event: own, row, count }, state, .. } = self;
        let same = |open: &Open| !*awaited && open.thread == this_thread() && (!*timed || own.is_some());
        if state.open.as_ref().is_some_and(|open| !same(open)) {
            queue.close(state);
        }
        let State { open, number, .. } = &mut **state;
        let begun = if *awaited { row.as_mut() } else { open.as_mut().map(|open| &mut open.row) };
        let wanted = *timed || begun.is_none();
        let event = enqueue(name, wanted, |opencl, event| call(opencl, queue.raw(), event))?;
        *number += 1;
        *count += 1;
        match (begun, event) {
            (Some(row), event) => row.push(event, *number),
            (None, Some(last)) => {
                let first = Row { first: None, last, goes_on: false, count: 1, number: *number };
                if *awaited {
                    *row = Some(first);
                } else {
                    let batch = Arc::new(Batch { before: own.take(), ..Batch::default() });
                    let event =
                        flash_backend::Event::new(Done { queue: Arc::clone(queue), batch: batch.clone() });
                    *open = Some(Open { batch, event, thread: this_thread(), row: first });
                }
            }
            (None, None) => unreachable!("the first command has an event"),
        }
        let Some(open) = open else { return Ok(()) };
        if own.as_ref().is_none_or(|own| !own.is(&open.event)) {
            *own = Some(open.event.clone());
        }
        if open.row.count >= BATCH && !*timed {
            queue.close(state);
        }
        Ok(())
    }
}

impl Row {
    /// Adds a command; timed ones have an event each.
    fn push(&mut self, event: Option<Counted<Event>>, number: u64) {
        match event {
            Some(event) => self.marked(event),
            None => self.goes_on = true,
        }
        self.count += 1;
        self.number = number;
    }

    /// Sets an event after which all before it have ended.
    fn marked(&mut self, event: Counted<Event>) {
        let before = std::mem::replace(&mut self.last, event);
        self.first.get_or_insert(before);
        self.goes_on = false;
    }
}

impl End {
    /// Waits for all of them.
    fn wait(&self, queue: &Queue) -> Result<(), Failure> {
        let End { row: Row { first, last, count, number, .. }, unmarked } = self;
        if let Some(failure) = unmarked {
            return Err(failure.clone());
        }
        if queue.finishes && queue.state().number == *number {
            queue.finish()?;
        }
        let what = || match count {
            1 => "a command in the device's queue".to_owned(),
            _ => format!("one of {count} commands in the device's queue, which went off together"),
        };
        last.wait_for(what)?;
        first.as_ref().map_or(Ok(()), |first| first.wait_for(what))
    }
}

/// Enqueues a command by a call of OpenCL, and takes its event if one is wanted. (`opencl3` always wants
/// one.)
fn enqueue(
    name: &str,
    wanted: bool,
    call: impl FnOnce(&OpenCl, *mut cl_event) -> Option<cl_int>,
) -> Result<Option<Counted<Event>>, Failure> {
    let opencl = load_library().as_ref().map_err(|_| failed(name, DLOPEN_RUNTIME_LOAD_FAILED))?;
    let mut event = null_mut();
    match call(opencl, if wanted { &raw mut event } else { null_mut() }) {
        Some(CL_SUCCESS) => Ok(wanted.then(|| Counted::new(Event::new(event)))),
        code => Err(failed(name, code.unwrap_or(DLOPEN_FUNCTION_NOT_AVAILABLE))),
    }
}

/// A number that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: Cell<u8> = const { Cell::new(0) });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Done {
    /// The event of the last command.
    pub fn last(&self) -> &Counted<Event> {
        &self.queue.end(&self.batch).row.last
    }
}

impl Completion for Done {
    fn ready(&self) -> bool {
        self.batch.outcome.get().is_some() || self.queue.end(&self.batch).row.last.has_ended()
    }

    fn wait(&self) -> Result<(), Failure> {
        let wait = || {
            self.batch.before.as_ref().map_or(Ok(()), |before| before.wait())?;
            self.queue.end(&self.batch).wait(&self.queue)
        };
        self.batch.outcome.get_or_init(wait).clone()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        self.queue.end(&self.batch).row.last.when_ended(callback);
    }

    fn times(&self) -> Option<(u64, u64)> {
        let Row { first, last, .. } = &self.queue.end(&self.batch).row;
        let start = first.as_ref().unwrap_or(last).profiling_command_start();
        start.ok().zip(last.profiling_command_end().ok())
    }
}
