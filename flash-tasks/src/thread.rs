//! What each thread has for tasks: its queue, its mail, its fibers; and how it finds the next task.
//!
//! A thread gets an [`Own`] when it first uses tasks, and gives it back when it ends. [`Own`] is the thread's
//! alone. Other threads see its [`Shared`]: they steal from the queue and send mail.
//!
//! - *The queue* has what this thread spawned, the newest first for the thread itself, the oldest first for
//!   thieves.
//! - *Mail* is for this thread only: fibers that began here and may go on.
//! - *Roots.* A thread that is no worker runs tasks only while it waits, and only those of the scope, join or
//!   graph that it waits for: its *root*. It hands others that it comes across to the workers.

use crate::fiber::{self, Back, Fiber, stack_pointer};
use crate::idle::{Activity, Part};
use crate::node::Node;
use crate::scope::ScopeState;
use crate::task::Header;
use crate::wait::Waiter;
use crossbeam_deque::{Steal, Stealer, Worker};
use flash_core::workers::{self, Registration, Source};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A worker leaves the tasks for a moment after this time, for work of other sources.
const TURN: Duration = Duration::from_micros(200);
/// Tasks between looks at the clock, and at pending operations.
const TASKS_PER_LOOK: u32 = 32;
/// A thread that waits looks for tasks for so long before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// A worker without a task looks for one for so long before it leaves the tasks.
const SEARCH: Duration = Duration::from_micros(5);
/// Fibers without a task that a thread keeps.
const IDLE_FIBERS: usize = 32;
/// The longest sleep between two looks at pending operations, with nothing else to do.
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// What belongs together: see the module's head. 0: it has none.
pub(crate) type Root = u64;
/// No task has this one.
const NO_ROOT: Root = Root::MAX;

/// The beginning of everything that can be queued.
#[repr(C)]
pub(crate) struct JobHeader {
    /// Runs it, once. It does not unwind.
    pub(crate) run: unsafe fn(NonNull<JobHeader>, &'static Own),
    pub(crate) root: Root,
}

/// Something to run, once. It stays alive until it has run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job(pub(crate) NonNull<JobHeader>);

impl Job {
    fn root(&self) -> Root {
        // SAFETY: it has not run, so it is alive.
        unsafe { self.0.as_ref() }.root
    }
}

// SAFETY: what makes a job promises that any thread may run it.
unsafe impl Send for Job {}

/// A fiber that may go on, sent to its thread.
pub(crate) struct Ready(pub(crate) NonNull<Fiber>);

// SAFETY: the fiber is only passed to its own thread.
unsafe impl Send for Ready {}

/// How a thread is reached.
const AWAKE: u8 = 0;
/// It has left the tasks, and sleeps or will sleep as a worker.
const IDLE: u8 = 1;
/// It sleeps, or is about to, until it is unparked.
const PARKED: u8 = 2;

/// What other threads see of a thread.
pub(crate) struct Shared {
    stealer: Stealer<Job>,
    mail: Mutex<VecDeque<Ready>>,
    has_mail: AtomicBool,
    rest: AtomicU8,
    /// The index of the worker that it is.
    index: AtomicUsize,
    /// What it runs while it waits: see `Own::filter`.
    filter: AtomicU64,
    thread: Mutex<Option<Thread>>,
}

/// A thread's own part.
pub(crate) struct Own {
    pub(crate) shared: &'static Shared,
    queue: Worker<Job>,
    /// The fiber that runs.
    pub(crate) fiber: Cell<*const Fiber>,
    idle_fibers: RefCell<Vec<NonNull<Fiber>>>,
    /// Fibers that go on at the next turn: they gave way, or look again whether an operation is done.
    waiting_turn: RefCell<VecDeque<NonNull<Fiber>>>,
    /// Fibers that go on when this thread is back from a wait of another root.
    held: RefCell<Vec<NonNull<Fiber>>>,
    /// What runs now: its task, the node that counts what it spawns, and the scope of that node.
    pub(crate) context: Cell<Context>,
    /// What this thread waits for, if it is in no fiber.
    goal: Cell<*const Waiter>,
    /// The only root whose tasks it runs; 0: any.
    filter: Cell<Root>,
    searching: Cell<bool>,
    /// The fiber that runs is not to be left: see `unsuspended`.
    pub(crate) stays: Cell<bool>,
    /// It counts as active.
    active: Cell<bool>,
    /// It runs tasks as a worker.
    worker: Cell<bool>,
    /// The index of the worker that it is, once it has been one.
    index: Cell<Option<usize>>,
    /// When the worker leaves the tasks for a moment.
    until: Cell<Option<Instant>>,
    victims: RefCell<Victims>,
    random: Cell<u64>,
    /// Above this address, enough is left of the thread's own stack.
    room: Cell<usize>,
}

/// What was on a thread before it began something: see [`Own::begins`].
pub(crate) struct Before {
    pub(crate) context: Context,
    /// It was not active.
    entered: bool,
}

/// What runs on a thread.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) root: Root,
    pub(crate) task: *const Header,
    pub(crate) node: *const Node,
    pub(crate) scope: *const ScopeState,
}

