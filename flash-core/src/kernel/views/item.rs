//! [`Item`](super::Item): a work item's own element or row.
//!
//! Indices are not checked here. Before the launch it was proved (`runtime/proof.rs`) that the element of
//! each item lies inside the array and, where it is written, is no other item's of the phase. So all that
//! makes a view is `unsafe` and for the doors' shims; what is safe checks the number of an item in its
//! run.
//!
//! There are three steps: an [`ItemBound`] for a share, an [`ItemRun`] for items along dimension 0, and
//! then the element, slice or row that the kernel gets. `CLASS` says at compile time how far the elements
//! of a run are apart. The address of element 0 need not lie in the buffer, where a device has only a part
//! of the array.

use super::part::{check_all, reach, span};
use super::{FIXED, Read, ReadWrite, Row, UNIT, Write};
use crate::kernel::Element;
use flash_types::abi;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// `Read`, `ReadWrite` or `Write` of an element, a [`Row`], or a [`Block`](super::Block) or
/// [`Tile`](super::Tile): the types in the doors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an access",
    label = "write `Item<'a, Read<T>>`, `Item<'a, ReadWrite<T>>` or `Item<'a, Write<T>>`, with `Row<T>` for rows"
)]
pub trait ItemAccess {
    /// Type of one element.
    type Element: Element;
    /// `ACCESS_*`.
    const ACCESS: u32;
    /// True for rows.
    const ROW: bool;
    /// Elements that an item owns along the first axes: of blocks and tiles.
    const TILE: &'static [u64] = &[];
    /// What an item of a block or tile has beside its address.
    #[doc(hidden)]
    type Clip: Copy;
    /// One element or row.
    type Item<'k>;
    /// Consecutive elements or rows.
    type Slice<'k>;
    /// Elements or rows at equal distances.
    type Strided<'k>;
    /// The whole array, or a part of it.
    type Whole<'k>;
    /// What the item of an index has beside its address, in an array of which this part is present.
    ///
    /// # Safety
    /// `part` lives, if the access is of blocks or tiles, and the index is one of the launch's.
    #[doc(hidden)]
    unsafe fn clip(part: *const abi::Part, index: &[usize], along: &[usize]) -> Self::Clip;
    /// # Safety
    /// The element (or row of `row_len`, or block or tile, as far as the clip says of item `i` of a run) at
    /// `at` lives for `'k` and, if written, has no other user.
    #[doc(hidden)]
    unsafe fn item<'k>(at: *mut Self::Element, row_len: usize, of: (Self::Clip, usize)) -> Self::Item<'k>;
    /// # Safety
    /// As `item`, for `len` consecutive ones.
    #[doc(hidden)]
    unsafe fn slice<'k>(at: *mut Self::Element, row_len: usize, of: (Self::Clip, usize)) -> Self::Slice<'k>;
    /// # Safety
    /// The slice has more than `i` ones; item `i` has no other user while the result lives.
    #[doc(hidden)]
    unsafe fn nth<'k>(slice: &mut Self::Slice<'_>, i: usize) -> Self::Item<'k>;
    /// # Safety
    /// As `item`, for `len` ones at a distance of `step` elements.
    #[doc(hidden)]
    unsafe fn strided<'k>(
        at: *mut Self::Element,
        row_len: usize,
        step: usize,
        of: (Self::Clip, usize),
    ) -> Self::Strided<'k>;
    /// # Safety
    /// The array of `len` elements at `at` lives for `'k` and, if written, has no other user.
    #[doc(hidden)]
    unsafe fn whole<'k>(at: *mut Self::Element, len: usize) -> Self::Whole<'k>;
}

/// The own element of a [`Write`] argument.
pub struct Out<'k, T>(&'k Cell<T>);

impl<T> Out<'_, T> {
    /// Writes it. A shared reference is enough, so that one of a group is set without taking it out of its
    /// array: `k.to[q].set(x)`.
    #[inline(always)]
    pub fn set(&self, value: T) {
        self.0.set(value);
    }
}

/// Elements at equal distances, read only.
#[derive(Clone, Copy)]
pub struct Strided<'k, T> {
    at: *const T,
    step: usize,
    len: usize,
    borrow: PhantomData<&'k [T]>,
}

/// Elements at equal distances.
pub struct StridedMut<'k, T> {
    at: *mut T,
    step: usize,
    len: usize,
    borrow: PhantomData<&'k mut [T]>,
}

