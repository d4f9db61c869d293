//! From parsed text to a program.

mod arithmetic;
mod body;
mod control;
mod memory;

use super::Failure;
use super::code::{Function, Program};
use super::parse::{self, Module, Space, Statement, Variable};
use body::Body;
pub(crate) use memory::extend;
use std::collections::HashMap;

/// The meaning of names of the module.
#[derive(Default)]
pub(super) struct Names<'a> {
    /// Addresses of `.global` and `.const` variables.
    addresses: HashMap<&'a str, u64>,
    /// Offsets of `.shared` ones; None: of dynamic size.
    shared: HashMap<&'a str, Option<usize>>,
    /// Numbers of functions.
    functions: HashMap<&'a str, usize>,
}

/// Decodes a module whose variables have these addresses.
pub(crate) fn decode<'a>(module: &Module<'a>, addresses: HashMap<&'a str, u64>) -> Result<Program, Failure> {
    let mut names = Names { addresses, ..Names::default() };
    let mut shared = 0;
    let outside = module.variables.iter().filter(|variable| variable.space == Space::Shared);
    let functions = module.functions.iter().filter(|function| !function.entry);
    for variable in outside.chain(functions.flat_map(shared_of)) {
        let at = (variable.size > 0).then(|| place(&mut shared, variable));
        names.shared.insert(variable.name, at);
    }
    let mut program = Program::default();
    // A declaration and a definition of a function have one number: the definition's.
    let defined: Vec<&parse::Function<'a>> =
        module.functions.iter().filter(|function| function.body.is_some()).collect();
    for (number, function) in defined.iter().enumerate() {
        names.functions.insert(function.name, number);
        program.functions.push(layout(function));
    }
    for (number, function) in defined.into_iter().enumerate() {
        let mut own = shared;
        let mut offsets = HashMap::new();
        if function.entry {
            for variable in shared_of(function) {
                offsets.insert(variable.name, place(&mut own, variable));
            }
        }
        program.functions[number].shared = own;
        Body::new(&names, function, offsets, &mut program, number).decode()?;
    }
    Ok(program)
}

fn shared_of<'m, 'a>(function: &'m parse::Function<'a>) -> impl Iterator<Item = &'m Variable<'a>> {
    function.body.iter().flatten().filter_map(|(statement, _)| match statement {
        Statement::Variable(variable) if variable.space == Space::Shared => Some(variable),
        _ => None,
    })
}

/// The offset of a variable after the earlier ones; adds its size.
pub(super) fn place(size: &mut usize, variable: &Variable<'_>) -> usize {
    let at = size.next_multiple_of(variable.align.max(1));
    *size = at + variable.size;
    at
}

/// The layout of parameters and results.
fn layout(function: &parse::Function<'_>) -> Function {
    let mut local = 0;
    let mut of = |all: &[Variable<'_>]| -> Vec<(usize, usize)> {
        all.iter().map(|variable| (place(&mut local, variable), variable.size)).collect()
    };
    let (parameters, results) = (of(&function.parameters), of(&function.results));
    Function {
        name: function.name.to_owned(),
        entry: function.entry,
        start: 0,
        slots: 0,
        constants: Vec::new(),
        local: if function.entry { 0 } else { local },
        parameters,
        results,
        shared: 0,
        most_threads: function.most_threads,
    }
}
