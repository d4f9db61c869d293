//! The names of variables: any other name of a body is one of the program's, a constant or a function.

use std::collections::HashSet;
use syn::{Expr, Ident};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Value,
    /// A reference: the place that it is to.
    Lent,
    Closure,
    /// A team: its operations take closures.
    Team,
}

/// The variables that are visible.
#[derive(Default)]
pub struct Scope {
    blocks: Vec<Vec<(String, Kind)>>,
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
        self.insert(name, Kind::Value);
    }

    /// Adds a variable that is a closure.
    pub fn add_closure(&mut self, name: &Ident) {
        self.insert(name, Kind::Closure);
    }

    /// Adds a team.
    pub fn add_team(&mut self, name: &Ident) {
        self.insert(name, Kind::Team);
    }

    /// Adds a reference.
    pub fn lend(&mut self, name: &Ident) {
        self.insert(name, Kind::Lent);
    }

    fn insert(&mut self, name: &Ident, kind: Kind) {
        if self.blocks.is_empty() {
            self.enter();
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push((name.to_string(), kind));
        }
    }

    /// What a name stands for, if it is a variable.
    fn find(&self, name: &Ident) -> Option<Kind> {
        let mut names = self.blocks.iter().rev().flat_map(|block| block.iter().rev());
        names.find(|(known, _)| name == known).map(|(_, kind)| *kind)
    }

    /// The variable that an expression names.
    pub fn variable<'e>(&self, expression: &'e Expr) -> Option<&'e Ident> {
        name(expression).filter(|name| matches!(self.find(name), Some(Kind::Value | Kind::Lent | Kind::Team)))
    }

    /// Whether an expression names a reference.
    pub fn is_lent(&self, expression: &Expr) -> bool {
        name(expression).is_some_and(|name| matches!(self.find(name), Some(Kind::Lent | Kind::Team)))
    }

    /// Whether an expression names a team.
    pub fn is_team(&self, expression: &Expr) -> bool {
        name(expression).is_some_and(|name| self.find(name) == Some(Kind::Team))
    }

    /// The closure that an expression names.
    pub fn closure<'e>(&self, expression: &'e Expr) -> Option<&'e Ident> {
        name(expression).filter(|name| self.find(name) == Some(Kind::Closure))
    }
}

/// The plain name that an expression is.
fn name(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        _ => None,
    }
}
