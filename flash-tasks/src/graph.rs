//! Task graphs: tasks with the data that they read and write, run in any order that keeps the results of the
//! order in which they were given; kept, and run again without being built.
//!
//! A task waits for the last writer of what it reads, and for the last writer and all readers since of what
//! it writes. Edges lead from earlier tasks to later ones, so there is no circle.
//!
//! A run counts down, for each task, the tasks that it waits for, and for the run, the tasks that nothing
//! waits for (*sinks*): when these have ended, all have. Sinks are counted in blocks, so that threads that
//! run different ends of many independent tasks do not write the same line.

use crate::error::TaskError;
use crate::future::block_on;
use crate::jobs::{Job, JobHeader, Root};
use crate::thread::{Context, Own, lock, new_root};
use crate::trace;
use crate::wait::Waiter;
use flash_trace::is_on;
use std::cell::UnsafeCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Something that tasks of a graph read and write: a name for it, not the thing itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datum {
    graph: u64,
    index: u32,
}

/// A task of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId {
    graph: u64,
    index: u32,
}

/// Tasks that are ordered by the data that they read and write.
///
/// # Examples
/// A sum over two arrays, of which the parts are made at the same time:
/// ```
/// use flash_tasks::TaskGraph;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// let (left, right, sum) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
/// let mut graph = TaskGraph::new();
/// let [a, b, c] = [graph.datum(), graph.datum(), graph.datum()];
/// graph.task(&[], &[a], || left.store((1..=10).sum(), Relaxed));
/// graph.task(&[], &[b], || right.store((11..=20).sum(), Relaxed));
/// graph.task(&[a, b], &[c], || sum.store(left.load(Relaxed) + right.load(Relaxed), Relaxed));
/// for _ in 0..3 {
///     graph.run()?; // built once
///     assert_eq!(sum.load(Relaxed), 210);
/// }
/// # drop(graph);
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
#[derive(Default)]
pub struct TaskGraph<'a> {
    id: u64,
    tasks: Vec<Described<'a>>,
    /// From, to: in the order of `to`.
    edges: Vec<(u32, u32)>,
    /// By datum.
    accesses: Vec<Access>,
    /// Readers of data since their last writers, as lists.
    readers: Vec<Reader>,
    plan: Option<Plan>,
}

/// What a task does; or why it failed.
type Function<'a> = dyn FnMut() -> Result<(), Box<str>> + Send + 'a;

struct Described<'a> {
    function: UnsafeCell<Box<Function<'a>>>,
    name: Option<Box<str>>,
    /// The last successor: a second edge to it is left out.
    latest: u32,
}

#[derive(Clone, Copy)]
struct Access {
    writer: u32,
    /// The first of its list in `readers`.
    reader: u32,
}

#[derive(Clone, Copy)]
struct Reader {
    task: u32,
    next: u32,
}

/// No task, or no reader.
const NONE: u32 = u32::MAX;
/// Sinks of a block.
const BLOCK: u32 = 64;
/// Tasks in a row that a thread runs before it looks at what else it has to do.
const IN_A_ROW: u32 = 32;

/// The tables of a run, made once and again after a task was added.
struct Plan {
    /// What its slots refer to. The plan's own.
    run: NonNull<Run>,
    /// The root of a run that only its caller waits for, and the one that the slots have.
    own_root: Root,
    root: Root,
    slots: Box<[Slot]>,
    /// Of slot i: `successors[first[i]..first[i + 1]]`.
    first: Box<[u32]>,
    successors: Box<[u32]>,
    /// Slots that wait for nothing.
    roots: Box<[u32]>,
    /// Sinks of each block that have not ended.
    blocks: Box<[Block]>,
    sinks: u32,
}

#[repr(align(64))]
struct Block(AtomicU32);

/// A task of a run.
#[repr(C)]
struct Slot {
    job: JobHeader,
    run: *const Run,
    index: u32,
    /// Tasks that it waits for: of each run, and of this one that have not ended. Each run leaves the second
    /// as it found it.
    waits_for: u32,
    pending: AtomicU32,
    /// The number of its block; `NONE`: it is no sink.
    block: u32,
}

