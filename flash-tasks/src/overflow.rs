//! Says which task it was whose stack has overflowed.
//!
//! A stack ends at a page that nothing may touch. A handler of SIGSEGV looks whether the address is in that
//! page of the fiber that runs on its thread, or of the thread's own stack if a task runs there, and if so
//! says so. Then the handler of before gets the signal, as it gets all others: the process ends as it did.
//!
//! *Invariant.* A handler allocates nothing, takes no lock and little of its stack. What it reads of a thread
//! is in a list that only grows, where the thread is found by its number. A variable of the thread would not
//! do: in a shared library, the first access to one may allocate.

use crate::thread::Own;
use std::alloc::{Layout, alloc};
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

/// A stack that has overflowed.
pub(crate) struct Overflow<'a> {
    /// The name of the task that ran on it; `None`: a coroutine.
    pub(crate) task: Option<&'a str>,
    /// Its bytes.
    pub(crate) stack: usize,
}

/// What a handler sees of a thread.
pub(crate) struct Watched {
    /// The system's number of the thread; 0: none has it now.
    thread: AtomicI32,
    own: AtomicPtr<Own>,
    /// The one that was made before this one.
    older: AtomicPtr<Watched>,
    /// Where the handler runs, if the thread has no other place for it.
    stack: AtomicPtr<u8>,
}

/// The newest.
static ALL: AtomicPtr<Watched> = AtomicPtr::new(null_mut());

/// What the signal did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Bytes of a handler's stack, beside what the processor's state takes.
const ROOM: usize = 32 << 10;

impl Watched {
    pub(crate) const fn new() -> Self {
        Self {
            thread: AtomicI32::new(0),
            own: AtomicPtr::new(null_mut()),
            older: AtomicPtr::new(null_mut()),
            stack: AtomicPtr::new(null_mut()),
        }
    }

    /// Watches the calling thread, which has this `Own` from now on.
    pub(crate) fn begin(&'static self, own: &'static Own) {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        self.lend_stack();
        if self.own.swap(ptr::from_ref(own).cast_mut(), Ordering::Relaxed).is_null() {
            let this = ptr::from_ref(self).cast_mut();
            let mut newest = ALL.load(Ordering::Acquire);
            loop {
                self.older.store(newest, Ordering::Relaxed);
                match ALL.compare_exchange_weak(newest, this, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(other) => newest = other,
                }
            }
        }
        self.thread.store(this_thread(), Ordering::Release);
    }

    /// The thread ends.
    pub(crate) fn end(&self) {
        self.thread.store(0, Ordering::Release);
        let lent = self.stack.load(Ordering::Relaxed);
        // SAFETY: our variables.
        unsafe {
            let mut now: libc::stack_t = zeroed();
            libc::sigaltstack(ptr::null(), &mut now);
            if !lent.is_null() && ptr::eq(now.ss_sp.cast(), lent) {
                let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..now };
                libc::sigaltstack(&none, null_mut());
            }
        }
    }

    /// Sees to it that a handler has a stack on this thread. Threads that the standard library starts in a
    /// program of Rust have one.
    fn lend_stack(&self) {
        // SAFETY: our variable.
        let mut now: libc::stack_t = unsafe { zeroed() };
        // SAFETY: as above.
        unsafe { libc::sigaltstack(ptr::null(), &mut now) };
        if now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        // SAFETY: it asks for a number.
        let state = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let layout = Layout::from_size_align(ROOM + state, 16).expect("a handful of pages");
        if self.stack.load(Ordering::Relaxed).is_null() {
            // SAFETY: it is not empty. Null, where there is no memory, is no stack: see below.
            self.stack.store(unsafe { alloc(layout) }, Ordering::Relaxed);
        }
        let stack = self.stack.load(Ordering::Relaxed);
        if !stack.is_null() {
            let lent = libc::stack_t { ss_sp: stack.cast(), ss_flags: 0, ss_size: layout.size() };
            // SAFETY: it lives for ever, and is used by one thread: the one that has this `Own`.
            unsafe { libc::sigaltstack(&lent, null_mut()) };
        }
    }
}

fn this_thread() -> i32 {
    // SAFETY: it asks for a number.
    unsafe { libc::gettid() }
}

fn install() {
    // SAFETY: our variables; the handler is of the type that SA_SIGINFO asks for. The action of before is
    // kept before the handler can run.
    unsafe {
        let mut before = zeroed();
        if libc::sigaction(libc::SIGSEGV, ptr::null(), &mut before) != 0 {
            return;
        }
        let _ = BEFORE.set(before);
        let mut handler: libc::sigaction = zeroed();
        handler.sa_sigaction = fault as *const () as usize;
        handler.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &handler, null_mut());
    }
}

unsafe extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives what it says. A number that is not positive says that a process has sent the
    // signal; else there is an address.
    let sent = unsafe { (*info).si_code } <= 0;
    if !sent {
        // SAFETY: as above.
        say_if_overflow(unsafe { (*info).si_addr() }.addr());
    }
    let before = BEFORE.get();
    match before.map_or(libc::SIG_DFL, |before| before.sa_sigaction) {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // An access is tried again, and ends the process. What was sent comes again after this.
            // SAFETY: our variable.
            unsafe {
                let default: libc::sigaction = zeroed();
                libc::sigaction(signal, &default, null_mut());
            }
            if sent {
                // SAFETY: it sends a signal to this thread.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: a handler of this type, as its flag says.
            unsafe {
                let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
        }
        handler => {
            // SAFETY: a handler of the other type.
            unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal) }
        }
    }
}

fn say_if_overflow(address: usize) {
    let thread = this_thread();
    let mut watched = ALL.load(Ordering::Acquire);
    // SAFETY: what is in the list lives for ever.
    while let Some(one) = unsafe { watched.as_ref() } {
        if one.thread.load(Ordering::Acquire) == thread {
            // SAFETY: stored before the thread's number, and this thread's own.
            let own = unsafe { &*one.own.load(Ordering::Relaxed) };
            if let Some(overflow) = own.overflow_at(address) {
                say(&overflow);
            }
            return;
        }
        watched = one.older.load(Ordering::Relaxed);
    }
}

/// Without `fmt`, which takes more of the stack than a handler may have.
fn say(overflow: &Overflow<'_>) {
    let mut digits = [0; 20];
    let (mut first, mut rest) = (digits.len(), overflow.stack >> 10);
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let (before, name, after) = match overflow.task {
        Some(name) => ("flash: the task `", name, "`"),
        None => ("flash: a coroutine", "", ""),
    };
    let parts = [
        before.as_bytes(),
        name.as_bytes(),
        after.as_bytes(),
        b" has overflowed its stack of ",
        &digits[first..],
        b" KiB: expected less recursion or smaller variables; recursion through `join` or `scope` takes further stacks \
          as needed, and FLASH_STACK_SIZE (bytes) makes those of tasks larger\n",
    ];
    let parts =
        parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: our bytes, which it reads.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), parts.len() as c_int) };
}
