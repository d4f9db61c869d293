//! Pipelines of small submissions, on a runtime with several devices: they run on one of them.
//!
//! A task of the distributed path costs a microsecond, and tens of them where it waits for one of another
//! device: a copy comes between the two, or a thread has to be woken. Submissions that take less, and depend
//! on each other, are done sooner one after another, where their data is: as if the runtime had that device
//! only.
//!
//! The rate of a device that works without the host is measured from the call until the host knows that it is
//! done, and may be mostly the waking of a thread. So it is an upper bound. A pipeline that may be small is
//! tried as one now and then: that measures its submissions back to back.

use super::distributed::wants_cut;
use super::plan::Target;
use super::rate::Rate;
use super::state::Runtime;
use super::submissions::{Node, SubmissionList};
use crate::devices::DeviceHandle;
use crate::memory::residence::PublishedResidence;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// A submission that is expected to take fewer nanoseconds is small: from here on it is worth to wake a
/// thread for it, see `distributed/lane.rs`.
const SMALL: f64 = 30_000.0;

/// The same on a device that works without the host: a thread is woken on its side, too.
const SMALL_AHEAD: f64 = 2.0 * SMALL;

/// A submission on such a device may be small if it is expected to take fewer.
const UNCERTAIN: f64 = 5.0 * SMALL_AHEAD;

/// A pipeline of small submissions, on its way.
pub(super) struct SmallPipeline {
    /// The device that it runs on.
    pub device: &'static DeviceHandle,
    /// Nanoseconds below which its submissions are small.
    limit: f64,
    /// Expected nanoseconds.
    expected: f64,
    /// It is tried: what it takes gives the rates of its submissions from now on.
    is_trial: bool,
    begun: Instant,
}

impl SmallPipeline {
    /// `None`: some submission is not small, and not tried as one; or its time is unknown, or it is to be
    /// cut; or they touch as many memories as they are, so that they may be independent of each other.
    #[cold]
    pub fn of(list: &SubmissionList, runtime: &Runtime) -> Option<SmallPipeline> {
        if runtime.devices.len() < 2 || list.memories().count() >= list.nodes().len() {
            return None;
        }
        let (mut sum, mut slowest) = (0.0, 0.0f64);
        for node in list.nodes() {
            let expected = expected(list, runtime, node)?;
            (sum, slowest) = (sum + expected, slowest.max(expected));
        }
        if slowest >= UNCERTAIN {
            return None;
        }
        let device = device(list, runtime)?;
        let limit = if device.info().synchronous { SMALL } else { SMALL_AHEAD };
        let is_trial = slowest >= limit;
        if is_trial && (device.info().synchronous || !wants_trial(list)) {
            return None;
        }
        Some(SmallPipeline { device, limit, expected: sum, is_trial, begun: Instant::now() })
    }

    /// It is done. If its submissions were not small, their rates get a sample each: a few more, and they are
    /// taken for what they are.
    pub fn end(self, list: &SubmissionList) {
        self.has_taken(self.begun.elapsed().as_nanos() as f64, list);
    }

    /// The same, of one that has taken this many nanoseconds.
    pub(super) fn has_taken(&self, taken: f64, list: &SubmissionList) {
        let is_large = taken > self.limit * list.nodes().len() as f64;
        if is_large || self.is_trial {
            let factor = taken / self.expected.max(1.0);
            let mut known: SmallVec<[*const Rate; 8]> = SmallVec::new();
            for node in list.nodes() {
                let items = list.order_of(node).items();
                for target in node.plan().targets().into_iter().flatten() {
                    let rate = Arc::as_ptr(&target.rate);
                    if let Some(before) = target.rate.get().filter(|_| !known.contains(&rate)) {
                        let taken = (before * items as f64 * factor) as u64;
                        match self.is_trial {
                            true => target.rate.set(taken, items),
                            false => target.rate.add(taken, items),
                        }
                        known.push(rate);
                    }
                }
            }
        }
    }
}

/// True if it is time to try it as a small one.
fn wants_trial(list: &SubmissionList) -> bool {
    let targets = list.nodes().first().and_then(|node| node.plan().targets().ok());
    targets.and_then(|targets| targets.first()).is_some_and(|target| target.rate.wants_trial())
}

/// Expected nanoseconds of a submission that may be small.
fn expected(list: &SubmissionList, runtime: &Runtime, node: &Node) -> Option<f64> {
    let plan = node.plan();
    let targets = plan.targets().ok()?;
    if wants_cut(plan, targets) || !plan.runs_simply() || (plan.writes && runtime.check_writes) {
        return None;
    }
    let rate = targets.iter().filter_map(|target| target.rate.get()).reduce(f64::min)?;
    Some(rate * list.order_of(node).items() as f64)
}

/// The device where most of the memories are, if it can run all submissions; `None`: it cannot, or it uses
/// the host's memory and others do not.
fn device(list: &SubmissionList, runtime: &Runtime) -> Option<&'static DeviceHandle> {
    let first = *runtime.devices.first()?;
    let runs_all = |device: &DeviceHandle| {
        let runs = |target: &Target| std::ptr::eq(target.device, device);
        list.nodes().iter().all(|node| node.plan().targets().is_ok_and(|targets| targets.iter().any(runs)))
    };
    if !runtime.has_device_memory() {
        return runs_all(first).then_some(first);
    }
    let mut counts: SmallVec<[usize; 8]> = runtime.devices.iter().map(|_| 0).collect();
    for (_, memory, _) in list.memories() {
        let Some(home) = memory.home.share() else { continue };
        let memories = runtime.devices.iter().map(|device| device.memory());
        for (count, memory) in counts.iter_mut().zip(memories) {
            *count += usize::from(memory.is_some_and(|memory| std::ptr::eq(memory, home.memory)));
        }
        PublishedResidence::end(&memory.home);
    }
    // Of equal ones the first.
    let at = (0..counts.len()).rev().max_by_key(|at| counts[*at])?;
    let device = runtime.devices[at];
    (!device.info().host_memory && runs_all(device)).then_some(device)
}
