//! The long way of a launch: several devices, or memories of their own. See README.md beside this folder.

mod arrays;
pub(super) mod lane;
mod part;
mod place;
mod settle;
mod task;
mod walk;

use super::Runtime;
use super::record::Slots;
use crate::error::LaunchError;
use walk::Walk;

/// Runs the submissions of a pipeline from `first` on, whose memories are held. `failures` are those of the
/// submissions before. Returns all failures, in order.
pub(super) fn run(
    slots: &Slots,
    runtime: &Runtime,
    first: usize,
    failures: Vec<LaunchError>,
) -> Vec<LaunchError> {
    let mut walk = Walk::new(slots, runtime);
    for (position, node) in slots.nodes().iter().enumerate().skip(first) {
        walk.issue(position, node);
    }
    walk.finish(failures)
}
