//! `flash conformance`: the suite in a child process, which is started again behind the check that ended it.

use crate::child::{self, Child, Next, Parent};
use crate::{Refused, print};
use anyhow::{Context as _, anyhow, bail};
use flash_conformance::{Check, Report, Suite, Verdict};
use flash_core::Context;
use serde::{Deserialize, Serialize};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// What the child says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    /// The checks, each with its device and its name, and whether the devices run nothing.
    Checks(Vec<(String, String)>, bool),
    /// There are none: why.
    Error(String),
    Begin(usize),
    End(usize, Verdict),
    /// All are done.
    Done,
}

/// Before the first check.
const START: &str = "the backend is loaded, and its devices are found";
/// After the last one.
const END: &str = "the process ends as it should";

/// What is asked for.
pub struct Question<'a> {
    pub key: &'a str,
    pub json: bool,
    pub limit: Duration,
}

/// The report so far, printed as it grows.
struct Printer<'a> {
    question: &'a Question<'a>,
    report: Report,
    /// What the child wrote during each check.
    output: Vec<String>,
}

impl Printer<'_> {
    /// A check begins. A terminal shows it until it is done.
    fn begin(&self, device: &str, name: &str) -> anyhow::Result<()> {
        match !self.question.json && io::stdout().is_terminal() {
            true => print(&format!("running  {device} {name}\r")),
            false => Ok(()),
        }
    }

    fn end(&mut self, check: Check, output: String) -> anyhow::Result<()> {
        if !self.question.json {
            let mut text = format!("{check}\n");
            output.lines().for_each(|line| text += &format!("         | {line}\n"));
            print(&text)?;
        }
        self.report.checks.push(check);
        self.output.push(output);
        Ok(())
    }

    /// The last line, or all of it as JSON.
    fn finish(self) -> anyhow::Result<bool> {
        let passed = self.report.passed();
        let text = match self.question.json {
            true => serde_json::to_string_pretty(&json(&self.report, &self.output))?,
            false => self.report.summary(),
        };
        print(&(text + "\n"))?;
        Ok(passed)
    }
}

fn json(report: &Report, output: &[String]) -> serde_json::Value {
    let is_failed = |check: &Check| matches!(check.verdict, Verdict::Failed(_));
    let result = match report.passed() {
        true => "passed",
        false if report.checks.iter().any(is_failed) => "failed",
        false => "incomplete",
    };
    let check = |(check, output): (&Check, &String)| {
        let mut value = serde_json::json!({ "device": check.device, "name": check.name, "reason": null, "output": output });
        if let (Some(fields), Ok(serde_json::Value::Object(verdict))) =
            (value.as_object_mut(), serde_json::to_value(&check.verdict))
        {
            fields.extend(verdict);
        }
        value
    };
    let checks: Vec<_> = report.checks.iter().zip(output).map(check).collect();
    serde_json::json!({ "key": report.key, "result": result, "dry": report.dry, "checks": checks })
}

/// Runs the suite in child processes. True if it passed.
pub fn run(question: &Question<'_>) -> anyhow::Result<bool> {
    let mut printer = Printer { question, report: Report::new(question.key, false), output: Vec::new() };
    let mut all: Option<Vec<(String, String)>> = None;
    let mut next = 0;
    while let Some(after) = child(&mut printer, &mut all, next)? {
        next = after;
    }
    printer.finish()
}