/// Rows at equal distances, read only.
#[derive(Clone, Copy)]
pub struct Rows<'k, T> {
    at: *const T,
    row_len: usize,
    step: usize,
    len: usize,
    borrow: PhantomData<&'k [T]>,
}

/// Rows at equal distances.
pub struct RowsMut<'k, T> {
    at: *mut T,
    row_len: usize,
    step: usize,
    len: usize,
    borrow: PhantomData<&'k mut [T]>,
}

#[cold]
#[track_caller]
fn outside(i: usize, len: usize) -> ! {
    panic!("item {i} of a run of {len}")
}

macro_rules! lengths {
    ($($t:ident)*) => {$(
        #[allow(clippy::len_without_is_empty)] // a run is never empty
        impl<T> $t<'_, T> {
            /// Number of work items in the run.
            #[inline]
            pub fn len(&self) -> usize {
                self.len
            }
        }
    )*};
}
lengths! { Strided StridedMut Rows RowsMut }

impl<T: Copy> Strided<'_, T> {
    /// The element of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> T {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: there are `len` elements at distance `step`.
        unsafe { *self.at.add(i * self.step) }
    }
}

impl<T: Copy> StridedMut<'_, T> {
    /// The element of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn get(&self, i: usize) -> T {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: there are `len` elements at distance `step`.
        unsafe { *self.at.add(i * self.step) }
    }

    /// Writes the element of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn set(&mut self, i: usize, value: T) {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: there are `len` elements at distance `step`, without another user.
        unsafe { *self.at.add(i * self.step) = value }
    }
}

impl<'k, T> Rows<'k, T> {
    /// The row of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn row(&self, i: usize) -> &'k [T] {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: there are `len` rows of `row_len` elements at distance `step`.
        unsafe { std::slice::from_raw_parts(self.at.add(i * self.step), self.row_len) }
    }
}

impl<T> RowsMut<'_, T> {
    /// The row of item `i` of the run. Panics if there is no such item.
    #[inline]
    #[track_caller]
    pub fn row(&mut self, i: usize) -> &mut [T] {
        if i >= self.len {
            outside(i, self.len);
        }
        // SAFETY: there are `len` rows of `row_len` elements at distance `step`, without another user, and
        // the result borrows `self`.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(i * self.step), self.row_len) }
    }
}

macro_rules! access {
    ($access:ident, $code:expr, $ref:ty, $make:ident, $slice:ty, $address:ident, $from_raw:ident, $strided:ident, $rows:ident) => {
        impl<T: Element> ItemAccess for $access<T> {
            type Element = T;
            const ACCESS: u32 = $code;
            const ROW: bool = false;
            type Clip = ();
            type Item<'k> = $ref;
            type Slice<'k> = $slice;
            type Strided<'k> = $strided<'k, T>;
            type Whole<'k> = $slice;
            #[inline(always)]
            unsafe fn clip(_: *const abi::Part, _: &[usize], _: &[usize]) {}
            #[inline(always)]
            unsafe fn item<'k>(at: *mut T, _row_len: usize, _: ((), usize)) -> Self::Item<'k> {
                // SAFETY: the caller vouches for the element.
                unsafe { $make(at) }
            }
            #[inline(always)]
            unsafe fn slice<'k>(at: *mut T, _row_len: usize, (_, len): ((), usize)) -> Self::Slice<'k> {
                // SAFETY: the caller vouches for the elements.
                unsafe { std::slice::$from_raw(at, len) }
            }
            #[inline(always)]
            unsafe fn nth<'k>(slice: &mut Self::Slice<'_>, i: usize) -> Self::Item<'k> {
                // SAFETY: the caller vouches for the element.
                unsafe { $make(slice.$address().add(i) as *mut T) }
            }
            #[inline(always)]
            unsafe fn strided<'k>(
                at: *mut T,
                _row_len: usize,
                step: usize,
                (_, len): ((), usize),
            ) -> Self::Strided<'k> {
                $strided { at, step, len, borrow: PhantomData }
            }
            #[inline(always)]
            unsafe fn whole<'k>(at: *mut T, len: usize) -> Self::Whole<'k> {
                // SAFETY: the caller vouches for the array.
                unsafe { std::slice::$from_raw(at, len) }
            }
        }

        impl<T: Element> ItemAccess for $access<Row<T>> {
            type Element = T;
            const ACCESS: u32 = $code;
            const ROW: bool = true;
            type Clip = ();
            type Item<'k> = $slice;
            type Slice<'k> = $rows<'k, T>;
            type Strided<'k> = $rows<'k, T>;
            type Whole<'k> = $slice;
            #[inline(always)]
            unsafe fn clip(_: *const abi::Part, _: &[usize], _: &[usize]) {}
            #[inline(always)]
            unsafe fn item<'k>(at: *mut T, row_len: usize, _: ((), usize)) -> Self::Item<'k> {
                // SAFETY: the caller vouches for the row.
                unsafe { std::slice::$from_raw(at, row_len) }
            }
            #[inline(always)]
            unsafe fn slice<'k>(at: *mut T, row_len: usize, (_, len): ((), usize)) -> Self::Slice<'k> {
                $rows { at, row_len, step: row_len, len, borrow: PhantomData }
            }
            #[inline(always)]
            unsafe fn nth<'k>(slice: &mut Self::Slice<'_>, i: usize) -> Self::Item<'k> {
                // SAFETY: the caller vouches for the row.
                unsafe { std::slice::$from_raw(slice.at.add(i * slice.step), slice.row_len) }
            }
            #[inline(always)]
            unsafe fn strided<'k>(
                at: *mut T,
                row_len: usize,
                step: usize,
                (_, len): ((), usize),
            ) -> Self::Strided<'k> {
                $rows { at, row_len, step, len, borrow: PhantomData }
            }
            #[inline(always)]
            unsafe fn whole<'k>(at: *mut T, len: usize) -> Self::Whole<'k> {
                // SAFETY: the caller vouches for the array.
                unsafe { std::slice::$from_raw(at, len) }
            }
        }
    };
}

