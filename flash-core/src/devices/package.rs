//! Packages: files `NAME.ha` with kernels for several kinds of devices.
//!
//! A package is a tar archive: first `manifest.json`, which describes kernels and lists their
//! implementations, then the files that it names: texts and binaries that devices take, and shared libraries
//! with a function for the CPU. In a directory of the path of plugins it is a plugin without a backend: the
//! kernels are launched by their names, and by definitions that agree with them.
//!
//! Nothing in a package is trusted to be well formed: names, sizes and descriptors are checked before
//! anything of it is used, and a fault says what was expected and found. What its code does is: loading means
//! trusting, as for any plugin. [`Package`] is read and written here alone; the loader makes a plugin of it
//! by [`Package::into_plugin`].

use super::attribute;
use super::loader::{Listed, Outcome, Plugin, library_function, refused};
use crate::error::Error;
use flash_types::abi::{self, Attr, Str};
use flash_types::descriptor::{
    Access, ArgumentDescriptor, Attributes, ElementType, KernelDescriptor, Reduction, Use, View,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// The ending of a package's name.
pub(super) const ENDING: &str = "ha";

/// The archive's first file.
const MANIFEST: &str = "manifest.json";

/// Bytes of all files together.
const MOST_BYTES: u64 = 1 << 30;
/// Files of a package.
const MOST_FILES: usize = 4096;

/// What a package has, as its file `manifest.json` says it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Manifest {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Its kernels, each with one set of element types.
    pub kernels: Vec<PackagedKernel>,
}

/// A kernel and its implementations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PackagedKernel {
    /// Its name, such as `lab.saxpy`.
    pub name: String,
    /// Its name for programs of C2MPI, such as `SAXPY`.
    pub alias: Option<String>,
    /// Its number among functions of C2MPI.
    pub sw_fid: Option<String>,
    /// Its class there.
    pub sw_clid: Option<String>,
    /// The names of its dimensions; dimension 0 varies fastest.
    pub dimensions: Vec<String>,
    /// Its arguments in order.
    pub arguments: Vec<PackagedArgument>,
    /// The attributes of a definition, such as how it may be cut.
    #[serde(default)]
    pub attributes: Attributes,
    /// Its implementations.
    pub implementations: Vec<PackagedCode>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PackagedArgument {
    /// Its name.
    pub name: String,
    /// The kernel's view of it.
    pub view: View,
    /// The kernel's access to it. Default: it reads.
    #[serde(default = "reads")]
    pub access: Access,
    /// The type of an element, or of the scalar.
    pub element: PackagedElement,
    /// True if the kernel sees a row of elements.
    #[serde(default)]
    pub row: bool,
    /// Elements that a work item owns along the first axes, if these are several.
    #[serde(default)]
    pub tile: Vec<u64>,
    /// The dimensions that index it. Default: all, for what each work item has of its own.
    pub along: Option<Vec<String>>,
    /// Of a phased argument: the dimension, and its use per value.
    pub stages: Option<(String, Vec<Use>)>,
    /// Partition maps may read its contents.
    #[serde(default)]
    pub structure: bool,
    /// Of an accumulator: its operation.
    pub reduce: Option<Reduction>,
}

fn reads() -> Access {
    Access::Read
}

/// The type of an element: a number or an array of numbers by its name, or any type.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum PackagedElement {
    /// Such as `f32` or `[f64; 3]`.
    Named(String),
    /// A struct.
    Any(ElementType),
}

/// An implementation: a file, and for what it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PackagedCode {
    /// The kind of devices that take it: `opencl`, `cuda`, `cpu`, or any other.
    pub target: String,
    /// The file: of a name that ends in `.so` a shared library, of one that ends in `.cl`, `.cu`, `.c`, `.h`,
    /// `.cpp` or `.txt` a text, else a binary.
    pub file: String,
    /// Its name among the kernel's implementations. Default: the file's, without its ending.
    pub name: Option<String>,
    /// Higher wins among those that fit.
    #[serde(default)]
    pub priority: i32,
    /// Of a text or binary: it takes `FLASH_ARGS`, and a part of a launch.
    #[serde(default)]
    pub cooperating: bool,
    /// Of a shared library: its function for a run of work items, a `flash_span_fn` of `flash_device.h`.
    pub symbol: Option<String>,
    /// Of a shared library: the processors that it is for, `x86_64` or `aarch64`. Others pass it by.
    pub processor: Option<String>,
    /// CPU features that a device must have, separated by commas.
    #[serde(default)]
    pub cpu_features: String,
    /// Other attributes, as those of `#[implementations(..)]`: `entry`, `work_group_size` and so on.
    #[serde(default)]
    pub attributes: BTreeMap<String, Value>,
}

