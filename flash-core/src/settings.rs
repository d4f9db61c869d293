//! All settings, their defaults from the environment, and the builder of a [`Context`].
//!
//! [`SETTINGS`] is the list of all settings, with those of the backends of this project. The environment
//! gives defaults and is read once, here and nowhere else. A context has the settings that its builder gives,
//! and those of the environment for the rest. Some belong to the process: the first context fixes them, and a
//! later one that asks for another value is refused. A backend gets all settings when it looks for its
//! devices ([`Backend::probe`](crate::backend::Backend::probe)), and reads no environment variable itself.

use crate::error::Error;
use crate::notice::notice;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// What a value of a setting looks like.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `1`, `true`, `yes` or `on`, and `0`, `false`, `no` or `off`.
    Flag,
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// Any text: the code that uses it checks it.
    Text,
}

/// One setting.
pub(crate) struct Setting {
    /// Its name; that of a backend's own has a dot.
    pub name: &'static str,
    /// The environment variable that gives its default.
    pub variable: &'static str,
    kind: Kind,
    /// The same for all contexts of a process.
    of_process: bool,
}

const fn setting(name: &'static str, variable: &'static str, kind: Kind) -> Setting {
    Setting { name, variable, kind, of_process: false }
}

const fn of_process(name: &'static str, variable: &'static str, kind: Kind) -> Setting {
    Setting { name, variable, kind, of_process: true }
}

/// All settings. The table of [`Settings`] says what they mean.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("plugin_path", "FLASH_BACKEND_PATH", Kind::Text),
    of_process("check_bounds", "FLASH_CHECK_BOUNDS", Kind::Flag),
    of_process("check_maps", "FLASH_CHECK_MAPS", Kind::Flag),
    setting("check_writes", "FLASH_CHECK_WRITES", Kind::Flag),
    of_process("host_budget", "FLASH_HOST_BUDGET", Kind::Number(0..=u64::MAX)),
    setting("host_granule", "FLASH_HOST_GRANULE", Kind::Number(1..=u32::MAX as u64)),
    of_process("allow_world_writable", "FLASH_ALLOW_WORLD_WRITABLE", Kind::Flag),
    of_process("cache_dir", "FLASH_CACHE_DIR", Kind::Text),
    of_process("cache_limit", "FLASH_CACHE_LIMIT", Kind::Number(0..=u64::MAX)),
    of_process("threads", "FLASH_CPU_THREADS", Kind::Number(1..=1024)),
    of_process("stack_size", "FLASH_STACK_SIZE", Kind::Number(1 << 16..=1 << 32)),
    of_process("cpu.linger_us", "FLASH_CPU_LINGER_US", Kind::Number(0..=10_000_000)),
    of_process("blocking_threads", "FLASH_BLOCKING_THREADS", Kind::Number(1..=1024)),
    setting("cpu.devices", "FLASH_CPU_DEVICES", Kind::Number(1..=1024)),
    setting("cpu.copy", "FLASH_CPU_COPY", Kind::Flag),
    setting("cpu.throttle", "FLASH_CPU_THROTTLE", Kind::Text),
    setting("test.setup", "FLASH_TEST", Kind::Text),
    setting("opencl.copy", "FLASH_OPENCL_COPY", Kind::Flag),
];