/// # Safety
/// The element lives for `'k` and is not written.
#[inline(always)]
unsafe fn shared<'k, T>(at: *mut T) -> &'k T {
    // SAFETY: the caller vouches.
    unsafe { &*at }
}

/// # Safety
/// The element lives for `'k` and has no other user.
#[inline(always)]
unsafe fn exclusive<'k, T>(at: *mut T) -> &'k mut T {
    // SAFETY: the caller vouches.
    unsafe { &mut *at }
}

/// # Safety
/// The element lives for `'k` and has no other user.
#[inline(always)]
unsafe fn out<'k, T>(at: *mut T) -> Out<'k, T> {
    // SAFETY: the caller vouches.
    Out(Cell::from_mut(unsafe { &mut *at }))
}

access!(Read, abi::ACCESS_READ, &'k T, shared, &'k [T], as_ptr, from_raw_parts, Strided, Rows);
access!(
    ReadWrite,
    abi::ACCESS_READ_WRITE,
    &'k mut T,
    exclusive,
    &'k mut [T],
    as_mut_ptr,
    from_raw_parts_mut,
    StridedMut,
    RowsMut
);
access!(
    Write,
    abi::ACCESS_WRITE,
    Out<'k, T>,
    out,
    &'k mut [T],
    as_mut_ptr,
    from_raw_parts_mut,
    StridedMut,
    RowsMut
);

/// Address and strides of an `Item` for one share.
#[doc(hidden)]
pub struct ItemBound<A: ItemAccess> {
    data: *mut A::Element,
    len: usize,
    row_len: usize,
    strides: *const u64,
    /// NULL: all of the array is present.
    part: *const abi::Part,
}

/// Address of the first item of a run.
#[doc(hidden)]
pub struct ItemRun<A: ItemAccess> {
    at: *mut A::Element,
    row_len: usize,
    step: usize,
    clip: A::Clip,
}

impl<A: ItemAccess> Clone for ItemBound<A> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: ItemAccess> Copy for ItemBound<A> {}
impl<A: ItemAccess> Clone for ItemRun<A> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: ItemAccess> Copy for ItemRun<A> {}

impl<A: ItemAccess> ItemBound<A> {
    /// # Safety
    /// `arg` is an item argument of these elements, with a stride per dimension.
    #[inline(always)]
    pub unsafe fn new(arg: &abi::Arg) -> Self {
        debug_assert_eq!(arg.element_size as usize, size_of::<A::Element>());
        ItemBound {
            data: arg.data.cast(),
            len: arg.len as usize,
            row_len: match A::TILE {
                [own, ..] => *own as usize,
                [] if A::ROW => arg.row_len as usize,
                [] => 1,
            },
            strides: arg.strides,
            part: arg.part,
        }
    }

