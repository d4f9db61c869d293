//! The names of variables: any other name of a body is one of the program's, a constant or a function.

use std::collections::HashSet;
use syn::{Expr, Ident};

/// The variables that are visible.
#[derive(Default)]
pub struct Scope {
    blocks: Vec<Vec<(String, bool)>>,
    /// The function's type parameters.
    pub types: HashSet<String>,
}

impl Scope {
    /// Begins a block.
    pub fn enter(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Ends the innermost block.
    pub fn leave(&mut self) {
        self.blocks.pop();
    }

    /// Adds a variable.
    pub fn add(&mut self, name: &Ident) {
        self.insert(name, false);
    }

    /// Adds a variable that is a closure.
    pub fn add_closure(&mut self, name: &Ident) {
        self.insert(name, true);
    }

    fn insert(&mut self, name: &Ident, closure: bool) {
        if self.blocks.is_empty() {
            self.enter();
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push((name.to_string(), closure));
        }
    }

    /// Whether a name is a variable, and whether that is a closure.
    fn find(&self, name: &Ident) -> Option<bool> {
        let mut names = self.blocks.iter().rev().flat_map(|block| block.iter().rev());
        names.find(|(known, _)| name == known).map(|(_, closure)| *closure)
    }

    /// The variable that an expression names.
    pub fn variable<'e>(&self, expression: &'e Expr) -> Option<&'e Ident> {
        name(expression).filter(|name| self.find(name) == Some(false))
    }

    /// The closure that an expression names.
    pub fn closure<'e>(&self, expression: &'e Expr) -> Option<&'e Ident> {
        name(expression).filter(|name| self.find(name) == Some(true))
    }
}

/// The plain name that an expression is.
fn name(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}
