//! The long way of a launch: several devices, or memories of their own. See README.md beside this folder.

mod arrays;
mod lane;
mod part;
mod place;
mod room;
mod settle;
mod shared;
mod stream;
mod sync;
mod task;
mod walk;

use super::asynchronous::Watch;
use super::record::Slots;
use super::{Runtime, reorder};
use crate::backend::DeviceHandle;
use crate::error::{Error, LaunchError};
use lane::Lane;
pub(super) use part::part_of;
pub(super) use place::{parts_of, whole_parts};
use room::Room;
use std::sync::LazyLock;
use walk::Walk;

/// The lanes of a device.
pub(crate) struct Lanes {
    pub kernels: Lane,
    pub copies: Lane,
}

impl Lanes {
    /// Those of a device.
    pub fn of(device: &'static DeviceHandle) -> &'static Lanes {
        device.lanes.get_or_init(|| Lanes {
            kernels: Lane::new(format!("flash {}", device.id())),
            copies: Lane::new(format!("flash {} copies", device.id())),
        })
    }
}

static ROOM: LazyLock<Room> = LazyLock::new(Room::default);

/// A run that may use memories of devices, until others may have them.
pub(super) struct Going(());

impl Going {
    pub fn begin() -> Going {
        ROOM.goes();
        Going(())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        ROOM.ends();
    }
}

/// Runs the submissions of a pipeline from `first` on, whose memories are held. `failures` are those of the
/// submissions before; `watch` hears of timeouts; `beside`: others may use other elements of the memories
/// meanwhile. If the devices have memories of their own, the run is [`Going`]. Returns all failures, in order.
///
/// # Errors
/// A map that cannot be: then nothing of these submissions was run.
pub(super) fn run(
    slots: &Slots,
    runtime: &Runtime,
    watch: Option<&Watch>,
    beside: bool,
    first: usize,
    failures: Vec<LaunchError>,
) -> Result<Vec<LaunchError>, Error> {
    let nodes = slots.nodes();
    let mut checked = Vec::new();
    for (position, node) in nodes.iter().enumerate().skip(first) {
        checked.extend(place::check(slots, node)?.map(|parts| (position, parts)));
    }
    let mut walk = Walk::new(slots, runtime, watch, beside);
    let mut issue = |position: usize| {
        let parts = checked.binary_search_by_key(&position, |(at, _)| *at);
        walk.issue(position, &nodes[position], parts.ok().map(|at| checked[at].1.clone()));
    };
    match reorder::reordered(slots, runtime, first) {
        None => (first..nodes.len()).for_each(issue),
        Some(order) => order.into_iter().for_each(&mut issue),
    }
    let mut failures = walk.finish(failures);
    failures.sort_by_key(|failure| failure.position);
    Ok(failures)
}
