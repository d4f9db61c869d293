//! Programs in executable form.
//!
//! A function's registers, its constants and its temporaries are *slots* of a thread's frame. So every
//! operand is the number of a slot.

use super::types::Ty;

/// The number of a slot in the frame.
pub(crate) type Slot = u32;
/// An instruction's result, as a function of its operands' bits.
pub(crate) type Unary = fn(u64) -> u64;
pub(crate) type Binary = fn(u64, u64) -> u64;
pub(crate) type Ternary = fn(u64, u64, u64) -> u64;

/// All functions of a module.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub ops: Vec<Op>,
    /// The source line of each instruction.
    pub lines: Vec<u32>,
    pub functions: Vec<Function>,
    /// Number of instructions that use memory: each remembers the range of its last access.
    pub sites: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub name: String,
    pub entry: bool,
    pub start: u32,
    /// Number of slots of a frame, and the slots that hold constants.
    pub slots: u32,
    pub constants: Vec<(Slot, u64)>,
    /// Bytes of a frame in local memory.
    pub local: usize,
    /// Offset and size of each parameter: in the launch's parameters, or in the frame.
    pub parameters: Vec<(usize, usize)>,
    pub results: Vec<(usize, usize)>,
    /// Bytes of shared memory, without the dynamic ones.
    pub shared: usize,
    /// Most threads of a block, or 0.
    pub most_threads: u32,
}

/// The space in which an address is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Windows of it are shared, local and parameter memory.
    Generic,
    Global,
    Shared,
    /// The thread's local memory.
    Local,
    /// Local memory, from the beginning of the frame.
    Frame,
    /// The launch's parameters.
    Param,
}

/// The memory access of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub place: Place,
    /// Bytes of an element.
    pub bytes: u8,
    /// Bytes to which the sign is extended; 0: it is not.
    pub extend: u8,
    /// It has an order, or is atomic: other threads may access the same memory at the same time.
    pub ordered: bool,
    pub base: Slot,
    pub offset: i32,
    pub site: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Special {
    Thread(u8),
    BlockSize(u8),
    Block(u8),
    Grid(u8),
    Lane,
    Warp,
    Warps,
    Multiprocessor,
    Multiprocessors,
    /// Nanoseconds, and the lower half of their number.
    Clock,
    ClockLow,
    LanesEqual,
    LanesLess,
    LanesLessEqual,
    LanesGreater,
    LanesGreaterEqual,
    /// The beginning of dynamic shared memory, and its size.
    DynamicShared,
    DynamicSharedSize,
    SharedSize,
    Zero,
}

#[derive(Debug)]
pub(crate) enum Op {
    Move(Slot, Slot),
    Unary(Unary, Slot, Slot),
    Binary(Binary, Slot, Slot, Slot),
    Ternary(Ternary, Slot, Slot, Slot, Slot),
    /// The first if the third is true, else the second.
    Select(Slot, [Slot; 3]),
    Lop3(u8, Slot, [Slot; 3]),
    Prmt(Slot, [Slot; 3]),
    Bfi(Ty, Slot, Box<[Slot; 4]>),
    Carry(Box<Carry>),
    Special(Special, Slot),
    /// Some bytes, from a bit on.
    Part {
        to: Slot,
        from: Slot,
        shift: u8,
        bytes: u8,
    },
    /// Inserts bits, from a bit on.
    Join {
        to: Slot,
        from: Slot,
        shift: u8,
    },
    /// The address in local memory of an offset in the frame.
    Frame(Slot, u32),
    Load(Access, Slot),
    Store(Access, Slot),
    LoadMany(Access, Box<[Slot]>),
    StoreMany(Access, Box<[Slot]>),
    Atomic(Box<Atomic>),
    /// The next instruction runs only if the slot has the value.
    Only(Slot, bool),
    Jump(u32),
    Branch(Slot, bool, u32),
    JumpTable(Slot, Box<[u32]>),
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    /// `assert` in the kernel.
    Assert,
    Yield,
    /// All threads of the block meet; with an operation on a predicate or without.
    Barrier(Slot, Option<Box<Reduction>>),
    /// Threads of a warp meet.
    Warp(Box<Meeting>),
    /// A lane alone.
    ActiveMask(Slot),
}

#[derive(Debug)]
pub(crate) struct Carry {
    pub name: String,
    pub form: String,
    pub ty: Ty,
    pub sets: bool,
    pub to: Slot,
    pub from: [Slot; 3],
}

#[derive(Debug)]
pub(crate) struct Atomic {
    pub access: Access,
    pub to: Option<Slot>,
    pub kind: AtomicKind,
    pub operand: Slot,
    /// The value to write if the memory equals the operand: `cas`.
    pub swap: Slot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomicKind {
    Exchange,
    CompareExchange,
    /// A function of the memory and the operand.
    Update(Binary),
}

/// A call of a function: offsets in the caller's frame and in the callee's, and sizes.
#[derive(Debug)]
pub(crate) struct Call {
    pub function: usize,
    pub arguments: Vec<[usize; 3]>,
    pub results: Vec<[usize; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counting {
    Count,
    All,
    Any,
}

/// `bar.red`.
#[derive(Debug)]
pub(crate) struct Reduction {
    pub counting: Counting,
    pub to: Slot,
    pub from: Slot,
    pub value: bool,
}

/// The operation of lanes when they meet.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub kind: MeetingKind,
    /// The lanes that take part: a bit for each.
    pub mask: Slot,
    pub to: Slot,
    /// A second result, a predicate.
    pub also: Option<Slot>,
    pub from: Slot,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MeetingKind {
    Sync,
    /// Lane operand and clamp operand.
    Up(Slot, Slot),
    Down(Slot, Slot),
    Butterfly(Slot, Slot),
    Index(Slot, Slot),
    /// Of a predicate that is negated, or not.
    All(bool),
    Any(bool),
    Uniform(bool),
    Ballot(bool),
    MatchAny,
    MatchAll,
    Reduce(Binary),
}
