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
//! the order, and in the order it waits for earlier ones only.

mod footprint;
mod handle;
mod host_task;
mod limits;
mod outcome;
mod pending;
mod queue;
mod sync;
mod timer;

pub(super) use footprint::{PipelineFootprint, SharedWalk, region};
pub use handle::Handle;
pub use host_task::HostTask;
pub(super) use limits::{InFlightLimit, timed};
pub(super) type SharedOutcome = Arc<pending::Pending>;

use super::launch::{self, InTurn, Rest};
use super::submissions::SubmissionList;
use super::{Pipeline, Runtime};
use crate::error::{Code, Error};
use crate::kernel::shim::panic_text;
use crate::memory::order::{ORDER, Ticket};
use limits::Permit;
use pending::Pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Takes a place in the order, and counts a pipeline in the words of its memories.
fn pend(list: &SubmissionList, touched: &PipelineFootprint) -> Result<PlaceInOrder, Error> {
    // Who tries again and again while a guard is alive leaves nothing in the order.
    for (_, memory, written) in list.memories() {
        memory.look(written.then(|| touched.written(memory)))?;
    }
    let ticket = ORDER.line_up(touched.touches());
    for (counted, (_, memory, written)) in list.memories().enumerate() {
        if let Err(refused) = memory.pend(written.then(|| touched.written(memory))) {
            list.memories().take(counted).for_each(|(_, memory, written)| memory.state.unpend(written));
            ORDER.withdraw(ticket);
            return Err(refused.into());
        }
    }
    Ok(PlaceInOrder(ticket))
}

/// Leaves the order when dropped.
struct PlaceInOrder(Ticket);

impl Drop for PlaceInOrder {
    fn drop(&mut self) {
        ORDER.leave(self.0);
    }
}

/// Runs a pipeline on this thread, in its turn. The launch is one that may run.
#[cold]
pub(super) fn exec_here(list: &SubmissionList, runtime: &Runtime) -> Result<(), Error> {
    let touched = PipelineFootprint::of(list, runtime);
    let turn = pend(list, &touched)?;
    let called = Pending::new(false);
    called.enter(turn.0);
    let caller = called.clone();
    ORDER.ready(
        turn.0,
        Box::new(move |_| {
            caller.set(Ok(()));
        }),
    );
    called.wait()?;
    launch::run_in_turn(list, runtime, &InTurn::on_caller(&touched), None)
}

/// Enters a pipeline into the order, to run on a worker or on a thread that waits for it.
pub(super) fn exec_async(pipeline: Pipeline<'static>) -> Handle {
    let (list, runtime) = pipeline.buffer.parts();
    let timed = list.nodes().iter().any(|node| launch::timeout(node, runtime).is_some());
    let pending = Pending::new(timed);
    let handle = Handle::new(pending.clone());
    if let Err(error) = launch::may_run(list, runtime) {
        pending.set(Err(error));
        return handle;
    }
    let permit = runtime.gauge.as_ref().map(Permit::take);
    let touched = PipelineFootprint::of(list, runtime);
    match pend(list, &touched) {
        Ok(turn) => {
            let ticket = turn.0;
            pending.enter(ticket);
            let task = Task { pipeline, touched, turn, pending, permit, rest: None };
            ORDER.ready(ticket, Box::new(move |_| pending::push(task)));
        }
        Err(error) => {
            drop(permit);
            pending.set(Err(error));
        }
    }
    handle
}

/// A pipeline on its way, which is counted in the words of its memories.
struct Task {
    pipeline: Pipeline<'static>,
    touched: PipelineFootprint,
    turn: PlaceInOrder,
    pending: SharedOutcome,
    permit: Option<Permit>,
    /// What is left of it.
    rest: Option<Rest>,
}

impl Task {
    fn ticket(&self) -> Ticket {
        self.turn.0
    }

    /// Runs it, or some of it, and sees to it that the rest is run. A worker may not wait.
    fn run(mut self, may_wait: bool) {
        let rest = self.rest.take();
        let (list, runtime) = self.pipeline.buffer.parts();
        let state = InTurn::of_task(&self.touched, may_wait, rest);
        let run = || launch::run_in_turn(list, runtime, &state, Some(&self.pending));
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(Error::Backend { code: Code::Panic, text: panic_text(&*panic) }));
        if let Some(rest) = state.left() {
            return pending::go_on(self, rest);
        }
        // A thread that has the outcome finds the memories' handles given up; what comes after finds both, and so does a
        // thread that waits for that.
        let Task { pipeline, turn, pending, permit, .. } = self;
        drop(pipeline);
        drop(permit);
        pending.finish(result, turn, !may_wait);
    }
}