/// The settings of a [`Context`](crate::Context) to be made, see
/// [`Context::builder`](crate::Context::builder).
///
/// | name | environment | value | default |
/// |---|---|---|---|
/// | `plugin_path` | `FLASH_BACKEND_PATH` | directories and files of plugins, separated by colons | `flash-backends` beside the program |
/// | `check_writes` | `FLASH_CHECK_WRITES` | flag: check that kernels write all that they promise to | 0 |
/// | `check_bounds` (p) | `FLASH_CHECK_BOUNDS` | flag: check the indices of `FLASH_AT` in kernels that devices compile and, before each launch, what kernels index with, see [`ContentsCheck`](crate::kernel::ContentsCheck) | 0 |
/// | `check_maps` (p) | `FLASH_CHECK_MAPS` | flag: cut every launch that may be cut, on one device, too, and check that each part stays inside the boxes that its map says; in kernels that devices compile, indices of `FLASH_AT` are checked | 0 |
/// | `host_budget` (p) | `FLASH_HOST_BUDGET` | bytes of the host's memory that arrays of 4 MiB and more are to take | no limit |
/// | `host_granule` | `FLASH_HOST_GRANULE` | bytes that the host fetches at least from a device's memory | 65536 |
/// | `allow_world_writable` (p) | `FLASH_ALLOW_WORLD_WRITABLE` | flag: also load plugins that every user can write | 0 |
/// | `cache_dir` (p) | `FLASH_CACHE_DIR` | folder of compiled programs | `flash` in `XDG_CACHE_HOME` or `~/.cache` |
/// | `cache_limit` (p) | `FLASH_CACHE_LIMIT` | bytes of all of them; 0: none is kept | 512 MiB |
/// | `threads` (p) | `FLASH_CPU_THREADS` | threads that run kernels, 1 to 1024 | what affinity and cgroups allow |
/// | `stack_size` (p) | `FLASH_STACK_SIZE` | bytes of the stack of each of those threads, 64 KiB to 4 GiB | 8 MiB |
/// | `blocking_threads` (p) | `FLASH_BLOCKING_THREADS` | extra threads, at most, for functions of the host that block and for pipelines that wait for devices, 1 to 1024 | 8 |
/// | `cpu.linger_us` (p) | `FLASH_CPU_LINGER_US` | microseconds that an idle thread waits before it parks | 200 |
/// | `cpu.devices` | `FLASH_CPU_DEVICES` | devices that the threads are split into, 1 to 1024 | 1 |
/// | `cpu.copy` | `FLASH_CPU_COPY` | flag: each of those devices has a memory of its own; for tests | 0 |
/// | `cpu.throttle` | `FLASH_CPU_THROTTLE` | fraction of its speed at which each device runs, such as `1,0.5`; for tests | 1 |
/// | `test.setup` | `FLASH_TEST` | devices of the test backend, such as `devices=2 ns=0,100` | `devices=1` |
/// | `opencl.copy` | `FLASH_OPENCL_COPY` | flag: OpenCL devices that could use the host's memory get memories of their own; for tests | 0 |
///
/// A flag is `1`, `true`, `yes` or `on`, or `0`, `false`, `no` or `off`. An environment variable that is
/// empty counts as unset. One whose value does not fit is reported once on standard error, and the default
/// holds; so is one whose name is nearly that of a setting.
///
/// Settings with (p) are the process's: the first context that is made fixes them, and a later one that asks
/// for another value is refused.
///
/// # Examples
/// ```
/// use flash_core::Context;
/// let context = Context::builder().set("check_writes", true).set("plugin_path", "/opt/flash").build()?;
/// assert!(Context::builder().set("check_write", true).build().is_err()); // no such setting
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "settings do nothing until `build` makes a context of them"]
pub struct Settings {
    /// By name, as their kinds write them.
    values: BTreeMap<&'static str, String>,
    /// The first that was refused.
    error: Option<Error>,
}

impl Settings {
    /// Sets one of the settings in the table above, in place of what the environment says. `build` refuses a
    /// name that is not in it, and a value that does not fit.
    pub fn set(mut self, name: &str, value: impl ToString) -> Settings {
        let set = known(name).and_then(|setting| {
            let value = setting.kind.parse(&value.to_string()).map_err(|text| refusal(name, text))?;
            self.values.insert(setting.name, value);
            Ok(())
        });
        self.error = self.error.take().or(set.err());
        self
    }

    /// With those of the environment and of the process.
    pub(crate) fn resolve(self) -> Result<Settings, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut values = environment().values.clone();
        values.extend(self.values.clone());
        let of_process = || SETTINGS.iter().filter(|setting| setting.of_process);
        let fixed = PROCESS.get_or_init(|| {
            let value = |setting: &Setting| Some((setting.name, values.get(setting.name)?.clone()));
            of_process().filter_map(value).collect()
        });
        for setting in of_process() {
            let (asked, has) = (self.values.get(setting.name), fixed.get(setting.name));
            if let Some(asked) = asked.filter(|asked| Some(*asked) != has) {
                let has = has.map_or_else(|| "the default".to_owned(), |has| format!("`{has}`"));
                let text = format!(
                    "expected {has}, with which the first context of this process was made, found `{asked}`: give it to the first context, before anything else uses FLASH"
                );
                return Err(refusal(setting.name, text));
            }
            match has {
                Some(has) => values.insert(setting.name, has.clone()),
                None => values.remove(setting.name),
            };
        }
        Ok(Settings { values, error: None })
    }

    /// The text of a setting, if it is set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// True if a flag is set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// A number, if it is set.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// All that are set, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// Those of the process, from its first context.
static PROCESS: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

/// True if a flag of the process is set.
pub(crate) fn process_flag(name: &str) -> bool {
    match PROCESS.get() {
        Some(fixed) => fixed.get(name).is_some_and(|value| value == "1"),
        None => environment().flag(name),
    }
}