impl Slot {
    /// One of the tasks that it waits for has ended: true for the last. If no other is left, nothing else
    /// counts, so there is nothing to write; its own run sets the count for the next one. The load acquires
    /// what the others did before they counted.
    #[inline]
    fn is_ready(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 1 || self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

// SAFETY: the runs of a plan take turns with what the graph's owner does, and slots are shared as `Run` says.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

/// The run that lasts, or the last one. `TaskGraph::run` waits for it.
struct Run {
    /// The functions: the one of a task is called by the thread that has its only entry in a queue.
    tasks: *const Described<'static>,
    plan: *const Plan,
    waiter: *const Waiter,
    /// Blocks whose sinks have not all ended.
    blocks: AtomicU32,
    failed: AtomicBool,
    error: Mutex<Option<TaskError>>,
}

impl<'a> TaskGraph<'a> {
    /// A graph without tasks.
    pub fn new() -> TaskGraph<'a> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        TaskGraph { id: IDS.fetch_add(1, Ordering::Relaxed), ..TaskGraph::default() }
    }

    /// A new datum.
    pub fn datum(&mut self) -> Datum {
        let index = self.accesses.len() as u32;
        self.accesses.push(Access { writer: NONE, reader: NONE });
        Datum { graph: self.id, index }
    }

    /// Adds a task that reads and writes data. What it both reads and writes is in `writes`. It is called
    /// once per run.
    ///
    /// # Panics
    /// A datum is of another graph.
    pub fn task(&mut self, reads: &[Datum], writes: &[Datum], mut f: impl FnMut() + Send + 'a) -> TaskId {
        let f = move || {
            f();
            Ok(())
        };
        self.add(reads, writes, Box::new(f))
    }

    /// As [`task`](Self::task), for a function that may fail: the run ends as if it had panicked.
    ///
    /// # Panics
    /// As for `task`.
    pub fn try_task<E: Display>(
        &mut self,
        reads: &[Datum],
        writes: &[Datum],
        mut f: impl FnMut() -> Result<(), E> + Send + 'a,
    ) -> TaskId {
        self.add(reads, writes, Box::new(move || f().map_err(|error| error.to_string().into())))
    }

    /// As [`try_task`](Self::try_task), for what goes on elsewhere, such as a kernel on a device: the task
    /// ends when the future does, and keeps no thread meanwhile.
    ///
    /// # Panics
    /// As for `task`.
    ///
    /// # Examples
    /// ```
    /// use flash_tasks::TaskGraph;
    /// let mut graph = TaskGraph::new();
    /// let sum = graph.datum();
    /// graph.launch(&[], &[sum], || async { std::fs::metadata("Cargo.toml").map(drop) });
    /// graph.run()?;
    /// # Ok::<(), flash_tasks::TaskError>(())
    /// ```
    pub fn launch<L, T, E>(
        &mut self,
        reads: &[Datum],
        writes: &[Datum],
        mut f: impl FnMut() -> L + Send + 'a,
    ) -> TaskId
    where
        L: IntoFuture<Output = Result<T, E>>,
        E: Display,
    {
        self.try_task(reads, writes, move || block_on(f()).map(drop))
    }

    fn add(&mut self, reads: &[Datum], writes: &[Datum], f: Box<Function<'a>>) -> TaskId {
        let index = self.tasks.len() as u32;
        assert!(index < NONE, "a graph has at most {NONE} tasks");
        self.plan = None;
        self.tasks.push(Described { function: UnsafeCell::new(f), name: None, latest: NONE });
        for datum in reads {
            let access = self.access(datum);
            self.edge(access.writer, index);
            let next = access.reader;
            self.accesses[datum.index as usize].reader = self.readers.len() as u32;
            self.readers.push(Reader { task: index, next });
        }
        for datum in writes {
            let access = self.access(datum);
            let mut reader = access.reader;
            while let Some(&Reader { task, next }) = self.readers.get(reader as usize) {
                self.edge(task, index);
                reader = next;
            }
            if access.reader == NONE {
                // Readers come after the writer themselves.
                self.edge(access.writer, index);
            }
            self.accesses[datum.index as usize] = Access { writer: index, reader: NONE };
        }
        TaskId { graph: self.id, index }
    }

    /// Gives a task a name, for errors.
    ///
    /// # Panics
    /// The task is of another graph.
    pub fn name(&mut self, task: TaskId, name: impl Into<String>) {
        let index = self.index(task);
        self.tasks[index as usize].name = Some(name.into().into_boxed_str());
    }

    /// Lets a task come after another one, which was added before it.
    ///
    /// # Panics
    /// A task is of another graph, or `before` was not added before `after`.
    pub fn order(&mut self, before: TaskId, after: TaskId) {
        let (before, after) = (self.index(before), self.index(after));
        assert!(
            before < after,
            "task {before} was not added before task {after}, so it cannot come before it"
        );
        self.plan = None;
        self.edges.push((before, after));
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True if there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn access(&self, datum: &Datum) -> Access {
        assert!(datum.graph == self.id, "a datum of another graph was given");
        self.accesses[datum.index as usize]
    }

    fn index(&self, task: TaskId) -> u32 {
        assert!(task.graph == self.id, "a task of another graph was given");
        task.index
    }

    fn edge(&mut self, from: u32, to: u32) {
        // None, or the task itself, which reads what it writes.
        if from == NONE || from == to {
            return;
        }
        let latest = &mut self.tasks[from as usize].latest;
        if *latest != to {
            *latest = to;
            self.edges.push((from, to));
        }
    }

    /// Runs all tasks once, and returns when they have ended. The calling thread runs some of them. The first
    /// run after a change makes the plan for the others.
    ///
    /// # Errors
    /// A task panicked or failed: the first one. Tasks that had not begun by then were not run.
    pub fn run(&mut self) -> Result<(), TaskError> {
        let plan = self.plan.get_or_insert_with(|| Plan::new(self.tasks.len(), &self.edges));
        if plan.slots.is_empty() {
            return Ok(());
        }
        if flash_core::workers::in_kernel() {
            return self.run_here();
        }
        let own = Own::here();
        // A graph that nothing waits for but this thread is always the same root.
        let before = own.begins_in(plan.own_root);
        let waiter = Waiter::new(own);
        plan.reset(self.tasks.as_ptr().cast(), &waiter, own.context.get().root);
        let plan = &*plan;
        let roots = plan.roots.iter().map(|&root| plan.job(root));
        let _ = is_on().then(|| roots.clone().for_each(|root| trace::ready("run", root)));
        own.push_all(roots);
        waiter.wait(own);
        if let Some(before) = before {
            own.ends(before);
        }
        // SAFETY: the plan owns it, and no task is left that refers to it.
        lock(unsafe { &plan.run.as_ref().error }).take().map_or(Ok(()), Err)
    }

    /// As [`run`](Self::run), in a kernel, which must not wait for other threads: in the order of the tasks.
    #[cold]
    fn run_here(&mut self) -> Result<(), TaskError> {
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let name = task.name.as_deref();
            outcome(name, index, task.function.get_mut())?;
        }
        Ok(())
    }
}

fn name_of(name: Option<&str>, index: usize) -> String {
    name.map_or_else(|| format!("number {index} of a graph"), str::to_string)
}

/// Calls the function of a task.
#[inline]
fn outcome(name: Option<&str>, index: usize, f: &mut Function<'_>) -> Result<(), TaskError> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(TaskError::failed(&name_of(name, index), error.into())),
        Err(payload) => Err(TaskError::panicked(&name_of(name, index), payload)),
    }
}

