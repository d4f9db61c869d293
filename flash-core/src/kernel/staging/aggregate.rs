//! Values of several parts: `()`, tuples, arrays. A tuple, like a struct, is taken apart into its parts, of
//! which each has variables of its own; an array is one in C.

use super::memory::Indexed;
use super::team::is_shared;
use super::value::{Expr, Plain, Stage, Value, Variable};
use super::writer::{block, captured, define, error, name, say};
use std::rc::Rc;

impl Stage for () {
    type Value = ();
}

impl Value for () {
    fn read(&self) {}
    fn named(self, _: &str) {}
    fn variable(self, _: &str) {}
    fn unset(_: &str) {}
    fn assign(&self, _: &()) {}
    fn never() {}
    fn select(_: &Expr<bool>, _: &(), _: &()) -> Option<()> {
        Some(())
    }
}

macro_rules! tuples {
    ($([$($part:ident $number:tt),*])*) => {$(
        impl<$($part: Plain),*> Stage for ($($part,)*) {
            type Value = ($($part::Value,)*);
        }

        impl<$($part: Value),*> Value for ($($part,)*) {
            fn read(&self) -> Self {
                ($(self.$number.read(),)*)
            }
            fn named(self, hint: &str) -> Self {
                ($(self.$number.named(hint),)*)
            }
            fn variable(self, hint: &str) -> Self {
                ($(self.$number.variable(hint),)*)
            }
            fn unset(hint: &str) -> Self {
                ($($part::unset(hint),)*)
            }
            #[track_caller]
            fn assign(&self, from: &Self) {
                $(self.$number.assign(&from.$number);)*
            }
            fn never() -> Self {
                ($($part::never(),)*)
            }
        }

        impl<$($part: Plain),*> Plain for ($($part,)*) {
            fn constant(self) -> Self::Value {
                ($(self.$number.constant(),)*)
            }
        }

        impl<$($part: Variable),*> Variable for ($($part,)*) {
            fn declaration(name: &str) -> String {
                format!("{} {name}", Self::c_name())
            }
            fn c_name() -> String {
                structure(&[$(&|name| $part::declaration(name)),*], &[$(concat!("f", $number)),*])
            }
            fn at(path: String, place: bool) -> Self {
                ($($part::at(format!("{path}.f{}", $number), place),)*)
            }
        }
    )*};
}
tuples! { [A 0] [A 0, B 1] [A 0, B 1, C 2] [A 0, B 1, C 2, D 3] [A 0, B 1, C 2, D 3, E 4] [A 0, B 1, C 2, D 3, E 4, F 5] }

/// The name of the C struct that has these members.
pub fn structure(members: &[&dyn Fn(&str) -> String], names: &[&str]) -> String {
    let members: Vec<String> =
        members.iter().zip(names).map(|(declaration, name)| format!("{};", declaration(name))).collect();
    let members = members.join(" ");
    // The same members are the same type.
    let letters = members.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let name = format!("flash_s_{}", letters.collect::<String>());
    define(format!("typedef struct {{ {members} }} {name};\n"));
    name
}

/// An array: in the text, or of values that have no place yet.
#[derive(Clone)]
pub struct ArrayValue<V, const N: usize>(Content<V>);

enum Content<V> {
    List(Rc<[V]>),
    Variable { path: Rc<str>, place: bool },
}

impl<V> Clone for Content<V> {
    fn clone(&self) -> Self {
        match self {
            Content::List(list) => Content::List(list.clone()),
            Content::Variable { path, place } => Content::Variable { path: path.clone(), place: *place },
        }
    }
}

impl<T: Plain, const N: usize> Stage for [T; N] {
    type Value = ArrayValue<T::Value, N>;
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    fn constant(self) -> Self::Value {
        ArrayValue::list(self.into_iter().map(T::constant))
    }
}

impl<V: Variable, const N: usize> Variable for ArrayValue<V, N> {
    fn declaration(name: &str) -> String {
        V::declaration(&format!("{name}[{N}]"))
    }
    fn c_name() -> String {
        structure(&[&|name| Self::declaration(name)], &["v"])
    }
    fn at(path: String, place: bool) -> Self {
        ArrayValue(Content::Variable { path: path.into(), place })
    }
    fn unwrapped(path: String) -> String {
        path + ".v"
    }
}

