//! `flash diff`.

use crate::compare::{Difference, compare};
use crate::replay::load;
use anyhow::{Context, Result};
use flash::get_runtime;
use flash::recording::Recording;
use flash_core::descriptor::Access;
use flash_core::runtime::Steps;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// The recording and the two runtimes to compare.
pub struct Question<'a> {
    pub path: &'a Path,
    pub a: &'a str,
    pub b: &'a str,
    pub tolerance: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    a: &'a str,
    b: &'a str,
    tolerance: f64,
    /// Submissions that both ran.
    submissions: usize,
    agree: bool,
    difference: Option<Found<'a>>,
}

/// Where the runtimes differ first.
#[derive(Serialize)]
struct Found<'a> {
    submission: usize,
    kernel: &'a str,
    argument: &'a str,
    memory: usize,
    /// Index of the element, in the memory.
    index: usize,
    a: String,
    b: String,
    /// Elements of the memory that differ.
    differing: usize,
    /// Elements of the memory.
    elements: u64,
}

/// Runs a recording on both runtimes, and gives what is printed and whether they agree.
pub fn run(question: &Question<'_>, json: bool) -> Result<(String, bool)> {
    let &Question { path, a, b, tolerance } = question;
    let recording = load(path)?;
    let [mut one, mut other] = [begin(a, &recording)?, begin(b, &recording)?];
    let (mut submissions, mut difference) = (0, None);
    while let (Some(position), Some(_)) = (next(a, &mut one)?, next(b, &mut other)?) {
        submissions = position + 1;
        difference = first_difference(&recording, position, &one, &other, tolerance)?;
        if difference.is_some() {
            break;
        }
    }
    let agree = difference.is_none();
    let report = Report { file: path, a, b, tolerance, submissions, agree, difference };
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => words(&report),
    };
    Ok((text, agree))
}

fn begin<'r>(key: &str, recording: &'r Recording) -> Result<Steps<'r>> {
    get_runtime(key)?.replay_steps(recording).with_context(|| format!("on {key}"))
}

fn next(key: &str, steps: &mut Steps<'_>) -> Result<Option<usize>> {
    steps.step().with_context(|| format!("on {key}"))
}

/// The first difference in the memories that a submission writes, in the order of its arguments.
fn first_difference<'r>(
    recording: &'r Recording,
    position: usize,
    one: &Steps<'_>,
    other: &Steps<'_>,
    tolerance: f64,
) -> Result<Option<Found<'r>>> {
    let submission = &recording.submissions[position];
    let kernel = &recording.kernels[submission.kernel as usize];
    let arguments = kernel.arguments.iter().zip(&submission.arguments);
    let written = || {
        let written = arguments.clone().filter(|(spec, _)| spec.access != Access::Read);
        written.filter_map(|(spec, argument)| Some((spec, argument, argument.memory()?)))
    };
    let mut looked_at: Vec<usize> = Vec::new();
    for (spec, _, memory) in written() {
        if looked_at.contains(&memory) {
            continue;
        }
        looked_at.push(memory);
        let (a, b) = (one.memories().bytes(memory)?, other.memories().bytes(memory)?);
        let element = &recording.memories[memory].element;
        let Some(Difference { index, values: [a, b], count }) = compare(element, &a, &b, tolerance) else {
            continue;
        };
        // Of several ranges of one memory, the one that contains the element.
        let owner = written().find(|(_, argument, m)| *m == memory && argument.has(index as u64));
        return Ok(Some(Found {
            submission: position,
            kernel: &kernel.name,
            argument: owner.map_or(&spec.name, |(spec, ..)| &spec.name),
            memory,
            index,
            a,
            b,
            differing: count,
            elements: recording.memories[memory].len,
        }));
    }
    Ok(None)
}

fn words(report: &Report<'_>) -> String {
    let Report { a, b, tolerance, submissions, .. } = report;
    let mut text = String::new();
    let _ = match &report.difference {
        None => writeln!(text, "{a} and {b} agree in {submissions} submissions (tolerance {tolerance})"),
        Some(found) => {
            let width = a.len().max(b.len());
            writeln!(
                text,
                "{a} and {b} differ first in submission {} (`{}`), argument `{}`, element {} of memory {}:\n  \
                 {a:<width$}  {}\n  {b:<width$}  {}\n{} of the {} elements differ (tolerance {tolerance})",
                found.submission,
                found.kernel,
                found.argument,
                found.index,
                found.memory,
                found.a,
                found.b,
                found.differing,
                found.elements
            )
        }
    };
    text
}
