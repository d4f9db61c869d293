//! Loads plugins: checks the file, opens it, asks it what it brings, checks the answer. A package
//! (`package.rs`) says itself what it brings. What does not pass is refused with what was expected and found;
//! never a crash, never silence.

use super::package::{self, Package};
use super::{DeviceHandle, elf, extension};
use crate::error::Error;
use flash_backend::__host::{
    HOST, LinkedImplementation, linked_backends, linked_implementations, take_query_failure,
};
use flash_backend::{keep_float_state, settings};
use flash_types::abi::{self, BackendApi, Implementation, PluginHeader, PluginQuery};
use flash_types::descriptor::KernelDescriptor;
use std::collections::BTreeMap;
use std::ffi::{OsStr, c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::mem::{MaybeUninit, offset_of};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The state of a plugin or backend.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Outcome {
    /// It can be used.
    Available,
    /// It is valid, but there is no driver or no device.
    Unavailable {
        /// Why.
        reason: String,
    },
    /// It is not valid.
    Refused {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Available => f.write_str("available"),
            Outcome::Unavailable { reason } => write!(f, "unavailable: {reason}"),
            Outcome::Refused { expected, found } => {
                write!(f, "refused: expected {expected}, found {found}")
            }
        }
    }
}

/// True if programs can write a key, and it names no group of devices.
fn is_key(key: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    key.starts_with(|first: char| first.is_ascii_uppercase())
        && key.bytes().all(is_part)
        && !["ALL", "ALL_ACCEL"].contains(&key)
}

pub(super) fn refused(expected: impl Into<String>, found: impl Into<String>) -> Outcome {
    Outcome::Refused { expected: expected.into(), found: found.into() }
}

/// A plugin, checked. Everything is copied into structs of this host's size: missing slots are NULL.
pub(super) struct Plugin {
    pub name: String,
    pub version: String,
    pub backends: Vec<Result<&'static LoadedBackend, (String, Outcome)>>,
    pub implementations: Vec<Listed>,
    /// Implementations that could never run.
    pub mistakes: Vec<Outcome>,
}

/// An implementation of a plugin or of the program.
#[derive(Clone, Copy)]
pub(super) enum Listed {
    /// One that a plugin has described.
    Described(&'static Implementation),
    /// One that is linked in, and describes itself when it is first asked for.
    Linked(&'static LinkedImplementation),
}

impl Listed {
    /// The name of its kernel.
    pub fn kernel(self) -> &'static str {
        match self {
            // SAFETY: strings of implementations live for ever.
            Listed::Described(one) => unsafe { one.kernel.as_str() },
            Listed::Linked(one) => one.kernel(),
        }
    }

    /// Its description.
    pub fn description(self) -> &'static Implementation {
        match self {
            Listed::Described(one) => one,
            Listed::Linked(one) => one.description(),
        }
    }
}

/// A backend of a loaded plugin, with all devices that it has found so far, for any context. The lock is held
/// while it looks for them.
pub(super) struct LoadedBackend {
    pub api: &'static BackendApi,
    pub devices: Mutex<Vec<&'static DeviceHandle>>,
}

fn world_writable(path: &Path) -> bool {
    !settings::process_flag("allow_world_writable")
        && std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o002 != 0)
}

fn writable_refusal(what: &str) -> Outcome {
    refused(
        format!("a {what} that only its owner can write"),
        format!(
            "a {what} that everybody can write: loading means trusting; chmod o-w it, or set FLASH_ALLOW_WORLD_WRITABLE=1"
        ),
    )
}

/// The plugin files of a search path, in order, or why an entry of it has none.
pub(super) fn search(path: &OsStr) -> Vec<Result<PathBuf, (PathBuf, Outcome)>> {
    let mut found = Vec::new();
    let entries = path.as_bytes().split(|&byte| byte == b':').filter(|entry| !entry.is_empty());
    for entry in entries.map(|entry| PathBuf::from(OsStr::from_bytes(entry))) {
        match std::fs::metadata(&entry) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let outcome = refused("a directory or a plugin file", "nothing of that name");
                found.push(Err((entry, outcome)));
            }
            Err(e) => found.push(Err((entry, refused("a directory or a plugin file", e.to_string())))),
            Ok(meta) if meta.is_dir() => search_directory(entry, &mut found),
            Ok(_) => found.push(Ok(entry)),
        }
    }
    found
}

