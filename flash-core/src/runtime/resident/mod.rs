//! The resident path: one device, which has everything that a launch touches, so that no tasks are made.
//! Submissions go to the device one after another, from the caller. A device whose queue runs on without the
//! host gets the next one before the last is done. Small missing data is copied at once. At the end the
//! caller waits, or leaves the launches to the device ([`Progress::Left`]).
//!
//! The first submission for which that does not hold, and all after it, take the distributed path
//! (`distributed/`), if the device has a memory of its own. A device that uses the host's memory has
//! everything that is tracked nowhere.

mod cache;

use super::asynchronous::limits::{SharedOutcome, StopFlag, is_stopped, timed};
use super::device_launch::{self, Chosen, DeviceLaunch};
use super::distributed::active_run::ActiveRun;
use super::distributed::lanes::Lanes;
use super::footprint::FootprintCache;
use super::left_to_device::{Ending, Launches, LeftToDevice, Reached, complete_all};
use super::partition::{ArgumentFootprint, Footprint};
use super::plan::Target;
use super::state::Runtime;
use super::submissions::{Hold, Node, SubmissionList};
use crate::devices::DeviceHandle;
use crate::error::{Error, LaunchError};
use crate::memory::ArrayInner;
use crate::memory::device::{DeviceMemory, LastUse, Unfilled};
use crate::memory::directory::Place;
use crate::memory::region::Region;
use crate::memory::residence::{PublishedResidence, Residence};
use crate::memory::routes;
use crate::memory::transfer::Transfer;
use crate::workers::blocking::DeviceThread;
pub(super) use cache::ResidentLaunch;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use flash_types::descriptor::Access;
use flash_types::index::{Order, SpaceRef, SpaceView};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// At most this many launches in flight; then the host waits for the older half. A wake-up costs as much as
/// some launches do, so it should be rare; a driver keeps a few KiB per launch.
pub(super) const RUN_AHEAD: usize = 1024;

/// Up to this many bytes of an array are copied to the device at once: a task for the copy would cost more.
const AT_ONCE: u64 = 64 << 10;

/// How far a run has come.
pub(super) enum Progress {
    /// The first submission that was not run, and the failures of those before it.
    Done(usize, Vec<LaunchError>),
    /// All submissions are in the device's queue.
    Left(Box<LeftToDevice>),
}

/// The number of pipelines that failed when devices had all of them.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// Its value now, for [`Ending::Following`].
pub(super) fn failures() -> u64 {
    FAILURES.load(Relaxed)
}

/// True if a device has all that the submissions of a pipeline touch, and they can take this path. The
/// pipeline is counted in the words of its memories, and has not begun: that may change.
pub(super) fn has_all(list: &SubmissionList, runtime: &Runtime, device: &'static DeviceHandle) -> bool {
    let run = &mut Run::new(list, runtime, device);
    Lanes::of(device).kernels.is_idle()
        && list.nodes().iter().all(|node| {
            runs_here(node, runtime, device).is_some()
                && device.memory().is_none_or(|memory| run.has_arguments(node, memory))
        })
}

/// The implementation by which a submission runs on a device, if it can take this path there.
#[inline]
fn runs_here<'n>(node: &'n Node, runtime: &Runtime, device: &'static DeviceHandle) -> Option<&'n Target> {
    let plan = node.plan();
    let is_here = |target: &&Target| std::ptr::eq(target.device, device);
    match plan.targets() {
        Ok(targets) if plan.runs_simply() && !(plan.writes && runtime.check_writes) => {
            targets.iter().find(is_here)
        }
        _ => None,
    }
}

