//! What there is: plugins, backends, devices, implementations. Made once per process; devices are
//! looked for when they are first needed.

use super::loader::{self, Outcome, refused};
use super::{Class, DeviceInfo, glue, take_error};
use crate::abi::{self, BackendApi, Implementation, Str};
use crate::error::{Code, Error, KeyError};
use crate::memory::device::DeviceMemory;
use crate::memory::{Transfers, host_handles};
use crate::runtime::Lanes;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Once, OnceLock};

/// One backend, or one plugin that brings none.
#[derive(Clone, Debug, serde::Serialize)]
pub struct BackendReport {
    /// Runtime key; `None` for a file that never came so far.
    pub key: Option<String>,
    /// The file, or `embedded`.
    pub plugin: String,
    /// Name and version of the plugin, if it told.
    pub name: Option<String>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// Names of the kernel implementations that the plugin brings.
    pub implementations: Vec<String>,
}

/// One device.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DeviceReport {
    /// Id, such as `ALL_CPU:0`.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// What its backend says of `platform` and `limits`, if it knows them.
    pub properties: BTreeMap<&'static str, serde_json::Value>,
}

/// A device that a runtime can use.
pub struct DeviceHandle {
    pub(crate) api: &'static BackendApi,
    pub(crate) raw: *mut abi::Device,
    pub(crate) target: String,
    id: String,
    info: DeviceInfo,
    memory: OnceLock<Option<&'static DeviceMemory>>,
    pub(crate) lanes: OnceLock<Lanes>,
    /// Its programs are loaded early, or were.
    pub(crate) preloaded: AtomicBool,
}

// SAFETY: the vtable's functions may be called from any thread with any device.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

impl DeviceHandle {
    /// Its id, such as `ALL_CPU:0`: a runtime key that selects just this one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// A property that its backend knows by this name, as JSON.
    ///
    /// # Errors
    /// The backend's, if it knows none.
    pub fn query(&self, key: &str) -> Result<String, Error> {
        let no_answer = |code, why: &str| Error::Backend { code, text: format!("device {}: {why}", self.id) };
        let query = self.api.query.ok_or_else(|| no_answer(Code::Unsupported, "there is no slot `query`"))?;
        let mut value = std::ptr::null_mut();
        // SAFETY: a device of this vtable, and our own variable; the text lives for the call.
        unsafe { take_error(query(self.raw.cast_const().cast(), Str::new(key), &mut value))? };
        // SAFETY: the answer is an error object of this host, or NULL.
        match unsafe { take_error(value) } {
            Err(Error::Backend { text, .. }) => Ok(text),
            _ => Err(no_answer(Code::Invalid, "expected an answer to `query`, found NULL")),
        }
    }

    /// The vendor's own handle of what a kind names, for code that shares the device with FLASH: `queue`, `context` and
    /// `device` of an OpenCL device, `stream`, `context` and `device` of CUDA's. It stays FLASH's, and valid as long as
    /// the process lives.
    ///
    /// # Errors
    /// The backend's, if it has none of this kind.
    pub fn native_handle(&self, kind: &str) -> Result<u64, Error> {
        let slot = self.api.native_handle.ok_or_else(|| Error::Backend {
            code: Code::Unsupported,
            text: format!("device {}: there is no slot `native_handle`", self.id),
        })?;
        let mut handle = 0;
        // SAFETY: a device of this vtable, a text that lives for the call, no object, and our own variable.
        unsafe { take_error(slot(self.raw, Str::new(kind), std::ptr::null(), &mut handle))? };
        Ok(handle)
    }

    fn report(&self) -> DeviceReport {
        let value = |key| Some((key, serde_json::from_str(&self.query(key).ok()?).ok()?));
        let properties = ["platform", "limits"].into_iter().filter_map(value).collect();
        DeviceReport { id: self.id.clone(), info: self.info.clone(), properties }
    }

    /// Its memory; `None` if it uses the host's.
    #[inline]
    pub(crate) fn memory(&'static self) -> Option<&'static DeviceMemory> {
        *self.memory.get_or_init(|| DeviceMemory::of(self))
    }

    /// What was copied to and from its memory since the process began. All zeros for a device that uses
    /// the host's memory: there is nothing to copy.
    pub fn transfers(&'static self) -> Transfers {
        self.memory().map_or_else(Transfers::default, DeviceMemory::transfers)
    }

    /// Bytes of its memory that FLASH may use: by default all it has (or no limit, where that is
    /// unknown). `None` if it uses the host's memory.
    pub fn memory_budget(&'static self) -> Option<u64> {
        self.memory().map(DeviceMemory::budget)
    }

    /// Sets how many bytes of its memory FLASH may use, for the whole process. What is beyond it is given
    /// up when something is allocated next: copies that nobody uses go first, the longest unused before
    /// others, and what is current only there comes to the host before. False, and nothing done, if the
    /// device uses the host's memory.
    pub fn set_memory_budget(&'static self, bytes: u64) -> bool {
        self.memory().map(|memory| memory.set_budget(bytes)).is_some()
    }
}

impl std::fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.id)
    }
}

