//! Instructions that compute.

use super::super::Failure;
use super::super::code::{Binary, Carry, Op, Slot, Unary};
use super::super::parse::Operand;
use super::super::types::{Ty, mask};
use super::super::{convert, float, float::Rounding, int};
use super::body::{Body, Opcode};

impl<'a> Body<'_, 'a> {
    /// Decodes one of these instructions; false if it is another.
    pub fn arithmetic(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Result<bool, Failure> {
        match (opcode.name, operands) {
            ("mov", [to, from]) => self.mov(opcode, to, from)?,
            ("cvta", [to, from]) => self.cvta(opcode, to, from)?,
            ("cvt", [to, from]) => self.cvt(opcode, to, from)?,
            ("setp", [to, a, b, rest @ ..]) => self.setp(opcode, to, a, b, rest)?,
            ("set", [to, a, b]) => self.set(opcode, to, a, b)?,
            ("selp", [to, a, b, choice]) => {
                let ty = self.ty(opcode)?;
                let from = [self.value(a, ty)?, self.value(b, ty)?, self.value(choice, Ty::Pred)?];
                let to = self.target(to)?.0;
                self.push(Op::Select(to, from));
            }
            ("slct", [to, a, b, choice]) => {
                let flushes = opcode.takes("ftz");
                let (ty, by) = (self.ty(opcode)?, self.ty(opcode)?);
                let compare = if by == Ty::F32 { float::compare("ge", by) } else { int::compare("ge", by) };
                let compare = compare.ok_or_else(|| self.unknown())?;
                let (a, b, choice) = (self.value(a, ty)?, self.value(b, ty)?, self.value(choice, by)?);
                let choice = self.flushed(flushes, choice);
                let (positive, zero) = (self.spare(), self.constant(0));
                self.push(Op::Binary(compare, positive, choice, zero));
                let to = self.target(to)?.0;
                self.push(Op::Select(to, [a, b, positive]));
            }
            ("lop3", [to, a, b, c, Operand::Bits(table)]) => {
                self.ty(opcode)?;
                let from = [self.value(a, Ty::B32)?, self.value(b, Ty::B32)?, self.value(c, Ty::B32)?];
                let to = self.target(to)?.0;
                self.push(Op::Lop3(*table as u8, to, from));
            }
            ("prmt", [to, a, b, c]) => {
                self.ty(opcode)?;
                let from = [self.value(a, Ty::B32)?, self.value(b, Ty::B32)?, self.value(c, Ty::B32)?];
                let to = self.target(to)?.0;
                self.push(Op::Prmt(to, from));
            }
            ("bfi", [to, a, b, start, length]) => {
                let ty = self.ty(opcode)?;
                let [start, length] = [self.value(start, Ty::U32)?, self.value(length, Ty::U32)?];
                let from = [self.value(a, ty)?, self.value(b, ty)?, start, length];
                let to = self.target(to)?.0;
                self.push(Op::Bfi(ty, to, Box::new(from)));
            }
            ("testp", [to, a]) if !opcode.words.is_empty() => {
                let test = opcode.words.remove(0);
                let ty = self.ty(opcode)?;
                let test = float::test(test, ty).ok_or_else(|| self.unknown())?;
                let (a, to) = (self.value(a, ty)?, self.target(to)?.0);
                self.push(Op::Unary(test, to, a));
            }
            ("add" | "sub" | "mad" | "addc" | "subc" | "madc", [to, from @ ..])
                if opcode.words.contains(&"cc") || opcode.name.ends_with('c') =>
            {
                self.with_carry(opcode, to, from)?;
            }
            (_, [to, from @ ..]) => return self.plain(opcode, to, from),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn ty(&self, opcode: &mut Opcode<'a>) -> Result<Ty, Failure> {
        opcode.ty().ok_or_else(|| self.wrong("expected a type"))
    }

    pub fn unknown(&self) -> Failure {
        self.wrong("unknown form of the instruction")
    }

    fn flushed(&mut self, flushes: bool, from: Slot) -> Slot {
        if !flushes {
            return from;
        }
        let to = self.spare();
        self.push(Op::Unary(float::flush, to, from));
        to
    }

    /// One to three operands of one type, and no modifiers.
    fn plain(
        &mut self,
        opcode: &mut Opcode<'a>,
        to: &Operand<'a>,
        from: &[Operand<'a>],
    ) -> Result<bool, Failure> {
        let name = opcode.name;
        let known = "abs neg not cnot popc clz brev bfind add sub mul mul24 div rem min max and or xor shl shr bmsk mad \
                     mad24 sad bfe shf fma sqrt rcp rsqrt sin cos tanh ex2 lg2 copysign";
        if !known.split_whitespace().any(|known| known == name) {
            return Ok(false);
        }
        let ty = self.ty(opcode)?;
        let [flushes, saturates] = [opcode.takes("ftz"), opcode.takes("sat")];
        let is_float = ty.is_float();
        let rounding = opcode.takes_one(Rounding::named).unwrap_or(Rounding::Nearest);
        if is_float {
            // The exact result is computed wherever an approximation is allowed.
            let _ = opcode.takes("approx") || opcode.takes("full");
        }
        let form = if saturates && !is_float {
            "sat".to_owned()
        } else {
            std::mem::take(&mut opcode.words).join(".")
        };
        let second = match name {
            "shl" | "shr" | "bfe" | "bmsk" => Ty::U32,
            _ => ty,
        };
        let third = match (name, form.as_str()) {
            ("shf" | "bfe", _) => Ty::U32,
            (_, "wide") => Ty::B64,
            _ => ty,
        };
        let types = [ty, second, third];
        if from.len() > types.len() {
            return Err(self.wrong("too many operands"));
        }
        let mut values = Vec::new();
        for (operand, ty) in from.iter().zip(types) {
            let value = self.value(operand, ty)?;
            values.push(self.flushed(flushes && ty == Ty::F32, value));
        }
        let (to, register) = self.target(to)?;
        let bits = matches!(name, "and" | "or" | "xor" | "not");
        let unknown = self.unknown();
        if is_float && !form.is_empty() {
            return Err(unknown);
        }
        let op = match (values.as_slice(), is_float && !bits) {
            ([a], true) => float::unary(name, rounding, ty).map(|function| Op::Unary(function, to, *a)),
            ([a], false) => int::unary(name, ty).map(|function| Op::Unary(function, to, *a)),
            ([a, b], true) => {
                float::binary(name, rounding, ty).map(|function| Op::Binary(function, to, *a, *b))
            }
            ([a, b], false) => int::binary(name, &form, ty).map(|function| Op::Binary(function, to, *a, *b)),
            ([a, b, c], true) => {
                float::ternary(name, rounding, ty).map(|function| Op::Ternary(function, to, *a, *b, *c))
            }
            ([a, b, c], false) => {
                int::ternary(name, &form, ty).map(|function| Op::Ternary(function, to, *a, *b, *c))
            }
            _ => None,
        };
        self.push(op.ok_or(unknown)?);
        if flushes && ty == Ty::F32 {
            self.push(Op::Unary(float::flush, to, to));
        }
        if saturates && is_float {
            let saturate = float::saturate(ty).ok_or_else(|| self.unknown())?;
            self.push(Op::Unary(saturate, to, to));
        }
        let counts = matches!(name, "popc" | "clz" | "bfind") || form == "wide";
        if !is_float && !counts {
            self.extended(to, ty, register);
        }
        Ok(true)
    }

    /// A result in a wider register is sign-extended.
    fn extended(&mut self, to: Slot, ty: Ty, register: Ty) {
        if ty.is_signed() && ty.bytes() < register.bytes() {
            let wider = match register.bytes() {
                2 => Ty::S16,
                4 => Ty::S32,
                _ => Ty::S64,
            };
            if let Some(extend) = convert::integers(wider, ty, false) {
                self.push(Op::Unary(extend, to, to));
            }
        }
    }

    fn with_carry(
        &mut self,
        opcode: &mut Opcode<'a>,
        to: &Operand<'a>,
        from: &[Operand<'a>],
    ) -> Result<(), Failure> {
        let ty = self.ty(opcode)?;
        let sets = opcode.takes("cc");
        let form = std::mem::take(&mut opcode.words).join(".");
        let zero = self.constant(0);
        let mut values = [zero; 3];
        if from.len() > 3 {
            return Err(self.wrong("too many operands"));
        }
        for (value, operand) in values.iter_mut().zip(from) {
            *value = self.value(operand, ty)?;
        }
        if int::with_carry(opcode.name, &form, ty, 0, 0, 0, 0).is_none() {
            return Err(self.unknown());
        }
        let to = self.target(to)?.0;
        let name = opcode.name.to_owned();
        self.push(Op::Carry(Box::new(Carry { name, form, ty, sets, to, from: values })));
        Ok(())
    }

    fn mov(&mut self, opcode: &mut Opcode<'a>, to: &Operand<'a>, from: &Operand<'a>) -> Result<(), Failure> {
        let ty = self.ty(opcode)?;
        match (to, from) {
            (Operand::Vector(parts), from) => {
                let from = self.value(from, ty)?;
                let bytes = ty.bytes() / parts.len().max(1);
                // A part may be the register that is split.
                let whole = self.spare();
                self.push(Op::Move(whole, from));
                for (number, part) in parts.iter().enumerate() {
                    let to = self.target(part)?.0;
                    let shift = (8 * bytes * number) as u8;
                    self.push(Op::Part { to, from: whole, shift, bytes: bytes as u8 });
                }
            }
            (to, Operand::Vector(parts)) => {
                let bytes = ty.bytes() / parts.len().max(1);
                let (whole, zero) = (self.spare(), self.constant(0));
                self.push(Op::Move(whole, zero));
                for (number, part) in parts.iter().enumerate() {
                    let part = match part {
                        Operand::Bits(bits) => self.constant(bits & mask(bytes)),
                        part => self.value(part, ty)?,
                    };
                    self.push(Op::Join { to: whole, from: part, shift: (8 * bytes * number) as u8 });
                }
                let to = self.target(to)?.0;
                self.push(Op::Move(to, whole));
            }
            (to, from) => {
                let (from, to) = (self.value(from, ty)?, self.target(to)?.0);
                self.push(Op::Move(to, from));
            }
        }
        Ok(())
    }

    /// Into and out of the windows of generic addresses; global and constant memory have none.
    fn cvta(&mut self, opcode: &mut Opcode<'a>, to: &Operand<'a>, from: &Operand<'a>) -> Result<(), Failure> {
        use crate::run::{LOCAL, PARAM, SHARED};
        self.ty(opcode)?;
        let back = opcode.takes("to");
        let space = opcode.takes_one(|word| {
            Some(match word {
                "global" | "const" => 0,
                "shared" | "shared::cta" => SHARED,
                "local" => LOCAL,
                "param" | "param::entry" => PARAM,
                _ => return None,
            })
        });
        let window = space.ok_or_else(|| self.unknown())?;
        let (from, by) = (self.value(from, Ty::U64)?, self.constant(window));
        let to = self.target(to)?.0;
        self.push(match (window, back) {
            (0, _) => Op::Move(to, from),
            (_, true) => Op::Binary(u64::wrapping_sub, to, from, by),
            (_, false) => Op::Binary(u64::wrapping_add, to, from, by),
        });
        Ok(())
    }

    fn cvt(&mut self, opcode: &mut Opcode<'a>, to: &Operand<'a>, from: &Operand<'a>) -> Result<(), Failure> {
        let [flushes, saturates] = [opcode.takes("ftz"), opcode.takes("sat")];
        let whole = opcode.takes_one(|word| match word {
            "rni" => Some(Rounding::Nearest),
            "rzi" => Some(Rounding::Zero),
            "rmi" => Some(Rounding::Down),
            "rpi" => Some(Rounding::Up),
            _ => None,
        });
        let rounding = opcode.takes_one(Rounding::named).unwrap_or(Rounding::Nearest);
        let (into, of) = (self.ty(opcode)?, self.ty(opcode)?);
        let value = self.value(from, of)?;
        let mut value = self.flushed(flushes && of == Ty::F32, value);
        let (to, register) = self.target(to)?;
        let mut steps: Vec<Option<Unary>> = Vec::new();
        match (of.is_float(), into.is_float()) {
            (false, false) => steps.push(convert::integers(into, of, saturates)),
            (false, true) => steps.push(convert::to_float(into, of, rounding)),
            (true, false) => {
                steps.push(convert::whole(of, whole.unwrap_or(Rounding::Zero)));
                steps.push(convert::to_integer(into, of));
            }
            (true, true) => {
                if let Some(rounding) = whole {
                    steps.push(convert::whole(of, rounding));
                }
                if into != of {
                    steps.push(convert::floats(into, of, rounding));
                }
                if flushes && into == Ty::F32 {
                    steps.push(Some(float::flush));
                }
            }
        }
        if saturates && into.is_float() {
            steps.push(float::saturate(into));
        }
        if steps.is_empty() {
            self.push(Op::Move(to, value));
        }
        for step in steps {
            let step = step.ok_or_else(|| self.unknown())?;
            self.push(Op::Unary(step, to, value));
            value = to;
        }
        self.extended(to, into, register);
        Ok(())
    }

    /// The comparison that an opcode names, of two operands.
    fn comparison(
        &mut self,
        opcode: &mut Opcode<'a>,
        ty: Ty,
        a: &Operand<'a>,
        b: &Operand<'a>,
    ) -> Result<(Binary, Slot, Slot), Failure> {
        let flushes = opcode.takes("ftz");
        if opcode.words.is_empty() {
            return Err(self.unknown());
        }
        let name = opcode.words.remove(0);
        let compare = if ty.is_float() { float::compare(name, ty) } else { int::compare(name, ty) };
        let compare = compare.ok_or_else(|| self.unknown())?;
        let (a, b) = (self.value(a, ty)?, self.value(b, ty)?);
        Ok((compare, self.flushed(flushes, a), self.flushed(flushes, b)))
    }

    fn setp(
        &mut self,
        opcode: &mut Opcode<'a>,
        to: &Operand<'a>,
        a: &Operand<'a>,
        b: &Operand<'a>,
        rest: &[Operand<'a>],
    ) -> Result<(), Failure> {
        let ty = self.ty(opcode)?;
        let (compare, a, b) = self.comparison(opcode, ty, a, b)?;
        let (to, other) = match to {
            Operand::Pair(to, other) => {
                let both = [*to, *other].map(|name| self.target(&Operand::Name(name, 0)));
                let [to, other] = both;
                (to?.0, Some(other?.0))
            }
            to => (self.target(to)?.0, None),
        };
        let join = opcode.takes_one(|word| match word {
            "and" | "or" | "xor" => int::binary(word, "", Ty::Pred),
            _ => None,
        });
        match (join, rest, other) {
            (None, [], None) => self.push(Op::Binary(compare, to, a, b)),
            (join, rest, other) => {
                let (found, opposite) = (self.spare(), self.spare());
                self.push(Op::Binary(compare, found, a, b));
                self.push(Op::Unary(|a| a ^ 1, opposite, found));
                let with = match rest {
                    [] => None,
                    [with] => Some(self.value(with, Ty::Pred)?),
                    _ => return Err(self.wrong("too many operands")),
                };
                for (to, found) in [(Some(to), found), (other, opposite)] {
                    let Some(to) = to else { continue };
                    self.push(match (join, with) {
                        (Some(join), Some(with)) => Op::Binary(join, to, found, with),
                        _ => Op::Move(to, found),
                    });
                }
            }
        }
        Ok(())
    }

    /// The result is a number: all ones, or 1.0.
    fn set(
        &mut self,
        opcode: &mut Opcode<'a>,
        to: &Operand<'a>,
        a: &Operand<'a>,
        b: &Operand<'a>,
    ) -> Result<(), Failure> {
        let (into, ty) = (self.ty(opcode)?, self.ty(opcode)?);
        let (compare, a, b) = self.comparison(opcode, ty, a, b)?;
        let found = self.spare();
        self.push(Op::Binary(compare, found, a, b));
        let yes = if into.is_float() { u64::from(1f32.to_bits()) } else { mask(into.bytes()) };
        let choice = [self.constant(yes), self.constant(0), found];
        let to = self.target(to)?.0;
        self.push(Op::Select(to, choice));
        Ok(())
    }
}
