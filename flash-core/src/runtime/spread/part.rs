//! One part of a submission, ready for its device.

use super::arrays::Array;
use super::place::Piece;
use crate::abi::{self, Arg};
use crate::descriptor::View;
use crate::error::Error;
use crate::index::Order;
use crate::memory::directory::Place;
use crate::runtime::check::WriteCheck;
use crate::runtime::launch;
use crate::runtime::plan::{Plan, Target};
use crate::runtime::record::{Node, Slots};
use crate::runtime::{Profile, Runtime};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The order of a part: the submission's own, or that of a subspace.
#[derive(Clone)]
pub(super) enum OrderOf<'r> {
    Whole(&'r Order),
    Cut(Arc<Order>),
}

impl OrderOf<'_> {
    pub fn get(&self) -> &Order {
        match self {
            OrderOf::Whole(order) => order,
            OrderOf::Cut(order) => order,
        }
    }
}

/// What a device gets.
pub(super) struct KernelPart<'r> {
    plan: &'r Plan,
    target: &'r Target,
    order: OrderOf<'r>,
    args: SmallVec<[Arg; 8]>,
    /// One per argument; where `args` point to.
    parts: Vec<abi::Part>,
    phases: Range<u64>,
    attributes: &'r [abi::Attr],
    profile: Option<Profile>,
    check_writes: bool,
    items: u64,
}

impl<'r> KernelPart<'r> {
    pub fn new(
        slots: &'r Slots,
        runtime: &'r Runtime,
        node: &'r Node,
        plan: &'r Plan,
        target: &'r Target,
        piece: &Piece<'r>,
        phases: Range<u64>,
    ) -> KernelPart<'r> {
        let order = piece.order.clone();
        let items = match phases.end {
            0 => 0,
            end => order.get().phase(end - 1).end - order.get().phase(phases.start).start,
        };
        let parts = piece.boxes.iter().map(|of| of.part()).collect();
        let (attributes, profile) = launch::extras(node, runtime);
        KernelPart {
            plan,
            target,
            order,
            args: SmallVec::from_slice(slots.args_of(node)),
            parts,
            phases,
            attributes,
            profile: profile.cloned(),
            check_writes: plan.writes && runtime.check_writes && target.device.info().host_memory,
            items,
        }
    }

    /// Puts in where an argument is. `cut`: other parts have the rest of the array.
    pub fn place(&mut self, argument: u32, second: bool, array: &Array<'_>, place: Place, offset: u64, cut: bool) {
        let i = argument as usize;
        let (arg, part) = (&mut self.args[i], &mut self.parts[i]);
        let mut there = *arg;
        // On the host an array is all there; a device has no more than it was given.
        if place == Place::HOST {
            let bytes = (offset * array.size) as usize;
            there.data = array.host.wrapping_add(bytes).cast();
        } else {
            array.address(&mut there, part, place, offset);
        }
        if second {
            arg.next = there.data;
            if cut {
                arg.flags |= abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS;
            }
            return;
        }
        let next = arg.next;
        *arg = Arg { next, ..there };
        if arg.flags & abi::ARG_FLAG_STAGED != 0 {
            arg.next = arg.data;
        }
        let checked = matches!(self.plan.arguments[i].view, View::Phased | View::Scatter | View::Window);
        if place != Place::HOST || (checked && cut) {
            arg.part = part;
        }
    }

    /// Expected nanoseconds; a guess that is worth waking somebody for if the kernel never ran.
    pub fn expected(&self) -> u64 {
        match self.target.rate.get() {
            Some(rate) => (rate * self.items as f64) as u64,
            None => 100_000,
        }
    }

    /// Runs it; returns when it is done.
    pub fn run(mut self) -> Result<(), Error> {
        // The parts have not moved with `self`: a vector's elements stay where they are. Anew all the same,
        // from the vector as it is now.
        let parts = self.parts.as_ptr();
        for (i, arg) in self.args.iter_mut().enumerate().filter(|(_, arg)| !arg.part.is_null()) {
            arg.part = parts.wrapping_add(i);
        }
        let order = self.order.get();
        let check = self.check_writes.then(|| WriteCheck::begin(self.plan, order, &self.args));
        let start = Instant::now();
        launch::submit_to(launch::ToDevice {
            plan: self.plan,
            target: self.target,
            order,
            phases: self.phases.clone(),
            args: &self.args,
            attributes: self.attributes,
            profile: self.profile.as_ref(),
        })?;
        self.target.rate.add(start.elapsed().as_nanos() as u64, self.items);
        match check {
            Some(check) => check.end(self.plan, &self.args),
            None => Ok(()),
        }
    }
}
