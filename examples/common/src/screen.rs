//! Output for the user: lines on stdout, a progress bar on stderr.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Stdout and the bar. Prints nothing when quiet.
pub struct Screen {
    bar: ProgressBar,
    quiet: bool,
    /// The reader of stdout has gone.
    closed: bool,
}

impl Screen {
    /// A bar of `count` steps, which are called `steps`. It is hidden where stderr is no terminal.
    pub fn new(quiet: bool, count: usize, steps: &str) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(count as u64) };
        let template = format!("{{bar:40}} {{pos}}/{{len}} {steps}, {{elapsed}} gone, {{eta}} to go");
        if let Ok(style) = ProgressStyle::with_template(&template) {
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

    /// Whether no further line will be seen.
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

/// A number with `count` significant digits.
pub fn digits(number: f64, count: i32) -> String {
    let exponent = match number {
        0.0 => 0,
        _ => number.abs().log10().floor() as i32,
    };
    if (-4..count).contains(&exponent) {
        format!("{number:.*}", (count - 1 - exponent) as usize)
    } else {
        format!("{number:.*e}", (count - 1) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_significant_digits() {
        assert_eq!(digits(26.405, 5), "26.405");
        assert_eq!(digits(14572.0, 5), "14572");
        assert_eq!(digits(-0.169075164, 9), "-0.169075164");
        assert_eq!(digits(0.0, 5), "0.0000");
        assert_eq!(digits(1.5e-7, 3), "1.50e-7");
        assert_eq!(digits(123456.0, 5), "1.2346e5");
    }
}