fn search_directory(entry: PathBuf, found: &mut Vec<Result<PathBuf, (PathBuf, Outcome)>>) {
    if world_writable(&entry) {
        found.push(Err((entry, writable_refusal("directory"))));
        return;
    }
    match std::fs::read_dir(&entry) {
        Err(e) => found.push(Err((entry, refused("a readable directory", e.to_string())))),
        Ok(files) => {
            let mut files: Vec<PathBuf> = files
                .flatten()
                .map(|f| f.path())
                .filter(|p| p.extension().is_some_and(|e| e == "so") || is_package(p))
                .collect();
            files.sort();
            found.extend(files.into_iter().map(Ok));
        }
    }
}

/// True if a file's name is that of a package.
pub(super) fn is_package(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == package::ENDING)
}

/// Checks a plugin file, or a package, without loading it.
///
/// # Errors
/// [`Outcome::Refused`] with what was expected and found.
pub fn check_file(path: &Path) -> Result<(), Outcome> {
    check_access(path)?;
    if is_package(path) {
        return read_package(path).map(drop);
    }
    elf::check(path).map_err(|(expected, found)| refused(expected, found))
}

fn read_package(path: &Path) -> Result<Package, Outcome> {
    let file = File::open(path).map_err(|e| refused("a readable package", e.to_string()))?;
    Package::read(BufReader::new(file))
}

/// Checks that a path is a file that only those write whom the user trusts.
fn check_access(path: &Path) -> Result<(), Outcome> {
    if !cfg!(target_os = "linux") {
        return Err(refused(
            "Linux",
            "another system: plugins are loaded on Linux only, link the backend into the program",
        ));
    }
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(refused("a shared library", "nothing of that name"));
        }
        Err(e) => return Err(refused("a shared library", e.to_string())),
        Ok(meta) if meta.is_dir() => return Err(refused("a shared library", "a directory")),
        Ok(meta) if !meta.is_file() => {
            return Err(refused("a shared library", "something that is no file"));
        }
        Ok(_) => {}
    }
    if world_writable(path) {
        return Err(writable_refusal("file"));
    }
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    // Of a symbolic link: its own directory, and that of the file.
    let real = path.canonicalize().ok();
    if [parent(path), real.and_then(|real| parent(&real))].into_iter().flatten().any(|p| world_writable(&p)) {
        return Err(writable_refusal("directory"));
    }
    Ok(())
}

/// What is linked into the program.
pub(super) fn linked() -> Result<&'static Plugin, Outcome> {
    static LINKED: OnceLock<Result<Plugin, Outcome>> = OnceLock::new();
    let check = || {
        // SAFETY: our own header.
        let mut plugin = unsafe { checked(linked_backends("program", env!("CARGO_PKG_VERSION")))? };
        plugin.implementations.extend(linked_implementations().iter().map(Listed::Linked));
        Ok(plugin)
    };
    LINKED.get_or_init(check).as_ref().map_err(Clone::clone)
}

/// Loads a plugin file, once per process: it is never unloaded. One that was refused is looked at again.
pub(super) fn load(path: &Path) -> Result<&'static Plugin, Outcome> {
    static LOADED: Mutex<BTreeMap<PathBuf, &'static Plugin>> = Mutex::new(BTreeMap::new());
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(plugin) = loaded.get(&canonical) {
        return Ok(plugin);
    }
    let plugin: &'static Plugin = Box::leak(Box::new(load_new(path)?));
    loaded.insert(canonical, plugin);
    Ok(plugin)
}

