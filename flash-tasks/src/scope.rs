//! Scopes: tasks that borrow from the function that spawns them; and [`join`].
//!
//! The state of a scope, and the second half of a join, are on the stack of the function that the user
//! calls. It returns, also by a panic, only after all tasks that know the address have ended. The borrows
//! of tasks rest on that. The last task signals the waiter of the scope, and does not touch the state
//! afterwards.
//!
//! A task that spawns on its own thread is counted in its own node, without an atomic instruction; what
//! another thread spawns is counted in the scope's ([`Node`]). A waiting thread runs other tasks
//! meanwhile, or its fiber is left. Inside a kernel nothing is queued: both functions of a join run at
//! once, and so does a spawn.

use crate::done::{Done, Handle};
use crate::error::TaskError;
use crate::jobs::{Job, JobHeader, Root};
use crate::node::Node;
use crate::task::{self, Extra, Place, Priority, State, Task};
use crate::thread::{Context, Own, lock};
use crate::trace;
use crate::wait::Waiter;
use flash_trace::is_on;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What the tasks of a scope refer to. On the stack of `scope`.
pub(crate) struct ScopeState {
    node: Node,
    root: Root,
    /// Set before the body's end is told.
    waiter: Cell<*const Waiter>,
    cancelled: AtomicBool,
    /// The first error that no handle took.
    error: Mutex<Option<TaskError>>,
}

impl ScopeState {
    fn new(root: Root) -> ScopeState {
        ScopeState {
            node: Node::new(complete),
            root,
            waiter: Cell::new(ptr::null()),
            cancelled: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn record(&self, error: TaskError) {
        lock(&self.error).get_or_insert(error);
    }
}

/// The last task of a scope has ended, after its body.
///
/// # Safety
/// As [`Node::completed`], for the node of a `ScopeState`.
unsafe fn complete(node: *const Node) -> *const Node {
    // SAFETY: the node is the state's field, and its pointer has the provenance of all of it. The scope waits
    // until the signal, which is the last that is done with it.
    unsafe {
        let state = node.byte_sub(offset_of!(ScopeState, node)).cast::<ScopeState>();
        Waiter::signal((*state).waiter.get());
    }
    Node::NO_PARENT
}

/// Spawns tasks that may borrow what outlives the [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    state: ScopeState,
    /// Invariant, as in `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// SAFETY: other threads spawn, cancel and record. The cells are touched only by the thread of the body, which
// `Scope::place` finds out.
unsafe impl Sync for Scope<'_, '_> {}

/// Calls `f`, and returns when it and all tasks spawned in the scope have ended. The calling thread runs
/// tasks of the scope meanwhile. Inside a kernel, a spawn runs its task at once.
///
/// # Errors
/// The first error of a task whose handle was dropped. Errors of tasks that were waited for are their
/// handles'.
///
/// # Panics
/// If `f` does, once all tasks have ended.
///
/// # Examples
/// ```
/// let numbers = [3, 1, 4, 1, 5, 9, 2, 6];
/// let (left, right) = numbers.split_at(4);
/// let sum = flash_tasks::scope(|s| {
///     let left = s.spawn(|| left.iter().sum::<i32>());
///     let right = s.spawn(|| right.iter().sum::<i32>());
///     Ok(left.wait()? + right.wait()?)
/// })?;
/// assert_eq!(sum, Ok::<i32, flash_tasks::TaskError>(31));
/// # Ok::<(), flash_tasks::TaskError>(())
/// ```
pub fn scope<'env, F, R>(f: F) -> Result<R, TaskError>
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let own = Own::here();
    let before = own.begins();
    let root = own.context.get().root;
    let scope = Scope { state: ScopeState::new(root), scope: PhantomData, env: PhantomData };
    let state = &raw const scope.state;
    // SAFETY: `scope` is alive; the node's address has the provenance of all of the state.
    let node = unsafe { &raw const (*state).node };
    own.context.set(Context { root, node, scope: state, ..before.context });
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let waiter = Waiter::new(own);
    scope.state.waiter.set(&waiter);
    if !scope.state.node.body_ended() {
        waiter.wait(own);
    }
    own.ends(before);
    let error = lock(&scope.state.error).take();
    match (result, error) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(_), Some(error)) => Err(error),
        (Ok(result), None) => Ok(result),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a task. Its name, in errors, is the type of `f`: see [`task`](Self::task) for others.
    #[inline]
    pub fn spawn<F, T>(&'scope self, f: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: `place` counts it, and `scope` waits for it. The borrows outlive the scope by `'scope`.
        unsafe { task::spawn(self.place(), None, f) }
    }

    /// A task with a name, a priority or a callback.
    ///
    /// # Examples
    /// ```
    /// use flash_tasks::{Priority, scope};
    /// let failed = scope(|s| {
    ///     let task = s.task().name("first").priority(Priority::High).spawn(|| panic!("no input"));
    ///     task.wait()
    /// })?;
    /// assert_eq!(failed.unwrap_err().to_string(), "task `first` panicked: no input");
    /// # Ok::<(), flash_tasks::TaskError>(())
    /// ```
    pub fn task(&'scope self) -> Spawn<'scope, 'env> {
        Spawn { scope: self, extra: Extra::default() }
    }

    /// Tasks of the scope that have not begun are not run: they end with an error. The others may look at
    /// [`cancelled`](crate::cancelled).
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Ordering::Relaxed);
    }

    /// Counts one more task below what runs here, if that belongs to this scope; else below the scope.
    #[inline]
    fn place(&self) -> Place {
        let own = Own::here();
        let context = own.context.get();
        let scope = &raw const self.state;
        // SAFETY: as for `context.node` in `scope`.
        let mut parent = unsafe { &raw const (*scope).node };
        if ptr::eq(context.scope, scope) {
            parent = context.node;
            // SAFETY: it runs on this thread, right now.
            unsafe { &*parent }.spawns();
        } else {
            self.state.node.spawns_elsewhere();
        }
        Place { own, root: self.state.root, parent, scope }
    }
}

