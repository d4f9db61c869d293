//! The numbers that functions return, and their texts; and the frame in which every entry runs.

use crate::error::{Code, Error};
use flash_backend::caught;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// It is done.
pub const SUCCESS: c_int = 0;
/// A call before `MPIX_Initialize` or after `MPIX_Finalize`, or a second `MPIX_Initialize`.
pub const ERR_INIT: c_int = 1;
/// A NULL that must not be one, or a value that none may have.
pub const ERR_ARG: c_int = 2;
/// No child rank, buffer or parent rank of that number: it is none, or freed.
pub const ERR_RANK: c_int = 3;
/// A tag below 0.
pub const ERR_TAG: c_int = 4;
/// A datatype that is none, or that does not fit.
pub const ERR_TYPE: c_int = 5;
/// More elements than there is room for, or fewer than are needed.
pub const ERR_COUNT: c_int = 6;
/// A compute object that is none, or freed.
pub const ERR_OBJECT: c_int = 7;
/// A request that is none, or has ended.
pub const ERR_REQUEST: c_int = 8;
/// No info, or a key that no override has.
pub const ERR_INFO: c_int = 9;
/// No communicator.
pub const ERR_COMM: c_int = 10;
/// The configuration has faults; the text has each with its line and column.
pub const ERR_CONFIG: c_int = 11;
/// No function has that alias; the text lists the known aliases.
pub const ERR_ALIAS: c_int = 12;
/// No implementation on any device, and no failsafe; the text lists what there is.
pub const ERR_IMPLEMENTATION: c_int = 13;
/// Arguments that do not fit the kernel.
pub const ERR_KERNEL: c_int = 14;
/// The kernel, or the failsafe, failed.
pub const ERR_FAILED: c_int = 15;
/// A device failed or does not answer.
pub const ERR_DEVICE: c_int = 16;
/// The host or a device has too little memory.
pub const ERR_NO_MEM: c_int = 17;
/// It is in use by another call.
pub const ERR_BUSY: c_int = 18;
/// The child rank was freed, or the program finalised, while the call waited.
pub const ERR_GONE: c_int = 19;
/// A fault of FLASH: an entry panicked.
pub const ERR_PANIC: c_int = 20;
/// Anything else; the text says what.
pub const ERR_OTHER: c_int = 21;
/// Room for a text of an error, with its NUL.
pub const MAX_ERROR_STRING: c_int = 1024;

/// What is said of a number without the text of an error.
const WORDS: [&CStr; 22] = [
    c"no error",
    c"not initialised, or initialised twice",
    c"an argument that none may have",
    c"no such rank or buffer",
    c"no such tag",
    c"a datatype that does not fit",
    c"a count that does not fit",
    c"no such compute object",
    c"no such request",
    c"no such info or key",
    c"no such communicator",
    c"the configuration has faults",
    c"no function of that alias",
    c"no implementation and no failsafe",
    c"arguments that do not fit the kernel",
    c"the kernel failed",
    c"a device failed",
    c"too little memory",
    c"in use by another call",
    c"freed or finalised meanwhile",
    c"a fault of FLASH",
    c"another error",
];

thread_local! {
    /// The last error of the thread.
    static LAST: RefCell<(c_int, CString)> = RefCell::default();
}

/// Runs an entry: its failure becomes a number and the thread's text, and so does a panic.
#[inline]
pub(super) fn call(entry: impl FnOnce() -> Result<(), Error>) -> c_int {
    // Only a number crosses the frame that catches panics.
    let status = caught(|| match entry() {
        Ok(()) => SUCCESS,
        Err(error) => fail(error),
    });
    status.unwrap_or_else(|text| {
        fail(Error::new(Code::Panic, format!("FLASH panicked, which is a fault of it: {text}")))
    })
}

#[cold]
fn fail(Error { code, text }: Error) -> c_int {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // At the end of a thread there is no text any more.
    let _ = LAST.try_with(|last| last.replace((code as c_int, text)));
    code as c_int
}

/// The text of the last error of this thread: what was expected, what was found, and what to do.
///
/// Empty if there was none. It is valid until a function fails in this thread again, or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn MPIX_Last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// Writes the text of an error to `string`, which has room for `MPIX_MAX_ERROR_STRING` bytes, and its length
/// to `length`: the text of the last error of this thread, if it was this one, cut to fit; else what the
/// number means.
///
/// Errors: `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `string` has that room; `length` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Error_string(code: c_int, string: *mut c_char, length: *mut c_int) -> c_int {
    call(|| {
        if string.is_null() || length.is_null() {
            return Err(Error::new(Code::Argument, "expected places for a text and its length, found NULL"));
        }
        let meaning =
            usize::try_from(code).ok().and_then(|code| WORDS.get(code)).unwrap_or(&c"no such error");
        let text = LAST.with_borrow(|(last, text)| match *last == code && code != SUCCESS {
            true => text.as_bytes().to_vec(),
            false => meaning.to_bytes().to_vec(),
        });
        let mut room = text.len().min(MAX_ERROR_STRING as usize - 1);
        // Not inside a character.
        while room > 0 && room < text.len() && text[room] & 0xC0 == 0x80 {
            room -= 1;
        }
        // SAFETY: the caller vouches for the room.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), string, room);
            *string.add(room) = 0;
            *length = room as c_int;
        }
        Ok(())
    })
}
