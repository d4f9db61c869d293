//! Submissions that move elements: copies between arrays, prefetches to devices, evictions from them.
//!
//! Each is a submission of a kernel that has a name and no implementation. So it is ordered, recorded,
//! replayed, poisoned and reported as every other submission, and only where a submission would go to a
//! device the runtime does the work itself: in place on the inline path, and in a lane of copies on the
//! distributed path (`distributed/scheduler/movement.rs`).
//!
//! Invariant: [`check`] accepted the arguments before anything runs, whether the program or a file made them.
//! So a box lies in its argument, and no two elements of a copy have one destination.

use crate::memory::ArrayInner;
use crate::memory::region::{GridBox, Lattice};
use flash_backend::host_memory::copy_addresses;
use flash_types::abi::{self, Arg, CopyBox};
use flash_types::descriptor::{Access, ArgumentDescriptor, Attributes, ElementType, KernelDescriptor, View};

/// The kinds of such submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    /// Arguments: source, destination, [`CopyShape`].
    Copy,
    /// Arguments: the array, the number of the device among the runtime's, as a `u32`.
    Prefetch,
    /// As `Prefetch`.
    Evict,
}

/// The boxes of a copy, in elements of its arguments: extent, then first element and strides of the source,
/// then those of the destination. The first axis is contiguous.
pub(super) type CopyShape = [u64; 9];

/// One side of a copy.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub first: u64,
    pub stride: [u64; 2],
}

impl Movement {
    const ALL: [Movement; 3] = [Movement::Copy, Movement::Prefetch, Movement::Evict];

    pub fn name(self) -> &'static str {
        match self {
            Movement::Copy => "flash.copy",
            Movement::Prefetch => "flash.prefetch",
            Movement::Evict => "flash.evict",
        }
    }

    /// The one of a kernel name.
    pub fn named(name: &str) -> Option<Movement> {
        Movement::ALL.into_iter().find(|movement| movement.name() == name)
    }

    /// Its descriptor. `covers`: a copy writes all of its destination.
    pub fn descriptor(self, element: &ElementType, covers: bool) -> KernelDescriptor {
        let array = |name: &str, access| argument(name, View::Whole, access, element.clone());
        let scalar = |name: &str, element| argument(name, View::Scalar, Access::Read, element);
        let written = if covers { Access::Write } else { Access::ReadWrite };
        let arguments = match self {
            Movement::Copy => vec![
                array("from", Access::Read),
                array("to", written),
                scalar("shape", ElementType::of::<CopyShape>()),
            ],
            Movement::Prefetch | Movement::Evict => {
                vec![array("of", Access::Read), scalar("device", ElementType::of::<u32>())]
            }
        };
        KernelDescriptor {
            name: self.name().into(),
            dimensions: vec!["call".into()],
            arguments,
            attributes: Attributes::default(),
        }
    }

    /// True if a descriptor, which may be from a file, is one of its own.
    pub fn describes(self, descriptor: &KernelDescriptor) -> bool {
        let Some(first) = descriptor.arguments.first() else { return false };
        [true, false].into_iter().any(|covers| {
            let own = self.descriptor(&first.element, covers);
            own.dimensions == descriptor.dimensions && own.arguments == descriptor.arguments
        })
    }
}

fn argument(name: &str, view: View, access: Access, element: ElementType) -> ArgumentDescriptor {
    ArgumentDescriptor {
        name: name.into(),
        view,
        access,
        element,
        row: false,
        along: Vec::new(),
        stages: None,
        tile: Vec::new(),
        rows: None,
        structure: false,
        reduce: None,
    }
}

/// A shape in parts: extent, source, destination.
pub(super) fn parts_of(shape: &CopyShape) -> ([u64; 3], Side, Side) {
    let [x, y, z, from, from_row, from_plane, to, to_row, to_plane] = *shape;
    let side = |first, row, plane| Side { first, stride: [row, plane] };
    ([x, y, z], side(from, from_row, from_plane), side(to, to_row, to_plane))
}

/// The shape argument of a copy.
pub(super) fn shape_of(args: &[Arg]) -> CopyShape {
    // SAFETY: a scalar of this type, of which every pattern is a value; it lies in the recording's arena.
    unsafe { args[2].data.cast::<CopyShape>().read_unaligned() }
}

/// The device of a prefetch or an eviction, by its number among the runtime's.
pub(super) fn device_of(args: &[Arg]) -> usize {
    // SAFETY: as in `shape_of`.
    unsafe { args[1].data.cast::<u32>().read_unaligned() as usize }
}

/// Some elements of an argument.
pub(super) struct StridedBox {
    pub block: GridBox,
    /// Elements from neighbour to neighbour along each axis.
    pub strides: [u64; 3],
    /// The element at index 0, counted in the argument.
    pub first: u64,
}

