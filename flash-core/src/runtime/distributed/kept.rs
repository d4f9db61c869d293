//! Runs that are repeated without a walk.
//!
//! A recording that is run again mostly finds its arrays as the run before found them, and left them. A walk
//! would then do the same again: kernels on the same parts and devices, with the same addresses, and no copy.
//! So a walk that does nothing but put kernels into the lanes of devices that work alone is noted
//! ([`Notes`]), and the next run begins the same kernels one after another, and waits for them
//! ([`KeptRun::again`]). It costs the controller of many devices a fraction of a walk.
//!
//! *Why that is the same.* What a walk does follows from the recording, the cuts and the directories. The
//! owner of a recording clears what is kept when the recording changes. Only scalars may change; they are
//! read anew. Cuts are made as for a walk, and must be the objects that they were. The directories say what
//! they said when the noted walk began, which is what they said when it was over. They are compared under
//! their locks. Then those of memories that are written stay locked. Of the others the run is a reader that
//! keeps their buffers, as a walk is.
//!
//! *Order.* A device that works alone runs its submissions in order. A recording in which kernels of several
//! devices wait for each other is not kept.
//!
//! *Failures.* If a kernel fails, the walk's bookkeeping is made up for, with the outcomes that are known
//! ([`Scheduler::was_run`]): so it is settled as ever what is poisoned, and which others count as skipped.

use super::Run;
use super::arrays::Array;
use super::lanes::Lanes;
use super::part;
use super::placement::place_of;
use super::scheduler::{Scheduler, SubmissionState, Touches};
use super::shared_read::SharedRead;
use crate::devices::DeviceHandle;
use crate::error::{Error, LaunchError};
use crate::memory::coherence::DirectoryGuard;
use crate::memory::device::{DeviceBuffer, DeviceCopy, DeviceMemory, LastUse};
use crate::memory::directory::{DirectoryState, Place};
use crate::memory::region::Region;
use crate::runtime::alike::Alike;
use crate::runtime::device_launch::{self, DeviceLaunch};
use crate::runtime::partition::Parts;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::resident::RUN_AHEAD;
use crate::runtime::state::Runtime;
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::abi::{self, Arg};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// So many walks in a row are noted in vain; then a recording is one whose arrays change between its runs.
const TRIES: u32 = 4;
/// A recording of more kernels is not kept.
const KERNELS: usize = 1 << 14;
/// Nor one with more pairs of kernels of which it would have to be known whether they conflict.
const PAIRS: usize = 1 << 20;
/// In one of so many runs the devices' rates are measured: they change slowly.
const MEASURED: u32 = 8;

/// The last run of a recording, if it can be repeated. The owner of the recording clears it when the
/// recording changes.
#[derive(Default)]
pub(in crate::runtime) struct KeptRuns(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Walks since a run was repeated.
    walks: u32,
    /// Runs that were repeated.
    repeats: u32,
    run: Option<Box<KeptRun>>,
}

impl KeptRuns {
    /// The recording is another one.
    #[inline]
    pub fn clear(&mut self) {
        let kept = self.0.get_mut().unwrap_or_else(|e| e.into_inner());
        if kept.walks > 0 {
            *kept = Kept::default();
        }
    }

    /// Repeats the last run, if that is the same as a walk with these cuts, by position; returns the
    /// failures. `None`: nothing was run.
    pub(super) fn again(
        &self,
        list: &SubmissionList,
        runtime: &Runtime,
        cuts: &[(usize, Arc<Parts>)],
    ) -> Option<Vec<LaunchError>> {
        // If another thread is at it, this one walks.
        let mut kept = self.0.try_lock().ok()?;
        let is_measured = kept.repeats.is_multiple_of(MEASURED);
        let run = kept.run.as_mut().filter(|run| run.is_of(list, cuts))?;
        let failures = run.again(list, runtime, is_measured)?;
        kept.walks = 1;
        kept.repeats = kept.repeats.wrapping_add(1);
        Some(failures)
    }

