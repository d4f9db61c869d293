//! The views of a staged kernel that all work items write: accumulators and atomic operations.

use super::memory::{element, handles, length};
use super::number::Number;
use super::team::{not_of_a_team, once_for_all, store};
use super::value::{Expr, Plain, Stage, Value, Variable};
use super::writer::{define, error};
use super::{literal, ops};
use crate::kernel::views::{Accumulator, AtomicElement, Max, Min, ScatterView, Sum};
use std::marker::PhantomData;
use std::rc::Rc;

handles! {
    [C: ?Sized + 'static, Op: 'static] AccumulatorValue<C, Op>;
    [T: Plain] ScatterValue<T>;
}

impl<C: ?Sized + 'static, Op: 'static> Stage for Accumulator<'_, C, Op> {
    type Value = AccumulatorValue<C, Op>;
}

impl<T: Plain> Stage for ScatterView<'_, T> {
    type Value = ScatterValue<T>;
}

/// An operation of accumulators.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no text for devices",
    label = "`Sum`, `Min` and `Max` of numbers have one"
)]
pub trait Combine<T: Number>: 'static {
    /// The value of both.
    fn combined(a: Expr<T>, b: Expr<T>) -> Expr<T>;
}

impl<T: Number> Combine<T> for Sum {
    fn combined(a: Expr<T>, b: Expr<T>) -> Expr<T> {
        ops::add(a, b)
    }
}

impl<T: Number> Combine<T> for Min {
    fn combined(a: Expr<T>, b: Expr<T>) -> Expr<T> {
        extreme(a, b, "<", "!signbit(B)")
    }
}

impl<T: Number> Combine<T> for Max {
    fn combined(a: Expr<T>, b: Expr<T>) -> Expr<T> {
        extreme(a, b, ">", "signbit(B)")
    }
}

/// As on the CPU: 0.0 is more than -0.0, and a NaN stays. `first_of_zeros`: whether the result is `a` where
/// both are 0, as a condition on `B`.
fn extreme<T: Number>(a: Expr<T>, b: Expr<T>, operator: &str, first_of_zeros: &str) -> Expr<T> {
    let (a, b) = (a.read().named("a").text(), b.read().named("b").text());
    Expr::value(match T::WRAPS {
        Some(_) => format!("({b} {operator} {a} ? {b} : {a})"),
        None => {
            let zeros = first_of_zeros.replace('B', &b);
            format!("({a} {operator} {b} || {a} != {a} || ({a} == {b} && {zeros}) ? {a} : {b})")
        }
    })
}

/// A `Reduce`.
pub struct AccumulatorValue<C: ?Sized, Op> {
    pub(super) name: Rc<str>,
    pub(super) of: PhantomData<(PhantomData<C>, Op)>,
}

impl<C: ?Sized, Op> Clone for AccumulatorValue<C, Op> {
    fn clone(&self) -> Self {
        AccumulatorValue { name: self.name.clone(), of: PhantomData }
    }
}

impl<C: ?Sized, Op> AccumulatorValue<C, Op> {
    fn nothing() -> Self {
        AccumulatorValue { name: "".into(), of: PhantomData }
    }

    fn combine<T: Number>(&self, i: &Expr<usize>, value: &Expr<T>)
    where
        Op: Combine<T>,
    {
        not_of_a_team("`Reduce`");
        let place = Expr::<T>::at(format!("FLASH_REDUCE({}, {})", self.name, i.text()), true);
        place.assign(&Op::combined(place.read(), value.read()));
    }
}

impl<T: Number, Op: Combine<T>> AccumulatorValue<T, Op> {
    /// Puts in a value.
    pub fn put(&self, value: Expr<T>) {
        self.combine(&literal(0), &value);
    }
}

impl<T: Number, Op: Combine<T>> AccumulatorValue<[T], Op> {
    /// Puts a value into accumulator `i`.
    pub fn put(&self, i: Expr<usize>, value: Expr<T>) {
        self.combine(&i.read().named("at"), &value);
    }

