//! The launch cache: one submission repeated, in which only the scalars change.
//!
//! It holds everything that the launch needs: the memories to hold, and the very struct that went to the
//! backend the last time. Only the thread that has the buffer uses it.

use super::device_launch;
use super::resident::ResidentLaunch;
use super::state::Runtime;
use super::submissions::SubmissionList;
use crate::devices::take_error;
use crate::error::Error;
use crate::memory::ArrayInner;
use crate::memory::state::Refused;
use crate::nested::in_kernel;
use flash_types::abi::space::Space;
use flash_types::abi::{self, Submission};
use smallvec::SmallVec;
use std::sync::Arc;

/// The last launch, if it was one plain submission that succeeded.
#[derive(Default)]
pub(super) struct LaunchCache(Option<Box<Launch>>);

struct Launch {
    submit: unsafe extern "C" fn(*mut abi::Device, *const Submission) -> *mut abi::Error,
    device: *mut abi::Device,
    /// In the order of addresses; with each, whether it is written.
    memories: SmallVec<[(*const ArrayInner, bool); 8]>,
    submission: Submission,
    /// The launch runs on this thread, without telling the device.
    inline: Option<(abi::ShareFn, abi::Share)>,
    /// The launch runs on a device with a memory of its own, and `memories` are resident there.
    again: Option<ResidentLaunch>,
    space: Space,
    valid: bool,
    /// Inline repetitions left; at 0 the launch goes to the device, which may change whether the next ones
    /// are inline.
    left: u32,
}

impl LaunchCache {
    /// Clears the cache.
    #[inline]
    pub fn clear(&mut self) {
        if let Some(launch) = &mut self.0 {
            launch.valid = false;
        }
    }

    /// True if the recording repeats the last launch.
    #[inline]
    pub fn fits(&self, list: &SubmissionList) -> bool {
        list.is_one() && self.0.as_ref().is_some_and(|launch| launch.valid)
    }

    /// Keeps the launch that was just made, if it can be kept.
    #[inline]
    pub fn set(&mut self, list: &SubmissionList, runtime: &Runtime) {
        if list.is_one()
            && (!runtime.spreads || runtime.has_device_memory())
            && runtime.options.profile.is_none()
            && runtime.error.is_none()
            && runtime.timeout.is_none()
            && !runtime.check_maps
        {
            self.keep(list, runtime);
        }
    }

