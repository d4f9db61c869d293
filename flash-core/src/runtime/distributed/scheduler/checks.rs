//! `FLASH_CHECK_WRITES` where a device has a memory of its own: the host writes the pattern, which goes to
//! the devices with the data, and looks for it when they are done. (Parts on a device that uses the host's
//! memory are checked by themselves.)

use super::{Scheduler, Touches};
use crate::error::Error;
use crate::memory::directory::Place;
use crate::runtime::check::WriteCheck;
use crate::runtime::distributed::arrays::Touch;
use crate::runtime::distributed::lane::drive_until;
use crate::runtime::distributed::sync::changed;
use crate::runtime::distributed::task::Effort;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::submissions::Node;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};

/// A check that was begun, for the task that ends it.
pub(super) type BegunCheck = Arc<Mutex<Option<WriteCheck>>>;

impl<'r> Scheduler<'r> {
    /// Writes the pattern, if this submission is checked on the host.
    pub(super) fn begin_check(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        targets: &[Target],
    ) -> Result<Option<BegunCheck>, Error> {
        let has_own_memory = |target: &Target| !target.device.info().host_memory;
        if !(self.runtime.check_writes && plan.writes && targets.iter().any(has_own_memory)) {
            return Ok(None);
        }
        let (order, args) = (self.list.order_of(node), self.list.args_of(node));
        let begun = BegunCheck::default();
        let check = begun.clone();
        self.run_on_host(node, plan, true, move || {
            *check.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(WriteCheck::begin(plan, order, args));
            Ok(())
        })?;
        Ok(Some(begun))
    }

    /// Looks for the pattern when the submission is done.
    pub(super) fn end_check(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        begun: BegunCheck,
    ) -> Result<(), Error> {
        let args = self.list.args_of(node);
        self.run_on_host(node, plan, false, move || {
            match begun.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(check) => check.end(plan, args),
                None => Ok(()),
            }
        })
    }

    /// Runs a part of a check on this thread, with the host's arrays, as a task of the latest submission.
    fn run_on_host(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        writes: bool,
        work: impl FnOnce() -> Result<(), Error> + 'r,
    ) -> Result<(), Error> {
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (i, _) in plan.arguments.iter().enumerate().filter(|(_, spec)| spec.is_promised()) {
            let (array, region) = self.range_of(node, i);
            let touch = match writes {
                false => Touch::Read,
                true if self.list.holds_of(node)[i].complete => Touch::Write,
                true => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        self.prepare(None, &touches)?;
        let waits = self.waits(&touches, Place::HOST);
        // SAFETY: the recording and the plan live until the run is over; the work runs on this thread.
        let task = unsafe {
            self.tasks.add(waits, Effort::of_thread(0), Box::new(move |_| Ok(work().map(|()| None)?)))
        };
        self.touched(&touches, Place::HOST, task);
        self.latest().tasks.push((task, u32::MAX));
        drive_until(&self.lanes, || task.get().is_ready());
        task.run_here();
        changed().notify();
        Ok(())
    }
}