impl PackagedCode {
    fn is_library(&self) -> bool {
        self.file.ends_with(".so")
    }

    fn is_text(&self) -> bool {
        [".cl", ".cu", ".c", ".h", ".cpp", ".txt"].iter().any(|ending| self.file.ends_with(ending))
    }

    /// Its name among the kernel's implementations.
    pub fn name(&self) -> &str {
        let stem = || Path::new(&self.file).file_stem().and_then(|stem| stem.to_str());
        self.name.as_deref().or_else(stem).unwrap_or(&self.file)
    }
}

/// A package in memory, checked.
///
/// # Examples
/// ```
/// use flash_core::devices::Package;
///
/// # fn main() -> Result<(), flash_core::devices::Outcome> {
/// let manifest = r#"{
///     "name": "lab", "version": "1.0",
///     "kernels": [{
///         "name": "lab.twice", "dimensions": ["i"],
///         "arguments": [{"name": "x", "view": "item", "access": "read_write", "element": "f32"}],
///         "implementations": [{"target": "opencl", "file": "twice.cl", "cooperating": true}]
///     }]
/// }"#;
/// let text = "FLASH_KERNEL twice(FLASH_GLOBAL float *x, FLASH_ARGS) {
///     FLASH_FOR_ITEMS FLASH_AT(x, FLASH_INDEX(0)) *= 2;
/// }";
/// let package = Package::new(manifest, |_| Ok(text.into()))?;
/// let again = Package::read(&package.to_bytes()[..])?;
/// assert_eq!(again.manifest().kernels[0].name, "lab.twice");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Package {
    manifest: Manifest,
    /// The manifest as it was written.
    text: String,
    kernels: Vec<KernelDescriptor>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Package {
    /// The package of a manifest, whose files are read by their names.
    ///
    /// # Errors
    /// [`Outcome::Refused`] with what was expected and found.
    pub fn new(
        manifest: &str,
        mut read: impl FnMut(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Package, Outcome> {
        let parsed: Manifest = serde_json::from_str(manifest)
            .map_err(|e| refused(format!("{MANIFEST} as documented"), e.to_string()))?;
        let mut files = BTreeMap::new();
        let codes = parsed.kernels.iter().flat_map(|kernel| &kernel.implementations);
        let names: BTreeSet<&str> = codes.map(|code| code.file.as_str()).collect();
        for name in names {
            check_name(name)?;
            let bytes = read(name).map_err(|e| refused(format!("the file `{name}`"), e.to_string()))?;
            files.insert(name.to_owned(), bytes);
        }
        for (what, name) in [("a name", &parsed.name), ("a version", &parsed.version)] {
            if name.is_empty() || name.chars().any(|c| c.is_control() || "\"\\".contains(c)) {
                return Err(refused(format!("{what} of the package"), format!("`{}`", name.escape_debug())));
            }
        }
        if parsed.kernels.is_empty() {
            return Err(refused("at least one kernel", "none"));
        }
        let kernels = parsed.kernels.iter().map(PackagedKernel::checked).collect::<Result<_, _>>()?;
        Ok(Package { manifest: parsed, text: manifest.to_owned(), kernels, files })
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// [`Outcome::Refused`] with what was expected and found.
    pub fn read(archive: impl Read) -> Result<Package, Outcome> {
        // It may quote what it has read.
        let damaged = |e: std::io::Error| {
            let text: String = e.to_string().chars().take(100).collect();
            refused("a package (a tar archive)", text.escape_debug().to_string())
        };
        let mut archive = tar::Archive::new(archive.take(MOST_BYTES + (MOST_FILES as u64) * 4096));
        let (mut text, mut files, mut bytes) = (None, BTreeMap::new(), 0u64);
        for entry in archive.entries().map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            let name = entry.path_bytes().into_owned();
            let name = String::from_utf8(name)
                .map_err(|e| refused("names of files in UTF-8", String::from_utf8_lossy(e.as_bytes())))?;
            if entry.header().entry_type().is_dir() && text.is_some() {
                continue;
            }
            if !entry.header().entry_type().is_file() {
                return Err(refused("files", format!("`{name}`, which is none")));
            }
            bytes = bytes.saturating_add(entry.size());
            if bytes > MOST_BYTES || files.len() >= MOST_FILES {
                let expected = format!("at most {MOST_FILES} files of {MOST_BYTES} bytes together");
                return Err(refused(expected, "more"));
            }
            let (size, mut content) = (entry.size(), Vec::new());
            entry.take(size).read_to_end(&mut content).map_err(damaged)?;
            if content.len() as u64 != size {
                return Err(refused(format!("{size} bytes of `{name}`"), content.len().to_string()));
            }
            if text.is_none() {
                if name != MANIFEST {
                    return Err(refused(format!("`{MANIFEST}` as the first file"), format!("`{name}`")));
                }
                text = Some(String::from_utf8(content).map_err(|e| refused(MANIFEST, e.to_string()))?);
                continue;
            }
            check_name(&name)?;
            if files.insert(name.clone(), content).is_some() {
                return Err(refused("files of different names", format!("`{name}` twice")));
            }
        }
        let text = text.ok_or_else(|| refused("a package (a tar archive)", "an archive without files"))?;
        Package::new(&text, |name| files.remove(name).ok_or_else(|| std::io::ErrorKind::NotFound.into()))
    }

    /// What it has.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The descriptors of its kernels, in the order of the manifest.
    pub fn kernels(&self) -> &[KernelDescriptor] {
        &self.kernels
    }

    /// Its files, `manifest.json` first, with their contents.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
        std::iter::once((MANIFEST, self.text.as_bytes())).chain(files)
    }

    /// As an archive: the same package gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in self.files() {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            archive.append_data(&mut header, name, content).expect("a vector takes any number of bytes");
        }
        archive.into_inner().expect("a vector takes any number of bytes")
    }

    /// A plugin of its implementations. What it consists of lives for ever.
    pub(super) fn into_plugin(self) -> Plugin {
        let mut plugin = Plugin {
            name: self.manifest.name.clone(),
            version: self.manifest.version.clone(),
            backends: Vec::new(),
            implementations: Vec::new(),
            mistakes: Vec::new(),
        };
        let package: &'static Package = Box::leak(Box::new(self));
        for (kernel, descriptor) in package.manifest.kernels.iter().zip(&package.kernels) {
            let descriptor: &'static str = descriptor.to_json().leak();
            for code in &kernel.implementations {
                let other = |processor: &String| processor != std::env::consts::ARCH;
                if code.processor.as_ref().is_some_and(other) {
                    continue;
                }
                match package.implementation(kernel, descriptor, code) {
                    Ok(described) => plugin.implementations.push(Listed::Described(described)),
                    Err(mistake) => plugin.mistakes.push(mistake),
                }
            }
        }
        plugin
    }

    fn implementation(
        &'static self,
        kernel: &'static PackagedKernel,
        descriptor: &'static str,
        code: &'static PackagedCode,
    ) -> Result<&'static abi::Implementation, Outcome> {
        let content: &'static [u8] = &self.files[&code.file];
        let span = match &code.symbol {
            Some(symbol) => Some(function(&code.file, content, symbol)?),
            None => None,
        };
        let words = [
            ("alias", kernel.alias.as_deref()),
            ("sw_fid", kernel.sw_fid.as_deref()),
            ("sw_clid", kernel.sw_clid.as_deref()),
            ("sw_verid", Some(self.manifest.version.as_str())),
        ];
        let mut attributes: Vec<Attr> =
            words.into_iter().filter_map(|(key, word)| Some(attribute(key, word?.into()))).collect();
        if span.is_none() {
            attributes.push(attribute("file", format!("{}:{}", self.manifest.name, code.file).into()));
        }
        if code.cooperating {
            attributes.push(attribute("cooperating", true.into()));
        }
        attributes.extend(code.attributes.iter().map(|(key, value)| attribute(key, value.clone())));
        let door = match span {
            Some(_) => abi::DOOR_SPAN,
            None if code.cooperating => abi::DOOR_ITEM,
            None => abi::DOOR_WHOLE,
        };
        let attributes = attributes.leak();
        Ok(Box::leak(Box::new(abi::Implementation {
            struct_size: size_of::<abi::Implementation>() as u32,
            door,
            kind: if code.is_text() { abi::KIND_INT_SRC } else { abi::KIND_INT_BIN },
            priority: code.priority,
            kernel: Str::new(&kernel.name),
            name: Str::new(code.name()),
            target: Str::new(&code.target),
            descriptor: Str::new(descriptor),
            cpu_features: Str::new(&code.cpu_features),
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            share: None,
            span,
            payload: if span.is_some() { std::ptr::null() } else { content.as_ptr() },
            payload_len: if span.is_some() { 0 } else { content.len() },
            definition: Str::new(""),
        })))
    }
}