fn load_new(path: &Path) -> Result<Plugin, Outcome> {
    if is_package(path) {
        check_access(path)?;
        return Ok(read_package(path)?.into_plugin());
    }
    check_file(path)?;
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // A bare name would be searched for in the system's directories.
    let absolute = std::path::absolute(path).map_err(|e| refused("a path", e.to_string()))?;
    // SAFETY: loading runs the library's initialisers: the user who puts a file into the directory is
    // trusted, see `world_writable`.
    let library = keep_float_state(|| unsafe { Library::open(Some(&absolute), RTLD_NOW | RTLD_LOCAL) })
        .map_err(|e| refused("a library that loads", error_text(&e)))?;
    // SAFETY: the symbol has the type that the interface says.
    let query = unsafe { library.get::<PluginQuery>(abi::QUERY_SYMBOL.as_bytes()) }.map(|symbol| *symbol);
    let Ok(query) = query else {
        return Err(refused(
            format!("the symbol {}", abi::QUERY_SYMBOL),
            "no such symbol: this is a library, but no FLASH plugin (export_plugin! makes the symbol)",
        ));
    };
    if !is_function(query as *const c_void) {
        return Err(refused(
            format!("a function {}", abi::QUERY_SYMBOL),
            "a symbol of that name that is no function",
        ));
    }
    std::mem::forget(library);
    let _ = take_query_failure();
    let header = {
        let _looking = extension::Looking::begin();
        // SAFETY: the interface's symbol, called as it says.
        unsafe { query(abi::ABI_MAJOR, &raw const HOST) }
    };
    if header.is_null() {
        let why =
            take_query_failure().unwrap_or_else(|| "its query returned NULL and gave no reason".to_owned());
        return Err(refused(format!("a plugin for interface version {}", abi::ABI_MAJOR), why));
    }
    // SAFETY: not NULL, and the query's answer.
    let mut plugin = unsafe { checked(header)? };
    let mistakes = &mut plugin.mistakes;
    plugin.implementations.retain(|one| match mistake(one.description()) {
        Some(mistake) => {
            mistakes.push(mistake);
            false
        }
        None => true,
    });
    Ok(plugin)
}

/// False if the address of a symbol is known to be that of something other than a function.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn is_function(address: *const c_void) -> bool {
    /// Asks `dladdr1` for the entry of the symbol table.
    const ENTRY: c_int = 1;
    /// Types of a symbol: a function, and one that is chosen when it is first looked up.
    const FUNCTIONS: [u8; 2] = [2, 10];
    let (mut info, mut entry) = (MaybeUninit::uninit(), std::ptr::null_mut::<libc::Elf64_Sym>());
    // SAFETY: it looks the address up and writes to our variables.
    let found = unsafe { libc::dladdr1(address, info.as_mut_ptr(), (&raw mut entry).cast(), ENTRY) } != 0;
    // SAFETY: the entry of a library that stays loaded.
    !found || unsafe { entry.as_ref() }.is_none_or(|entry| FUNCTIONS.contains(&(entry.st_info & 0xF)))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
fn is_function(_: *const c_void) -> bool {
    true
}