    #[cfg(test)]
    pub fn repeats(&self) -> u32 {
        self.0.lock().unwrap().repeats
    }

    /// A walk begins; whether it is to be noted. The first of a recording is not, as most have no other.
    pub(super) fn begins_walk(&self) -> bool {
        self.0.try_lock().is_ok_and(|mut kept| {
            kept.walks = kept.walks.saturating_add(1);
            (2..2 + TRIES).contains(&kept.walks)
        })
    }

    pub(super) fn keep(&self, run: KeptRun) {
        if let Ok(mut kept) = self.0.try_lock() {
            kept.run = Some(Box::new(run));
        }
    }
}

/// What a walk does, as it does it.
pub(super) struct Notes {
    states: Vec<MemoryState>,
    cuts: Vec<(usize, Option<Arc<Parts>>)>,
    kernels: Vec<KeptKernel>,
}

/// A kernel that a walk puts into the lane of its device.
pub(super) struct NotedKernel<'a> {
    pub node: &'a Node,
    pub plan: &'a Plan,
    /// The index of its target.
    pub target: u32,
    pub touches: &'a [Touches],
    /// Its cut, and which part it is; `None`: all of a submission.
    pub part: Option<(&'a Arc<Parts>, usize)>,
    pub items: u64,
}

/// A kernel that a walk has put into a lane.
pub(super) struct KeptKernel {
    /// Of its submission, in the order of the walk.
    submission: usize,
    pub target: u32,
    part: Option<(Arc<Parts>, usize)>,
    args: Vec<Arg>,
    /// What arguments point to. No box: to move one ends its pointers.
    _boxes: Vec<abi::Part>,
    alike: Alike,
    pub touches: Box<[Touches]>,
    items: u64,
}

/// A submission of a kept run.
pub(super) struct KeptSubmission {
    pub position: usize,
    /// What was known of its cut before the walk.
    cut: Option<Arc<Parts>>,
    pub plain: bool,
    pub reads: Vec<(u32, u32, Region)>,
    pub writes: Vec<(u32, Region, bool)>,
}

/// What the directory of a memory says.
struct MemoryState {
    directory: DirectoryState,
    /// Of each copy, whether a device of the runtime has it.
    used: Box<[bool]>,
}

/// See the module.
pub(super) struct KeptRun {
    /// Of each memory, in the order of addresses.
    states: Vec<MemoryState>,
    /// All of the recording's.
    submissions: Vec<KeptSubmission>,
    kernels: Vec<KeptKernel>,
}

// SAFETY: the pointers are into the recording, to its arrays, and to its own boxes; they are used while the
// recording is run, under the lock, by a thread that may do that.
unsafe impl Send for KeptRun {}

