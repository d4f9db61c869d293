//! The views of a staged kernel that give elements, and what is indexed.
//!
//! A value of this module is the name of an argument; its methods write texts with the macros of
//! `flash_device.h`. An index that the kernel computes is checked by the text: by `FLASH_AT`, for which
//! what is outside a row or a part is outside the array, or, in an array of the kernel's own, by
//! `flash_inside`. `proved` is for elements that the launch's proof covers, such as the work item's own,
//! and for no others.
//!
//! What a text needs beside these macros is put before it at its first use ([`define`]). It has two forms,
//! with checks and, if `FLASH_UNCHECKED` is defined, without. A view is no variable of a text: it is used
//! where it is known.

use super::facts::{below, covers, has};
use super::value::{Expr, Plain, Stage, Value, Variable};
use super::writer::{define, error, message, with};
use super::{ArrayValue, literal, ops};
use crate::kernel::Index;
use crate::kernel::views::{Out, PhasedItem, TileView, TileViewMut, WindowView};
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

/// What `a[i]` takes.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be indexed in the text for devices")]
pub trait Indexed {
    /// What stands there.
    type Element;
    /// The element at an index.
    #[track_caller]
    fn element(&self, index: Expr<usize>) -> Self::Element;
}

/// `a[i]`.
#[track_caller]
pub fn index<A: Indexed>(array: &A, index: Expr<usize>) -> A::Element {
    array.element(index)
}

/// The text of an index below `count`: one that is not notes a fault, and is 0.
#[track_caller]
pub(super) fn inside(index: Expr<usize>, count: usize) -> String {
    if let Some(i) = index.as_index().filter(|i| *i < count) {
        return i.to_string();
    }
    let index = index.text();
    let end = below(&index).and_then(|end| Expr::<usize>::value(end).as_index());
    if end.is_some_and(|end| end <= count) {
        return index.to_string();
    }
    define(INSIDE.to_owned());
    let fault = message(Location::caller(), &format!("an index outside an array of {count}"));
    let text = format!("flash_inside({index}, {count}ul, {fault}, flash_table)");
    Expr::<usize>::now(text).text().to_string()
}

const INSIDE: &str = "\
FLASH_FUNCTION flash_u64 flash_inside(flash_u64 i, flash_u64 count, flash_u64 fault,
                                      FLASH_GLOBAL const flash_u64 *flash_table) {
#ifndef FLASH_UNCHECKED
    if (i >= count) {
        flash_fault(fault, flash_table);
        return 0;
    }
#endif
    return i;
}
";

/// The index of the work item.
#[derive(Clone)]
pub struct IndexValue<const N: usize>([Expr<usize>; N]);

/// The index of the work item.
pub fn work_item<const N: usize>() -> IndexValue<N> {
    let index = std::array::from_fn(|dim| Expr::value(format!("FLASH_INDEX({dim})")).named("index"));
    let names = index.iter().map(Expr::path).collect();
    with(|writer| writer.work_item = names);
    IndexValue(index)
}

impl<const N: usize> IndexValue<N> {
    /// All values, dimension 0 first.
    pub fn values(&self) -> ArrayValue<Expr<usize>, N> {
        ArrayValue::list(self.0)
    }
}

impl<const N: usize> Indexed for IndexValue<N> {
    type Element = Expr<usize>;
    #[track_caller]
    fn element(&self, index: Expr<usize>) -> Expr<usize> {
        match index.as_index().filter(|i| *i < N) {
            Some(i) => self.0[i],
            None => self.values().element(index),
        }
    }
}

/// Handles of arguments: they stand for themselves.
macro_rules! handles {
    ($([$($g:tt)*] $handle:ty;)*) => {$(
        impl<$($g)*> Value for $handle {
            fn read(&self) -> Self {
                self.clone()
            }
            fn named(self, _: &str) -> Self {
                self
            }
            fn variable(self, _: &str) -> Self {
                self
            }
            fn unset(_: &str) -> Self {
                error("a view has no text as a variable: use it where it is known");
                Self::nothing()
            }
            fn assign(&self, _: &Self) {}
            fn never() -> Self {
                Self::nothing()
            }
        }
    )*};
}
pub(super) use handles;
handles! {
    [const N: usize] IndexValue<N>;
    [T: Plain] SliceValue<T>;
    [T: Plain] TileValue<T>;
    [T: Plain] WindowValue<T>;
    [T: Plain] OutValue<T>;
    [T: Plain] PhasedValue<T>;
    [V: Value, const N: usize] GroupValue<V, N>;
}

impl<const N: usize> Stage for Index<N> {
    type Value = IndexValue<N>;
}

impl<T: Plain> Stage for [T] {
    type Value = SliceValue<T>;
}

impl<T: Plain> Stage for TileView<'_, T> {
    type Value = TileValue<T>;
}

