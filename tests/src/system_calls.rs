//! Work that must make no system call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Does `work` on a thread that Linux ends at its first system call, and waits for it. `before` is done by
/// the same thread, which may call what it likes then. What it gives, and the thread's stack, stay for ever:
/// to give them back takes calls.
///
/// # Panics
/// If the work made a system call.
pub fn none<T: 'static>(before: impl FnOnce() -> T + Send + 'static, work: impl FnOnce(&T) + Send + 'static) {
    let is_done = Arc::new(AtomicBool::new(false));
    let (sender, began) = mpsc::channel();
    thread::spawn({
        let is_done = is_done.clone();
        move || {
            let state = before();
            // SAFETY: only asks for the thread's number.
            let _ = sender.send(unsafe { libc::gettid() });
            allow_exit_only();
            work(&state);
            is_done.store(true, SeqCst);
            // SAFETY: nothing that it has is used again, and nothing is given back.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
    });
    let thread = began.recv().expect("what comes before does not fail");
    while Path::new(&format!("/proc/self/task/{thread}")).exists() {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(is_done.load(SeqCst), "the work made a system call");
}

/// Has Linux end this thread at any system call but `exit`.
fn allow_exit_only() {
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let (load, jump, end) = (
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        (libc::BPF_RET | libc::BPF_K) as u16,
    );
    // The number of a call is the first field of what a filter sees.
    let mut steps = [
        step(load, 0, 0),
        step(jump, 1, libc::SYS_exit as u32),
        step(end, 0, libc::SECCOMP_RET_ALLOW),
        step(end, 0, libc::SECCOMP_RET_KILL_THREAD),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both concern this thread alone; the filter is read during the call.
    let outcome = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    assert_eq!(outcome, 0, "this Linux restricts no thread: {}", std::io::Error::last_os_error());
}
