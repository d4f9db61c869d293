//! `flash halo`: configurations of programs of C2MPI.

use crate::Refused;
use flash_c2mpi::config::{Config, Fault};
use serde_json::json;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// The answer as text, and whether there is no fault.
pub fn check(path: &Path, json: bool) -> anyhow::Result<(String, bool)> {
    let (name, text) = match path == Path::new("-") {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| ("-".to_owned(), text))
        }
        false => std::fs::read_to_string(path).map(|text| (path.display().to_string(), text)),
    }
    .map_err(|error| Refused::new(format!("{} cannot be read: {error}", path.display())))?;
    let report = Config::parse(&text);
    let sound = report.config.is_some();
    if json {
        let list = |faults: &[Fault]| {
            let one = |fault: &Fault| json!({"line": fault.line, "column": fault.column, "text": fault.text});
            faults.iter().map(one).collect::<Vec<_>>()
        };
        let answer = json!({
            "file": name,
            "result": if sound { "ok" } else { "faulty" },
            "faults": list(&report.faults),
            "warnings": list(&report.warnings),
        });
        return Ok((format!("{answer:#}\n"), sound));
    }
    let mut answer = String::new();
    for fault in &report.faults {
        writeln!(answer, "{name}:{fault}")?;
    }
    for warning in &report.warnings {
        writeln!(answer, "{name}:{}:{}: note: {}", warning.line, warning.column, warning.text)?;
    }
    if let Some(config) = &report.config {
        let aliases: Vec<&str> = config.functions.iter().map(|function| &*function.alias).collect();
        writeln!(answer, "{name}: {} functions ({})", aliases.len(), aliases.join(", "))?;
    }
    Ok((answer, sound))
}
