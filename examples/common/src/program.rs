//! A program as its tests run it.

use std::process::{Command, Output, Stdio};

/// A built program: `Program(env!("CARGO_BIN_EXE_name"))`.
#[derive(Clone, Copy, Debug)]
pub struct Program(pub &'static str);

impl Program {
    /// Runs it with a command line and variables of the environment, and nothing on its standard input.
    pub fn run(self, line: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(self.0);
        command.stdin(Stdio::null()).args(line).envs(variables.iter().copied());
        command.output().unwrap_or_else(|error| panic!("{} cannot be started: {error}", self.0))
    }

    /// What a line prints that has to succeed.
    pub fn succeed(self, line: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.run(line, variables);
        assert_eq!(output.status.code(), Some(0), "{line:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The error of a line that has to fail with a code, and to print nothing else.
    pub fn fail(self, line: &[&str], code: i32, variables: &[(&str, &str)]) -> String {
        let output = self.run(line, variables);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line:?}: {error}");
        assert_eq!(text(&output.stdout), "", "{line:?}: nothing but an error");
        assert!(!error.contains("panicked") && !error.trim().is_empty(), "{line:?}: {error}");
        error
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("expected text: {error}"))
}
