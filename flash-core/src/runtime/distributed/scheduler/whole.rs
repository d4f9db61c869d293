//! Submissions that run whole and need nothing but their arguments, as most do. Their parts are not made one
//! by one, and their footprint is looked up in a cache.

use super::{Scheduler, SubmissionState, Touches};
use crate::error::Error;
use crate::memory::directory::Place;
use crate::runtime::asynchronous::limits::StopFlag;
use crate::runtime::device_launch::{self, Chosen, DeviceLaunch};
use crate::runtime::distributed::arrays::Touch;
use crate::runtime::distributed::kept::NotedKernel;
use crate::runtime::distributed::part;
use crate::runtime::distributed::placement::{self, place_of};
use crate::runtime::distributed::task::{Begin, Effort, MayFly};
use crate::runtime::partition::Footprint;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::submissions::Node;
use flash_types::abi::{self, Arg};
use flash_types::descriptor::Access;
use smallvec::SmallVec;

impl<'r> Scheduler<'r> {
    /// Puts a submission into the lane of a device. `None`: it is not of this kind, and nothing was done.
    pub(super) fn issue_whole(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        targets: &'r [Target],
    ) -> Option<Result<(), Error>> {
        let sizes = node.extra.as_ref().is_some_and(|extra| extra.sizes.is_some());
        let checks = self.runtime.check_writes && plan.writes;
        if placement::wants_cut(plan, targets) || !plan.runs_simply() || sizes || checks {
            return None;
        }
        let footprint = self.known.footprint(self.list, node)?;
        let touches = self.touches_whole(node, plan, &footprint);
        let latest = self.latest();
        latest.plain = true;
        Some(self.issue_touching(node, plan, targets, &footprint, touches))
    }

    /// The uses of arrays by a submission with this footprint.
    fn touches_whole(&mut self, node: &Node, plan: &Plan, footprint: &Footprint) -> SmallVec<[Touches; 4]> {
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (i, touched) in footprint.touched.iter().enumerate().filter(|(_, touched)| !touched.nothing) {
            let (array, offset) = self.array_of(node, i);
            let of = (&touched.block, &touched.seen);
            let (region, just) = self.seen_region(array, of, offset, &mut touches);
            let touch = match plan.arguments[i].access {
                Access::Read => Touch::Read,
                Access::ReadWrite => Touch::ReadWrite,
                Access::Write if just && touched.covered => Touch::Write,
                Access::Write => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        touches
    }

    fn issue_touching(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        targets: &'r [Target],
        footprint: &Footprint,
        touches: SmallVec<[Touches; 4]>,
    ) -> Result<(), Error> {
        self.refuse_poison(plan, &touches)?;
        let number = if targets.len() == 1 { 0 } else { placement::choose(self, node, plan, targets) };
        let target = &targets[number];
        let (memory, place) = place_of(target);
        self.make_current(memory, &touches)?;
        let (list, runtime, order) = (self.list, self.runtime, self.list.order_of(node));
        let (position, recorded) = (self.latest().position, list.args_of(node));
        let placed = (place != Place::HOST).then(|| self.placed(node, footprint, place));
        let flies = device_launch::extras(node, runtime).1.is_none();
        if let Some(notes) = &mut self.notes {
            let (target, items) = (number as u32, order.items());
            let kernel = NotedKernel { node, plan, target, touches: &touches, part: None, items };
            notes.kernel(runtime, kernel, || {
                let Some((args, boxes)) = &placed else { return (recorded.to_vec(), Vec::new()) };
                let (mut args, boxes) = (args.to_vec(), boxes.to_vec());
                part::point(&mut args, &boxes, |i| recorded[i].kind != abi::ARG_SCALAR);
                (args, boxes)
            });
        }
        let work = move |stop: StopFlag<'_>, begin: Begin<'_>| {
            let mut placed = placed;
            let args = match &mut placed {
                None => recorded,
                Some((args, parts)) => {
                    part::point(args, parts, |i| recorded[i].kind != abi::ARG_SCALAR);
                    args
                }
            };
            let (attributes, profile) = device_launch::extras(node, runtime);
            let view = order.view();
            let (space, phases) = (view.get(), 0..order.phases());
            let (cut, draw) = (false, None);
            let launch = DeviceLaunch {
                plan,
                target,
                space,
                phases,
                attributes,
                profile,
                position,
                cut,
                draw,
                stop,
                like: 0,
            };
            if begin.may_fly != MayFly::No && flies {
                return part::fly(&launch, target, args, order.items(), begin);
            }
            part::run_timed(target, order.items(), || {
                launch.timed(|launch, nanoseconds| launch.send(args, launch.phases.clone(), nanoseconds))
            })?;
            Ok(None)
        };
        let effort = Effort { expected: part::expected(target, order.items()), flies };
        self.put(Chosen { node, plan, target }, number as u32, &touches, place, effort, work);
        Ok(())
    }

    /// The arguments of a submission, with the addresses of a device, and the parts that they point to.
    fn placed(&mut self, node: &Node, footprint: &Footprint, place: Place) -> (Box<[Arg]>, Box<[abi::Part]>) {
        let mut args: Box<[Arg]> = self.list.args_of(node).into();
        let mut parts = footprint.parts.clone();
        let arrays = args.iter_mut().zip(&mut parts).enumerate();
        for (i, (arg, part)) in arrays.filter(|(_, (arg, _))| arg.kind != abi::ARG_SCALAR) {
            let (array, offset) = self.array_of(node, i);
            self.arrays[array as usize].address(arg, part, place, offset);
        }
        (args, parts)
    }

    /// Records the reads and writes of such a submission, after a failure.
    pub(in crate::runtime::distributed) fn record_whole(&mut self, launched: &mut SubmissionState) {
        let node: &'r Node = &self.list.nodes()[launched.position];
        let plan = node.plan();
        let Some(footprint) = self.known.footprint(self.list, node) else { return };
        for Touches { argument, array, region, touch, .. } in self.touches_whole(node, plan, &footprint) {
            if touch.writes() {
                launched.writes.push((array, region.clone(), touch == Touch::Write));
            }
            if touch.reads() {
                launched.reads.push((argument, array, region));
            }
        }
    }
}
