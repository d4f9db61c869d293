//! The registry of a context: its plugins, backends, devices and implementations. Devices are looked for when
//! they are first needed. Loaded libraries and devices are the process's: contexts that see the same ones
//! share them.

use super::agent::OWN;
use super::extension;
use super::loader::{self, Listed, LoadedBackend, Outcome};
use super::reports::{self, BackendReport, Entry, Found};
use super::shadow::ImplementationReport;
use super::{DeviceHandle, host_handles, spaces, take_error, words};
use crate::error::{Error, KeyError};
use flash_backend::__host::overlap;
use flash_backend::notice;
use flash_backend::settings::Values;
use flash_types::Code;
use flash_types::abi::{self, BackendApi, Implementation, Str};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

struct Backend {
    key: String,
    loaded: &'static LoadedBackend,
    plugin: usize,
    /// What was found, and the backend's number at that time.
    devices: Mutex<Option<(u64, Result<Devices, String>)>>,
}

/// The devices of a backend, as a context sees them.
struct Devices {
    /// By their numbers, including those that have gone.
    all: Vec<&'static DeviceHandle>,
    there: Vec<&'static DeviceHandle>,
}

struct Plugin {
    /// `None`: the program itself.
    path: Option<PathBuf>,
    name: Option<String>,
    /// The reasons for which it, or one of its backends, is refused.
    refusals: Vec<(Option<String>, Outcome)>,
    implementations: Vec<Listed>,
}

/// An implementation and where it is from.
#[derive(Clone, Copy)]
pub(crate) struct RegisteredImplementation {
    pub raw: &'static Implementation,
    pub plugin: usize,
    /// A device gave it for the very kernel that was asked for.
    pub resolved: bool,
}

fn registered((one, plugin): (Listed, usize)) -> RegisteredImplementation {
    RegisteredImplementation { raw: one.description(), plugin, resolved: false }
}

/// Everything that was found.
pub(crate) struct Registry {
    settings: Values,
    /// The path of plugins, for messages.
    searched: String,
    plugins: Vec<Plugin>,
    backends: Vec<Backend>,
}

impl Registry {
    /// Finds the plugins of the path in order, then those that are linked in.
    pub fn find(settings: &Values) -> Registry {
        let (path, searched) = reports::plugin_path(settings);
        let mut registry = Registry::new(settings, searched);
        let mut loaded = Vec::new();
        for Entry { path, found } in reports::entries_of(&path) {
            let result = match found {
                Found::File => loader::load(&path),
                Found::Again(first) => Err(reports::again(loaded[first])),
                Found::Nothing(outcome) => Err(outcome),
            };
            loaded.push(result.is_ok());
            registry.add(Some(path), result);
        }
        registry.add(None, loader::linked());
        registry
    }

    /// One whose first plugin is a file, or what is linked in.
    pub fn of_file(settings: &Values, path: Option<&Path>) -> Registry {
        let mut registry = Registry::new(settings, String::new());
        if let Some(path) = path {
            registry.add(Some(path.to_owned()), loader::load(path));
        }
        registry.add(None, loader::linked());
        registry
    }

    fn new(settings: &Values, searched: String) -> Registry {
        Registry { settings: settings.clone(), searched, plugins: Vec::new(), backends: Vec::new() }
    }

