//! What was found, for a person to read: plugins, backends, devices, implementations, and what keeps one from
//! being used.
//!
//! A list is made of one plugin after another. Each by itself is a matter of its registry alone, so that a
//! program may look at every file in a process of its own ([`entries`], [`list_file`]) and put the answers
//! together ([`combined`]).

use super::agent;
use super::catalog::Catalog;
use super::loader::{self, Outcome, refused};
use super::registry::Registry;
use super::shadow::{ImplementationReport, mark};
use flash_backend::__host::CPU_FEATURES;
use flash_backend::DeviceInfo;
use flash_backend::settings::{Values, distance};
use flash_types::abi::{self, Implementation};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

/// One backend, or one plugin without backends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackendReport {
    /// Runtime key; `None` for a file that could not be read so far.
    pub key: Option<String>,
    /// The file, or `embedded`.
    pub plugin: String,
    /// Name and version of the plugin, if known.
    pub name: Option<String>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The kinds of implementations that its devices run, or would run.
    pub targets: Vec<String>,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// The kernel implementations in the plugin.
    pub implementations: Vec<ImplementationReport>,
}

/// One device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceReport {
    /// Id, such as `ALL_CPU:0`.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// Its memory spaces, as its backend lists them.
    #[serde(default)]
    pub spaces: Vec<SpaceReport>,
    /// What its backend says of `platform` and `limits`, if it knows them.
    pub properties: BTreeMap<String, serde_json::Value>,
}

/// A memory space of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SpaceReport {
    /// `main`, `high-bandwidth`, `persistent` or `host`.
    pub kind: String,
    /// Its size; 0: unknown.
    pub bytes: u64,
    /// The NUMA node that it is on or near to, if the backend knows.
    pub numa_node: Option<u32>,
}

impl SpaceReport {
    /// Of a space as the interface of backends has it.
    pub fn of(space: &abi::MemorySpace) -> SpaceReport {
        // The kinds of the interface, in their order.
        let kind =
            ["main", "high-bandwidth", "persistent", "host"].get(space.kind as usize).unwrap_or(&"main");
        SpaceReport {
            kind: (*kind).to_owned(),
            bytes: space.size,
            numa_node: u32::try_from(space.numa_node).ok(),
        }
    }
}

impl BackendReport {
    /// One of a plugin (a file, or `embedded`) without backends, devices and implementations.
    pub fn new(plugin: impl Into<String>, outcome: Outcome) -> BackendReport {
        BackendReport {
            key: None,
            plugin: plugin.into(),
            name: None,
            outcome,
            targets: Vec::new(),
            devices: Vec::new(),
            implementations: Vec::new(),
        }
    }
}

/// An entry of the path of plugins: a file of it, or why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The file, or what the path names.
    pub path: PathBuf,
    /// What it is.
    pub found: Found,
}

/// What an entry of the path of plugins is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Found {
    /// A file, which was not looked into.
    File,
    /// The file of the entry of this number.
    Again(usize),
    /// No file.
    Nothing(Outcome),
}

/// The outcome of a file that an earlier entry of the path is, too.
pub fn again(is_loaded: bool) -> Outcome {
    let found = match is_loaded {
        true => "the same file, loaded from an earlier entry",
        false => "the same file, refused in an earlier entry",
    };
    refused("a plugin that was not looked at yet", found)
}

/// The outcome of a backend whose key is that of an earlier one.
pub(super) fn taken(key: &str, by: &str) -> Outcome {
    refused(format!("a runtime key of its own, not `{key}`"), format!("a key that {by} has already"))
}

/// The entries of the default context's path of plugins, in order. Nothing is loaded.
pub fn entries() -> Vec<Entry> {
    entries_of(&plugin_path(Catalog::of_process().settings()).0)
}

/// The default context's path of plugins, in words.
pub fn searched() -> String {
    plugin_path(Catalog::of_process().settings()).1
}

/// The folder `flash-backends` beside the program; else, where this code is in a shared library that is
/// installed, the one beside that.
fn beside() -> Option<PathBuf> {
    let of_program = std::env::current_exe().ok()?.parent()?.join(FOLDER);
    if of_program.exists() {
        return Some(of_program);
    }
    let library = library_of(beside as *const c_void);
    let of_library = library.and_then(|library| Some(library.parent()?.join(FOLDER)));
    Some(of_library.filter(|folder| folder.is_dir()).unwrap_or(of_program))
}