/// The message with its cause: the text from `dlopen`.
fn error_text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Checks a header and copies its content.
///
/// # Safety
/// `header` is the result of a plugin's query.
pub(super) unsafe fn checked(header: *const PluginHeader) -> Result<Plugin, Outcome> {
    if !header.is_aligned() {
        return Err(refused("a plugin header", format!("a pointer that is not aligned, {header:p}")));
    }
    // SAFETY: the first fields, magic and struct_size, exist in every version.
    let (magic, size) = unsafe { ((*header).magic, (*header).struct_size as usize) };
    if magic != abi::MAGIC {
        return Err(refused(format!("the magic number {:#x}", abi::MAGIC), format!("{magic:#x}")));
    }
    let too_small = |needed: usize| {
        Err(refused(
            format!("a plugin header of at least {needed} bytes"),
            format!("one of {size} bytes: rebuild the plugin against this version's flash_backend.h"),
        ))
    };
    let needed = offset_of!(PluginHeader, implementation_count) + size_of::<usize>();
    if size < offset_of!(PluginHeader, abi_minor) {
        return too_small(needed);
    }
    // The version first: another one may have other sizes.
    // SAFETY: checked to have this field.
    let major = unsafe { (*header).abi_major };
    if major != abi::ABI_MAJOR {
        return Err(refused(
            format!("interface version {}", abi::ABI_MAJOR),
            format!("{major}: rebuild the plugin against this version"),
        ));
    }
    if size < needed {
        return too_small(needed);
    }
    // SAFETY: checked to have the size.
    let header = unsafe { &*header };
    if header.abi_minor < abi::ABI_MINOR_OLDEST {
        return Err(refused(
            format!("interface version {}.{} or later", abi::ABI_MAJOR, abi::ABI_MINOR_OLDEST),
            format!("{major}.{}: rebuild the plugin against this version", header.abi_minor),
        ));
    }
    for (list, count, missing) in [
        ("backends", header.backend_count, header.backends.is_null()),
        ("implementations", header.implementation_count, header.implementations.is_null()),
    ] {
        if count > 0 && missing {
            return Err(refused(format!("a list of {count} {list}"), "NULL"));
        }
    }
    // SAFETY: the strings and lists of a header live for ever.
    unsafe {
        let mut plugin = Plugin {
            name: header.name.text(),
            version: header.version.text(),
            backends: Vec::new(),
            implementations: Vec::new(),
            mistakes: Vec::new(),
        };
        for i in 0..header.backend_count {
            plugin.backends.push(backend(*header.backends.add(i)));
        }
        for i in 0..header.implementation_count {
            plugin.implementations.push(Listed::Described(implementation(*header.implementations.add(i))?));
        }
        Ok(plugin)
    }
}

/// Copies the part of a struct that both sides know; the rest is zero, which is NULL.
///
/// # Safety
/// `from` has `size` readable bytes; `T` is all zeroes allowed.
unsafe fn copied<T>(from: *const T, size: usize) -> &'static T {
    let mut copy = Box::new(MaybeUninit::<T>::zeroed());
    // SAFETY: both have this many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from.cast::<u8>(),
            copy.as_mut_ptr().cast::<u8>(),
            size.min(size_of::<T>()),
        );
        Box::leak(copy).assume_init_ref()
    }
}

unsafe fn backend(api: *const BackendApi) -> Result<&'static LoadedBackend, (String, Outcome)> {
    let refuse = |key: &str, expected: String, found: String| Err((key.to_owned(), refused(expected, found)));
    if api.is_null() || !api.is_aligned() {
        return refuse("", "a backend's vtable".into(), format!("the pointer {api:p}"));
    }
    // SAFETY: `struct_size` exists in every version.
    let size = unsafe { (*api).struct_size as usize };
    let needed = offset_of!(BackendApi, target) + size_of::<abi::Str>();
    if size < needed {
        return refuse(
            "",
            format!("a backend vtable of at least {needed} bytes"),
            format!("one of {size} bytes: rebuild the plugin against this version's flash_backend.h"),
        );
    }
    // SAFETY: `size` bytes exist; NULL is allowed everywhere. The key lives for ever.
    let (api, key) = unsafe { (copied(api, size), (*api).key.text()) };
    if !is_key(&key) {
        let expected = "a runtime key of capital letters, digits and `_`, such as MY_ACCEL, that begins with a letter and is not ALL or ALL_ACCEL";
        return refuse(&key, expected.into(), format!("`{key}`"));
    }
    let required = [
        ("probe", api.probe.is_some()),
        ("devices", api.devices.is_some()),
        ("device_info", api.device_info.is_some()),
        ("prepare", api.prepare.is_some()),
        ("release", api.release.is_some()),
        ("submit", api.submit.is_some()),
    ];
    match required.iter().find(|(_, there)| !there) {
        Some((name, _)) => refuse(&key, format!("the required slot `{name}`"), "NULL".into()),
        None => Ok(Box::leak(Box::new(LoadedBackend { api, devices: Mutex::default() }))),
    }
}

