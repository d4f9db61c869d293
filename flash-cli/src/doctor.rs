//! `flash doctor`: checks of this machine and this installation, each with what was found and, for a problem,
//! what to do.
//!
//! What may end a process, or stop it for ever, happens in child processes: looking at plugins (`look.rs`),
//! and a first launch on each device.

use crate::child::{self, Parent};
use crate::list::{self, bytes};
use crate::look::{self, Look};
use crate::print;
use anyhow::Context as _;
use flash_backend::offload::ProgramCache;
use flash_backend::{Class, cgroup, settings};
use flash_conformance::{FIRST_LAUNCH, Suite, Verdict};
use flash_core::devices::{self, BackendReport, DeviceReport, Found, Outcome};
use flash_core::{Context, Settings, Variable, VariableState, workers};
use flash_net_mpi::{Launcher, Mpi};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Worth knowing, and no fault of the installation.
    Note,
    Problem,
}

/// The result of a check.
#[derive(Serialize)]
struct Check {
    state: State,
    check: &'static str,
    /// What was looked at: a variable, a file, a key.
    subject: Option<String>,
    found: String,
    /// What to do.
    advice: Option<String>,
}

impl Check {
    fn new(state: State, check: &'static str, found: impl Into<String>) -> Check {
        Check { state, check, subject: None, found: found.into(), advice: None }
    }

    fn of(self, subject: impl Into<String>) -> Check {
        Check { subject: Some(subject.into()), ..self }
    }

    fn advice(self, advice: impl Into<String>) -> Check {
        Check { advice: Some(advice.into()), ..self }
    }

    fn text(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "PROBLEM",
        };
        let subject = self.subject.as_ref().map_or_else(String::new, |subject| format!("{subject}: "));
        let lines = |text: &str| text.replace('\n', "\n                   ");
        let mut text =
            format!("{state:<8} {:<9} {}\n", self.check, lines(&format!("{subject}{}", self.found)));
        if let Some(advice) = &self.advice {
            text += &format!("{:18} to do: {}\n", "", lines(advice));
        }
        text
    }
}

/// The checks so far, printed as they are made.
struct Report {
    json: bool,
    checks: Vec<Check>,
}

impl Report {
    fn add(&mut self, checks: impl IntoIterator<Item = Check>) -> anyhow::Result<()> {
        for check in checks {
            if !self.json {
                print(&check.text())?;
            }
            self.checks.push(check);
        }
        Ok(())
    }

    /// The last line, or all of it as JSON. True if there is no problem.
    fn finish(self) -> anyhow::Result<bool> {
        let count = |state| self.checks.iter().filter(|check| check.state == state).count();
        let (problems, notes) = (count(State::Problem), count(State::Note));
        let text = match self.json {
            true => {
                let result = if problems > 0 { "problem" } else { "ok" };
                let all = serde_json::json!({ "result": result, "checks": self.checks });
                serde_json::to_string_pretty(&all)?
            }
            false => format!("checks: {}, problems: {problems}, notes: {notes}", self.checks.len()),
        };
        print(&(text + "\n"))?;
        Ok(problems == 0)
    }
}

/// Makes all checks. True if there is no problem.
pub fn run(json: bool, limit: Duration) -> anyhow::Result<bool> {
    // What they would say is said here.
    flash_core::set_notices(false);
    let variables = Settings::variables();
    let mut report = Report { json, checks: Vec::new() };
    report.add(settings(&variables))?;
    let mut look = look::look(limit)?;
    list::hide_tests(&mut look.reports);
    let devices = || look.reports.iter().flat_map(|report| &report.devices);
    report.add([processors(devices())?])?;
    report.add(instructions(devices()))?;
    report.add([memory(), stack(), mpi()])?;
    report.add(path(&look))?;
    report.add(plugins(&look))?;
    report.add(backends(&look.reports))?;
    report.add(shadows(&look.reports))?;
    report.add(written(&look, &variables))?;
    report.add([cache()])?;
    for backend in &look.reports {
        for device in &backend.devices {
            report.add([launch(backend, device, limit)?])?;
        }
    }
    report.finish()
}

