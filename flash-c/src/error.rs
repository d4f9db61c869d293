//! Errors as numbers, with a text per thread; and the frame in which every entry runs.

use crate::status::*;
use flash_backend::caught;
use flash_core::{Code, Error};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

/// Why an entry fails.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    /// One that is not of the core.
    #[cold]
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let status = match error.cause() {
            Error::Borrowed { .. } => STATUS_BORROWED,
            Error::Poisoned | Error::Skipped { .. } => STATUS_POISONED,
            Error::Nested => STATUS_NESTED,
            Error::Shape(_) => STATUS_SHAPE,
            Error::Range { .. } => STATUS_RANGE,
            Error::Key(_) => STATUS_KEY,
            Error::Setting { .. } => STATUS_SETTING,
            Error::Index { .. } => STATUS_DIMENSION,
            Error::Argument { .. } | Error::Contents { .. } => STATUS_ARGUMENT,
            Error::NoImplementation(_) => STATUS_IMPLEMENTATION,
            Error::NoKernel { .. } => STATUS_KERNEL,
            Error::Option { .. } => STATUS_OPTION,
            Error::DeviceMemory(_) | Error::OutOfMemory { .. } => STATUS_OUT_OF_MEMORY,
            Error::Library { .. } | Error::Ambiguous { .. } => STATUS_LIBRARY,
            Error::Partition { .. } => STATUS_PARTITION,
            Error::Timeout { .. } => STATUS_TIMEOUT,
            Error::Cancelled => STATUS_CANCELLED,
            Error::Backend { code, .. } => match code {
                Code::Kernel => STATUS_FAILED,
                Code::OutOfMemory => STATUS_OUT_OF_MEMORY,
                Code::DeviceLost => STATUS_DEVICE_LOST,
                Code::Cancelled => STATUS_CANCELLED,
                _ => STATUS_BACKEND,
            },
            _ => STATUS_OTHER,
        };
        Failure { status, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs an entry: its failure becomes a number and the thread's text, and so does a panic.
#[inline]
pub fn call(entry: impl FnOnce() -> Result<(), Failure>) -> Status {
    // Only a number crosses the frame that catches panics.
    let status = caught(|| match entry() {
        Ok(()) => STATUS_OK,
        Err(failure) => fail(failure),
    });
    status.unwrap_or_else(|text| panicked(&text))
}

#[cold]
fn panicked(text: &str) -> Status {
    fail(Failure::new(STATUS_PANIC, format!("FLASH panicked, which is a fault of it: {text}")))
}

#[cold]
fn fail(Failure { status, text }: Failure) -> Status {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // At the end of a thread there is no text any more.
    let _ = LAST.try_with(|last| last.replace(text));
    status
}

/// The text of the last error of this thread: what was expected, what was found, where, and what to do.
///
/// Empty if there was none. It is valid until a function of FLASH fails in this thread again, or the thread
/// ends. A function that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn flash_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of a status, such as `KEY`, or `unknown`; valid as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn flash_status_name(status: Status) -> *const c_char {
    let known = NAMES.iter().find(|(number, _)| *number == status);
    // A name ends with NUL.
    known.map_or(c"unknown".as_ptr(), |(_, name)| name["STATUS_".len()..].as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::panic::panic_any;

    fn last() -> String {
        // SAFETY: the text of this thread, which nothing replaces meanwhile.
        unsafe { CStr::from_ptr(flash_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_at_the_entry_with_its_words() {
        assert_eq!(call(|| panic!("seven of {}", 9)), STATUS_PANIC);
        assert!(last().ends_with("a fault of it: seven of 9"), "{}", last());
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in the payload");
            }
        }
        assert_eq!(call(|| panic_any(Bomb)), STATUS_PANIC);
        assert_eq!(call(|| Ok(())), STATUS_OK);
        assert!(!last().is_empty(), "what succeeds leaves the text");
    }

    #[test]
    fn each_thread_has_its_own_text() {
        assert_eq!(call(|| Err(Failure::new(STATUS_KEY, "here"))), STATUS_KEY);
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
        assert_eq!(call(|| Err(Failure::new(STATUS_KEY, "a\0b"))), STATUS_KEY);
        assert_eq!(last(), "a b", "a text of C ends at its first NUL");
    }

    #[test]
    fn every_status_has_a_number_of_its_own_and_a_name() {
        let numbers: Vec<Status> = NAMES.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..numbers.len() as Status).collect::<Vec<_>>());
        // SAFETY: texts of the program.
        let name = |status| unsafe { CStr::from_ptr(flash_status_name(status)) }.to_str().unwrap();
        assert_eq!((name(0), name(3), name(-1), name(99)), ("OK", "KEY", "unknown", "unknown"));
    }
}
