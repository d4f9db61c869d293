//! What an array argument was: a memory, a range of it, in a shape of its own. A pointer here is compared,
//! and followed only while the memory is known to be alive.

use crate::kernel::views::Array;
use crate::memory::{ArrayInner, ArrayLayout, ViewShape};
use crate::runtime::movement::StridedBox;
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

    /// The elements of an argument, a view with gaps or not.
    pub fn elements(&self, arg: &Arg) -> StridedBox {
        let length = [arg.len];
        let layout = if self.seen.is_none() { ArrayLayout::of(&length) } else { self.seen.layout() };
        let seen = LaunchGrid::of_layout(&layout);
        StridedBox { block: seen.all().block(), strides: seen.strides, first: 0 }
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