/// Runs the checks from a number on in one child. If that ends too early, the number of the check behind the
/// one that ended it.
fn child(
    printer: &mut Printer<'_>,
    all: &mut Option<Vec<(String, String)>>,
    first: usize,
) -> anyhow::Result<Option<usize>> {
    let Question { key, limit, .. } = *printer.question;
    let number = first.to_string();
    let mut child = Child::start(&["conformance", "--worker", &number, "--", key])?;
    // The check that runs, and the one that would be next.
    let (mut running, mut next) = (None, first);
    let mut is_done = false;
    if all.is_none() {
        printer.begin(key, START)?;
    }
    loop {
        let ended = match child.next(Instant::now() + limit)? {
            Next::Line(line) => {
                let message =
                    serde_json::from_str(&line).with_context(|| format!("the child said {line:?}"))?;
                let of = |number: usize| {
                    let check = all.as_ref().and_then(|all| all.get(number));
                    check.cloned().ok_or_else(|| anyhow!("the child said that check {number} runs"))
                };
                match message {
                    Message::Error(text) => bail!("{text}"),
                    Message::Checks(checks, dry) => match all {
                        Some(all) if *all != checks => bail!(
                            "`{key}` had other devices when it was looked at again, after a check had ended the process"
                        ),
                        Some(_) => _ = child.output(),
                        None => {
                            printer.report.dry = dry;
                            printer.end(Check::new(key, START, Verdict::Passed), child.output())?;
                            *all = Some(checks);
                        }
                    },
                    Message::Begin(number) => {
                        let (device, name) = of(number)?;
                        printer.begin(&device, &name)?;
                        (running, next) = (Some(number), number + 1);
                    }
                    Message::End(number, verdict) => {
                        let (device, name) = of(number)?;
                        printer.end(Check::new(device, name, verdict), child.output())?;
                        running = None;
                    }
                    Message::Done => {
                        printer.begin(key, END)?;
                        is_done = true;
                    }
                }
                continue;
            }
            Next::Ended(status) if is_done && status.success() => {
                printer.end(Check::new(key, END, Verdict::Passed), child.output())?;
                return Ok(None);
            }
            Next::Ended(status) => child::end(status),
            Next::Late => child::late(limit),
        };
        // The check at fault, when it ended, and the number of the next one.
        let (check, when, after) = match (&*all, running) {
            (None, _) => ((key.to_owned(), START.to_owned()), "", None),
            (Some(_), _) if is_done => ((key.to_owned(), END.to_owned()), "", None),
            (Some(all), Some(number)) => (all[number].clone(), "", Some(number + 1)),
            (Some(all), None) if next > first => {
                (all[next - 1].clone(), "; the check was done by then", Some(next))
            }
            (Some(all), None) => (all[first].clone(), "; the check had not begun", Some(first + 1)),
        };
        let why = Verdict::Failed(format!("the process {ended}{when}"));
        printer.end(Check::new(check.0, check.1, why), child.output())?;
        return Ok(after.filter(|after| all.as_ref().is_some_and(|all| *after < all.len())));
    }
}

/// The child: the checks from a number on.
pub fn worker(key: &str, first: usize) -> anyhow::Result<bool> {
    let mut parent = Parent::new()?;
    silence();
    let suite = match Suite::new(&Context::default(), key) {
        Ok(suite) => suite,
        Err(error) => {
            parent.say(&Message::Error(error.to_string()));
            parent.done();
        }
    };
    let checks: Vec<_> = suite.checks().map(|(device, name)| (device, name.to_owned())).collect();
    let count = checks.len();
    parent.say(&Message::Checks(checks, suite.dry()));
    for number in first..count {
        parent.say(&Message::Begin(number));
        let verdict = suite.run(number);
        parent.say(&Message::End(number, verdict));
    }
    parent.say(&Message::Done);
    Ok(true)
}

/// Runs the checks with a text in their names, in this process. True if they passed.
pub fn here(question: &Question<'_>, part: &str) -> anyhow::Result<bool> {
    silence();
    let suite = Suite::new(&Context::default(), question.key)?;
    let report = Report::new(question.key, suite.dry());
    let mut printer = Printer { question, report, output: Vec::new() };
    let all: Vec<_> = suite.checks().enumerate().collect();
    for (number, (device, name)) in all.iter().filter(|(_, (_, name))| name.contains(part)) {
        printer.begin(device, name)?;
        let verdict = suite.run(*number);
        printer.end(Check::new(device, *name, verdict), String::new())?;
    }
    if printer.report.checks.is_empty() {
        let mut names: Vec<&str> = all.iter().map(|(_, (_, name))| *name).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.join("\n  ");
        return Err(Refused(format!("no check has `{part}` in its name; available:\n  {names}")).into());
    }
    printer.finish()
}

/// Keeps the messages of kernels that panic on purpose from standard error.
fn silence() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload_as_str().is_some_and(|text| text.ends_with("fails on purpose")) {
            hook(panic);
        }
    }));
}
