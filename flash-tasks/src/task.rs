//! Tasks of a scope: the heap cell of one, its handle, and how it runs.
//!
//! A cell is made by a spawn. It is freed by its handle or by its end, whichever is later ([`Done`]). The
//! right to run it is its only entry in a queue: the thread that takes the entry runs it. A handle that waits
//! takes the entry back if it is near the end of the thread's own queue, and runs the task on its stack.

use crate::done::{Done, Handle};
use crate::error::TaskError;
use crate::jobs::{Job, JobHeader, LATER, URGENT, bind, inject};
use crate::node::Node;
use crate::scope::ScopeState;
use crate::thread::{Context, Own};
use crate::trace;
use crate::wait::Waiter;
use flash_trace::is_on;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// When a task is begun, compared with others that wait to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After all others.
    Low,
    /// The newest first on the thread that spawned them, the oldest first elsewhere.
    #[default]
    Normal,
    /// Before all others, in the order of their spawns.
    High,
}

/// What becomes of a task, as its callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its function begins.
    Running,
    /// It waits, and its thread runs other tasks.
    Suspended,
    /// It goes on after it was suspended.
    Resumed,
    /// Its function has returned or panicked.
    Finished,
}

pub(crate) type Callback = Arc<dyn Fn(State) + Send + Sync>;

/// What few tasks have.
#[derive(Clone, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<Box<str>>,
    pub(crate) priority: Priority,
    pub(crate) worker: Option<usize>,
    pub(crate) callback: Option<Callback>,
}

/// The beginning of a task's cell.
#[repr(C)]
pub(crate) struct Header {
    job: JobHeader,
    node: Node,
    parent: *const Node,
    pub(crate) scope: *const ScopeState,
    done: Done,
    calls: &'static Calls,
    extra: Option<Box<Extra>>,
}

/// What depends on the types of a cell.
struct Calls {
    name: fn() -> &'static str,
    /// Frees the cell; returns its error, if it has one.
    free: unsafe fn(NonNull<Header>) -> Option<TaskError>,
}

#[repr(C)]
struct TaskCell<F, T> {
    header: Header,
    content: UnsafeCell<Content<F, T>>,
}

/// The function until the task has run, and the result from then on.
union Content<F, T> {
    function: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T, TaskError>>,
}

impl Header {
    /// The task's name.
    pub(crate) fn name(&self) -> &str {
        let given = self.extra.as_ref().and_then(|extra| extra.name.as_deref());
        given.unwrap_or_else(|| (self.calls.name)())
    }

    #[cold]
    fn panicked(&self, payload: Box<dyn Any + Send>) -> TaskError {
        TaskError::panicked(self.name(), payload)
    }

    pub(crate) fn tell(&self, state: State) {
        if let Some(callback) = self.extra.as_ref().and_then(|extra| extra.callback.as_ref()) {
            // A callback that panics must not take the task along.
            let _ = catch_unwind(AssertUnwindSafe(|| callback(state)));
        }
    }
}

impl<F: FnOnce() -> T, T> TaskCell<F, T> {
    const CALLS: Calls = Calls { name: std::any::type_name::<F>, free: Self::free };

    /// Takes the result of a task, and frees the cell.
    ///
    /// # Safety
    /// The task has run, its cell is of these types, and neither a queue nor anything else refers to it.
    #[inline]
    unsafe fn take(header: NonNull<Header>) -> Result<T, TaskError> {
        let cell = header.cast::<Self>().as_ptr();
        // SAFETY: the caller vouches: the content is a result, and read once. `spawn` allocated the cell as a
        // box; the header has parts to be dropped, and the content is not dropped with it.
        unsafe {
            let result = (&raw const (*(*cell).content.get()).result).read();
            drop(Box::from_raw(cell));
            ManuallyDrop::into_inner(result)
        }
    }

