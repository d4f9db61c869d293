//! Pipelines that run later, or after others: [`exec_async`], and `exec` where a pipeline is pending.
//!
//! Both do the same: count themselves in the words of their memories (`memory/state/word.rs`), which
//! keeps away whatever is not in the order; enter the [`order`], which says when it is their turn; run;
//! give the words back; leave. The one runs on a thread of the [`pool`], the other on its caller.
//!
//! The words are counted in without the order's lock, because that may wait for a launch that writes.
//! That decides nothing yet: the place in the order is taken afterwards, for all memories at once, and
//! whoever finds a word counted in goes through the order as well. A launch that has the words of its
//! memories already (the short way of `launch.rs`) comes before: those that write are waited for while
//! counting, those that read before the pipeline runs.
//!
//! Nobody waits in a circle: who waits for his turn holds no word that others wait for outside the
//! order, and in it everybody waits for earlier ones only.

mod handle;
mod host_task;
mod limits;
mod order;
mod outcome;
mod pool;
mod sync;
mod timer;

pub use handle::Handle;
pub use host_task::HostTask;
pub(super) use host_task::blocked;
pub(super) use limits::{Gauge, timed};
pub(super) type Watch = std::sync::Arc<outcome::Outcome<Result<(), Error>>>;

use super::record::Slots;
use super::{Pipeline, Runtime, launch};
use crate::error::{Code, Error};
use crate::kernel::shim::panic_text;
use limits::Permit;
use order::{Order, Ticket, Touch};
use outcome::Outcome;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

/// The order of all pipelines of the process.
static ORDER: LazyLock<Order> = LazyLock::new(Order::default);

/// Counts a pipeline in the words of its memories.
fn pend(slots: &Slots) -> Result<Vec<Touch>, Error> {
    let mut touches: Vec<Touch> = Vec::with_capacity(slots.memories());
    let counted = slots.visit_memories(|_, memory, written| {
        if written { memory.state.pend_write() } else { memory.state.pend_read() }?;
        touches.push((std::ptr::from_ref(memory) as usize, written));
        Ok(())
    });
    let Err(error) = counted else {
        return Ok(touches);
    };
    let mut left = touches.len();
    let _ = slots.visit_memories(|_, memory, written| {
        if left > 0 {
            left -= 1;
            memory.state.unpend(written);
        }
        Ok(())
    });
    Err(error)
}

/// Leaves the order when dropped.
struct Turn(Ticket);

impl Drop for Turn {
    fn drop(&mut self) {
        ORDER.leave(self.0);
    }
}

/// Runs a pipeline on this thread, in its turn. The launch is one that may run.
#[cold]
pub(super) fn exec_here(slots: &Slots, runtime: &Runtime) -> Result<(), Error> {
    let touches = pend(slots)?;
    let turn = Arc::new(Outcome::<Ticket>::new());
    let called = turn.clone();
    ORDER.enter(
        touches,
        Box::new(move |ticket| {
            called.set(ticket);
        }),
    );
    let _turn = Turn(turn.wait());
    launch::run_pending(slots, runtime, None)
}

/// Enters a pipeline into the order, to run on a thread of the pool.
pub(super) fn exec_async(pipeline: Pipeline<'static>) -> Handle {
    let outcome: Watch = Arc::new(Outcome::new());
    let handle = Handle::new(outcome.clone());
    let (slots, runtime) = pipeline.buffer.parts();
    if let Err(error) = launch::may_run(slots, runtime) {
        outcome.set(Err(error));
        return handle;
    }
    let permit = runtime.gauge.as_ref().map(Permit::take);
    match pend(slots) {
        Ok(touches) => {
            let task = Task { pipeline, outcome, permit };
            ORDER.enter(touches, Box::new(|ticket| pool::run(move || task.run(ticket))));
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
    outcome: Watch,
    permit: Option<Permit>,
}

impl Task {
    fn run(self, ticket: Ticket) {
        let Task { pipeline, outcome, permit } = self;
        let turn = Turn(ticket);
        let (slots, runtime) = pipeline.buffer.parts();
        let run = || launch::run_pending(slots, runtime, Some(&outcome));
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(Error::Backend { code: Code::Panic, text: panic_text(&*panic) }));
        drop(turn);
        // The outcome comes last: who has it finds the memories' handles given up.
        drop(pipeline);
        drop(permit);
        outcome.set(result);
    }
}
