//! What a launch can prove before it: facts of its index space, its arrays and its scalars, by which the text
//! leaves checks out.
//!
//! A text says what would have to hold, with one line for each fact, and uses macros that check nothing where
//! `FLASH_SURE` is defined. The host compares the facts with each launch
//! (`flash-backend/src/offload/facts.rs`, which has their form), and takes the program with `FLASH_SURE` only
//! where all hold.

use super::writer::with;
use std::collections::HashMap;

/// What is known of the text's names, and the facts that it uses.
#[derive(Default)]
pub(super) struct Facts {
    /// Values of variables that do not change, by their names.
    constants: HashMap<String, String>,
    /// Counters of loops, and what each is less than.
    below: HashMap<String, String>,
    /// Arguments of the definition, by their names in the text.
    arguments: HashMap<String, String>,
    /// The facts, in the order of the text.
    pub list: Vec<String>,
}

/// The longest value that is looked into.
const LONGEST: usize = 120;

/// A variable has this value, which does not change.
pub(super) fn is_constant(variable: &str, value: &str) {
    if value.len() <= LONGEST {
        with(|writer| writer.facts.constants.insert(variable.to_owned(), value.to_owned()));
    }
}

/// A name of the text is that of an argument.
pub(super) fn is_argument(name: &str, argument: &str) {
    with(|writer| writer.facts.arguments.insert(name.to_owned(), argument.to_owned()));
}

/// The name in the text of an argument that stands before.
pub(super) fn name_of(argument: &str) -> String {
    with(|writer| {
        let found = writer.facts.arguments.iter().find(|(_, of)| *of == argument);
        found.map_or_else(|| argument.to_owned(), |(name, _)| name.clone())
    })
}

/// In all of its values a variable is less than another value.
pub(super) fn stays_below(variable: &str, end: &str) {
    with(|writer| writer.facts.below.insert(variable.to_owned(), end.to_owned()));
}

/// What a variable is always less than: a value's text, or that of an array's length.
pub(super) fn below(variable: &str) -> Option<String> {
    with(|writer| {
        let Facts { below, constants, .. } = &writer.facts;
        let end = below.get(variable)?;
        let length = constants.get(end).filter(|value| value.starts_with("FLASH_LEN("));
        Some(length.unwrap_or(end).clone())
    })
}

/// An index of a work item, by its dimension, and what is added to it; without a dimension a number.
#[derive(Clone, Copy)]
struct Near {
    dimension: Option<usize>,
    offset: i64,
}

/// A number of the text.
fn number(text: &str) -> Option<i64> {
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// The text inside parentheses around all of it.
fn inside(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0_i32;
    let closes = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    };
    (!inside.chars().any(closes)).then_some(inside)
}

/// Both sides of the last sum or difference of a text without parentheses around it, and the sign.
fn terms(text: &str) -> Option<(&str, i64, &str)> {
    let mut depth = 0_i32;
    let at = text.char_indices().rev().find(|&(at, c)| {
        depth += i32::from(c == ')') - i32::from(c == '(');
        depth == 0 && (c == '+' || c == '-') && text[..at].ends_with(' ') && text[at + 1..].starts_with(' ')
    });
    let (at, sign) = at?;
    Some((&text[..at - 1], if sign == '+' { 1 } else { -1 }, &text[at + 2..]))
}

impl Facts {
    fn near(&self, text: &str, work_item: &[std::rc::Rc<str>], depth: usize) -> Option<Near> {
        if depth == 0 {
            return None;
        }
        if let Some(offset) = number(text) {
            return Some(Near { dimension: None, offset });
        }
        if let Some(dimension) = work_item.iter().position(|index| **index == *text) {
            return Some(Near { dimension: Some(dimension), offset: 0 });
        }
        if let Some(value) = self.constants.get(text) {
            return self.near(value, work_item, depth - 1);
        }
        let (a, sign, b) = terms(inside(text)?)?;
        let (a, b) = (self.near(a, work_item, depth - 1)?, self.near(b, work_item, depth - 1)?);
        let dimension = match (a.dimension, b.dimension, sign) {
            (dimension, None, _) | (None, dimension, 1) => dimension,
            _ => return None,
        };
        Some(Near { dimension, offset: a.offset.checked_add(sign * b.offset)? })
    }

    fn say(&mut self, fact: String) {
        if !self.list.contains(&fact) {
            self.list.push(fact);
        }
    }
}

/// Says that an index along an axis of an array's shape is in its part: `axis` 0 to 2, or 3 for the number of
/// an element. False: nothing like that can be said.
pub(super) fn has(array: &str, axes: &[(usize, &str)]) -> bool {
    with(|writer| {
        let facts = &mut writer.facts;
        let Some(argument) = facts.arguments.get(array).cloned() else { return false };
        let near: Option<Vec<(usize, Near)>> =
            axes.iter().map(|(axis, text)| Some((*axis, facts.near(text, &writer.work_item, 8)?))).collect();
        let Some(near) = near else { return false };
        for (axis, Near { dimension, offset }) in near {
            let dimension = dimension.map_or_else(|| "-".to_owned(), |dimension| dimension.to_string());
            facts.say(format!("index {argument} {axis} {dimension} {offset}"));
        }
        true
    })
}

/// Says that an array has as many elements as another, whose length is `end`. False: `end` is no length.
pub(super) fn covers(array: &str, end: &str) -> bool {
    with(|writer| {
        let facts = &mut writer.facts;
        let Some(other) = end.strip_prefix("FLASH_LEN(").and_then(|name| name.strip_suffix(')')) else {
            return false;
        };
        let arguments = facts.arguments.get(array).zip(facts.arguments.get(other));
        let Some(fact) = arguments.map(|(array, other)| format!("covers {array} {other}")) else {
            return false;
        };
        facts.say(fact);
        true
    })
}

/// Says that a divisor is a number from 1 to `i32::MAX`: that of a scalar, in a type of 32 bits or more.
/// False: nothing like that can be said.
pub(super) fn divides(divisor: &str) -> bool {
    const WIDE: [&str; 4] = ["flash_i64", "flash_u64", "flash_u32", "int"];
    with(|writer| {
        let facts = &mut writer.facts;
        let mut text = divisor.to_owned();
        for _ in 0..8 {
            if let Some(argument) = facts.arguments.get(&text).cloned() {
                facts.say(format!("divisor {argument}"));
                return true;
            }
            let cast = WIDE.iter().find_map(|wide| inside(&text)?.strip_prefix(&format!("({wide})")));
            text = match (cast, facts.constants.get(&text)) {
                (Some(inner), _) => inner.to_owned(),
                (None, Some(value)) => value.clone(),
                (None, None) => return false,
            };
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_that_of_the_work_item_and_a_number() {
        let mut facts = Facts::default();
        let work_item = ["index_2".into(), "index_3".into()];
        facts.constants.insert("x_8".into(), "((index_2 + 2ul) - 3ul)".into());
        facts.constants.insert("y_9".into(), "(4ul + x_8)".into());
        let near = |text: &str| facts.near(text, &work_item, 8).map(|near| (near.dimension, near.offset));
        assert_eq!(near("index_3"), Some((Some(1), 0)));
        assert_eq!(near("x_8"), Some((Some(0), -1)));
        assert_eq!(near("y_9"), Some((Some(0), 3)));
        assert_eq!(near("7ul"), Some((None, 7)));
        for text in ["(index_2 + index_3)", "(1ul - index_2)", "(index_2 * 2ul)", "z_1", "(index_2) + (1ul)"]
        {
            assert_eq!(near(text), None, "{text}");
        }
    }
}
