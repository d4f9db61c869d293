//! The report of a run, as a page in Markdown.

use std::fmt::{self, Display, Formatter};
use std::process::Command;

use super::steps::Outcomes;

/// A run.
pub struct Report<'a> {
    pub device: &'a str,
    /// The commit of the sources; empty if it is unknown.
    pub commit: &'a str,
    pub outcomes: &'a Outcomes,
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { device, commit, outcomes } = self;
        writeln!(f, "# The CUDA backend on a GPU\n")?;
        writeln!(f, "Written by `cargo xtask gpu` on {}; [cuda.md](cuda.md) is for users.\n", today())?;
        writeln!(f, "- Device: {device}")?;
        if !commit.is_empty() {
            writeln!(f, "- Sources: {commit}")?;
        }
        writeln!(f, "\n## What ran\n\n| step | outcome | seconds |\n|---|---|---|")?;
        for done in &outcomes.done {
            let outcome = match &done.outcome {
                Ok(said) => cell(said),
                Err(_) => "**failed**, see below".into(),
            };
            writeln!(f, "| {} | {outcome} | {:.1} |", cell(&done.name), done.time.as_secs_f64())?;
        }
        for done in &outcomes.done {
            if let Err(error) = &done.outcome {
                writeln!(f, "\n{}:\n\n```text\n{}\n```", done.name, format!("{error:#}").trim_end())?;
            }
        }
        if !outcomes.tables.is_empty() {
            writeln!(f, "\n## Figures\n\n{FIGURES}")?;
            for (name, table) in &outcomes.tables {
                writeln!(f, "\n`cargo xtask bench {name}`:\n\n{}", table.trim_end())?;
            }
            match &outcomes.missed[..] {
                [] => writeln!(f, "\nNo goal is missed.")?,
                missed => {
                    writeln!(f, "\nGoals that are missed:\n")?;
                    missed.iter().try_for_each(|row| writeln!(f, "- {row}"))?;
                }
            }
        }
        writeln!(f, "\n## What did not run\n")?;
        match &outcomes.skipped[..] {
            [] => writeln!(f, "Nothing: all steps and all of their tests ran.")?,
            skipped => skipped.iter().try_for_each(|(name, why)| writeln!(f, "- {name}: {why}"))?,
        }
        write!(f, "\n{}", unseen())
    }
}

/// The page's list of what was never seen on a GPU. A run leaves it; the reader of the report shortens it.
fn unseen() -> &'static str {
    const PAGE: &str = include_str!("../../../docs/gpu.md");
    PAGE.find(UNSEEN).map_or("", |at| &PAGE[at..])
}

/// The page's last heading.
const UNSEEN: &str = "## What was not seen on a GPU";

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

#[cfg(test)]
mod tests {
    use super::super::steps::Done;
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_report_has_what_passed_what_failed_the_figures_and_what_did_not_run() {
        let done =
            |name: &str, outcome| Done { name: name.into(), outcome, time: Duration::from_millis(1500) };
        let outcomes = Outcomes {
            done: vec![
                done("conformance suite", Ok("21 | 0".into())),
                done("tests `cuda`", Err(anyhow::anyhow!("exit status: 101\nof `cuda`"))),
            ],
            skipped: vec![("compute-sanitizer".into(), "it is not on PATH".into())],
            tables: vec![("gpu", "| name |\n|---|\n| launch |\n".into())],
            missed: vec!["launch; goal: at most 1.05, found 1.1".into()],
        };
        assert!(!outcomes.ok());
        let text = Report { device: "H200", commit: "abc", outcomes: &outcomes }.to_string();
        for part in [
            "- Device: H200\n- Sources: abc\n",
            "| conformance suite | 21 \\| 0 | 1.5 |\n| tests `cuda` | **failed**, see below | 1.5 |\n",
            "\ntests `cuda`:\n\n```text\nexit status: 101\nof `cuda`\n```\n",
            "`cargo xtask bench gpu`:\n\n| name |\n|---|\n| launch |\n",
            "\nGoals that are missed:\n\n- launch; goal: at most 1.05, found 1.1\n",
            "\n## What did not run\n\n- compute-sanitizer: it is not on PATH\n\n## What was not seen on a GPU\n\n",
        ] {
            assert!(text.contains(part), "{part:?} in:\n{text}");
        }
    }
}
