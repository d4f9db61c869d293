//! What the example programs share beside their host code: command lines, files that are written when a run
//! has succeeded, a progress bar in the terminal, the launches' time, pictures, tours of short programs, and
//! how tests run them.

mod files;
mod gray;
#[cfg(test)]
mod hosts;
mod line;
mod picture;
mod program;
mod screen;
mod text;
mod timing;
mod tour;
mod uniform;

pub use files::{FILES, Target, differ, is_standard, read};
pub use gray::Gray;
pub use line::{Precision, main};
pub use picture::{Animation, Colours, Picture};
pub use program::Program;
pub use screen::{Screen, digits};
pub use text::{is_not_zero, shown};
pub use timing::Timing;
pub use tour::{Stop, check, expect, tour};
pub use uniform::uniform;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// What the user asked for cannot be done: a wrong command line or a malformed file. Ends a program with 2;
/// every other error ends it with 1.
#[derive(Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The program's exit code, with the error on stderr if there is one.
pub fn exit_code(program: &str, outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // Not `eprintln!`, which panics where stderr is closed.
    let _ = writeln!(std::io::stderr(), "{program}: error: {error:#}");
    ExitCode::from(if error.is::<Refused>() { 2 } else { 1 })
}