    /// As [`take`](Self::take), for a result that nothing waits for. Returns the error, if it is one.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn free(header: NonNull<Header>) -> Option<TaskError> {
        // SAFETY: the caller vouches.
        let result = unsafe { Self::take(header) };
        // A result whose destructor panics must not take the thread along.
        catch_unwind(AssertUnwindSafe(|| result.err())).unwrap_or(None)
    }

    /// Runs the function, and stores its result.
    ///
    /// # Safety
    /// Only the holder of the cell's entry calls this, once.
    #[inline]
    unsafe fn run_body(cell: NonNull<Self>, own: &'static Own) {
        let cell = cell.as_ptr();
        // SAFETY: the cell is alive, as it has not ended. Only this thread touches its content until then,
        // and its content is the function still.
        let (header, function) = unsafe {
            (&(*cell).header, ManuallyDrop::into_inner((&raw const (*(*cell).content.get()).function).read()))
        };
        // Addresses within the cell: with the provenance of all of it.
        // SAFETY: as above.
        let node = unsafe { &raw const (*cell).header.node };
        let task = cell.cast::<Header>();
        own.context.set(Context { root: header.job.root, task, node, scope: header.scope });
        let _span = is_on()
            .then(|| trace::task(Job(NonNull::from(&header.job)), header.name(), header.extra.as_deref()));
        // SAFETY: a scope outlives its tasks.
        let cancelled = unsafe { &*header.scope }.is_cancelled();
        let result = if cancelled || header.extra.is_some() {
            Self::run_specially(header, function, cancelled)
        } else {
            catch_unwind(AssertUnwindSafe(function)).map_err(|payload| header.panicked(payload))
        };
        // SAFETY: as above. The function has been moved out.
        unsafe { (&raw mut (*(*cell).content.get()).result).write(ManuallyDrop::new(result)) };
    }

    #[cold]
    fn run_specially(header: &Header, function: F, cancelled: bool) -> Result<T, TaskError> {
        if cancelled {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(function)));
            return Err(TaskError::cancelled(header.name()));
        }
        header.tell(State::Running);
        let result = catch_unwind(AssertUnwindSafe(function)).map_err(|payload| header.panicked(payload));
        header.tell(State::Finished);
        result
    }

    /// The entry of a queue has come to its turn.
    ///
    /// # Safety
    /// As for [`JobHeader::run`]: once, and the cell is alive.
    unsafe fn run(job: NonNull<JobHeader>, own: &'static Own) {
        let cell = job.cast::<Self>();
        // SAFETY: the caller has the entry. Until its end is told, the cell is alive.
        unsafe {
            Self::run_body(cell, own);
            let node = &raw const (*cell.as_ptr()).header.node;
            if (*node).body_ended() {
                Node::child_ended(Node::completed(node));
            }
        }
    }
}

/// A task and all below have ended. Returns its parent.
///
/// # Safety
/// As [`Node::completed`], for the node of a `Header`.
unsafe fn complete(node: *const Node) -> *const Node {
    // SAFETY: the node is the field of a header, and its pointer has the provenance of all of the cell.
    let header = unsafe { node.byte_sub(offset_of!(Header, node)) }.cast::<Header>();
    // SAFETY: the cell is alive until `end`, or longer if the handle was gone.
    unsafe {
        let (parent, scope) = ((*header).parent, (*header).scope);
        match (*header).done.end() {
            Handle::Looks => {}
            Handle::Waits(address) => Waiter::signal(std::ptr::with_exposed_provenance(address)),
            Handle::Gone => {
                let header = NonNull::new_unchecked(header.cast_mut());
                if let Some(error) = (header.as_ref().calls.free)(header) {
                    // The scope waits for the parent, which has not been told yet.
                    (*scope).record(error);
                }
            }
        }
        parent
    }
}

/// Where a spawn puts a task.
pub(crate) struct Place {
    pub(crate) own: &'static Own,
    pub(crate) root: u64,
    pub(crate) parent: *const Node,
    pub(crate) scope: *const ScopeState,
}

/// Makes a task and queues it.
///
/// # Safety
/// The place's parent counts the task, and its scope does not return before the task has ended. What `f` and
/// its result borrow outlives the scope.
#[inline]
pub(crate) unsafe fn spawn<'scope, F, T>(place: Place, extra: Option<Box<Extra>>, f: F) -> Task<'scope, T>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    let Place { own, root, parent, scope } = place;
    let (priority, worker) =
        extra.as_ref().map_or((Priority::Normal, None), |extra| (extra.priority, extra.worker));
    let cell = Box::leak(Box::<TaskCell<F, T>>::new_uninit());
    let cell = NonNull::from(cell.write(TaskCell {
        header: Header {
            job: JobHeader { run: TaskCell::<F, T>::run, root },
            node: Node::new(complete),
            parent,
            scope,
            done: Done::new(),
            calls: const { &TaskCell::<F, T>::CALLS },
            extra,
        },
        content: UnsafeCell::new(Content { function: ManuallyDrop::new(f) }),
    }));
    let job = Job(cell.cast());
    let task = Task {
        header: cell.cast(),
        take: TaskCell::<F, T>::take,
        run_here: run_here::<F, T>,
        scope: PhantomData,
    };
    let _ = is_on().then(|| trace::ready("spawn", job));
    if flash_core::workers::in_kernel() {
        // A kernel's launch waits for it: nothing may be left for later.
        let context = own.context.get();
        // SAFETY: the entry is this thread's, as it was never queued.
        unsafe { (job.0.as_ref().run)(job.0, own) };
        own.context.set(context);
        return task;
    }
    match (worker, priority) {
        (Some(worker), _) => bind(job, worker),
        (None, Priority::Normal) => own.push(job),
        (None, Priority::High) => inject(job, &URGENT),
        (None, Priority::Low) => inject(job, &LATER),
    }
    task
}

