//! `Result`s of a staged kernel: a number, which is 0 or says what is wrong, and the value.
//!
//! An error is a constant of the program. Its words are one of the text's messages, whose number goes the way
//! that the error goes in the function for the CPU. Only where the kernel itself returns one is it a fault.

use super::control::{branch, return_value};
use super::ops::eq;
use super::option::{OptionValue, some_if};
use super::value::{Expr, Marked, Stage, Value};
use super::writer::{block, captured, fault, go_to_end, message};
use super::{literal, ops};
use std::fmt::Display;
use std::panic::Location;

/// A `Result`: 0, or one more than the number of a message, and the value.
pub type ResultValue<V> = Marked<u32, V>;

impl<T: Stage, E> Stage for Result<T, E> {
    type Value = ResultValue<T::Value>;
}

/// `Ok(value)`.
pub fn ok<V: Value>(value: V) -> ResultValue<V> {
    Marked { mark: literal(0), value }
}

/// `Err(error)`.
#[track_caller]
pub fn err<V: Value>(error: &dyn Display) -> ResultValue<V> {
    let number = message(Location::caller(), &error.to_string()) as u32 + 1;
    Marked { mark: literal(number), value: V::never() }
}

/// What `?` takes.
pub trait Attempt {
    /// What stands for the value inside.
    type Inside: Value;

    /// The value, or the end of a function that returns the same with a `W` inside.
    fn attempt<W: Value>(self) -> Self::Inside;
}

/// `value?` in a function that returns a `Result` or an `Option` of `W`.
#[track_caller]
pub fn attempt<W: Value, A: Attempt>(value: A) -> A::Inside {
    value.attempt::<W>()
}

impl<V: Value> Attempt for ResultValue<V> {
    type Inside = V;

    #[track_caller]
    fn attempt<W: Value>(self) -> V {
        let result = self.read().named("value");
        let mark = result.mark;
        if_wrong(mark, || return_value(Marked { mark, value: W::never() }));
        result.value
    }
}

/// What the function of a kernel returns.
#[track_caller]
pub fn settle(result: ResultValue<()>) {
    let wrong = result.mark.read();
    if_wrong(wrong, || note(wrong));
}

fn if_wrong(wrong: Expr<u32>, then: impl FnOnce()) {
    let ((), then) = captured(then);
    block(&format!("if ({} != 0u)", wrong.text()), &then, "");
}

/// The fault that an error is.
fn note(wrong: Expr<u32>) {
    fault(&format!("{} - 1u", wrong.text()));
}

impl<V: Value> ResultValue<V> {
    /// A value, or an error where a condition does not hold.
    #[track_caller]
    pub(super) fn of(is_ok: Expr<bool>, error: &dyn Display, value: V) -> Self {
        let number = message(Location::caller(), &error.to_string()) + 1;
        Marked { mark: Expr::value(format!("({} ? 0u : {number}u)", is_ok.text())), value }
    }

    /// The value alone.
    pub fn ok(&self) -> OptionValue<V> {
        some_if(self.is_ok(), self.inside())
    }

    /// True if there is a value.
    pub fn is_ok(&self) -> Expr<bool> {
        eq(self.mark.read(), literal(0))
    }

    /// True if there is none.
    pub fn is_err(&self) -> Expr<bool> {
        ops::not(self.is_ok())
    }

    /// The value, where there is one.
    pub fn inside(&self) -> V {
        self.value.read()
    }

    /// The value, or another one.
    pub fn unwrap_or(&self, other: V) -> V {
        branch(self.is_ok(), || self.value.read(), || other)
    }

    /// The value; an error is a fault, and ends the work item.
    pub fn unwrap(&self) -> V {
        let wrong = self.mark.read();
        if_wrong(wrong, || {
            note(wrong);
            go_to_end(true);
        });
        self.value.read()
    }
}
