//! A function's statements, and the meaning of operands.

use super::super::Failure;
use super::super::code::{Op, Program, Slot, Special};
use super::super::parse::{Function, Operand, Space, Statement};
use super::super::types::{Ty, mask};
use super::{Names, place};
use std::collections::HashMap;

/// The meaning of a name in a function.
#[derive(Clone, Copy)]
pub(super) enum Name {
    Register(Slot, Ty),
    /// An offset in the frame.
    Frame(usize),
    /// An offset in the launch's parameters.
    Param(usize),
    Shared(usize),
}

/// A function that is being decoded.
pub(super) struct Body<'m, 'a> {
    pub names: &'m Names<'a>,
    pub function: &'m Function<'a>,
    pub program: &'m mut Program,
    /// Its number.
    number: usize,
    scopes: Vec<HashMap<String, Name>>,
    constants: HashMap<u64, Slot>,
    slots: Slot,
    /// Slots for temporaries, and the number that the current instruction uses.
    spare: Vec<Slot>,
    spared: usize,
    labels: HashMap<&'a str, u32>,
    /// Ops that jump to labels that may come later.
    pub jumps: Vec<(usize, Vec<&'a str>)>,
    pub targets: HashMap<&'a str, &'m [&'a str]>,
    pub line: u32,
}

/// An instruction's name, and its modifiers that were not used yet.
pub(super) struct Opcode<'a> {
    pub name: &'a str,
    pub words: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    fn new(text: &'a str) -> Opcode<'a> {
        let mut words = text.split('.');
        let name = words.next().unwrap_or_default();
        // A scope such as `.shared::cta`.
        Opcode { name, words: words.collect() }
    }

    /// Whether the modifier is present; removes it.
    pub fn takes(&mut self, word: &str) -> bool {
        let at = self.words.iter().position(|other| *other == word);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// Removes the first modifier for which `of` gives a value.
    pub fn takes_one<T>(&mut self, of: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.words.iter().enumerate().find_map(|(at, word)| Some((at, of(word)?)))?;
        self.words.remove(at);
        Some(found)
    }

    pub fn ty(&mut self) -> Option<Ty> {
        self.takes_one(Ty::named)
    }
}

impl<'m, 'a> Body<'m, 'a> {
    pub fn new(
        names: &'m Names<'a>,
        function: &'m Function<'a>,
        shared: HashMap<&'a str, usize>,
        program: &'m mut Program,
        number: usize,
    ) -> Self {
        let known = &program.functions[number];
        let mut scope = HashMap::new();
        let variables = function.parameters.iter().zip(&known.parameters);
        for (variable, &(at, _)) in variables.chain(function.results.iter().zip(&known.results)) {
            let name = if function.entry { Name::Param(at) } else { Name::Frame(at) };
            scope.insert(variable.name.to_owned(), name);
        }
        scope.extend(shared.into_iter().map(|(name, at)| (name.to_owned(), Name::Shared(at))));
        Body {
            names,
            function,
            program,
            number,
            scopes: vec![scope],
            constants: HashMap::new(),
            slots: 0,
            spare: Vec::new(),
            spared: 0,
            labels: HashMap::new(),
            jumps: Vec::new(),
            targets: HashMap::new(),
            line: function.line,
        }
    }

    pub fn decode(mut self) -> Result<(), Failure> {
        self.program.functions[self.number].start = self.program.ops.len() as u32;
        let function = self.function;
        for (statement, line) in function.body.iter().flatten() {
            self.line = *line;
            self.statement(statement)?;
        }
        self.push(if function.entry { Op::Exit } else { Op::Return });
        for (at, labels) in std::mem::take(&mut self.jumps) {
            let targets: Result<Vec<u32>, Failure> = labels
                .iter()
                .map(|label| {
                    self.labels.get(label).copied().ok_or_else(|| self.wrong(format!("no label {label:?}")))
                })
                .collect();
            let targets = targets?;
            match &mut self.program.ops[at] {
                Op::Jump(to) | Op::Branch(_, _, to) => *to = targets[0],
                Op::JumpTable(_, all) => *all = targets.into(),
                _ => {}
            }
        }
        let known = &mut self.program.functions[self.number];
        known.slots = self.slots;
        known.constants = self.constants.iter().map(|(value, slot)| (*slot, *value)).collect();
        known.local = known.local.next_multiple_of(16);
        Ok(())
    }

    fn statement(&mut self, statement: &'m Statement<'a>) -> Result<(), Failure> {
        match statement {
            Statement::Open => self.scopes.push(HashMap::new()),
            // The last one closes the function.
            Statement::Close => drop(self.scopes.pop()),
            Statement::Label(name) => drop(self.labels.insert(name, self.program.ops.len() as u32)),
            Statement::Registers(ty, all) => {
                for (name, count) in all {
                    for number in 0..count.unwrap_or(1) {
                        let name =
                            if count.is_some() { format!("{name}{number}") } else { (*name).to_owned() };
                        let slot = self.slot();
                        self.declare(name, Name::Register(slot, *ty));
                    }
                }
            }
            Statement::Variable(variable) if variable.space != Space::Shared => {
                let at = place(&mut self.program.functions[self.number].local, variable);
                self.declare(variable.name.to_owned(), Name::Frame(at));
            }
            Statement::Variable(_) => {}
            Statement::Targets(name, labels) => drop(self.targets.insert(name, labels)),
            Statement::Instruction { guard, opcode, operands } => {
                self.spared = 0;
                let mut decoded = Opcode::new(opcode);
                // Scopes and cache hints have no effect on this machine.
                decoded.words.retain(|word| !word.is_empty());
                let guard = match guard {
                    Some((name, value)) => Some((self.register(name)?.0, *value)),
                    None => None,
                };
                if decoded.name == "bra" {
                    return self.branch(guard, decoded, operands);
                }
                let first = self.program.ops.len();
                if let Some((slot, value)) = guard {
                    // The skipped statement may be several ops: a branch over it is inserted below.
                    self.push(Op::Branch(slot, !value, 0));
                }
                let done = self
                    .arithmetic(&mut decoded, operands)
                    .and_then(|done| if done { Ok(true) } else { self.memory(&mut decoded, operands) })
                    .and_then(|done| if done { Ok(true) } else { self.control(&mut decoded, operands) })
                    .map_err(|failure| Failure::new(self.line, format!("{opcode}: {}", failure.text)))?;
                if !done || !decoded.words.is_empty() {
                    let why = match done {
                        true => format!("unknown modifiers {:?} of {opcode:?}", decoded.words),
                        false => format!("unknown instruction {opcode:?}"),
                    };
                    return Err(self.wrong(why));
                }
                let end = self.program.ops.len();
                if guard.is_some() {
                    match (&mut self.program.ops[first], end - first) {
                        (op @ Op::Branch(..), 2) => {
                            let Op::Branch(slot, value, _) = *op else { return Ok(()) };
                            *op = Op::Only(slot, !value);
                        }
                        (Op::Branch(_, _, to), _) => *to = end as u32,
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, name: String, meaning: Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, meaning);
        }
    }

    pub fn find(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    pub fn wrong(&self, text: impl Into<String>) -> Failure {
        Failure::new(self.line, text)
    }

    pub fn push(&mut self, op: Op) {
        self.program.ops.push(op);
        self.program.lines.push(self.line);
    }

    fn slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    /// A slot that is free until the next instruction.
    pub fn spare(&mut self) -> Slot {
        if self.spared == self.spare.len() {
            let slot = self.slot();
            self.spare.push(slot);
        }
        self.spared += 1;
        self.spare[self.spared - 1]
    }

    pub fn constant(&mut self, value: u64) -> Slot {
        if let Some(slot) = self.constants.get(&value) {
            return *slot;
        }
        let slot = self.slot();
        self.constants.insert(value, slot);
        slot
    }

    pub fn register(&self, name: &str) -> Result<(Slot, Ty), Failure> {
        match self.find(name) {
            Some(Name::Register(slot, ty)) => Ok((slot, ty)),
            _ => Err(self.wrong(format!("expected a register, found {name:?}"))),
        }
    }

    /// The register that an instruction writes. `_` discards the result.
    pub fn target(&mut self, operand: &Operand<'a>) -> Result<(Slot, Ty), Failure> {
        match operand {
            Operand::Name("_", 0) => Ok((self.spare(), Ty::B64)),
            Operand::Name(name, 0) => self.register(name),
            other => Err(self.wrong(format!("expected a register, found {other:?}"))),
        }
    }

    /// The slot of an operand's value, for an instruction of this type.
    pub fn value(&mut self, operand: &Operand<'a>, ty: Ty) -> Result<Slot, Failure> {
        match operand {
            // For a predicate, any number but 0 is true.
            Operand::Bits(bits) if ty == Ty::Pred => Ok(self.constant(u64::from(*bits != 0))),
            Operand::Bits(bits) => Ok(self.constant(bits & mask(ty.bytes()))),
            Operand::Not(name) => {
                let from = self.register(name)?.0;
                let to = self.spare();
                self.push(Op::Unary(|a| a ^ 1, to, from));
                Ok(to)
            }
            Operand::Name("WARP_SZ", 0) => Ok(self.constant(32)),
            Operand::Name(name, offset) => self.named(name, *offset),
            other => Err(self.wrong(format!("expected a value, found {other:?}"))),
        }
    }

    /// A register's value, a special register's, or a variable's address.
    fn named(&mut self, name: &str, offset: i64) -> Result<Slot, Failure> {
        match self.find(name) {
            Some(Name::Register(slot, _)) if offset == 0 => return Ok(slot),
            Some(Name::Frame(at)) => {
                let to = self.spare();
                self.push(Op::Frame(to, (at as i64 + offset) as u32));
                return Ok(to);
            }
            Some(Name::Param(at) | Name::Shared(at)) => return Ok(self.constant((at as i64 + offset) as u64)),
            _ => {}
        }
        if let Some(address) = self.names.addresses.get(name) {
            return Ok(self.constant(address.wrapping_add_signed(offset)));
        }
        let special = match self.names.shared.get(name) {
            Some(Some(at)) => return Ok(self.constant((*at as i64 + offset) as u64)),
            Some(None) if offset == 0 => Special::DynamicShared,
            Some(None) => {
                let (base, by) = (self.named(name, 0)?, self.constant(offset as u64));
                self.push(Op::Binary(u64::wrapping_add, base, base, by));
                return Ok(base);
            }
            None => special(name).ok_or_else(|| self.wrong(format!("unknown name {name:?}")))?,
        };
        let to = self.spare();
        self.push(Op::Special(special, to));
        Ok(to)
    }
}

fn special(name: &str) -> Option<Special> {
    let axis = |name: &str, of: fn(u8) -> Special| {
        let axis = ["x", "y", "z"].iter().position(|axis| *axis == name)?;
        Some(of(axis as u8))
    };
    if let Some((name, part)) = name.split_once('.') {
        return match name {
            "%tid" => axis(part, Special::Thread),
            "%ntid" => axis(part, Special::BlockSize),
            "%ctaid" => axis(part, Special::Block),
            "%nctaid" => axis(part, Special::Grid),
            _ => None,
        };
    }
    Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" => Special::Multiprocessor,
        "%nsmid" => Special::Multiprocessors,
        "%clock64" | "%globaltimer" => Special::Clock,
        "%clock" | "%globaltimer_lo" => Special::ClockLow,
        "%lanemask_eq" => Special::LanesEqual,
        "%lanemask_lt" => Special::LanesLess,
        "%lanemask_le" => Special::LanesLessEqual,
        "%lanemask_gt" => Special::LanesGreater,
        "%lanemask_ge" => Special::LanesGreaterEqual,
        "%dynamic_smem_size" => Special::DynamicSharedSize,
        "%total_smem_size" => Special::SharedSize,
        "%gridid" => Special::Zero,
        _ if name.starts_with("%envreg") => Special::Zero,
        _ => return None,
    })
}