/// The memories of a run.
struct Held<'l> {
    /// Of those that are written.
    locked: SmallVec<[DirectoryGuard<'l>; 8]>,
    /// Of the others, with their buffers.
    readers: SmallVec<[SharedRead<'l>; 8]>,
    pins: Vec<Arc<DeviceBuffer>>,
}

/// A kernel in flight.
struct Begun {
    kernel: usize,
    device: &'static DeviceHandle,
    event: *mut abi::Event,
}

impl Notes {
    /// Of a walk through these arrays. `None`: it will not be repeated.
    pub fn begin(list: &SubmissionList, runtime: &Runtime, arrays: &[Array<'_>]) -> Option<Notes> {
        if list.has_slices || runtime.check_maps || runtime.check_writes {
            return None;
        }
        let devices = runtime.devices.iter().filter_map(|device| device.memory());
        let memories: HashSet<*const DeviceMemory> = devices.map(std::ptr::from_ref).collect();
        let is_used = |copy: &DeviceCopy| memories.contains(&std::ptr::from_ref(copy.memory()));
        let state = |array: &Array<'_>| {
            let directory = array.directory();
            let used = directory.copies().map(is_used).collect();
            Some(MemoryState { directory: directory.state()?, used })
        };
        let states = arrays.iter().map(state).collect::<Option<_>>()?;
        Some(Notes { states, cuts: Vec::new(), kernels: Vec::new() })
    }

    /// A submission is issued, of whose cut this is known.
    pub fn submission(&mut self, position: usize, cut: Option<&Arc<Parts>>) {
        self.cuts.push((position, cut.cloned()));
    }

    /// A kernel is put into the lane of its device. `args` gives its arguments with their places, and what
    /// they point to, if it is one that can be repeated.
    pub fn kernel(
        &mut self,
        runtime: &Runtime,
        kernel: NotedKernel<'_>,
        args: impl FnOnce() -> (Vec<Arg>, Vec<abi::Part>),
    ) {
        let NotedKernel { node, plan, target, touches, part, items } = kernel;
        let targets = plan.targets().unwrap_or_default();
        let Some(on) = targets.get(target as usize) else { return };
        // Others go where most of their data is, or to the next device in turn.
        let is_placed = targets.len() == 1 || self.cuts.last().is_some_and(|(_, cut)| cut.is_some());
        let is_simple = is_placed
            && !plan.prepared
            && !plan.part.looks_inside()
            && Lanes::of(on.device).kernels.runs.is_alone()
            && device_launch::timeout(node, runtime).is_none()
            && device_launch::extras(node, runtime).1.is_none();
        if !is_simple || self.kernels.len() >= KERNELS {
            return;
        }
        let (args, boxes) = args();
        self.kernels.push(KeptKernel {
            submission: self.cuts.len() - 1,
            target,
            part: part.map(|(parts, subspace)| (parts.clone(), subspace)),
            args,
            _boxes: boxes,
            alike: Alike::default(),
            touches: touches.into(),
            items,
        });
    }

    /// All tasks of the walk are done. `None`: it has done more than can be repeated.
    pub fn end(
        self,
        list: &SubmissionList,
        tasks: usize,
        launched: &[SubmissionState],
        arrays: &[Array<'_>],
    ) -> Option<KeptRun> {
        let Notes { states, cuts, kernels } = self;
        let is_all = tasks == kernels.len()
            && arrays.len() == states.len()
            && launched.len() == cuts.len()
            && cuts.len() == list.nodes().len();
        if !is_all || kernels.is_empty() {
            return None;
        }
        let submission = |((position, cut), launched): ((usize, _), &SubmissionState)| KeptSubmission {
            position,
            cut,
            plain: launched.plain,
            reads: launched.reads.clone(),
            writes: launched.writes.clone(),
        };
        let submissions = cuts.into_iter().zip(launched).map(submission).collect();
        let run = KeptRun { states, submissions, kernels };
        run.has_no_waits(list, arrays).then_some(run)
    }
}

impl KeptRun {
    /// True if the directories say what they said when its walk began.
    pub fn leaves_as_found(&self, arrays: &[Array<'_>]) -> bool {
        arrays.iter().zip(&self.states).all(|(array, state)| array.directory().is_as(&state.directory))
    }

    fn target<'l>(&self, list: &'l SubmissionList, kernel: &KeptKernel) -> Option<(&'l Node, &'l Target)> {
        let node = list.nodes().get(self.submissions[kernel.submission].position)?;
        Some((node, node.plan().targets().ok()?.get(kernel.target as usize)?))
    }

    /// True if no kernel of a device conflicts with one of another.
    fn has_no_waits(&self, list: &SubmissionList, arrays: &[Array<'_>]) -> bool {
        let mut uses: HashMap<(u32, Place), Vec<(&'static DeviceHandle, &Touches)>> = HashMap::new();
        for kernel in &self.kernels {
            let Some((_, target)) = self.target(list, kernel) else { return false };
            let place = place_of(target).1;
            for touched in &kernel.touches {
                let place = arrays[touched.array as usize].header().kept_at(place);
                uses.entry((touched.array, place)).or_default().push((target.device, touched));
            }
        }
        let mut pairs = 0;
        uses.values().all(|uses| {
            let is_other = |device| !std::ptr::eq(device, uses[0].0);
            if !uses.iter().any(|(device, _)| is_other(*device))
                || !uses.iter().any(|(_, touched)| touched.touch.writes())
            {
                return true;
            }
            pairs += uses.len() * uses.len() / 2;
            let conflict = |(here, a): &(&DeviceHandle, &Touches), (there, b): &(&DeviceHandle, &Touches)| {
                !std::ptr::eq(*here, *there)
                    && (a.touch.writes() || b.touch.writes())
                    && a.region.overlaps(&b.region)
            };
            pairs <= PAIRS
                && uses.iter().enumerate().all(|(i, one)| !uses[..i].iter().any(|two| conflict(one, two)))
        })
    }

    /// True if it is of all of a recording, and with these cuts.
    fn is_of(&self, list: &SubmissionList, cuts: &[(usize, Arc<Parts>)]) -> bool {
        let cut_at =
            |position| cuts.binary_search_by_key(&position, |(at, _)| *at).ok().map(|at| &cuts[at].1);
        let is_same = |submission: &KeptSubmission| match (cut_at(submission.position), &submission.cut) {
            (Some(cut), Some(before)) => Arc::ptr_eq(cut, before),
            (None, None) => true,
            _ => false,
        };
        self.submissions.len() == list.nodes().len()
            && self.states.len() == list.memories().count()
            && self.submissions.iter().all(is_same)
    }

    /// See [`KeptRuns::again`].
    fn again(
        &mut self,
        list: &SubmissionList,
        runtime: &Runtime,
        is_measured: bool,
    ) -> Option<Vec<LaunchError>> {
        let held = self.hold(list, runtime)?;
        let failed = self.run(list, runtime, is_measured);
        if failed.is_empty() {
            return Some(Vec::new());
        }
        drop(held.locked);
        // As a reader it keeps their grids until the walk is one, too.
        let run = Run { watch: None, beside: false, suspends: false, kept: None };
        let mut walk = Scheduler::new(list, runtime, &run);
        drop((held.readers, held.pins));
        let mut failed = failed.into_iter().peekable();
        let mut kernels = self.kernels.iter().enumerate().peekable();
        for (number, submission) in self.submissions.iter().enumerate() {
            walk.repeats(submission);
            while let Some((at, kernel)) = kernels.next_if(|(_, kernel)| kernel.submission == number) {
                let error = failed.next_if(|(of, _)| *of == at).map(|(_, error)| error);
                let Some((_, target)) = self.target(list, kernel) else { continue };
                walk.was_run(kernel, place_of(target).1, error);
            }
        }
        Some(walk.finish(Vec::new(), None))
    }

    /// Holds the directories as a walk does, if they say what they said then, and no lane has other work:
    /// that has its place there, before this or after it.
    fn hold<'l>(&self, list: &'l SubmissionList, runtime: &Runtime) -> Option<Held<'l>> {
        if !runtime.devices.iter().all(|device| Lanes::of(device).kernels.is_idle()) {
            return None;
        }
        let mut held = Held { locked: SmallVec::new(), readers: SmallVec::new(), pins: Vec::new() };
        let now = LastUse::now();
        // In the order of addresses, in which all runs lock directories.
        for ((_, memory, written), state) in list.memories().zip(&self.states) {
            let directory = memory.directory();
            if !directory.is_as(&state.directory) {
                return None;
            }
            memory.set_granule(runtime.granule);
            let used = directory.copies().zip(&state.used).filter(|(_, is_used)| **is_used);
            used.for_each(|(copy, _)| copy.last_use().set(now));
            match written {
                true => held.locked.push(directory),
                false => {
                    held.pins.extend(directory.copies().map(|copy| copy.keep()));
                    held.readers.push(SharedRead::locked(memory, directory));
                }
            }
        }
        Some(held)
    }

    /// Runs all kernels; returns those that failed, in order.
    fn run(&mut self, list: &SubmissionList, runtime: &Runtime, is_measured: bool) -> Vec<(usize, Error)> {
        let start = is_measured.then(Instant::now);
        let mut failed = Vec::new();
        let mut flights = Flights { begun: Vec::with_capacity(self.kernels.len()), done: 0 };
        for at in 0..self.kernels.len() {
            match self.begin(list, runtime, at) {
                Ok(Some(begun)) => flights.begun.push(begun),
                Ok(None) => {}
                Err(error) => failed.push((at, error)),
            }
            if flights.begun.len() - flights.done >= RUN_AHEAD {
                self.end(list, start, &mut flights, RUN_AHEAD / 2, &mut failed);
            }
        }
        self.end(list, start, &mut flights, usize::MAX, &mut failed);
        failed.sort_by_key(|(at, _)| *at);
        failed
    }

    /// Begins a kernel. `None`: it is done.
    fn begin(&mut self, list: &SubmissionList, runtime: &Runtime, at: usize) -> Result<Option<Begun>, Error> {
        let kernel = &mut self.kernels[at];
        let position = self.submissions[kernel.submission].position;
        let node = &list.nodes()[position];
        let plan = node.plan();
        let target = &plan.targets()?[kernel.target as usize];
        let is_scalar = |arg: &Arg| arg.kind == abi::ARG_SCALAR;
        for (arg, now) in kernel.args.iter_mut().zip(list.args_of(node)).filter(|(arg, _)| is_scalar(arg)) {
            *arg = *now;
        }
        let like = match target.device.info().keeps_launches {
            true => kernel.alike.number(kernel.args.iter().filter(|arg| is_scalar(arg))),
            false => 0,
        };
        let (order, cut) = match &kernel.part {
            Some((parts, subspace)) => (&parts.subspaces[*subspace].order, parts.subspaces.len() > 1),
            None => (list.order_of(node), false),
        };
        let view = order.view();
        let launch = DeviceLaunch {
            plan,
            target,
            space: view.get(),
            phases: 0..order.phases(),
            attributes: device_launch::extras(node, runtime).0,
            profile: None,
            position,
            cut,
            draw: None,
            stop: None,
            like,
        };
        let event = launch.begin(&kernel.args, true, &[])?;
        Ok(event.map(|event| Begun { kernel: at, device: target.device, event }))
    }

    /// Waits for the first `count` of the kernels in flight. `start`: their times are measured.
    fn end(
        &self,
        list: &SubmissionList,
        start: Option<Instant>,
        flights: &mut Flights,
        count: usize,
        failed: &mut Vec<(usize, Error)>,
    ) {
        let until = flights.done.saturating_add(count).min(flights.begun.len());
        while flights.done < until {
            let Begun { kernel, device, event } = flights.begun[flights.done];
            flights.done += 1;
            let of = &self.kernels[kernel];
            let measured = start.and_then(|start| Some((start, self.target(list, of)?.1)));
            let outcome = match measured {
                // SAFETY: the event of this device, given back once.
                Some((start, target)) => unsafe {
                    let is_late = target.device.has_fired(event);
                    part::end(target, event, start, is_late, of.items)
                },
                // SAFETY: as above.
                None => unsafe { device_launch::complete(device, event, None) },
            };
            if let Err(error) = outcome {
                failed.push((kernel, error));
            }
        }
    }
}

/// Kernels in flight, which end before what they use does.
struct Flights {
    begun: Vec<Begun>,
    /// The first ones have ended.
    done: usize,
}

impl Drop for Flights {
    fn drop(&mut self) {
        for begun in self.begun.drain(..).skip(self.done) {
            // SAFETY: the event of this device, given back once.
            let _ = unsafe { device_launch::complete(begun.device, begun.event, None) };
        }
    }
}