impl<T: Plain> Stage for TileViewMut<'_, T> {
    type Value = TileValue<T>;
}

impl<T: Plain> Stage for WindowView<'_, T> {
    type Value = WindowValue<T>;
}

impl<T: Plain> Stage for Out<'_, T> {
    type Value = OutValue<T>;
}

impl<T: Plain> Stage for PhasedItem<'_, T> {
    type Value = PhasedValue<T>;
}

impl<const N: usize> IndexValue<N> {
    fn nothing() -> Self {
        IndexValue(std::array::from_fn(|_| literal(0)))
    }
}

/// A `Window`.
pub struct WindowValue<T> {
    pub(super) name: Rc<str>,
    pub(super) of: PhantomData<T>,
}

impl<T> Clone for WindowValue<T> {
    fn clone(&self) -> Self {
        WindowValue { name: self.name.clone(), of: PhantomData }
    }
}

impl<T> WindowValue<T> {
    fn nothing() -> Self {
        WindowValue { name: "".into(), of: PhantomData }
    }
}

/// An element of an argument.
pub(super) fn element<T: Plain>(argument: &str, index: &str) -> T::Value {
    T::Value::at(T::Value::unwrapped(format!("FLASH_AT({argument}, {index})")), true)
}

/// An element that the proof of the launch covers, such as the work item's own: its index is not checked.
pub(super) fn proved<T: Plain>(argument: &str, index: &str) -> T::Value {
    let origin = format!("FLASH_OF({argument}).origin");
    T::Value::at(T::Value::unwrapped(format!("FLASH_PROVED({argument}, {index}, {origin})")), true)
}

/// An element whose index may be one that the launch has proved.
fn surely<T: Plain>(argument: &str, index: &str) -> T::Value {
    T::Value::at(T::Value::unwrapped(format!("FLASH_SURE_AT({argument}, {index})")), true)
}

/// The number of elements of an argument.
pub(super) fn length(argument: &str) -> Expr<usize> {
    Expr::value(format!("FLASH_LEN({argument})"))
}

/// A `Whole`, or the row of an `Item`.
pub struct SliceValue<T> {
    pub(super) name: Rc<str>,
    /// The first element, and how many, of a row.
    pub(super) row: Option<(Rc<str>, Rc<str>)>,
    pub(super) of: PhantomData<T>,
}

impl<T> Clone for SliceValue<T> {
    fn clone(&self) -> Self {
        SliceValue { name: self.name.clone(), row: self.row.clone(), of: PhantomData }
    }
}

impl<T> SliceValue<T> {
    fn nothing() -> Self {
        SliceValue { name: "".into(), row: None, of: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> Expr<usize> {
        match &self.row {
            None => length(&self.name),
            Some((_, count)) => Expr::value(count),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> Expr<bool> {
        ops::eq(self.len(), literal(0))
    }
}

impl<T: Plain> Indexed for SliceValue<T> {
    type Element = T::Value;
    #[track_caller]
    fn element(&self, index: Expr<usize>) -> T::Value {
        let index = index.read().named("at").text();
        let end = below(&index);
        let is_inside = end.as_deref().is_some_and(|end| end == &*self.len().text());
        let (first, count) = match &self.row {
            None if is_inside => return proved::<T>(&self.name, &index),
            None if end.is_some_and(|end| covers(&self.name, &end)) => {
                return surely::<T>(&self.name, &index);
            }
            None if has(&self.name, &[(3, &index)]) => return surely::<T>(&self.name, &index),
            None => return element::<T>(&self.name, &index),
            Some((first, _)) if is_inside => {
                return element::<T>(&self.name, &format!("({first} + {index})"));
            }
            Some(row) => row,
        };
        define(IN_ROW.to_owned());
        element::<T>(&self.name, &format!("FLASH_IN_ROW({first}, {count}, {index})"))
    }
}

/// What `&a[begin..end]` takes.
#[diagnostic::on_unimplemented(
    message = "a part of `{Self}` has no text for devices",
    label = "a `Whole`, a row or a block has parts: of an array of the kernel's own pass the array and the bounds"
)]
pub trait Sliced {
    /// What stands for the part.
    type Part;
    /// The part from one index up to, and without, another; `None`: from the first, or up to the last.
    #[track_caller]
    fn part(&self, begin: Option<Expr<usize>>, end: Option<Expr<usize>>) -> Self::Part;
}

/// `&a[begin..end]`.
#[track_caller]
pub fn part<A: Sliced>(array: &A, begin: Option<Expr<usize>>, end: Option<Expr<usize>>) -> A::Part {
    array.part(begin, end)
}

impl<T: Plain> Sliced for SliceValue<T> {
    type Part = SliceValue<T>;
    #[track_caller]
    fn part(&self, begin: Option<Expr<usize>>, end: Option<Expr<usize>>) -> SliceValue<T> {
        define(PART.to_owned());
        let length = self.len().text();
        let begin = begin.map_or_else(|| "0".into(), |begin| begin.read().named("begin").text());
        let end = end.map_or_else(|| length.clone(), |end| end.read().named("end").text());
        let fault = message(Location::caller(), "a part of an array that is not inside of it");
        let count = format!("flash_part({begin}, {end}, {length}, {fault}, flash_table)");
        let count = Expr::<usize>::now(count).text();
        let first = match &self.row {
            None => begin,
            Some((first, _)) => Expr::<usize>::now(format!("{first} + {begin}")).text(),
        };
        SliceValue { name: self.name.clone(), row: Some((first, count)), of: PhantomData }
    }
}

/// The length of a part; of one that is not inside, 0.
const PART: &str = "\
FLASH_FUNCTION flash_u64 flash_part(flash_u64 begin, flash_u64 end, flash_u64 length, flash_u64 fault,
                                    FLASH_GLOBAL const flash_u64 *flash_table) {
#ifndef FLASH_UNCHECKED
    if (begin > end || end > length) {
        flash_fault(fault, flash_table);
        return 0;
    }
#endif
    return end - begin;
}
";

/// A tile.
pub struct TileValue<T> {
    pub(super) name: Rc<str>,
    /// The first element.
    pub(super) first: Rc<str>,
    /// Elements along axis 0, and along axis 1.
    pub(super) extents: [Rc<str>; 2],
    /// The same of a whole tile.
    pub(super) most: [usize; 2],
    pub(super) of: PhantomData<T>,
}

impl<T> Clone for TileValue<T> {
    fn clone(&self) -> Self {
        let (name, first, extents) = (self.name.clone(), self.first.clone(), self.extents.clone());
        TileValue { name, first, extents, most: self.most, of: PhantomData }
    }
}

impl<T: Plain> TileValue<T> {
    fn nothing() -> Self {
        let nothing: Rc<str> = "".into();
        let extents = [nothing.clone(), nothing.clone()];
        TileValue { name: nothing.clone(), first: nothing, extents, most: [0; 2], of: PhantomData }
    }

