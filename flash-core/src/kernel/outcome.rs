//! Kernels that return a `Result`: its error fails the launch, with what it says and the work item.
//!
//! `#[kernel]` leaves the function of the door as the trait has it, and settles inside what the body returns.
//! An error ends the share of the thread as a panic does, without a message of its own on the terminal.

use super::Index;
use super::index::Rank;
use std::fmt::Display;
use std::panic::resume_unwind;

/// What a kernel returns: a `Result` of nothing, whose error says what is wrong.
#[diagnostic::on_unimplemented(
    message = "a kernel returns nothing or a `Result<(), E>`, and not `{Self}`",
    label = "write `Result<(), E>`, where `E` is `Display`, such as `&'static str`"
)]
pub trait Outcome {
    /// Goes on, or ends the launch at a place.
    fn settle(self, at: impl At);
}

impl<E: Display> Outcome for Result<(), E> {
    #[inline(always)]
    fn settle(self, at: impl At) {
        if let Err(error) = self {
            fail(error, at);
        }
    }
}

/// Where a kernel has failed. By value: what is passed by its address stays in memory.
pub trait At {
    /// Behind the error's words.
    fn words(self) -> String;
}

/// A work item.
impl<const N: usize> At for Index<N> {
    fn words(self) -> String {
        format!(", at work item {:?}", self.as_slice())
    }
}

/// A function that computes many work items.
impl At for () {
    fn words(self) -> String {
        String::new()
    }
}

/// What a kernel unwinds with that has returned an error.
pub(super) struct Failed(pub String);

#[cold]
#[inline(never)]
fn fail<E: Display>(error: E, at: impl At) -> ! {
    resume_unwind(Box::new(Failed(format!("{error}{}", at.words()))))
}
