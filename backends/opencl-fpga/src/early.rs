//! Programs that are loaded before anybody asks for them, by a thread of the host's that nobody waits for.
//!
//! Drivers end with the process, and do not expect to be used meanwhile. So a turn is asked for before each
//! program; when the process ends there are none any more, and the last one is waited for.

use std::sync::{Mutex, MutexGuard, Once};

/// True: the process ends.
static ENDS: Mutex<bool> = Mutex::new(false);

/// Held while a program is loaded.
pub(crate) struct Turn {
    _ends: MutexGuard<'static, bool>,
}

/// `None`: the process ends. To be asked for after the driver was used: what is registered last to be called at
/// the end is called first.
pub(crate) fn turn() -> Option<Turn> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function without arguments, in a library that is never unloaded. If it is refused, there is
        // nobody to wait at the end, which most drivers bear.
        let _ = unsafe { libc::atexit(stop) };
    });
    let ends = lock();
    (!*ends).then_some(Turn { _ends: ends })
}

fn lock() -> MutexGuard<'static, bool> {
    ENDS.lock().unwrap_or_else(|e| e.into_inner())
}

extern "C" fn stop() {
    *lock() = true;
}