impl PackagedKernel {
    /// The descriptor that its members describe.
    fn checked(&self) -> Result<KernelDescriptor, Outcome> {
        let name = &self.name;
        let is_letter = |c: char| c.is_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(is_letter) {
            let found = format!("`{}`", name.escape_debug());
            return Err(refused("a kernel's name of letters, digits, `.`, `_` and `-`", found));
        }
        let of = |what: &str| format!("{what} of kernel `{name}`");
        for text in [&self.alias, &self.sw_fid, &self.sw_clid].into_iter().flatten() {
            if text.is_empty() || text.chars().any(|c| c.is_control() || "\"\\".contains(c)) {
                let found = format!("`{}`", text.escape_debug());
                return Err(refused(of("an alias, a number or a class without quotes and `\\`"), found));
            }
        }
        twice(self.dimensions.iter(), &of("different dimensions"))?;
        twice(self.arguments.iter().map(|argument| &argument.name), &of("different arguments"))?;
        if self.dimensions.is_empty() {
            return Err(refused(of("at least one dimension"), "none"));
        }
        if self.implementations.is_empty() {
            return Err(refused(of("at least one implementation"), "none"));
        }
        let arguments = self.arguments.iter().map(|argument| {
            argument.checked(&self.dimensions).map_err(|outcome| match outcome {
                Outcome::Refused { expected, found } => {
                    refused(of(&format!("{expected} for argument `{}`", argument.name)), found)
                }
                other => other,
            })
        });
        let descriptor = KernelDescriptor {
            name: name.clone(),
            dimensions: self.dimensions.clone(),
            arguments: arguments.collect::<Result<_, _>>()?,
            attributes: self.attributes.clone(),
        };
        if let Err((argument, text)) = descriptor.check() {
            return Err(refused(of(&format!("a sound argument `{argument}`")), text));
        }
        for code in &self.implementations {
            let of = |what: &str| format!("{what} for `{}` of kernel `{name}`", code.file);
            if code.target.is_empty() {
                return Err(refused(of("a target, such as `opencl` or `cpu`,"), "nothing"));
            }
            if code.is_library() != code.symbol.is_some() {
                let (expected, found) = match code.is_library() {
                    true => ("`symbol`, the function of the shared library,", "nothing"),
                    false => ("no `symbol`, as it is no shared library (`.so`),", "one"),
                };
                return Err(refused(of(expected), found));
            }
            if code.is_library() && code.cooperating {
                let expected = of("no `cooperating`, as a function of a shared library takes any part,");
                return Err(refused(expected, "it"));
            }
            if code.symbol.is_none() && (code.processor.is_some() || !code.cpu_features.is_empty()) {
                let expected = of("no `processor` or `cpu_features`, as it is no shared library,");
                return Err(refused(expected, "one"));
            }
        }
        Ok(descriptor)
    }
}

