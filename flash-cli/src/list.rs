//! `flash list`: each plugin is loaded in a child process of its own, which it may end or stop for ever.

use crate::child::{self, Child, Next, Parent};
use flash_core::backend::{
    self, BackendReport, DeviceInfo, DeviceReport, Entry, Found, ImplementationReport, Outcome,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is listed, as text for people or as JSON.
pub fn run(json: bool, all: bool, limit: Duration) -> anyhow::Result<String> {
    let mut reports = look(limit)?;
    if json {
        return Ok(serde_json::to_string_pretty(&List::of(&reports))? + "\n");
    }
    let hidden = if all { 0 } else { hide_tests(&mut reports) };
    let mut text = table(&reports);
    if hidden > 0 {
        let _ = writeln!(text, "\n{hidden} more are for tests: --all shows them");
    }
    Ok(text)
}

/// What a child says: the path's entries, if it was asked for them, then what was found.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Entries(Vec<Entry>),
    Reports(Vec<BackendReport>),
}

/// What is asked of a child: a file, or, as an empty one, the program itself and the path's entries.
const PROGRAM: &str = "";

/// The child.
pub fn worker(file: &OsStr) -> anyhow::Result<bool> {
    let mut parent = Parent::new()?;
    let file = Some(Path::new(file)).filter(|file| *file != Path::new(PROGRAM));
    if file.is_none() {
        let mut entries = backend::entries();
        for entry in &mut entries {
            if let (Found::File, Err(outcome)) = (&entry.found, backend::check_file(&entry.path)) {
                entry.found = Found::Nothing(outcome);
            }
        }
        parent.say(&Message::Entries(entries));
    }
    parent.say(&Message::Reports(backend::list_file(file)));
    parent.done()
}

/// What a child has said and written.
struct Answer {
    entries: Vec<Entry>,
    /// If it never said them, how it ended.
    reports: Result<Vec<BackendReport>, String>,
    output: String,
}

fn ask(file: &OsStr, limit: Duration) -> anyhow::Result<Answer> {
    let mut child = Child::start(&[OsStr::new("list"), OsStr::new("--worker"), file])?;
    let deadline = Instant::now() + limit;
    let mut entries = Vec::new();
    let reports = loop {
        match child.next(deadline)? {
            Next::Line(line) => match serde_json::from_str(&line)? {
                Message::Entries(found) => entries = found,
                Message::Reports(found) => break Ok(found),
            },
            Next::Ended(status) => break Err(child::end(status)),
            Next::Late => break Err(child::late(limit)),
        }
    };
    Ok(Answer { entries, reports, output: child.output() })
}

/// Asks about many files, several at once.
fn ask_all(files: &[OsString], limit: Duration) -> anyhow::Result<Vec<Answer>> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, file)) =
            Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, files.get(i)?)))
        {
            let answer = ask(file, limit);
            answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((number, answer));
        }
    };
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    std::thread::scope(|scope| (0..count).for_each(|_| _ = scope.spawn(work)));
    let mut answers = answers.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Looks at the program and at every file of the path.
fn look(limit: Duration) -> anyhow::Result<Vec<BackendReport>> {
    let Answer { entries, reports: embedded, output } = ask(OsStr::new(PROGRAM), limit)?;
    let is_file = |entry: &&Entry| matches!(entry.found, Found::File);
    let files: Vec<OsString> =
        entries.iter().filter(is_file).map(|entry| entry.path.clone().into()).collect();
    let answers = ask_all(&files, limit)?;
    // A line that all of them write is written once.
    let mut said = BTreeSet::new();
    for line in answers.iter().flat_map(|answer| answer.output.lines()).chain(output.lines()) {
        if said.insert(line) {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
    let mut answers = answers.into_iter();
    let mut plugins: Vec<Vec<BackendReport>> = Vec::new();
    for Entry { path, found } in entries {
        let path = path.display().to_string();
        let one = |outcome| vec![BackendReport::new(&path, outcome)];
        plugins.push(match found {
            Found::Nothing(outcome) => one(outcome),
            Found::Again(first) => {
                let is_loaded = |report: &BackendReport| report.name.is_some();
                one(backend::again(plugins[first].iter().any(is_loaded)))
            }
            Found::File => match answers.next().map(|answer| (answer.reports, answer.output)) {
                Some((Ok(reports), _)) => reports,
                Some((Err(why), output)) => one(ended(&why, &output)),
                None => Vec::new(),
            },
        });
    }
    plugins.push(embedded.unwrap_or_else(|why| vec![BackendReport::new("embedded", ended(&why, &output))]));
    Ok(backend::combined(plugins))
}

/// The outcome of a plugin that ended the process, or stopped it.
fn ended(why: &str, output: &str) -> Outcome {
    let wrote = output.trim().lines().last().map_or_else(String::new, |line| format!("; it wrote `{line}`"));
    Outcome::Refused {
        expected: "a plugin that loads and lists its devices".to_owned(),
        found: format!("that the process {why}{wrote}"),
    }
}

/// Removes what this program has for tests only: backends whose devices are, and the conformance suite's
/// kernels. Returns how many of both there were.
fn hide_tests(reports: &mut Vec<BackendReport>) -> usize {
    let mut hidden = 0;
    for report in reports.iter_mut().filter(|report| report.plugin == "embedded") {
        let before = report.implementations.len();
        report.implementations.retain(|one| !one.kernel.starts_with("conformance."));
        hidden += before - report.implementations.len();
        if !report.devices.is_empty() && report.devices.iter().all(|device| device.info.test) {
            report.key = None;
            report.devices.clear();
            hidden += 1;
        }
    }
    reports.retain(|report| {
        let is_empty = report.devices.is_empty() && report.implementations.is_empty();
        report.plugin != "embedded" || !is_empty || report.outcome != Outcome::Available
    });
    hidden
}

#[derive(Serialize)]
struct List<'a> {
    backends: Vec<Backend<'a>>,
}

#[derive(Serialize)]
struct Backend<'a> {
    key: Option<&'a str>,
    plugin: &'a str,
    state: &'static str,
    reason: Option<String>,
    devices: &'a [DeviceReport],
}

