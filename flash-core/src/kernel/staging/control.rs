//! Control flow of the second function: blocks are closures, what they say becomes the text between braces.

use super::facts::stays_below;
use super::memory::Indexed;
use super::number::Integer;
use super::value::{Expr, Value};
use super::writer::{
    block, captured, enter, fault, go_to_end, group_arrays, jump, keep_group_arrays, leave, looped, message,
    name, returned, say,
};
use std::panic::Location;

/// `if condition { then } else { otherwise }`.
pub fn branch<V: Value>(condition: Expr<bool>, then: impl FnOnce() -> V, otherwise: impl FnOnce() -> V) -> V {
    let condition = condition.read();
    let (a, then) = captured(|| then().read());
    let (b, otherwise) = captured(|| otherwise().read());
    if then.is_empty()
        && otherwise.is_empty()
        && let Some(both) = V::select(&condition, &a, &b)
    {
        return both;
    }
    let result = V::unset("v");
    let assigned = |said: String, value: &V| said + &captured(|| result.assign(value)).1;
    let (then, otherwise) = (assigned(then, &a), assigned(otherwise, &b));
    let head = format!("if ({})", condition.text());
    match otherwise.is_empty() {
        true => block(&head, &then, ""),
        false => {
            let inside = then + "} else {\n" + &otherwise;
            block(&head, &inside, "");
        }
    }
    result
}

/// `while condition { body }`.
pub fn while_loop(condition: impl FnOnce() -> Expr<bool>, body: impl FnOnce()) {
    let (condition, said) = captured(|| condition().read());
    let (_, body) = looped(body);
    let condition = condition.text();
    match said.is_empty() {
        true => block(&format!("while ({condition})"), &body, ""),
        false => {
            block("for (;;)", &format!("{said}if (!{condition})\nbreak;\n{body}"), "");
        }
    }
}

/// `loop { body }`.
pub fn endless(body: impl FnOnce()) {
    let (_, body) = looped(body);
    block("for (;;)", &body, "");
}

/// The values of a `for`.
pub struct Steps<T> {
    begin: Expr<T>,
    end: Expr<T>,
    inclusive: bool,
    reversed: bool,
    by: Option<Expr<usize>>,
}

/// `begin..end`, or `begin..=end`.
pub fn range<T: Integer>(begin: Expr<T>, end: Expr<T>, inclusive: bool) -> Steps<T> {
    let (begin, end) = (begin.read().named("begin"), end.read().named("end"));
    Steps { begin, end, inclusive, reversed: false, by: None }
}

impl<T: Integer> Steps<T> {
    /// From the last to the first.
    #[track_caller]
    pub fn rev(self) -> Steps<T> {
        if self.by.is_some() {
            super::writer::error(
                "`.step_by(..).rev()` has no text: write `.rev().step_by(..)`, or a `while`",
            );
        }
        Steps { reversed: true, ..self }
    }

    /// Every `by`th, from the first on.
    #[track_caller]
    pub fn step_by(self, by: Expr<usize>) -> Steps<T> {
        let by = by.read().named("by");
        if !by.is_literal() {
            let number = message(Location::caller(), "a step of 0");
            say(&format!("if ({} == 0) {{", by.text()));
            fault(&number.to_string());
            go_to_end(true);
            say("}");
        }
        Steps { by: Some(by), ..self }
    }
}

/// Most turns of a loop that are written one by one, and bytes of their text.
const TURNS: usize = 16;
const TURNS_TEXT: usize = 16_384;

impl<T: Integer> Steps<T> {
    /// The values, if they are few and known.
    fn values(&self) -> Option<Vec<Expr<T>>> {
        let Steps { begin, end, inclusive, reversed, by } = self;
        let (first, end) = (begin.as_index()?, end.as_index()?);
        let by = by.map_or(Some(1), |by| by.as_index()).filter(|by| *by > 0)?;
        let end = end.checked_add(usize::from(*inclusive))?;
        let count = end.saturating_sub(first);
        if count.div_ceil(by) > TURNS {
            return None;
        }
        // With the suffix that literals of the type have.
        let text = begin.text();
        let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let value = |i: usize| Expr::value(format!("{i}{suffix}"));
        let steps = (0..count).step_by(by);
        Some(match reversed {
            true => steps.map(|i| value(end - 1 - i)).collect(),
            false => steps.map(|i| value(first + i)).collect(),
        })
    }
}