/// Runs the function of a task.
///
/// # Safety
/// As for [`TaskCell::run_body`].
unsafe fn run_here<F: FnOnce() -> T, T>(header: NonNull<Header>, own: &'static Own) {
    // SAFETY: the caller vouches.
    unsafe { TaskCell::<F, T>::run_body(header.cast(), own) };
}

/// A task of a [`Scope`](crate::Scope), and the right to its result.
///
/// If it is dropped, the task goes on; if that fails, its scope returns the error.
#[must_use = "dropping it is fine: the scope waits for the task, and returns its error"]
pub struct Task<'scope, T> {
    header: NonNull<Header>,
    take: unsafe fn(NonNull<Header>) -> Result<T, TaskError>,
    run_here: unsafe fn(NonNull<Header>, &'static Own),
    /// Invariant, like the scope's.
    scope: PhantomData<&'scope mut &'scope T>,
}

// SAFETY: a handle takes the result, which is `Send`, on its thread.
unsafe impl<T: Send> Send for Task<'_, T> {}
// SAFETY: a shared one only asks whether the task has ended.
unsafe impl<T: Send> Sync for Task<'_, T> {}

impl<T> Task<'_, T> {
    /// True if the task and all that it spawned have ended.
    pub fn is_done(&self) -> bool {
        // SAFETY: the handle keeps the cell.
        unsafe { self.header.as_ref() }.done.is_done()
    }

    /// Waits until the task and all that it spawned have ended. A task that has not begun may run on this
    /// stack. A task that waits is suspended: its thread runs others.
    ///
    /// # Errors
    /// The task panicked, or its scope was cancelled before it began.
    #[inline]
    pub fn wait(self) -> Result<T, TaskError> {
        let (header, take, run_here) = (self.header, self.take, self.run_here);
        std::mem::forget(self);
        // SAFETY: the handle was the only one, and is this function now: the cell lives until `take`, which
        // is called once the task has ended, or when nothing else knows it. The types are those of the spawn.
        unsafe {
            let task = header.as_ref();
            if !task.done.is_done() {
                let own = Own::here();
                if own.has_room() && own.take_back(Job(header.cast())) {
                    let context = own.context.get();
                    run_here(header, own);
                    own.context.set(context);
                    let node = &raw const (*header.as_ptr()).node;
                    if task.node.body_ended() {
                        if task.parent == context.node {
                            // Its parent runs here, and waits for it: nothing else has to know.
                            (*task.parent).ends_here();
                            return take(header);
                        }
                        Node::child_ended(Node::completed(node));
                    }
                }
                if !task.done.is_done() {
                    wait_for(&task.done, own);
                }
            }
            take(header)
        }
    }
}

/// Waits until a task has ended.
#[cold]
fn wait_for(done: &Done, own: &'static Own) {
    let waiter = Waiter::new(own);
    if done.wait((&raw const waiter).expose_provenance()) {
        waiter.wait(own);
    }
}

impl<T> Drop for Task<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the handle keeps the cell while the task has not ended. Afterwards it is the handle's.
        unsafe {
            if self.header.as_ref().done.leave() {
                return;
            }
            let scope = self.header.as_ref().scope;
            if let Err(error) = (self.take)(self.header) {
                // A handle is dropped before its scope returns.
                (*scope).record(error);
            }
        }
    }
}

/// True if the calling task's scope was cancelled: it should return soon. False outside of tasks.
pub fn cancelled() -> bool {
    let scope = Own::here().context.get().scope;
    // SAFETY: a scope outlives what runs in it.
    unsafe { scope.as_ref() }.is_some_and(ScopeState::is_cancelled)
}

/// The name of the task that runs here.
pub fn name() -> Option<String> {
    // SAFETY: the context's task is the one that runs.
    unsafe { Own::here().context.get().task.as_ref() }.map(|task| task.name().to_string())
}