/// An error if a name is there twice.
fn twice<'a>(names: impl Iterator<Item = &'a String>, expected: &str) -> Result<(), Outcome> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || !seen.insert(name) {
            return Err(refused(
                expected,
                format!("`{}`{}", name.escape_debug(), if name.is_empty() { "" } else { " twice" }),
            ));
        }
    }
    Ok(())
}

impl PackagedArgument {
    fn checked(&self, dimensions: &[String]) -> Result<ArgumentDescriptor, Outcome> {
        let dimension = |name: &String| {
            dimensions.iter().position(|known| known == name).ok_or_else(|| {
                refused(format!("one of the dimensions {}", dimensions.join(", ")), format!("`{name}`"))
            })
        };
        let element = match &self.element {
            PackagedElement::Any(element) => element.clone(),
            PackagedElement::Named(name) => ElementType::named(name).ok_or_else(|| {
                let expected =
                    "a type such as `f32`, `u64` or `[f32; 3]`, or {\"name\", \"size\", \"align\"}";
                refused(expected, format!("`{name}`"))
            })?,
        };
        let is_own = matches!(self.view, View::Item | View::Phased);
        let along = match &self.along {
            Some(names) => names.iter().map(dimension).collect::<Result<_, _>>()?,
            None if is_own => (0..dimensions.len()).collect(),
            None => Vec::new(),
        };
        let stages = match &self.stages {
            Some((name, uses)) => Some((dimension(name)?, uses.clone())),
            None => None,
        };
        if (self.view == View::Reduce) != self.reduce.is_some() {
            let found = if self.reduce.is_some() { "`reduce`" } else { "no `reduce`" };
            return Err(refused("`reduce`, an operation, for accumulators and only for them", found));
        }
        if self.view != View::Phased && stages.is_some() {
            return Err(refused("`stages` for phased arguments only", "them"));
        }
        if self.view == View::Scalar && self.access != Access::Read {
            return Err(refused("a scalar that is read", "one that is written"));
        }
        Ok(ArgumentDescriptor {
            name: self.name.clone(),
            view: self.view,
            access: self.access,
            element,
            row: self.row,
            tile: self.tile.clone(),
            along,
            stages,
            rows: None,
            structure: self.structure,
            reduce: self.reduce.clone(),
        })
    }
}

