//! Values of a staged kernel: [`Expr`], a number in the text, and what is made of numbers.

use super::facts::is_constant;
use super::team;
use super::writer::{Piece, name, say};
use std::marker::PhantomData;
use std::rc::Rc;

/// A type of Rust that a staged kernel may use, and what stands for its values in the second function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no form in the text for devices",
    label = "numbers, `bool`, tuples, arrays, structs with `#[derive(Staged)]` and views have one"
)]
pub trait Stage {
    /// What stands for a value.
    type Value: Value;
}

/// A type whose values can be variables of the text.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a variable in the text for devices",
    label = "numbers, `bool`, tuples, arrays and structs with `#[derive(Staged)]` can"
)]
pub trait Plain: Stage<Value: Variable> + Copy + 'static {
    /// A constant of the program.
    fn constant(self) -> Self::Value;
}

/// A value that a variable can have.
pub trait Variable: Value {
    /// The declaration of a variable, such as `float x[3]`.
    fn declaration(name: &str) -> String;
    /// The name of the type of parameters and elements.
    fn c_name() -> String;
    /// The value in a variable, a member or an element. `place`: it may change.
    fn at(path: String, place: bool) -> Self;
    /// From an element of [`c_name`](Variable::c_name)'s type to the value's path.
    fn unwrapped(path: String) -> String {
        path
    }
}

/// A value, or a place that has one, in the second function.
pub trait Value: Clone + 'static {
    /// The value as it is now: it does not change with the place.
    fn read(&self) -> Self;
    /// A name for a value.
    fn named(self, hint: &str) -> Self;
    /// A variable with this value.
    fn variable(self, hint: &str) -> Self;
    /// A variable without a value.
    fn unset(hint: &str) -> Self;
    /// Writes a place.
    fn assign(&self, from: &Self);
    /// The value of what does not return.
    fn never() -> Self;
    /// One of two values, if both have been computed and are numbers.
    fn select(_condition: &Expr<bool>, _then: &Self, _otherwise: &Self) -> Option<Self> {
        None
    }
}

/// A value, and a mark that says whether it counts.
#[derive(Clone)]
pub struct Marked<M, V> {
    pub(super) mark: Expr<M>,
    pub(super) value: V,
}

impl<M: Scalar, V: Value> Value for Marked<M, V> {
    fn read(&self) -> Self {
        Marked { mark: self.mark.read(), value: self.value.read() }
    }
    fn named(self, hint: &str) -> Self {
        Marked { mark: self.mark.named("mark"), value: self.value.named(hint) }
    }
    fn variable(self, hint: &str) -> Self {
        Marked { mark: self.mark.variable("mark"), value: self.value.variable(hint) }
    }
    fn unset(hint: &str) -> Self {
        Marked { mark: Expr::unset("mark"), value: V::unset(hint) }
    }
    #[track_caller]
    fn assign(&self, from: &Self) {
        self.mark.assign(&from.mark);
        self.value.assign(&from.value);
    }
    fn never() -> Self {
        Marked { mark: Expr::never(), value: V::never() }
    }
}

/// A number or a `bool` of the text. It is small and plain, so that a second function is little code.
pub struct Expr<T> {
    text: Piece,
    place: bool,
    of: PhantomData<T>,
}

impl<T> Clone for Expr<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Expr<T> {}

/// A type of one C variable.
pub trait Scalar: Plain + Stage<Value = Expr<Self>> {
    /// Its name in C.
    const C: &'static str;
    /// A value of it in C.
    fn literal(self) -> String;
}

impl<T: Scalar> Expr<T> {
    /// A value that does not change.
    #[inline(never)]
    pub(super) fn value(text: impl AsRef<str>) -> Expr<T> {
        Expr { text: Piece::new(text.as_ref()), place: false, of: PhantomData }
    }

    /// The text of its place.
    pub(super) fn path(&self) -> Rc<str> {
        self.text.get()
    }

    /// The text of its value now.
    pub(super) fn text(&self) -> Rc<str> {
        self.read().text.get()
    }

    /// True if it is a literal other than 0.
    pub(super) fn is_literal(&self) -> bool {
        let text = self.text.get();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        !self.place && digits.parse::<u64>().is_ok_and(|value| value != 0)
    }

    /// Its value, if it is a literal.
    pub(super) fn as_index(&self) -> Option<usize> {
        (!self.place)
            .then(|| self.text.get().trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok())?
    }
}

impl<T: Scalar> Value for Expr<T> {
    #[inline(never)]
    fn read(&self) -> Self {
        match self.place {
            false => *self,
            true => Expr::<T>::value(self.text.get()).named_always("t"),
        }
    }

    #[inline(never)]
    fn named(self, hint: &str) -> Self {
        let simple = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        match !self.place && self.text.get().chars().all(simple) {
            true => self,
            false => self.named_always(hint),
        }
    }

    #[inline(never)]
    fn variable(self, hint: &str) -> Self {
        if self.text.get().is_empty() {
            return Self::unset(hint);
        }
        let name = name(hint);
        say(&format!("{} = {};", Self::declaration(&name), self.text.get()));
        Self::at(name, true)
    }

    #[inline(never)]
    fn unset(hint: &str) -> Self {
        let name = name(hint);
        say(&format!("{} = 0;", Self::declaration(&name)));
        Self::at(name, true)
    }

    #[inline(never)]
    #[track_caller]
    fn assign(&self, from: &Self) {
        let (to, from) = (self.text.get(), from.text.get());
        let store = format!("{to} = {from};");
        if !from.is_empty() && !team::stored_by_one(&to, &store) {
            say(&store);
        }
    }

    fn never() -> Self {
        Expr::value("")
    }

    fn select(condition: &Expr<bool>, then: &Self, otherwise: &Self) -> Option<Self> {
        let there = !then.text.get().is_empty() && !otherwise.text.get().is_empty();
        (there && !then.place && !otherwise.place).then(|| {
            Expr::value(format!(
                "({} ? {} : {})",
                condition.text.get(),
                then.text.get(),
                otherwise.text.get()
            ))
        })
    }
}

impl<T: Scalar> Expr<T> {
    fn named_always(self, hint: &str) -> Self {
        if self.text.get().is_empty() {
            return self;
        }
        let name = name(hint);
        let text = self.text.get();
        say(&format!("const {} = {text};", Self::declaration(&name)));
        is_constant(&name, &text);
        Expr::value(name)
    }

    /// The value of a function that may note a fault: computed here, once.
    pub(super) fn now(text: String) -> Self {
        Expr::<T>::value(text).named_always("t")
    }
}

impl<T: Scalar> Variable for Expr<T> {
    fn declaration(name: &str) -> String {
        format!("{} {name}", T::C)
    }
    fn c_name() -> String {
        T::C.to_owned()
    }
    fn at(path: String, place: bool) -> Self {
        Expr { text: Piece::new(&path), place, of: PhantomData }
    }
}
