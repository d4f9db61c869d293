//! Pipelines that run later, or after others: [`exec_async`], and `exec` where a pipeline is pending.
//!
//! Both do the same. They line up in the [order](crate::memory::order) with what they touch. They count
//! themselves in the words of their memories (`memory/state/word.rs`), which keeps away whatever is not in
//! the order. They run when it is their turn, give the words back, and leave. [`exec_async`] runs on a worker
//! thread or one that waits for it ([`pending`]), `exec` on its caller.
//!
//! Counting in a word is done without the order's lock, because it may wait for a launch that writes. A use
//! that finds a word counted in goes through the order as well. A launch that already has the words of its
//! memories (the inline path of `launch.rs`) comes before: those that write are waited for while counting,
//! those that read before the pipeline runs.
//!
//! There is no circle of waiting: a pipeline that waits for its turn holds no word that is waited for outside
//! the order, and in the order it waits for earlier ones only, and for guards of threads that do not wait for
//! it (`runtime/README.md`).

mod follow;
mod handle;
mod host_task;
mod landing;
pub(super) mod limits;
mod outcome;
pub(super) mod pending;
mod queue;
mod steer;
mod sync;
mod timer;

pub use handle::Handle;
pub use host_task::HostTask;
pub use pending::pipelines_wait;

use super::api::{Pipeline, SubmitObj};
use super::device_launch::timeout;
use super::footprint::pipeline::PipelineFootprint;
use super::hold::{Awaits, GuardedMemory, InTurn, Rest, Runner, end_of, patience};
use super::launch;
use super::state::Runtime;
use super::submissions::SubmissionList;
use crate::error::Error;
use crate::memory::order::{self, AfterGuards, BehindGuards, ORDER, Start, Ticket};
use crate::memory::own_guards;
use crate::workers;
use flash_backend::caught;
use flash_backend::fork;
use flash_types::Code;
use flash_types::index::IntoDims;
use landing::Landing;
use limits::Permit;
use pending::{Pending, PlaceInOrder, QueuedPipeline};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use timer::Alarm;

/// Enters a pipeline into the order, to run on a worker or on a thread that waits for it.
pub(super) fn exec_async(mut pipeline: Pipeline<'static>) -> Handle {
    let (list, runtime) = pipeline.buffer.parts();
    let timed = list.nodes().iter().any(|node| timeout(node, runtime).is_some());
    let pending = Pending::new(timed);
    let handle = Handle::new(pending.clone());
    if let Err(error) = launch::may_run(list, runtime).and_then(|()| Ok(fork::check()?)) {
        pending.set(Err(error));
        return handle;
    }
    let permit = runtime.gauge.as_ref().map(Permit::take);
    let touched = pipeline.buffer.footprint();
    let (list, runtime) = pipeline.buffer.parts();
    let follows = launch::follows(list, runtime, &touched).map(follow::number);
    let (turn, patience) = match pending::pend(list, &touched, follows) {
        Ok(turn) => (turn, None),
        Err(_) if may_wait(list, runtime, &touched) => {
            let (turn, is_behind) = pending::pend_behind(list, &touched, follows);
            (turn, is_behind.then(|| patience(list, runtime)))
        }
        Err(guarded) => {
            drop(permit);
            pending.set(Err(guarded.error(guarded.region(&touched), None)));
            return handle;
        }
    };
    let ticket = turn.ticket();
    pending.enter(ticket);
    let task = Box::new(Task { pipeline, touched, turn, pending, permit, follows: false, rest: None });
    let Some(patience) = patience else {
        ORDER.ready(ticket, task);
        return handle;
    };
    let alarm = Arc::new(OnceLock::new());
    order::resume_after_guards(Box::new(GuardedTask { task, patience, _alarm: alarm.clone() }));
    // Not before it is in the list, where the alarm looks for it. It is dropped with the task.
    let _ = alarm.set(Alarm::at(end_of(patience), move || order::give_up_guards(ticket)));
    handle
}

/// True if a pipeline waits for the guards that conflict with it now: none is its caller's.
fn may_wait(list: &SubmissionList, runtime: &Runtime, touched: &PipelineFootprint) -> bool {
    let own = |guarded: GuardedMemory<'_>| own_guards::has(guarded.memory.id());
    !patience(list, runtime).is_zero() && !pending::guarded(list, touched).any(own)
}

/// A pipeline that is behind guards in the order.
struct GuardedTask {
    task: Box<Task>,
    patience: Duration,
    /// The end of its patience.
    _alarm: Arc<OnceLock<Alarm>>,
}

impl GuardedTask {
    fn list(&self) -> &SubmissionList {
        self.task.pipeline.buffer.parts().0
    }
}

impl BehindGuards for GuardedTask {
    fn ticket(&self) -> Ticket {
        self.task.turn.ticket()
    }

    fn touches(&self, memory: u64) -> bool {
        self.list().memories().any(|(_, touched, _)| touched.id() == memory)
    }

    fn is_free(&self) -> bool {
        pending::guarded(self.list(), &self.task.touched).next().is_none()
    }
}

impl AfterGuards for GuardedTask {
    fn resume(self: Box<Self>) {
        let GuardedTask { task, .. } = *self;
        ORDER.ready(task.turn.ticket(), task);
    }

    fn give_up(self: Box<Self>) {
        let GuardedTask { task, patience, .. } = *self;
        let Task { pipeline, touched, turn, pending, permit, .. } = *task;
        let list = pipeline.buffer.parts().0;
        // If there is none, it was released just now.
        let none = Error::Borrowed { guard: None, waited: Some(patience) };
        let guarded = pending::guarded(list, &touched).next();
        let error = guarded.map_or(none, |guarded| guarded.error(guarded.region(&touched), Some(patience)));
        turn.withdraw(list);
        drop(pipeline);
        drop(permit);
        pending.set(Err(error));
    }
}

