//! The holders of a memory, and how others wait for it. The protocol is [`word`]; the models include that
//! file beside their own `fences` and `sync`, so it names no other modules.

mod fences;
mod sync;
mod word;

pub(crate) use fences::{agree, heavy, light};
pub(crate) use word::{Refused, State};
