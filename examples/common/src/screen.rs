//! What the user sees: lines on stdout, a progress bar on stderr.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Stdout and the bar. Prints nothing when quiet.
pub struct Screen {
    bar: ProgressBar,
    quiet: bool,
    /// Whoever read stdout has gone.
    closed: bool,
}

impl Screen {
    /// The bar is hidden where stderr is no terminal.
    pub fn new(quiet: bool, steps: usize) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(steps as u64) };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {elapsed} gone, {eta} to go")
        {
            bar.set_style(style);
        }
        Self { bar, quiet, closed: false }
    }

    /// Prints a line. A reader that has gone is no error, but nothing is printed from then on.
    pub fn line(&mut self, line: &str) -> Result<()> {
        if self.quiet || self.closed {
            return Ok(());
        }
        let printed = self.bar.suspend(|| writeln!(std::io::stdout(), "{line}"));
        match printed {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            printed => printed.context("stdout: expected to print, found that it failed"),
        }
    }

    /// Whether nobody will see another line.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Moves the bar to `done` steps.
    pub fn progress(&self, done: usize) {
        self.bar.set_position(done as u64);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
