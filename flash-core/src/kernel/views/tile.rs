//! [`Block`](super::Block) and [`Tile`](super::Tile): several elements that a work item owns.
//!
//! Before a launch it was proved that no two items have the same index values along an argument that is
//! written. So their tiles are apart, and a tile is all of a work item's that lies in the array: the part
//! says where that ends. Where a launch is cut, its parts have whole tiles.

use super::{Block, ItemAccess, Read, ReadWrite, Tile, Write};
use crate::kernel::Element;
use flash_types::abi::{self, Part};
use std::marker::PhantomData;

/// What there is of a tile, and of those behind it in a run.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Clip {
    /// Elements from the first item's first to the end of the part, along two axes.
    left: [usize; 2],
    /// How many fewer the next item of a run has.
    less: [usize; 2],
    /// Elements from row to row.
    pitch: usize,
}

impl Clip {
    /// # Safety
    /// `part` lives, and the index is one of the launch's.
    #[inline(always)]
    unsafe fn new<const N: usize>(
        part: *const Part,
        index: &[usize],
        along: &[usize],
        tile: [usize; N],
    ) -> Clip {
        // SAFETY: the caller vouches.
        let part = unsafe { &*part };
        let mut clip = Clip { left: [1; 2], less: [0; 2], pitch: part.stride[0] as usize };
        for (axis, own) in tile.into_iter().enumerate() {
            clip.left[axis] = part.end[axis] as usize - index[along[axis]] * own;
            clip.less[axis] = if along[axis] == 0 { own } else { 0 };
        }
        clip
    }

    /// Elements of item `i` of the run along an axis.
    #[inline(always)]
    fn len(&self, axis: usize, own: usize, i: usize) -> usize {
        own.min(self.left[axis] - i * self.less[axis])
    }
}

/// The tile of a work item, only read.
#[derive(Clone, Copy)]
pub struct TileView<'k, T> {
    at: *const T,
    extents: [usize; 2],
    pitch: usize,
    borrow: PhantomData<&'k [T]>,
}

/// The tile of a work item.
pub struct TileViewMut<'k, T> {
    at: *mut T,
    extents: [usize; 2],
    pitch: usize,
    borrow: PhantomData<&'k mut [T]>,
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside(y: usize, rows: usize) -> ! {
    panic!("row {y} of a tile of {rows}")
}

macro_rules! extents {
    () => {
        /// Elements along axis 0 of the array.
        #[inline]
        pub fn columns(&self) -> usize {
            self.extents[0]
        }

        /// Elements along axis 1.
        #[inline]
        pub fn rows(&self) -> usize {
            self.extents[1]
        }
    };
}

impl<'k, T> TileView<'k, T> {
    extents!();

    /// The elements of row `y`. Panics if there is no such row.
    #[inline]
    #[track_caller]
    pub fn row(&self, y: usize) -> &'k [T] {
        if y >= self.extents[1] {
            outside(y, self.extents[1]);
        }
        // SAFETY: the row lies in the tile, which lives and is not written.
        unsafe { std::slice::from_raw_parts(self.at.add(y * self.pitch), self.extents[0]) }
    }
}

impl<T> TileViewMut<'_, T> {
    extents!();

    /// The elements of row `y`. Panics if there is no such row.
    #[inline]
    #[track_caller]
    pub fn row(&self, y: usize) -> &[T] {
        if y >= self.extents[1] {
            outside(y, self.extents[1]);
        }
        // SAFETY: the row lies in the tile, which has no other user, and the result borrows it.
        unsafe { std::slice::from_raw_parts(self.at.add(y * self.pitch), self.extents[0]) }
    }

    /// The elements of row `y`, to write. Panics if there is no such row.
    #[inline]
    #[track_caller]
    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        if y >= self.extents[1] {
            outside(y, self.extents[1]);
        }
        // SAFETY: as above, and the result borrows it alone.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(y * self.pitch), self.extents[0]) }
    }
}

/// Blocks or tiles of a run of work items.
pub struct TileSpan<'k, A: ItemAccess> {
    at: *mut A::Element,
    step: usize,
    clip: Clip,
    len: usize,
    borrow: PhantomData<&'k mut [A::Element]>,
}