    /// Elements along axis 0.
    pub fn columns(&self) -> Expr<usize> {
        Expr::value(&self.extents[0])
    }

    /// Elements along axis 1.
    pub fn rows(&self) -> Expr<usize> {
        Expr::value(&self.extents[1])
    }

    /// Row `y`. One that is not there has no elements.
    pub fn row(&self, y: Expr<usize>) -> SliceValue<T> {
        let (y, [columns, rows]) = (y.read().named("y").text(), &self.extents);
        let first = Expr::<usize>::now(format!("{} + {y} * FLASH_AXIS({}, 0)", self.first, self.name)).text();
        let count = format!("({y} < {rows} ? {columns} : 0)");
        SliceValue { name: self.name.clone(), row: Some((first, count.into())), of: PhantomData }
    }

    /// The same, to write.
    pub fn row_mut(&self, y: Expr<usize>) -> SliceValue<T> {
        self.row(y)
    }
}

/// How many elements an item has along an axis: up to a number, as far as its part goes. Axes beyond the
/// second are part of that one.
pub(super) fn clipped(name: &str, first: &str, axis: usize, own: usize) -> String {
    let at = match axis {
        0 => format!("{first} % FLASH_AXIS({name}, 0)"),
        _ => format!("{first} % FLASH_AXIS({name}, 1) / FLASH_AXIS({name}, 0)"),
    };
    let left = Expr::<usize>::now(format!("FLASH_PART_END({name}, {axis}) - {at}")).text();
    Expr::<usize>::now(format!("({left} < {own}ul ? {left} : {own}ul)")).text().to_string()
}

/// Outside of a row is outside of its array.
const IN_ROW: &str = "\
#ifdef FLASH_UNCHECKED
#define FLASH_IN_ROW(first, count, i) ((first) + (i))
#else
#define FLASH_IN_ROW(first, count, i) ((i) < (count) ? (first) + (i) : ~(flash_u64)0)
#endif
";

/// Notes that the numbers of a window's elements matter, so that it may have no gaps.
fn by_numbers() {
    with(|writer| writer.numbers_windows = true);
}

impl<T: Plain> WindowValue<T> {
    /// Number of elements of the array, not of the part.
    pub fn len(&self) -> Expr<usize> {
        by_numbers();
        length(&self.name)
    }

    /// True if the array has none.
    pub fn is_empty(&self) -> Expr<bool> {
        ops::eq(self.len(), literal(0))
    }

    /// The first index of the part along each axis.
    pub fn begin(&self) -> ArrayValue<Expr<usize>, 3> {
        self.axes("FLASH_PART_BEGIN")
    }

