//! Argument views: what a kernel may touch, as types.
//!
//! | view | the kernel sees |
//! |---|---|
//! | [`Item`] | the element, or the [`Row`], [`Block`] or [`Tile`], that its index names |
//! | [`Whole`] | the whole array, read only |
//! | [`Window`] | the part of an array that the partition map gives, read only |
//! | [`Uniform`] | the one element of an array, the same for all work items, read only |
//! | [`Ragged`] | the row that its index names, of rows of different lengths |
//! | [`Phased`] | any element as it was when the phase began; it sets its own |
//! | [`Scatter`] | stores anywhere; of numbers also atomic operations |
//! | [`Reduce`] | an accumulator, or an array of them, to put values into |
//!
//! An array of views, such as `[Window<'a, Read<f32>>; 9]`, is a group of equal arguments.
//!
//! Access is [`Read`], [`ReadWrite`] or [`Write`]. Arguments that are only read come first, then
//! those read and written, then those only written.
//!
//! Why safe kernel code cannot go wrong: before a launch, the runtime proves that the index values
//! along an `Item` lie inside the array and, where it is written, that no two work items of one phase
//! have the same element; that written arguments overlap no other argument; and it holds every array
//! for the whole launch. The constructors of the types below rely on just that.

mod item;
mod operation;
mod part;
mod phased;
mod ragged;
mod reduce;
mod scatter;
#[cfg(test)]
mod tests;
mod tile;
mod window;

pub use item::{ItemAccess, ItemBound, ItemRun, Out, Rows, RowsMut, Strided, StridedMut};
pub use operation::Operation;
pub use phased::{PhasedBound, PhasedItem, PhasedRun, PhasedSpan};
pub use ragged::{RaggedAccess, RaggedBound, RaggedRows, RaggedRowsMut, RaggedRun};
pub use reduce::{
    Accumulate, Accumulator, Accumulators, Max, Min, ReduceAccess, ReduceBound, ReduceOp, ReduceRun, Sum,
};
pub use scatter::{AtomicElement, ScatterView};
pub use tile::{Clip, TileSpan, TileView, TileViewMut};
pub use window::WindowView;

use super::Element;
use crate::memory::{ArrayInner, ArrayLayout, FlashMemory, MemoryView, RowOffsets, ViewOwner, ViewShape};
use flash_types::abi;
pub use flash_types::descriptor::Use;
use flash_types::descriptor::{self, Access, ArgumentDescriptor, ElementType};
use std::marker::PhantomData;
use std::sync::Arc;

/// The kernel reads it.
pub struct Read<C: ?Sized>(PhantomData<C>);

/// The kernel reads and writes it. A kernel that may leave elements out declares this.
pub struct ReadWrite<C: ?Sized>(PhantomData<C>);

/// The kernel writes every element of the launch's range, and reads none.
pub struct Write<C: ?Sized>(PhantomData<C>);

/// A row of run-time length: axis 0 of the array, which the index does not name.
pub struct Row<T>(PhantomData<T>);

/// `N` elements, one beside the other along axis 0 of the array: item `i` along it owns those from `i * N`
/// on. At the end of the array there may be fewer.
pub struct Block<T, const N: usize>(PhantomData<T>);

/// `X` times `Y` elements of an array of two axes or more: item `(i, j)` owns those from `(i * X, j * Y)`
/// on, axis 0 first. At the ends of the axes there may be fewer.
///
/// ```
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// use flash_core::kernel::prelude::*;
///
/// /// `to` is `from` with rows for columns.
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.transpose", dims(i, j))]
/// struct Transpose<'a> {
///     from: Window<'a, Read<f32>>,
///     to: Item<'a, Write<Tile<f32, 16, 16>>>,
/// }
///
/// struct Plain;
///
/// #[kernel]
/// impl CpuItem<Transpose<'_>> for Plain {
///     fn item(ix: Index<2>, mut k: TransposeItem<'_>) {
///         for y in 0..k.to.rows() {
///             for x in 0..k.to.columns() {
///                 k.to.row_mut(y)[x] = k.from.at([16 * ix[1] + y, 16 * ix[0] + x, 0]);
///             }
///         }
///     }
/// }
/// # let from = (0..600).map(|i| i as f32).collect::<flash_core::FlashMemory<f32>>().with_shape([30, 20])?;
/// # let to = flash_core::FlashMemory::<f32>::zeroed([20, 30]);
/// # rt.submit(Transpose::of(&from, &to)).exec([2, 2])?;
/// # Ok::<(), flash_core::Error>(())
/// ```
pub struct Tile<T, const X: usize, const Y: usize>(PhantomData<T>);

