//! What there is: each plugin is loaded, and its devices looked for, in a child process of its own, which it
//! may end or stop for ever.

use crate::child::{self, Parent};
use flash_core::devices::{self, BackendReport, Entry, Found, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

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
        let mut entries = devices::entries();
        for entry in &mut entries {
            if let (Found::File, Err(outcome)) = (&entry.found, devices::check_file(&entry.path)) {
                entry.found = Found::Nothing(outcome);
            }
        }
        parent.say(&Message::Entries(entries));
    }
    parent.say(&Message::Reports(devices::list_file(file)));
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
    let arguments = [OsStr::new("list"), OsStr::new("--worker"), file];
    let answer = child::ask(&arguments, limit, |message| matches!(message, Message::Reports(_)))?;
    let (mut entries, mut reports) = (Vec::new(), Vec::new());
    for message in answer.said {
        match message {
            Message::Entries(found) => entries = found,
            Message::Reports(found) => reports = found,
        }
    }
    Ok(Answer { entries, reports: answer.end.map(|()| reports), output: answer.output })
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

/// All that was found.
pub struct Look {
    /// The entries of the path of plugins.
    pub entries: Vec<Entry>,
    /// Of each plugin in path order, then of the program itself.
    pub reports: Vec<BackendReport>,
    /// Lines that were written meanwhile. A line that all processes write is here once.
    pub written: Vec<String>,
}

/// Looks at the program and at every file of the path.
pub fn look(limit: Duration) -> anyhow::Result<Look> {
    let Answer { entries, reports: embedded, output } = ask(OsStr::new(PROGRAM), limit)?;
    let is_file = |entry: &&Entry| matches!(entry.found, Found::File);
    let files: Vec<OsString> =
        entries.iter().filter(is_file).map(|entry| entry.path.clone().into()).collect();
    let answers = ask_all(&files, limit)?;
    let mut said = BTreeSet::new();
    let lines = answers.iter().flat_map(|answer| answer.output.lines()).chain(output.lines());
    let written = lines.filter(|line| said.insert(*line)).map(str::to_owned).collect();
    let mut answers = answers.into_iter();
    let mut plugins: Vec<Vec<BackendReport>> = Vec::new();
    for Entry { path, found } in &entries {
        let path = path.display().to_string();
        let one = |outcome| vec![BackendReport::new(&path, outcome)];
        plugins.push(match found {
            Found::Nothing(outcome) => one(outcome.clone()),
            Found::Again(first) => {
                let is_loaded = |report: &BackendReport| report.name.is_some();
                one(devices::again(plugins[*first].iter().any(is_loaded)))
            }
            Found::File => match answers.next().map(|answer| (answer.reports, answer.output)) {
                Some((Ok(reports), _)) => reports,
                Some((Err(why), output)) => one(ended(&why, &output)),
                None => Vec::new(),
            },
        });
    }
    plugins.push(embedded.unwrap_or_else(|why| vec![BackendReport::new("embedded", ended(&why, &output))]));
    Ok(Look { entries, reports: devices::combined(plugins), written })
}

/// The outcome of a plugin that ended the process, or stopped it.
fn ended(why: &str, output: &str) -> Outcome {
    Outcome::Refused {
        expected: "a plugin that loads and lists its devices".to_owned(),
        found: format!("that the process {why}{}", last_words(output)),
    }
}

/// What a process has written at its end, for a message.
pub fn last_words(output: &str) -> String {
    output.trim().lines().last().map_or_else(String::new, |line| format!("; it wrote `{line}`"))
}