/// The variables of the environment.
fn settings(variables: &[Variable]) -> Vec<Check> {
    let one = |Variable { name, value, state, .. }: &Variable| {
        let check = |state, found: &str| Check::new(state, "settings", found);
        let check = match state {
            VariableState::Holds => check(State::Ok, &format!("`{value}`")),
            VariableState::Empty => check(State::Note, "it is empty, which counts as unset"),
            VariableState::Wrong(complaint) => check(State::Problem, without(complaint, name))
                .advice(format!("correct or unset {name}; `flash --help` lists the variables")),
            VariableState::NotObeyed => check(
                State::Note,
                "it is not obeyed, since this program has more rights than its user (set-user-id or capabilities)",
            ),
            _ => check(State::Note, "no setting of this version has this name"),
        };
        check.of(name)
    };
    match variables {
        [] => vec![Check::new(State::Ok, "settings", "no FLASH_ variable is set: the defaults hold")],
        _ => variables.iter().map(one).collect(),
    }
}

/// A complaint without the name at its beginning.
fn without<'a>(complaint: &'a str, name: &str) -> &'a str {
    complaint.strip_prefix(name).unwrap_or(complaint).trim_start_matches([':', ' '])
}

/// The processors that this process may use, and the threads that use them.
fn processors<'a>(devices: impl Iterator<Item = &'a DeviceReport>) -> anyhow::Result<Check> {
    let allowed = std::thread::available_parallelism()?.get() as u64;
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let limit = match cgroup::processor_limit() {
        Some(limit) => format!("control groups give the time of {limit:.2}"),
        None => "no control group limits their time".to_owned(),
    };
    let found = format!("{allowed} for this process, of {online} that are online; {limit}");
    let threads: u64 =
        devices.filter(|device| is_processor(device)).map(|device| u64::from(device.info.threads)).sum();
    let check = match threads > allowed {
        true => Check::new(State::Note, "cpu", format!("{found}; {threads} threads are to share them"))
            .advice(format!("for speed, let the number of threads be the default, or at most {allowed}")),
        false => Check::new(State::Ok, "cpu", found),
    };
    Ok(check)
}

/// True for the processors of the machine, by a backend that runs on them directly.
fn is_processor(device: &DeviceReport) -> bool {
    let info = &device.info;
    info.class == Class::Cpu && info.runs_functions && !info.test && !info.emulated
}

/// What they can do that kernels may require.
fn instructions<'a>(mut devices: impl Iterator<Item = &'a DeviceReport>) -> Option<Check> {
    let device = devices.find(|device| is_processor(device))?;
    let found = match &*device.info.features {
        "" => "no instruction set beyond the least is known".to_owned(),
        features => format!("instruction sets: {features}"),
    };
    Some(Check::new(State::Ok, "cpu", found).of(device.info.name.trim()))
}

fn memory() -> Check {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
    };
    let shown =
        |kibibytes: Option<u64>| kibibytes.map_or_else(|| "an unknown amount".to_owned(), |n| bytes(n << 10));
    let all = field("MemTotal");
    // Without a limit it may be a number beyond all memory.
    let limit = cgroup::memory_limit().filter(|limit| all.is_none_or(|all| *limit < all << 10));
    let limit = limit.map_or_else(
        || "no control group limits it".to_owned(),
        |limit| format!("control groups allow {}", bytes(limit)),
    );
    let found = format!("{}, {} free; {limit}", shown(all), shown(field("MemAvailable")));
    Check::new(State::Ok, "memory", found)
}

/// The stacks of threads that run kernels, beside that of a program's main thread.
fn stack() -> Check {
    let threads = workers::stack_size() as u64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a local variable.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    let main = match limit.rlim_cur {
        _ if !is_known => "an unknown size".to_owned(),
        libc::RLIM_INFINITY => "no limit".to_owned(),
        size => bytes(size),
    };
    let found = format!("{} for threads that run kernels, {main} for the main thread", bytes(threads));
    match is_known && limit.rlim_cur < threads {
        true => Check::new(
            State::Note,
            "stack",
            format!("{found}: a kernel that runs on a thread may be too deep for the main thread"),
        )
        .advice(format!("`ulimit -s {}` before the program, or a smaller FLASH_STACK_SIZE", threads >> 10)),
        false => Check::new(State::Ok, "stack", found),
    }
}

