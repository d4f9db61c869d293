//! Sleeping for a moment, as MPI has nothing to sleep on.

use std::time::Duration;

/// Sleeps for so long.
pub(crate) fn nap(time: Duration) {
    exactly(|| std::thread::sleep(time));
}

/// Calls what sleeps. The system may add 50 us, unless a thread says that it may not.
pub(crate) fn exactly(sleep: impl FnOnce()) {
    // SAFETY: a number of the calling thread, without arguments.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    let set = |nanoseconds: libc::c_ulong| {
        // SAFETY: the same number, with an argument of the type that the system reads.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
    };
    set(1);
    sleep();
    // 0 is the default.
    set(slack.try_into().unwrap_or(0));
}
