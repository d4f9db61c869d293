//! Control flow, and instructions by which threads meet.

use super::super::Failure;
use super::super::code::{Call, Counting, Meeting, MeetingKind, Op, Reduction, Slot};
use super::super::parse::Operand;
use super::super::types::Ty;
use super::body::{Body, Name, Opcode};
use super::memory::update;

impl<'a> Body<'_, 'a> {
    pub fn branch(
        &mut self,
        guard: Option<(Slot, bool)>,
        mut opcode: Opcode<'a>,
        operands: &[Operand<'a>],
    ) -> Result<(), Failure> {
        opcode.takes("uni");
        let ([Operand::Name(label, 0)], true) = (operands, opcode.words.is_empty()) else {
            return Err(self.unknown());
        };
        self.jumps.push((self.program.ops.len(), vec![label]));
        self.push(match guard {
            Some((slot, value)) => Op::Branch(slot, value, 0),
            None => Op::Jump(0),
        });
        Ok(())
    }

    /// Decodes one of these instructions; false if it is another.
    pub fn control(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Result<bool, Failure> {
        match (opcode.name, operands) {
            ("brx", [index, Operand::Name(table, 0)]) => {
                opcode.takes("idx");
                opcode.takes("uni");
                let index = self.value(index, Ty::U32)?;
                let labels = self.targets.get(table).map(|labels| labels.to_vec());
                let labels = labels.ok_or_else(|| self.wrong(format!("no list of labels {table:?}")))?;
                self.jumps.push((self.program.ops.len(), labels));
                self.push(Op::JumpTable(index, Box::new([])));
            }
            ("call", operands) => {
                opcode.takes("uni");
                self.call(operands)?;
            }
            ("ret", []) => {
                opcode.takes("uni");
                self.push(if self.function.entry { Op::Exit } else { Op::Return });
            }
            ("exit", []) => self.push(Op::Exit),
            ("trap" | "brkpt", []) => self.push(Op::Trap),
            // Time passes: other threads run.
            ("nanosleep", [_]) => {
                opcode.takes("u32");
                self.push(Op::Yield);
            }
            ("membar" | "fence" | "griddepcontrol", _) => opcode.words.clear(),
            ("bar" | "barrier", operands) => self.barrier(opcode, operands)?,
            ("activemask", [to]) => {
                opcode.takes("b32");
                let to = self.target(to)?.0;
                self.push(Op::ActiveMask(to));
            }
            ("shfl", [to, from, lane, clamp, mask]) => {
                self.ty(opcode)?;
                opcode.takes("sync");
                let [lane, clamp] = [self.value(lane, Ty::U32)?, self.value(clamp, Ty::U32)?];
                let kind = opcode.takes_one(|word| {
                    Some(match word {
                        "up" => MeetingKind::Up(lane, clamp),
                        "down" => MeetingKind::Down(lane, clamp),
                        "bfly" => MeetingKind::Butterfly(lane, clamp),
                        "idx" => MeetingKind::Index(lane, clamp),
                        _ => return None,
                    })
                });
                let kind = kind.ok_or_else(|| self.unknown())?;
                self.meet(kind, to, from, Ty::B32, mask)?;
            }
            ("vote", [to, from, mask]) => {
                let ty = self.ty(opcode)?;
                opcode.takes("sync");
                let (from, value) = match from {
                    Operand::Not(name) => (Operand::Name(name, 0), false),
                    from => (from.clone(), true),
                };
                let kind = opcode.takes_one(|word| {
                    Some(match (word, ty) {
                        ("all", Ty::Pred) => MeetingKind::All(value),
                        ("any", Ty::Pred) => MeetingKind::Any(value),
                        ("uni", Ty::Pred) => MeetingKind::Uniform(value),
                        ("ballot", Ty::B32) => MeetingKind::Ballot(value),
                        _ => return None,
                    })
                });
                let kind = kind.ok_or_else(|| self.unknown())?;
                self.meet(kind, to, &from, Ty::Pred, mask)?;
            }
            ("match", [to, from, mask]) => {
                let ty = self.ty(opcode)?;
                opcode.takes("sync");
                let any = opcode.takes("any");
                if !any && !opcode.takes("all") {
                    return Err(self.unknown());
                }
                let kind = if any { MeetingKind::MatchAny } else { MeetingKind::MatchAll };
                self.meet(kind, to, from, ty, mask)?;
            }
            ("redux", [to, from, mask]) => {
                let ty = self.ty(opcode)?;
                opcode.takes("sync");
                let kind = opcode.takes_one(|word| update(word, ty)).ok_or_else(|| self.unknown())?;
                self.meet(MeetingKind::Reduce(kind), to, from, ty, mask)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn meet(
        &mut self,
        kind: MeetingKind,
        to: &Operand<'a>,
        from: &Operand<'a>,
        ty: Ty,
        mask: &Operand<'a>,
    ) -> Result<(), Failure> {
        let (from, mask) = (self.value(from, ty)?, self.value(mask, Ty::B32)?);
        let (to, also) = match to {
            Operand::Pair(to, also) => {
                let also = self.target(&Operand::Name(also, 0))?.0;
                (self.target(&Operand::Name(to, 0))?.0, Some(also))
            }
            to => (self.target(to)?.0, None),
        };
        self.push(Op::Warp(Box::new(Meeting { kind, mask, to, also, from })));
        Ok(())
    }

    /// Only barriers of all threads of the block: no form with a number of threads.
    fn barrier(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Result<(), Failure> {
        if opcode.takes("warp") {
            let ([mask], true) = (operands, opcode.takes("sync")) else { return Err(self.unknown()) };
            let (mask, nothing) = (self.value(mask, Ty::B32)?, self.spare());
            let kind = MeetingKind::Sync;
            self.push(Op::Warp(Box::new(Meeting { kind, mask, to: nothing, also: None, from: nothing })));
            return Ok(());
        }
        opcode.takes("cta");
        opcode.takes("aligned");
        if opcode.takes("red") {
            let ty = self.ty(opcode)?;
            let counting = opcode.takes_one(|word| {
                Some(match (word, ty) {
                    ("popc", Ty::U32) => Counting::Count,
                    ("and", Ty::Pred) => Counting::All,
                    ("or", Ty::Pred) => Counting::Any,
                    _ => return None,
                })
            });
            let (Some(counting), [to, id, from]) = (counting, operands) else { return Err(self.unknown()) };
            let (from, value) = match from {
                Operand::Not(name) => (self.register(name)?.0, false),
                from => (self.value(from, Ty::Pred)?, true),
            };
            let (id, to) = (self.value(id, Ty::U32)?, self.target(to)?.0);
            self.push(Op::Barrier(id, Some(Box::new(Reduction { counting, to, from, value }))));
            return Ok(());
        }
        let ([id], true) = (operands, opcode.takes("sync")) else { return Err(self.unknown()) };
        let id = self.value(id, Ty::U32)?;
        self.push(Op::Barrier(id, None));
        Ok(())
    }

    fn call(&mut self, operands: &[Operand<'a>]) -> Result<(), Failure> {
        let (results, name, arguments): (&[&str], &str, &[&str]) = match operands {
            [Operand::List(results), Operand::Name(name, 0), Operand::List(arguments)] => {
                (results, name, arguments)
            }
            [Operand::Name(name, 0), Operand::List(arguments)] => (&[], name, arguments),
            [Operand::List(results), Operand::Name(name, 0)] => (results, name, &[]),
            [Operand::Name(name, 0)] => (&[], name, &[]),
            _ => return Err(self.wrong("calls through pointers are not known")),
        };
        let Some(&function) = self.names.functions.get(name) else {
            if name == "__assertfail" {
                self.push(Op::Assert);
                return Ok(());
            }
            return Err(self.wrong(format!("there is no function {name:?} in this machine")));
        };
        let known = self.program.functions[function].clone();
        let pairs = |own: &[&str], other: &[(usize, usize)]| -> Result<Vec<[usize; 3]>, Failure> {
            if own.len() != other.len() {
                return Err(self.wrong(format!("{name:?} has {} parameters or results", other.len())));
            }
            let pairs = own.iter().zip(other).map(|(own, &(at, size))| match self.find(own) {
                Some(Name::Frame(own)) => Ok([own, at, size]),
                _ => Err(self.wrong(format!("expected a parameter, found {own:?}"))),
            });
            pairs.collect()
        };
        let (arguments, results) = (pairs(arguments, &known.parameters)?, pairs(results, &known.results)?);
        self.push(Op::Call(Box::new(Call { function, arguments, results })));
        Ok(())
    }
}