    #[cold]
    fn keep(&mut self, list: &SubmissionList, runtime: &Runtime) {
        let [node] = list.nodes() else { return };
        let (plan, order) = (node.plan(), list.order_of(node));
        let Ok(target) = plan.target() else { return };
        let forgets = runtime.keeps_host && list.slices().next().is_some();
        if plan.prepared || forgets || (plan.writes && runtime.check_writes) {
            return;
        }
        let again = match runtime.spreads.then(|| ResidentLaunch::of(list, runtime)) {
            Some(None) => return,
            again => again.flatten(),
        };
        let memories = list.memories().map(|(_, memory, written)| (std::ptr::from_ref(memory), written));
        let memories = memories.collect();
        let args = list.args_of(node);
        let submission = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: plan.flags,
            kernel: target.kernel,
            // `run` sets these two.
            space: std::ptr::null(),
            args: std::ptr::null(),
            arg_count: args.len() as u32,
            wait_count: 0,
            waits: std::ptr::null(),
            // NULL: the backend returns when the launch is done.
            signal: std::ptr::null_mut(),
            nanoseconds: std::ptr::null_mut(),
            attributes: std::ptr::null(),
            attribute_count: 0,
            phase_begin: 0,
            phase_end: order.phases(),
            stop: std::ptr::null(),
            like: 0,
        };
        let view = order.view();
        let inline =
            target.inline(order.items(), u32::MAX).filter(|_| order.phases() == 1 && node.extra.is_none());
        let launch = Launch {
            submit: target.submit,
            device: target.device.raw,
            memories,
            submission,
            // `run` sets its space, too.
            inline: inline.map(|share| (share, device_launch::share_of(view.get(), args.len()))),
            again,
            space: *view.get().raw(),
            valid: true,
            left: target.alike(),
        };
        match &mut self.0 {
            Some(old) => **old = launch,
            None => self.0 = Some(Box::new(launch)),
        }
    }

    /// Runs it. False: this is not possible, and nothing was run.
    #[inline(always)]
    pub fn run(&mut self, list: &SubmissionList) -> Result<bool, Error> {
        let Some(launch) = &mut self.0 else {
            return Ok(false);
        };
        if in_kernel() {
            return Err(Error::Nested);
        }
        launch.submission.space = &raw const launch.space;
        if launch.again.is_some() {
            return launch.run_again(list);
        }
        // Set anew each time: writing the arguments has invalidated the last pointer to them.
        launch.submission.args = list.args().as_ptr();
        let Some(left) = launch.left.checked_sub(1) else {
            list.tell_device();
            return Ok(false);
        };
        launch.left = left;
        if !hold(&launch.memories) {
            return Ok(false);
        }
        let error = match &mut launch.inline {
            Some((run, share)) => {
                share.space = &raw const launch.space;
                // SAFETY: as below; all rows of the launch, on the host's memory.
                unsafe { run(share, launch.submission.args) }
            }
            // SAFETY: as the first time: the same device, kernel, space and arrays, held; scalars of the same
            // types. With NULL as the signal it is done on return. It does not unwind.
            None => unsafe { (launch.submit)(launch.device, &launch.submission) },
        };
        if error.is_null() {
            release(&launch.memories, false);
            return Ok(true);
        }
        // SAFETY: an error of this host.
        let source = unsafe { take_error(error) }.err().unwrap_or(Error::Nested);
        let failure = failed(list, source);
        release(&launch.memories, true);
        Err(failure)
    }
}

impl Launch {
    /// Runs it on a device with a memory of its own.
    fn run_again(&mut self, list: &SubmissionList) -> Result<bool, Error> {
        let Launch { submit, device, submission, again: Some(again), .. } = self else { return Ok(false) };
        let outcome = again.run(
            list,
            |args, like| {
                submission.args = args.as_ptr();
                submission.like = like;
                // SAFETY: as the first time: the same device, kernel, space and arrays, held and resident on
                // the device; scalars of the same types. With NULL as the signal it is done on return.
                unsafe { take_error(submit(*device, submission)) }
            },
            |source| failed(list, source),
        );
        outcome.map(|done| done.is_some())
    }
}

/// The error of the one submission, whose memories are held.
#[cold]
fn failed(list: &SubmissionList, source: Error) -> Error {
    Error::Launch(Arc::new(device_launch::failed(list, &list.nodes()[0], 0, source)))
}

/// Takes memories in turn. False: one of them is tracked, or a guard or a pending pipeline has it; then none
/// is held.
#[inline(always)]
fn hold(memories: &[(*const ArrayInner, bool)]) -> bool {
    for (taken, &(memory, written)) in memories.iter().enumerate() {
        // SAFETY: the submission that was just recorded borrows this memory.
        let state = unsafe { &(*memory).state };
        let held = if written { state.launch_write() } else { state.launch_read() };
        if !matches!(held, Ok(false)) {
            not_held(memories, taken, held);
            return false;
        }
    }
    true
}

/// A memory was refused, or is tracked: releases it and those before it.
#[cold]
fn not_held(memories: &[(*const ArrayInner, bool)], at: usize, held: Result<bool, Refused>) {
    if held.is_ok() {
        // It stays tracked; those before it are not.
        release(&memories[at..][..1], true);
    }
    release(&memories[..at], false);
}

/// Releases memories; `tracked` is set for written ones.
#[inline(always)]
fn release(memories: &[(*const ArrayInner, bool)], tracked: bool) {
    for &(memory, written) in memories {
        // SAFETY: as in `hold`.
        let state = unsafe { &(*memory).state };
        if written { state.release_write(tracked) } else { state.release_read() }
    }
}
