//! The configuration: one JSON file with the hosts, the functions and the platforms of a program.
//!
//! It is read as a whole: every fault is found, each with its line and column, and a configuration is only
//! made of a file without any. `schema.json` says the same for editors.

mod json;

pub use json::Fault;

use crate::attributes::{Attribute, Attributes, Overrides};
use crate::error::{Code, Error, Result};
use crate::functions::FUNCTIONS;
use json::{Reader, kind};
use jsonc_parser::ast::{Object, Value};
use std::path::Path;

/// The schema of the file, for editors.
pub const SCHEMA: &str = include_str!("schema.json");

/// The devices that an entry has if nothing says other ones.
pub const DEFAULT_KEY: &str = "ALL_ACCEL";

/// The platform of the paper's example, which needs no entry.
pub const ROUND_ROBIN: &str = "rr_scat";

/// Parent ranks at most.
pub const PARENTS: u32 = 64;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where parent ranks run.
    pub hosts: Vec<Host>,
    /// The functions that may be claimed.
    pub functions: Vec<Function>,
    /// How devices are chosen.
    pub platforms: Vec<Platform>,
}

/// A host of parent ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Parent ranks there.
    pub slots: u32,
}

/// A function that may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in claims.
    pub alias: String,
    /// Which kernel, and on which devices.
    pub attributes: Attributes,
    /// Aliases of the functions that it consists of, one after the other. Empty: it is one itself.
    pub pipeline: Vec<String>,
    /// The number of devices of a child rank.
    pub repl: u32,
    /// The entry of `platform_list`.
    pub platform: String,
    /// A runtime key, in place of the platform's.
    pub key: Option<String>,
    /// It is not in `func_list`: its kernel is one that a package has under this alias.
    pub is_packaged: bool,
}

/// How devices are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Its name in functions.
    pub id: String,
    /// The rule.
    pub strategy: Strategy,
    /// The runtime key of its devices.
    pub key: String,
}

/// A rule for the choice of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest child ranks and messages.
    LeastLoaded,
    /// The one that was measured to be the fastest; each is tried once.
    Fastest,
    /// The first of the key.
    Pinned,
}

impl Strategy {
    const ALL: [(&'static str, Strategy); 4] = [
        ("round_robin", Strategy::RoundRobin),
        ("least_loaded", Strategy::LeastLoaded),
        ("fastest", Strategy::Fastest),
        ("pinned", Strategy::Pinned),
    ];
}

/// What is said of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The configuration, if there is no fault.
    pub config: Option<Config>,
    /// Why there is none, in the order of the file.
    pub faults: Vec<Fault>,
    /// What has no effect.
    pub warnings: Vec<Fault>,
}

