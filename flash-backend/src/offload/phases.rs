//! One launch: its phases one after another, each a call of a kernel function.
//!
//! - A cooperating kernel is called once per phase, with the phase's words. Before that, what no item of the
//!   phase owns is copied to the buffer that the phase writes; after an odd number of phases the result goes
//!   back to the first buffer.
//! - One with `grid_barrier` is called once for a run of phases with the same table, where the device can.
//! - One that does not cooperate is called once, over the index space itself.
//! - Where indices are checked, calls with the same table have it in common, which is read when the launch
//!   ends.

use super::driver::Written;
use super::groups::Wanted;
use super::{ArgBuffer, Call, Driver, Function, Kernel, LaunchWords, Phases, Range, carried, two_buffers};
use crate::backend::Launch;
use crate::event::Event;
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use std::cell::Cell;

/// Most phases of one call.
const PHASES: usize = 4096;

thread_local! {
    /// Reused storage for the words of this thread's launches.
    static WORDS: Cell<LaunchWords> = const { Cell::new(LaunchWords::new()) };
}

impl<D: Driver> Kernel<D> {
    /// Submits a launch. `None`: it is complete.
    ///
    /// # Errors
    /// If a group or an option cannot be, and those of the driver.
    pub fn submit(&self, driver: &D, launch: &Launch<'_, D::Kernel>) -> Result<Option<Event>, Failure> {
        let wanted = self.wanted(launch)?;
        if launch.phases().is_empty() {
            return Ok(None);
        }
        let mut submission = Submission {
            kernel: self,
            driver,
            launch,
            wanted,
            commands: driver.begin(launch.profiled(), launch.is_awaited())?,
            checked: None,
        };
        match submission.run().and_then(|()| submission.check()) {
            Ok(()) => driver.end(submission.commands),
            Err(failure) => {
                if let Some((_, written)) = submission.checked.take() {
                    driver.free_table(written.table);
                }
                driver.abandon(submission.commands);
                Err(failure)
            }
        }
    }
}

/// A launch on its way to the driver.
struct Submission<'a, D: Driver> {
    kernel: &'a Kernel<D>,
    driver: &'a D,
    launch: &'a Launch<'a, D::Kernel>,
    wanted: Wanted,
    commands: D::Commands<'a>,
    /// The function that the last calls were of, and their table, if it may have a fault that is not read
    /// yet.
    checked: Option<(&'a Function<D>, Written<D>)>,
}

impl<'a, D: Driver> Submission<'a, D> {
    fn run(&mut self) -> Result<(), Failure> {
        let Submission { kernel, driver, launch, .. } = *self;
        let spec = &kernel.spec;
        if spec.cooperating
            && !launch.has_attributes()
            && driver.repeat(kernel, launch, &mut self.commands)?
        {
            return Ok(());
        }
        self.check_spaces()?;
        if !spec.cooperating {
            return self.whole();
        }
        // No lock is held while a driver waits, and a launch from there has words of its own.
        let mut words = WORDS.try_with(Cell::take).unwrap_or_default();
        let outcome = match spec.grid_barrier && D::GRID_BARRIERS {
            true => self.runs_of_phases(&mut words),
            false => self.phases(&mut words),
        };
        let _ = WORDS.try_with(|kept| kept.set(words));
        outcome
    }