    fn add(&mut self, path: Option<PathBuf>, result: Result<&'static loader::Plugin, Outcome>) {
        let index = self.plugins.len();
        let mut plugin = Plugin { path, name: None, refusals: Vec::new(), implementations: Vec::new() };
        match result {
            Err(outcome) => plugin.refusals.push((None, outcome)),
            Ok(loaded) => {
                if plugin.path.is_some() {
                    plugin.name = Some(format!("{} {}", loaded.name, loaded.version));
                }
                plugin.implementations.clone_from(&loaded.implementations);
                plugin.refusals.extend(loaded.mistakes.iter().map(|mistake| (None, mistake.clone())));
                for backend in &loaded.backends {
                    match backend {
                        Err((key, outcome)) => {
                            let key = Some(key.clone()).filter(|k| !k.is_empty());
                            plugin.refusals.push((key, outcome.clone()));
                        }
                        Ok(loaded) => {
                            // SAFETY: checked, lives for ever.
                            let key = unsafe { loaded.api.key.text() };
                            if let Some(first) = self.backends.iter().find(|b| b.key == key) {
                                let by = match &self.plugins.get(first.plugin).and_then(|p| p.path.as_ref()) {
                                    Some(path) => path.display().to_string(),
                                    None => "this plugin".to_owned(),
                                };
                                let outcome = reports::taken(&key, &by);
                                plugin.refusals.push((Some(key), outcome));
                            } else {
                                self.backends.push(Backend {
                                    key,
                                    loaded,
                                    plugin: index,
                                    devices: Mutex::new(None),
                                });
                            }
                        }
                    }
                }
            }
        }
        self.plugins.push(plugin);
    }

    fn origin(&self, plugin: usize) -> String {
        match self.plugins.get(plugin) {
            Some(Plugin { path: Some(path), .. }) => path.display().to_string(),
            Some(_) => reports::EMBEDDED.to_owned(),
            None => "added by a plugin".to_owned(),
        }
    }

    /// Where an implementation is from, for messages.
    pub fn origin_of(&self, found: RegisteredImplementation) -> String {
        self.origin(found.plugin)
    }

    /// True if an implementation is from a plugin file.
    pub fn is_of_file(&self, found: RegisteredImplementation) -> bool {
        self.plugins.get(found.plugin).is_some_and(|plugin| plugin.path.is_some())
    }

    /// All implementations, described.
    pub fn implementations(&self) -> impl Iterator<Item = RegisteredImplementation> {
        self.listed().map(registered)
    }

    /// The implementations of a kernel. Others that are linked in stay undescribed.
    pub fn implementations_of(&self, kernel: &str) -> impl Iterator<Item = RegisteredImplementation> {
        self.listed().filter(move |(one, _)| one.kernel() == kernel).map(registered)
    }

