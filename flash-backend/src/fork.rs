//! `fork`: what a child process can do without the threads of its parent.
//!
//! A child of `fork` has one thread, and a copy of the memory as the other threads of the parent left it. A
//! lock that one of them held stays locked, and whatever waits for one of them waits for ever. So handlers of
//! `pthread_atfork` ([`watch`]) mark the child of a process that has launched, and from then on:
//!
//! - A thread that is about to sleep until another thread does something, or to wake one, looks at the mark
//!   ([`is_child`]) and returns [`Forked`] instead. Nothing looks at it on the warm path of a launch.
//! - A launch on the host's memory runs on the calling thread alone: the teams of the CPU are closed
//!   ([`on_fork`]).
//! - What the child may still lock is free there: either the thread that forks holds it meanwhile
//!   ([`hold`]), or it is taken inside a [`Section`], and no other thread is inside one while the process
//!   forks.
//!
//! *Invariant.* While the process forks, no other thread is inside a section or has a held lock.
//! The forking thread waits for the others, but only for one second: a section that takes longer, such as a
//! compiler's, may itself wait for that thread. Then the child cannot enter sections at all.
//!
//! Each image (the program, a plugin) has its own copy of this, with handlers of its own.

use crate::notice::notice;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The forking thread waits for the sections of other threads at most this long.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// This process is a child of one that had launched.
static CHILD: AtomicBool = AtomicBool::new(false);
/// In a child: a thread of the parent was inside a section.
static TORN: AtomicBool = AtomicBool::new(false);
/// A thread forks.
static FORKING: AtomicBool = AtomicBool::new(false);
/// The number of threads inside sections.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The hooks, the last one first. Never removed.
static HOOKS: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The number of sections that this thread is inside of, one within the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// This process is a child of `fork`, and something is needed of its parent that it has not: a thread, a
/// device, or a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process is a child of `fork`, which has no thread of its parent but the one that forked, and this needs another one: fork before the first launch, or execute a new program after `fork`"
)]
pub struct Forked;

/// True in a child of `fork` whose parent had launched: no other thread of before is here.
#[inline]
pub fn is_child() -> bool {
    CHILD.load(Relaxed)
}

/// [`Forked`] in such a child. For what needs another thread of before, or may.
#[inline]
pub fn check() -> Result<(), Forked> {
    if is_child() { Err(Forked) } else { Ok(()) }
}

/// Called before a wait that returns no error. In a child it could not end, so the process ends with a
/// notice.
pub fn before_sleep() {
    if is_child() {
        notice(format_args!("{Forked}"));
        std::process::abort();
    }
}

/// Lets children be marked from now on. Called before the first launch, and before any thread is started.
#[inline]
pub fn watch() {
    #[cfg(unix)]
    {
        static WATCHES: std::sync::Once = std::sync::Once::new();
        WATCHES.call_once(|| {
            // SAFETY: the handlers are functions of this image; the C library forgets them when the image is
            // unloaded.
            let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
            if failed != 0 {
                notice(format_args!(
                    "pthread_atfork failed with {failed}: a child of `fork` must not use this library"
                ));
            }
        });
    }
}

/// Calls `hook` in a child, before `fork` returns there. It must not wait or lock.
pub fn on_fork(hook: impl Fn() + Send + Sync + 'static) {
    push(Box::new(Called(hook)));
}

/// The forking thread holds this lock while the process forks, so that it is free in the child. No thread
/// forks while it has it, and none takes another such lock then.
pub fn hold<T: Send>(lock: &'static Mutex<T>) {
    push(Box::new(Held { lock, guard: UnsafeCell::new(None) }));
}

/// A stretch of code in which locks of the process are taken that a child may need. No other thread is inside
/// one while the process forks.
pub struct Section(PhantomData<*const ()>);

impl Section {
    /// Begins one. It may be inside another one of this thread.
    ///
    /// # Errors
    /// [`Forked`] in a child whose parent had a thread inside.
    pub fn enter() -> Result<Section, Forked> {
        let depth = DEPTH.get();
        if depth == 0 {
            if TORN.load(Relaxed) {
                return Err(Forked);
            }
            // Either this thread sees that another one forks, or that one sees this thread inside.
            while {
                INSIDE.fetch_add(1, SeqCst);
                FORKING.load(SeqCst)
            } {
                INSIDE.fetch_sub(1, SeqCst);
                while FORKING.load(Acquire) {
                    std::thread::yield_now();
                }
            }
        }
        DEPTH.set(depth + 1);
        Ok(Section(PhantomData))
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, SeqCst);
        }
    }
}

/// Something to do when the process forks.
trait Hook: Send + Sync {
    /// In the parent, before.
    fn before(&self) {}
    /// In the parent and in the child, after.
    fn after(&self) {}
    /// In the child, after.
    fn in_child(&self) {}
}

struct Node {
    hook: Box<dyn Hook>,
    next: *const Node,
}

struct Called<F>(F);

impl<F: Fn() + Send + Sync> Hook for Called<F> {
    fn in_child(&self) {
        (self.0)();
    }
}

struct Held<T: 'static> {
    lock: &'static Mutex<T>,
    /// Touched by the one thread that forks.
    guard: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

// SAFETY: only the thread that has set `FORKING` touches the guard, from `before` to `after`, so it is
// released on the thread that took it.
unsafe impl<T: Send> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T: Send> Hook for Held<T> {
    fn before(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above.
        unsafe { *self.guard.get() = Some(guard) };
    }

    fn after(&self) {
        // SAFETY: as above.
        drop(unsafe { (*self.guard.get()).take() });
    }
}

fn push(hook: Box<dyn Hook>) {
    let _section = Section::enter();
    let node = Box::into_raw(Box::new(Node { hook, next: ptr::null() }));
    let add = |head: *mut Node| {
        // SAFETY: the node is not in the list yet.
        unsafe { (*node).next = head };
        Some(node)
    };
    let _ = HOOKS.fetch_update(Release, Acquire, add);
}

#[cfg(unix)]
fn for_each_hook(each: impl Fn(&dyn Hook)) {
    // SAFETY: nodes are never removed, and not changed once they are in the list.
    let mut next = unsafe { HOOKS.load(Acquire).cast_const().as_ref() };
    while let Some(node) = next {
        each(&*node.hook);
        // SAFETY: as above.
        next = unsafe { node.next.as_ref() };
    }
}

/// One if the calling thread is inside a section.
#[cfg(unix)]
fn own() -> u32 {
    DEPTH.get().min(1)
}

#[cfg(unix)]
unsafe extern "C" fn before() {
    while FORKING.swap(true, SeqCst) {
        std::thread::yield_now();
    }
    let start = std::time::Instant::now();
    while INSIDE.load(SeqCst) != own() && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    for_each_hook(|hook| hook.before());
}

#[cfg(unix)]
unsafe extern "C" fn in_parent() {
    for_each_hook(|hook| hook.after());
    FORKING.store(false, SeqCst);
}

#[cfg(unix)]
unsafe extern "C" fn in_child() {
    CHILD.store(true, SeqCst);
    if INSIDE.swap(own(), SeqCst) != own() {
        TORN.store(true, SeqCst);
    }
    for_each_hook(|hook| {
        hook.after();
        hook.in_child();
    });
    FORKING.store(false, SeqCst);
}