impl Plan {
    fn new(tasks: usize, edges: &[(u32, u32)]) -> Plan {
        let mut first = vec![0_u32; tasks + 1];
        let mut waits_for = vec![0_u32; tasks];
        for &(from, to) in edges {
            first[from as usize + 1] += 1;
            waits_for[to as usize] += 1;
        }
        for i in 0..tasks {
            first[i + 1] += first[i];
        }
        let mut successors = vec![0_u32; edges.len()];
        let mut next = first.clone();
        for &(from, to) in edges {
            let at = &mut next[from as usize];
            successors[*at as usize] = to;
            *at += 1;
        }
        let run = NonNull::from(Box::leak(Box::new(Run {
            tasks: ptr::null(),
            plan: ptr::null(),
            waiter: ptr::null(),
            blocks: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        })));
        let root = new_root();
        let mut sinks = 0;
        let slot = |index: usize| {
            let is_sink = first[index] == first[index + 1];
            let block = if is_sink { sinks / BLOCK } else { NONE };
            sinks += u32::from(is_sink);
            Slot {
                job: JobHeader { run: run_slot, root },
                run: run.as_ptr(),
                index: index as u32,
                waits_for: waits_for[index],
                pending: AtomicU32::new(waits_for[index]),
                block,
            }
        };
        let slots = (0..tasks).map(slot).collect();
        let roots = (0..tasks as u32).filter(|&task| waits_for[task as usize] == 0).collect();
        let blocks = (0..sinks.div_ceil(BLOCK)).map(|_| Block(AtomicU32::new(0))).collect();
        let (first, successors) = (first.into(), successors.into());
        Plan { run, own_root: root, root, slots, first, successors, roots, blocks, sinks }
    }