impl<V: Variable, const N: usize> ArrayValue<V, N> {
    /// An array of these.
    pub(super) fn list(values: impl IntoIterator<Item = V>) -> Self {
        ArrayValue(Content::List(values.into_iter().collect()))
    }

    /// Its elements.
    pub fn elements(&self) -> [V; N] {
        std::array::from_fn(|i| match &self.0 {
            Content::List(list) => list.get(i).cloned().unwrap_or_else(V::never),
            Content::Variable { path, place } => V::at(format!("{path}[{i}]"), *place).read(),
        })
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)] // as of an array
    pub fn len(&self) -> Expr<usize> {
        N.constant()
    }

    /// Where it is in the text.
    pub(super) fn path(&self) -> Option<Rc<str>> {
        match &self.0 {
            Content::List(_) => None,
            Content::Variable { path, .. } => Some(path.clone()),
        }
    }

    fn declared(hint: &str) -> (Self, String) {
        let name = name(hint);
        say(&format!("{};", Self::declaration(&name)));
        (Self::at(name.clone(), true), name)
    }
}

impl<V: Variable, const N: usize> Value for ArrayValue<V, N> {
    fn read(&self) -> Self {
        match &self.0 {
            Content::Variable { place: true, .. } => {
                let (copy, name) = Self::declared("t");
                copy.assign(self);
                Self::at(name, false)
            }
            _ => self.clone(),
        }
    }

    fn named(self, hint: &str) -> Self {
        match &self.0 {
            Content::List(_) => {
                let (made, name) = Self::declared(hint);
                made.assign(&self);
                Self::at(name, false)
            }
            Content::Variable { .. } => self,
        }
    }

    fn variable(self, hint: &str) -> Self {
        // An array that a team has just made: one that is read is a copy.
        if self.path().is_some_and(|path| is_shared(&path)) {
            return self;
        }
        let (made, _) = Self::declared(hint);
        made.assign(&self);
        made
    }

    fn unset(hint: &str) -> Self {
        Self::declared(hint).0
    }

    #[track_caller]
    fn assign(&self, from: &Self) {
        let Content::Variable { path: to, .. } = &self.0 else {
            return error("this array has no place that could be written");
        };
        match &from.0 {
            Content::List(list) => {
                for (i, value) in list.iter().enumerate() {
                    V::at(format!("{to}[{i}]"), true).assign(value);
                }
            }
            Content::Variable { path, .. } => {
                let i = name("i");
                let ((), copy) = captured(|| {
                    V::at(format!("{to}[{i}]"), true).assign(&V::at(format!("{path}[{i}]"), false));
                });
                block(&format!("for (int {i} = 0; {i} < {N}; ++{i})"), &copy, "");
            }
        }
    }

    fn never() -> Self {
        ArrayValue::list([])
    }
}

impl<V: Variable, const N: usize> Indexed for ArrayValue<V, N> {
    type Element = V;

    #[track_caller]
    fn element(&self, index: Expr<usize>) -> V {
        if let (Content::List(_), Some(i)) = (&self.0, index.as_index())
            && i < N
        {
            return self.elements()[i].clone();
        }
        let (path, place) = match self.clone().named("a").0 {
            Content::Variable { path, place } => (path, place),
            Content::List(_) => return V::never(),
        };
        let index = super::memory::inside(index, N);
        V::at(format!("{path}[{index}]"), place)
    }
}

/// `[a, b, c]`.
pub fn array<V: Variable, const N: usize>(values: [V; N]) -> ArrayValue<V, N> {
    ArrayValue::list(values)
}

/// `[value; N]`.
pub fn repeat<V: Variable, const N: usize>(value: V) -> ArrayValue<V, N> {
    ArrayValue::list(std::iter::repeat_n(value.named("t"), N))
}

/// The elements of an array, for a pattern.
pub fn elements<V: Variable, const N: usize>(array: ArrayValue<V, N>) -> [V; N] {
    array.elements()
}