#[allow(clippy::len_without_is_empty)] // a run is never empty
impl<A: ItemAccess<Clip = Clip>> TileSpan<'_, A> {
    /// Number of work items in the run.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// That of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn tile(&mut self, i: usize) -> A::Item<'_> {
        assert!(i < self.len, "item {i} of a run of {}", self.len);
        // SAFETY: the run has that item; its elements have no other user, and the result borrows the run.
        unsafe { self.nth(i) }
    }

    /// # Safety
    /// The run has more than `i` items; item `i` has no other user while the result lives.
    #[inline(always)]
    unsafe fn nth<'k>(&self, i: usize) -> A::Item<'k> {
        // SAFETY: the caller vouches.
        unsafe { A::item(self.at.add(i * self.step), 0, (self.clip, i)) }
    }
}

const fn above_zero(extent: usize) -> u64 {
    assert!(extent > 0, "a block or tile has elements: write an extent above 0");
    extent as u64
}

macro_rules! access {
    ($access:ident, $code:expr, $slice:ty, $from_raw:ident, $view:ident) => {
        access! { $access $code, [const N: usize], Block<T, N>, [N], $slice, $slice, $from_raw,
            |at, clip, i| std::slice::$from_raw(at, clip.len(0, N, i)) }
        access! { $access $code, [const X: usize, const Y: usize], Tile<T, X, Y>, [X, Y], $view<'k, T>, $slice, $from_raw,
            |at, clip, i| $view {
                at,
                extents: [clip.len(0, X, i), clip.len(1, Y, i)],
                pitch: clip.pitch,
                borrow: PhantomData,
            } }
    };
    ($access:ident $code:expr, [$($g:tt)*], $tile:ty, [$($extent:ident),*], $item:ty, $slice:ty, $from_raw:ident,
        |$at:ident, $clip:ident, $i:ident| $make:expr) => {
        impl<T: Element, $($g)*> ItemAccess for $access<$tile> {
            type Element = T;
            const ACCESS: u32 = $code;
            const ROW: bool = false;
            const TILE: &'static [u64] = &[$(above_zero($extent)),*];
            type Clip = Clip;
            type Item<'k> = $item;
            type Slice<'k> = TileSpan<'k, Self>;
            type Strided<'k> = TileSpan<'k, Self>;
            type Whole<'k> = $slice;
            #[inline(always)]
            unsafe fn clip(part: *const Part, index: &[usize], along: &[usize]) -> Clip {
                // SAFETY: the caller vouches.
                unsafe { Clip::new(part, index, along, [$($extent),*]) }
            }
            #[inline(always)]
            #[allow(unused_unsafe)]
            unsafe fn item<'k>($at: *mut T, _: usize, ($clip, $i): (Clip, usize)) -> Self::Item<'k> {
                // SAFETY: the caller vouches for the elements.
                unsafe { $make }
            }
            #[inline(always)]
            unsafe fn slice<'k>(at: *mut T, own: usize, (clip, len): (Clip, usize)) -> Self::Slice<'k> {
                TileSpan { at, step: own, clip, len, borrow: PhantomData }
            }
            #[inline(always)]
            unsafe fn nth<'k>(slice: &mut Self::Slice<'_>, i: usize) -> Self::Item<'k> {
                // SAFETY: the caller vouches.
                unsafe { slice.nth(i) }
            }
            #[inline(always)]
            unsafe fn strided<'k>(
                at: *mut T,
                _: usize,
                step: usize,
                (clip, len): (Clip, usize),
            ) -> Self::Strided<'k> {
                TileSpan { at, step, clip, len, borrow: PhantomData }
            }
            #[inline(always)]
            unsafe fn whole<'k>(at: *mut T, len: usize) -> Self::Whole<'k> {
                // SAFETY: the caller vouches for the array.
                unsafe { std::slice::$from_raw(at, len) }
            }
        }
    };
}

access!(Read, abi::ACCESS_READ, &'k [T], from_raw_parts, TileView);
access!(ReadWrite, abi::ACCESS_READ_WRITE, &'k mut [T], from_raw_parts_mut, TileViewMut);
access!(Write, abi::ACCESS_WRITE, &'k mut [T], from_raw_parts_mut, TileViewMut);
