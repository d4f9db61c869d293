//! Launches of a pipeline that a device works on while no thread waits for them.
//!
//! A pipeline of `exec_async` whose submissions are all in the queue of one device has nothing left to do but
//! to end. Its thread leaves it to the device ([`LeftToDevice`]). When the device is done it calls back, and
//! a thread that serves devices ends the pipeline (`asynchronous/landing.rs`). One that follows others on the
//! device (`asynchronous/follow.rs`) may have come less far: its submissions up to some position.
//!
//! *Invariant.* While there is a [`LeftToDevice`], what its launches touch stays: the pipeline holds its
//! memories and has begun, its copies on the device count as used, and so does the run for others that wait
//! for room. Dropped before it was ended, it waits for the device.

use super::device_launch::complete;
use super::distributed::active_run::ActiveRun;
use crate::devices::{DeviceHandle, take_error};
use crate::error::Error;
use crate::memory::residence::PublishedResidence;
use crate::workers::blocking::DeviceThread;
use flash_types::abi;
use smallvec::SmallVec;
use std::ffi::c_void;

/// Launches that may be in flight, by position. The device ends them in this order.
pub(super) type Launches = SmallVec<[(usize, *mut abi::Event); 8]>;

/// How far a pipeline has come on a device.
pub(super) struct Reached {
    /// The first submission that was not run.
    pub position: usize,
    /// The failure of the one before that, if the device refused it.
    pub refused: Option<Error>,
}

/// How a run on one device ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It waits for the device.
    Waited,
    /// It leaves its launches to the device, if all submissions are there.
    Left,
    /// It follows others on the device, which have not ended. So it leaves its launches to the device,
    /// however far it has come; no data is moved. The number of failures of pipelines before.
    Following(u64),
}

/// See the module.
pub(super) struct LeftToDevice {
    device: &'static DeviceHandle,
    launches: Launches,
    reached: Reached,
    /// The number of failures of others before it began, if it follows them.
    failures: Option<u64>,
    /// Residences of memories that others may use meanwhile, with this pipeline as a user.
    shared: SmallVec<[*const PublishedResidence; 8]>,
    active_run: Option<ActiveRun>,
    /// Ends the pipeline, whatever other threads wait for. `None`: none could be started.
    thread: Option<DeviceThread>,
}

// SAFETY: events may be used from any thread; the residences are in the pipeline's memories, which it holds
// wherever it goes.
unsafe impl Send for LeftToDevice {}

impl LeftToDevice {
    /// True if a device works without the host, and calls back when it is done.
    pub fn may(device: &DeviceHandle) -> bool {
        !device.info().synchronous && device.api.event_on_ready.is_some()
    }

    /// Leaves launches to a device. `shared`: the residences that the pipeline is counted as a user of.
    ///
    /// # Safety
    /// The events are of the device's backend, and were not given back. The residences are in memories of the
    /// pipeline, which keeps them as long as this.
    pub unsafe fn new(
        device: &'static DeviceHandle,
        launches: Launches,
        shared: SmallVec<[*const PublishedResidence; 8]>,
        thread: Option<DeviceThread>,
        reached: Reached,
        failures: Option<u64>,
    ) -> LeftToDevice {
        let active_run = device.memory().map(|_| ActiveRun::begin());
        LeftToDevice { device, launches, reached, failures, shared, active_run, thread }
    }

    pub fn device(&self) -> &'static DeviceHandle {
        self.device
    }

    /// The first submission that was not run.
    pub fn position(&self) -> usize {
        self.reached.position
    }

    /// Whether all submissions of a pipeline are in the device's queue.
    pub fn is_all(&self, submissions: usize) -> bool {
        self.reached.position == submissions && self.reached.refused.is_none()
    }

    /// The number of failures before it, if it follows other pipelines.
    pub fn failures_before(&self) -> Option<u64> {
        self.failures
    }

    /// Whether a thread that serves devices is there to end it.
    pub fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// Has `callback(context)` called when the device is done, once, by any thread. False: it will not be.
    pub fn when_done(&self, callback: unsafe extern "C" fn(*mut c_void), context: *mut c_void) -> bool {
        match (self.launches.last(), self.device.api.event_on_ready) {
            (Some((_, event)), Some(on_ready)) => {
                // SAFETY: an event of this device, which is not given back before this.
                unsafe { take_error(on_ready(*event, callback, context)) }.is_ok()
            }
            _ => false,
        }
    }

    /// The device is done: nothing there is used any more. Called by a thread of the backend, too.
    pub fn is_done(&mut self) {
        for residence in self.shared.drain(..) {
            // SAFETY: `new` was promised that it lives, and has a user.
            unsafe { &*residence }.end();
        }
    }

    /// Waits for the device, if it is not done, and gives the events back. Puts failures into `failed`, by
    /// position. The run is over when what is returned is dropped.
    pub fn end(mut self, failed: &mut Vec<(usize, Error)>) -> Option<ActiveRun> {
        let launches = std::mem::take(&mut self.launches);
        // SAFETY: `new` was promised that they are the device's, and they are taken out.
        unsafe { complete_all(self.device, launches.into_iter(), failed) };
        let Reached { position, refused } = &mut self.reached;
        failed.extend(refused.take().map(|error| (*position - 1, error)));
        self.is_done();
        self.active_run.take()
    }
}

impl Drop for LeftToDevice {
    fn drop(&mut self) {
        let launches = std::mem::take(&mut self.launches);
        // SAFETY: as above.
        unsafe { complete_all(self.device, launches.into_iter(), &mut Vec::new()) };
        self.is_done();
    }
}

/// Waits for launches and gives their events back. Puts failures into `failed`, by position.
///
/// # Safety
/// The events are of the device's backend, and are not used afterwards.
pub(super) unsafe fn complete_all(
    device: &DeviceHandle,
    launches: impl DoubleEndedIterator<Item = (usize, *mut abi::Event)>,
    failed: &mut Vec<(usize, Error)>,
) {
    // The last one first: when it is done, all of them are.
    for (position, event) in launches.rev() {
        // SAFETY: the caller vouches.
        if let Err(error) = unsafe { complete(device, event, None) } {
            failed.push((position, error));
        }
    }
    failed.sort_by_key(|(position, _)| *position);
}