/// The MPI that starts processes on other machines: which one, or why none.
fn mpi() -> Check {
    const NAME: &str = "MPI";
    let given = settings::process_text("rank.mpi_lib");
    let launcher = match Launcher::find(given.as_deref().map(Path::new)) {
        Ok(launcher) => launcher,
        Err(error) => {
            return Check::new(
                State::Note,
                NAME,
                format!("none; only `--mpi` and `--hosts` of `flash run` need one: {error}"),
            );
        }
    };
    let path = launcher.path().display().to_string();
    let library = match given {
        Some(given) => Mpi::open(Path::new(&given)),
        None => launcher.library(),
    };
    match library {
        Ok(library) => {
            let mut found = format!("{}, with the library {}", launcher.version(), library.path().display());
            found += &format!(" ({})", library.version());
            found += "\nits flags, which `flash run --mpi` gives:";
            found += &format!("\na job goes on without a lost rank: {}", launcher.survival().join(" "));
            found += &format!("\nprocesses divide the processors: {}", launcher.unbound().join(" "));
            Check::new(State::Ok, NAME, found).of(path)
        }
        Err(error) => {
            let found = format!("{}, without its library: {error}", launcher.version());
            let advice = "install the library that belongs to the launcher, or name it with FLASH_MPI_LIB";
            Check::new(State::Problem, NAME, found).of(path).advice(advice)
        }
    }
}

/// The path of plugins: its entries that are no files.
fn path(look: &Look) -> Vec<Check> {
    let files = look.entries.iter().filter(|entry| !is_of_path(entry)).count();
    let found = format!("plugins are looked for in {}: {files} files", devices::searched());
    let state = if files == 0 { State::Note } else { State::Ok };
    let mut checks = vec![Check::new(state, "path", found)];
    checks.extend(look.entries.iter().filter(|entry| is_of_path(entry)).filter_map(|entry| {
        let Found::Nothing(outcome) = &entry.found else { return None };
        let check =
            Check::new(State::Problem, "path", list::reason(outcome)?).of(entry.path.display().to_string());
        Some(check.advice("correct FLASH_BACKEND_PATH, or what it names"))
    }));
    checks
}

/// True for an entry that is not there, or is a directory that cannot be used.
fn is_of_path(entry: &devices::Entry) -> bool {
    matches!(entry.found, Found::Nothing(_)) && !entry.path.is_file()
}

/// Each file of the path.
fn plugins(look: &Look) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in look.entries.iter().filter(|entry| !is_of_path(entry)) {
        let file = entry.path.display().to_string();
        if let Found::Again(first) = entry.found {
            let first = look.entries[first].path.display();
            checks.push(
                Check::new(State::Note, "plugin", format!("the same file as {first}, an earlier entry"))
                    .of(file),
            );
            continue;
        }
        let own: Vec<&BackendReport> = look.reports.iter().filter(|report| report.plugin == file).collect();
        let before = checks.len();
        for report in &own {
            let Some(reason) = list::reason(&report.outcome) else { continue };
            let check = match &report.outcome {
                // Of another entry, which is noted, too.
                outcome if [true, false].map(devices::again).contains(outcome) => continue,
                Outcome::Refused { .. } if is_shadowed(report, &look.reports) => continue,
                Outcome::Refused { .. } => Check::new(State::Problem, "plugin", reason).advice(
                    "mend the file, or take it out of the path: programs with this path load it, too",
                ),
                // Of its backend, see below.
                _ if report.key.is_some() => continue,
                _ => Check::new(State::Note, "plugin", reason),
            };
            checks.push(check.of(&file));
        }
        if checks.len() == before {
            let keys: Vec<&str> = own.iter().filter_map(|report| report.key.as_deref()).collect();
            let implementations: usize = own.iter().map(|report| report.implementations.len()).sum();
            let name = own.iter().find_map(|report| report.name.as_deref()).unwrap_or("a plugin");
            let backends = if keys.is_empty() { "no backend".to_owned() } else { keys.join(", ") };
            let found = format!("{name} with {backends} and {implementations} implementations");
            checks.push(Check::new(State::Ok, "plugin", found).of(file));
        }
    }
    checks
}

