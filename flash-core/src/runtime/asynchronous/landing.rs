//! Pipelines in flight: a device has all submissions of a pipeline, and no thread waits for it.
//!
//! The device calls back when it is done. That comes from a thread of the backend, perhaps with a lock of the
//! backend held, and may come before the call that asks for it has returned. So the callback does nothing but
//! to end what others may wait for without the order (the use of residences), and to hand the pipeline on. It
//! hands it to one of the threads that serve devices, of which one is kept ([`DeviceThread`]): workers and
//! extra threads for pipelines may all wait for room on a device that this pipeline has.
//!
//! The pipeline is touched by the thread that comes second of two: the one that has asked to be called, when
//! that call has returned, and the callback. So the events are not given back while the backend is at them.

use super::pending::QueuedPipeline;
use super::{Awaits, Rest, Runner, Task};
use crate::memory::order::ORDER;
use crate::runtime::left_to_device::LeftToDevice;
use crate::workers::blocking::{self, DeviceThread};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

/// A pipeline that a device has.
pub(super) struct Landing {
    task: Box<Task>,
    /// One of the two has come.
    one_came: AtomicBool,
}

impl Landing {
    /// Ends a pipeline when its device is done.
    pub fn await_device(task: Box<Task>) {
        let landing = Box::into_raw(Box::new(Landing { task, one_came: AtomicBool::new(false) }));
        // SAFETY: it lives until both have come; the second frees it.
        let is_asked = unsafe { &*landing }.left().is_some_and(|left| {
            // SAFETY: as above: the callback gets what it was passed with.
            left.when_done(landed, landing.cast())
        });
        if !is_asked {
            // SAFETY: there is no callback: nothing else has it. The pipeline waits where it ends.
            return unsafe { Box::from_raw(landing) }.end();
        }
        // SAFETY: of these two calls this is one.
        if let Some(landing) = unsafe { Landing::second(landing) } {
            landing.end();
        }
    }

    fn left(&self) -> Option<&LeftToDevice> {
        match &self.task.rest.as_ref()?.awaits {
            Awaits::Device(left) => Some(left),
            _ => None,
        }
    }

    /// `None`: the other has not come yet, and this one must not touch it again.
    ///
    /// # Safety
    /// Called once by each of the two.
    unsafe fn second(landing: *mut Landing) -> Option<Box<Landing>> {
        // SAFETY: the other frees it after this.
        let is_second = unsafe { &*landing }.one_came.swap(true, AcqRel);
        // SAFETY: the other has come and does not touch it again.
        is_second.then(|| unsafe { Box::from_raw(landing) })
    }

    /// Runs the rest of it here; if it follows others, in its turn.
    fn end(self) {
        match self.task.follows {
            true => ORDER.ready(self.task.ticket(), self.task),
            false => _ = self.task.run(Runner::Device),
        }
    }
}

/// Ends a pipeline that followed others, in its turn.
pub(super) fn end(task: Box<Task>) {
    match &task.rest {
        Some(Rest { awaits: Awaits::Device(left), .. }) if left.has_thread() => {
            DeviceThread::run(Box::new(move || _ = task.run(Runner::Device)));
        }
        _ => blocking::run(task.priority(), Box::new(move || _ = task.run(Runner::Extra))),
    }
}

/// The device is done.
unsafe extern "C" fn landed(landing: *mut c_void) {
    // SAFETY: made by `await_device`, and called once.
    let Some(mut landing) = (unsafe { Landing::second(landing.cast()) }) else { return };
    if let Some(Awaits::Device(left)) = landing.task.rest.as_mut().map(|rest| &mut rest.awaits) {
        left.is_done();
    }
    DeviceThread::run(Box::new(move || landing.end()));
}