impl StridedBox {
    /// The same, as elements of the memory that an argument is of; see [`Lattice::of`].
    pub fn in_memory(&self, memory: &ArrayInner, arg: &Arg) -> Option<Lattice> {
        let bytes = (arg.data.addr() - memory.data().addr()) as u64;
        let offset = bytes.checked_div(memory.element_size()).unwrap_or(0);
        Lattice::of(&self.block, &self.strides, offset + self.first, &memory.grid())
    }
}

/// The elements of an argument of a copy that are copied; `None`: it is no copy.
pub(super) fn elements(movement: Movement, args: &[Arg], argument: usize) -> Option<StridedBox> {
    if movement != Movement::Copy {
        return None;
    }
    let (end, from, to) = parts_of(&shape_of(args));
    let Side { first, stride: [row, plane] } = if argument == 0 { from } else { to };
    Some(StridedBox { block: GridBox { begin: [0; 3], end }, strides: [1, row, plane], first })
}

impl Side {
    /// The element behind the last of a box with elements; `None` if that is no number.
    fn end(&self, extent: [u64; 3]) -> Option<u64> {
        let along = |axis: usize| (extent[axis] - 1).checked_mul(self.stride[axis - 1]);
        self.first.checked_add(extent[0])?.checked_add(along(1)?)?.checked_add(along(2)?)
    }

    /// No two places of a box are the same element.
    fn is_apart(&self, extent: [u64; 3]) -> bool {
        let row = if extent[1] > 1 { self.stride[0] } else { extent[0] };
        let plane = row.saturating_mul(extent[1] - 1).saturating_add(extent[0]);
        row >= extent[0] && (extent[2] == 1 || self.stride[1] >= plane)
    }
}

/// True if the box of a copy has no element.
pub(super) fn is_empty(extent: [u64; 3]) -> bool {
    extent.contains(&0)
}

/// Proves the arguments of a submission. `devices`: the number that the runtime has. `Err`: the argument, and
/// what is wrong with it.
pub(super) fn check(movement: Movement, args: &[Arg], devices: usize) -> Result<(), (usize, String)> {
    if movement != Movement::Copy {
        let device = device_of(args);
        return match device < devices {
            true => Ok(()),
            false => {
                Err((1, format!("expected one of the runtime's {devices} devices, found number {device}")))
            }
        };
    }
    let (extent, from, to) = parts_of(&shape_of(args));
    if is_empty(extent) {
        return Ok(());
    }
    for (i, side) in [(0, from), (1, to)] {
        if side.end(extent).is_none_or(|end| end > args[i].len) {
            let text = format!(
                "expected a box inside its {} elements, found one of {extent:?} elements with strides {:?} from element {} on",
                args[i].len, side.stride, side.first
            );
            return Err((i, text));
        }
    }
    if !to.is_apart(extent) {
        return Err((1, "expected a box whose rows lie apart, found two places that are one element".into()));
    }
    if args[1].access == abi::ACCESS_WRITE && extent.iter().product::<u64>() != args[1].len {
        return Err((1, "expected a copy that covers all of it, found a smaller one".into()));
    }
    Ok(())
}

/// The boxes of a copy in bytes, with the first element of each argument at these offsets of its buffer, in
/// elements and modulo 2^64.
pub(super) fn bytes_of(shape: &CopyShape, size: u64, [from_offset, to_offset]: [u64; 2]) -> CopyBox {
    let ([x, y, z], from, to) = parts_of(shape);
    CopyBox {
        extent: [x * size, y, z],
        source_offset: from.first.wrapping_add(from_offset).wrapping_mul(size),
        source_stride: from.stride.map(|stride| stride.wrapping_mul(size)),
        destination_offset: to.first.wrapping_add(to_offset).wrapping_mul(size),
        destination_stride: to.stride.map(|stride| stride.wrapping_mul(size)),
    }
}

/// Does it where all arguments are in the host's memory.
///
/// # Safety
/// The arguments were [checked](check), and their arrays are held.
pub(super) unsafe fn on_host(movement: Movement, args: &[Arg]) {
    if movement != Movement::Copy {
        return;
    }
    let shape = shape_of(args);
    if is_empty(parts_of(&shape).0) {
        return;
    }
    let bytes = bytes_of(&shape, u64::from(args[0].element_size), [0, 0]);
    let [from, to] = [0, 1].map(|i| args[i].data.expose_provenance() as u64);
    // SAFETY: the boxes lie in their arguments, as `check` proved; these do not overlap.
    unsafe { copy_addresses(from, to, &bytes) };
}