/// What a task is spawned with: made by [`Scope::task`].
#[must_use = "nothing is spawned before `spawn`"]
pub struct Spawn<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    extra: Extra,
}

impl<'scope> Spawn<'scope, '_> {
    /// Its name, in errors and pictures.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.extra.name = Some(name.into().into_boxed_str());
        self
    }

    /// When it is begun.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.extra.priority = priority;
        self
    }

    /// Binds it to one worker, by its index, from 0 to [`worker_count`](crate::worker_count) and round: tasks
    /// of one index run on one thread, in the order of their spawns. Their priority does not count.
    pub fn on_worker(mut self, worker: usize) -> Self {
        self.extra.worker = Some(worker);
        self
    }

    /// Calls a function at each change of its state, on the thread where it happens.
    pub fn on_change(mut self, callback: impl Fn(State) + Send + Sync + 'static) -> Self {
        self.extra.callback = Some(Arc::new(callback));
        self
    }

    /// Spawns it.
    pub fn spawn<F, T>(self, f: F) -> Task<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: as in `Scope::spawn`.
        unsafe { task::spawn(self.scope.place(), Some(Box::new(self.extra)), f) }
    }
}

/// The second half of a [`join`], on its stack.
#[repr(C)]
struct Half<F, R> {
    job: JobHeader,
    done: Done,
    content: UnsafeCell<(Option<F>, Option<std::thread::Result<R>>)>,
}

/// Runs two functions, perhaps at the same time, and returns both results. The second is queued while this
/// thread runs the first.
///
/// # Panics
/// If one of them does, once both have ended.
///
/// # Examples
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     match numbers {
///         [] => 0,
///         [number] => *number,
///         _ => {
///             let (left, right) = numbers.split_at(numbers.len() / 2);
///             let (left, right) = flash_tasks::join(|| sum(left), || sum(right));
///             left + right
///         }
///     }
/// }
/// assert_eq!(sum(&(1..=1000).collect::<Vec<_>>()), 500_500);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if flash_core::workers::in_kernel() {
        return (a(), b());
    }
    let own = Own::here();
    if !own.has_room() {
        return join_elsewhere(a, b);
    }
    let before = own.begins_anew();
    let half: Half<B, RB> = Half {
        job: JobHeader { run: run_half::<B, RB>, root: own.context.get().root },
        done: Done::new(),
        content: UnsafeCell::new((Some(b), None)),
    };
    let job = Job(NonNull::from(&half).cast());
    let _ = is_on().then(|| trace::ready("join", job));
    own.push_own(job);
    let first = catch_unwind(AssertUnwindSafe(a));
    let second = if own.take_back(job) {
        // SAFETY: the entry came back, so no other thread knows the half.
        let b = unsafe { &mut *half.content.get() }.0.take();
        b.map(|b| catch_unwind(AssertUnwindSafe(b)))
    } else {
        let waiter = Waiter::new(own);
        if half.done.wait((&raw const waiter).expose_provenance()) {
            waiter.wait(own);
        }
        // SAFETY: it has ended, and is not touched any more.
        unsafe { &mut *half.content.get() }.1.take()
    };
    if let Some(before) = before {
        own.ends(before);
    }
    match (first, second) {
        (Ok(first), Some(Ok(second))) => (first, second),
        (Err(panic), _) | (Ok(_), Some(Err(panic))) => resume_unwind(panic),
        (Ok(_), None) => unreachable!("a half that was run has a result"),
    }
}

/// As [`join`], where little is left of the stack: both run on others.
#[cold]
fn join_elsewhere<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let both = scope(|s| {
        // Panics are passed on as they are, not as errors.
        let a = s.spawn(|| catch_unwind(AssertUnwindSafe(a)));
        let b = s.spawn(|| catch_unwind(AssertUnwindSafe(b)));
        (a.wait(), b.wait())
    });
    match both {
        Ok((Ok(Ok(a)), Ok(Ok(b)))) => (a, b),
        Ok((Ok(Err(panic)), _) | (_, Ok(Err(panic)))) => resume_unwind(panic),
        Ok((Err(error), _) | (_, Err(error))) | Err(error) => panic!("{error}"),
    }
}

/// Runs a half that another thread has taken, or this one while it waits.
///
/// # Safety
/// As for [`JobHeader::run`]: once, and `join` waits for it.
unsafe fn run_half<F: FnOnce() -> R, R>(job: NonNull<JobHeader>, own: &'static Own) {
    let half = job.cast::<Half<F, R>>();
    // SAFETY: `join` waits until `end`, and touches the content only afterwards.
    unsafe {
        own.context.set(Context { root: job.as_ref().root, ..Context::NONE });
        let span = is_on().then(|| trace::task(Job(job), std::any::type_name::<F>(), None));
        let content = &mut *half.as_ref().content.get();
        if let Some(f) = content.0.take() {
            content.1 = Some(catch_unwind(AssertUnwindSafe(f)));
        }
        drop(span);
        if let Handle::Waits(address) = half.as_ref().done.end() {
            Waiter::signal(ptr::with_exposed_provenance(address));
        }
    }
}
