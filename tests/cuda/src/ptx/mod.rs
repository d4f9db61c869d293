//! PTX: read once into a compact form that runs quickly.

pub(crate) mod code;
mod convert;
mod decode;
mod float;
pub(crate) mod int;
mod lex;
pub(crate) mod parse;
pub(crate) mod types;

pub(crate) use decode::{decode, extend};
pub(crate) use parse::parse;

/// The reason why a text cannot be run here.
#[derive(Debug)]
pub(crate) struct Failure {
    line: u32,
    text: String,
}

impl Failure {
    pub fn new(line: u32, text: impl Into<String>) -> Failure {
        Failure { line, text: text.into() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}
