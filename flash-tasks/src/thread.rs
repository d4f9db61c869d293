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

use crate::blocks::{Blocks, Returned};
use crate::fiber::{self, Fiber, stack_pointer};
use crate::idle::{Activity, Part};
use crate::jobs::{Job, LATER, Root, SHARED, Shelf, URGENT, bound, inject};
use crate::node::Node;
use crate::overflow::{Overflow, Watched};
use crate::scope::ScopeState;
use crate::task::Header;
use crate::wait::Waiter;
use crate::workers::{LOOKS, limit, register_source, wake_for, wake_if_wanted};
use crossbeam_deque::{Steal, Stealer, Worker};
use flash_core::workers;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Instant;

/// A fiber that may go on, sent to its thread.
pub(crate) struct Ready(pub(crate) NonNull<Fiber>);

// SAFETY: the fiber is only passed to its own thread.
unsafe impl Send for Ready {}

/// Jobs of `push_own` for which a thread is called once, while none comes.
const JOBS_PER_CALL: u32 = 256;

/// How a thread is reached.
pub(crate) const AWAKE: u8 = 0;
/// It has left the tasks, and sleeps or will sleep as a worker.
pub(crate) const IDLE: u8 = 1;
/// It sleeps, or is about to, until it is unparked.
pub(crate) const PARKED: u8 = 2;

/// What other threads see of a thread.
pub(crate) struct Shared {
    stealer: Stealer<Job>,
    /// Blocks of this thread that others have freed.
    pub(crate) returned: Returned,
    pub(crate) mail: Mutex<VecDeque<Ready>>,
    pub(crate) has_mail: AtomicBool,
    pub(crate) rest: AtomicU8,
    /// The index of the worker that it is.
    pub(crate) index: AtomicUsize,
    /// What it runs while it waits: see `Own::filter`.
    pub(crate) filter: AtomicU64,
    pub(crate) thread: Mutex<Option<Thread>>,
}

/// A thread's own part.
pub(crate) struct Own {
    pub(crate) shared: &'static Shared,
    pub(crate) queue: Worker<Job>,
    pub(crate) blocks: Blocks,
    /// The fiber that runs.
    pub(crate) fiber: Cell<*const Fiber>,
    pub(crate) idle_fibers: RefCell<Vec<NonNull<Fiber>>>,
    /// Fibers that go on at the next turn: they gave way, or look again whether an operation is done.
    pub(crate) waiting_turn: RefCell<VecDeque<NonNull<Fiber>>>,
    /// Fibers that go on when this thread is back from a wait of another root.
    pub(crate) held: RefCell<Vec<NonNull<Fiber>>>,
    /// What runs now: its task, the node that counts what it spawns, and the scope of that node.
    pub(crate) context: Cell<Context>,
    /// What this thread waits for, if it is in no fiber.
    pub(crate) goal: Cell<*const Waiter>,
    /// The only root whose tasks it runs; 0: any.
    pub(crate) filter: Cell<Root>,
    pub(crate) searching: Cell<bool>,
    /// The fiber that runs is not to be left: see `unsuspended`.
    pub(crate) stays: Cell<bool>,
    /// It counts as active.
    pub(crate) active: Cell<bool>,
    /// It runs tasks as a worker.
    pub(crate) worker: Cell<bool>,
    /// The index of the worker that it is, once it has been one.
    pub(crate) index: Cell<Option<usize>>,
    /// When the worker leaves the tasks for a moment.
    pub(crate) until: Cell<Option<Instant>>,
    victims: RefCell<Victims>,
    /// The last call for a job of `push_own`.
    call: Cell<Call>,
    random: Cell<u64>,
    /// Above this address, enough is left of the thread's own stack.
    room: Cell<usize>,
    watched: Watched,
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

/// A call of another thread that may not have come yet.
#[derive(Clone, Copy)]
struct Call {
    /// `LOOKS` at the call.
    looks: u32,
    /// Jobs queued since then for which a thread is wanted.
    queued: u32,
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
static NEXT_ROOT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The thread ends. It waits for nothing, so it has no fiber with a task, and those without one end with
    /// it. What it spawned and is still queued goes to the workers.
    fn drop(&mut self) {
        let own = OWN.replace(ptr::null());
        // SAFETY: `here` made it, and it lives for ever.
        let Some(own) = (unsafe { own.as_ref() }) else { return };
        for fiber in own.idle_fibers.take() {
            // SAFETY: it is this thread's, and has no task; nothing else refers to it.
            unsafe { Fiber::end(fiber) };
        }
        own.blocks.clear();
        let mut any = false;
        while let Some(job) = own.queue.pop() {
            SHARED.push(job);
            any = true;
        }
        if any {
            workers::wake(1);
        }
        *lock(&own.shared.thread) = None;
        own.watched.end();
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
        own.watched.begin(own);
        OWN.set(own);
        // Fails where the thread is ending: then nothing is given back.
        let _ = GIVES_BACK.try_with(|_| ());
        own
    }

