//! Pipelines that run later, or after others: [`exec_async`], and `exec` where a pipeline is pending.
//!
//! Both do the same: line up in the [order](crate::memory::order) with what they touch; count themselves in the
//! words of their memories (`memory/state/word.rs`), which keeps away whatever is not in the order; run when it
//! is their turn; give the words back; leave. The one runs on a thread of the [`pool`], the other on its caller.
//!
//! The words are counted in without the order's lock, because that may wait for a launch that writes. Who finds a
//! word counted in goes through the order as well. A launch that has the words of its memories already (the short
//! way of `launch.rs`) comes before: those that write are waited for while counting, those that read before the
//! pipeline runs.
//!
//! Nobody waits in a circle: who waits for his turn holds no word that others wait for outside the
//! order, and in it everybody waits for earlier ones only.

mod footprint;
mod handle;
mod host_task;
mod limits;
mod outcome;
mod pool;
mod sync;
mod timer;

pub(super) use footprint::{PipelineFootprint, SharedWalk, region};
pub use handle::Handle;
pub use host_task::HostTask;
pub(super) use host_task::blocked;
pub(super) use limits::{InFlightLimit, timed};
pub(super) type SharedOutcome = std::sync::Arc<outcome::Outcome<Result<(), Error>>>;

use super::submissions::SubmissionList;
use super::{Pipeline, Runtime, launch};
use crate::error::{Code, Error};
use crate::kernel::shim::panic_text;
use crate::memory::order::{ORDER, Ticket};
use limits::Permit;
use outcome::Outcome;
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
    let called = Arc::new(Outcome::new());
    let caller = called.clone();
    ORDER.ready(
        turn.0,
        Box::new(move |_| {
            caller.set(());
        }),
    );
    called.wait();
    launch::run_pending(list, runtime, &touched, None)
}

/// Enters a pipeline into the order, to run on a thread of the pool.
pub(super) fn exec_async(pipeline: Pipeline<'static>) -> Handle {
    let outcome: SharedOutcome = Arc::new(Outcome::new());
    let handle = Handle::new(outcome.clone());
    let (list, runtime) = pipeline.buffer.parts();
    if let Err(error) = launch::may_run(list, runtime) {
        outcome.set(Err(error));
        return handle;
    }
    let permit = runtime.gauge.as_ref().map(Permit::take);
    let touched = PipelineFootprint::of(list, runtime);
    match pend(list, &touched) {
        Ok(turn) => {
            let (ticket, priority) = (turn.0, runtime.priority);
            let task = Task { pipeline, touched, turn, outcome, permit };
            ORDER.ready(ticket, Box::new(move |_| pool::run(priority, move || task.run())));
        }
        Err(error) => {
            drop(permit);
            outcome.set(Err(error));
        }
    }
    handle
}

/// A pipeline on its way, which is counted in the words of its memories.
struct Task {
    pipeline: Pipeline<'static>,
    touched: PipelineFootprint,
    turn: PlaceInOrder,
    outcome: SharedOutcome,
    permit: Option<Permit>,
}

impl Task {
    fn run(self) {
        let Task { pipeline, touched, turn, outcome, permit } = self;
        let (list, runtime) = pipeline.buffer.parts();
        let run = || launch::run_pending(list, runtime, &touched, Some(&outcome));
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(Error::Backend { code: Code::Panic, text: panic_text(&*panic) }));
        // Who has the outcome finds the memories' handles given up; who comes after finds both, and so does who
        // waits for that one.
        drop(pipeline);
        drop(permit);
        outcome.set_before(result, || drop(turn));
    }
}
