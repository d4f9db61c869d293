//! The structure of PTX text: variables, functions, statements.

use super::Failure;
use super::lex::{Token, number, tokens};
use super::types::Ty;

/// The newest target whose programs a device of this machine takes: the compute capability without its point.
const CAPABILITY: u32 = 81;

/// The parsed text.
#[derive(Debug, Default)]
pub(crate) struct Module<'a> {
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<Function<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Space {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A variable or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub space: Space,
    pub name: &'a str,
    pub align: usize,
    /// Bytes; 0 for an array without a size.
    pub size: usize,
    /// Bytes of an element.
    pub element: usize,
    pub initial: Vec<Initial<'a>>,
}

/// An element of an initial value.
#[derive(Clone, Debug)]
pub(crate) enum Initial<'a> {
    Bits(u64),
    /// The address of a variable and an offset.
    Address(&'a str, i64),
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub line: u32,
    pub entry: bool,
    pub results: Vec<Variable<'a>>,
    pub parameters: Vec<Variable<'a>>,
    /// Most threads of a block, or 0.
    pub most_threads: u32,
    /// None: only declared.
    pub body: Option<Vec<(Statement<'a>, u32)>>,
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Open,
    Close,
    Label(&'a str),
    /// Registers of a type: a name, and the number for `%r<n>`.
    Registers(Ty, Vec<(&'a str, Option<u32>)>),
    Variable(Variable<'a>),
    /// The labels of a `brx.idx`.
    Targets(&'a str, Vec<&'a str>),
    Instruction {
        /// A predicate, and the value that it must have.
        guard: Option<(&'a str, bool)>,
        opcode: &'a str,
        operands: Vec<Operand<'a>>,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    /// A register, variable, label; with an offset.
    Name(&'a str, i64),
    /// `!%p`.
    Not(&'a str),
    Bits(u64),
    /// In brackets: a name or nothing, and an offset.
    Address(Option<&'a str>, i64),
    Vector(Vec<Operand<'a>>),
    /// In parentheses.
    List(Vec<&'a str>),
    /// `%p|%q`.
    Pair(&'a str, &'a str),
}

pub(crate) fn parse(text: &str) -> Result<Module<'_>, Failure> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    parser.module()
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn line(&self) -> u32 {
        self.tokens.get(self.at.min(self.tokens.len().wrapping_sub(1))).map_or(0, |token| token.1)
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|token| token.0)
    }

    fn next(&mut self) -> Result<Token<'a>, Failure> {
        let token = self.peek().ok_or_else(|| self.wrong("more, found the end"))?;
        self.at += 1;
        Ok(token)
    }

    fn wrong(&self, expected: &str) -> Failure {
        Failure::new(self.line(), format!("expected {expected}, near {:?}", self.peek()))
    }

    fn takes(&mut self, sign: char) -> bool {
        let there = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: char) -> Result<(), Failure> {
        if self.takes(sign) { Ok(()) } else { Err(self.wrong(&format!("{sign:?}"))) }
    }

    fn name(&mut self) -> Result<&'a str, Failure> {
        match self.peek() {
            Some(Token::Name(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.wrong("a name")),
        }
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let there = self.peek() == Some(Token::Name(name));
        self.at += usize::from(there);
        there
    }

    fn integer(&mut self) -> Result<i64, Failure> {
        let negative = self.takes('-');
        match self.peek() {
            Some(Token::Number(word)) => {
                let value = number(word).ok_or_else(|| self.wrong("a number"))? as i64;
                self.at += 1;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => Err(self.wrong("a number")),
        }
    }

    fn skip_past(&mut self, sign: char) -> Result<(), Failure> {
        while self.next()? != Token::Sign(sign) {}
        Ok(())
    }

    fn module(&mut self) -> Result<Module<'a>, Failure> {
        let mut module = Module::default();
        while self.peek().is_some() {
            match self.name()? {
                ".version" | ".address_size" => drop(self.next()?),
                ".target" => {
                    let target = self.name()?;
                    let capability = target.strip_prefix("sm_").and_then(|number| number.parse().ok());
                    if capability.is_none_or(|capability: u32| capability > CAPABILITY) {
                        return Err(self.wrong(&format!("a target of up to sm_{CAPABILITY}, found {target}")));
                    }
                    while self.takes(',') {
                        self.name()?;
                    }
                }
                ".visible" | ".extern" | ".weak" | ".common" => {}
                ".file" => {
                    self.integer()?;
                    self.next()?;
                    while self.takes(',') {
                        self.next()?;
                    }
                }
                ".section" => self.skip_past('}')?,
                ".pragma" => self.skip_past(';')?,
                ".global" => self.variables(Space::Global, &mut module.variables)?,
                ".const" => self.variables(Space::Const, &mut module.variables)?,
                ".shared" => self.variables(Space::Shared, &mut module.variables)?,
                ".entry" => {
                    let function = self.function(true)?;
                    module.functions.push(function);
                }
                ".func" => {
                    let function = self.function(false)?;
                    module.functions.push(function);
                }
                other => return Err(Failure::new(self.line(), format!("unknown directive {other:?}"))),
            }
        }
        Ok(module)
    }

    /// After the space, up to the semicolon.
    fn variables(&mut self, space: Space, all: &mut Vec<Variable<'a>>) -> Result<(), Failure> {
        let mut like = self.variable(space)?;
        loop {
            if self.takes('=') {
                self.initial(&mut like.initial)?;
            }
            let next = Variable { size: like.element, initial: Vec::new(), ..like.clone() };
            all.push(std::mem::replace(&mut like, next));
            if self.takes(';') {
                return Ok(());
            }
            self.expect(',')?;
            like.name = self.name()?;
            self.lengths(&mut like)?;
        }
    }

    /// Alignment, type, name and lengths.
    fn variable(&mut self, space: Space) -> Result<Variable<'a>, Failure> {
        let (mut align, mut ty, mut lanes) = (0, None, 1);
        loop {
            let name = self.name()?;
            match name {
                ".align" => align = self.integer()? as usize,
                // The target of a pointer.
                ".ptr" => {
                    while let Some(Token::Name(".global" | ".const" | ".shared" | ".local" | ".align")) =
                        self.peek()
                    {
                        if self.name()? == ".align" {
                            self.integer()?;
                        }
                    }
                }
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                ".attribute" => self.skip_past(')')?,
                _ if name.starts_with('.') => {
                    let known = Ty::named(&name[1..]);
                    ty = Some(known.ok_or_else(|| self.wrong(&format!("a type, found {name}")))?);
                }
                _ => {
                    let ty = ty.ok_or_else(|| self.wrong("a type before the name"))?;
                    let element = ty.bytes() * lanes;
                    let align = if align == 0 { element } else { align };
                    let mut found = Variable {
                        space,
                        name,
                        align,
                        size: element,
                        element: ty.bytes(),
                        initial: Vec::new(),
                    };
                    self.lengths(&mut found)?;
                    return Ok(found);
                }
            }
        }
    }

    fn lengths(&mut self, variable: &mut Variable<'a>) -> Result<(), Failure> {
        while self.takes('[') {
            let length = if self.peek() == Some(Token::Sign(']')) { 0 } else { self.integer()? };
            variable.size *= length as usize;
            self.expect(']')?;
        }
        Ok(())
    }

    fn initial(&mut self, all: &mut Vec<Initial<'a>>) -> Result<(), Failure> {
        if self.takes('{') {
            while !self.takes('}') {
                self.initial(all)?;
                self.takes(',');
            }
            return Ok(());
        }
        if let Some(Token::Name(name)) = self.peek() {
            self.at += 1;
            let (name, generic) = match name {
                "generic" => {
                    self.expect('(')?;
                    (self.name()?, true)
                }
                _ => (name, false),
            };
            if generic {
                self.expect(')')?;
            }
            let offset = self.offset()?;
            all.push(Initial::Address(name, offset));
            return Ok(());
        }
        all.push(Initial::Bits(self.integer()? as u64));
        Ok(())
    }

    fn offset(&mut self) -> Result<i64, Failure> {
        if self.takes('+') || self.peek() == Some(Token::Sign('-')) { self.integer() } else { Ok(0) }
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>, Failure> {
        let mut all = Vec::new();
        if self.takes('(') {
            while !self.takes(')') {
                if !self.takes_name(".param") && !self.takes_name(".reg") {
                    return Err(self.wrong("a parameter"));
                }
                all.push(self.variable(Space::Param)?);
                self.takes(',');
            }
        }
        Ok(all)
    }

    fn function(&mut self, entry: bool) -> Result<Function<'a>, Failure> {
        let results = if entry { Vec::new() } else { self.parameters()? };
        let line = self.line();
        let name = self.name()?;
        let parameters = self.parameters()?;
        let mut most_threads = 0;
        loop {
            if self.takes(';') {
                return Ok(Function { name, line, entry, results, parameters, most_threads, body: None });
            }
            if self.takes('{') {
                break;
            }
            match self.name()? {
                ".maxntid" | ".reqntid" => {
                    most_threads = self.integer()? as u32;
                    while self.takes(',') {
                        most_threads *= self.integer()? as u32;
                    }
                }
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => drop(self.integer()?),
                ".noreturn" => {}
                ".pragma" => self.skip_past(';')?,
                other => return Err(Failure::new(self.line(), format!("unknown directive {other:?}"))),
            }
        }
        let mut body = Vec::new();
        let mut depth = 1;
        while depth > 0 {
            let line = self.line();
            if self.takes('{') {
                depth += 1;
                body.push((Statement::Open, line));
            } else if self.takes('}') {
                depth -= 1;
                body.push((Statement::Close, line));
            } else {
                self.statement(&mut body)?;
            }
        }
        Ok(Function { name, line, entry, results, parameters, most_threads, body: Some(body) })
    }

    fn statement(&mut self, body: &mut Vec<(Statement<'a>, u32)>) -> Result<(), Failure> {
        let line = self.line();
        if self.takes(';') {
            return Ok(());
        }
        let guard = if self.takes('@') {
            let value = !self.takes('!');
            Some((self.name()?, value))
        } else {
            None
        };
        let name = self.name()?;
        let mut variables = Vec::new();
        match name {
            ".reg" => {
                let ty = self.name()?;
                let ty = Ty::named(&ty[1..]).ok_or_else(|| self.wrong(&format!("a type, found {ty}")))?;
                let mut all = Vec::new();
                loop {
                    let name = self.name()?;
                    let mut count = None;
                    if self.takes('<') {
                        count = Some(self.integer()? as u32);
                        self.expect('>')?;
                    }
                    all.push((name, count));
                    if !self.takes(',') {
                        break;
                    }
                }
                self.expect(';')?;
                body.push((Statement::Registers(ty, all), line));
            }
            ".local" => self.variables(Space::Local, &mut variables)?,
            ".shared" => self.variables(Space::Shared, &mut variables)?,
            ".param" => self.variables(Space::Param, &mut variables)?,
            ".pragma" => self.skip_past(';')?,
            ".loc" => {
                for _ in 0..3 {
                    self.integer()?;
                }
                if self.takes(',') {
                    // The place from which a function was inlined: up to the end of the line.
                    while self.line() == line && self.at < self.tokens.len() {
                        self.at += 1;
                    }
                }
            }
            _ if self.takes(':') => {
                if self.takes_name(".branchtargets") {
                    let mut targets = Vec::new();
                    while !self.takes(';') {
                        targets.push(self.name()?);
                        self.takes(',');
                    }
                    body.push((Statement::Targets(name, targets), line));
                } else {
                    body.push((Statement::Label(name), line));
                }
            }
            _ if name.starts_with('.') => {
                return Err(Failure::new(line, format!("unknown directive {name:?}")));
            }
            opcode => {
                let mut operands = Vec::new();
                while !self.takes(';') {
                    operands.push(self.operand()?);
                    if !self.takes(',') && self.peek() != Some(Token::Sign(';')) {
                        return Err(self.wrong("a comma or the instruction's end"));
                    }
                }
                body.push((Statement::Instruction { guard, opcode, operands }, line));
            }
        }
        body.extend(variables.into_iter().map(|variable| (Statement::Variable(variable), line)));
        Ok(())
    }

    fn operand(&mut self) -> Result<Operand<'a>, Failure> {
        if self.takes('[') {
            let found = match self.peek() {
                Some(Token::Name(name)) => {
                    self.at += 1;
                    Operand::Address(Some(name), self.offset()?)
                }
                _ => Operand::Address(None, self.integer()?),
            };
            self.expect(']')?;
            return Ok(found);
        }
        if self.takes('{') {
            let mut all = Vec::new();
            while !self.takes('}') {
                all.push(self.operand()?);
                self.takes(',');
            }
            return Ok(Operand::Vector(all));
        }
        if self.takes('(') {
            let mut all = Vec::new();
            while !self.takes(')') {
                all.push(self.name()?);
                self.takes(',');
            }
            return Ok(Operand::List(all));
        }
        if self.takes('!') {
            return Ok(Operand::Not(self.name()?));
        }
        if let Some(Token::Name(name)) = self.peek() {
            self.at += 1;
            if self.takes('|') {
                return Ok(Operand::Pair(name, self.name()?));
            }
            return Ok(Operand::Name(name, self.offset()?));
        }
        Ok(Operand::Bits(self.integer()? as u64))
    }
}
