//! Out of core: a submission that touches more than a device's memory may take is cut into parts that fit.
//! They go through the device one after another, without an option.
//!
//! A part is small enough that several fit at once. A device gets room for as many as fit, at one time (a
//! *batch*), so that the data of one is copied while another computes. Between batches the results go back to
//! the host and the room is released. An array that is touched in full is in every part. If it does not fit,
//! or there is no dimension to cut along, the submission runs in one piece and its error names the sizes.

use super::placement;
use crate::memory::device::DeviceMemory;
use crate::runtime::footprint::launch_of;
use crate::runtime::partition::{Extent, Launch, Parts, Subspace};
use crate::runtime::plan::{Plan, Target};
use crate::runtime::submissions::{Node, SubmissionList};
use flash_types::abi;
use flash_types::descriptor::View;
use std::sync::Arc;

/// Parts that fit into a device's memory at once, if the dimensions allow it.
const BATCH: u64 = 4;

/// The parts of a submission that streams; `None`: it fits as it is, or no cut makes it fit. `parts`: its cut
/// otherwise, if there is one.
pub(super) fn streamed(
    list: &SubmissionList,
    node: &Node,
    plan: &Plan,
    targets: &[Target],
    parts: Option<&Parts>,
) -> Option<Arc<Parts>> {
    let memories = targets.iter().filter_map(|target| target.device.memory());
    let room = memories.map(DeviceMemory::budget).min()?;
    let args = list.args_of(node);
    let all = args.iter().zip(&plan.arguments).map(|(arg, spec)| bytes(arg, spec.view, arg.len));
    let all = all.fold(0, u64::saturating_add);
    if !plan.may_stream || all <= room || list.order_of(node).items() == 0 {
        return None;
    }
    let layouts = list.layouts_of(node);
    let launch = launch_of(list, node, plan, &layouts);
    let of_parts = |parts: &Parts| parts.subspaces.iter().map(|part| needs(&launch, parts, part).0).max();
    let mut largest = parts.and_then(of_parts).unwrap_or(all);
    if largest <= room {
        return None;
    }
    let (mut count, mut shared, mut fits) = (parts.map_or(1, |parts| parts.subspaces.len()) as u64, 0, None);
    // Each round makes the parts at most half as large, except for what all of them need: few rounds suffice.
    while shared < room && count < MOST {
        let share = ((room - shared) / BATCH).max(1);
        count = count.saturating_mul((largest - shared).div_ceil(share).max(2)).min(MOST);
        let weights = vec![1.0; count.min(launch.order.items()) as usize];
        // Until now it was not known whether it can be cut.
        let Ok(Some(finer)) = placement::by_weights(plan, &launch, &weights) else { return fits };
        let each = finer.subspaces.iter().map(|part| needs(&launch, &finer, part));
        let (finest, every) = each.max()?;
        if finest >= largest || plan.whole && !finer.lie_without_gaps(plan) {
            return fits;
        }
        (largest, shared) = (finest, every);
        if finest <= room {
            fits = Some(finer);
        }
        if shared < room && finest - shared <= (room - shared) / BATCH {
            break;
        }
    }
    fits
}

/// More parts than this cost more than they save.
const MOST: u64 = 1 << 12;

/// Bytes on a device of `elements` elements of an argument.
fn bytes(arg: &abi::Arg, view: View, elements: u64) -> u64 {
    let buffer = DeviceMemory::rounded(elements.saturating_mul(u64::from(arg.element_size)));
    match view {
        View::Scalar => 0,
        // Includes its second buffer, if it has one.
        View::Phased if arg.flags & abi::ARG_FLAG_STAGED == 0 => buffer.saturating_mul(2),
        _ => buffer,
    }
}

/// Bytes that a part needs on its device, from the first to the last element that it touches of each
/// argument; and the part of them that is arrays it needs in full.
fn needs(launch: &Launch<'_>, parts: &Parts, part: &Subspace) -> (u64, u64) {
    let of = |(i, arg): (usize, &abi::Arg)| {
        let (touched, spec) = (&part.touched[i], &launch.kernel.arguments[i]);
        let elements = match touched.hull() {
            Some(elements) => parts.grids[i].span(&elements),
            None if [touched.read, touched.written].contains(&Some(Extent::All)) => arg.len,
            None => 0,
        };
        let bytes = bytes(arg, spec.view, elements);
        (bytes, if elements == arg.len { bytes } else { 0 })
    };
    let add = |(a, b): (u64, u64), (c, d): (u64, u64)| (a.saturating_add(c), b.saturating_add(d));
    launch.args.iter().enumerate().map(of).fold((0, 0), add)
}
