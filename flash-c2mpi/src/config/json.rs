//! JSON with places: what is wrong is reported with its line and column.

use flash_backend::settings::distance;
use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use std::fmt;

/// What is wrong, or worth knowing, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// Expected, found, what to do.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// A text, and the faults that were found in it so far.
pub struct Reader<'t> {
    text: &'t str,
    pub faults: Vec<Fault>,
    pub warnings: Vec<Fault>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Reader<'t> {
        Reader { text, faults: Vec::new(), warnings: Vec::new() }
    }

    /// The text's value; `None`: it is no JSON, which is a fault then.
    pub fn parse(&mut self) -> Option<Value<'t>> {
        // It bounds the depth, which the parser with places does not, and takes JSON alone.
        if let Err(error) = serde_json::from_str::<serde_json::Value>(self.text) {
            let words = error.to_string();
            let words = words.split(" at line ").next().unwrap_or_default();
            let fault = Fault {
                line: error.line().max(1),
                column: error.column().max(1),
                text: format!("expected JSON: {words}"),
            };
            self.faults.push(fault);
            return None;
        }
        let options = ParseOptions {
            allow_comments: false,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
        };
        match parse_to_ast(self.text, &CollectOptions::default(), &options) {
            Ok(parsed) if parsed.value.is_some() => parsed.value,
            Ok(_) => {
                self.fault_at(0, "expected JSON: an object");
                None
            }
            Err(error) => {
                self.fault_at(error.range().start, format!("expected JSON: {}", error.kind()));
                None
            }
        }
    }

    /// Notes a fault at a place of the text.
    pub fn fault(&mut self, at: &impl Ranged, text: impl Into<String>) {
        self.fault_at(at.start(), text);
    }

    fn fault_at(&mut self, at: usize, text: impl Into<String>) {
        let fault = self.at(at, text);
        self.faults.push(fault);
    }

    /// Notes what is no fault.
    pub fn warn(&mut self, at: &impl Ranged, text: impl Into<String>) {
        let warning = self.at(at.start(), text);
        self.warnings.push(warning);
    }

    fn at(&self, at: usize, text: impl Into<String>) -> Fault {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault { line, column, text: text.into() }
    }

    /// The members of an object that have known names, each once. Others are faults.
    pub fn members<'o>(
        &mut self,
        object: &'o Object<'t>,
        what: &str,
        known: &[&str],
    ) -> Vec<(&'o str, &'o ObjectProp<'t>)> {
        let mut members: Vec<(&str, &ObjectProp<'t>)> = Vec::new();
        for member in &object.properties {
            let name = member.name.as_str();
            if members.iter().any(|(before, _)| *before == name) {
                self.fault(member, format!("{what} has `{name}` twice"));
            } else if known.contains(&name) {
                members.push((name, member));
            } else {
                let nearest = known.iter().min_by_key(|known| distance(known, name));
                let near = nearest.filter(|near| distance(near, name) <= 2);
                let near = near.map_or(String::new(), |near| format!(": `{near}`?"));
                let text =
                    format!("expected a member of {what} ({}), found `{name}`{near}", known.join(", "));
                self.fault(member, text);
            }
        }
        members
    }

    /// The objects of an array.
    pub fn objects<'o>(&mut self, value: &'o Value<'t>, what: &str) -> Vec<&'o Object<'t>> {
        let Some(array) = self.array(value, what) else { return Vec::new() };
        let mut objects = Vec::new();
        for element in &array.elements {
            match element.as_object() {
                Some(object) => objects.push(object),
                None => self.fault(element, format!("expected an object in {what}, found {}", kind(element))),
            }
        }
        objects
    }

    /// An array.
    pub fn array<'o>(&mut self, value: &'o Value<'t>, what: &str) -> Option<&'o Array<'t>> {
        let array = value.as_array();
        if array.is_none() {
            self.fault(value, format!("{what}: expected an array, found {}", kind(value)));
        }
        array
    }

    /// A text that is not empty.
    pub fn text(&mut self, value: &Value<'t>, what: &str) -> Option<String> {
        match value.as_string_lit() {
            Some(text) if !text.value.trim().is_empty() => Some(text.value.to_string()),
            Some(_) => {
                self.fault(value, format!("{what}: expected a text, found an empty one"));
                None
            }
            None => {
                self.fault(value, format!("{what}: expected a text, found {}", kind(value)));
                None
            }
        }
    }

    /// A whole number of a range, as a number or as a text of one.
    pub fn number(&mut self, value: &Value<'t>, what: &str, most: u32) -> Option<u32> {
        let text = match value {
            Value::NumberLit(number) => number.value,
            Value::StringLit(text) => &text.value,
            _ => "",
        };
        match text.parse() {
            Ok(number) if (1..=most).contains(&number) => Some(number),
            _ => {
                let found = value.text(self.text);
                self.fault(value, format!("{what}: expected a whole number from 1 to {most}, found {found}"));
                None
            }
        }
    }
}

/// What a value is, for messages.
pub fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a text",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "true or false",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}