    /// Whether the elements, rows or blocks of items with neighbouring values of dimension 0 are adjacent,
    /// where the code for runs takes that for granted. Otherwise its runs have to be of one item.
    #[inline(always)]
    pub fn is_adjacent<const CLASS: u8>(&self) -> bool {
        // SAFETY: there is a stride for every dimension, and of this class is an array along dimension 0.
        CLASS != UNIT || unsafe { *self.strides } == self.row_len as u64
    }

    /// # Safety
    /// `index` is the index of a work item of the launch, `along` lists dimensions.
    #[inline(always)]
    pub unsafe fn run<const CLASS: u8>(&self, index: &[usize], along: &[usize]) -> ItemRun<A> {
        let mut offset = 0;
        for &dimension in along {
            // SAFETY: there is a stride for every dimension.
            offset += index[dimension] * unsafe { *self.strides.add(dimension) as usize };
        }
        let step = match CLASS {
            UNIT => self.row_len,
            FIXED => 0,
            // SAFETY: there is a stride for every dimension.
            _ => unsafe { *self.strides as usize },
        };
        // The launch was proved: the element of this index lies inside the array, and in its part. But
        // `data`, the address of element 0, need not lie in the buffer.
        // SAFETY: the caller vouches; an array in blocks or tiles has a part.
        let clip = unsafe { A::clip(self.part, index, along) };
        ItemRun { at: self.data.wrapping_add(offset), row_len: self.row_len, step, clip }
    }

    /// # Safety
    /// Nothing else of the launch runs; or, with `values` (those of each dimension, all of which index
    /// elements of the array), nothing that touches an element between the first and the last that they name.
    #[inline]
    pub unsafe fn whole<'k>(&self, values: Option<&[Range<u64>]>) -> A::Whole<'k> {
        let Some(values) = values else {
            if !self.part.is_null() {
                // SAFETY: a part lives as long as the launch.
                unsafe { check_all(self.part, self.len, "a `whole` implementation") };
            }
            // SAFETY: the array belongs to this launch, and nothing else of it runs; all of the array is
            // present.
            return unsafe { A::whole(self.data, self.len) };
        };
        let own = match A::TILE {
            // SAFETY: there is a stride for every dimension.
            [] => unsafe { reach(values, self.strides, self.row_len) },
            // SAFETY: an array in blocks or tiles has a part: that of the values, where there are others.
            _ => span(unsafe { &*self.part }),
        };
        // SAFETY: first and last lie inside the array, and in its part if there are others, as do those
        // between; they have no other user. `data`, the address of element 0, need not lie in the buffer.
        unsafe { A::whole(self.data.wrapping_add(own.start), own.len()) }
    }
}

impl<A: ItemAccess> ItemRun<A> {
    #[inline(always)]
    fn step<const CLASS: u8>(&self) -> usize {
        match CLASS {
            FIXED => 0,
            UNIT if !A::ROW && A::TILE.is_empty() => 1,
            _ => self.step,
        }
    }

    /// # Safety
    /// The run has more than `i` items; their elements, if written, have no other user.
    #[inline(always)]
    pub unsafe fn item<'k, const CLASS: u8>(&self, i: usize) -> A::Item<'k> {
        // SAFETY: the element of item `i` lies inside the array.
        unsafe { A::item(self.at.add(i * self.step::<CLASS>()), self.row_len, (self.clip, i)) }
    }

    /// # Safety
    /// The run has `len` items along dimension 0, which is axis 0; their elements, if written, have no other
    /// user.
    #[inline(always)]
    pub unsafe fn slice<'k>(&self, len: usize) -> A::Slice<'k> {
        // SAFETY: the caller vouches.
        unsafe { A::slice(self.at, self.row_len, (self.clip, len)) }
    }

    /// # Safety
    /// The run has `len` items along dimension 0; their elements, if written, have no other user.
    #[inline(always)]
    pub unsafe fn strided<'k>(&self, len: usize) -> A::Strided<'k> {
        // SAFETY: the caller vouches.
        unsafe { A::strided(self.at, self.row_len, self.step, (self.clip, len)) }
    }
}
