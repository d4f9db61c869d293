//! The arguments of a staged kernel: parameters of its function, and what stands for them.

use super::facts::{is_argument, name_of};
use super::memory::{GroupValue, OutValue, PhasedValue, SliceValue, TileValue, WindowValue, clipped, proved};
use super::number::Number;
use super::shared::{AccumulatorValue, ScatterValue};
use super::value::{Expr, Plain, Value, Variable};
use super::writer::{define, say, with};
use crate::kernel::views::{
    Block, Item, Phased, Ragged, Read, ReadWrite, Reduce, ReduceAccess, Row, Scalar, Scatter, Tile, Uniform,
    Whole, Window, Write,
};
use std::marker::PhantomData;
use std::rc::Rc;

/// The devices that take the text. The derive of a definition writes bounds on it in generic code, so that
/// an argument without text is an error where a kernel is staged, not where it is defined.
pub enum Device {}

/// `Self` has a form of the argument `A`.
#[diagnostic::on_unimplemented(
    message = "the argument `{A}` has no form in the text for devices",
    label = "its elements are numbers, arrays of them, or structs with `#[derive(Staged)]`"
)]
pub trait Stages<A> {
    /// What stands for the argument.
    type Value: Value;
    /// Writes its parameters.
    fn argument(name: &str, about: About) -> Self::Value;
}

/// What attributes say about an argument.
#[derive(Clone, Copy, Default)]
pub struct About {
    /// It is a `Phased` whose use is declared by stage.
    staged: bool,
    /// It is a `Ragged`: the argument that says where its rows begin, and the dimension of the row.
    rows: Option<(&'static str, usize)>,
}

impl About {
    /// Of a `Phased` whose use is declared by stage.
    pub fn staged() -> About {
        About { staged: true, ..About::default() }
    }

    /// Of a `Ragged`.
    pub fn rows(starts: &'static str, dimension: usize) -> About {
        About { rows: Some((starts, dimension)), ..About::default() }
    }
}

/// `Self` has a form of the argument `A`, which is an array.
pub trait StagesArray<A> {
    /// What stands for the argument.
    type Value: Value;
    /// The type of its pointers.
    fn pointer() -> String;
    /// Behind its name, the names of its pointers: a `Phased` has two.
    fn pointers(_: About) -> &'static [&'static str] {
        &[""]
    }
    /// What stands for the array of a name, which its pointers and the macros of `flash_device.h` have.
    fn value(name: Rc<str>, about: About) -> Self::Value;
    /// Writes what happens before the kernel's body.
    fn begin(_value: &Self::Value, _: About) {}
}

impl<A> Stages<A> for Device
where
    Device: StagesArray<A>,
{
    type Value = <Device as StagesArray<A>>::Value;
    fn argument(name: &str, about: About) -> Self::Value {
        one::<A>(name, about).1
    }
}

/// Its name in the text, and what stands for it.
fn one<A>(argument: &str, about: About) -> (Rc<str>, <Device as StagesArray<A>>::Value)
where
    Device: StagesArray<A>,
{
    // A name that is no word of C.
    let name: Rc<str> = super::writer::name(argument).into();
    define(format!(
        "#define FLASH_ARRAY_{name} FLASH_ARRAY_{argument}\n#define FLASH_STRIDES_{name} FLASH_STRIDES_{argument}\n#define FLASH_BYTES_{name} FLASH_BYTES_{argument}\n#define FLASH_FIRST_{name} FLASH_FIRST_{argument}\n"
    ));
    is_argument(&name, argument);
    for behind in <Device as StagesArray<A>>::pointers(about) {
        parameter(format!("{}{name}{behind}", <Device as StagesArray<A>>::pointer()));
    }
    let value = <Device as StagesArray<A>>::value(name.clone(), about);
    <Device as StagesArray<A>>::begin(&value, about);
    (name, value)
}

/// A definition whose arguments have text.
pub trait StagedDefinition<Q> {
    /// What stands for the arguments, by their names.
    type Arguments;
    /// Writes the parameters.
    fn arguments() -> Self::Arguments;
}

fn parameter(text: String) {
    with(|writer| writer.parameters.push(text));
}

/// The type of a pointer to elements; `access` is `const `, if they are only read.
fn pointer<T: Plain>(access: &str) -> String {
    format!("FLASH_GLOBAL {access}{} *", T::Value::c_name())
}

/// The index of the own element, or of the own row's first.
fn own_index(name: &str) -> String {
    let own = super::writer::name("own");
    say(&format!("const flash_u64 {own} = FLASH_OWN_INDEX({name});"));
    own
}

