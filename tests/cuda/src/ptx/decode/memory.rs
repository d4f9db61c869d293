//! Instructions that use memory.

use super::super::Failure;
use super::super::code::{Access, Atomic, AtomicKind, Binary, Op, Place, Slot};
use super::super::float::{self, Rounding};
use super::super::int;
use super::super::parse::{Operand, Space};
use super::super::types::{Ty, mask};
use super::body::{Body, Name, Opcode};

/// Modifiers of memory order.
const ORDERS: &[&str] = &["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"];

/// Modifiers of scopes and caches: without effect on this machine, which runs one thread at a time.
const SCOPES: &[&str] = &[
    "weak",
    "nc",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_last",
    "L1::evict_first",
    "L1::evict_normal",
    "L1::no_allocate",
    "L2::128B",
    "L2::256B",
    "L2::64B",
];

impl<'a> Body<'_, 'a> {
    /// Decodes one of these instructions; false if it is another.
    pub fn memory(&mut self, opcode: &mut Opcode<'a>, operands: &[Operand<'a>]) -> Result<bool, Failure> {
        match (opcode.name, operands) {
            ("ld" | "ldu", [to, address]) => {
                let (mut access, ty) = self.access(opcode, address)?;
                let lanes = lanes(opcode);
                match (to, lanes) {
                    (Operand::Vector(all), lanes) if all.len() == lanes => {
                        let mut slots = Vec::new();
                        for to in all {
                            let (slot, register) = self.target(to)?;
                            access.extend = if ty.is_signed() { register.bytes() as u8 } else { 0 };
                            slots.push(slot);
                        }
                        self.push(Op::LoadMany(access, slots.into()));
                    }
                    (to, 1) => {
                        let (slot, register) = self.target(to)?;
                        access.extend = if ty.is_signed() { register.bytes() as u8 } else { 0 };
                        self.push(Op::Load(access, slot));
                    }
                    _ => return Err(self.wrong("as many registers as elements expected")),
                }
            }
            ("st", [address, from]) => {
                let (access, ty) = self.access(opcode, address)?;
                match (from, lanes(opcode)) {
                    (Operand::Vector(all), lanes) if all.len() == lanes => {
                        let slots: Result<Vec<Slot>, Failure> =
                            all.iter().map(|from| self.value(from, ty)).collect();
                        self.push(Op::StoreMany(access, slots?.into()));
                    }
                    (from, 1) => {
                        let slot = self.value(from, ty)?;
                        self.push(Op::Store(access, slot));
                    }
                    _ => return Err(self.wrong("as many registers as elements expected")),
                }
            }
            ("atom", [to, address, rest @ ..]) => {
                let to = self.target(to)?.0;
                self.atomic(opcode, Some(to), address, rest)?;
            }
            ("red", [address, rest @ ..]) => self.atomic(opcode, None, address, rest)?,
            ("prefetch" | "prefetchu" | "applypriority" | "discard", _) => opcode.words.clear(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the space, the type and the modifiers of order from an opcode.
    fn access(&mut self, opcode: &mut Opcode<'a>, address: &Operand<'a>) -> Result<(Access, Ty), Failure> {
        let ordered =
            opcode.words.iter().any(|word| ORDERS.contains(word)) || matches!(opcode.name, "atom" | "red");
        opcode.words.retain(|word| !ORDERS.contains(word) && !SCOPES.contains(word));
        let ty = self.ty(opcode)?;
        let space = opcode.takes_one(|word| {
            Some(match word {
                "global" => Space::Global,
                "const" => Space::Const,
                "shared" | "shared::cta" => Space::Shared,
                "local" => Space::Local,
                "param" | "param::entry" | "param::func" => Space::Param,
                _ => return None,
            })
        });
        let place = match space.unwrap_or(Space::Generic) {
            Space::Generic => Place::Generic,
            Space::Global | Space::Const => Place::Global,
            Space::Shared => Place::Shared,
            Space::Local => Place::Local,
            Space::Param if self.function.entry => Place::Param,
            Space::Param => Place::Local,
        };
        let (place, base, offset) = match address {
            Operand::Address(None, offset) => (place, self.constant(*offset as u64), 0),
            Operand::Address(Some(name), offset) => match self.find(name) {
                Some(Name::Register(slot, _)) => (place, slot, *offset),
                Some(Name::Frame(at)) => (Place::Frame, self.constant(0), at as i64 + offset),
                Some(Name::Param(at)) => (Place::Param, self.constant(0), at as i64 + offset),
                _ => (place, self.value(&Operand::Name(name, 0), Ty::U64)?, *offset),
            },
            other => return Err(self.wrong(format!("expected an address, found {other:?}"))),
        };
        let offset = i32::try_from(offset).map_err(|_| self.wrong("an offset of more than 32 bits"))?;
        let site = self.program.sites;
        self.program.sites += 1;
        Ok((Access { place, bytes: ty.bytes() as u8, extend: 0, ordered, base, offset, site }, ty))
    }

    fn atomic(
        &mut self,
        opcode: &mut Opcode<'a>,
        to: Option<Slot>,
        address: &Operand<'a>,
        rest: &[Operand<'a>],
    ) -> Result<(), Failure> {
        let (access, ty) = self.access(opcode, address)?;
        opcode.takes("noftz");
        if opcode.words.is_empty() || rest.is_empty() {
            return Err(self.unknown());
        }
        let name = opcode.words.remove(0);
        let operand = self.value(&rest[0], ty)?;
        let mut swap = operand;
        let kind = match (name, rest.len()) {
            ("exch", 1) => AtomicKind::Exchange,
            ("cas", 2) => {
                swap = self.value(&rest[1], ty)?;
                AtomicKind::CompareExchange
            }
            (_, 1) => AtomicKind::Update(update(name, ty).ok_or_else(|| self.unknown())?),
            _ => return Err(self.wrong("too many operands")),
        };
        self.push(Op::Atomic(Box::new(Atomic { access, to, kind, operand, swap })));
        Ok(())
    }
}

/// An operation's function of the memory and its operand.
pub(super) fn update(name: &str, ty: Ty) -> Option<Binary> {
    match name {
        // `inc` counts up to the operand, then from 0 again; `dec` counts down from it.
        "inc" => Some(|old, most| if old >= most { 0 } else { old + 1 }),
        "dec" => Some(|old, most| if old == 0 || old > most { most } else { old - 1 }),
        _ if ty.is_float() => float::binary(name, Rounding::Nearest, ty),
        _ => int::binary(name, "", ty),
    }
}

fn lanes(opcode: &mut Opcode<'_>) -> usize {
    let lanes = opcode.takes_one(|word| match word {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    lanes.unwrap_or(1)
}

/// Extends the sign from one number of bytes to another.
pub(crate) fn extend(value: u64, bytes: u8, to: u8) -> u64 {
    let unused = 64 - 8 * u32::from(bytes);
    ((value << unused) as i64 >> unused) as u64 & mask(usize::from(to))
}