    /// Makes everything ready for a run.
    fn reset(&mut self, tasks: *const Described<'static>, waiter: &Waiter, root: Root) {
        // SAFETY: the plan owns it, and no run lasts.
        let run = unsafe { self.run.as_mut() };
        run.tasks = tasks;
        run.plan = self;
        run.waiter = waiter;
        *run.blocks.get_mut() = self.blocks.len() as u32;
        *run.failed.get_mut() = false;
        if root != self.root {
            self.root = root;
            for slot in &mut self.slots {
                slot.job.root = root;
            }
        }
        for (block, first) in self.blocks.iter_mut().zip((0..self.sinks).step_by(BLOCK as usize)) {
            *block.0.get_mut() = (self.sinks - first).min(BLOCK);
        }
    }

    fn job(&self, slot: u32) -> Job {
        Job(NonNull::from(&self.slots[slot as usize]).cast())
    }

    fn successors(&self, slot: u32) -> &[u32] {
        let (first, end) = (self.first[slot as usize], self.first[slot as usize + 1]);
        &self.successors[first as usize..end as usize]
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: `new` made it as a box, and no run lasts.
        drop(unsafe { Box::from_raw(self.run.as_ptr()) });
    }
}

/// Runs a task of a graph, and those that come after it and wait for nothing else.
///
/// # Safety
/// As for [`JobHeader::run`]: the caller has the only entry of the slot, and its run lasts.
unsafe fn run_slot(job: NonNull<JobHeader>, own: &'static Own) {
    let mut slot = job.cast::<Slot>();
    for row in 1.. {
        // SAFETY: the run lasts until its last sink is counted. This task is none, or has not been counted.
        let (at, run) = unsafe { (slot.as_ref(), &*slot.as_ref().run) };
        // SAFETY: as above; the plan is not changed while the run lasts.
        let plan = unsafe { &*run.plan };
        // For the next run. In this one nothing counts it down any more.
        at.pending.store(at.waits_for, Ordering::Relaxed);
        own.context.set(Context { root: at.job.root, ..Context::NONE });
        // SAFETY: as above: the tasks are there as long as the run lasts.
        let span =
            is_on().then(|| trace::graph_task(Job(slot.cast()), unsafe { run.name(at.index) }, at.index));
        // SAFETY: as above. Each task is called by the thread that has its entry, once per run.
        unsafe { run.call(at.index) };
        if at.block != NONE {
            drop(span);
            // The last that is done with the run, unless this was the last sink.
            if plan.blocks[at.block as usize].0.fetch_sub(1, Ordering::AcqRel) == 1 {
                let waiter = run.waiter;
                if run.blocks.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // SAFETY: `TaskGraph::run` waits for it.
                    unsafe { Waiter::signal(waiter) };
                }
            }
            return;
        }
        let mut next = None;
        for &successor in plan.successors(at.index) {
            if plan.slots[successor as usize].is_ready() {
                let ready = plan.job(successor);
                let _ = is_on().then(|| trace::ready("after", ready));
                match next {
                    None => next = Some(ready),
                    Some(_) => own.push_own(ready),
                }
            }
        }
        let Some(Job(next)) = next else { return };
        if row == IN_A_ROW {
            return own.push_own(Job(next));
        }
        slot = next.cast();
    }
}

impl Run {
    /// The name that a task was given.
    ///
    /// # Safety
    /// The run lasts.
    unsafe fn name(&self, index: u32) -> Option<&str> {
        // SAFETY: the caller vouches; names do not change while the run borrows the tasks.
        unsafe { (*self.tasks.add(index as usize)).name.as_deref() }
    }

    /// Calls a task's function, unless one has failed.
    ///
    /// # Safety
    /// The caller has the task's entry.
    #[inline]
    unsafe fn call(&self, index: u32) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: `run` borrows the tasks for as long as the run lasts, and the entry is the caller's.
        let (task, function) = unsafe {
            let task = self.tasks.add(index as usize);
            (&(*task).name, &mut *(*task).function.get())
        };
        if let Err(error) = outcome(task.as_deref(), index as usize, function) {
            lock(&self.error).get_or_insert(error);
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}