/// A turn for each value, one after the other: indices are then constants, and arrays of the kernel's own
/// variables. False: that is not how to write it.
fn turns<T: Integer>(values: &[Expr<T>], body: &mut impl FnMut(Expr<T>)) -> bool {
    let (mut turns, arrays) = (Vec::with_capacity(values.len()), group_arrays());
    for value in values {
        let (jumps, said) = looped(|| body(*value));
        // Each turn would have arrays of its own.
        if jumps.breaks || group_arrays() > arrays || said.len() * values.len() > TURNS_TEXT {
            keep_group_arrays(arrays);
            return false;
        }
        turns.push((jumps, said));
    }
    for (jumps, said) in turns {
        match jumps.continues {
            true => block("do", &said, " while (0);"),
            false => block("", &said, ""),
        }
    }
    true
}

/// `for i in steps { body }`. The counter counts items that are left, which never overflows.
pub fn for_loop<T: Integer>(steps: Steps<T>, hint: &str, mut body: impl FnMut(Expr<T>)) {
    if steps.values().is_some_and(|values| turns(&values, &mut body)) {
        return;
    }
    let Steps { begin, end, inclusive, reversed, by } = steps;
    let (begin, end, c) = (begin.text(), end.text(), T::C);
    let variable = name(hint);
    if !inclusive {
        stays_below(&variable, &end);
    }
    if !inclusive && !reversed && by.is_none() {
        let (_, body) = looped(|| body(Expr::value(&variable)));
        return block(
            &format!("for ({c} {variable} = {begin}; {variable} < {end}; ++{variable})"),
            &body,
            "",
        );
    }
    let (left, wraps) = (name("left"), T::WRAPS.unwrap_or(T::C));
    let (comparison, more) = if inclusive { ("<=", "1") } else { ("<", "0") };
    // Items after the first; of an inclusive range up to the whole range of the type.
    say(&format!(
        "flash_u64 {left} = {begin} {comparison} {end} ? (flash_u64)({wraps})(({wraps}){end} - ({wraps}){begin}) - !{more} : 0;"
    ));
    let (from, sign) = if reversed {
        (format!("({c})(({wraps}){begin} + ({wraps}){left})"), "-")
    } else {
        (begin.to_string(), "+")
    };
    let by = by.map_or("1ul".to_owned(), |by| by.text().to_string());
    let value = name("i");
    let (_, body) = looped(|| body(Expr::value(&variable)));
    let inside = format!("const {c} {variable} = {value};\n{body}");
    // The step is taken at the end, also after a `continue`.
    block(
        &format!(
            "for ({c} {value} = {from}, {value}_more = {begin} {comparison} {end}; {value}_more; {value}_more = {left} >= {by}, {left} -= {by}, {value} = ({c})(({wraps}){value} {sign} ({wraps}){by}))"
        ),
        &inside,
        "",
    );
}

/// The elements of an array in a `for`, by value.
pub fn for_each<A: Indexed<Element: Value>, F: FnMut(A::Element)>(
    array: &A,
    length: Expr<usize>,
    hint: &str,
    mut body: F,
) {
    for_loop(range(super::literal(0), length, false), "i", |i| body(array.element(i).read().named(hint)));
}

/// `break`.
pub fn break_loop() {
    jump("break;", |jumps| jumps.breaks = true);
}

/// `continue`.
pub fn continue_loop() {
    jump("continue;", |jumps| jumps.continues = true);
}

/// The value of an expression that does not return, such as `return` behind `else`.
pub fn never<V: Value>() -> V {
    V::never()
}

/// A function, or the kernel itself. Its text stands where it is called.
#[track_caller]
pub fn function<V: Value>(body: impl FnOnce() -> V) -> V {
    framed(false, body)
}

/// What computes one value of a team's operation.
#[track_caller]
pub(super) fn cell<V: Value>(body: impl FnOnce() -> V) -> V {
    framed(true, body)
}

#[track_caller]
fn framed<V: Value>(is_cell: bool, body: impl FnOnce() -> V) -> V {
    let (value, said) = match enter(is_cell) {
        true => captured(|| body().read()),
        false => (V::never(), String::new()),
    };
    let ended = leave::<V>();
    if !ended.returns {
        say(said.trim_end_matches('\n'));
        return value;
    }
    say(ended.declarations.trim_end_matches('\n'));
    let result = match ended.result {
        Some(result) => result,
        // A value that could not be computed is one all the same.
        None if is_cell => V::unset("value"),
        None => V::never(),
    };
    let ((), assigned) = captured(|| result.assign(&value));
    // The label stands behind all variables of the function.
    block("", &(said + &assigned), &format!("\nend_{}:;", ended.label));
    result
}

/// `return value`.
pub fn return_value<V: Value>(value: V) {
    let value = value.read();
    let result = returned(|| V::unset("result"));
    result.assign(&value);
    go_to_end(false);
}