/// Its own element (or row, block, tile) for every work item: the element at the index *values* of the
/// dimensions in `#[along(..)]` (default: all), axis 0 fastest. Strides come from the array's shape; an array
/// without one takes the largest value + 1 along each dimension.
pub struct Item<'a, A>(Array<'a>, PhantomData<A>);

/// The whole array, read only, never cut.
pub struct Whole<'a, A>(Array<'a>, PhantomData<A>);

/// The part of an array that the partition map of the definition gives (`part_by(..)`), read only, by
/// global index. Without a map it is all of the array.
pub struct Window<'a, A>(Array<'a>, PhantomData<A>);

/// Its own row for every work item, of rows of different lengths: a part of a sparse matrix, the particles of
/// a cell. `#[rows(start)]` names the argument that says where rows begin, a `Whole` of `u64` that is marked
/// `#[structure]`; it is passed as [`RowOffsets`]. The index names the row; of several dimensions,
/// `#[along(d)]` says which one. `Ragged<'a, Read<T>>` is only read, `Ragged<'a, ReadWrite<T>>` is written,
/// too. Launches are cut into parts of equal numbers of elements.
///
/// # Examples
/// ```
/// use flash_core::kernel::prelude::*;
/// use flash_core::FlashMemory;
///
/// /// Divides the elements of each row by their sum.
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.shares", dims(row), part_by(row))]
/// struct Shares<'a> {
///     #[structure]
///     start: Whole<'a, Read<u64>>,
///     #[rows(start)]
///     value: Ragged<'a, ReadWrite<f64>>,
/// }
///
/// struct Once;
///
/// #[kernel(devices)]
/// impl CpuItem<Shares<'_>> for Once {
///     fn item(_: Index<1>, k: SharesItem<'_>) {
///         let mut sum = 0.0;
///         for i in 0..k.value.len() {
///             sum += k.value[i];
///         }
///         for i in 0..k.value.len() {
///             k.value[i] /= sum;
///         }
///     }
/// }
/// # let Ok(rt) = flash_core::get_runtime("ABACUS") else { return Ok(()) };
/// let rows = RowOffsets::from_lengths([2, 0, 3])?;
/// let value = FlashMemory::from([1.0, 3.0, 2.0, 2.0, 4.0]);
/// rt.submit(Shares::of(&rows, &value)).exec([rows.rows()])?;
/// assert_eq!(*value.read()?, [0.25, 0.75, 0.25, 0.25, 0.5]);
/// # Ok::<(), flash_core::Error>(())
/// ```
pub struct Ragged<'a, A>(Array<'a>, PhantomData<A>);

/// The one element of an array of one, read only and the same for all work items, as a uniform of a shader: a
/// scalar that lives where the kernel runs. What one launch computes is read by the next without the host.
/// An array of another length is an error.
pub struct Uniform<'a, A>(Array<'a>, PhantomData<A>);

/// Any element as it was when the phase began, and the own one to set, visible from the next phase.
/// Counts as read and written. With `#[phased(stage = [read, write])]` the definition declares its
/// use per value of a dimension that is constant in each phase; one buffer is then enough.
pub struct Phased<'a, T>(Array<'a>, PhantomData<T>);

/// Atomic operations anywhere. Counts as read and written.
pub struct Scatter<'a, T>(Array<'a>, PhantomData<T>);

