//! What came out, as a page in Markdown.

use std::fmt::{self, Display, Formatter};
use std::process::Command;

use super::steps::{Device, Runner};

/// A run.
pub struct Report<'a> {
    pub device: &'a Device,
    pub commit: &'a str,
    pub runner: &'a Runner<'a>,
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { device, commit, runner } = self;
        writeln!(f, "# The CUDA backend on a GPU\n")?;
        writeln!(f, "Written by `cargo xtask gpu` on {}; [cuda.md](cuda.md) is for users.\n", today())?;
        writeln!(f, "- Device: {device}")?;
        if !commit.is_empty() {
            writeln!(f, "- Sources: {commit}")?;
        }
        writeln!(f, "\n## What ran\n\n| step | outcome | seconds |\n|---|---|---|")?;
        for done in &runner.done {
            let outcome = match &done.outcome {
                Ok(said) => cell(said),
                Err(_) => "**failed**, see below".into(),
            };
            writeln!(f, "| {} | {outcome} | {:.1} |", cell(&done.name), done.time.as_secs_f64())?;
        }
        for done in &runner.done {
            if let Err(error) = &done.outcome {
                writeln!(f, "\n{}:\n\n```text\n{}\n```", done.name, format!("{error:#}").trim_end())?;
            }
        }
        if !runner.tables.is_empty() {
            writeln!(f, "\n## Figures\n\n{FIGURES}")?;
            for (name, table) in &runner.tables {
                writeln!(f, "\n`cargo xtask bench {name}`:\n\n{}", table.trim_end())?;
            }
            match &runner.missed[..] {
                [] => writeln!(f, "\nNo goal is missed.")?,
                missed => {
                    writeln!(f, "\nGoals that are missed:\n")?;
                    missed.iter().try_for_each(|row| writeln!(f, "- {row}"))?;
                }
            }
        }
        writeln!(f, "\n## What did not run\n")?;
        match &runner.skipped[..] {
            [] => writeln!(f, "Nothing: all steps and all of their tests ran."),
            skipped => skipped.iter().try_for_each(|(name, why)| writeln!(f, "- {name}: {why}")),
        }
    }
}

const FIGURES: &str = "\
The framework and its peer, the driver called by hand, take turns; *value* and *peer* are medians, *ratio* is the median
of FLASH / peer over pairs of turns: below 1 is better for times, above 1 for rates.";

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The date, in UTC.
fn today() -> String {
    let date = Command::new("date").args(["--utc", "+%Y-%m-%d"]).output();
    let text = date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "a day that this machine does not know".into())
}