impl<T: Plain> Stages<Scalar<T>> for Device {
    type Value = T::Value;
    fn argument(name: &str, _: About) -> T::Value {
        let argument = name;
        let name = super::writer::name(name);
        is_argument(&name, argument);
        parameter(format!("const {} {name}", T::Value::c_name()));
        T::Value::at(T::Value::unwrapped(name), false)
    }
}

macro_rules! items {
    ($([$t:ident] $access:ident $c:literal $value:ty, $of:expr;)*) => {$(
        impl<$t: Plain> StagesArray<Item<'static, $access<$t>>> for Device {
            type Value = $value;
            fn pointer() -> String {
                pointer::<$t>($c)
            }
            fn value(name: Rc<str>, _: About) -> $value {
                $of(proved::<$t>(&name, &own_index(&name)))
            }
        }

        impl<$t: Plain> StagesArray<Item<'static, $access<Row<$t>>>> for Device {
            type Value = SliceValue<$t>;
            fn pointer() -> String {
                pointer::<$t>($c)
            }
            fn value(name: Rc<str>, _: About) -> SliceValue<$t> {
                let first = own_index(&name);
                let count = format!("FLASH_ROW_LEN({name})");
                SliceValue { name, row: Some((first.into(), count.into())), of: PhantomData }
            }
        }
    )*};
}

/// Items that own several elements.
macro_rules! tiles {
    ($($access:ident $c:literal;)*) => {$(
        impl<T: Plain, const N: usize> StagesArray<Item<'static, $access<Block<T, N>>>> for Device {
            type Value = SliceValue<T>;
            fn pointer() -> String {
                pointer::<T>($c)
            }
            fn value(name: Rc<str>, _: About) -> SliceValue<T> {
                let first = own_index(&name);
                let count = clipped(&name, &first, 0, N);
                SliceValue { name, row: Some((first.into(), count.into())), of: PhantomData }
            }
        }

        impl<T: Plain, const X: usize, const Y: usize> StagesArray<Item<'static, $access<Tile<T, X, Y>>>> for Device {
            type Value = TileValue<T>;
            fn pointer() -> String {
                pointer::<T>($c)
            }
            fn value(name: Rc<str>, _: About) -> TileValue<T> {
                let first = own_index(&name);
                let extents = [(0, X), (1, Y)].map(|(axis, most)| clipped(&name, &first, axis, most).into());
                TileValue { name, first: first.into(), extents, most: [X, Y], of: PhantomData }
            }
        }
    )*};
}
tiles! {
    Read "const ";
    ReadWrite "";
    Write "";
}
items! {
    [T] Read "const " T::Value, std::convert::identity;
    [T] ReadWrite "" T::Value, std::convert::identity;
    [T] Write "" OutValue<T>, OutValue;
}

impl<T: Plain> StagesArray<Uniform<'static, Read<T>>> for Device {
    type Value = T::Value;
    fn pointer() -> String {
        pointer::<T>("const ")
    }
    fn value(name: Rc<str>, _: About) -> T::Value {
        proved::<T>(&name, "0")
    }
}

impl<T: Plain> StagesArray<Whole<'static, Read<T>>> for Device {
    type Value = SliceValue<T>;
    fn pointer() -> String {
        pointer::<T>("const ")
    }
    fn value(name: Rc<str>, _: About) -> SliceValue<T> {
        SliceValue { name, row: None, of: PhantomData }
    }
}

impl<T: Plain> StagesArray<Window<'static, Read<T>>> for Device {
    type Value = WindowValue<T>;
    fn pointer() -> String {
        pointer::<T>("const ")
    }
    fn value(name: Rc<str>, _: About) -> WindowValue<T> {
        WindowValue { name, of: PhantomData }
    }
}

impl<T: Plain> StagesArray<Phased<'static, T>> for Device {
    type Value = PhasedValue<T>;
    fn pointer() -> String {
        pointer::<T>("")
    }
    fn pointers(about: About) -> &'static [&'static str] {
        if about.staged { &[""] } else { &["", "_next"] }
    }
    fn value(name: Rc<str>, about: About) -> PhasedValue<T> {
        let index = own_index(&name);
        let was = proved::<T>(&name, &index);
        let own = match about.staged {
            true => was.clone(),
            false => {
                let next = format!("FLASH_PROVED({name}_next, {index}, FLASH_OF({name}).next_origin)");
                T::Value::at(T::Value::unwrapped(next), true)
            }
        };
        PhasedValue { name, was, own }
    }
    fn begin(value: &PhasedValue<T>, about: About) {
        // The next one begins as the array is.
        if !about.staged {
            value.own.assign(&value.was.read());
        }
    }
}