    /// The names of kernels, as often as they have implementations.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        self.listed().map(|(one, _)| one.kernel())
    }

    /// Those of the program, then those of plugins in path order, then those that plugins have added; each
    /// with the number of its plugin.
    fn listed(&self) -> impl Iterator<Item = (Listed, usize)> {
        let added = extension::implementations().into_iter();
        let added = added.map(|one| (Listed::Described(one), usize::MAX));
        let of = |program: bool| {
            self.plugins
                .iter()
                .enumerate()
                .filter(move |(_, plugin)| plugin.path.is_none() == program)
                .flat_map(|(number, plugin)| plugin.implementations.iter().map(move |&one| (one, number)))
        };
        of(true).chain(of(false)).chain(added)
    }

    /// All devices of all available backends, each with the vtable of its backend.
    pub fn devices(&self) -> impl Iterator<Item = &'static DeviceHandle> {
        self.backends.iter().filter_map(|backend| self.probe(backend).ok()).flatten()
    }

    /// The vtables of all backends, checked.
    pub(super) fn apis(&self) -> impl Iterator<Item = &'static BackendApi> {
        self.backends.iter().map(|backend| backend.loaded.api)
    }

    /// The threads of the first backend that run work of the host.
    pub fn workers(&self) -> Option<&'static abi::workers::Workers> {
        self.backends.iter().find_map(|backend| {
            let extension = backend.loaded.api.get_extension?;
            // Its threads are divided among its devices, so those come first.
            self.probe(backend).ok()?;
            // SAFETY: a checked vtable; the text lives for the call; the extension is of this type, and lives
            // for ever.
            let workers = unsafe {
                extension(Str::new(abi::workers::WORKERS_EXTENSION), 1)
                    .cast::<abi::workers::Workers>()
                    .as_ref()
            }?;
            let whole = workers.struct_size as usize >= size_of::<abi::workers::Workers>();
            (whole && workers.count > 0 && workers.wake.is_some()).then_some(workers)
        })
    }

    /// The devices of a runtime key.
    pub fn resolve(&self, key: &str) -> Result<Vec<&'static DeviceHandle>, Error> {
        let mut chosen: Vec<&'static DeviceHandle> = Vec::new();
        // The prefix that a number alone continues: the part before it, up to its last colon.
        let mut last: Option<String> = None;
        for part in key.split(',').map(str::trim) {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let part = match &last {
                Some(last) if is_number => format!("{last}:{part}"),
                _ => part.to_owned(),
            };
            let elsewhere = part.rsplit_once('@');
            last = Some(part.rsplit_once(':').map_or(&*part, |(before, _)| before).to_owned())
                .filter(|_| elsewhere.is_none());
            let (name, index) = match part.split_once(':') {
                Some((name, index)) => (name, Some(index)),
                None => (&*part, None),
            };
            let devices = match name {
                _ if elsewhere.is_some() => self.isolated(key, elsewhere.unwrap_or_default())?,
                "ALL" | "ALL_ACCEL" if index.is_none() => self.group(key)?,
                "ALL" | "ALL_ACCEL" => {
                    return Err(self.key_error(key, "a group has no numbered devices; name a backend".into()));
                }
                _ => self.devices_of(key, name, index)?,
            };
            for device in devices {
                if !chosen.iter().any(|d| d.id() == device.id()) {
                    chosen.push(device);
                }
            }
        }
        Ok(chosen)
    }

    /// The devices of a key in an agent: one of this process's own, or one that listens.
    fn isolated(&self, key: &str, (part, agent): (&str, &str)) -> Result<Vec<&'static DeviceHandle>, Error> {
        let whole = format!("{part}@{agent}");
        // One of several parts is named.
        let failed =
            |why: String| self.key_error(key, if whole == key { why } else { format!("`{whole}`: {why}") });
        let (api, isolate) = self.isolating(agent).map_err(failed)?;
        let backend = self.backends.iter().find(|b| std::ptr::eq(b.loaded.api, api));
        // Ids of such devices are keys, too.
        let own = backend.and_then(|backend| part.strip_prefix(&format!("{}:", backend.key)));
        let part = own.unwrap_or(part);
        let name = part.split_once(':').map_or(part, |(name, _)| name);
        // One that listens may have a backend that this process has not.
        let is_known = agent != OWN || self.backends.iter().any(|other| other.key == name);
        let is_group = name.is_empty() || ["ALL", "ALL_ACCEL"].contains(&name);
        if !is_known || is_group || backend.is_some_and(|backend| backend.key == name) {
            return Err(failed(format!("expected the key of one other backend before `@{agent}`")));
        }
        isolate.ask(&format!("{name}@{agent}"));
        match backend.and_then(|backend| self.selected(backend, &format!("{part}@{agent}"))) {
            Some(Ok(found)) if !found.is_empty() => Ok(found),
            Some(Ok(_)) | None => Err(failed("the agent has no such device".to_owned())),
            Some(Err(why)) => Err(failed(why)),
        }
    }

    /// The best of everything: fastest first, one device per physical id, none that is emulated or for tests.
    /// Refused plugins might have been among them: that is reported once.
    fn group(&self, key: &str) -> Result<Vec<&'static DeviceHandle>, Error> {
        let mut all: Vec<&'static DeviceHandle> = self.devices().collect();
        all.retain(|d| !d.info().emulated && !d.info().test);
        all.sort_by(|a, b| b.info().rate_hint.total_cmp(&a.info().rate_hint));
        let mut group: Vec<&'static DeviceHandle> = Vec::new();
        for device in all {
            if !group.iter().any(|d| overlap(&d.info().physical_id, &device.info().physical_id)) {
                group.push(device);
            }
        }
        if group.is_empty() {
            return Err(self.key_error(key, "no device was found".into()));
        }
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            for (key, line) in self.refused() {
                // Where another backend has the key, nothing is missing.
                if !self.backends.iter().any(|b| b.key == key) {
                    notice(format_args!("a plugin is left out: {line}"));
                }
            }
        });
        Ok(group)
    }

    /// The refused plugins and backends, each with the key that it has or wants, if that is known, and a line
    /// of text.
    fn refused(&self) -> impl Iterator<Item = (&str, String)> {
        self.plugins.iter().enumerate().flat_map(move |(index, plugin)| {
            plugin.refusals.iter().map(move |(key, outcome)| {
                let key = key.as_deref().unwrap_or_default();
                let space = if key.is_empty() { "" } else { " " };
                (key, format!("{key}{space}({}): {outcome}", self.origin(index)))
            })
        })
    }

    fn devices_of(
        &self,
        key: &str,
        name: &str,
        suffix: Option<&str>,
    ) -> Result<Vec<&'static DeviceHandle>, Error> {
        let Some(backend) = self.backends.iter().find(|b| b.key == name) else {
            let is_meant = |b: &&Backend| b.key.eq_ignore_ascii_case(name.trim());
            let text = if name.is_empty() {
                "a key is empty".to_owned()
            } else if let Some(meant) = self.backends.iter().find(is_meant) {
                format!("there is no backend `{name}`; write `{}`", meant.key)
            } else {
                format!("there is no backend `{name}`; plugins are looked for in {}", self.searched)
            };
            return Err(self.key_error(key, text));
        };
        let devices = self
            .probe(backend)
            .map_err(|why| self.key_error(key, format!("`{name}` is unavailable: {why}")))?;
        let Some(suffix) = suffix else {
            // A backend that resolves keys may have a choice for its own alone.
            return match self.selected(backend, "") {
                Some(Ok(chosen)) if !chosen.is_empty() => Ok(chosen),
                _ if devices.is_empty() => Err(self.key_error(key, format!("`{name}` has no devices"))),
                _ => Ok(devices),
            };
        };
        let there = || {
            let there = devices.iter().map(|d| format!("{} ({})", d.id(), d.info().class.name()));
            there.collect::<Vec<_>>().join(", ")
        };
        let found = match self.selected(backend, suffix) {
            Some(Ok(found)) if !found.is_empty() => return Ok(found),
            Some(Ok(_)) => format!("there is no device `{name}:{suffix}`; available: {}", there()),
            Some(Err(why)) => format!("there is no device `{name}:{suffix}`: {why}; available: {}", there()),
            None => {
                let numbered = self.numbered(backend, suffix);
                let selects = |d: &DeviceHandle| match numbered {
                    Some(device) => std::ptr::eq(d, device),
                    None => d.info().suffix == suffix || d.info().class.name() == suffix,
                };
                let found: Vec<&'static DeviceHandle> =
                    devices.iter().copied().filter(|d| selects(d)).collect();
                if !found.is_empty() {
                    return Ok(found);
                }
                let gone = if numbered.is_some() { ", it has gone" } else { "" };
                format!(
                    "there is no device `{name}:{suffix}`{gone}; a number or a class (cpu, gpu, fpga, other) selects of {}",
                    there()
                )
            }
        };
        Err(self.key_error(key, found))
    }

    /// The devices that exist now.
    fn probe(&self, backend: &Backend) -> Result<Vec<&'static DeviceHandle>, String> {
        self.with_devices(backend, |devices| devices.there.clone())
    }

    /// The device of a number, which may have gone.
    fn numbered(&self, backend: &Backend, suffix: &str) -> Option<&'static DeviceHandle> {
        let number = suffix.parse::<usize>().ok()?;
        self.with_devices(backend, |devices| devices.all.get(number).copied()).ok()?
    }

    /// The devices that the backend selects by a suffix; `None` if it has no suffixes of its own.
    fn selected(
        &self,
        backend: &Backend,
        suffix: &str,
    ) -> Option<Result<Vec<&'static DeviceHandle>, String>> {
        let resolve = backend.loaded.api.resolve?;
        let there = match self.probe(backend) {
            Ok(there) => there,
            Err(why) => return Some(Err(why)),
        };
        let raw: Vec<*mut abi::Device> = there.iter().map(|device| device.raw).collect();
        let (mut selected, mut count) = (vec![0; raw.len()], 0);
        // SAFETY: a checked vtable, devices of it, a text that lives for the call, room for as many numbers
        // as there are devices.
        let outcome = unsafe {
            let (from, to) = (raw.as_ptr(), selected.as_mut_ptr());
            take_error(resolve(Str::new(suffix), from, raw.len(), to, &mut count))
        };
        match outcome {
            Err(Error::Backend { code: Code::Unsupported, .. }) => return None,
            Err(error) => return Some(Err(words(error))),
            Ok(()) => {}
        }
        let wrong = || format!("`resolve` selects a device that is none of {}", raw.len());
        let selected = selected.get(..count).ok_or_else(wrong);
        Some(
            selected.and_then(|selected| {
                selected.iter().map(|&i| there.get(i).copied().ok_or_else(wrong)).collect()
            }),
        )
    }

    /// Runs `body` with the devices, which are looked for when they are first needed, and listed again when
    /// the backend says that they have changed.
    fn with_devices<R>(&self, backend: &Backend, body: impl FnOnce(&Devices) -> R) -> Result<R, String> {
        let mut devices = backend.devices.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a checked vtable, whose functions may be called at any time.
        let generation = backend.loaded.api.generation.map_or(0, |generation| unsafe { generation() });
        match &mut *devices {
            Some((known, _)) if *known == generation => {}
            Some((number, Ok(known))) => {
                // If they cannot be listed now, the list stays as it was.
                if let Ok(there) = open(&backend.key, backend.loaded, &self.settings, &mut known.all) {
                    (known.there, *number) = (there, generation);
                }
            }
            none => {
                let mut all = Vec::new();
                let there = open(&backend.key, backend.loaded, &self.settings, &mut all);
                *none = Some((generation, there.map(|there| Devices { all, there })));
            }
        }
        match &*devices {
            Some((_, Ok(devices))) => Ok(body(devices)),
            Some((_, Err(why))) => Err(why.clone()),
            None => unreachable!("just made"),
        }
    }

    fn key_error(&self, key: &str, text: String) -> Error {
        let mut keys = vec!["ALL_ACCEL".to_owned(), "ALL".to_owned()];
        let mut unusable = Vec::new();
        for backend in &self.backends {
            match self.probe(backend) {
                Ok(_) => keys.push(backend.key.clone()),
                Err(why) => {
                    unusable.push(format!("{} ({}): {why}", backend.key, self.origin(backend.plugin)))
                }
            }
        }
        unusable.extend(self.refused().map(|(_, line)| line));
        Error::Key(Box::new(KeyError { key: key.to_owned(), text, keys, unusable }))
    }

    pub fn report(&self) -> Vec<BackendReport> {
        reports::combined((0..self.plugins.len()).map(|index| self.report_of(index)).collect())
    }

    /// The report of one plugin.
    pub fn report_of(&self, index: usize) -> Vec<BackendReport> {
        let Some(plugin) = self.plugins.get(index) else { return Vec::new() };
        let blank = BackendReport {
            name: plugin.name.clone(),
            ..BackendReport::new(self.origin(index), Outcome::Available)
        };
        let mut reports = Vec::new();
        for backend in self.backends.iter().filter(|b| b.plugin == index) {
            let (outcome, devices) = match self.probe(backend) {
                Ok(devices) => (Outcome::Available, devices),
                Err(reason) => (Outcome::Unavailable { reason }, Vec::new()),
            };
            // SAFETY: a checked vtable, whose strings live for ever.
            let target = unsafe { backend.loaded.api.target.text() };
            let mut targets = vec![target];
            targets.extend(devices.iter().flat_map(|device| device.info().targets.clone()));
            targets.sort();
            targets.dedup();
            reports.push(BackendReport {
                key: Some(backend.key.clone()),
                outcome,
                targets,
                devices: devices.iter().map(|device| device.report()).collect(),
                ..blank.clone()
            });
        }
        let refused = |(key, outcome): &(Option<String>, Outcome)| BackendReport {
            key: key.clone(),
            outcome: outcome.clone(),
            ..blank.clone()
        };
        reports.extend(plugin.refusals.iter().map(refused));
        if plugin.path.is_some() {
            let has = |target: &str, feature: &str| {
                self.devices()
                    .any(|device| device.preference(target).is_some() && device.has_feature(feature))
            };
            let described = plugin.implementations.iter().map(|one| one.description());
            let unknown = described.filter_map(|one| reports::unknown_feature(one, has));
            reports.extend(unknown.map(|outcome| BackendReport { outcome, ..blank.clone() }));
        }
        let mut implementations =
            plugin.implementations.iter().map(|one| ImplementationReport::of(one.description())).peekable();
        if reports.is_empty() && (plugin.path.is_some() || implementations.peek().is_some()) {
            reports.push(blank);
        }
        if let Some(report) = reports.first_mut() {
            report.implementations = implementations.collect();
        }
        reports
    }
}

