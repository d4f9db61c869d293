//! Who holds a memory, and how others wait for it. The protocol is [`word`]; the models include that
//! file beside their own `fences` and `sync`, so it names no others.

mod fences;
mod sync;
mod word;

use crate::error::Error;
pub(crate) use fences::agree;
pub(crate) use word::State;