impl<T: Plain> StagesArray<Scatter<'static, T>> for Device {
    type Value = ScatterValue<T>;
    fn pointer() -> String {
        pointer::<T>("")
    }
    fn value(name: Rc<str>, _: About) -> ScatterValue<T> {
        ScatterValue { name, of: PhantomData }
    }
}

/// Rows of different lengths.
macro_rules! ragged {
    ($($access:ident $c:literal;)*) => {$(
        impl<T: Plain> StagesArray<Ragged<'static, $access<T>>> for Device {
            type Value = SliceValue<T>;
            fn pointer() -> String {
                pointer::<T>($c)
            }
            fn value(name: Rc<str>, about: About) -> SliceValue<T> {
                SliceValue { name, row: about.rows.map(own_row), of: PhantomData }
            }
        }
    )*};
}
ragged! {
    Read "const ";
    ReadWrite "";
}

/// The first element of the work item's row, and how many it has.
fn own_row((starts, dimension): (&str, usize)) -> (Rc<str>, Rc<str>) {
    let starts = name_of(starts);
    let row = Expr::<usize>::now(format!("FLASH_INDEX({dimension})")).named("row").text();
    let at = |index: &str| Expr::<usize>::now(proved::<u64>(&starts, index).text().to_string()).text();
    let first = at(&row);
    let end = at(&format!("{row} + 1"));
    let count = Expr::<usize>::now(format!("{end} - {first}")).text();
    (first, count)
}

/// The element of what a `Reduce` accumulates.
pub trait Content {
    /// Its element.
    type Element: Number;
}

impl<T: Number> Content for T {
    type Element = T;
}

impl<T: Number> Content for [T] {
    type Element = T;
}

impl<A: ReduceAccess<Content: Content + 'static>, Op: 'static> StagesArray<Reduce<'static, A, Op>>
    for Device
{
    type Value = AccumulatorValue<A::Content, Op>;
    fn pointer() -> String {
        pointer::<<A::Content as Content>::Element>("")
    }
    fn value(name: Rc<str>, _: About) -> Self::Value {
        AccumulatorValue { name, of: PhantomData }
    }
}

/// A group: its arguments have parameters of their own. One that an index of the text names is an array
/// itself, whose pointers and number are chosen where it is used.
impl<A: 'static, const N: usize> Stages<[A; N]> for Device
where
    Device: StagesArray<A, Value: Value>,
{
    type Value = GroupValue<<Device as StagesArray<A>>::Value, N>;
    fn argument(argument: &str, about: About) -> Self::Value {
        let hint = argument.to_owned();
        let (names, values): (Vec<Rc<str>>, Vec<_>) =
            (0..N).map(|number| one::<A>(&format!("{argument}_{number}"), about)).unzip();
        let choose = move |number: &str| {
            let name: Rc<str> = super::writer::name(&hint).into();
            let first = &names[0];
            define(format!(
                "#define FLASH_BYTES_{name} FLASH_BYTES_{first}\n#define FLASH_FIRST_{name} FLASH_STRIDE({name}, 0)\n"
            ));
            // The arguments of a group stand side by side.
            say(&format!("const flash_u64 FLASH_ARRAY_{name} = FLASH_ARRAY_{first} + {number};"));
            say(&format!("const flash_u64 FLASH_STRIDES_{name} = FLASH_STRIDES_{first} + {number};"));
            for behind in <Device as StagesArray<A>>::pointers(about) {
                let chosen = chosen(number, 0, &names, behind);
                say(&format!("{}const {name}{behind} = {chosen};", <Device as StagesArray<A>>::pointer()));
            }
            <Device as StagesArray<A>>::value(name, about)
        };
        GroupValue { values: values.into(), choose: Rc::new(choose) }
    }
}

/// One of these pointers, the first of which is that of number `first`. Comparisons, and not an array of
/// pointers, since a device may keep an array that is indexed in slow memory.
fn chosen(number: &str, first: usize, names: &[Rc<str>], behind: &str) -> String {
    if let [name] = names {
        return format!("{name}{behind}");
    }
    let (low, high) = names.split_at(names.len() / 2);
    let middle = first + low.len();
    let (low, high) = (chosen(number, first, low, behind), chosen(number, middle, high, behind));
    format!("({number} < {middle} ? {low} : {high})")
}