/// An accumulator that takes values from all work items: `Reduce<'a, Write<T>, Op>` is one,
/// `Reduce<'a, Write<[T]>, Op>` an array of them, such as a histogram. With [`ReadWrite`] in the place of
/// [`Write`] the initial content counts. `Op` is [`Sum`], [`Min`], [`Max`] or any [`ReduceOp`].
///
/// The argument is an array of one element (or `&mut T`), or of any length. A kernel only
/// [`put`](Accumulator::put)s values. Partial results belong to fixed blocks of the index table and merge
/// in a fixed tree: threads, cuts and devices of one kind do not change a bit.
///
/// # Examples
/// ```
/// use flash_core::kernel::views::{Item, Read, Reduce, Sum, Write};
/// use flash_core::kernel::{CpuItem, Index};
/// use flash_core::{KernelDefinition, kernel};
///
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.dot", dims(i))]
/// struct Dot<'a> {
///     x: Item<'a, Read<f64>>,
///     y: Item<'a, Read<f64>>,
///     total: Reduce<'a, Write<f64>, Sum>,
/// }
///
/// struct Plain;
///
/// #[kernel]
/// impl CpuItem<Dot<'_>> for Plain {
///     fn item(_: Index<1>, mut k: DotItem<'_>) {
///         k.total.put(k.x * k.y);
///     }
/// }
/// ```
pub struct Reduce<'a, A, Op>(Array<'a>, PhantomData<fn() -> (A, Op)>);

/// An array argument with its type erased.
pub struct Array<'a> {
    /// NULL: a slice of the host.
    pub(crate) memory: *const ArrayInner,
    pub(crate) data: *mut u8,
    /// Elements.
    pub(crate) len: usize,
    /// Holds an owned handle.
    pub(crate) owner: Option<Arc<ArrayInner>>,
    /// A range of a memory: it has not the memory's shape, even if it is all of it.
    pub(crate) part: bool,
    /// The shape of a view.
    pub(crate) seen: ViewShape,
    borrow: PhantomData<&'a mut ()>,
}

impl<'a> Array<'a> {
    /// Its own shape, or that of its memory; empty if it has none, or is a range.
    pub(crate) fn layout(&self) -> ArrayLayout<'_> {
        if !self.seen.is_none() {
            return self.seen.layout();
        }
        // SAFETY: the argument borrows the memory, or owns it.
        let memory = unsafe { self.memory.as_ref() }.filter(|_| !self.part);
        ArrayLayout::of(memory.map_or(&[][..], ArrayInner::shape))
    }

    #[inline(always)]
    fn of_slice<T>(data: *mut T, len: usize) -> Array<'a> {
        Array {
            memory: std::ptr::null(),
            data: data.cast(),
            len,
            owner: None,
            part: false,
            seen: ViewShape::NONE,
            borrow: PhantomData,
        }
    }

    #[inline(always)]
    fn of_memory<T: Element>(memory: &'a FlashMemory<T>) -> Array<'a> {
        let header = memory.header();
        Array {
            memory: header,
            data: header.data(),
            len: header.len(),
            owner: None,
            part: false,
            seen: ViewShape::NONE,
            borrow: PhantomData,
        }
    }

    fn of_view<T: Element>(view: MemoryView<'a, T>) -> Array<'a> {
        let (memory, range, seen) = view.into_parts();
        let all = match memory {
            ViewOwner::Lent(memory) => Array::of_memory(memory),
            ViewOwner::Own(memory) => Array::of_owned(memory),
        };
        // SAFETY: a view lies inside its memory.
        let data = unsafe { all.data.add(range.start * size_of::<T>()) };
        // All of a memory in another shape is as good as the memory.
        let part = seen.is_none() || seen.has_gaps() || range.len() != all.len;
        Array { data, len: range.len(), part, seen, ..all }
    }

    /// This array; what is left owns nothing.
    pub(crate) fn take(&mut self) -> Array<'a> {
        Array { owner: self.owner.take(), ..*self }
    }

    /// All of a memory, or a range of its elements, which are of `size` bytes.
    ///
    /// # Panics
    /// If the range leaves the memory.
    #[inline]
    pub(crate) fn of_header(
        header: &'a ArrayInner,
        range: Option<std::ops::Range<usize>>,
        size: usize,
    ) -> Array<'a> {
        let part = range.is_some();
        let range = range.unwrap_or(0..header.len());
        assert!(range.start <= range.end && range.end <= header.len(), "a range inside the memory");
        Array {
            memory: header,
            // SAFETY: the range lies inside the memory, whose elements have that size.
            data: unsafe { header.data().add(range.start * size) },
            len: range.len(),
            owner: None,
            part,
            seen: ViewShape::NONE,
            borrow: PhantomData,
        }
    }

    fn of_owned<T: Element>(memory: FlashMemory<T>) -> Array<'a> {
        let owner = memory.into_header();
        Array {
            memory: Arc::as_ptr(&owner),
            data: owner.data(),
            len: owner.len(),
            owner: Some(owner),
            part: false,
            seen: ViewShape::NONE,
            borrow: PhantomData,
        }
    }
}

