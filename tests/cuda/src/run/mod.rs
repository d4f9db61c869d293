//! Runs a kernel: blocks one after the other, and a block's threads in turn until they wait for each other.

mod block;
mod shared;
mod thread;
mod warp;

use crate::machine::Range;
use crate::ptx::code::{Function, Program};
use block::{Block, Progress};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Beginnings of the windows of generic addresses: shared, local and parameter memory.
pub(crate) const SHARED: u64 = 1 << 56;
pub(crate) const LOCAL: u64 = 2 << 56;
pub(crate) const PARAM: u64 = 3 << 56;

/// A kernel that runs for longer is ended: it waits for something that never happens.
const LONGEST: Duration = Duration::from_secs(300);

/// A launch. The parameters are its own.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub program: Arc<Program>,
    pub function: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic: usize,
    pub parameters: Vec<u8>,
    /// All blocks run at the same time.
    pub cooperative: bool,
}

impl Launch {
    pub fn function(&self) -> &Function {
        &self.program.functions[self.function]
    }

    fn has_blocks_like(&self, other: &Launch) -> bool {
        let own = (self.function, self.block, self.dynamic);
        Arc::ptr_eq(&self.program, &other.program) && own == (other.function, other.block, other.dynamic)
    }

    fn dynamic_start(&self) -> usize {
        self.function().shared.next_multiple_of(16)
    }
}

/// The fault that ended a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An address outside all allocations.
    Address(u64),
    Misaligned(u64),
    Trap,
    Assert,
    /// Calls that are nested too deeply.
    Stack,
    /// Threads wait for others that never come.
    Waiting,
    /// Two threads of a block touched the same shared memory without a barrier between them, and one wrote.
    /// 65535: several other threads did.
    Race {
        at: u64,
        other: u16,
    },
    /// A shuffle by a lane that its own mask leaves out.
    Mask,
    Time,
}

/// Memory that kernels of a device may use.
pub(crate) trait Memory {
    /// The range that an address lies in.
    fn find(&self, address: u64) -> Option<Range>;
    /// A number that changes when ranges are removed.
    fn generation(&self) -> u64;
}

/// The data that the threads of a launch share.
pub(crate) struct Machine<'a> {
    launch: &'a Launch,
    memory: &'a dyn Memory,
    generation: u64,
    /// The range of each instruction's last access.
    sites: Vec<Range>,
    begin: Instant,
}

/// Runs a launch to its end. Prints the place of a fault to stderr.
pub(crate) fn run(launch: &Launch, memory: &dyn Memory) -> Result<(), Fault> {
    let mut machine = Machine {
        launch,
        memory,
        generation: memory.generation(),
        sites: vec![Range::default(); launch.program.sites as usize],
        begin: Instant::now(),
    };
    let [x, y, z] = launch.grid;
    let blocks = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
    if !launch.cooperative {
        let mut block = kept(launch).unwrap_or_else(|| Block::new(launch));
        for at in blocks {
            block.begin(launch, at);
            while machine.pass(&mut block)? == Progress::More {}
        }
        keep(launch, block);
        return Ok(());
    }
    let mut all: Vec<Block> = blocks
        .map(|at| {
            let mut block = Block::new(launch);
            block.begin(launch, at);
            block
        })
        .collect();
    while !all.is_empty() {
        for block in &mut all {
            block.done = machine.pass(block)? == Progress::Done;
        }
        all.retain(|block| !block.done);
    }
    Ok(())
}

thread_local! {
    /// Blocks of the last launches of this stream: making their threads takes longer than running a small
    /// kernel.
    static KEPT: RefCell<VecDeque<(Launch, Block)>> = const { RefCell::new(VecDeque::new()) };
}

/// A kept block of a similar launch.
fn kept(launch: &Launch) -> Option<Block> {
    KEPT.with_borrow_mut(|all| {
        let at = all.iter().position(|(other, _)| other.has_blocks_like(launch))?;
        all.remove(at).map(|(_, block)| block)
    })
}

fn keep(launch: &Launch, block: Block) {
    let like = Launch { parameters: Vec::new(), ..launch.clone() };
    KEPT.with_borrow_mut(|all| {
        all.truncate(3);
        all.push_front((like, block));
    });
}

impl Machine<'_> {
    /// Runs every thread of a block for some time.
    fn pass(&mut self, block: &mut Block) -> Result<Progress, Fault> {
        if self.generation != self.memory.generation() {
            self.generation = self.memory.generation();
            self.sites.fill(Range::default());
        }
        if self.begin.elapsed() > LONGEST {
            return Err(self.report(block, 0, Fault::Time));
        }
        block.pass(self).map_err(|(thread, fault)| self.report(block, thread, fault))
    }

    fn report(&self, block: &Block, thread: usize, fault: Fault) -> Fault {
        let program = &self.launch.program;
        let (place, line) = block.place_of(thread, program);
        eprintln!(
            "emulated CUDA device: {fault:x?} in kernel {:?}, block {:?}, thread {place:?}, at line {line} of its PTX",
            self.launch.function().name,
            block.at,
        );
        fault
    }
}