/// Checks an implementation and copies it.
///
/// # Safety
/// It is NULL, or has as many bytes as it says and lives for ever, with all that it points to.
pub(super) unsafe fn implementation(one: *const Implementation) -> Result<&'static Implementation, Outcome> {
    if one.is_null() || !one.is_aligned() {
        return Err(refused("a kernel implementation", format!("the pointer {one:p}")));
    }
    // SAFETY: `struct_size` exists in every version.
    let size = unsafe { (*one).struct_size as usize };
    let needed = offset_of!(Implementation, payload_len) + size_of::<usize>();
    if size < needed {
        return Err(refused(
            format!("a kernel implementation of at least {needed} bytes"),
            format!("one of {size} bytes: rebuild the plugin against this version's flash_backend.h"),
        ));
    }
    // SAFETY: `size` bytes exist; NULL is allowed everywhere.
    Ok(unsafe { copied(one, size) })
}

/// What keeps an implementation from ever running.
fn mistake(one: &Implementation) -> Option<Outcome> {
    // SAFETY: strings of an implementation live for ever.
    let [kernel, name, descriptor] = unsafe { [one.kernel.text(), one.name.text(), one.descriptor.text()] };
    let wrong = |expected: &str, found: String| {
        Some(refused(format!("{expected} for the implementation `{name}` of kernel `{kernel}`"), found))
    };
    if kernel.is_empty() {
        return wrong("a kernel's name", "nothing".to_owned());
    }
    if one.share.is_none() && one.span.is_none() && one.payload.is_null() {
        return wrong("a function or code", "NULL in `share`, `span` and `payload`".to_owned());
    }
    if descriptor.starts_with('[') && descriptor.contains("](") && descriptor.ends_with(')') {
        return None;
    }
    match KernelDescriptor::from_json(&descriptor) {
        _ if descriptor.is_empty() => None,
        Ok(of) if of.name == kernel => None,
        Ok(of) => wrong("its own descriptor", format!("that of kernel `{}`", of.name)),
        Err(error) => wrong(
            "a signature such as `[1](u32, Item<Write<u32>> along [0])`, or a descriptor in JSON,",
            format!("`{}` ({error})", descriptor.chars().take(40).collect::<String>()),
        ),
    }
}

/// A C or Fortran function of a shared library, by its symbol or demangled name. The library stays
/// loaded.
///
/// # Errors
/// [`Error::Library`] with what was expected and found.
pub(crate) fn library_function(path: &Path, symbol: &str) -> Result<abi::SpanFn, Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    let fail = |text: String| Error::Library { path: path.to_owned(), text };
    check_file(path).map_err(|outcome| fail(outcome.to_string()))?;
    let absolute = std::path::absolute(path).map_err(|e| fail(e.to_string()))?;
    // SAFETY: loading runs the library's initialisers: the program asked for this file.
    let library = keep_float_state(|| unsafe { Library::open(Some(&absolute), RTLD_NOW | RTLD_LOCAL) })
        .map_err(|e| fail(error_text(&e)))?;
    // `dlsym` alone would also find data, and symbols of the libraries that this one needs.
    let names = elf::functions(path).unwrap_or_default();
    let mut named: Vec<&elf::Function> = names.iter().filter(|f| f.symbol == symbol).collect();
    if named.is_empty() {
        named = names.iter().filter(|f| f.name == symbol || f.signature == symbol).collect();
    }
    let list = |functions: &mut dyn Iterator<Item = &elf::Function>| {
        let functions: Vec<&str> = functions.map(|f| f.signature.as_str()).collect();
        let more = functions.len().saturating_sub(LISTED);
        let mut text = functions[..functions.len() - more].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    let found = match named[..] {
        [one] => one,
        [] if names.is_empty() => {
            return Err(fail(format!("expected a function `{symbol}`, found a library that exports none")));
        }
        [] => {
            return Err(fail(format!(
                "expected a function `{symbol}`; available: {}",
                list(&mut names.iter())
            )));
        }
        _ => {
            let several = list(&mut named.into_iter());
            return Err(fail(format!(
                "`{symbol}` is the name of several functions, {several}: write the one with its parameters"
            )));
        }
    };
    // SAFETY: the program vouches for the function's type, as with any foreign function.
    let function = unsafe { library.get::<abi::SpanFn>(found.symbol.as_bytes()) }.map(|f| *f);
    std::mem::forget(library);
    function.map_err(|e| fail(error_text(&e)))
}

/// Number of functions that an error names.
const LISTED: usize = 20;
