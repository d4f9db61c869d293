//! The end of a run: failures, the poison that they cause, and the memories' words.

use super::arrays::Array;
use super::scheduler::{Scheduler, SubmissionState};
use super::task::Outcome;
use crate::error::{Error, LaunchError};
use crate::memory::device::DeviceMemory;
use crate::memory::region::Region;
use crate::runtime::device_launch;
use flash_types::Code;

/// Collects the outcomes of all submissions. Returns the failures in order.
pub(super) fn settle(walk: &mut Scheduler<'_>, mut failures: Vec<LaunchError>) -> Vec<LaunchError> {
    let mut launched = std::mem::take(&mut walk.launched);
    if let (Some(error), Some(last)) = (walk.arrays.iter().find_map(Array::not_fetched), launched.last_mut())
    {
        last.error.get_or_insert(error);
    }
    if launched.iter().any(|submission| failure(submission).is_some()) {
        launched.iter_mut().filter(|submission| submission.plain).for_each(|s| walk.record_whole(s));
        poison(walk, &launched, &mut failures);
        walk.arrays.iter_mut().for_each(Array::take_back);
        for lost in lost_devices(walk, &launched) {
            for array in &mut walk.arrays {
                array.lose(lost);
            }
            lost.lose();
        }
    }
    for array in &mut walk.arrays {
        array.close();
    }
    failures
}

/// The error of a submission: its own error comes before that of a part that was skipped because of it.
fn failure(submission: &SubmissionState) -> Option<(Result<Error, u32>, u32)> {
    if let Some(error) = &submission.error {
        return Some((Ok(error.clone()), submission.tasks.first().map_or(0, |(_, target)| *target)));
    }
    let mut skipped = None;
    for (task, target) in &submission.tasks {
        match task.get().failure() {
            Some(Outcome::Error(error) | Outcome::Late(error) | Outcome::NotBrought(error)) => {
                return Some((Ok(error.clone()), *target));
            }
            Some(Outcome::Skipped(argument)) => skipped = Some((Err(*argument), *target)),
            Some(Outcome::Unknown) | None => {}
        }
    }
    skipped
}

fn describe(
    walk: &Scheduler<'_>,
    submission: &SubmissionState,
    error: Result<Error, u32>,
    target: u32,
) -> LaunchError {
    let node = &walk.list.nodes()[submission.position];
    let plan = node.plan();
    let source = error.unwrap_or_else(|argument| Error::Skipped {
        argument: plan.descriptor.arguments[argument as usize].name.clone(),
    });
    let mut error = device_launch::blame(node, plan, submission.position, source);
    if let Some(target) = plan.targets().ok().and_then(|targets| targets.get(target as usize)) {
        error.device = target.device.id().to_owned();
    }
    error
}

/// The walk advanced the directories as if everything succeeded. This applies what really happened, in order:
/// a failed submission poisons all that it should have written, and one that wrote all of a region heals it.
/// Poison may have been read: a submission that is cut fails as a whole, while its other parts went on. A
/// reader of their results counts as skipped after all: what it wrote is poisoned, too.
fn poison(walk: &mut Scheduler<'_>, launched: &[SubmissionState], failures: &mut Vec<LaunchError>) {
    let mut poisoned: Vec<Region> = walk.arrays.iter().map(|a| a.poisoned_before.clone()).collect();
    let mut written = vec![Region::empty(); walk.arrays.len()];
    for submission in launched {
        let reads = submission.reads.iter().find(|(_, array, read)| poisoned[*array as usize].overlaps(read));
        let left_out = reads.map(|(argument, ..)| {
            (Err(*argument), submission.tasks.first().map_or(0, |(_, target)| *target))
        });
        let failed = left_out.or_else(|| failure(submission));
        for (array, region, complete) in &submission.writes {
            written[*array as usize].add(region);
            let poisoned = &mut poisoned[*array as usize];
            if failed.is_some() {
                poisoned.add(region);
            } else if *complete {
                poisoned.subtract(region);
            }
        }
        if let Some((error, target)) = failed {
            failures.push(describe(walk, submission, error, target));
        }
    }
    // Elements that this run has not written are left alone: others may have written them.
    for ((array, poisoned), written) in walk.arrays.iter_mut().zip(poisoned).zip(written) {
        let mut directory = array.directory_mut();
        directory.heal(&written);
        directory.poison(&poisoned.intersection(&written));
    }
}

/// The memories that were lost with their devices.
fn lost_devices(walk: &Scheduler<'_>, launched: &[SubmissionState]) -> Vec<&'static DeviceMemory> {
    let mut lost: Vec<&'static DeviceMemory> =
        walk.arrays.iter().flat_map(|a| a.lost.iter().copied()).collect();
    for submission in launched {
        let plan = walk.list.nodes()[submission.position].plan();
        for (task, target) in &submission.tasks {
            let gone = matches!(
                task.get().failure(),
                Some(Outcome::Error(Error::Backend { code: Code::DeviceLost, .. }))
            );
            let target = plan.targets().ok().and_then(|targets| targets.get(*target as usize));
            if let (true, Some(memory)) = (gone, target.and_then(|t| t.device.memory())) {
                lost.push(memory);
            }
        }
    }
    lost.sort_by_key(|memory| memory.place());
    lost.dedup();
    lost.retain(|memory| !memory.outlives_devices());
    lost
}