/// A number of the process, if it is set.
pub(crate) fn process_number(name: &str) -> Option<u64> {
    match PROCESS.get() {
        Some(fixed) => fixed.get(name)?.parse().ok(),
        None => environment().number(name),
    }
}

fn refusal(setting: &str, text: String) -> Error {
    Error::Setting { setting: setting.to_owned(), text }
}

fn known(name: &str) -> Result<&'static Setting, Error> {
    SETTINGS.iter().find(|setting| setting.name == name).ok_or_else(|| {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        refusal(name, format!("expected the name of a setting, one of {}", names.join(", ")))
    })
}

impl Kind {
    /// The value as it is kept, or what is wrong with it.
    fn parse(&self, text: &str) -> Result<String, String> {
        let trimmed = text.trim();
        match self {
            Kind::Text => Ok(text.to_owned()),
            Kind::Flag => match trimmed.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok("1".into()),
                "0" | "false" | "no" | "off" => Ok("0".into()),
                _ => Err(format!("expected 1 or true, or 0 or false, found `{text}`")),
            },
            Kind::Number(range) => match trimmed.parse::<u64>() {
                Ok(number) if range.contains(&number) => Ok(number.to_string()),
                _ => Err(format!(
                    "expected a whole number from {} to {}, found `{text}`",
                    range.start(),
                    range.end()
                )),
            },
        }
    }
}

/// What the environment says, read at the first call.
pub(crate) fn environment() -> &'static Settings {
    static ENVIRONMENT: OnceLock<Settings> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        if is_privileged() {
            return Settings::default();
        }
        let (settings, variables) = read(std::env::vars_os());
        for variable in variables {
            if let VariableState::Wrong(complaint) = variable.state {
                notice(format_args!("{complaint}"));
            }
        }
        settings
    })
}

/// True in a program that has more rights than the user who started it (set-user-id, set-group-id or with
/// capabilities): the environment is that user's, and must not choose what is loaded.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn is_privileged() -> bool {
    // SAFETY: it reads a number that the kernel gave to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn is_privileged() -> bool {
    false
}

/// A variable of the environment that begins with `FLASH_`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, for display.
    pub value: String,
    /// What becomes of it.
    pub state: VariableState,
}

/// What becomes of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableState {
    /// It gives a setting its value.
    Holds,
    /// It is empty, which counts as unset.
    Empty,
    /// It is no setting, and is like none.
    Unknown,
    /// Its value does not fit, or its name is nearly that of a setting: what is wrong, and what holds.
    Wrong(String),
    /// This program has more rights than its user, whose environment it does not obey.
    NotObeyed,
}

impl Settings {
    /// The variables of the environment that begin with `FLASH_`, by name.
    pub fn variables() -> Vec<Variable> {
        let (_, mut variables) = read(std::env::vars_os());
        if is_privileged() {
            variables.iter_mut().for_each(|variable| variable.state = VariableState::NotObeyed);
        }
        variables
    }
}

/// The settings in some variables, and those variables.
fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> (Settings, Vec<Variable>) {
    let (mut settings, mut found) = (Settings::default(), Vec::new());
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with("FLASH_")) else { continue };
        let near = |setting: &&Setting| distance(setting.variable, name) <= 2;
        let state = if let Some(setting) = SETTINGS.iter().find(|setting| setting.variable == name) {
            match parse(setting, &value) {
                Ok(None) => VariableState::Empty,
                Ok(Some(value)) => {
                    settings.values.insert(setting.name, value);
                    VariableState::Holds
                }
                Err(why) => VariableState::Wrong(format!("{name}: {why}; the default holds")),
            }
        } else if let Some(near) = SETTINGS.iter().find(near) {
            VariableState::Wrong(format!("{name} is no setting: {} is one", near.variable))
        } else {
            VariableState::Unknown
        };
        let value = value.to_string_lossy().into_owned();
        found.push(Variable { name: name.to_owned(), value, state });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    (settings, found)
}

/// The value of a variable; `None`: it is as good as unset.
fn parse(setting: &Setting, value: &OsStr) -> Result<Option<String>, String> {
    match value.to_str() {
        None => Err(format!("expected UTF-8, found {value:?}")),
        // A path of no folders means no plugins.
        Some(text) if text.trim().is_empty() && setting.name != "plugin_path" => Ok(None),
        Some(text) => setting.kind.parse(text).map(Some),
    }
}