impl<'a> List<'a> {
    fn of(reports: &'a [BackendReport]) -> List<'a> {
        let one = |report: &'a BackendReport| Backend {
            key: report.key.as_deref(),
            plugin: &report.plugin,
            state: state(&report.outcome),
            reason: reason(&report.outcome),
            devices: &report.devices,
        };
        List { backends: reports.iter().map(one).collect() }
    }
}

fn state(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Available => "available",
        Outcome::Unavailable { .. } => "unavailable",
        Outcome::Refused { .. } => "refused",
        _ => "other",
    }
}

fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Available => None,
        Outcome::Unavailable { reason } => Some(reason.clone()),
        Outcome::Refused { expected, found } => Some(format!("expected {expected}, found {found}")),
        other => Some(other.to_string()),
    }
}

fn table(reports: &[BackendReport]) -> String {
    let mut text = String::new();
    let rows: Vec<[&str; 3]> = reports
        .iter()
        .map(|r| [r.key.as_deref().unwrap_or("-"), state(&r.outcome), r.plugin.as_str()])
        .collect();
    aligned(&mut text, &["KEY", "STATE", "PLUGIN"], &rows, |i, text| {
        if let Some(name) = &reports[i].name {
            text.push_str(&format!("  ({name})"));
        }
        text.push('\n');
        if let Some(reason) = reason(&reports[i].outcome) {
            text.push_str(&format!("    {}\n", reason.replace('\n', "\n    ")));
        }
    });

    let devices: Vec<&DeviceReport> = reports.iter().flat_map(|r| &r.devices).collect();
    let cells: Vec<[String; 6]> = devices.iter().map(|d| device(&d.id, &d.info)).collect();
    let rows: Vec<[&str; 6]> = cells.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    text.push('\n');
    aligned(&mut text, &["DEVICE", "CLASS", "THREADS", "MEMORY", "PHYSICAL ID", "NAME"], &rows, |i, text| {
        text.push('\n');
        let DeviceReport { info, properties, .. } = devices[i];
        let mut notes = vec![format!("{} {}", info.vendor, info.version)];
        for (is, note) in [
            (info.test, "for tests, never part of a group"),
            (info.emulated, "emulated, never part of a group"),
            (info.host_memory, "uses host memory in place"),
        ] {
            notes.extend(is.then(|| note.to_owned()));
        }
        if info.rate_hint > 0.0 {
            notes.push(format!("about {:.0} Gflop/s", info.rate_hint / 1e9));
        }
        notes.extend((!info.features.is_empty()).then(|| info.features.clone()));
        notes.extend(properties.iter().map(|(key, value)| format!("{key}: {}", plain(value))));
        let _ = writeln!(text, "    {}", notes.join("; "));
    });

    // In path order; one line for all element types.
    let mut kernels: Vec<[String; 4]> = Vec::new();
    for report in reports {
        let mut own: Vec<_> = report.implementations.iter().map(|one| kernel(one, &report.plugin)).collect();
        own.sort();
        own.dedup();
        kernels.extend(own);
    }
    let rows: Vec<[&str; 4]> = kernels.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    text.push('\n');
    aligned(&mut text, &["KERNEL", "IMPLEMENTATION", "FOR", "FROM"], &rows, |_, text| text.push('\n'));
    text
}

/// A property as people read it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
            fields.join(", ")
        }
        other => other.to_string(),
    }
}

fn device(id: &str, info: &DeviceInfo) -> [String; 6] {
    let memory = match info.memory_bytes {
        0 => "-".to_owned(),
        bytes => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    };
    let class = format!("{:?}", info.class).to_lowercase();
    [id.to_owned(), class, info.threads.to_string(), memory, info.physical_id.clone(), info.name.clone()]
}

fn kernel(one: &ImplementationReport, plugin: &str) -> [String; 4] {
    let from = match &one.shadowed_by {
        Some(other) => format!("{plugin}, shadowed by {other}"),
        None => plugin.to_owned(),
    };
    [&one.kernel, &one.name, &one.target, &from]
        .map(|cell| if cell.is_empty() { "-" } else { cell }.to_owned())
}

/// Rows with columns that are as wide as their widest cell; `after` ends each row.
pub fn aligned<const N: usize>(
    text: &mut String,
    head: &[&str; N],
    rows: &[[&str; N]],
    mut after: impl FnMut(usize, &mut String),
) {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |text: &mut String, row: &[&str; N]| {
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            match i + 1 == N {
                true => text.push_str(cell),
                false => {
                    let _ = write!(text, "{cell:<width$}  ");
                }
            }
        }
    };
    line(text, head);
    text.push('\n');
    for (i, row) in rows.iter().enumerate() {
        line(text, row);
        after(i, text);
    }
}
