//! Submissions that run whole and need nothing but their arguments: most of them. Their parts are not made
//! one by one, and what they touch is looked up among those that came before.

use super::{Launched, Touches, Walk};
use crate::abi::{self, Arg};
use crate::descriptor::Access;
use crate::error::Error;
use crate::index::Order;
use crate::memory::directory::Place;
use crate::runtime::launch::{self, ToDevice};
use crate::runtime::near::{self, Near};
use crate::runtime::plan::{Plan, Target};
use crate::runtime::record::Node;
use crate::runtime::spread::arrays::Touch;
use crate::runtime::spread::part;
use crate::runtime::spread::place::{self, place_of};
use smallvec::SmallVec;
use std::rc::Rc;

/// What a submission touches, and all that this depends on.
pub(super) struct Known {
    plan: *const Plan,
    order: *const Order,
    /// Per argument.
    arrays: SmallVec<[KnownArray; 4]>,
    touched: Rc<[Near]>,
}

/// The length of an argument, whether it is all of its memory, and that one's shape.
type KnownArray = (u64, bool, SmallVec<[u64; 4]>);

/// So many are looked through.
const KNOWN: usize = 8;

impl<'r> Walk<'r> {
    /// Puts a submission into the lane of a device. `None`: it is not one of these, and nothing was done.
    pub(super) fn issue_plain(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        targets: &'r [Target],
    ) -> Option<Result<(), Error>> {
        let sizes = node.extra.as_ref().is_some_and(|extra| extra.sizes.is_some());
        let checks = self.runtime.check_writes && plan.writes;
        if place::wants_cut(plan, targets) || !plan.runs_plainly() || sizes || checks {
            return None;
        }
        let touched = self.known(node, plan)?;
        let mut touches: SmallVec<[Touches; 4]> = SmallVec::new();
        for (i, near) in touched.iter().enumerate().filter(|(_, near)| !near.block.is_empty()) {
            let (array, offset) = self.array_of(node, i);
            let (region, just) = self.seen_region(array, &near.block, &near.seen, offset);
            let touch = match plan.arguments[i].access {
                Access::Read => Touch::Read,
                Access::ReadWrite => Touch::ReadWrite,
                Access::Write if just && near.covered => Touch::Write,
                Access::Write => Touch::WriteSome,
            };
            touches.push(Touches { argument: i as u32, array, region, touch, second: false });
        }
        let latest = self.latest();
        latest.plain = true;
        Some(self.issue_touching(node, plan, targets, &touched, touches))
    }

    fn issue_touching(
        &mut self,
        node: &'r Node,
        plan: &'r Plan,
        targets: &'r [Target],
        touched: &[Near],
        touches: SmallVec<[Touches; 4]>,
    ) -> Result<(), Error> {
        self.refuse_poison(plan, &touches)?;
        let number = if targets.len() == 1 { 0 } else { place::choose(self, node, plan, targets) };
        let target = &targets[number];
        let (memory, place) = place_of(target);
        self.make_current(memory, &touches)?;
        let (slots, runtime, order) = (self.slots, self.runtime, self.slots.order_of(node));
        let (position, recorded) = (self.latest().position, slots.args_of(node));
        let placed = (place != Place::HOST).then(|| self.placed(node, touched, place));
        let work = move || {
            let mut placed = placed;
            let args = match &mut placed {
                None => recorded,
                Some((args, parts)) => {
                    for (arg, part) in
                        args.iter_mut().zip(parts).filter(|(arg, _)| arg.kind != abi::ARG_SCALAR)
                    {
                        arg.part = part;
                    }
                    args
                }
            };
            let (attributes, profile) = launch::extras(node, runtime);
            let view = order.view();
            let (space, phases) = (view.get(), 0..order.phases());
            let launch = ToDevice { plan, target, space, phases, attributes, profile, position, cut: false };
            part::run_timed(target, order.items(), || {
                launch.timed(|launch, nanoseconds| launch.send(args, launch.phases.clone(), nanoseconds))
            })
        };
        let expected = part::expected(target, order.items());
        self.put((node, plan, target, number as u32), &touches, place, expected, work);
        Ok(())
    }

    /// The arguments of a submission, with the addresses of a device, and the parts that they point to.
    fn placed(&mut self, node: &Node, touched: &[Near], place: Place) -> (Box<[Arg]>, Box<[abi::Part]>) {
        let mut args: Box<[Arg]> = self.slots.args_of(node).into();
        let mut parts: Box<[abi::Part]> = touched.iter().map(|near| near.part).collect();
        let arrays = args.iter_mut().zip(&mut parts).enumerate();
        for (i, (arg, part)) in arrays.filter(|(_, (arg, _))| arg.kind != abi::ARG_SCALAR) {
            let (array, offset) = self.array_of(node, i);
            self.arrays[array as usize].address(arg, part, place, offset);
        }
        (args, parts)
    }

    /// What a submission touches, if all of its arrays are memories.
    fn known(&mut self, node: &Node, plan: &Plan) -> Option<Rc<[Near]>> {
        let (slots, order) = (self.slots, std::ptr::from_ref(self.slots.order_of(node)));
        let (args, holds) = (slots.args_of(node), slots.holds_of(node));
        let shape = |i: usize| -> (bool, &[u64]) {
            match slots.memory(holds[i].touched) {
                Some(header) if !slots.is_part(node, i) => (true, header.shape()),
                _ => (false, &[]),
            }
        };
        let same = |known: &Known| {
            std::ptr::eq(known.plan, plan)
                && std::ptr::eq(known.order, order)
                && known
                    .arrays
                    .iter()
                    .enumerate()
                    .all(|(i, (len, all, of))| *len == args[i].len && (*all, &of[..]) == shape(i))
        };
        if args
            .iter()
            .zip(holds)
            .any(|(arg, hold)| arg.kind != abi::ARG_SCALAR && slots.memory(hold.touched).is_none())
        {
            return None;
        }
        if let Some(known) = self.known.iter().rev().find(|known| same(known)) {
            return Some(known.touched.clone());
        }
        let touched: Rc<[Near]> = near::of(slots, node, plan)?.into();
        let arrays = (0..args.len()).map(|i| {
            let (all, of) = shape(i);
            (args[i].len, all, of.into())
        });
        let arrays = arrays.collect();
        if self.known.len() == KNOWN {
            self.known.remove(0);
        }
        self.known.push(Known { plan, order, arrays, touched: touched.clone() });
        Some(touched)
    }

    /// What a submission of these read and wrote, for when something failed.
    pub(in crate::runtime::spread) fn tell_plain(&mut self, launched: &mut Launched) {
        let node: &'r Node = &self.slots.nodes()[launched.position];
        let plan = node.plan();
        let Some(touched) = self.known(node, plan) else { return };
        for (i, near) in touched.iter().enumerate().filter(|(_, near)| !near.block.is_empty()) {
            let (array, offset) = self.array_of(node, i);
            let (region, just) = self.seen_region(array, &near.block, &near.seen, offset);
            let access = plan.arguments[i].access;
            if access != Access::Read {
                let complete = access == Access::Write && just && near.covered;
                launched.writes.push((array, region.clone(), complete));
            }
            if access != Access::Write {
                launched.reads.push((i as u32, array, region));
            }
        }
    }
}