/// Where plugins are looked for beside programs and libraries.
const FOLDER: &str = "flash-backends";

/// The file, a program or a library, that has the code at this address.
fn library_of(code: *const c_void) -> Option<PathBuf> {
    // Miri has no libraries.
    if cfg!(miri) {
        return None;
    }
    // SAFETY: all zeros is a value of it.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the name that is found lives as long as the library.
    let library = unsafe {
        if libc::dladdr(code, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname)
    };
    Path::new(library.to_str().ok()?).canonicalize().ok()
}

/// The path of plugins, and how messages name it.
pub(super) fn plugin_path(settings: &Values) -> (std::ffi::OsString, String) {
    let given = settings.text("plugin_path");
    match (given, given.map_or_else(beside, |_| None)) {
        (Some(""), _) => (Default::default(), "no folder, since the path of plugins is empty".to_owned()),
        (Some(path), _) => (path.into(), format!("`{path}`, the path of plugins")),
        (None, Some(beside)) => {
            let shown = format!("`{}`, since FLASH_BACKEND_PATH is unset", beside.display());
            (if beside.exists() { beside.into_os_string() } else { Default::default() }, shown)
        }
        (None, None) => (Default::default(), "no folder, since FLASH_BACKEND_PATH is unset".to_owned()),
    }
}

pub(super) fn entries_of(path: &std::ffi::OsStr) -> Vec<Entry> {
    let mut seen: Vec<(PathBuf, usize)> = Vec::new();
    let entry = |(number, entry): (usize, Result<PathBuf, (PathBuf, Outcome)>)| match entry {
        Err((path, outcome)) => Entry { path, found: Found::Nothing(outcome) },
        Ok(path) => {
            let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
            let found = match seen.iter().find(|(known, _)| *known == canonical) {
                Some((_, first)) => Found::Again(*first),
                None => {
                    seen.push((canonical, number));
                    Found::File
                }
            };
            Entry { path, found }
        }
    };
    loader::search(path).into_iter().enumerate().map(entry).collect()
}

/// Everything that the default context has found: [`Context::list`](crate::Context::list). A plugin that ends
/// or stops the process does so.
pub fn list() -> Vec<BackendReport> {
    let registry = Catalog::of_process().registry();
    agent::serve_if_one(registry);
    registry.report()
}

/// What a plugin file brings by itself, under the settings of the default context, or what is linked into the
/// program. It is loaded, and its devices are looked for.
pub fn list_file(path: Option<&Path>) -> Vec<BackendReport> {
    Registry::of_file(Catalog::of_process().settings(), path).report_of(0)
}

/// A list of the reports of plugins, in the order of the path, with the program itself as the last one.
///
/// Of two backends with one key the first is used. Implementations that others shadow, that nothing here can
/// run, or whose kernel is nearly another, are named.
pub fn combined(plugins: Vec<Vec<BackendReport>>) -> Vec<BackendReport> {
    let mut plugins = plugins;
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for report in plugins.iter_mut().flatten().filter(|report| !is_refused(report)) {
        let Some(key) = &report.key else { continue };
        match keys.get(key) {
            Some(by) => {
                report.outcome = taken(key, if *by == report.plugin { "this plugin" } else { by });
                report.devices.clear();
            }
            None => _ = keys.insert(key.clone(), report.plugin.clone()),
        }
    }
    // The program's own come first.
    let (own, others): (Vec<_>, Vec<_>) =
        plugins.iter_mut().partition(|plugin| plugin.iter().any(|report| report.plugin == EMBEDDED));
    mark(own.into_iter().chain(others));
    let unused: Vec<Vec<Outcome>> = (0..plugins.len()).map(|number| unused(&plugins, number)).collect();
    for (reports, outcomes) in plugins.iter_mut().zip(unused) {
        let Some(first) = reports.first().cloned() else { continue };
        let line = |outcome| BackendReport {
            name: first.name.clone(),
            ..BackendReport::new(&first.plugin, outcome)
        };
        reports.extend(outcomes.into_iter().map(line));
    }
    plugins.into_iter().flatten().collect()
}

