//! What an array argument was: a memory, a range of it, in a shape of its own. A pointer here is compared,
//! and followed only while the memory is known to be alive.

use crate::kernel::views::Array;
use crate::memory::region::{GridBox, Lattice};
use crate::memory::{ArrayInner, ArrayLayout, ViewShape};
use crate::runtime::partition::LaunchGrid;
use flash_types::abi::Arg;

/// The origin of an array argument.
#[derive(Clone, Copy)]
// What the next recording is compared with lies in half a cache line, without the extents of the view.
#[repr(C)]
pub(super) struct Source {
    /// NULL: a slice of the host, or a scalar.
    pub memory: *const ArrayInner,
    /// Number of the memory.
    pub id: u64,
    /// A range of it.
    pub part: bool,
    /// The shape of a view of it.
    pub seen: ViewShape,
}

/// An argument of the last recording.
pub(crate) struct Recorded<'s> {
    pub(super) arg: &'s Arg,
    pub(super) source: &'s Source,
}

impl Recorded<'_> {
    /// True if it is all of this memory.
    #[inline(always)]
    pub fn is(&self, memory: &ArrayInner) -> bool {
        let Source { memory: known, id, part, ref seen } = *self.source;
        std::ptr::eq(known, memory) && id == memory.id() && !part && seen.is_none()
    }

    /// Writes other bytes of a scalar.
    ///
    /// # Safety
    /// It is a scalar of as many bytes.
    #[inline(always)]
    pub unsafe fn set(&self, bytes: &[u8]) {
        // SAFETY: the arena has that much room at the scalar's address, and the pointer is the arena's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.arg.data.cast(), bytes.len()) }
    }
}

impl Source {
    pub const BLANK: Source = Source { memory: std::ptr::null(), id: 0, part: false, seen: ViewShape::NONE };

    /// True if an array argument is the same. `id`: the number of its memory. Field by field: nothing is
    /// copied for the comparison.
    #[inline(always)]
    pub fn is(&self, array: &Array<'_>, id: u64) -> bool {
        std::ptr::eq(self.memory, array.memory)
            && self.id == id
            && self.part == array.part
            && self.seen == array.seen
    }

    /// True if an argument and another one, of the same memory, have no element in common, although there
    /// are elements between first and last of both: views with gaps, or `boxes` of both arguments, with the
    /// strides of their axes and first elements.
    ///
    /// # Safety
    /// The memories are alive.
    #[cold]
    pub unsafe fn is_apart(
        &self,
        arg: &Arg,
        (other, other_arg): (&Source, &Arg),
        boxes: Option<[(GridBox, [u64; 3], u64); 2]>,
    ) -> bool {
        // SAFETY: the caller vouches.
        let Some(memory) = (unsafe { self.memory.as_ref() }) else { return false };
        let has_gaps = boxes.is_some() || self.seen.has_gaps() || other.seen.has_gaps();
        if !std::ptr::eq(self.memory, other.memory) || !has_gaps {
            return false;
        }
        let grid = memory.grid();
        let of = |source: &Source, arg: &Arg, box_of_it: Option<(GridBox, [u64; 3], u64)>| {
            let bytes = (arg.data.addr() - memory.data().addr()) as u64;
            let offset = bytes.checked_div(memory.element_size()).unwrap_or(0);
            if let Some((block, strides, first)) = box_of_it {
                return Lattice::of(&block, &strides, offset + first, &grid);
            }
            let length = [arg.len];
            let layout = match source.seen.is_none() {
                true => ArrayLayout::of(&length),
                false => source.seen.layout(),
            };
            let seen = LaunchGrid::of_layout(&layout);
            Lattice::of(&seen.all().block(), &seen.strides, offset, &grid)
        };
        let [own, others] = boxes.map_or([None; 2], |boxes| boxes.map(Some));
        match (of(self, arg, own), of(other, other_arg, others)) {
            (Some(own), Some(other)) => own.is_apart(&other),
            _ => false,
        }
    }

    /// The memory, if the argument is all of it.
    ///
    /// # Safety
    /// The memory is alive.
    #[inline]
    pub unsafe fn whole(&self) -> Option<&ArrayInner> {
        // SAFETY: the caller vouches.
        unsafe { self.memory.as_ref() }.filter(|_| !self.part)
    }

    /// The shape that a launch sees, without `sizes(..)`: a view's own, else that of the memory if the
    /// argument is all of it, else none.
    ///
    /// # Safety
    /// The memory is alive.
    #[inline]
    pub unsafe fn layout(&self) -> ArrayLayout<'_> {
        if !self.seen.is_none() {
            return self.seen.layout();
        }
        // SAFETY: the caller vouches.
        ArrayLayout::of(unsafe { self.whole() }.map_or(&[], ArrayInner::shape))
    }
}
