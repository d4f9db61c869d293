//! Panics of code that is not ours: of kernels, backends and host functions.
//!
//! All of them are caught here. A panic's payload is a value of any type, whose `drop` may panic, too: that
//! would end a process in the middle of a call from C, and a thread of the library anywhere else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `body`; a panic is its message. What `body` has changed stays as the panic left it.
///
/// # Examples
/// ```
/// use flash_backend::caught;
/// assert_eq!(caught(|| 2), Ok(2));
/// assert_eq!(caught(|| panic!("no {}", "device")), Err::<(), _>("no device".to_owned()));
/// ```
#[inline]
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(message)
}

/// The message of a panic, which is dropped.
#[cold]
pub fn message(payload: Box<dyn Any + Send>) -> String {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    discard(payload);
    text
}

/// Drops a panic. One that comes of that is never dropped: the next one might come of it.
#[cold]
pub fn discard(payload: Box<dyn Any + Send>) {
    if let Err(next) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics when it is dropped, again and again.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any(Bomb);
        }
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_a_panic_like_others() {
        assert_eq!(caught(|| panic_any(Bomb)), Err::<(), _>("a panic without a message".to_owned()));
        assert_eq!(caught(|| panic_any(String::from("text"))), Err::<(), _>("text".to_owned()));
    }
}
