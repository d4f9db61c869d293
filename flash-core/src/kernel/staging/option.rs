//! `Option`s of a staged kernel: whether there is a value, and the value.

use super::control::{branch, return_value};
use super::literal;
use super::ops::not;
use super::result::{Attempt, ResultValue};
use super::value::{Expr, Marked, Stage, Value};
use super::writer::{block, captured, fault, go_to_end, message};
use std::fmt::Display;
use std::panic::Location;

/// An `Option`: whether there is a value, and the value, which is 0 where there is none.
pub type OptionValue<V> = Marked<bool, V>;

impl<T: Stage> Stage for Option<T> {
    type Value = OptionValue<T::Value>;
}

/// `Some(value)`.
pub fn some<V: Value>(value: V) -> OptionValue<V> {
    Marked { mark: literal(true), value }
}

/// `None`. It has a value all the same, for what is written in its place and never runs.
pub fn none<V: Value>() -> OptionValue<V> {
    Marked { mark: literal(false), value: V::unset("none") }
}

/// `value`, if a condition holds.
pub(super) fn some_if<V: Value>(condition: Expr<bool>, value: V) -> OptionValue<V> {
    Marked { mark: condition, value }
}

fn if_none(some: Expr<bool>, then: impl FnOnce()) {
    let ((), then) = captured(then);
    block(&format!("if (!{})", some.text()), &then, "");
}

impl<V: Value> Attempt for OptionValue<V> {
    type Inside = V;

    #[track_caller]
    fn attempt<W: Value>(self) -> V {
        let option = self.read().named("value");
        if_none(option.mark, || return_value(none::<W>()));
        option.value
    }
}

impl<V: Value> OptionValue<V> {
    /// True if there is a value.
    pub fn is_some(&self) -> Expr<bool> {
        self.mark.read()
    }

    /// True if there is none.
    pub fn is_none(&self) -> Expr<bool> {
        not(self.is_some())
    }

    /// The value, where there is one.
    pub fn inside(&self) -> V {
        self.value.read()
    }

    /// The value, or another one.
    pub fn unwrap_or(&self, other: V) -> V {
        branch(self.is_some(), || self.value.read(), || other)
    }

    /// The value, or an error, which is a constant.
    #[track_caller]
    pub fn ok_or(&self, error: &dyn Display) -> ResultValue<V> {
        ResultValue::of(self.is_some(), error, self.inside())
    }

    /// The value; without one it is a fault, and ends the work item.
    #[track_caller]
    pub fn unwrap(&self) -> V {
        let number = message(Location::caller(), "called `Option::unwrap()` on a `None` value");
        if_none(self.mark.read(), || {
            fault(&number.to_string());
            go_to_end(true);
        });
        self.value.read()
    }
}
