//! Errors: a code for programs, and a text that says what was expected, what was found, and what to do.

use flash_core::Code as BackendCode;
use std::fmt;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// Its kind.
    pub code: Code,
    /// Expected, found, where, what to do.
    pub text: String,
}

/// Kinds of errors. Their numbers are those of `mpix.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[non_exhaustive]
pub enum Code {
    /// A call before `MPIX_Initialize`, or a second one.
    Init = 1,
    /// A NULL that must not be one, or a value that none may have.
    Argument = 2,
    /// No child rank, buffer or parent rank of that number.
    Rank = 3,
    /// A tag below 0.
    Tag = 4,
    /// A datatype that is none, or that does not fit.
    Type = 5,
    /// More elements than there is room for, or fewer than are needed.
    Count = 6,
    /// A compute object that is none, or is freed.
    Object = 7,
    /// A request that is none, or has ended.
    Request = 8,
    /// No info, or a key that no override has.
    Info = 9,
    /// No communicator.
    Comm = 10,
    /// The configuration has faults.
    Config = 11,
    /// No function of that alias.
    Alias = 12,
    /// No implementation, and no failsafe.
    Implementation = 13,
    /// Arguments that do not fit the kernel.
    Kernel = 14,
    /// The kernel, or the failsafe, failed.
    Failed = 15,
    /// A device failed or does not answer.
    Device = 16,
    /// The host or a device has too little memory.
    Memory = 17,
    /// It is in use by another thread.
    Busy = 18,
    /// The child rank was freed, or the program finalised, while a call waited.
    Gone = 19,
    /// A fault of FLASH.
    Panic = 20,
    /// Anything else.
    Other = 21,
}

impl Code {
    const ALL: [Code; 21] = [
        Code::Init,
        Code::Argument,
        Code::Rank,
        Code::Tag,
        Code::Type,
        Code::Count,
        Code::Object,
        Code::Request,
        Code::Info,
        Code::Comm,
        Code::Config,
        Code::Alias,
        Code::Implementation,
        Code::Kernel,
        Code::Failed,
        Code::Device,
        Code::Memory,
        Code::Busy,
        Code::Gone,
        Code::Panic,
        Code::Other,
    ];

    /// The kind of this number.
    pub(crate) fn of(number: u32) -> Option<Code> {
        Code::ALL.into_iter().find(|code| *code as u32 == number)
    }
}

impl Error {
    /// An error with its text.
    #[cold]
    pub fn new(code: Code, text: impl Into<String>) -> Error {
        Error { code, text: text.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<flash_core::Error> for Error {
    #[cold]
    fn from(error: flash_core::Error) -> Error {
        use flash_core::Error as E;
        let code = match error.cause() {
            E::NoImplementation(_) | E::NoKernel { .. } | E::Key(_) => Code::Implementation,
            E::Argument { .. } | E::Contents { .. } | E::Index { .. } | E::Shape(_) | E::Range { .. } => {
                Code::Kernel
            }
            E::DeviceMemory(_) | E::OutOfMemory { .. } => Code::Memory,
            E::Backend { code, .. } => match code {
                BackendCode::Kernel => Code::Failed,
                BackendCode::OutOfMemory => Code::Memory,
                _ => Code::Device,
            },
            E::Borrowed { .. } => Code::Busy,
            E::Poisoned | E::Skipped { .. } => Code::Failed,
            _ => Code::Other,
        };
        Error { code, text: error.to_string() }
    }
}