impl Default for Config {
    /// The functions of the library under the aliases of the paper, and `MVM`, in turn on all devices.
    fn default() -> Config {
        let functions = FUNCTIONS.iter().map(|known| {
            let mut attributes = Attributes::default();
            attributes.set(Attribute::SwFid, known.sw_fid);
            Function::new(known.alias, attributes)
        });
        Config { hosts: Vec::new(), functions: functions.collect(), platforms: Vec::new() }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Code::Config`] if it cannot be read, or has faults: all of them, with the file's name, line and
    /// column.
    pub fn load(path: &Path) -> Result<(Config, Vec<Fault>)> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(Code::Config, format!("expected a configuration in {name}, found none: {error}"))
        })?;
        let Report { config, faults, warnings } = Config::parse(&text);
        match config {
            Some(config) => Ok((config, warnings)),
            None => {
                let faults: Vec<String> = faults.iter().map(|fault| format!("{name}:{fault}")).collect();
                Err(Error::new(Code::Config, faults.join("\n")))
            }
        }
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Report {
        let mut reader = Reader::new(text);
        let config = reader.parse().and_then(|value| read(&mut reader, &value));
        let Reader { mut faults, mut warnings, .. } = reader;
        for list in [&mut faults, &mut warnings] {
            list.sort_by_key(|fault| (fault.line, fault.column));
        }
        Report { config: config.filter(|_| faults.is_empty()), faults, warnings }
    }

    /// Parent ranks of all hosts, at least 1.
    pub fn parents(&self) -> u32 {
        self.hosts.iter().map(|host| host.slots).sum::<u32>().max(1)
    }

    /// The runtime keys that it has.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let of_functions = self.functions.iter().filter_map(|function| function.key.as_deref());
        of_functions.chain(self.platforms.iter().map(|platform| &*platform.key))
    }

    /// The function of an alias.
    ///
    /// # Errors
    /// [`Code::Alias`] lists the known aliases.
    pub fn function(&self, alias: &str) -> Result<&Function> {
        self.functions.iter().find(|function| function.alias == alias).ok_or_else(|| {
            let known: Vec<&str> = self.functions.iter().map(|function| &*function.alias).collect();
            let text = format!(
                "expected an alias of `func_list` ({}), found `{alias}`: add it to the configuration",
                known.join(", ")
            );
            Error::new(Code::Alias, text)
        })
    }

    /// The platform of a name.
    ///
    /// # Errors
    /// [`Code::Config`] lists the known platforms.
    pub fn platform(&self, id: &str) -> Result<Platform> {
        if let Some(platform) = self.platforms.iter().find(|platform| platform.id == id) {
            return Ok(platform.clone());
        }
        if id == ROUND_ROBIN {
            let (id, key) = (ROUND_ROBIN.to_owned(), DEFAULT_KEY.to_owned());
            return Ok(Platform { id, strategy: Strategy::RoundRobin, key });
        }
        Err(Error::new(
            Code::Config,
            unknown_platform(id, self.platforms.iter().map(|platform| &*platform.id)),
        ))
    }

    /// A function with what a claim changes of it. An alias that is not in `func_list` may be one that a
    /// package has.
    ///
    /// # Errors
    /// As [`function`](Self::function) and [`platform`](Self::platform).
    pub fn claimed(
        &self,
        alias: &str,
        overrides: &Overrides,
        is_packaged: impl FnOnce() -> bool,
    ) -> Result<(Function, Platform)> {
        let mut function = match self.function(alias) {
            Ok(function) => function.clone(),
            Err(_) if is_packaged() => {
                Function { is_packaged: true, ..Function::new(alias, Attributes::default()) }
            }
            Err(error) => return Err(error),
        };
        function.change(overrides);
        let mut platform = self.platform(&function.platform)?;
        if let Some(key) = &function.key {
            platform.key.clone_from(key);
        }
        Ok((function, platform))
    }
}

impl Function {
    /// One device of all, in turn.
    fn new(alias: &str, attributes: Attributes) -> Function {
        Function {
            alias: alias.to_owned(),
            attributes,
            pipeline: Vec::new(),
            repl: 1,
            platform: ROUND_ROBIN.to_owned(),
            key: None,
            is_packaged: false,
        }
    }

    fn change(&mut self, overrides: &Overrides) {
        for attribute in Attribute::ALL {
            if let Some(pattern) = overrides.attributes.get(attribute) {
                self.attributes.set(attribute, pattern);
            }
        }
        self.repl = overrides.func_repl.unwrap_or(self.repl);
        if let Some(id) = &overrides.platform_id {
            self.platform.clone_from(id);
        }
        self.key = overrides.key.clone().or(self.key.take());
    }
}

fn unknown_platform<'p>(id: &str, known: impl Iterator<Item = &'p str>) -> String {
    let known: Vec<&str> = std::iter::once(ROUND_ROBIN).chain(known).collect();
    format!("platform_id: expected one of `platform_list` ({}), found `{id}`", known.join(", "))
}

fn read<'t>(reader: &mut Reader<'t>, value: &Value<'t>) -> Option<Config> {
    let Some(object) = value.as_object() else {
        reader.fault(value, format!("expected an object with `func_list`, found {}", kind(value)));
        return None;
    };
    let mut config = Config { hosts: Vec::new(), functions: Vec::new(), platforms: Vec::new() };
    let mut functions: Vec<&Object<'_>> = Vec::new();
    let known = ["$schema", "host_list", "func_list", "platform_list"];
    let members = reader.members(object, "the configuration", &known);
    for (name, member) in &members {
        match *name {
            "host_list" => {
                let hosts = reader.objects(&member.value, name);
                config.hosts = hosts.iter().filter_map(|host| read_host(reader, host)).collect();
                if config.parents() > PARENTS || config.hosts.iter().any(|host| host.slots > PARENTS) {
                    reader.fault(
                        *member,
                        format!("expected at most {PARENTS} parent ranks (max_slots) in all"),
                    );
                }
            }
            "platform_list" => {
                for platform in reader.objects(&member.value, name) {
                    let Some(read) = read_platform(reader, platform) else { continue };
                    if config.platforms.iter().any(|other| other.id == read.id) {
                        reader.fault(platform, format!("there are two platforms `{}`", read.id));
                    }
                    config.platforms.push(read);
                }
            }
            "func_list" => functions = reader.objects(&member.value, name),
            _ => {}
        }
    }
    if !members.iter().any(|(name, _)| *name == "func_list") {
        reader.fault(object, "expected `func_list`, the functions that may be claimed, found none");
    }
    // After the platforms, wherever those are in the file.
    for object in &functions {
        let Some(read) = read_function(reader, object, &config.platforms) else { continue };
        if config.functions.iter().any(|other| other.alias == read.alias) {
            reader.fault(*object, format!("there are two functions `{}`", read.alias));
        }
        config.functions.push(read);
    }
    for object in functions {
        check_pipeline(reader, object, &config);
    }
    Some(config)
}

fn read_host<'t>(reader: &mut Reader<'t>, object: &Object<'t>) -> Option<Host> {
    let (mut name, mut slots) = (None, Some(1));
    for (member, at) in reader.members(object, "a host", &["host_name", "port", "mode", "max_slots"]) {
        match member {
            "host_name" => name = reader.text(&at.value, member),
            "max_slots" => slots = reader.number(&at.value, member, PARENTS),
            _ => reader.warn(at, format!("`{member}` is kept, and nothing uses it")),
        }
    }
    if name.is_none() && object.get("host_name").is_none() {
        reader.fault(object, "expected `host_name`, found none");
    }
    Some(Host { name: name?, slots: slots? })
}

fn read_platform<'t>(reader: &mut Reader<'t>, object: &Object<'t>) -> Option<Platform> {
    let (mut id, mut strategy, mut key) = (None, Some(Strategy::RoundRobin), None);
    for (member, at) in reader.members(object, "a platform", &["platform_id", "strategy", "key"]) {
        match member {
            "platform_id" => id = reader.text(&at.value, member),
            "key" => key = reader.text(&at.value, member),
            _ => {
                let name = reader.text(&at.value, member);
                strategy = name.and_then(|name| {
                    let found = Strategy::ALL.iter().find(|(known, _)| *known == name);
                    if found.is_none() {
                        let known = Strategy::ALL.map(|(known, _)| known).join(", ");
                        reader.fault(&at.value, format!("strategy: expected one of {known}, found `{name}`"));
                    }
                    found.map(|(_, strategy)| *strategy)
                });
            }
        }
    }
    if object.get("platform_id").is_none() {
        reader.fault(object, "expected `platform_id`, found none");
    }
    if strategy == Some(Strategy::Pinned) && object.get("key").is_none() {
        reader.fault(object, "expected `key` beside the strategy pinned, such as \"ALL_CPU:0\", found none");
    }
    Some(Platform { id: id?, strategy: strategy?, key: key.unwrap_or_else(|| DEFAULT_KEY.to_owned()) })
}

fn read_function<'t>(
    reader: &mut Reader<'t>,
    object: &Object<'t>,
    platforms: &[Platform],
) -> Option<Function> {
    let mut function = Function::new("", Attributes::default());
    let mut known = vec!["func_alias", "func_repl", "platform_id", "key", "pipeline"];
    known.extend(Attribute::ALL.map(Attribute::name));
    let faults = reader.faults.len();
    for (member, at) in reader.members(object, "a function", &known) {
        match member {
            "func_alias" => function.alias = reader.text(&at.value, member).unwrap_or_default(),
            "func_repl" => function.repl = reader.number(&at.value, member, 1024).unwrap_or(1),
            "key" => function.key = reader.text(&at.value, member),
            "platform_id" => {
                let Some(id) = reader.text(&at.value, member) else { continue };
                if id != ROUND_ROBIN && !platforms.iter().any(|platform| platform.id == id) {
                    let known = platforms.iter().map(|platform| &*platform.id);
                    reader.fault(&at.value, unknown_platform(&id, known));
                }
                function.platform = id;
            }
            "pipeline" => {
                let Some(array) = reader.array(&at.value, member) else { continue };
                let aliases = array.elements.iter().filter_map(|one| reader.text(one, member));
                function.pipeline = aliases.collect();
                if array.elements.is_empty() {
                    reader.fault(&at.value, "pipeline: expected at least one alias, found none");
                }
            }
            name => {
                let pattern = reader.text(&at.value, name);
                let attribute = Attribute::ALL.into_iter().find(|attribute| attribute.name() == name);
                if let (Some(attribute), Some(pattern)) = (attribute, pattern) {
                    function.attributes.set(attribute, pattern);
                }
            }
        }
    }
    if object.get("func_alias").is_none() {
        reader.fault(object, "expected `func_alias`, found none");
    }
    if !["sw_fid", "sw_clid", "pipeline"].iter().any(|name| object.get(name).is_some()) {
        let text = "expected `sw_fid` or `sw_clid`, by which a kernel is found, or `pipeline`, found none";
        reader.fault(object, text);
    }
    if let (Some(member), Some(_)) = (object.get("pipeline"), object.get("sw_fid").or(object.get("sw_clid")))
    {
        reader.fault(member, "expected `pipeline` or a kernel of its own, found both");
    }
    (reader.faults.len() == faults).then_some(function)
}

/// The functions of a pipeline are in the list, and are no pipelines.
fn check_pipeline(reader: &mut Reader<'_>, object: &Object<'_>, config: &Config) {
    let Some(array) = object.get_array("pipeline") else { return };
    for element in &array.elements {
        let Some(alias) = element.as_string_lit() else { continue };
        match config.functions.iter().find(|function| function.alias == alias.value) {
            None => {
                let text = format!("pipeline: expected an alias of `func_list`, found `{}`", alias.value);
                reader.fault(element, text);
            }
            Some(function) if !function.pipeline.is_empty() => {
                let text = format!(
                    "pipeline: expected functions with kernels, found the pipeline `{}`",
                    alias.value
                );
                reader.fault(element, text);
            }
            Some(_) => {}
        }
    }
}