impl<'a, A: ItemAccess> Item<'a, A> {
    /// The elements of a memory, one after the other whatever its shape.
    pub(super) fn flat(memory: &'a FlashMemory<A::Element>) -> Self {
        Item(Array { part: true, ..Array::of_memory(memory) }, PhantomData)
    }

    /// The elements of a view, one after the other whatever its shape. With gaps they are one after the other
    /// along one axis only, which the launch finds out.
    pub(super) fn flat_view(view: MemoryView<'a, A::Element>) -> Self {
        let array = Array::of_view(view);
        let seen = if array.seen.has_gaps() { array.seen } else { ViewShape::NONE };
        Item(Array { part: true, seen, ..array }, PhantomData)
    }
}

impl<'a> Whole<'a, Read<u64>> {
    pub(super) fn of_words(words: &'a [u64]) -> Self {
        Whole(Array::of_slice(words.as_ptr().cast_mut(), words.len()), PhantomData)
    }
}

/// A view: how an array argument is passed, described and seen.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a view of an array",
    label = "a view is `Item<'a, Read<T>>` (or `ReadWrite`, `Write`, `Row<T>`, `Block<T, N>`, `Tile<T, X, Y>`), `Whole<'a, Read<T>>`, `Window<'a, Read<T>>`, `Uniform<'a, Read<T>>`, `Ragged<'a, Read<T>>`, `Phased<'a, T>`, `Scatter<'a, T>` or `Reduce<'a, Write<T>, Sum>`"
)]
pub trait View<'a> {
    /// Type of one element.
    type Element: Element;
    /// `ARG_*`.
    const KIND: u32;
    /// `ACCESS_*`.
    const ACCESS: u32;
    /// True for [`Row`]s.
    const ROW: bool;
    /// Elements that a work item owns along the first axes: of a [`Block`] or [`Tile`].
    const TILE: &'static [u64] = &[];
    /// The array, type erased.
    fn array(&mut self) -> &mut Array<'a>;
}

