//! The arguments of a staged kernel: parameters of its function, and what stands for them.

use super::memory::{OutValue, PhasedValue, SliceValue, WindowValue, proved};
use super::number::Number;
use super::shared::{AccumulatorValue, ScatterValue};
use super::value::{Plain, Value, Variable};
use super::writer::{define, say, with};
use crate::kernel::views::{
    AtomicElement, Item, Phased, Read, ReadWrite, Reduce, ReduceAccess, Row, Scalar, Scatter, Whole, Window,
    Write,
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
    /// Writes its parameters. `staged`: a `Phased` whose use is declared by stage.
    fn argument(name: &str, staged: bool) -> Self::Value;
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

/// An array's parameter, by a name that is no word of C; `access` is `const `, if it is only read.
fn array<T: Plain>(argument: &str, access: &str) -> Rc<str> {
    let name = super::writer::name(argument);
    define(format!(
        "#define FLASH_ARRAY_{name} FLASH_ARRAY_{argument}\n#define FLASH_BYTES_{name} FLASH_BYTES_{argument}\n"
    ));
    parameter(format!("FLASH_GLOBAL {access}{} *{name}", T::Value::c_name()));
    name.into()
}

/// The index of the own element, or of the own row's first.
fn own_index(name: &str) -> String {
    let own = super::writer::name("own");
    say(&format!("const flash_u64 {own} = FLASH_OWN_INDEX({name});"));
    own
}

fn own<T: Plain>(argument: &str, access: &str) -> T::Value {
    let name = array::<T>(argument, access);
    proved::<T>(&name, &own_index(&name))
}

fn row<T: Plain>(argument: &str, access: &str) -> SliceValue<T> {
    let name = array::<T>(argument, access);
    let first = own_index(&name);
    let count = format!("FLASH_ROW_LEN({name})");
    SliceValue { name, row: Some((first.into(), count.into())), of: PhantomData }
}

impl<T: Plain> Stages<Scalar<T>> for Device {
    type Value = T::Value;
    fn argument(name: &str, _: bool) -> T::Value {
        let name = super::writer::name(name);
        parameter(format!("const {} {name}", T::Value::c_name()));
        T::Value::at(T::Value::unwrapped(name), false)
    }
}

impl<T: Plain> Stages<Item<'static, Read<T>>> for Device {
    type Value = T::Value;
    fn argument(name: &str, _: bool) -> T::Value {
        own::<T>(name, "const ")
    }
}

impl<T: Plain> Stages<Item<'static, ReadWrite<T>>> for Device {
    type Value = T::Value;
    fn argument(name: &str, _: bool) -> T::Value {
        own::<T>(name, "")
    }
}

impl<T: Plain> Stages<Item<'static, Write<T>>> for Device {
    type Value = OutValue<T>;
    fn argument(name: &str, _: bool) -> OutValue<T> {
        OutValue(own::<T>(name, ""))
    }
}

macro_rules! rows {
    ($($access:ident $c:literal)*) => {$(
        impl<T: Plain> Stages<Item<'static, $access<Row<T>>>> for Device {
            type Value = SliceValue<T>;
            fn argument(name: &str, _: bool) -> SliceValue<T> {
                row(name, $c)
            }
        }
    )*};
}
rows! { Read "const " ReadWrite "" Write "" }

impl<T: Plain> Stages<Whole<'static, Read<T>>> for Device {
    type Value = SliceValue<T>;
    fn argument(name: &str, _: bool) -> SliceValue<T> {
        SliceValue { name: array::<T>(name, "const "), row: None, of: PhantomData }
    }
}

impl<T: Plain> Stages<Window<'static, Read<T>>> for Device {
    type Value = WindowValue<T>;
    fn argument(name: &str, _: bool) -> WindowValue<T> {
        WindowValue { name: array::<T>(name, "const "), of: PhantomData }
    }
}

impl<T: Plain> Stages<Phased<'static, T>> for Device {
    type Value = PhasedValue<T>;
    fn argument(name: &str, staged: bool) -> PhasedValue<T> {
        let name = array::<T>(name, "");
        let index = own_index(&name);
        if staged {
            let own = proved::<T>(&name, &index);
            return PhasedValue { name, own };
        }
        parameter(format!("FLASH_GLOBAL {} *{name}_next", T::Value::c_name()));
        let next = format!("FLASH_PROVED({name}_next, {index}, FLASH_OF({name}).next_origin)");
        let own = T::Value::at(T::Value::unwrapped(next), true);
        // It begins as it is.
        own.assign(&proved::<T>(&name, &index).read());
        PhasedValue { name, own }
    }
}

impl<T: Number + AtomicElement> Stages<Scatter<'static, T>> for Device {
    type Value = ScatterValue<T>;
    fn argument(name: &str, _: bool) -> ScatterValue<T> {
        ScatterValue { name: array::<T>(name, ""), of: PhantomData }
    }
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

impl<A: ReduceAccess<Content: Content + 'static>, Op: 'static> Stages<Reduce<'static, A, Op>> for Device {
    type Value = AccumulatorValue<A::Content, Op>;
    fn argument(name: &str, _: bool) -> Self::Value {
        AccumulatorValue { name: array::<<A::Content as Content>::Element>(name, ""), of: PhantomData }
    }
}