    /// Checks that arrays are in the device's memory.
    fn check_spaces(&self) -> Result<(), Failure> {
        let own = self.driver.limits().space;
        let mut args = self.launch.args().iter().enumerate();
        let elsewhere = |arg: &Arg| arg.kind != abi::ARG_SCALAR && arg.space != own;
        let Some((number, arg)) = args.find(|(_, arg)| elsewhere(arg)) else { return Ok(()) };
        let text = format!(
            "argument {number}: expected an array in memory space {own}, the device's, found one in space {}: copy it first",
            arg.space
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// A cooperating kernel: one call per phase.
    fn phases(&mut self, words: &mut LaunchWords) -> Result<(), Failure> {
        let Submission { kernel, launch, .. } = *self;
        let phases = launch.phases();
        for (k, phase) in phases.clone().enumerate() {
            let odd = k % 2 == 1;
            kernel.spec.tell(launch.space(), phase, launch.args(), odd, words)?;
            // Elements that no item owns keep their value.
            self.carry(odd, abi::ARG_FLAG_COVERED)?;
            if words.items > 0 {
                let (function, range) = self.range(words)?;
                let LaunchWords { items, words, table, .. } = words;
                let call = self.parts(function, range);
                self.call(function, &Call { items: *items, words, table, odd, ..call })?;
            }
        }
        if (phases.end - phases.start) % 2 == 1 {
            self.carry(true, abi::ARG_FLAG_NEXT_STAYS)?;
        }
        Ok(())
    }

    /// The function for a phase, and its range.
    fn range(&self, words: &mut LaunchWords) -> Result<(&'a Function<D>, Range), Failure> {
        let Submission { kernel, driver, wanted, .. } = *self;
        if let Some(extents) = words.grid
            && wanted == Wanted::default()
        {
            let function = kernel.of_box(driver, words)?;
            if let Some(range) = kernel.range_of_box(driver, function, extents)? {
                words.as_grid();
                return Ok((function, range));
            }
        }
        if let Some(least) = kernel.spec.items_per_thread
            && words.block == 0
        {
            words.in_runs(driver.items_per_thread(words.items, least));
        }
        let function = self.allow(kernel.of_line(driver, words)?)?;
        Ok((function, kernel.line(driver, function, words, wanted)?))
    }

    /// Lets the groups of a function have the memory that the launch adds.
    fn allow(&self, function: &'a Function<D>) -> Result<&'a Function<D>, Failure> {
        match self.wanted.added {
            0 => Ok(function),
            added => self.driver.add_group_memory(function, added).map(|()| function),
        }
    }

    /// Copies the elements of phased arguments to their other buffer, except for those with this flag. `odd`:
    /// they are in the second now.
    fn carry(&mut self, odd: bool, except: u64) -> Result<(), Failure> {
        let args = self.launch.args().iter();
        for arg in args.filter(|arg| two_buffers(arg) && arg.flags & except == 0) {
            let bytes = (arg.len * u64::from(arg.element_size)) as usize;
            if bytes > 0 {
                let [from, to] = carried(arg, odd);
                let buffer = |second, begin| ArgBuffer { arg, second, begin };
                self.driver.copy(buffer(odd, from), buffer(!odd, to), bytes, &mut self.commands)?;
            }
        }
        Ok(())
    }

    /// A kernel that does not cooperate: one call over the index space itself, or by one thread.
    fn whole(&mut self) -> Result<(), Failure> {
        let function = self.allow(self.kernel.first())?;
        match self.kernel.plain(self.driver, self.launch, self.wanted)? {
            Some(range) => self.call(function, &self.parts(function, range)),
            None => Ok(()),
        }
    }

    /// A cooperating kernel that loops over phases itself: one call for each run of phases with the same
    /// table.
    fn runs_of_phases(&mut self, words: &mut LaunchWords) -> Result<(), Failure> {
        let Submission { kernel, driver, launch, .. } = *self;
        let mut run = Run::default();
        for phase in launch.phases() {
            kernel.spec.tell(launch.space(), phase, launch.args(), false, words)?;
            let joins = run.count < PHASES && driver.limits().grid_barriers && run.table == words.table;
            if run.count > 0 && !joins {
                self.run_of_phases(&run)?;
                run.clear();
            }
            if run.count == 0 {
                run.table.clone_from(&words.table);
            }
            run.count += 1;
            run.threads = run.threads.max(words.threads);
            run.words.extend_from_slice(&words.words);
        }
        self.run_of_phases(&run)
    }

    /// Calls a function for a run of phases. If it has several, all groups must run at the same time.
    fn run_of_phases(&mut self, run: &Run) -> Result<(), Failure> {
        let Submission { kernel, driver, wanted, .. } = *self;
        if run.threads == 0 {
            return Ok(());
        }
        let function = self.allow(kernel.first())?;
        let size = kernel.size(driver, function, run.threads, wanted)?;
        let most = match run.count > 1 {
            true => driver.resident_groups(function, size, wanted.added)?,
            false => driver.limits().groups[0],
        };
        // If there are more items, the threads take several.
        let call = self.parts(function, Range::line(size, run.threads.div_ceil(size).min(most)));
        let (words, phases) = (&run.words[..run.words.len() / run.count], &run.words);
        let phases = Some(Phases { count: run.count as u64, words: phases });
        self.call(function, &Call { items: run.threads, words, table: &run.table, phases, ..call })
    }

    /// A call without words.
    fn parts(&self, function: &'a Function<D>, range: Range) -> Call<'a, D> {
        let Submission { kernel, launch, wanted: Wanted { added, .. }, .. } = *self;
        let (words, table, phases) = (&[][..], &[][..], None);
        Call { launch, kernel, function, range, added, items: 0, words, table, phases, odd: false }
    }

    /// Calls a function: `function`, which is the call's.
    fn call(&mut self, function: &'a Function<D>, call: &Call<'_, D>) -> Result<(), Failure> {
        let spec = &self.kernel.spec;
        if !spec.check_bounds {
            return self.driver.call(call, None, &mut self.commands);
        }
        let same = |(before, written): &(&Function<D>, Written<D>)| {
            std::ptr::eq(*before, function) && written.words == call.table
        };
        if !self.checked.as_ref().is_some_and(same) {
            self.check()?;
            self.checked = Some((function, self.written(call)?));
        }
        let written = self.checked.as_ref().map(|(_, written)| &written.table);
        self.driver.call(call, written, &mut self.commands)?;
        // What a fault has left may keep a loop of the next phase from its end.
        if spec.loops { self.check() } else { Ok(()) }
    }

    /// The table for a call that writes to it.
    fn written(&self, call: &Call<'_, D>) -> Result<Written<D>, Failure> {
        let kept = call.function.written.lock().unwrap_or_else(|e| e.into_inner()).take();
        let mut words = match kept {
            Some(kept) if kept.words == call.table => return Ok(kept),
            Some(Written { words, table }) => {
                self.driver.free_table(table);
                words
            }
            None => Vec::new(),
        };
        words.clear();
        words.extend_from_slice(call.table);
        Ok(Written { table: self.driver.table(&words)?, words })
    }

    /// Waits for the calls so far whose faults are not known, and fails with the first of these.
    fn check(&mut self) -> Result<(), Failure> {
        let Some((function, written)) = self.checked.take() else { return Ok(()) };
        let spec = &self.kernel.spec;
        let fault = self.driver.read(&written.table, spec.fault_at(), &mut self.commands);
        if let Err(failure) = fault.and_then(|fault| spec.check_fault(&fault)) {
            self.driver.free_table(written.table);
            return Err(failure);
        }
        let other = function.written.lock().unwrap_or_else(|e| e.into_inner()).replace(written);
        if let Some(Written { table, .. }) = other {
            self.driver.free_table(table);
        }
        Ok(())
    }
}

/// Phases that are one call.
#[derive(Default)]
struct Run {
    count: usize,
    /// Threads of the largest phase.
    threads: u64,
    /// The kernel's words for each phase, one after the other, and the table that all share.
    words: Vec<u64>,
    table: Vec<u64>,
}

impl Run {
    fn clear(&mut self) {
        (self.count, self.threads) = (0, 0);
        self.words.clear();
    }
}