impl<'a, A: ItemAccess> View<'a> for Item<'a, A> {
    type Element = A::Element;
    const KIND: u32 = abi::ARG_ITEM;
    const ACCESS: u32 = A::ACCESS;
    const ROW: bool = A::ROW;
    const TILE: &'static [u64] = A::TILE;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, T: Element> View<'a> for Whole<'a, Read<T>> {
    type Element = T;
    const KIND: u32 = abi::ARG_WHOLE;
    const ACCESS: u32 = abi::ACCESS_READ;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, T: Element> View<'a> for Window<'a, Read<T>> {
    type Element = T;
    const KIND: u32 = abi::ARG_WINDOW;
    const ACCESS: u32 = abi::ACCESS_READ;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

/// For devices it is an `Item` whose element no dimension names.
impl<'a, T: Element> View<'a> for Uniform<'a, Read<T>> {
    type Element = T;
    const KIND: u32 = abi::ARG_ITEM;
    const ACCESS: u32 = abi::ACCESS_READ;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, A: RaggedAccess> View<'a> for Ragged<'a, A> {
    type Element = A::Element;
    const KIND: u32 = A::KIND;
    const ACCESS: u32 = A::ACCESS;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, T: Element> View<'a> for Phased<'a, T> {
    type Element = T;
    const KIND: u32 = abi::ARG_PHASED;
    const ACCESS: u32 = abi::ACCESS_READ_WRITE;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, T: Element> View<'a> for Scatter<'a, T> {
    type Element = T;
    const KIND: u32 = abi::ARG_SCATTER;
    const ACCESS: u32 = abi::ACCESS_READ_WRITE;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

impl<'a, A: ReduceAccess, Op> View<'a> for Reduce<'a, A, Op>
where
    Op: ReduceOp<<A::Content as Accumulate>::Element>,
{
    type Element = <A::Content as Accumulate>::Element;
    const KIND: u32 = abi::ARG_REDUCE;
    const ACCESS: u32 = A::ACCESS;
    const ROW: bool = false;
    #[inline(always)]
    fn array(&mut self) -> &mut Array<'a> {
        &mut self.0
    }
}

/// An argument of a definition, a view or a [`Scalar`], made of what `Definition::of` was given for it, an
/// `A`.
///
/// The arguments of a call are taken one after another, so that a call with several mistakes, such as a wrong
/// order, is one error. `After` says that this one was taken, and is `Before` of the next. Where nothing
/// takes an `A`, the compiler does not learn `After`. The next argument is then undecided, as it may come
/// after [`Taken`] or after [`Nothing`], and what is undecided is not reported beside an error.
#[diagnostic::on_unimplemented(
    message = "`{A}` cannot be passed for the argument `{Self}`",
    label = "the argument has another element type, or access, or place in the definition",
    note = "write `&memory`, where `memory` is a `FlashMemory` of just the element type in the argument's view; or pass a `FlashMemory`, a `MemoryView`, a `&mut [T]` or a `&mut Vec<T>` of it, and where the argument is only read a `&[T]` or a `&Vec<T>`",
    note = "for a group `[View; N]`, pass an array of `N` of these, or `&memories` of a `[FlashMemory<T>; N]`",
    note = "for a `Scalar<T>`, pass a value of just the type `T`, such as `2.0` for an `f32`"
)]
pub trait Takes<A, Before, After>: Sized {
    /// The argument.
    fn take(from: A) -> Self;
}

/// An argument by value. Among the arguments of a kernel by name a plain struct is written so; numbers need
/// no wrapper.
#[derive(Debug)]
pub struct Scalar<T>(pub T);

/// An argument was taken, see [`Takes`].
#[derive(Debug)]
pub enum Taken {}

/// No argument was taken. There are two of it, so that the compiler never infers one.
#[derive(Debug)]
pub enum Nothing<const OTHER: bool> {}

macro_rules! after_nothing {
    ($($other:literal)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<A, V> Takes<A, Nothing<$other>, Taken> for V {
            fn take(_: A) -> V {
                unreachable!("no argument comes after nothing")
            }
        }
    )*};
}
after_nothing! { false true }

#[diagnostic::do_not_recommend]
impl<T> Takes<T, Taken, Taken> for Scalar<T> {
    #[inline(always)]
    fn take(from: T) -> Scalar<T> {
        Scalar(from)
    }
}

/// A group: an array of what each of its arguments is made of.
#[diagnostic::do_not_recommend]
impl<A, V, After, const N: usize> Takes<[A; N], Taken, After> for [V; N]
where
    V: Takes<A, Taken, After>,
{
    #[inline(always)]
    fn take(from: [A; N]) -> Self {
        from.map(V::take)
    }
}

/// A group of a program's array, such as `&memories` of a `[FlashMemory<f32>; 9]`.
#[diagnostic::do_not_recommend]
impl<'a, A, V, After, const N: usize> Takes<&'a [A; N], Taken, After> for [V; N]
where
    V: Takes<&'a A, Taken, After>,
{
    #[inline(always)]
    fn take(from: &'a [A; N]) -> Self {
        from.each_ref().map(V::take)
    }
}

/// What a scalar leaves that the compiler learns a type parameter from. Where an array was passed for it,
/// that is undecided, see [`Takes`]; the error is that the type is no [`Element`].
pub trait Leaves<After> {}

impl<T> Leaves<Taken> for Scalar<T> {}