struct Backend {
    key: String,
    api: &'static BackendApi,
    plugin: usize,
    devices: OnceLock<Result<Vec<&'static DeviceHandle>, String>>,
}

struct Plugin {
    /// `None`: the program itself.
    path: Option<PathBuf>,
    name: Option<String>,
    /// Why it, or one of its backends, is refused.
    refusals: Vec<(Option<String>, Outcome)>,
    implementations: Vec<&'static Implementation>,
}

/// An implementation and where it is from.
#[derive(Clone, Copy)]
pub(crate) struct RegisteredImplementation {
    pub raw: &'static Implementation,
    pub plugin: usize,
}

/// Everything that was found.
pub(crate) struct Registry {
    plugins: Vec<Plugin>,
    backends: Vec<Backend>,
}

/// The process's registry: plugins of `FLASH_BACKEND_PATH` in order, then what is linked in.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::find)
}

impl Registry {
    fn find() -> Registry {
        let mut registry = Registry { plugins: Vec::new(), backends: Vec::new() };
        let path = std::env::var_os("FLASH_BACKEND_PATH").unwrap_or_else(|| {
            std::env::current_exe()
                .ok()
                .and_then(|exe| Some(exe.parent()?.join("flash-backends")))
                .filter(|directory| directory.exists())
                .map(PathBuf::into_os_string)
                .unwrap_or_default()
        });
        let mut seen = Vec::new();
        for entry in loader::search(&path) {
            let (path, result) = match entry {
                Err((path, outcome)) => (path, Err(outcome)),
                Ok(path) => {
                    let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
                    let result = if seen.contains(&canonical) {
                        Err(refused(
                            "a plugin that is not loaded yet",
                            "the same file, loaded from an earlier entry",
                        ))
                    } else {
                        seen.push(canonical);
                        loader::load(&path)
                    };
                    (path, result)
                }
            };
            registry.add(Some(path), result);
        }
        // SAFETY: our own header.
        let linked = unsafe { loader::checked(glue::linked("program", env!("CARGO_PKG_VERSION"))) };
        registry.add(None, linked);
        registry
    }