/// Runs submissions from `first` on, on one device, as long as they can take this path.
pub(super) fn run(
    list: &SubmissionList,
    runtime: &Runtime,
    device: &'static DeviceHandle,
    watch: Option<&SharedOutcome>,
    first: usize,
    mut ending: Ending,
) -> Progress {
    // Other work has its place in the lane, before this or after it.
    if !Lanes::of(device).kernels.is_idle() && !matches!(ending, Ending::Following(_)) {
        return Progress::Done(first, Vec::new());
    }
    if !LeftToDevice::may(device) {
        ending = Ending::Waited;
    }
    let memory = device.memory();
    let mut run = Run::new(list, runtime, device);
    run.ending = ending;
    let mut told = DeviceArgs::default();
    let mut failed = Vec::new();
    // Chains have few orders: mostly it is that of the submission before.
    let mut last: Option<(&Order, SpaceView<'_>)> = None;
    let mut position = first;
    for node in &list.nodes()[first..] {
        if is_stopped(watch) {
            break;
        }
        let order = list.order_of(node);
        let space = match &last {
            Some((before, view)) if std::ptr::eq(*before, order) => view.get(),
            _ => last.insert((order, order.view())).1.get(),
        };
        let Some(target) = runs_here(node, runtime, device) else { break };
        let outcome = match memory {
            None => run.launch(
                Chosen { node, plan: node.plan(), target },
                list.args_of(node),
                0,
                space,
                watch,
                position,
            ),
            Some(memory) => match run.tell(node, memory, &mut told, &mut failed) {
                Some(Ok(())) => {
                    let keeps = device.info().keeps_launches;
                    let like = if keeps { list.number_of(node, &told.homes) } else { 0 };
                    run.launch(
                        Chosen { node, plan: node.plan(), target },
                        &told.args,
                        like,
                        space,
                        watch,
                        position,
                    )
                }
                Some(Err(error)) => Err(error),
                None => break,
            },
        };
        if let Err(error) = outcome {
            failed.push((position, error));
        }
        position += 1;
        if run.pending.len() >= RUN_AHEAD {
            run.complete(RUN_AHEAD / 2, &mut failed);
        }
        if !failed.is_empty() {
            break;
        }
    }
    if let Ending::Following(_) = ending {
        return Progress::Left(
            run.follow(Reached { position, refused: failed.pop().map(|(_, error)| error) }),
        );
    }
    if ending == Ending::Left
        && failed.is_empty()
        && position == list.nodes().len()
        && !run.pending.is_empty()
        && let Some(left) = run.leave()
    {
        return Progress::Left(left);
    }
    run.complete(run.pending.len(), &mut failed);
    Progress::Done(position, run.settle(position, failed))
}

/// Ends launches that were left to a device. Returns their failures, and the run, which is over when it is
/// dropped.
pub(super) fn end(
    list: &SubmissionList,
    runtime: &Runtime,
    left: Box<LeftToDevice>,
) -> (Vec<LaunchError>, Option<ActiveRun>) {
    let (device, position, before) = (left.device(), left.position(), left.failures_before());
    let mut failed = Vec::new();
    let active_run = left.end(&mut failed);
    let run = Run::new(list, runtime, device);
    let failures = match before.is_some_and(|before| before != self::failures()) {
        true => run.settle_from(0, position, failed),
        false => run.settle(position, failed),
    };
    if !failures.is_empty() {
        FAILURES.fetch_add(1, Relaxed);
    }
    (failures, active_run)
}

struct Run<'a> {
    list: &'a SubmissionList,
    runtime: &'a Runtime,
    device: &'static DeviceHandle,
    known: FootprintCache,
    /// Residences of memories that others may use meanwhile.
    shared: SmallVec<[&'a PublishedResidence; 8]>,
    pending: Launches,
    ending: Ending,
}

/// Arguments in the form for a device with a memory of its own.
#[derive(Default)]
struct DeviceArgs {
    args: SmallVec<[Arg; 8]>,
    parts: SmallVec<[abi::Part; 8]>,
    /// The numbers of the arrays' residences.
    homes: SmallVec<[u64; 8]>,
}

impl<'a> Run<'a> {
    #[inline]
    fn new(list: &'a SubmissionList, runtime: &'a Runtime, device: &'static DeviceHandle) -> Run<'a> {
        let (shared, pending, ending) = (SmallVec::new(), SmallVec::new(), Ending::Waited);
        Run { list, runtime, device, known: FootprintCache::default(), shared, pending, ending }
    }

    /// Leaves its launches to the device. `None`: that is not possible.
    fn leave(&mut self) -> Option<Box<LeftToDevice>> {
        let thread = Some(DeviceThread::reserve()?);
        Some(self.leave_to(thread, Reached { position: self.list.nodes().len(), refused: None }))
    }

    /// Leaves what there is of its launches to the device.
    fn follow(&mut self, reached: Reached) -> Box<LeftToDevice> {
        self.leave_to(DeviceThread::reserve(), reached)
    }

    fn leave_to(&mut self, thread: Option<DeviceThread>, reached: Reached) -> Box<LeftToDevice> {
        let shared = self.shared.drain(..).map(std::ptr::from_ref).collect();
        let launches = std::mem::take(&mut self.pending);
        let failures = match self.ending {
            Ending::Following(failures) => Some(failures),
            _ => None,
        };
        // SAFETY: events of the device, taken out here; the residences are in memories that the pipeline
        // holds until it has ended, and it is their user.
        Box::new(unsafe { LeftToDevice::new(self.device, launches, shared, thread, reached, failures) })
    }

    /// True if the device has all that a submission touches; for a pipeline that has not begun.
    fn has_arguments(&mut self, node: &'a Node, memory: &'static DeviceMemory) -> bool {
        let Some(footprint) = self.list.footprint_of(node, || self.known.footprint(self.list, node)) else {
            return false;
        };
        let args = self.list.args_of(node).iter();
        args.zip(self.list.holds_of(node)).zip(&footprint.touched).all(|((arg, hold), touched)| {
            if touched.nothing {
                return arg.kind == abi::ARG_SCALAR;
            }
            let Some(header) = self.list.memory(hold.touched) else { return false };
            let Some(home) = header.home.share() else { return false };
            let is_there = has(home, memory, touched, first_of(arg, header))
                && (arg.access == abi::ACCESS_READ || home.only);
            header.home.end();
            is_there
        })
    }

    /// Sets the places of the arguments on the device. Missing data is copied there first if that is quick.
    /// `None`: the submission takes the distributed path.
    #[inline]
    fn tell(
        &mut self,
        node: &'a Node,
        memory: &'static DeviceMemory,
        told: &mut DeviceArgs,
        failed: &mut Vec<(usize, Error)>,
    ) -> Option<Result<(), Error>> {
        let footprint = self.list.footprint_of(node, || self.known.footprint(self.list, node))?;
        if self.find(node, footprint, memory, told).is_some() {
            return Some(Ok(()));
        }
        if let Ending::Following(_) = self.ending {
            return None;
        }
        // Data is about to move: nothing may use it meanwhile, this run included.
        self.complete(self.pending.len(), failed);
        if !failed.is_empty() {
            return None;
        }
        match self.bring(node, footprint, memory)? {
            Ok(()) => self.find(node, footprint, memory, told).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Sets the places of the arguments on the device. `None`: not all of them are there.
    #[inline]
    fn find(
        &mut self,
        node: &'a Node,
        footprint: &Footprint,
        memory: &'static DeviceMemory,
        told: &mut DeviceArgs,
    ) -> Option<()> {
        let DeviceArgs { args, parts, homes } = told;
        homes.clear();
        args.clear();
        args.extend_from_slice(self.list.args_of(node));
        parts.clear();
        // Arguments point to them: they must not move.
        parts.reserve(args.len());
        let now = LastUse::now();
        let arguments =
            args.iter_mut().zip(&footprint.parts).zip(self.list.holds_of(node)).zip(&footprint.touched);
        for (((arg, part), hold), touched) in arguments {
            if touched.nothing {
                if arg.kind != abi::ARG_SCALAR {
                    return None;
                }
                continue;
            }
            let (header, home) = self.home_of(hold)?;
            let first = first_of(arg, header);
            if !has(home, memory, touched, first) || (arg.access != abi::ACCESS_READ && !home.only) {
                return None;
            }
            home.last_use.set(now);
            homes.push(header.home.number());
            // Modulo 2^64: the buffer may begin on either side of the argument's first element.
            let origin = home.first.wrapping_sub(first);
            arg.part = part;
            if origin != part.origin {
                parts.push(abi::Part { origin, ..*part });
                arg.part = parts.last()?;
            }
            place(arg, origin, home, header.element_size());
        }
        Some(())
    }

    /// Copies the data to the device that a submission lacks there, and records what it writes, if it touches
    /// only whole memories and lacks little. `None`: it does not, and nothing was recorded.
    #[cold]
    fn bring(
        &self,
        node: &Node,
        footprint: &Footprint,
        memory: &'static DeviceMemory,
    ) -> Option<Result<(), Error>> {
        let place = memory.place();
        let arguments = || {
            let arrays = node.plan().arguments.iter().zip(self.list.holds_of(node)).zip(&footprint.touched);
            arrays.filter(|(_, touched)| !touched.nothing)
        };
        for ((spec, hold), touched) in arguments() {
            let header = self.list.memory(hold.touched)?;
            let mut directory = header.directory();
            let all = Region::all(directory.grid());
            let lacking = directory.lacks(place, &all);
            let roomy = directory.copy(place).is_none_or(|copy| *copy.range() == (0..header.len() as u64));
            if !touched.all
                || touched.block != touched.seen.block()
                || !roomy
                || lacking.elements() * header.element_size() > AT_ONCE
                || directory.is_expecting(place)
                || directory.poisoned(&all)
            {
                return None;
            }
            header.set_granule(self.runtime.granule);
            // An error here is found again and reported on the distributed path.
            let cost = |from| routes::route(from, place).cost;
            let (range, reads) = (0..header.len() as u64, spec.access != Access::Write || !touched.covered);
            let mut unfilled = Unfilled::default();
            if reads && directory.whole_source(None, place, &all, cost).is_some() {
                unfilled = memory.reserve_to_fill(header, &mut directory, range).ok()?;
            } else {
                memory.reserve(header, &mut directory, range).ok()?;
            }
            if !lacking.is_empty() && reads {
                for (from, part) in directory.sources(place, &lacking, cost) {
                    let transfer = Transfer::new(header, &directory, [from, place], &part).ok()?;
                    // SAFETY: the run holds the memory and has its directory, by which this is current there
                    // and not on the device: nothing writes it there, and nothing touches it here.
                    match unsafe { transfer.run(&part) } {
                        Ok(()) => {
                            std::mem::take(&mut unfilled).filled();
                            directory.copied(place, &part);
                        }
                        Err(error) if from == Place::HOST => return Some(Err(error)),
                        // The distributed path tries it again, and knows what a lost device took along.
                        Err(_) => return None,
                    }
                }
            }
        }
        for ((_, hold), _) in arguments().filter(|((spec, _), _)| spec.access != Access::Read) {
            let mut directory = self.list.memory(hold.touched)?.directory();
            let all = Region::all(directory.grid());
            directory.written(place, &all);
        }
        Some(Ok(()))
    }

    /// Submits it to the device.
    #[inline]
    fn launch(
        &mut self,
        Chosen { node, plan, target }: Chosen<'a>,
        args: &[Arg],
        like: u64,
        space: SpaceRef<'_>,
        watch: Option<&SharedOutcome>,
        position: usize,
    ) -> Result<(), Error> {
        let (attributes, profile) = device_launch::extras(node, self.runtime);
        let phases = 0..space.phases();
        let launch = DeviceLaunch {
            plan,
            target,
            space,
            phases,
            attributes,
            profile,
            position,
            cut: false,
            draw: None,
            stop: watch.and_then(|watch| watch.flag()),
            like,
        };
        let limit = device_launch::timeout(node, self.runtime);
        if limit.is_none() && profile.is_none() {
            let event = match self.list.nodes().len() {
                // No other launch goes to the device meanwhile.
                1 if self.ending == Ending::Waited => {
                    launch.wait(args, launch.phases.clone(), &mut 0).map(|()| None)
                }
                _ => launch.begin(args, self.ending == Ending::Waited, &[]),
            };
            match event? {
                Some(event) => self.pending.push((position, event)),
                None if self.pending.is_empty() => self.end_shared(),
                None => {}
            }
            return Ok(());
        }
        let run = |stop: StopFlag<'_>| {
            let phases = launch.phases.clone();
            let launch = DeviceLaunch { stop, phases, ..launch };
            launch
                .timed(|launch, nanoseconds| launch.send(args, launch.phases.clone(), nanoseconds))
                .map(drop)
        };
        match limit {
            None => run(launch.stop),
            Some(limit) => {
                let blame = |source| device_launch::blame(node, plan, position, source);
                timed(limit, Instant::now(), watch, blame, run)
            }
        }
    }

    #[inline]
    fn home_of(&mut self, hold: &Hold) -> Option<(&'a ArrayInner, &'a Residence)> {
        let header = self.list.memory(hold.touched)?;
        // The end of one before it may publish another, if that has failed.
        let follows = matches!(self.ending, Ending::Following(_));
        if self.list.is_written(hold.touched) && !follows {
            return Some((header, header.home.alone()?));
        }
        let home = header.home.share()?;
        self.shared.push(&header.home);
        Some((header, home))
    }

    /// Waits for the first `count` of the launches in flight.
    #[inline]
    fn complete(&mut self, count: usize, failed: &mut Vec<(usize, Error)>) {
        if count > 0 {
            self.wait(count, failed);
        }
        if self.pending.is_empty() {
            self.end_shared();
        }
    }

    fn wait(&mut self, count: usize, failed: &mut Vec<(usize, Error)>) {
        // SAFETY: events of this device's backend, given back once.
        unsafe { complete_all(self.device, self.pending.drain(..count), failed) };
    }

    fn end_shared(&mut self) {
        self.shared.drain(..).for_each(PublishedResidence::end);
    }

    /// A failure poisons what the submission should have written. Later submissions that read that count as
    /// skipped, whatever has become of them on the device.
    fn settle(&self, done: usize, failed: Vec<(usize, Error)>) -> Vec<LaunchError> {
        failed
            .first()
            .map(|(first, _)| *first)
            .map_or_else(Vec::new, |first| self.settle_from(first, done, failed))
    }

    /// The same from a submission on: those before it can have read nothing poisoned.
    fn settle_from(&self, first: usize, done: usize, failed: Vec<(usize, Error)>) -> Vec<LaunchError> {
        let mut failures = Vec::new();
        let mut failed = failed.into_iter().peekable();
        for (position, node) in self.list.nodes().iter().enumerate().take(done).skip(first) {
            let own = failed.next_if(|(at, _)| *at == position).map(|(_, error)| error);
            let error = match own {
                Some(Error::Backend { code: Code::DeviceLost, .. }) => own,
                _ => self.reads_poison(node).or(own),
            };
            if let Some(source) = error {
                failures.push(device_launch::failed(self.list, node, position, source));
                continue;
            }
            for (header, range, i) in self.ranges(node) {
                if node.plan().arguments[i].access == Access::Write && self.list.holds_of(node)[i].complete {
                    header.heal(range);
                }
            }
        }
        failures
    }

    fn reads_poison(&self, node: &'a Node) -> Option<Error> {
        let plan = node.plan();
        let mut read = self.ranges(node).filter(|(.., i)| plan.arguments[*i].access != Access::Write);
        let (.., i) = read.find(|(header, range, _)| header.poisoned(range.clone()))?;
        Some(Error::Skipped { argument: plan.descriptor.arguments[i].name.clone() })
    }

    /// The memories of a submission's arguments, the elements that each argument is of its memory, and their
    /// numbers.
    fn ranges(&self, node: &'a Node) -> impl Iterator<Item = (&'a ArrayInner, Range<u64>, usize)> {
        let (list, args) = (self.list, self.list.args_of(node));
        list.holds_of(node).iter().enumerate().filter_map(move |(i, hold)| {
            let header = list.memory(hold.touched)?;
            let start = first_of(&args[i], header);
            Some((header, start..start + args[i].len, i))
        })
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        debug_assert!(self.pending.is_empty(), "a run ends after its launches");
        self.end_shared();
    }
}

/// True if a residence is on a device and has what an argument touches, whose first element is `first` of the
/// memory.
#[inline]
fn has(home: &Residence, memory: &'static DeviceMemory, touched: &ArgumentFootprint, first: u64) -> bool {
    let hull = touched.hull.start + first..touched.hull.end + first;
    std::ptr::eq(home.memory, memory)
        && ((touched.all && home.has(&touched.block, &touched.seen)) || home.has_range(&hull))
}

/// The element of a memory that is an argument's first.
#[inline]
fn first_of(arg: &Arg, header: &ArrayInner) -> u64 {
    let bytes = (arg.data as usize).wrapping_sub(header.data() as usize) as u64;
    // Usually it is all of the memory: divisions are slow.
    if bytes == 0 { 0 } else { bytes / header.element_size().max(1) }
}

/// Sets the place of an argument's elements; its element `origin` is the buffer's first.
#[inline]
fn place(arg: &mut Arg, origin: u64, home: &Residence, size: u64) {
    arg.space = home.buffer.space;
    arg.buffer = home.buffer.handle;
    arg.data = match home.memory.has_addresses() {
        true => {
            let first = home.buffer.handle.wrapping_sub(origin.wrapping_mul(size));
            std::ptr::with_exposed_provenance_mut(first as usize)
        }
        false => std::ptr::null_mut(),
    };
}