    /// One past the last index of the part along each axis.
    pub fn end(&self) -> ArrayValue<Expr<usize>, 3> {
        self.axes("FLASH_PART_END")
    }

    fn axes(&self, of: &str) -> ArrayValue<Expr<usize>, 3> {
        ArrayValue::list((0..3).map(|axis| Expr::value(format!("{of}({}, {axis})", self.name))))
    }

    /// Elements from neighbour to neighbour along axes 1 and 2.
    pub fn strides(&self) -> ArrayValue<Expr<usize>, 2> {
        by_numbers();
        ArrayValue::list((0..2).map(|axis| Expr::value(format!("FLASH_AXIS({}, {axis})", self.name))))
    }

    /// Element number `i` of the array.
    #[track_caller]
    pub fn get(&self, i: Expr<usize>) -> T::Value {
        by_numbers();
        let i = i.read().named("at").text();
        element::<T>(&self.name, &i).read()
    }

    /// The elements of a range.
    #[track_caller]
    pub fn slice(&self, begin: Option<Expr<usize>>, end: Option<Expr<usize>>) -> SliceValue<T> {
        by_numbers();
        SliceValue { name: self.name.clone(), row: None, of: PhantomData }.part(begin, end)
    }

    /// The element at an index per axis.
    #[track_caller]
    pub fn at(&self, at: ArrayValue<Expr<usize>, 3>) -> T::Value {
        let at = at.elements().map(|axis| axis.read().named("at").text());
        let [x, y, z] = &at;
        let is_sure = has(&self.name, &[(0, x), (1, y), (2, z)]);
        let sure = if is_sure { "SURE_" } else { "" };
        let index = Expr::<usize>::now(format!("FLASH_{sure}WITHIN({}, {x}, {y}, {z})", self.name)).text();
        let element = if is_sure { surely::<T> } else { element::<T> };
        element(&self.name, &index).read()
    }
}

/// The own element of a `Write`.
pub struct OutValue<T: Plain>(pub(super) T::Value);

impl<T: Plain> Clone for OutValue<T> {
    fn clone(&self) -> Self {
        OutValue(self.0.clone())
    }
}

impl<T: Plain> OutValue<T> {
    /// Writes it.
    #[track_caller]
    pub fn set(&self, value: T::Value) {
        self.0.assign(&value.read());
    }

    fn nothing() -> Self {
        OutValue(T::Value::never())
    }
}

/// A `Phased`.
pub struct PhasedValue<T: Plain> {
    pub(super) name: Rc<str>,
    /// The own element as the phase began.
    pub(super) was: T::Value,
    pub(super) own: T::Value,
}

impl<T: Plain> Clone for PhasedValue<T> {
    fn clone(&self) -> Self {
        PhasedValue { name: self.name.clone(), was: self.was.clone(), own: self.own.clone() }
    }
}

impl<T: Plain> PhasedValue<T> {
    fn nothing() -> Self {
        PhasedValue { name: "".into(), was: T::Value::never(), own: T::Value::never() }
    }

    /// Number of elements.
    pub fn len(&self) -> Expr<usize> {
        length(&self.name)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> Expr<bool> {
        ops::eq(self.len(), literal(0))
    }

    /// Element `i` as it was when the phase began.
    #[track_caller]
    pub fn get(&self, i: Expr<usize>) -> T::Value {
        let i = i.read().named("at").text();
        element::<T>(&self.name, &i).read()
    }

    /// The own element as it is now.
    pub fn own(&self) -> T::Value {
        self.own.read()
    }

    /// Sets the own element, for the next phase.
    #[track_caller]
    pub fn set(&self, value: T::Value) {
        self.own.assign(&value.read());
    }
}

/// A group of equal arguments.
pub struct GroupValue<V, const N: usize> {
    pub(super) values: Rc<[V]>,
    /// Writes which one is meant, by a number of the text below `N`.
    pub(super) choose: Rc<dyn Fn(&str) -> V>,
}

impl<V, const N: usize> Clone for GroupValue<V, N> {
    fn clone(&self) -> Self {
        GroupValue { values: self.values.clone(), choose: self.choose.clone() }
    }
}

impl<V: Value, const N: usize> GroupValue<V, N> {
    fn nothing() -> Self {
        GroupValue { values: Rc::new([]), choose: Rc::new(|_| V::never()) }
    }

    /// Number of arguments.
    #[allow(clippy::len_without_is_empty)] // as of an array
    pub fn len(&self) -> Expr<usize> {
        N.constant()
    }
}

impl<V: Value, const N: usize> Indexed for GroupValue<V, N> {
    type Element = V;
    #[track_caller]
    fn element(&self, index: Expr<usize>) -> V {
        match index.as_index().and_then(|i| self.values.get(i)) {
            Some(value) => value.clone(),
            None => (self.choose)(&inside(index, N)),
        }
    }
}
