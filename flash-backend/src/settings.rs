//! All settings, and their defaults from the environment.
//!
//! [`SETTINGS`] is the list of all settings, with those of the backends of this project. The environment
//! gives defaults and is read once, here and nowhere else. A context has the settings that its builder gives,
//! and those of the environment for the rest. Some belong to the process: the first context fixes them, and a
//! later one that asks for another value is refused. A backend gets all settings when it looks for its
//! devices ([`Backend::probe`](crate::Backend::probe)), and reads no environment variable itself.

use crate::notice::notice;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// What a value of a setting looks like.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `1`, `true`, `yes` or `on`, and `0`, `false`, `no` or `off`.
    Flag,
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// Any text: the code that uses it checks it.
    Text,
}

/// One setting.
pub struct Setting {
    /// Its name; that of a backend's own has a dot.
    pub name: &'static str,
    /// The environment variable that gives its default.
    pub variable: &'static str,
    /// What its values look like.
    pub kind: Kind,
    /// The same for all contexts of a process.
    pub of_process: bool,
}

const fn setting(name: &'static str, variable: &'static str, kind: Kind) -> Setting {
    Setting { name, variable, kind, of_process: false }
}

const fn of_process(name: &'static str, variable: &'static str, kind: Kind) -> Setting {
    Setting { name, variable, kind, of_process: true }
}

/// All settings. The table of `Settings` in `flash-core` says what they mean.
pub const SETTINGS: &[Setting] = &[
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
    of_process("texts", "FLASH_TEXTS", Kind::Text),
    of_process("graph_dot", "FLASH_GRAPH_DOT", Kind::Text),
    setting("opencl.copy", "FLASH_OPENCL_COPY", Kind::Flag),
    of_process("rank.mpi_lib", "FLASH_MPI_LIB", Kind::Text),
    of_process("rank.mpi_shared", "FLASH_MPI_SHARED", Kind::Number(1..=1 << 20)),
    of_process("rank.timeout_ms", "FLASH_RANK_TIMEOUT_MS", Kind::Number(50..=3_600_000)),
    of_process("halo.config", "FLASH_HALO_CONFIG", Kind::Text),
];

/// Values of settings, by name, as their kinds write them.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<&'static str, String>);

/// Why a setting cannot have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Name of the setting.
    pub setting: String,
    /// Expected, found, what to do.
    pub text: String,
}

impl Values {
    /// Sets one of the [`SETTINGS`].
    ///
    /// # Errors
    /// There is none of this name, or the value does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Refused> {
        let setting = known(name)?;
        let value = setting.kind.parse(value).map_err(|text| refusal(name, text))?;
        self.0.insert(setting.name, value);
        Ok(())
    }

    /// With those of the environment and of the process.
    ///
    /// # Errors
    /// A setting of the process has another value already.
    pub fn resolve(self) -> Result<Values, Refused> {
        let mut values = environment().0.clone();
        values.extend(self.0.clone());
        let of_process = || SETTINGS.iter().filter(|setting| setting.of_process);
        let fixed = PROCESS.get_or_init(|| {
            let value = |setting: &Setting| Some((setting.name, values.get(setting.name)?.clone()));
            of_process().filter_map(value).collect()
        });
        for setting in of_process() {
            let (asked, has) = (self.0.get(setting.name), fixed.get(setting.name));
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
        Ok(Values(values))
    }

    /// The text of a setting, if it is set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// True if a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// A number, if it is set.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// All that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// Those of the process, from its first context.
static PROCESS: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

/// The settings of the default context: those of the environment, and of the process.
pub fn of_default_context() -> &'static Values {
    static DEFAULT: OnceLock<Values> = OnceLock::new();
    let nothing_asked = || Values::default().resolve();
    DEFAULT.get_or_init(|| nothing_asked().unwrap_or_else(|_| unreachable!("nothing was asked for")))
}

/// True if the process has a context, so that the settings of the process do not change any more.
pub fn are_of_a_context() -> bool {
    PROCESS.get().is_some()
}

/// True if a flag of the process is set.
pub fn process_flag(name: &str) -> bool {
    match PROCESS.get() {
        Some(fixed) => fixed.get(name).is_some_and(|value| value == "1"),
        None => environment().flag(name),
    }
}

/// A number of the process, if it is set.
pub fn process_number(name: &str) -> Option<u64> {
    match PROCESS.get() {
        Some(fixed) => fixed.get(name)?.parse().ok(),
        None => environment().number(name),
    }
}

/// The text of a setting of the process, if it is set.
pub fn process_text(name: &str) -> Option<String> {
    match PROCESS.get() {
        Some(fixed) => fixed.get(name).cloned(),
        None => environment().text(name).map(str::to_owned),
    }
}

fn refusal(setting: &str, text: String) -> Refused {
    Refused { setting: setting.to_owned(), text }
}

fn known(name: &str) -> Result<&'static Setting, Refused> {
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
fn environment() -> &'static Values {
    static ENVIRONMENT: OnceLock<Values> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        if is_privileged() {
            return Values::default();
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
pub fn is_privileged() -> bool {
    // SAFETY: it reads a number that the kernel gave to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn is_privileged() -> bool {
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

/// The variables of the environment that begin with `FLASH_`, by name.
pub fn variables() -> Vec<Variable> {
    let (_, mut variables) = read(std::env::vars_os());
    if is_privileged() {
        variables.iter_mut().for_each(|variable| variable.state = VariableState::NotObeyed);
    }
    variables
}

/// The settings in some variables, and those variables.
fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> (Values, Vec<Variable>) {
    let (mut settings, mut found) = (Values::default(), Vec::new());
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with("FLASH_")) else { continue };
        let near = |setting: &&Setting| distance(setting.variable, name) <= 2;
        let state = if let Some(setting) = SETTINGS.iter().find(|setting| setting.variable == name) {
            match parse(setting, &value) {
                Ok(None) => VariableState::Empty,
                Ok(Some(value)) => {
                    settings.0.insert(setting.name, value);
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
pub fn distance(a: &str, b: &str) -> usize {
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

    fn read_of(variables: &[(&str, &str)]) -> (Values, Vec<Variable>) {
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
        let crates = [
            "flash",
            "flash-types",
            "flash-backend",
            "flash-core",
            "flash-conformance",
            "flash-trace",
            "flash-tasks",
            "flash-graph",
            "flash-cli",
        ];
        let sources = crates.map(|name| format!("{name}/src"));
        for folder in sources.iter().map(String::as_str).chain(["backends", "kernels"]) {
            readers(&workspace.join(folder), &mut found);
        }
        found.sort();
        // The folder of compiled programs is where the system says that caches are.
        assert_eq!(found, ["cache.rs", "settings.rs"]);
    }
}