/// How many letters have to be put in, taken out or replaced to make one word of the other (Levenshtein's
/// distance).
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let best = (row[j] + 1).min(row[j + 1] + 1).min(diagonal + usize::from(x != y));
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(variables: &[(&str, &str)]) -> (Settings, Vec<Variable>) {
        read(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn the_environment_gives_values_and_complaints() {
        let (settings, variables) = read_of(&[
            ("FLASH_CPU_THREADS", ""),
            ("FLASH_CPU_DEVICES", " 3 "),
            ("FLASH_CHECK_WRITES", "true"),
            ("FLASH_CPU_COPY", "off"),
            ("FLASH_BACKEND_PATH", "/a:/b"),
            ("FLASH_HOST_GRANULE", "many"),
            ("FLASH_CPU_LINGER_US", "-1"),
            ("FLASH_CPU_THREAD", "2"),
            ("FLASH_CACHE_DRI", "/c"),
            ("FLASH_ATTENTION", "1"),
            ("PATH", "/bin"),
        ]);
        let values: Vec<_> = settings.iter().collect();
        let expected =
            [("check_writes", "1"), ("cpu.copy", "0"), ("cpu.devices", "3"), ("plugin_path", "/a:/b")];
        assert_eq!(values, expected);
        let state = |name: &str| {
            let found = variables.iter().find(|variable| variable.name == name);
            found.map(|variable| variable.state.clone())
        };
        assert_eq!(state("FLASH_BACKEND_PATH"), Some(VariableState::Holds));
        assert_eq!(state("FLASH_CPU_THREADS"), Some(VariableState::Empty));
        assert_eq!(state("FLASH_ATTENTION"), Some(VariableState::Unknown));
        assert_eq!(state("PATH"), None);
        let complaint = |variable: &Variable| match &variable.state {
            VariableState::Wrong(complaint) => Some(complaint.clone()),
            _ => None,
        };
        let complaints: Vec<_> = variables.iter().filter_map(complaint).collect();
        assert_eq!(
            complaints,
            [
                "FLASH_CACHE_DRI is no setting: FLASH_CACHE_DIR is one",
                "FLASH_CPU_LINGER_US: expected a whole number from 0 to 10000000, found `-1`; the default holds",
                "FLASH_CPU_THREAD is no setting: FLASH_CPU_THREADS is one",
                "FLASH_HOST_GRANULE: expected a whole number from 1 to 4294967295, found `many`; the default holds",
            ]
        );
    }

    #[test]
    fn each_setting_is_in_the_table_of_the_documentation() {
        let documented = include_str!("settings.rs");
        for Setting { name, variable, of_process, .. } in SETTINGS {
            let mark = if *of_process { " (p)" } else { "" };
            let row = format!("/// | `{name}`{mark} | `{variable}` |");
            assert!(documented.contains(&row), "no row {row}");
        }
        assert_eq!(documented.matches("\n/// | `").count(), SETTINGS.len());
    }

    #[test]
    fn names_and_values_that_do_not_fit_are_refused() {
        let refused = |settings: Settings| settings.resolve().unwrap_err().to_string();
        let text = refused(Settings::default().set("check_write", 1).set("cpu.devices", 0));
        assert!(
            text.contains("`check_write`")
                && text.contains("check_bounds, check_maps, check_writes, host_budget"),
            "{text}"
        );
        let text = refused(Settings::default().set("cpu.devices", 0));
        assert_eq!(text, "setting `cpu.devices`: expected a whole number from 1 to 1024, found `0`");
        let resolved = Settings::default().set("cpu.copy", true).set("host_granule", 8).resolve().unwrap();
        assert!(resolved.flag("cpu.copy") && !resolved.flag("check_writes"));
        assert_eq!(resolved.number("host_granule"), Some(8));
    }

    #[test]
    fn settings_of_the_process_are_those_of_its_first_context() {
        let first = Settings::default().resolve().unwrap();
        let same = Settings::default().set("stack_size", 1 << 20).resolve();
        match first.number("stack_size") {
            Some(size) if size == 1 << 20 => drop(same.unwrap()),
            _ => {
                let text = same.unwrap_err().to_string();
                assert!(text.contains("`stack_size`") && text.contains("found `1048576`"), "{text}");
                assert!(text.contains("expected the default") || text.contains("expected `"), "{text}");
            }
        }
    }

    /// Files below a folder that read the environment.
    fn readers(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                readers(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs")
                && std::fs::read_to_string(&path).unwrap().contains("env::var")
            {
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn the_environment_is_read_here_and_nowhere_else() {
        let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        for folder in ["flash-core/src", "flash/src", "flash-cli/src", "backends", "kernels"] {
            readers(&workspace.join(folder), &mut found);
        }
        found.sort();
        // The folder of compiled programs is where the system says that caches are.
        assert_eq!(found, ["cache.rs", "settings.rs"]);
    }
}