/// A pipeline on its way, which is counted in the words of its memories.
struct Task {
    pipeline: Pipeline<'static>,
    touched: Arc<PipelineFootprint>,
    turn: PlaceInOrder,
    pending: Arc<Pending>,
    permit: Option<Permit>,
    /// It was given to its device before its turn, or tried to be, and has not had its turn yet.
    follows: bool,
    /// What is left of it.
    rest: Option<Rest>,
}

impl Start for Task {
    fn start(mut self: Box<Self>, _: Ticket) {
        self.follows = false;
        match &self.rest {
            Some(Rest { awaits: Awaits::Device(_), .. }) => landing::end(self),
            _ => pending::push(self),
        }
    }

    fn follow(self: Box<Self>, _: Ticket) {
        follow::follow(self);
    }
}

impl QueuedPipeline for Task {
    fn ticket(&self) -> Ticket {
        self.turn.ticket()
    }

    fn priority(&self) -> i32 {
        self.pipeline.buffer.parts().1.priority
    }

    fn is_timed(&self) -> bool {
        self.pending.is_timed()
    }

    fn set_queued(&self, queued: bool) {
        self.pending.set_queued(queued);
    }

    fn run(mut self: Box<Self>, runner: Runner) -> bool {
        let rest = self.rest.take();
        let runner = match runner {
            // Those that come after it are given to the device, too: a wait for its end would keep them.
            Runner::Waiting if rest.is_none() && ORDER.is_followed(self.ticket()) => Runner::Extra,
            _ => runner,
        };
        let (list, runtime) = self.pipeline.buffer.parts();
        let state = InTurn::of_task(&self.touched, runner, rest);
        let run = || launch::run_in_turn(list, runtime, &state, Some(self.pending.outcome()));
        let result = caught(run).unwrap_or_else(|text| Err(Error::Backend { code: Code::Panic, text }));
        if let Some(rest) = state.left() {
            go_on(self, rest);
            return false;
        }
        // A thread that has the outcome finds the memories' handles given up; what comes after finds both,
        // and so does a thread that waits for that.
        let Task { pipeline, turn, pending, permit, .. } = *self;
        drop(pipeline);
        drop(permit);
        pending.finish(result, turn, runner == Runner::Worker);
        true
    }
}

/// What remains of a pipeline is run when it can be: by a worker once a function of the host is complete, by
/// a thread that serves devices once its device is done, or by an extra thread.
fn go_on(mut task: Box<Task>, rest: Rest) {
    let (priority, ticket) = (task.priority(), task.ticket());
    let submissions = task.pipeline.buffer.parts().0.nodes().len();
    let awaits = &task.rest.insert(rest).awaits;
    match awaits {
        Awaits::Thread => workers::blocking::run(priority, Box::new(move || _ = task.run(Runner::Extra))),
        Awaits::Host(postponed) => {
            let postponed = postponed.clone();
            postponed.then(Box::new(move || pending::push(task)));
        }
        Awaits::Device(left) => {
            let (is_all, device) = (left.is_all(submissions), follow::number(left.device()));
            Landing::await_device(task);
            if is_all {
                ORDER.is_there(ticket, device);
            }
        }
    }
}

impl SubmitObj<'static> {
    /// As [`Pipeline::exec_async`], of it and everything before it in its chain.
    pub fn exec_async(self, dims: impl IntoDims) -> Handle {
        self.defer(dims).exec_async()
    }
}

impl Pipeline<'static> {
    /// Enters it into the order and returns: it runs when what it depends on has finished, on a thread of
    /// the library. A launch or guard that comes later, of any thread, comes after it on memories that it
    /// touches. All arguments are owned: clones of memories, ranges that are
    /// [owned](crate::FlashMemory::into_range), numbers.
    ///
    /// It waits at the limit of [`InFlight`](crate::descriptor::InFlight), for launches of other threads that
    /// just now write one of its memories, and when 16,383 pipelines are on their way to read or to write one
    /// memory.
    ///
    /// # Errors
    /// All come out of the handle: those of [`exec`](Self::exec); [`Error::Borrowed`] at once if this thread
    /// has a guard that conflicts, and at the end of its [`Patience`](crate::descriptor::Patience) if another
    /// thread has.
    ///
    /// # Examples
    /// ```
    /// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
    /// use flash_core::{FlashMemory, runtime::HostTask};
    /// let squares = FlashMemory::<u64>::zeroed(100);
    /// let task = HostTask::new("squares").write(squares.clone());
    /// let handle = rt.pipeline().host(task, |io| {
    ///     io.write::<u64>(0)?.iter_mut().zip(0..).for_each(|(s, i)| *s = i * i);
    ///     Ok(())
    /// });
    /// let handle = handle.exec_async();
    /// assert_eq!(squares.get(9)?, 81);                 // a guard comes after it
    /// handle.wait()?;
    /// # Ok::<(), flash_core::Error>(())
    /// ```
    ///
    /// What is borrowed does not go along:
    /// ```compile_fail,E0597
    /// use flash_core::runtime::HostTask;
    /// let rt = flash_core::get_runtime("ALL_CPU").unwrap();
    /// let mut a = [0u64; 4];
    /// let task = HostTask::new("fill").write(&mut a[..]);
    /// rt.pipeline().host(task, |io| Ok(io.write::<u64>(0)?.fill(1))).exec_async().wait().unwrap();
    /// ```
    pub fn exec_async(self) -> Handle {
        exec_async(self)
    }
}