/// Checks that a file's name stays in the folder into which it is unpacked.
fn check_name(name: &str) -> Result<(), Outcome> {
    let is_plain = !name.is_empty()
        && name != MANIFEST
        && !name.ends_with('/')
        && !name.chars().any(char::is_control)
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    match is_plain {
        true => Ok(()),
        false => {
            let expected = format!("a relative path below the package, and not `{MANIFEST}`");
            Err(refused(expected, format!("`{}`", name.escape_debug())))
        }
    }
}

/// A function of a shared library that is in memory. The library stays loaded.
fn function(file: &str, library: &[u8], symbol: &str) -> Result<abi::SpanFn, Outcome> {
    let failed = |e: std::io::Error| refused(format!("a file in memory for `{file}`"), e.to_string());
    // SAFETY: a name that ends with a zero; the answer is a new descriptor or an error.
    let descriptor = unsafe { libc::memfd_create(c"flash-package".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    // SAFETY: a new descriptor, which nothing else has.
    let mut memory = unsafe { File::from_raw_fd(descriptor) };
    memory.write_all(library).map_err(failed)?;
    // Only its owner may write it, as any plugin.
    memory.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    // It stays open: the system takes two libraries of one path for one.
    let path = format!("/proc/self/fd/{}", memory.into_raw_fd());
    library_function(Path::new(&path), symbol).map_err(|error| match error {
        Error::Library { text, .. } => {
            refused(format!("a library `{file}` with a function `{symbol}`"), text)
        }
        other => refused(format!("a library `{file}`"), other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAXPY: &str = r#"{"name": "lab", "version": "1.0", "kernels": [{
        "name": "lab.saxpy", "alias": "SAXPY", "sw_fid": "777", "sw_clid": "elementwise", "dimensions": ["i"],
        "arguments": [
            {"name": "a", "view": "scalar", "element": "f32"},
            {"name": "x", "view": "item", "element": "f32"},
            {"name": "y", "view": "item", "access": "read_write", "element": "f32", "along": ["i"]}
        ],
        "implementations": [
            {"target": "opencl", "file": "texts/saxpy.cl", "cooperating": true, "attributes": {"entry": "saxpy"}},
            {"target": "cpu", "file": "saxpy.so", "symbol": "saxpy", "processor": "none"}
        ]}]}"#;

    fn package(manifest: &str) -> Result<Package, Outcome> {
        Package::new(manifest, |name| Ok(format!("content of {name}").into_bytes()))
    }

    fn fault(manifest: &str) -> String {
        package(manifest).expect_err(manifest).to_string()
    }

    #[test]
    fn a_package_is_read_as_it_was_written() {
        let made = package(SAXPY).unwrap();
        let bytes = made.to_bytes();
        let read = Package::read(&bytes[..]).unwrap();
        assert_eq!(read.to_bytes(), bytes);
        assert!(made.files().eq(read.files()));
        let names: Vec<&str> = read.files().map(|(name, _)| name).collect();
        assert_eq!(names, ["manifest.json", "saxpy.so", "texts/saxpy.cl"]);
        assert_eq!(
            read.kernels()[0].signature(),
            "[1](f32, Item<Read<f32>> along [0], Item<ReadWrite<f32>> along [0])"
        );
        let plugin = read.into_plugin();
        assert!(plugin.mistakes.is_empty());
        let [one] = plugin.implementations[..] else { panic!("that of another processor is passed by") };
        let one = one.description();
        assert_eq!((one.door, one.kind), (abi::DOOR_ITEM, abi::KIND_INT_SRC));
        // SAFETY: texts that live for ever.
        let [kernel, name, target] = unsafe { [one.kernel, one.name, one.target].map(|text| text.text()) };
        assert_eq!([kernel, name, target], ["lab.saxpy", "saxpy", "opencl"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many texts")]
    fn what_is_wrong_with_a_manifest_is_said() {
        for (part, instead, expected) in [
            (r#""version": "1.0","#, "", "missing field `version`"),
            (r#""name": "lab","#, r#""name": "","#, "expected a name of the package, found ``"),
            (r#""lab.saxpy""#, r#""lab saxpy""#, "expected a kernel's name of letters"),
            (
                r#"["i"],"#,
                r#"["i", "i"],"#,
                "expected different dimensions of kernel `lab.saxpy`, found `i` twice",
            ),
            (
                r#""name": "x""#,
                r#""name": "a""#,
                "different arguments of kernel `lab.saxpy`, found `a` twice",
            ),
            (r#""element": "f32", "along""#, r#""element": "f3", "along""#, "found `f3`"),
            (
                r#""along": ["i"]"#,
                r#""along": ["j"]"#,
                "expected one of the dimensions i for argument `y` of kernel `lab.saxpy`, found `j`",
            ),
            (r#""view": "scalar""#, r#""view": "scaler""#, "unknown variant `scaler`"),
            (r#""view": "scalar""#, r#""view": "scalar", "access": "write""#, "found one that is written"),
            (r#""access": "read_write""#, r#""acess": "read_write""#, "unknown field `acess`"),
            (r#""view": "item", "access""#, r#""view": "reduce", "access""#, "found no `reduce`"),
            (r#", "symbol": "saxpy""#, "", "expected `symbol`, the function of the shared library,"),
            (r#""cooperating": true"#, r#""symbol": "s""#, "expected no `symbol`"),
            (
                r#""symbol": "saxpy""#,
                r#""symbol": "saxpy", "cooperating": true"#,
                "expected no `cooperating`",
            ),
            (r#""opencl""#, r#""""#, "expected a target"),
            ("saxpy.so", "../saxpy.so", "expected a relative path below the package"),
            ("saxpy.so", "manifest.json", "and not `manifest.json`"),
        ] {
            let changed = SAXPY.replacen(part, instead, 1);
            assert_ne!(changed, SAXPY, "{part}");
            let found = fault(&changed);
            assert!(found.contains(expected), "{part}: {found}");
        }
        assert!(fault("{").contains("line 1 column 1"));
        assert!(fault(r#"{"name": "a", "version": "1", "kernels": []}"#).contains("at least one kernel"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and many texts")]
    fn damaged_archives_are_refused() {
        let good = package(SAXPY).unwrap().to_bytes();
        let fault = |bytes: &[u8]| Package::read(bytes).expect_err("it is damaged").to_string();
        assert!(fault(b"").contains("an archive without files"));
        assert!(fault(b"text").contains("a tar archive"));
        let noise = fault(&[7; 2048]);
        assert!(noise.contains("a tar archive") && !noise.contains('\u{7}') && noise.len() < 1000, "{noise}");
        for end in [511, 512, 700, good.len() - 1600] {
            fault(&good[..end]);
        }
        let archive = |entries: &[(&str, tar::EntryType)]| {
            let mut builder = tar::Builder::new(Vec::new());
            for (name, kind) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(*kind);
                header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
                let content: &[u8] = if *name == MANIFEST { SAXPY.as_bytes() } else { b"" };
                header.set_size(content.len() as u64);
                header.set_cksum();
                builder.append(&header, content).unwrap();
            }
            builder.into_inner().unwrap()
        };
        use tar::EntryType::{Regular, Symlink};
        let manifest = (MANIFEST, Regular);
        let (cl, so) = (("texts/saxpy.cl", Regular), ("saxpy.so", Regular));
        Package::read(&archive(&[manifest, cl, so])[..]).unwrap();
        assert!(fault(&archive(&[cl, manifest])).contains("`manifest.json` as the first file"));
        assert!(fault(&archive(&[manifest, cl])).contains("expected the file `saxpy.so`"));
        assert!(fault(&archive(&[manifest, cl, cl, so])).contains("`texts/saxpy.cl` twice"));
        assert!(fault(&archive(&[manifest, ("/etc/passwd", Regular)])).contains("a relative path"));
        assert!(fault(&archive(&[manifest, ("a/../../b", Regular)])).contains("a relative path"));
        assert!(fault(&archive(&[manifest, ("saxpy.so", Symlink)])).contains("which is none"));
    }
}
