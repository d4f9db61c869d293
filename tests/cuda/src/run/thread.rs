//! One thread: its slots, its local memory, and the loop over its instructions.

use super::shared::{Shared, Who};
use super::{Fault, LOCAL, Launch, Machine, PARAM, SHARED};
use crate::machine::Range;
use crate::ptx::code::{Access, Atomic, AtomicKind, Op, Place, Slot, Special};
use crate::ptx::int;
use crate::ptx::types::{Word, mask};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Most bytes of a thread's local memory.
const LOCAL_BYTES: usize = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Waits at the instruction that `op` names.
    Barrier,
    Meeting,
    Done,
}

pub(super) struct Thread {
    /// Its position in the block, and its number there.
    pub at: [u32; 3],
    number: u32,
    pub state: State,
    next: usize,
    slots: Vec<u64>,
    /// The beginning of the frame, in slots and in local memory.
    base: usize,
    frame: usize,
    local: Vec<u8>,
    calls: Vec<Return>,
    carry: u64,
    /// The number of its meetings with lanes of its warp.
    pub meetings: u32,
}

/// The return address of a call.
struct Return {
    op: usize,
    base: usize,
    frame: usize,
}

/// Bytes of one of the memories.
enum Bytes<'a> {
    /// Local memory.
    Own(&'a mut [u8]),
    /// Shared memory from an offset on; `None`, if the access is not checked.
    Shared(&'a mut Shared, usize, Option<Who>),
    /// Parameters, which cannot be written.
    Param(&'a [u8]),
    /// The host's address of live global memory.
    Global(u64),
}

impl Thread {
    pub fn new(launch: &Launch, number: u32, at: [u32; 3]) -> Thread {
        let function = launch.function();
        let mut slots = vec![0; function.slots as usize];
        for &(slot, value) in &function.constants {
            slots[slot as usize] = value;
        }
        Thread {
            at,
            number,
            state: State::Done,
            next: 0,
            slots,
            base: 0,
            frame: 0,
            local: vec![0; function.local],
            calls: Vec::new(),
            carry: 0,
            meetings: 0,
        }
    }

    pub fn begin(&mut self, launch: &Launch) {
        let function = launch.function();
        self.next = function.start as usize;
        self.state = State::Ready;
        (self.base, self.frame) = (0, 0);
        self.slots.truncate(function.slots as usize);
        self.local.truncate(function.local);
        self.local.fill(0xA5);
        self.calls.clear();
    }

    /// The instruction that it is at.
    pub fn op(&self) -> usize {
        self.next - 1
    }

    pub fn slot(&self, slot: Slot) -> u64 {
        self.slots[self.base + slot as usize]
    }

    pub fn set(&mut self, slot: Slot, value: u64) {
        self.slots[self.base + slot as usize] = value;
    }

    /// It goes on after a meeting.
    pub fn go_on(&mut self) {
        if self.state != State::Done {
            self.state = State::Ready;
        }
    }

    /// Runs until it waits or ends, for at most `slice` instructions.
    pub fn run(
        &mut self,
        machine: &mut Machine<'_>,
        shared: &mut Shared,
        block: [u32; 3],
        slice: u32,
    ) -> Result<(), Fault> {
        let launch = machine.launch;
        let ops = launch.program.ops.as_slice();
        let mut slots = &mut self.slots[self.base..];
        let mut left = slice;
        // It meets no other thread while it runs.
        let who = Who { thread: self.number as u16, meetings: self.meetings };
        while left > 0 {
            left -= 1;
            let op = &ops[self.next];
            self.next += 1;
            macro_rules! slot {
                ($slot:expr) => {
                    slots[*$slot as usize]
                };
            }
            match op {
                Op::Move(to, from) => slot!(to) = slot!(from),
                Op::Unary(function, to, a) => slot!(to) = function(slot!(a)),
                Op::Binary(function, to, a, b) => slot!(to) = function(slot!(a), slot!(b)),
                Op::Ternary(function, to, a, b, c) => slot!(to) = function(slot!(a), slot!(b), slot!(c)),
                Op::Select(to, [a, b, choice]) => {
                    slot!(to) = if slot!(choice) == 1 { slot!(a) } else { slot!(b) };
                }
                Op::Lop3(table, to, from) => {
                    slot!(to) = int::lop3(u64::from(*table), from.map(|slot| slots[slot as usize]));
                }
                Op::Prmt(to, from) => slot!(to) = int::prmt(from.map(|slot| slots[slot as usize])),
                Op::Bfi(ty, to, from) => {
                    let [a, b, start, length] = from.map(|slot| slots[slot as usize]);
                    slot!(to) = int::bfi(*ty, a, b, start, length);
                }
                Op::Carry(carry) => {
                    let [a, b, c] = carry.from.map(|slot| slots[slot as usize]);
                    let found = int::with_carry(&carry.name, &carry.form, carry.ty, a, b, c, self.carry);
                    let (value, out) = found.unwrap_or_default();
                    if carry.sets {
                        self.carry = out;
                    }
                    slot!(&carry.to) = value;
                }
                Op::Special(special, to) => {
                    slot!(to) = special_of(*special, launch, (self.at, self.number), block, machine.begin);
                }
                Op::Part { to, from, shift, bytes } => {
                    slot!(to) = slot!(from) >> shift & mask(usize::from(*bytes));
                }
                Op::Join { to, from, shift } => slot!(to) |= slot!(from) << shift,
                Op::Frame(to, at) => slot!(to) = self.frame as u64 + u64::from(*at),
                Op::Load(access, to) => {
                    let address = slots[access.base as usize].wrapping_add_signed(i64::from(access.offset));
                    let bytes = usize::from(access.bytes);
                    let memory = (self.frame, self.local.as_mut_slice(), &mut *shared, who);
                    let mut found = find(machine, memory, access, address, bytes)?;
                    slot!(to) = extended(access, found.load(0, bytes)?);
                }
                Op::Store(access, from) => {
                    let address = slots[access.base as usize].wrapping_add_signed(i64::from(access.offset));
                    let bytes = usize::from(access.bytes);
                    let memory = (self.frame, self.local.as_mut_slice(), &mut *shared, who);
                    find(machine, memory, access, address, bytes)?.store(0, bytes, slot!(from))?;
                }
                Op::LoadMany(access, all) => {
                    let address = slots[access.base as usize].wrapping_add_signed(i64::from(access.offset));
                    let bytes = usize::from(access.bytes);
                    let memory = (self.frame, self.local.as_mut_slice(), &mut *shared, who);
                    let mut found = find(machine, memory, access, address, bytes * all.len())?;
                    for (number, to) in all.iter().enumerate() {
                        slot!(to) = extended(access, found.load(number * bytes, bytes)?);
                    }
                }
                Op::StoreMany(access, all) => {
                    let address = slots[access.base as usize].wrapping_add_signed(i64::from(access.offset));
                    let bytes = usize::from(access.bytes);
                    let memory = (self.frame, self.local.as_mut_slice(), &mut *shared, who);
                    let mut found = find(machine, memory, access, address, bytes * all.len())?;
                    for (number, from) in all.iter().enumerate() {
                        found.store(number * bytes, bytes, slot!(from))?;
                    }
                }
                Op::Atomic(atomic) => {
                    let access = &atomic.access;
                    let address = slots[access.base as usize].wrapping_add_signed(i64::from(access.offset));
                    let bytes = usize::from(access.bytes);
                    let memory = (self.frame, self.local.as_mut_slice(), &mut *shared, who);
                    let mut found = find(machine, memory, access, address, bytes)?;
                    let (operand, swap) = (slot!(&atomic.operand), slot!(&atomic.swap));
                    let old = found.update(bytes, |old| new_of(atomic, old, operand, swap))?;
                    if let Some(to) = &atomic.to {
                        slot!(to) = old;
                    }
                }
                Op::Only(slot, value) => self.next += usize::from((slot!(slot) == 1) != *value),
                Op::Jump(to) => self.next = *to as usize,
                Op::Branch(slot, value, to) => {
                    if (slot!(slot) == 1) == *value {
                        self.next = *to as usize;
                    }
                }
                Op::JumpTable(slot, targets) => {
                    self.next = *targets.get(slot!(slot) as usize).ok_or(Fault::Trap)? as usize;
                }
                Op::Call(call) => {
                    let function = &launch.program.functions[call.function];
                    let base = self.slots.len();
                    let frame = self.local.len().next_multiple_of(16);
                    if frame + function.local > LOCAL_BYTES || self.calls.len() == 1024 {
                        return Err(Fault::Stack);
                    }
                    self.slots.resize(base + function.slots as usize, 0);
                    for &(slot, value) in &function.constants {
                        self.slots[base + slot as usize] = value;
                    }
                    self.local.resize(frame + function.local, 0xA5);
                    for &[from, to, size] in &call.arguments {
                        let from = self.frame + from;
                        self.local.copy_within(from..from + size, frame + to);
                    }
                    self.calls.push(Return { op: self.next - 1, base: self.base, frame: self.frame });
                    (self.base, self.frame) = (base, frame);
                    self.next = function.start as usize;
                    slots = &mut self.slots[self.base..];
                }
                Op::Return => {
                    let Some(back) = self.calls.pop() else { return Err(Fault::Trap) };
                    if let Op::Call(call) = &ops[back.op] {
                        for &[to, from, size] in &call.results {
                            let from = self.frame + from;
                            self.local.copy_within(from..from + size, back.frame + to);
                        }
                    }
                    self.slots.truncate(self.base);
                    self.local.truncate(self.frame);
                    (self.base, self.frame) = (back.base, back.frame);
                    self.next = back.op + 1;
                    slots = &mut self.slots[self.base..];
                }
                Op::Exit => {
                    self.state = State::Done;
                    break;
                }
                Op::Trap => return Err(Fault::Trap),
                Op::Assert => return Err(Fault::Assert),
                Op::Yield => break,
                Op::Barrier(..) => {
                    self.state = State::Barrier;
                    break;
                }
                Op::Warp(_) => {
                    self.state = State::Meeting;
                    break;
                }
                Op::ActiveMask(to) => slot!(to) = 1 << (self.number % 32),
            }
        }
        Ok(())
    }
}

fn extended(access: &Access, value: u64) -> u64 {
    match access.extend {
        0 => value,
        to => crate::ptx::extend(value, access.bytes, to),
    }
}

fn new_of(atomic: &Atomic, old: u64, operand: u64, swap: u64) -> u64 {
    match atomic.kind {
        AtomicKind::Exchange => operand,
        AtomicKind::CompareExchange if old == operand & mask(usize::from(atomic.access.bytes)) => swap,
        AtomicKind::CompareExchange => old,
        AtomicKind::Update(function) => function(old, operand),
    }
}

/// The bytes at an address, if all of them exist.
#[inline(always)]
fn find<'m>(
    machine: &'m mut Machine<'_>,
    (frame, local, shared, who): (usize, &'m mut [u8], &'m mut Shared, Who),
    access: &Access,
    address: u64,
    bytes: usize,
) -> Result<Bytes<'m>, Fault> {
    let (place, at) = match access.place {
        Place::Generic => match address >> 56 << 56 {
            SHARED => (Place::Shared, address - SHARED),
            LOCAL => (Place::Local, address - LOCAL),
            PARAM => (Place::Param, address - PARAM),
            _ => (Place::Global, address),
        },
        Place::Frame => (Place::Local, frame as u64 + address),
        place => (place, address),
    };
    if at & (bytes as u64 - 1) != 0 {
        return Err(Fault::Misaligned(address));
    }
    let found = match place {
        Place::Shared => {
            let inside = usize::try_from(at)
                .is_ok_and(|at| at <= shared.bytes.len() && bytes <= shared.bytes.len() - at);
            inside.then(|| Bytes::Shared(shared, at as usize, (!access.ordered).then_some(who)))
        }
        Place::Local => {
            usize::try_from(at).ok().and_then(|at| local.get_mut(at..at.checked_add(bytes)?)).map(Bytes::Own)
        }
        Place::Param => {
            let all = &machine.launch.parameters;
            usize::try_from(at).ok().and_then(|at| all.get(at..at.checked_add(bytes)?)).map(Bytes::Param)
        }
        _ => {
            let known: &mut Range = &mut machine.sites[access.site as usize];
            if !known.has(at, bytes) {
                *known = machine.memory.find(at).unwrap_or_default();
            }
            known.has(at, bytes).then(|| Bytes::Global(known.host(at)))
        }
    };
    found.ok_or(Fault::Address(address))
}