fn is_refused(report: &BackendReport) -> bool {
    matches!(report.outcome, Outcome::Refused { .. })
}

/// Why implementations of a plugin file never run: no backend has their target, or their kernel's name is
/// misspelt. A package is for more kinds of devices than any machine has, so that one target is enough.
fn unused(plugins: &[Vec<BackendReport>], number: usize) -> Vec<Outcome> {
    let own = &plugins[number];
    // A plugin with a fault of another kind may have lost its target by it.
    if own.iter().any(|report| report.plugin == EMBEDDED || is_refused(report)) {
        return Vec::new();
    }
    let targets: BTreeSet<&str> =
        plugins.iter().flatten().flat_map(|report| &report.targets).map(String::as_str).collect();
    let others =
        plugins.iter().enumerate().filter(|(other, _)| *other != number).flat_map(|(_, plugin)| plugin);
    let kernels: BTreeSet<&str> =
        others.flat_map(|report| &report.implementations).map(|one| one.kernel.as_str()).collect();
    let there = targets.iter().copied().collect::<Vec<&str>>().join(", ");
    let is_package = own.iter().any(|report| loader::is_package(Path::new(&report.plugin)));
    let mut outcomes = Vec::new();
    let mut add = |outcome| {
        if !outcomes.contains(&outcome) {
            outcomes.push(outcome);
        }
    };
    let all = || own.iter().flat_map(|report| &report.implementations);
    if is_package && all().all(|one| !targets.contains(one.target.as_str())) {
        let found: BTreeSet<&str> = all().map(|one| one.target.as_str()).collect();
        let found: Vec<&str> = found.into_iter().collect();
        let reason = format!(
            "expected an implementation for a backend that is here ({there}), found those for {}",
            found.join(", ")
        );
        add(Outcome::Unavailable { reason });
    }
    for one in all() {
        let ImplementationReport { kernel, name, target, .. } = one;
        let near = nearest(target, targets.iter().copied());
        if !targets.contains(target.as_str()) && (!is_package || near.is_some()) {
            add(refused(
                format!("a target of the backends that are here ({there})"),
                format!("`{target}` for the implementation `{name}` of kernel `{kernel}`{}", meant(near)),
            ));
        }
        if let Some(near) = nearest(kernel, kernels.iter().copied()).filter(|near| near != kernel) {
            add(Outcome::Unavailable {
                reason: format!(
                    "expected a kernel that is known here for the implementation `{name}`, found `{kernel}`{}",
                    meant(Some(near))
                ),
            });
        }
    }
    outcomes
}

fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; write `{near}`, if that is meant"))
}

/// The name that is most like this one, and so much so that it may be meant. Capital letters differ little.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |other: &str| distance(&other.to_lowercase(), &name.to_lowercase());
    let most = if name.len() < 6 { 1 } else { 2 };
    known
        .map(|other| (far(other), other != name, other))
        .min()
        .filter(|(far, ..)| *far <= most)
        .map(|near| near.2)
}

/// The mistake in the CPU features that an implementation requires, if none of the devices has one of them by
/// that name, and no processor of this kind has.
pub(super) fn unknown_feature(one: &Implementation, has: impl Fn(&str, &str) -> bool) -> Option<Outcome> {
    // SAFETY: strings of implementations live for ever.
    let features = unsafe { one.cpu_features.text() };
    let ImplementationReport { kernel, name, target, .. } = ImplementationReport::of(one);
    let is_known = |feature: &str| CPU_FEATURES.contains(&feature) || has(&target, feature);
    let unknown =
        features.split(',').map(str::trim).find(|feature| !feature.is_empty() && !is_known(feature))?;
    Some(refused(
        format!("CPU features that are known ({})", CPU_FEATURES.join(", ")),
        format!(
            "`{unknown}` for the implementation `{name}` of kernel `{kernel}`{}",
            meant(nearest(unknown, CPU_FEATURES.iter().copied()))
        ),
    ))
}

/// The plugin of what is linked into the program.
pub(super) const EMBEDDED: &str = "embedded";
