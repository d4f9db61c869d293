//! The queue of launches, which runs in order, and which of them have ended.
//!
//! To keep the event of a command beyond its end costs: who gives it back then takes the command apart, which else
//! the driver's own threads do (2 of the 8 microseconds that an empty launch takes on Intel's runtimes). So events
//! are kept of few commands. Those that a thread enqueues one after another are a *batch*, whose last has the only
//! event: in a queue that runs in order all have ended when that one has. What fails is said of every launch of the
//! batch. OpenCL leaves open what becomes of the commands behind one that failed: where a driver goes on with them, the
//! last one's success is all that is heard, as it is of a kernel that writes to the wrong place.
//!
//! | what | invariant |
//! |---|---|
//! | open batch | the one to which the next command of this thread belongs; there is none, or it has a command |
//! | `last` | the event of the latest command, which the open batch gets when it is closed |
//! | closed | when it has [`BATCH`] commands, when somebody wants to know of it, and when another thread enqueues: who waits waits for no more than its own thread's launches |
//! | a timed launch | is a batch of its own |

use crate::counted::Counted;
use crate::event::enqueued;
use crate::failure::Call;
use flash_core::backend::{self, Completion, Failure};
use opencl3::command_queue::{CommandQueue, finish};
use opencl3::event::Event;
use opencl3::types::{cl_command_queue, cl_event, cl_int};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Commands of a batch.
const BATCH: u32 = 64;

/// Commands of one launch that are enqueued before their end is waited for: drivers keep something of each.
const RUN_AHEAD: u32 = 4096;

/// Commands that end together, for all that anybody knows.
#[derive(Default)]
struct Batch {
    /// Its first command, if it is timed and has another.
    first: OnceLock<Counted<Event>>,
    /// Once it is closed.
    end: OnceLock<End>,
    /// How it has ended, once somebody knows.
    outcome: OnceLock<Result<(), Failure>>,
}

/// The end of a batch.
struct End {
    /// Its last command.
    last: Counted<Event>,
    /// How many it has.
    count: u32,
    /// Commands of the queue up to there.
    number: u64,
}

/// The launches of a device.
pub(crate) struct Queue {
    queue: CommandQueue,
    /// To wait for all commands takes less than to wait for one: 48 us instead of 78 on Intel's FPGA emulator. Elsewhere
    /// it takes as much, or more.
    finishes: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// Commands so far.
    number: u64,
}

/// The open batch.
struct Open {
    batch: Arc<Batch>,
    /// Of every launch of it.
    event: backend::Event,
    thread: usize,
    last: Counted<Event>,
    count: u32,
}

/// The commands of a launch.
pub(crate) struct Commands {
    queue: Arc<Queue>,
    timed: bool,
    /// Of its last command's batch.
    event: Option<backend::Event>,
    /// Since it last waited.
    count: u32,
}

/// Fires when a batch has ended.
struct Done {
    queue: Arc<Queue>,
    batch: Arc<Batch>,
}

impl Queue {
    /// `finishes`: to wait for all commands takes less than to wait for one.
    pub fn new(queue: CommandQueue, finishes: bool) -> Arc<Queue> {
        Arc::new(Queue { queue, finishes, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// OpenCL's own.
    pub fn raw(&self) -> cl_command_queue {
        self.queue.get()
    }

    /// Begins a launch.
    pub fn begin(self: &Arc<Queue>, timed: bool) -> Commands {
        if timed {
            self.state().close();
        }
        Commands { queue: self.clone(), timed, event: None, count: 0 }
    }

    /// Waits for everything that was enqueued.
    fn finish(&self) -> Result<(), Failure> {
        finish(self.queue.get()).call("clFinish")
    }

    /// The end of a batch, which is closed if it is open.
    fn end<'b>(&self, batch: &'b Arc<Batch>) -> &'b End {
        batch.end.get().unwrap_or_else(|| {
            let mut state = self.state();
            if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.batch, batch)) {
                state.close();
            }
            // Who else closed it did so under the lock.
            batch.end.get().expect("a batch is open or closed")
        })
    }
}

impl State {
    fn close(&mut self) {
        if let Some(Open { batch, last, count, .. }) = self.open.take() {
            let _ = batch.end.set(End { last, count, number: self.number });
        }
    }
}

impl Commands {
    /// Enqueues a command by a call of OpenCL's, which gives its event.
    ///
    /// # Errors
    /// The call's. What was enqueued before stays so.
    pub fn push(
        &mut self,
        name: &str,
        call: impl FnOnce(cl_command_queue) -> Result<cl_event, cl_int>,
    ) -> Result<(), Failure> {
        let Commands { queue, timed, event: own, count } = self;
        let mut state = queue.state();
        // The lock makes the order of events that of the commands.
        let event = enqueued(call(queue.queue.get()), name)?;
        let thread = this_thread();
        let goes_on = |open: &Open| open.thread == thread && (!*timed || own.is_some());
        if !state.open.as_ref().is_some_and(goes_on) {
            state.close();
        }
        state.number += 1;
        match &mut state.open {
            Some(open) => {
                let before = std::mem::replace(&mut open.last, event);
                open.count += 1;
                if *timed {
                    let _ = open.batch.first.set(before);
                }
            }
            None => {
                let batch = Arc::<Batch>::default();
                let done = backend::Event::new(Done { queue: queue.clone(), batch: batch.clone() });
                state.open = Some(Open { batch, event: done, thread, last: event, count: 1 });
            }
        }
        let Some(open) = &state.open else { return Ok(()) };
        if own.as_ref().is_none_or(|own| !own.is(&open.event)) {
            *own = Some(open.event.clone());
        }
        if open.count >= BATCH && !*timed {
            state.close();
        }
        *count += 1;
        Ok(())
    }

    /// Waits, if very many commands are on their way. Nothing is locked meanwhile: what hears of their end may launch.
    pub fn keep_pace(&mut self) -> Result<(), Failure> {
        if self.count >= RUN_AHEAD {
            self.count = 0;
            self.queue.finish()?;
        }
        Ok(())
    }

    /// Ends the launch. `None`: there was nothing to do.
    pub fn end(self) -> Option<backend::Event> {
        if self.timed {
            self.queue.state().close();
        }
        self.event
    }

    /// Ends it after an error: a command that was enqueued stays so, and is waited for.
    pub fn abandon(self) {
        let _ = self.queue.finish();
    }
}

/// A number that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: Cell<u8> = const { Cell::new(0) });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Completion for Done {
    fn ready(&self) -> bool {
        self.batch.outcome.get().is_some() || self.queue.end(&self.batch).last.has_ended()
    }

    fn wait(&self) -> Result<(), Failure> {
        let wait = || {
            let End { last, count, number } = self.queue.end(&self.batch);
            if self.queue.finishes && self.queue.state().number == *number {
                self.queue.finish()?;
            }
            last.wait_for(|| match count {
                1 => "a command in the device's queue".to_owned(),
                _ => format!("one of {count} commands in the device's queue, which went off together"),
            })
        };
        self.batch.outcome.get_or_init(wait).clone()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        self.queue.end(&self.batch).last.when_ended(callback);
    }

    fn times(&self) -> Option<(u64, u64)> {
        let End { last, .. } = self.queue.end(&self.batch);
        let start = self.batch.first.get().unwrap_or(last).profiling_command_start();
        start.ok().zip(last.profiling_command_end().ok())
    }
}