/// An operation on an atomic number at an address in the host's memory.
macro_rules! atomic {
    ($address:expr, $bytes:expr, $cell:ident => $body:expr) => {
        match $bytes {
            1 => atomic!(AtomicU8, $address, $cell, $body),
            2 => atomic!(AtomicU16, $address, $cell, $body),
            4 => atomic!(AtomicU32, $address, $cell, $body),
            _ => atomic!(AtomicU64, $address, $cell, $body),
        }
    };
    ($atomic:ty, $address:expr, $cell:ident, $body:expr) => {{
        // SAFETY: `find` has checked that the bytes are those of a live allocation and that the address is a
        // multiple of their number. Allocations stay mapped, and host memory stays registered, until kernels
        // that may use them are done. Other threads that touch them at the same time use atomics, too, or
        // race as they would on a device.
        let $cell = unsafe { <$atomic>::from_ptr($address as *mut _) };
        $body
    }};
}

impl Bytes<'_> {
    #[inline(always)]
    fn load(&mut self, at: usize, bytes: usize) -> Result<u64, Fault> {
        Ok(match self {
            Bytes::Shared(shared, start, who) => {
                let at = *start + at;
                if let Some(who) = who {
                    shared.read(*who, at, bytes)?;
                }
                little(&shared.bytes[at..at + bytes])
            }
            Bytes::Own(all) => little(&all[at..at + bytes]),
            Bytes::Param(all) => little(&all[at..at + bytes]),
            Bytes::Global(host) => {
                let host = *host + at as u64;
                atomic!(host, bytes, cell => cell.load(Relaxed).bits())
            }
        })
    }

    #[inline(always)]
    fn store(&mut self, at: usize, bytes: usize, value: u64) -> Result<(), Fault> {
        match self {
            Bytes::Own(all) => put_little(&mut all[at..at + bytes], value),
            Bytes::Shared(shared, start, who) => {
                let (at, value) = (*start + at, value.to_le_bytes());
                match who {
                    Some(who) => shared.write(*who, at, &value[..bytes])?,
                    None => shared.bytes[at..at + bytes].copy_from_slice(&value[..bytes]),
                }
            }
            Bytes::Param(_) => return Err(Fault::Address(PARAM)),
            Bytes::Global(host) => {
                let host = *host + at as u64;
                atomic!(host, bytes, cell => cell.store(Word::of(value), Relaxed));
            }
        }
        Ok(())
    }

    /// Changes the value in one step, and returns the old one.
    fn update(&mut self, bytes: usize, new: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        if let Bytes::Global(host) = self {
            let host = *host;
            return Ok(atomic!(host, bytes, cell => {
                let update = cell.fetch_update(Relaxed, Relaxed, |old| Some(Word::of(new(old.bits()))));
                update.unwrap_or_else(|old| old).bits()
            }));
        }
        let old = self.load(0, bytes)?;
        self.store(0, bytes, new(old))?;
        Ok(old)
    }
}

