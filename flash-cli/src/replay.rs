//! `flash replay`.

use crate::{Refused, list::aligned};
use anyhow::{Context, Result};
use flash::prelude::*;
use flash::recording::Recording;
use flash_core::runtime::LaunchProfile;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    runtime: &'a str,
    submissions: usize,
    launches: Vec<LaunchProfile>,
    memories: Vec<Written<'a>>,
}

/// A memory that was written.
#[derive(Serialize)]
struct Written<'a> {
    index: usize,
    element: &'a str,
    len: u64,
    bytes: usize,
    crc32: String,
}

/// Reads a recording that can be run, from standard input where its name is `-`; an error in it counts as
/// wrong usage.
pub fn load(path: &Path) -> Result<Recording> {
    let recording = match path.as_os_str() == "-" {
        true => Recording::read(std::io::stdin().lock()),
        false => Recording::load(path),
    };
    let recording = recording.map_err(Refused::new)?;
    match recording.has_data() {
        true => Ok(recording),
        false => Err(Refused::new(format!(
            "{}: expected a recording with the contents of its memories, found one without: record it with \
             `pipeline.recording(Data::With)?.save(..)`",
            path.display()
        ))
        .into()),
    }
}

/// Runs a recording, and gives what is printed.
pub fn run(path: &Path, key: &str, json: bool) -> Result<String> {
    let recording = load(path)?;
    let profile = Profile::new();
    let runtime = get_runtime(key)?.options(&profile);
    let replayed = runtime.replay(&recording).with_context(|| path.display().to_string())?;

    let positions = 0..recording.submissions.len();
    let mut written: Vec<usize> = positions.flat_map(|position| recording.written_by(position)).collect();
    written.sort_unstable();
    written.dedup();
    let mut memories = Vec::with_capacity(written.len());
    for index in written {
        let (memory, bytes) = (&recording.memories[index], replayed.bytes(index)?);
        let crc32 = format!("{:08x}", crc32fast::hash(&bytes));
        memories.push(Written {
            index,
            element: &memory.element.name,
            len: memory.len,
            bytes: bytes.len(),
            crc32,
        });
    }
    let mut launches = profile.take();
    // They finished in no fixed order.
    launches.sort_by_key(|launch| launch.submission);
    let submissions = recording.submissions.len();
    let report = Report { file: path, runtime: key, submissions, launches, memories };
    match json {
        true => Ok(serde_json::to_string_pretty(&report)? + "\n"),
        false => Ok(table(&report)),
    }
}

fn table(report: &Report<'_>) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} submissions on {}\n",
        report.file.display(),
        report.submissions,
        report.runtime
    );
    let milliseconds = |ns: u64| format!("{:.3}", ns as f64 * 1e-6);
    let launch = |l: &LaunchProfile| {
        let (kernel, implementation, device) = (l.kernel.clone(), l.implementation.clone(), l.device.clone());
        let (on_device, wall) = (milliseconds(l.nanoseconds), milliseconds(l.wall_nanoseconds));
        [
            l.submission.to_string(),
            kernel,
            implementation,
            device,
            l.items.to_string(),
            l.phases.to_string(),
            on_device,
            wall,
        ]
    };
    let head =
        ["SUBMISSION", "KERNEL", "IMPLEMENTATION", "DEVICE", "ITEMS", "PHASES", "KERNEL MS", "LAUNCH MS"];
    rows(&mut text, &head, &report.launches.iter().map(launch).collect::<Vec<_>>());
    text.push('\n');
    let memory = |m: &Written<'_>| {
        [m.index.to_string(), m.element.to_owned(), m.len.to_string(), m.bytes.to_string(), m.crc32.clone()]
    };
    let head = ["WRITTEN MEMORY", "ELEMENT", "LENGTH", "BYTES", "CRC-32"];
    rows(&mut text, &head, &report.memories.iter().map(memory).collect::<Vec<_>>());
    text
}

fn rows<const N: usize>(text: &mut String, head: &[&str; N], cells: &[[String; N]]) {
    let rows: Vec<[&str; N]> = cells.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    aligned(text, head, &rows, |_, text| text.push('\n'));
}
