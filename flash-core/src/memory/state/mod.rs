//! The holders of a memory, and how others wait for it. The protocol is [`word`]; the models include that
//! file beside their own `fences` and `sync`, so it names no other modules.

mod fences;
mod sync;
mod word;

use crate::error::Error;
pub(crate) use fences::{agree, heavy, light};
pub(crate) use word::{Refused, State};

impl From<Refused> for Error {
    /// A guard's claim is refused by guards only; a launch that meets a pending pipeline enters the order
    /// behind it (`runtime/asynchronous`) and does not report it.
    fn from(refused: Refused) -> Error {
        match refused {
            Refused::Borrowed | Refused::Pending => Error::Borrowed,
            Refused::Forked => Error::Forked,
        }
    }
}