impl Context {
    pub(crate) const NONE: Context =
        Context { root: 0, task: ptr::null(), node: ptr::null(), scope: ptr::null() };
}

struct Victims {
    version: usize,
    threads: Arc<[&'static Shared]>,
}

/// All threads that have an [`Own`].
struct Threads {
    threads: Arc<[&'static Shared]>,
    /// Given back.
    free: Vec<&'static Own>,
}

// SAFETY: an `Own` in the list belongs to no thread.
unsafe impl Send for Threads {}

static THREADS: Mutex<Option<Threads>> = Mutex::new(None);
/// Changes with `THREADS.threads`.
static VERSION: AtomicUsize = AtomicUsize::new(0);
pub(crate) static ACTIVITY: Activity = Activity(AtomicU64::new(0));
/// The limit of active threads; 0: the number of workers.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static NEXT_ROOT: AtomicU64 = AtomicU64::new(1);

/// Tasks that come before all others, and after: by priority.
pub(crate) static URGENT: Shelf = Shelf::new();
pub(crate) static LATER: Shelf = Shelf::new();
/// Others of no thread's queue.
pub(crate) static SHARED: Shelf = Shelf::new();

/// Tasks of one worker each, by its index.
fn bound() -> &'static [Shelf] {
    static BOUND: OnceLock<Box<[Shelf]>> = OnceLock::new();
    BOUND.get_or_init(|| (0..worker_count()).map(|_| Shelf::new()).collect())
}

/// Queues a job that one worker runs: that of the index, which counts round.
pub(crate) fn bind(job: Job, worker: usize) {
    if flash_core::fork::is_child() {
        // No worker is here.
        return inject(job, &SHARED);
    }
    let bound = bound();
    bound[worker % bound.len()].push(job);
    // Workers cannot be addressed.
    workers::wake_all();
}

/// A queue that all threads share, first in first out.
pub(crate) struct Shelf {
    jobs: Mutex<VecDeque<Job>>,
    count: AtomicUsize,
}

impl Shelf {
    const fn new() -> Shelf {
        Shelf { jobs: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    fn push(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        jobs.push_back(job);
        self.count.store(jobs.len(), Ordering::Relaxed);
    }

    /// The first one of a root; 0: of any.
    fn pop(&self, root: Root) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        let mut jobs = lock(&self.jobs);
        let at = jobs.iter().position(|job| root == 0 || job.root() == root)?;
        let job = jobs.remove(at);
        self.count.store(jobs.len(), Ordering::Relaxed);
        job
    }

    /// True if there is one of a root.
    fn has(&self, root: Root) -> bool {
        !self.is_empty() && lock(&self.jobs).iter().any(|job| job.root() == root)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// At most so many threads run tasks at once.
#[inline]
fn limit() -> u64 {
    match LIMIT.load(Ordering::Relaxed) {
        0 => worker_count() as u64,
        limit => limit,
    }
}

/// The number of workers that run tasks, started or not. Threads that wait run tasks, too.
pub fn worker_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(workers::count)
}

/// Sets the limit of workers that run tasks at the same time, at least 1: workers beyond it finish the tasks
/// that they have begun, and take no others. `None`: all workers, as at the start. It may change at any time.
///
/// Fewer workers save energy where tasks wait for memory anyway.
pub fn set_limit(threads: Option<usize>) {
    let limit = threads.map_or(0, |threads| threads.max(1) as u64);
    LIMIT.store(limit, Ordering::Relaxed);
    workers::wake_all();
}

pub(crate) fn new_root() -> Root {
    NEXT_ROOT.fetch_add(1, Ordering::Relaxed)
}

thread_local! {
    static OWN: Cell<*const Own> = const { Cell::new(ptr::null()) };
    static GIVES_BACK: GivesBack = const { GivesBack };
}

struct GivesBack;

impl Drop for GivesBack {
    /// The thread ends. It waits for nothing, so it has no fiber with a task; what it spawned and is still
    /// queued goes to the workers.
    fn drop(&mut self) {
        let own = OWN.replace(ptr::null());
        // SAFETY: `here` made it, and it lives for ever.
        let Some(own) = (unsafe { own.as_ref() }) else { return };
        let mut any = false;
        while let Some(job) = own.queue.pop() {
            SHARED.push(job);
            any = true;
        }
        if any {
            workers::wake(1);
        }
        *lock(&own.shared.thread) = None;
        if let Some(threads) = lock(&THREADS).as_mut() {
            threads.free.push(own);
        }
    }
}

impl Own {
    /// This thread's.
    #[inline]
    pub(crate) fn here() -> &'static Own {
        // SAFETY: `adopt` stored an `Own` that lives for ever.
        match unsafe { OWN.get().as_ref() } {
            Some(own) => own,
            None => Own::adopt(),
        }
    }

    #[cold]
    fn adopt() -> &'static Own {
        register_source();
        let mut threads = lock(&THREADS);
        let threads = threads.get_or_insert_with(|| Threads { threads: Arc::from([]), free: Vec::new() });
        let own = threads.free.pop().unwrap_or_else(|| {
            let own = Own::new(threads.threads.len());
            threads.threads = threads.threads.iter().copied().chain([own.shared]).collect();
            VERSION.fetch_add(1, Ordering::Release);
            own
        });
        *lock(&own.shared.thread) = Some(std::thread::current());
        own.shared.rest.store(AWAKE, Ordering::Relaxed);
        own.room.set(fiber::room_of_thread());
        OWN.set(own);
        // Fails where the thread is ending: then nothing is given back.
        let _ = GIVES_BACK.try_with(|_| ());
        own
    }

