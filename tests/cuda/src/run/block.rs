//! A block: its threads take turns until all have ended.

use super::shared::Shared;
use super::thread::{State, Thread};
use super::{Fault, Launch, Machine};
use crate::ptx::code::{Counting, Op, Program};

/// Instructions that a thread runs before the next has its turn.
const SLICE: u32 = 20_000;
/// The same in a cooperative launch, whose threads often do nothing but wait for other blocks.
const SHORT_SLICE: u32 = 250;

pub(super) struct Block {
    /// Its place in the grid.
    pub at: [u32; 3],
    shared: Shared,
    threads: Vec<Thread>,
    pub done: bool,
}

#[derive(PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

impl Block {
    pub fn new(launch: &Launch) -> Block {
        let [x, y, z] = launch.block;
        let places = (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])));
        let threads = places.enumerate().map(|(number, at)| Thread::new(launch, number as u32, at)).collect();
        let shared = Shared::new(launch.dynamic_start() + launch.dynamic);
        Block { at: [0; 3], shared, threads, done: false }
    }

    /// Restarts it for a block of the launch. Its memories are filled anew.
    pub fn begin(&mut self, launch: &Launch, at: [u32; 3]) {
        self.at = at;
        self.shared.begin();
        for thread in &mut self.threads {
            thread.begin(launch);
        }
    }

    /// A thread's position in its block, and its line in the program's text.
    pub fn place_of(&self, thread: usize, program: &Program) -> ([u32; 3], u32) {
        let thread = &self.threads[thread];
        (thread.at, program.lines.get(thread.op()).copied().unwrap_or(0))
    }

    /// Runs each thread that can go on for a while; those that have all met go on. Faults have the thread's
    /// number.
    pub fn pass(&mut self, machine: &mut Machine<'_>) -> Result<Progress, (usize, Fault)> {
        let slice = if machine.launch.cooperative { SHORT_SLICE } else { SLICE };
        let mut any = false;
        for number in 0..self.threads.len() {
            if self.threads[number].state == State::Ready {
                any = true;
                let thread = &mut self.threads[number];
                thread.run(machine, &mut self.shared, self.at, slice).map_err(|fault| (number, fault))?;
            }
        }
        let program = &machine.launch.program;
        for (number, warp) in self.threads.chunks_mut(32).enumerate() {
            any |= super::warp::meet(warp, program).map_err(|(lane, fault)| (32 * number + lane, fault))?;
        }
        any |= self.barrier(program);
        let waits = |thread: &Thread| thread.state != State::Done;
        match (any, self.threads.iter().position(waits)) {
            (_, None) => Ok(Progress::Done),
            (true, _) => Ok(Progress::More),
            (false, Some(thread)) => Err((thread, Fault::Waiting)),
        }
    }

    /// True if all threads that have not ended had come to one barrier: then they go on.
    fn barrier(&mut self, program: &Program) -> bool {
        let live = || self.threads.iter().filter(|thread| thread.state != State::Done);
        let Some(first) = live().next() else { return false };
        let at = first.op();
        if !live().all(|thread| thread.state == State::Barrier && thread.op() == at) {
            return false;
        }
        let Op::Barrier(id, reduction) = &program.ops[at] else { return false };
        let number = first.slot(*id);
        if !live().all(|thread| thread.slot(*id) == number) {
            return false;
        }
        if let Some(reduction) = reduction {
            let holds = |thread: &&Thread| (thread.slot(reduction.from) == 1) == reduction.value;
            let (count, all) = (live().filter(holds).count(), live().count());
            let result = match reduction.counting {
                Counting::Count => count as u64,
                Counting::All => u64::from(count == all),
                Counting::Any => u64::from(count > 0),
            };
            for thread in self.threads.iter_mut().filter(|thread| thread.state != State::Done) {
                thread.set(reduction.to, result);
            }
        }
        for thread in &mut self.threads {
            thread.go_on();
        }
        self.shared.pass_barrier();
        true
    }
}
