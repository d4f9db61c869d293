//! Traces are valid by the rules of their formats, and show what ran.

mod graphs;
mod paraver;
mod perfetto;
mod recorder;
mod tasks;

use flash_trace::{Recording, Trace};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A trace that shares its bound with no other: traces are the process's.
fn alone() -> (MutexGuard<'static, ()>, Trace) {
    let guard = alone_without_trace();
    (guard, Trace::start())
}

fn alone_without_trace() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a recording shows, read back from its files.
fn shown(recording: &Recording) -> perfetto::Shown {
    let mut json = Vec::new();
    recording.perfetto(&mut json).unwrap();
    let shown = perfetto::read(&json);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.prv");
    recording.write_paraver(&path).unwrap();
    let read = |extension| std::fs::read_to_string(path.with_extension(extension)).unwrap();
    let paraver = paraver::read(&read("prv"), &read("pcf"), &read("row"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no other files are left");
    let path = path.with_extension("svg");
    recording.write_svg(&path).unwrap();
    let svg = std::fs::read_to_string(&path).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    let drawn = document.descendants().filter(|node| node.has_tag_name("rect")).count();
    assert!(drawn <= shown.spans.len() + 1 && (drawn > 1 || shown.spans.is_empty()), "{drawn} boxes");
    // They show the same.
    let rows: Vec<String> = shown.rows.values().map(|name| name.replace(char::is_control, " ")).collect();
    assert!(rows == paraver.rows || rows.is_empty() && paraver.rows.len() == 1);
    assert_eq!(shown.flows.len(), paraver.communications);
    assert_eq!(shown.spans.len(), paraver.begins);
    shown
}