/// True if another backend has its key.
fn is_shadowed(report: &BackendReport, all: &[BackendReport]) -> bool {
    let is_used = |other: &&BackendReport| !matches!(other.outcome, Outcome::Refused { .. });
    report.key.is_some() && all.iter().filter(is_used).any(|other| other.key == report.key)
}

/// Each backend with its devices, or the reason why it has none.
fn backends(reports: &[BackendReport]) -> Vec<Check> {
    let mut checks = Vec::new();
    for report in reports {
        let Some(key) = &report.key else {
            let reason = list::reason(&report.outcome).filter(|_| report.plugin == EMBEDDED);
            checks.extend(reason.map(|reason| {
                Check::new(State::Problem, "backend", reason)
                    .of(EMBEDDED)
                    .advice("build or install `flash` again")
            }));
            continue;
        };
        match &report.outcome {
            Outcome::Available if report.devices.is_empty() => {
                checks.push(Check::new(State::Note, "backend", "it has no devices").of(key));
            }
            Outcome::Available => checks.extend(report.devices.iter().map(|one| device(one, &report.plugin))),
            Outcome::Unavailable { reason } => {
                let found = format!("({}) has no devices here: {reason}", report.plugin);
                checks.push(Check::new(State::Note, "backend", found).of(key));
            }
            // Of its plugin, or below.
            _ => {}
        }
    }
    checks
}

fn device(device: &DeviceReport, plugin: &str) -> Check {
    let info = &device.info;
    let mut notes = vec![format!("{}, {}, {} threads", info.name.trim(), info.class.name(), info.threads)];
    notes.extend((info.memory_bytes > 0).then(|| bytes(info.memory_bytes)));
    notes.extend(info.host_memory.then(|| "uses host memory in place".to_owned()));
    notes.extend(info.emulated.then(|| "emulated, never part of a group".to_owned()));
    notes.extend(info.test.then(|| "for tests, never part of a group".to_owned()));
    let platform = device.properties.get("platform");
    notes.extend(platform.map(|platform| format!("platform: {}", list::plain(platform))));
    Check::new(State::Ok, "device", format!("{} (from {plugin})", notes.join("; "))).of(&device.id)
}

/// Backends and implementations that others come before.
fn shadows(reports: &[BackendReport]) -> Vec<Check> {
    let mut checks = Vec::new();
    for report in reports.iter().filter(|report| is_shadowed(report, reports)) {
        if let (Outcome::Refused { found, .. }, Some(key)) = (&report.outcome, &report.key) {
            let found = format!("the backend of {} is not used: it has {found}", report.plugin);
            checks.push(Check::new(State::Note, "shadows", found).of(key));
        }
    }
    let mut shadowed: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for report in reports {
        for one in &report.implementations {
            if let Some(by) = &one.shadowed_by {
                shadowed.entry((&report.plugin, by)).or_default().insert(&one.kernel);
            }
        }
    }
    for ((plugin, by), kernels) in shadowed {
        let kernels: Vec<&str> = kernels.into_iter().collect();
        let found = format!("those of {by} come before its implementations of {}", kernels.join(", "));
        checks.push(Check::new(State::Note, "shadows", found).of(plugin));
    }
    if checks.is_empty() {
        checks.push(Check::new(State::Ok, "shadows", "nothing takes the place of something else"));
    }
    checks
}

/// What was written while plugins were looked at, other than what is said of variables.
fn written(look: &Look, variables: &[Variable]) -> Option<Check> {
    let is_known = |line: &str| {
        let is = |variable: &Variable| match &variable.state {
            VariableState::Wrong(complaint) => line.strip_prefix("flash: ") == Some(complaint),
            _ => false,
        };
        variables.iter().any(is)
    };
    let lines: Vec<&str> = look.written.iter().map(String::as_str).filter(|line| !is_known(line)).collect();
    let found = || format!("while plugins were loaded, this was written:\n{}", lines.join("\n"));
    (!lines.is_empty()).then(|| Check::new(State::Note, "plugin", found()))
}