/// The devices of a backend that exist under some settings. A device that was found before is the same again.
/// New ones get the next numbers in `all`.
fn open(
    key: &str,
    loaded: &'static LoadedBackend,
    settings: &Values,
    all: &mut Vec<&'static DeviceHandle>,
) -> Result<Vec<&'static DeviceHandle>, String> {
    let mut known = loaded.devices.lock().unwrap_or_else(PoisonError::into_inner);
    let looking = extension::Looking::begin();
    // SAFETY: a checked vtable, whose devices live for ever.
    let raw = unsafe { raw_devices(loaded.api, settings, known.is_empty()) };
    drop(looking);
    let raw = raw.map_err(words)?;
    let first = raw.first().map_or(0, |device| device.addr());
    let (mut there, mut number) = (Vec::new(), all.len());
    let is_in = |list: &[&'static DeviceHandle], handle: &DeviceHandle| {
        list.iter().any(|listed| std::ptr::eq(*listed, handle))
    };
    for raw in raw {
        let found = known.iter().find(|handle| std::ptr::eq(handle.raw, raw)).copied();
        let handle = match found {
            Some(handle) => handle,
            // SAFETY: a device of this vtable.
            None => unsafe { DeviceHandle::new(key, number, loaded.api, raw, first)? },
        };
        number += usize::from(!is_in(all, handle));
        there.push(handle);
    }
    // Nothing is kept of devices that are refused.
    spaces::check(&there)?;
    for &handle in &there {
        if !is_in(&known, handle) {
            if loaded.api.forget_host.is_some() {
                host_handles::add(handle);
            }
            known.push(handle);
        }
        if !is_in(all, handle) {
            all.push(handle);
        }
    }
    Ok(there)
}