    fn new(number: usize) -> &'static Own {
        let queue = Worker::new_lifo();
        let shared = Box::leak(Box::new(Shared {
            stealer: queue.stealer(),
            mail: Mutex::new(VecDeque::new()),
            has_mail: AtomicBool::new(false),
            rest: AtomicU8::new(AWAKE),
            index: AtomicUsize::new(usize::MAX),
            filter: AtomicU64::new(0),
            thread: Mutex::new(None),
        }));
        Box::leak(Box::new(Own {
            shared,
            queue,
            fiber: Cell::new(ptr::null()),
            idle_fibers: RefCell::new(Vec::new()),
            waiting_turn: RefCell::new(VecDeque::new()),
            held: RefCell::new(Vec::new()),
            context: Cell::new(Context::NONE),
            goal: Cell::new(ptr::null()),
            filter: Cell::new(0),
            searching: Cell::new(false),
            stays: Cell::new(false),
            active: Cell::new(false),
            worker: Cell::new(false),
            index: Cell::new(None),
            until: Cell::new(None),
            victims: RefCell::new(Victims { version: 0, threads: Arc::from([]) }),
            random: Cell::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1)),
            room: Cell::new(0),
        }))
    }

    /// What this thread does from now on belongs to a scope, a join or a graph. The context of before is to
    /// be given to [`ends`](Self::ends).
    #[inline]
    pub(crate) fn begins(&self) -> Before {
        let context = self.context.get();
        // What is waited for without leaving the stack is a root of its own, so that nothing else is begun on
        // top of it.
        if context.root == 0 || self.stays.get() {
            return self.begins_as(new_root());
        }
        Before { context, entered: false }
    }

    /// As [`begins`](Self::begins), for what belongs to `root`.
    #[cold]
    pub(crate) fn begins_as(&self, root: Root) -> Before {
        let context = self.context.get();
        self.context.set(Context { root, ..context });
        let entered = !self.active.replace(true);
        if entered {
            ACTIVITY.enter(Part::WAITS);
        }
        Before { context, entered }
    }

    /// See [`begins`](Self::begins).
    #[inline]
    pub(crate) fn ends(&self, before: Before) {
        self.context.set(before.context);
        if before.entered {
            self.leaves();
        }
    }

    /// What this thread counts as.
    fn part(&self) -> Part {
        match (self.worker.get(), self.searching.get()) {
            (false, _) => Part::WAITS,
            (true, false) => Part::RUNS,
            (true, true) => Part::SEARCHES,
        }
    }

    #[cold]
    fn leaves(&self) {
        ACTIVITY.leave(self.part());
        self.active.set(false);
        self.searching.set(false);
        if self.any_queued() {
            wake_if_wanted(0);
        }
    }

    /// Queues a job for this thread or a thief.
    #[inline]
    pub(crate) fn push(&self, job: Job) {
        let root = job.root();
        self.queue.push(job);
        wake_if_wanted(root);
    }

    /// Queues a job that this thread will run unless a thief does. It does not see to it that a worker that
    /// goes to sleep right now sees the job.
    #[inline]
    pub(crate) fn push_own(&self, job: Job) {
        let root = job.root();
        self.queue.push(job);
        if ACTIVITY.seems_wanted(limit()) {
            wake_for(root);
        }
    }

    /// Queues jobs of this thread's root, and wakes a worker for them once.
    pub(crate) fn push_all(&self, jobs: impl Iterator<Item = Job>) {
        jobs.for_each(|job| self.queue.push(job));
        wake_if_wanted(self.context.get().root);
    }

    /// Takes `job` back if it is one of the two newest in the queue.
    #[inline]
    pub(crate) fn take_back(&self, job: Job) -> bool {
        let Some(newest) = self.queue.pop() else { return false };
        if newest == job {
            return true;
        }
        let second = self.queue.pop();
        if let Some(second) = second
            && second != job
        {
            self.queue.push(second);
        }
        // A worker may have looked meanwhile.
        self.push_own(newest);
        second == Some(job)
    }

    /// The next job for this thread. Called by fibers.
    #[inline]
    pub(crate) fn next(&self) -> Option<Job> {
        if let Some(job) = self.bound().and_then(|bound| bound.pop(self.filter.get())) {
            return Some(self.found(job));
        }
        self.next_of_any()
    }

    /// As [`next`](Self::next), of those that are not bound to this thread.
    #[inline]
    fn next_of_any(&self) -> Option<Job> {
        let filter = self.filter.get();
        if let Some(job) = URGENT.pop(filter) {
            return Some(self.found(job));
        }
        while let Some(job) = self.queue.pop() {
            if self.may_run(job) {
                return Some(self.found(job));
            }
        }
        self.search()
    }

    /// The tasks that only this thread runs, if it is a worker.
    #[inline]
    fn bound(&self) -> Option<&'static Shelf> {
        self.index.get().map(|index| &bound()[index])
    }

    /// True if this thread may run the job. If not, it is given to the workers.
    #[inline]
    fn may_run(&self, job: Job) -> bool {
        let filter = self.filter.get();
        let may = filter == 0 || job.root() == filter;
        if !may {
            inject(job, &SHARED);
        }
        may
    }

    #[inline]
    fn found(&self, job: Job) -> Job {
        self.stops_searching();
        job
    }

    /// This thread has something to run.
    #[inline]
    fn stops_searching(&self) {
        if self.searching.replace(false) && ACTIVITY.found() && self.any_queued() {
            wake_if_wanted(0);
        }
    }

    #[inline(never)]
    fn search(&self) -> Option<Job> {
        let filter = self.filter.get();
        if flash_core::fork::is_child() {
            // The threads that the other queues belong to are not here, but in the parent.
            return SHARED.pop(filter).or_else(|| LATER.pop(filter));
        }
        if filter == 0 && !self.searching.replace(true) {
            ACTIVITY.search();
        }
        let job = SHARED.pop(filter).or_else(|| self.steal()).or_else(|| LATER.pop(filter))?;
        Some(self.found(job))
    }

    fn steal(&self) -> Option<Job> {
        let any = self.filter.get() == 0;
        let threads = self.victims();
        let random = self.random.get();
        self.random.set(random ^ (random << 13) ^ (random << 13 ^ random) >> 7 ^ random << 17);
        let start = if threads.is_empty() { 0 } else { random as usize % threads.len() };
        for victim in threads[start..].iter().chain(&threads[..start]) {
            if ptr::eq(*victim, self.shared) {
                continue;
            }
            loop {
                let stolen = match any {
                    true => victim.stealer.steal_batch_and_pop(&self.queue),
                    false => victim.stealer.steal(),
                };
                match stolen {
                    Steal::Success(job) if self.may_run(job) => return Some(job),
                    Steal::Success(_) | Steal::Retry => {}
                    Steal::Empty => break,
                }
            }
        }
        None
    }

    fn victims(&self) -> Arc<[&'static Shared]> {
        let mut victims = self.victims.borrow_mut();
        let version = VERSION.load(Ordering::Acquire);
        if victims.version != version {
            let threads = lock(&THREADS);
            let threads = threads.as_ref().map_or_else(|| Arc::from([]), |threads| threads.threads.clone());
            *victims = Victims { version, threads };
        }
        victims.threads.clone()
    }

    /// True if a queue has something, of any root.
    fn any_queued(&self) -> bool {
        !self.queue.is_empty()
            || !URGENT.is_empty()
            || !LATER.is_empty()
            || !SHARED.is_empty()
            || self.victims().iter().any(|victim| !victim.stealer.is_empty())
    }

    /// True if a worker has something to do.
    fn has_work(&self) -> bool {
        self.shared.has_mail.load(Ordering::Acquire)
            || !self.waiting_turn.borrow().is_empty()
            || self.bound().is_some_and(|bound| !bound.is_empty())
            || (!beyond_limit() && self.any_queued())
    }

    /// True if a fiber should go back to the thread's loop before it takes the next job.
    #[inline]
    pub(crate) fn should_turn(&self, jobs: &mut u32) -> bool {
        *jobs += 1;
        if self.shared.has_mail.load(Ordering::Relaxed) || self.reached() {
            return true;
        }
        if !jobs.is_multiple_of(TASKS_PER_LOOK) {
            return false;
        }
        !self.waiting_turn.borrow().is_empty()
            || self.time_is_up()
            || (self.filter.get() == 0 && beyond_limit())
    }

    fn time_is_up(&self) -> bool {
        self.until.get().is_some_and(|until| Instant::now() >= until)
    }

    #[inline]
    fn reached(&self) -> bool {
        // SAFETY: `wait_outside` keeps it alive while it is set.
        unsafe { self.goal.get().as_ref() }.is_some_and(Waiter::is_done)
    }

    /// A worker that was in the middle of something of rayon's when it was called for what only it may do has
    /// not come, and goes to sleep without a look. True if there is one such, which is called once more.
    fn calls_again(&self) -> bool {
        let threads = self.victims();
        let idle = |thread: &Shared| thread.rest.load(Ordering::Relaxed) == IDLE;
        let has_mail = |thread: &Shared| thread.has_mail.load(Ordering::Relaxed) && idle(thread);
        // A worker that has not run tasks yet has no index.
        let of = |index| threads.iter().find(|thread| thread.index.load(Ordering::Relaxed) == index);
        let waits = |(index, shelf): (usize, &Shelf)| {
            !shelf.is_empty() && of(index).is_none_or(|thread| idle(thread))
        };
        let any = threads.iter().any(|thread| has_mail(thread)) || bound().iter().enumerate().any(waits);
        if any {
            std::thread::sleep(Duration::from_millis(1));
            workers::wake_all();
        }
        any
    }

    fn take_mail(&self) -> Option<Ready> {
        if !self.shared.has_mail.load(Ordering::Acquire) {
            return None;
        }
        let mut mail = lock(&self.shared.mail);
        let first = mail.pop_front();
        self.shared.has_mail.store(!mail.is_empty(), Ordering::Release);
        first
    }

    /// Lets this thread's fibers run until what it waits for is done, its time is up, or nothing is left.
    /// True in the last case.
    fn run(&'static self) -> bool {
        // Looks at pending operations in a row that found none done.
        let mut in_vain = 0_u32;
        loop {
            if self.reached() || self.time_is_up() {
                return false;
            }
            match self.take_mail() {
                Some(Ready(fiber)) => self.resume(fiber),
                None if self.filter.get() == 0 && beyond_limit() => {
                    if self.waiting_turn.borrow().is_empty() {
                        return true;
                    }
                }
                None => {
                    if self.run_fiber() {
                        // It ran something.
                        in_vain = 0;
                    } else if self.waiting_turn.borrow().is_empty() {
                        return true;
                    }
                }
            }
            let waiting = self.waiting_turn.borrow().len();
            for _ in 0..waiting {
                let Some(fiber) = self.waiting_turn.borrow_mut().pop_front() else { break };
                self.resume(fiber);
            }
            if waiting > 0 {
                in_vain += 1;
                self.pause(in_vain);
            }
        }
    }

    /// Nothing but pending operations is left: gives way to other threads, for longer and longer.
    fn pause(&self, in_vain: u32) {
        match in_vain {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => {
                let part = self.part();
                ACTIVITY.leave(part);
                let sleep = Duration::from_micros(u64::from(in_vain - 255)).min(LONGEST_SLEEP);
                // Mail ends the sleep.
                self.parks();
                if !self.shared.has_mail.load(Ordering::Relaxed) {
                    std::thread::park_timeout(sleep);
                }
                self.shared.rest.store(AWAKE, Ordering::Relaxed);
                ACTIVITY.enter(part);
            }
        }
    }

    /// Lets a fiber without a task look for one. False if it found none.
    fn run_fiber(&'static self) -> bool {
        let mut fiber = None;
        if !workers::is_extra() {
            fiber = self.idle_fibers.borrow_mut().pop().or_else(Fiber::new);
        }
        match fiber {
            Some(fiber) => self.go_on(fiber) != Back::NothingToDo,
            // A thread that may end, or no memory for another stack: the task runs on this thread's own, and
            // what it waits for is waited for there.
            None => match self.next() {
                Some(job) => {
                    let stays = self.stays.replace(true);
                    self.execute(job);
                    self.stays.set(stays);
                    self.context.set(Context::NONE);
                    true
                }
                None => false,
            },
        }
    }

    /// Goes on with a fiber that waited, unless it is of another root than this thread waits for. Such a one
    /// began before the wait: on top of it, it might wait for what comes after.
    fn resume(&'static self, fiber: NonNull<Fiber>) {
        let filter = self.filter.get();
        // SAFETY: the fiber is alive, and this thread's.
        if filter != 0 && unsafe { fiber.as_ref() }.root() != filter {
            return self.held.borrow_mut().push(fiber);
        }
        self.stops_searching();
        self.go_on(fiber);
    }

    fn go_on(&'static self, fiber: NonNull<Fiber>) -> Back {
        let before = (self.fiber.replace(fiber.as_ptr()), self.stays.replace(false));
        // SAFETY: the fiber is this thread's, does not run, and nothing else resumes it.
        let back = unsafe { Fiber::resume(fiber) };
        self.fiber.set(before.0);
        self.stays.set(before.1);
        self.context.set(Context::NONE);
        match back {
            // What it waits for has it.
            Back::Waits => {}
            Back::GivesWay => self.waiting_turn.borrow_mut().push_back(fiber),
            Back::Turns | Back::NothingToDo => {
                let mut idle = self.idle_fibers.borrow_mut();
                if idle.len() < IDLE_FIBERS {
                    idle.push(fiber);
                } else {
                    // SAFETY: it has no task, and nothing refers to it.
                    unsafe { Fiber::end(fiber) };
                }
            }
        }
        back
    }

    /// True if a task may begin on top of what runs here: enough is left of the stack.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        // SAFETY: the fiber that runs here is alive.
        match unsafe { self.fiber.get().as_ref() } {
            Some(fiber) => !fiber.is_deep(),
            None => stack_pointer() > self.room.get(),
        }
    }

    /// Runs a job on this stack.
    #[inline]
    pub(crate) fn execute(&'static self, job: Job) {
        // SAFETY: a queued job is alive until it has run, and a queue gives it out once.
        unsafe {
            (job.0.as_ref().run)(job.0, self);
        }
    }

    /// Waits outside all fibers, or in one that is not to be left: runs tasks of the root meanwhile, and
    /// sleeps if there are none.
    pub(crate) fn wait_outside(&'static self, waiter: &Waiter) {
        let context = self.context.get();
        let before = (
            self.goal.replace(waiter),
            self.filter.replace(if context.root == 0 { NO_ROOT } else { context.root }),
        );
        let until = self.until.take();
        let rest = self.shared.rest.swap(AWAKE, Ordering::Relaxed);
        let mut since = None;
        let active = self.active.replace(true);
        if !active {
            ACTIVITY.enter(Part::WAITS);
        }
        while !waiter.is_done() {
            if !self.run() {
                since = None;
                continue;
            }
            if since.get_or_insert_with(Instant::now).elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(waiter);
        }
        if !active {
            self.leaves();
        }
        self.waiting_turn.borrow_mut().extend(self.held.borrow_mut().drain(..));
        self.until.set(until);
        self.goal.set(before.0);
        self.filter.set(before.1);
        self.context.set(context);
        if rest == IDLE {
            // It is in a job of rayon's, and need not look at tasks when that ends.
            self.shared.rest.store(IDLE, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.shared.has_mail.load(Ordering::Relaxed) || !self.waiting_turn.borrow().is_empty() {
                workers::wake_all();
            }
        }
    }
}