    fn new(number: usize) -> &'static Own {
        let queue = Worker::new_lifo();
        let shared = Box::leak(Box::new(Shared {
            stealer: queue.stealer(),
            returned: Returned::new(),
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
            blocks: Blocks::new(),
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
            call: Cell::new(Call { looks: 0, queued: 0 }),
            random: Cell::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1)),
            room: Cell::new(0),
            watched: Watched::new(),
        }))
    }

    /// What this thread does from now on belongs to a scope, a join or a graph. The context of before is to
    /// be given to [`ends`](Self::ends).
    #[inline]
    pub(crate) fn begins(&self) -> Before {
        self.begins_anew().unwrap_or_else(|| Before { context: self.context.get(), entered: false })
    }

    /// As [`begins`](Self::begins); `None` if there is nothing to be undone, as what runs here is of a root.
    #[inline]
    pub(crate) fn begins_anew(&self) -> Option<Before> {
        self.needs_root().then(|| self.begins_as(new_root()))
    }

    /// As [`begins_anew`](Self::begins_anew), with a root that nothing else is of just now.
    pub(crate) fn begins_in(&self, root: Root) -> Option<Before> {
        self.needs_root().then(|| self.begins_as(root))
    }

    /// True if what this thread begins is a root of its own. So is what is waited for without leaving the
    /// stack, so that nothing else is begun on top of it.
    #[inline]
    fn needs_root(&self) -> bool {
        self.context.get().root == 0 || self.stays.get()
    }

    /// As [`begins`](Self::begins), for what belongs to `root`.
    #[cold]
    pub(crate) fn begins_as(&self, root: Root) -> Before {
        let context = self.context.get();
        self.context.set(Context { root, ..context });
        self.call.set(Call { looks: LOOKS.load(Ordering::Relaxed), queued: u32::MAX });
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
    pub(crate) fn part(&self) -> Part {
        match (self.worker.get(), self.searching.get()) {
            (false, _) => Part::WAITS,
            (true, false) => Part::RUNS,
            (true, true) => Part::SEARCHES,
        }
    }

    #[cold]
    pub(crate) fn leaves(&self) {
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
            self.call_for(root);
        }
    }

    /// Calls a thread for a job of `push_own`. The thread that was called last takes some tens of
    /// microseconds to come, as long as thousands of such jobs take: until it looks, it is called no more
    /// than now and then.
    #[cold]
    fn call_for(&self, root: Root) {
        let (looks, Call { looks: before, queued }) = (LOOKS.load(Ordering::Relaxed), self.call.get());
        let queued = if looks == before { queued.wrapping_add(1) } else { 0 };
        self.call.set(Call { looks, queued });
        if queued.is_multiple_of(JOBS_PER_CALL) {
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
        match self.queue.pop() {
            None => false,
            Some(newest) => newest == job || self.take_back_second(newest, job),
        }
    }

    /// As [`take_back`](Self::take_back), when another was the newest.
    #[inline(never)]
    fn take_back_second(&self, newest: Job, job: Job) -> bool {
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
    pub(crate) fn next_of_any(&self) -> Option<Job> {
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
    pub(crate) fn bound(&self) -> Option<&'static Shelf> {
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
    pub(crate) fn stops_searching(&self) {
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

    pub(crate) fn victims(&self) -> Arc<[&'static Shared]> {
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
    pub(crate) fn any_queued(&self) -> bool {
        !self.queue.is_empty()
            || !URGENT.is_empty()
            || !LATER.is_empty()
            || !SHARED.is_empty()
            || self.victims().iter().any(|victim| !victim.stealer.is_empty())
    }

    /// What has overflowed, if the stack that this thread is on ends at `address`. For a signal's handler on
    /// this thread. What overflows outside of tasks is not told here.
    pub(crate) fn overflow_at(&self, address: usize) -> Option<Overflow<'_>> {
        // SAFETY: the fiber that runs here is alive, and so is the task that runs on it.
        let (fiber, task) = unsafe { (self.fiber.get().as_ref(), self.context.get().task.as_ref()) };
        let task = task.map(Header::name);
        let (guard, stack) = match fiber {
            Some(fiber) => (fiber.guard(), fiber.stack_size()),
            None => {
                task?;
                // Read before, when this thread was adopted. What the system calls its start is the beginning
                // or the end of the page that is not to be touched.
                let stack = workers::own_stack();
                (stack.start.saturating_sub(fiber::page())..stack.start + fiber::page(), stack.len())
            }
        };
        guard.contains(&address).then_some(Overflow { task, stack })
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
