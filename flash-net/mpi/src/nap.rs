//! Sleeping for a moment, as MPI has nothing to sleep on.

use std::time::Duration;

/// Sleeps for so long. The system may add 50 us, unless a thread says that it may not.
pub(crate) fn nap(time: Duration) {
    // SAFETY: these read and write a number of the calling thread, which is what it was after the call.
    unsafe {
        let slack = libc::prctl(libc::PR_GET_TIMERSLACK);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        std::thread::sleep(time);
        libc::prctl(libc::PR_SET_TIMERSLACK, slack.max(0));
    }
}
