//! `flash list`: what was found, as a table or as JSON.

use crate::look::look;
use flash_backend::DeviceInfo;
use flash_core::devices::{BackendReport, DeviceReport, ImplementationReport, Outcome};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::io::Write as _;
use std::time::Duration;

/// What is listed, as text for people or as JSON.
pub fn run(json: bool, all: bool, limit: Duration) -> anyhow::Result<String> {
    let found = look(limit)?;
    for line in found.written {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    let mut reports = found.reports;
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

/// Removes what this program has for tests only: backends whose devices are, and the conformance suite's
/// kernels. Returns how many of both there were.
pub fn hide_tests(reports: &mut Vec<BackendReport>) -> usize {
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

pub fn reason(outcome: &Outcome) -> Option<String> {
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
pub fn plain(value: &Value) -> String {
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
        known => bytes(known),
    };
    [
        id.to_owned(),
        info.class.name().to_owned(),
        info.threads.to_string(),
        memory,
        info.physical_id.clone(),
        info.name.clone(),
    ]
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

/// A number of bytes as people read it.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| bytes >> (10 * (unit + 1)) == 0).unwrap_or(UNITS.len() - 1);
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}
