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

/// Runs the submissions of a pipeline from `first` on, whose memories are held. `failures` are those of the
/// submissions before; `watch` is told of timeouts; `beside`: others may use other elements of the memories
/// meanwhile. If the devices have memories of their own, the run is [`ActiveRun`](active_run::ActiveRun).
/// `kept`: the last run of this recording, if it can be repeated. It is given where all of a recording runs,
/// without `watch` and not `beside` others.
/// Returns all failures, in order.
///
/// # Errors
/// An invalid map: then none of these submissions was run.
pub(super) fn run(
    list: &SubmissionList,
    runtime: &Runtime,
    watch: Option<&SharedOutcome>,
    beside: bool,
    first: usize,
    failures: Vec<LaunchError>,
    kept: Option<&KeptRuns>,
) -> Result<Vec<LaunchError>, Error> {
    let nodes = list.nodes();
    // By position.
    let mut checked: SmallVec<[(usize, Arc<Parts>); 4]> = SmallVec::new();
    for (position, node) in nodes.iter().enumerate().skip(first) {
        checked.extend(placement::check(list, node)?.map(|parts| (position, parts)));
    }
    let again = kept.and_then(|kept| kept.again(list, runtime, &checked));
    if let Some(mut failures) = again {
        failures.sort_by_key(|failure| failure.position);
        return Ok(failures);
    }
    let mut walk = Scheduler::new(list, runtime, watch, beside);
    if kept.is_some_and(KeptRuns::begins_walk) {
        walk.note();
    }
    let mut issue = |position: usize| {
        let parts = checked.binary_search_by_key(&position, |(at, _)| *at);
        walk.issue(position, &nodes[position], parts.ok().map(|at| checked[at].1.clone()));
    };
    match reorder::reordered(list, runtime, first) {
        None => (first..nodes.len()).for_each(issue),
        Some(order) => order.into_iter().for_each(&mut issue),
    }
    let mut failures = walk.finish(failures, kept);
    failures.sort_by_key(|failure| failure.position);
    Ok(failures)
}