macro_rules! undecided {
    ($([$($g:tt)*] $array:ty;)*) => {$(
        impl<$($g)*> Leaves<Nothing<false>> for Scalar<$array> {}
    )*};
}
undecided! {
    ['a, T: ?Sized] &'a T;
    ['a, T: ?Sized] &'a mut T;
    [T] FlashMemory<T>;
    ['a, T] MemoryView<'a, T>;
}

/// What a host program holds. Read-only views take shared slices, the others need exclusive ones; a
/// [`FlashMemory`] is always shared and ordered by the runtime.
macro_rules! sources {
    ($([$($g:tt)*] $view:ty, $t:ty, [$($mode:tt)*];)*) => {$(
        sources! { @one [$($g)*] $view, &'a FlashMemory<$t>, memory, Array::of_memory(memory) }
        sources! { @one [$($g)*] $view, FlashMemory<$t>, memory, Array::of_owned(memory) }
        sources! { @one [$($g)*] $view, MemoryView<'a, $t>, view, Array::of_view(view) }
        sources! { @one [$($g)*] $view, &'a mut [$t], slice, Array::of_slice(slice.as_mut_ptr(), slice.len()) }
        sources! { @one [$($g)*] $view, &'a mut Vec<$t>, slice, Array::of_slice(slice.as_mut_ptr(), slice.len()) }
        sources! { @shared [$($g)*] $view, $t, [$($mode)*] }
    )*};
    (@shared [$($g:tt)*] $view:ty, $t:ty, [shared]) => {
        sources! { @one [$($g)*] $view, &'a [$t], slice, Array::of_slice(slice.as_ptr().cast_mut(), slice.len()) }
        sources! { @one [$($g)*] $view, &'a Vec<$t>, slice, Array::of_slice(slice.as_ptr().cast_mut(), slice.len()) }
    };
    (@shared [$($g:tt)*] $view:ty, $t:ty, [exclusive]) => {};
    (@one [$($g:tt)*] $view:ty, $source:ty, $from:ident, $array:expr) => {
        // The compiler's message would list all of them.
        #[diagnostic::do_not_recommend]
        impl<'a, $($g)*> Takes<$source, Taken, Taken> for $view {
            #[inline(always)]
            fn take($from: $source) -> Self {
                Self($array, PhantomData)
            }
        }
    };
}

sources! {
    [T: Element] Item<'a, Read<T>>, T, [shared];
    [T: Element] Item<'a, ReadWrite<T>>, T, [exclusive];
    [T: Element] Item<'a, Write<T>>, T, [exclusive];
    [T: Element] Item<'a, Read<Row<T>>>, T, [shared];
    [T: Element] Item<'a, ReadWrite<Row<T>>>, T, [exclusive];
    [T: Element] Item<'a, Write<Row<T>>>, T, [exclusive];
    [T: Element, const N: usize] Item<'a, Read<Block<T, N>>>, T, [shared];
    [T: Element, const N: usize] Item<'a, ReadWrite<Block<T, N>>>, T, [exclusive];
    [T: Element, const N: usize] Item<'a, Write<Block<T, N>>>, T, [exclusive];
    [T: Element, const X: usize, const Y: usize] Item<'a, Read<Tile<T, X, Y>>>, T, [shared];
    [T: Element, const X: usize, const Y: usize] Item<'a, ReadWrite<Tile<T, X, Y>>>, T, [exclusive];
    [T: Element, const X: usize, const Y: usize] Item<'a, Write<Tile<T, X, Y>>>, T, [exclusive];
    [T: Element] Whole<'a, Read<T>>, T, [shared];
    [T: Element] Window<'a, Read<T>>, T, [shared];
    [T: Element] Uniform<'a, Read<T>>, T, [shared];
    [T: Element] Ragged<'a, Read<T>>, T, [shared];
    [T: Element] Ragged<'a, ReadWrite<T>>, T, [exclusive];
    [T: Element] Phased<'a, T>, T, [exclusive];
    [T: Element] Scatter<'a, T>, T, [exclusive];
    [T: Element, Op] Reduce<'a, Write<T>, Op>, T, [exclusive];
    [T: Element, Op] Reduce<'a, ReadWrite<T>, Op>, T, [exclusive];
    [T: Element, Op] Reduce<'a, Write<[T]>, Op>, T, [exclusive];
    [T: Element, Op] Reduce<'a, ReadWrite<[T]>, Op>, T, [exclusive];
}

sources! { @one [T: Element] Uniform<'a, Read<T>>, &'a T, value, Array::of_slice(std::ptr::from_ref(value).cast_mut(), 1) }
sources! { @one [T: Element, Op] Reduce<'a, Write<T>, Op>, &'a mut T, value, Array::of_slice(value, 1) }
sources! { @one [T: Element, Op] Reduce<'a, ReadWrite<T>, Op>, &'a mut T, value, Array::of_slice(value, 1) }

sources! { @one [] Whole<'a, Read<u64>>, &'a RowOffsets, offsets, Array::of_memory(offsets.memory()) }
sources! { @one [] Whole<'a, Read<u64>>, RowOffsets, offsets, Array::of_owned(offsets.memory().clone()) }

/// Describes rows of different lengths, which argument `rows` says.
#[doc(hidden)]
pub fn describe_ragged<V: View<'static>>(name: &str, along: usize, rows: usize) -> ArgumentDescriptor {
    ArgumentDescriptor { rows: Some(rows), ..describe::<V>(name, &[along], None) }
}

/// Describes an accumulator.
#[doc(hidden)]
pub fn describe_reduce<A: ReduceAccess, Op>(name: &str) -> ArgumentDescriptor
where
    Op: ReduceOp<<A::Content as Accumulate>::Element>,
    Reduce<'static, A, Op>: View<'static>,
{
    ArgumentDescriptor {
        reduce: Some(operation::describe::<A, Op>()),
        ..describe::<Reduce<'static, A, Op>>(name, &[], None)
    }
}

/// Describes an array argument that is seen through `V`.
#[doc(hidden)]
pub fn describe<V: View<'static>>(
    name: &str,
    along: &[usize],
    stages: Option<(usize, &[Use])>,
) -> ArgumentDescriptor {
    ArgumentDescriptor {
        name: name.to_owned(),
        view: descriptor::View::of_code(V::KIND),
        access: Access::of_code(V::ACCESS),
        element: ElementType::of::<V::Element>(),
        row: V::ROW,
        tile: V::TILE.to_vec(),
        along: along.to_vec(),
        stages: stages.map(|(dimension, uses)| (dimension, uses.to_vec())),
        rows: None,
        structure: false,
        reduce: None,
    }
}

/// Describes a scalar argument.
#[doc(hidden)]
pub fn describe_scalar<T: Element>(name: &str) -> ArgumentDescriptor {
    ArgumentDescriptor {
        name: name.to_owned(),
        view: descriptor::View::Scalar,
        access: Access::Read,
        element: ElementType::of::<T>(),
        row: false,
        tile: Vec::new(),
        along: Vec::new(),
        stages: None,
        rows: None,
        structure: false,
        reduce: None,
    }
}

/// The value of a scalar argument.
///
/// # Safety
/// `arg` is a scalar of type `T`.
#[doc(hidden)]
#[inline]
pub unsafe fn scalar<T: Element>(arg: &abi::Arg) -> T {
    debug_assert_eq!(arg.element_size as usize, size_of::<T>());
    // SAFETY: `data` points to the bytes of a T; unaligned reads are allowed for.
    unsafe { arg.data.cast::<T>().read_unaligned() }
}

/// The slice of a whole array.
///
/// # Safety
/// `arg` is a whole array of `T` that is not written during `'k`.
#[doc(hidden)]
#[inline]
pub unsafe fn whole<'k, T: Element>(arg: (*const T, usize)) -> &'k [T] {
    // SAFETY: the caller vouches for the range.
    unsafe { std::slice::from_raw_parts(arg.0, arg.1) }
}

/// The element of an array of one.
///
/// # Safety
/// `at` is the element of such an array of `T`, which is not written during `'k`.
#[doc(hidden)]
#[inline]
pub unsafe fn uniform<'k, T: Element>(at: *const T) -> &'k T {
    // SAFETY: the caller vouches.
    unsafe { &*at }
}

/// How an `Item` follows dimension 0: it does not.
#[doc(hidden)]
pub const FIXED: u8 = 0;
/// Dimension 0 is its axis 0.
#[doc(hidden)]
pub const UNIT: u8 = 1;
/// Dimension 0 is another axis.
#[doc(hidden)]
pub const STRIDED: u8 = 2;