impl Own {
    /// Sleeps, or lets rayon have the thread if it is one of rayon's: this wait is inside a job, and what it
    /// waits for may need a thread of rayon.
    fn rest(&self, waiter: &Waiter) {
        if rayon::current_thread_index().is_none() {
            return std::thread::park();
        }
        let (context, stays) = (self.context.get(), self.stays.replace(true));
        let mut sleep = Duration::from_micros(10);
        while !waiter.is_done() && !self.shared.has_mail.load(Ordering::SeqCst) {
            if rayon::yield_now() == Some(rayon::Yield::Executed) {
                break;
            }
            std::thread::park_timeout(sleep);
            if sleep == LONGEST_SLEEP {
                break;
            }
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
        self.stays.set(stays);
        self.context.set(context);
    }

    /// From now on this thread has to be unparked.
    fn parks(&self) {
        self.shared.filter.store(self.filter.get(), Ordering::Relaxed);
        self.shared.rest.store(PARKED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until what this thread waits for is done, it has mail, or there may be a task for it.
    #[cold]
    fn sleep(&self, waiter: &Waiter) {
        self.parks();
        ACTIVITY.change(self.part(), Part::SLEEPS);
        // The last look.
        let bound = self.bound().is_some_and(|bound| bound.has(self.filter.get()));
        match self.next_of_any() {
            Some(job) => self.queue.push(job),
            None if bound || waiter.is_done() || self.shared.has_mail.load(Ordering::SeqCst) => {}
            None => self.rest(waiter),
        }
        self.shared.rest.store(AWAKE, Ordering::Relaxed);
        ACTIVITY.change(Part::SLEEPS, self.part());
    }
}

fn beyond_limit() -> bool {
    LIMIT.load(Ordering::Relaxed) != 0 && ACTIVITY.workers() > limit()
}

/// Wakes a thread if one is wanted for a job of `root` that was just queued.
#[inline]
fn wake_if_wanted(root: Root) {
    if ACTIVITY.wanted(limit()) {
        wake_for(root);
    }
}

/// Wakes the thread that sleeps and waits for `root`, or a worker.
#[cold]
fn wake_for(root: Root) {
    for thread in Own::here().victims().iter() {
        let sleeps = thread.rest.load(Ordering::SeqCst) == PARKED;
        if sleeps && thread.filter.load(Ordering::Relaxed) == root {
            return thread.call();
        }
    }
    if ACTIVITY.wants_worker(limit()) {
        workers::wake(1);
    }
}

/// Queues a job where any thread finds it.
pub(crate) fn inject(job: Job, shelf: &Shelf) {
    let root = job.root();
    shelf.push(job);
    wake_if_wanted(root);
}

impl Shared {
    /// Sends mail, and sees to it that the thread reads it.
    pub(crate) fn send(&self, mail: Ready) {
        {
            let mut letters = lock(&self.mail);
            letters.push_back(mail);
            self.has_mail.store(true, Ordering::SeqCst);
        }
        self.call();
    }

    /// Wakes the thread if it sleeps.
    pub(crate) fn call(&self) {
        fence(Ordering::SeqCst);
        match self.rest.load(Ordering::SeqCst) {
            AWAKE => {}
            PARKED => {
                if let Some(thread) = &*lock(&self.thread) {
                    thread.unpark();
                }
            }
            // Workers cannot be addressed: all of them look.
            _ => workers::wake_all(),
        }
    }
}

/// The tasks as a source of work of the process's workers.
struct Tasks;

impl Source for Tasks {
    fn run_one(&self) -> bool {
        static WORKERS: AtomicUsize = AtomicUsize::new(0);
        let own = Own::here();
        if own.index.get().is_none() && !workers::is_extra() {
            let index = WORKERS.fetch_add(1, Ordering::Relaxed);
            own.index.set((index < worker_count()).then_some(index));
            own.shared.index.store(index, Ordering::Relaxed);
        }
        if !own.has_work() {
            own.shared.rest.store(IDLE, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !own.has_work() {
                return own.calls_again();
            }
        }
        own.shared.rest.store(AWAKE, Ordering::Relaxed);
        own.until.set(Some(Instant::now() + TURN));
        ACTIVITY.enter(Part::SEARCHES);
        own.active.set(true);
        own.worker.set(true);
        own.searching.set(true);
        let mut since = None;
        // For a while after the last task, it is likely that more come.
        while own.run() && since.get_or_insert_with(Instant::now).elapsed() < SEARCH {
            std::hint::spin_loop();
        }
        own.leaves();
        own.worker.set(false);
        own.until.set(None);
        true
    }
}

fn register_source() {
    static REGISTRATION: OnceLock<Registration> = OnceLock::new();
    REGISTRATION.get_or_init(|| {
        // The number of workers is asked of a backend: not where a task is queued.
        worker_count();
        workers::register(Arc::new(Tasks))
    });
}