/// # Safety
/// A checked vtable, one at a time.
unsafe fn raw_devices(
    api: &BackendApi,
    settings: &Values,
    first: bool,
) -> Result<Vec<*mut abi::Device>, Error> {
    let invalid = |text: String| Error::Backend { code: Code::Invalid, text };
    let missing = || invalid("a required slot is NULL".to_owned());
    let (mut raw, mut count) = (std::ptr::null(), 0);
    // SAFETY: called as the vtable says, with its own errors and our variables; the texts live for the calls.
    unsafe {
        if let Some(open) = api.open {
            let text = |(name, value)| abi::Attr {
                key: Str::new(name),
                value: Str::new(value),
                required: 0,
                reserved: 0,
            };
            let settings: Vec<abi::Attr> = settings.iter().map(text).collect();
            take_error(open(settings.as_ptr(), settings.len(), &mut raw, &mut count))?;
        } else {
            if first {
                take_error((api.probe.ok_or_else(missing)?)())?;
            }
            take_error((api.devices.ok_or_else(missing)?)(&mut raw, &mut count))?;
        }
    }
    if count > 0 && raw.is_null() {
        return Err(invalid(format!("`devices` gave a list of {count} that is NULL")));
    }
    // SAFETY: the list has that many devices.
    let devices: Vec<*mut abi::Device> = (0..count).map(|i| unsafe { *raw.add(i) }).collect();
    match devices.iter().position(|device| device.is_null()) {
        Some(i) => Err(invalid(format!("`devices` gave a list whose element {i} is NULL"))),
        None => Ok(devices),
    }
}