    /// Number of accumulators.
    pub fn len(&self) -> Expr<usize> {
        length(&self.name)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> Expr<bool> {
        ops::eq(self.len(), literal(0))
    }
}

/// A `Scatter`.
pub struct ScatterValue<T> {
    pub(super) name: Rc<str>,
    pub(super) of: PhantomData<T>,
}

impl<T> Clone for ScatterValue<T> {
    fn clone(&self) -> Self {
        ScatterValue { name: self.name.clone(), of: PhantomData }
    }
}

impl<T> ScatterValue<T> {
    fn nothing() -> Self {
        ScatterValue { name: "".into(), of: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> Expr<usize> {
        length(&self.name)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> Expr<bool> {
        ops::eq(self.len(), literal(0))
    }
}

impl<T: Plain> ScatterValue<T> {
    /// Element `i` now.
    #[track_caller]
    pub fn load(&self, i: Expr<usize>) -> T::Value {
        once_for_all("`load`");
        element::<T>(&self.name, &i.read().named("at").text()).read()
    }

    /// Replaces element `i`.
    #[track_caller]
    pub fn store(&self, i: Expr<usize>, value: T::Value) {
        once_for_all("`store`");
        let place = element::<T>(&self.name, &i.read().named("at").text());
        store(&place, &value);
    }
}

impl<T: Number + AtomicElement> ScatterValue<T> {
    /// Adds to element `i`; the old value.
    #[track_caller]
    pub fn add(&self, i: Expr<usize>, value: Expr<T>) -> Expr<T> {
        let sum = ops::add(Expr::value("was"), Expr::<T>::value("value"));
        self.update("add", &sum.text(), &i, &value)
    }

    /// Replaces element `i` by the smaller of both; the old value.
    #[track_caller]
    pub fn min(&self, i: Expr<usize>, value: Expr<T>) -> Expr<T> {
        self.update("min", "(value < was ? value : was)", &i, &value)
    }

    /// Replaces element `i` by the larger of both; the old value.
    #[track_caller]
    pub fn max(&self, i: Expr<usize>, value: Expr<T>) -> Expr<T> {
        self.update("max", "(value > was ? value : was)", &i, &value)
    }

    /// Replaces element `i`; the old value.
    #[track_caller]
    pub fn swap(&self, i: Expr<usize>, value: Expr<T>) -> Expr<T> {
        self.update("swap", "value", &i, &value)
    }

    /// A loop that compares and exchanges, as on the CPU.
    #[track_caller]
    fn update(&self, name: &str, now: &str, i: &Expr<usize>, value: &Expr<T>) -> Expr<T> {
        once_for_all(&format!("`{name}`"));
        define(EXCHANGES.to_owned());
        let (c, bits) = (T::C, T::BITS);
        let function = format!("flash_atomic_{name}_{}", T::NAME);
        let (word, exchange) = match bits {
            32 => ("flash_u32", "flash_exchange32"),
            _ => ("flash_u64", "flash_exchange64"),
        };
        define(format!(
            "typedef union {{ {c} value; {word} word; }} flash_word_{rust};
FLASH_FUNCTION {c} {function}(FLASH_GLOBAL {c} *place, {c} value) {{
    flash_word_{rust} before, after;
    {word} found;
    before.value = *(volatile FLASH_GLOBAL {c} *)place;
    for (;;) {{
        const {c} was = before.value;
        after.value = {now};
        found = {exchange}(place, before.word, after.word);
        if (found == before.word)
            return was;
        before.word = found;
    }}
}}
",
            rust = format!("{}_{name}", T::NAME),
        ));
        let at = i.read().named("at").text();
        Expr::now(format!("{function}(&FLASH_AT({}, {at}), {})", self.name, value.text()))
    }
}

const EXCHANGES: &str = "\
#ifdef __OPENCL_VERSION__
#define flash_exchange32(place, was, now) atomic_cmpxchg((volatile __global uint *)(place), was, now)
#define flash_exchange64(place, was, now) atom_cmpxchg((volatile __global ulong *)(place), was, now)
#else
#define flash_exchange32(place, was, now) atomicCAS((flash_u32 *)(place), was, now)
#define flash_exchange64(place, was, now) atomicCAS((flash_u64 *)(place), was, now)
#endif
";