    fn add(&mut self, path: Option<PathBuf>, result: Result<loader::Plugin, Outcome>) {
        let index = self.plugins.len();
        let mut plugin = Plugin { path, name: None, refusals: Vec::new(), implementations: Vec::new() };
        match result {
            Err(outcome) => plugin.refusals.push((None, outcome)),
            Ok(loaded) => {
                if plugin.path.is_some() {
                    plugin.name = Some(format!("{} {}", loaded.name, loaded.version));
                }
                plugin.implementations = loaded.implementations;
                for backend in loaded.backends {
                    match backend {
                        Err((key, outcome)) => {
                            plugin.refusals.push((Some(key).filter(|k| !k.is_empty()), outcome));
                        }
                        Ok(api) => {
                            // SAFETY: checked, lives for ever.
                            let key = unsafe { api.key.text() };
                            if let Some(first) = self.backends.iter().find(|b| b.key == key) {
                                let by = match &self.plugins.get(first.plugin).and_then(|p| p.path.as_ref()) {
                                    Some(path) => path.display().to_string(),
                                    None => "this plugin".to_owned(),
                                };
                                let outcome = refused(
                                    format!("a runtime key of its own, not `{key}`"),
                                    format!("a key that {by} has already"),
                                );
                                plugin.refusals.push((Some(key), outcome));
                            } else {
                                self.backends.push(Backend {
                                    key,
                                    api,
                                    plugin: index,
                                    devices: OnceLock::new(),
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
        match self.plugins.get(plugin).and_then(|p| p.path.as_ref()) {
            Some(path) => path.display().to_string(),
            None => "embedded".to_owned(),
        }
    }

    /// Where an implementation is from, for messages.
    pub fn origin_of(&self, found: RegisteredImplementation) -> String {
        self.origin(found.plugin)
    }

    /// All implementations, in path order, those of the program last.
    pub fn implementations(&self) -> impl Iterator<Item = RegisteredImplementation> {
        self.plugins.iter().enumerate().flat_map(|(plugin, p)| {
            p.implementations.iter().map(move |&raw| RegisteredImplementation { raw, plugin })
        })
    }

    /// The first backend's threads that run work of the host.
    pub fn workers(&self) -> Option<&'static abi::workers::Workers> {
        self.backends.iter().find_map(|backend| {
            let extension = backend.api.get_extension?;
            // SAFETY: a checked vtable; the text lives for the call; the extension is of this type, and lives for ever.
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
        let mut last: Option<&str> = None;
        for part in key.split(',').map(str::trim) {
            let (name, index) = match (part.split_once(':'), last) {
                (Some((name, index)), _) => (name, Some(index)),
                (None, Some(name)) if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) => {
                    (name, Some(part))
                }
                (None, _) => (part, None),
            };
            last = Some(name);
            let devices = match name {
                "ALL" | "ALL_ACCEL" if index.is_none() => self.group(key)?,
                "ALL" | "ALL_ACCEL" => {
                    return Err(self.key_error(key, "a group has no numbered devices; name a backend".into()));
                }
                _ => self.devices_of(key, name, index)?,
            };
            for device in devices {
                if !chosen.iter().any(|d| d.id == device.id) {
                    chosen.push(device);
                }
            }
        }
        Ok(chosen)
    }

    /// The best of everything: fastest first, one device per physical id, none that is emulated or for
    /// tests. Plugins that were refused might have been among them: that is said once.
    fn group(&self, key: &str) -> Result<Vec<&'static DeviceHandle>, Error> {
        let mut all: Vec<&'static DeviceHandle> =
            self.backends.iter().filter_map(|b| self.probe(b).ok()).flatten().copied().collect();
        all.retain(|d| !d.info.emulated && !d.info.test);
        all.sort_by(|a, b| b.info.rate_hint.total_cmp(&a.info.rate_hint));
        let mut group: Vec<&'static DeviceHandle> = Vec::new();
        for device in all {
            if !group.iter().any(|d| overlap(&d.info.physical_id, &device.info.physical_id)) {
                group.push(device);
            }
        }
        if group.is_empty() {
            return Err(self.key_error(key, "no device was found".into()));
        }
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            for (key, line) in self.refused() {
                // Another one that has its key is what somebody wanted. Who has no standard error is not told.
                if !self.backends.iter().any(|b| b.key == key) {
                    let _ = writeln!(std::io::stderr(), "flash: a plugin is left out: {line}");
                }
            }
        });
        Ok(group)
    }

    /// What is not in order, each with the key that it has or wants, if that is known, and a line for people.
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
        index: Option<&str>,
    ) -> Result<Vec<&'static DeviceHandle>, Error> {
        let Some(backend) = self.backends.iter().find(|b| b.key == name) else {
            let text = if name.is_empty() {
                "a key is empty".to_owned()
            } else {
                format!("there is no backend `{name}`")
            };
            return Err(self.key_error(key, text));
        };
        let devices = self
            .probe(backend)
            .map_err(|why| self.key_error(key, format!("`{name}` is unavailable: {why}")))?;
        let Some(index) = index else {
            return match devices.is_empty() {
                true => Err(self.key_error(key, format!("`{name}` has no devices"))),
                false => Ok(devices.clone()),
            };
        };
        let found: Vec<&'static DeviceHandle> = match index.parse::<usize>() {
            Ok(number) => devices.get(number).copied().into_iter().collect(),
            Err(_) => devices.iter().filter(|d| d.info.class.name() == index).copied().collect(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        let there: Vec<String> =
            devices.iter().map(|d| format!("{} ({})", d.id(), d.info.class.name())).collect();
        Err(self.key_error(
            key,
            format!(
                "there is no device `{name}:{index}`; a number or a class (cpu, gpu, fpga, other) selects of {}",
                there.join(", ")
            ),
        ))
    }

    fn probe<'a>(&'a self, backend: &'a Backend) -> Result<&'a Vec<&'static DeviceHandle>, String> {
        backend.devices.get_or_init(|| open(&backend.key, backend.api)).as_ref().map_err(Clone::clone)
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

    fn report(&self) -> Vec<BackendReport> {
        let mut reports = Vec::new();
        for (index, plugin) in self.plugins.iter().enumerate() {
            let origin = self.origin(index);
            let implementations: Vec<String> = plugin
                .implementations
                .iter()
                // SAFETY: strings of implementations live for ever.
                .map(|i| unsafe { format!("{} {} ({})", i.kernel.text(), i.name.text(), i.target.text()) })
                .collect();
            let blank = BackendReport {
                key: None,
                plugin: origin,
                name: plugin.name.clone(),
                outcome: Outcome::Available,
                devices: Vec::new(),
                implementations: Vec::new(),
            };
            let first = reports.len();
            for backend in self.backends.iter().filter(|b| b.plugin == index) {
                let (outcome, devices) = match self.probe(backend) {
                    Ok(devices) => (Outcome::Available, devices.iter().map(|d| d.report()).collect()),
                    Err(reason) => (Outcome::Unavailable { reason }, Vec::new()),
                };
                reports.push(BackendReport {
                    key: Some(backend.key.clone()),
                    outcome,
                    devices,
                    ..blank.clone()
                });
            }
            for (key, outcome) in &plugin.refusals {
                reports.push(BackendReport { key: key.clone(), outcome: outcome.clone(), ..blank.clone() });
            }
            if reports.len() == first && !(plugin.path.is_none() && implementations.is_empty()) {
                reports.push(blank);
            }
            if let Some(report) = reports.get_mut(first) {
                report.implementations = implementations;
            }
        }
        reports
    }
}

/// Everything that was found, for people to read. Looks for all devices.
pub fn list() -> Vec<BackendReport> {
    registry().report()
}

/// True if two physical ids are, or contain, the same device: `cpu` contains `cpu/1`.
fn overlap(a: &str, b: &str) -> bool {
    let inside = |part: &str, whole: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('/'));
    !a.is_empty() && (a == b || inside(a, b) || inside(b, a))
}

fn open(key: &str, api: &'static BackendApi) -> Result<Vec<&'static DeviceHandle>, String> {
    let describe = |e: Error| match e {
        Error::Backend { text, .. } => text,
        other => other.to_string(),
    };
    let missing = || "a required slot is NULL".to_owned();
    // SAFETY: a checked vtable, called as it says, and its own errors.
    unsafe {
        take_error((api.probe.ok_or_else(missing)?)()).map_err(describe)?;
        let (mut raw, mut count) = (std::ptr::null(), 0);
        take_error((api.devices.ok_or_else(missing)?)(&mut raw, &mut count)).map_err(describe)?;
        let mut handles = Vec::new();
        if count > 0 && raw.is_null() {
            return Err(format!("`devices` gave a list of {count} that is NULL"));
        }
        for i in 0..count {
            let raw = *raw.add(i);
            if raw.is_null() {
                return Err(format!("`devices` gave a list whose element {i} is NULL"));
            }
            let mut info: abi::DeviceInfo = std::mem::zeroed();
            info.struct_size = size_of::<abi::DeviceInfo>() as u32;
            take_error((api.device_info.ok_or_else(missing)?)(raw, &mut info)).map_err(describe)?;
            let handle = DeviceHandle {
                api,
                raw,
                target: api.target.text(),
                id: format!("{key}:{i}"),
                info: device_info(&info),
                memory: OnceLock::new(),
                lanes: OnceLock::new(),
                preloaded: AtomicBool::new(false),
            };
            let handle: &'static DeviceHandle = Box::leak(Box::new(handle));
            if api.forget_host.is_some() {
                host_handles::add(handle);
            }
            handles.push(handle);
        }
        Ok(handles)
    }
}

unsafe fn device_info(raw: &abi::DeviceInfo) -> DeviceInfo {
    let flag = |flag: u32| raw.flags & flag != 0;
    // SAFETY: strings of a device live for ever.
    unsafe {
        DeviceInfo {
            class: match raw.class {
                abi::CLASS_CPU => Class::Cpu,
                abi::CLASS_GPU => Class::Gpu,
                abi::CLASS_FPGA => Class::Fpga,
                _ => Class::Other,
            },
            emulated: flag(abi::DEVICE_EMULATED),
            test: flag(abi::DEVICE_TEST),
            host_memory: flag(abi::DEVICE_HOST_MEMORY),
            threads: raw.threads,
            name: raw.name.text(),
            vendor: raw.vendor.text(),
            version: raw.version.text(),
            physical_id: raw.physical_id.text(),
            rate_hint: raw.rate_hint,
            memory_bytes: raw.memory_bytes,
            features: raw.features.text(),
        }
    }
}
