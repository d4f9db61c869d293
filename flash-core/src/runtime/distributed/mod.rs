//! The distributed path of a launch: several devices, or memories of their own. See README.md beside this
//! folder.

pub(super) mod active_run;
mod arrays;
pub(super) mod kept;
mod lane;
pub(crate) mod lanes;
mod out_of_core;
mod part;
mod placement;
mod room;
mod scheduler;
mod settle;
mod shared_read;
mod sync;
mod task;

use super::asynchronous::limits::SharedOutcome;
use super::failsafe::DeferredResult;
use super::hold::Remaining;
use super::partition::Parts;
use super::reorder;
use super::state::Runtime;
use super::submissions::SubmissionList;
use crate::error::{Error, LaunchError};
use kept::KeptRuns;
#[cfg(feature = "recordings")]
pub(super) use placement::parts_of;
pub(super) use placement::wants_cut;
use scheduler::Scheduler;
use smallvec::SmallVec;
use std::sync::Arc;

/// How a pipeline runs, whose memories are held.
pub(super) struct Run<'r> {
    /// Is told of timeouts.
    pub watch: Option<&'r SharedOutcome>,
    /// Others may use other elements of the memories meanwhile.
    pub beside: bool,
    /// Another thread may run the rest, once a function of the host is complete that completes later.
    pub suspends: bool,
    /// The last run of this recording, if it can be repeated. It is given where all of a recording runs,
    /// without `watch` and not `beside` others.
    pub kept: Option<&'r KeptRuns>,
}

/// How a run has ended.
pub(super) enum Ended {
    /// All of it, with these failures, in order.
    All(Vec<LaunchError>),
    /// At a function of the host that completes later: the first submission that remains.
    AtHost(Remaining, Arc<DeferredResult>),
}

/// Runs what is left of a pipeline. If the devices have memories of their own, the run is
/// [`ActiveRun`](active_run::ActiveRun).
///
/// # Errors
/// An invalid map: then none of these submissions was run.
pub(super) fn run(
    list: &SubmissionList,
    runtime: &Runtime,
    run: Run<'_>,
    remaining: Remaining,
) -> Result<Ended, Error> {
    let nodes = list.nodes();
    // By position.
    let mut checked: SmallVec<[(usize, Arc<Parts>); 4]> = SmallVec::new();
    for position in remaining.positions(list) {
        checked.extend(placement::check(list, &nodes[position])?.map(|parts| (position, parts)));
    }
    let again = run.kept.and_then(|kept| kept.again(list, runtime, &checked));
    if let Some(failures) = again {
        return Ok(Ended::All(in_order(failures)));
    }
    let order: SmallVec<[usize; 8]> = match reorder::reordered(list, runtime, remaining.first) {
        None => remaining.positions(list).collect(),
        Some(order) => order.into_iter().filter(|at| remaining.done.binary_search(at).is_err()).collect(),
    };
    let mut walk = Scheduler::new(list, runtime, &run);
    if run.kept.is_some_and(KeptRuns::begins_walk) {
        walk.note();
    }
    for (number, position) in order.iter().copied().enumerate() {
        let parts = checked.binary_search_by_key(&position, |(at, _)| *at);
        walk.issue(position, &nodes[position], parts.ok().map(|at| checked[at].1.clone()));
        if let Some(postponed) = walk.postponed.take() {
            // Functions of the host come when nothing else may, the first one first: all before it is done.
            let done = remaining.done.iter().chain(&order[..number]).copied().filter(|at| *at > position);
            let mut done: Vec<usize> = done.collect();
            done.sort_unstable();
            let failures = walk.finish(remaining.failures, None);
            let remaining = Remaining { first: position, done, failures, late: None };
            return Ok(Ended::AtHost(remaining, postponed));
        }
    }
    Ok(Ended::All(in_order(walk.finish(remaining.failures, run.kept))))
}

fn in_order(mut failures: Vec<LaunchError>) -> Vec<LaunchError> {
    failures.sort_by_key(|failure| failure.position);
    failures
}