/// The folder of compiled programs.
fn cache() -> Check {
    let cache = match ProgramCache::of_process() {
        Ok(cache) => cache,
        Err(why) => return Check::new(State::Problem, "cache", why.0).advice("correct FLASH_CACHE_LIMIT"),
    };
    let Some(folder) = cache.folder() else {
        let found = match cache.limit() {
            0 => "no compiled programs are kept, since FLASH_CACHE_LIMIT is 0",
            _ => {
                "no compiled programs are kept, since none of FLASH_CACHE_DIR, XDG_CACHE_HOME and HOME is set"
            }
        };
        return Check::new(State::Note, "cache", found);
    };
    let check = match cache.look() {
        Ok((count, size)) => Check::new(
            State::Ok,
            "cache",
            format!("{count} compiled programs, {} of at most {}", bytes(size), bytes(cache.limit())),
        ),
        Err(error) => Check::new(State::Problem, "cache", format!("no compiled programs are kept: {error}"))
            .advice("set FLASH_CACHE_DIR to a folder that you, and only you, can write"),
    };
    check.of(folder.display().to_string())
}

/// What a child says of its launch: whether the device runs nothing, and the result.
#[derive(Serialize, Deserialize)]
enum Message {
    Error(String),
    Done(bool, Verdict),
}

/// A first launch on a device, with its result.
fn launch(backend: &BackendReport, device: &DeviceReport, limit: Duration) -> anyhow::Result<Check> {
    let plugin = if backend.plugin == EMBEDDED { "" } else { &backend.plugin };
    let arguments = ["doctor", "--worker", plugin, &device.id].map(OsStr::new);
    let answer = child::ask(&arguments, limit, |_: &Message| true)?;
    let problem = |why: String| {
        let key = &device.id;
        Check::new(State::Problem, "launch", why)
            .advice(format!("`flash conformance {key}` shows more of it"))
    };
    let check = match (answer.said.into_iter().next(), answer.end) {
        (Some(Message::Done(true, Verdict::Passed)), _) => {
            Check::new(State::Note, "launch", "it succeeds, and runs nothing, as the device says")
        }
        (Some(Message::Done(false, Verdict::Passed)), _) => {
            Check::new(State::Ok, "launch", "small kernels run, and their results are right")
        }
        (Some(Message::Done(_, Verdict::Failed(why))), _) => problem(why),
        (Some(Message::Done(_, verdict)), _) => {
            let why = verdict.reason().unwrap_or_default();
            Check::new(State::Note, "launch", format!("none was made: {why}"))
        }
        (Some(Message::Error(why)), _) => problem(why),
        (None, end) => {
            let how = end.err().unwrap_or_default();
            problem(format!("the process {how}{}", look::last_words(&answer.output)))
        }
    };
    Ok(check.of(&device.id))
}

/// The plugin of what is linked into the program, in reports.
const EMBEDDED: &str = "embedded";

/// The child: `arguments` are a plugin file, or nothing, and a device of it. No other plugin is loaded.
pub fn worker(arguments: &[OsString]) -> anyhow::Result<bool> {
    let mut parent = Parent::new()?;
    let [file, device] = arguments else { anyhow::bail!("expected a file and a device") };
    let (file, device) = (Path::new(file), device.to_str().context("expected a device's id")?);
    let made = Context::builder().set("plugin_path", file.display()).build();
    let suite = made.and_then(|context| Suite::new(&context, device));
    let message = match suite {
        Err(error) => Message::Error(error.to_string()),
        Ok(suite) => {
            let number = suite.checks().position(|(_, name)| name == FIRST_LAUNCH);
            let number = number.context("the suite has no such check")?;
            Message::Done(suite.dry(), suite.run(number))
        }
    };
    parent.say(&message);
    parent.done()
}