#[inline]
fn little(bytes: &[u8]) -> u64 {
    // By size: copies of a variable number of bytes are calls.
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

#[inline]
fn put_little(bytes: &mut [u8], value: u64) {
    match bytes.len() {
        1 => bytes[0] = value as u8,
        2 => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
        4 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
        _ => bytes.copy_from_slice(&value.to_le_bytes()),
    }
}

fn special_of(
    special: Special,
    launch: &Launch,
    (at, number): ([u32; 3], u32),
    block: [u32; 3],
    begin: std::time::Instant,
) -> u64 {
    let threads = launch.block.iter().product::<u32>();
    let lane = number % 32;
    u64::from(match special {
        Special::Thread(axis) => at[usize::from(axis)],
        Special::BlockSize(axis) => launch.block[usize::from(axis)],
        Special::Block(axis) => block[usize::from(axis)],
        Special::Grid(axis) => launch.grid[usize::from(axis)],
        Special::Lane => lane,
        Special::Warp => number / 32,
        Special::Warps => threads.div_ceil(32),
        Special::Multiprocessor => block[0] % crate::machine::MULTIPROCESSORS,
        Special::Multiprocessors => crate::machine::MULTIPROCESSORS,
        Special::Clock => return begin.elapsed().as_nanos() as u64,
        Special::ClockLow => begin.elapsed().as_nanos() as u32,
        Special::LanesEqual => 1 << lane,
        Special::LanesLess => (1 << lane) - 1,
        Special::LanesLessEqual => u32::MAX >> (31 - lane),
        Special::LanesGreater => !(u32::MAX >> (31 - lane)),
        Special::LanesGreaterEqual => !((1 << lane) - 1),
        Special::DynamicShared => launch.dynamic_start() as u32,
        Special::DynamicSharedSize => launch.dynamic as u32,
        Special::SharedSize => (launch.dynamic_start() + launch.dynamic) as u32,
        Special::Zero => 0,
    })
}
