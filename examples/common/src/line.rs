//! The command line of a program: how it is read, and what several programs have there.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::exit_code;

/// Runs a program with the arguments of its command line.
///
/// Help and the version end it with 0, a line that is wrong with 2, [`Refused`](crate::Refused) with 2, and
/// other errors with 1.
pub fn main<A: Parser>(program: &str, run: impl FnOnce(&A) -> anyhow::Result<()>) -> ExitCode {
    // It may be its own agent, for keys such as `OPENCL@agent`.
    flash::prelude::agent_here();
    match A::try_parse() {
        Ok(args) => exit_code(program, run(&args)),
        Err(message) => {
            // Help and version come this way too, with code 0. A closed pipe is no error.
            let _ = message.print();
            ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2))
        }
    }
}

/// The type of the numbers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Single precision
    #[value(name = "f32")]
    F32,
    /// Double precision
    #[value(name = "f64")]
    F64,
}

impl Precision {
    /// As on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}
