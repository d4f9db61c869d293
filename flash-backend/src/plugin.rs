//! What a plugin exports, and what is linked into a program: from the inventory to a plugin header.
//!
//! A crate registers backends and implementations with the path of a module of its own. So a plugin exports
//! those of its own crate and of the crates that it lists; what else it links stays its own.

use crate::glue::BackendEntry;
use crate::host::loaded_by;
use crate::implementation::{LinkedImplementation, linked_implementations};
use crate::notice;
use crate::panics::caught;
use flash_types::abi::{self, BackendApi, HostApi, PluginHeader, Str};
use std::collections::BTreeSet;
use std::sync::OnceLock;

struct Header {
    header: PluginHeader,
    // Targets of the header's pointers.
    _backends: Vec<*const BackendApi>,
    _implementations: Vec<*const abi::Implementation>,
}

// SAFETY: vtables and descriptions are never written.
unsafe impl Send for Header {}
// SAFETY: as above.
unsafe impl Sync for Header {}

/// The crate of a module's path.
fn crate_of(module: &'static str) -> &'static str {
    module.split_once("::").map_or(module, |(first, _)| first)
}

/// A header of what the modules that `is_in` says register, of all backends that are linked with this copy of
/// the library and of these implementations.
fn header(
    name: &'static str,
    version: &'static str,
    implementations: &[LinkedImplementation],
    is_in: impl Fn(&'static str) -> bool,
) -> Header {
    let backends = inventory::iter::<BackendEntry>().filter(|entry| is_in(entry.module));
    let backends: Vec<*const BackendApi> = backends.map(|e| std::ptr::from_ref((e.api)())).collect();
    let implementations = implementations.iter().filter(|one| is_in(one.module()));
    let implementations: Vec<*const abi::Implementation> =
        implementations.map(|one| std::ptr::from_ref(one.description())).collect();
    let header = PluginHeader {
        magic: abi::MAGIC,
        struct_size: size_of::<PluginHeader>() as u32,
        abi_major: abi::ABI_MAJOR,
        abi_minor: abi::ABI_MINOR,
        reserved: 0,
        name: Str::new(name),
        version: Str::new(version),
        build: Str::new(if cfg!(debug_assertions) { "rust, debug assertions" } else { "rust, release" }),
        backends: backends.as_ptr(),
        backend_count: backends.len(),
        implementations: implementations.as_ptr(),
        implementation_count: implementations.len(),
    };
    Header { header, _backends: backends, _implementations: implementations }
}

/// All backends that are linked with this copy of the library: the program's own, or, for a program within a
/// plugin, the plugin's and those that it uses. Implementations are in [`linked_implementations`].
pub fn linked_backends(name: &'static str, version: &'static str) -> &'static PluginHeader {
    static HEADER: OnceLock<Header> = OnceLock::new();
    &HEADER.get_or_init(|| header(name, version, &[], |_| true)).header
}

/// What a plugin is and exports. Made by `export_plugin!`.
pub struct PluginCrate {
    /// Name of its package.
    pub name: &'static str,
    /// Version of its package.
    pub version: &'static str,
    /// The module of `export_plugin!`. What its crate registers is exported.
    pub module: &'static str,
    /// The crates whose backends and implementations it exports, too. What else it links is for its own use.
    pub listed: &'static [&'static str],
}

impl PluginCrate {
    fn header(&self) -> Result<Header, String> {
        let crates = || {
            let backends = inventory::iter::<BackendEntry>().map(|entry| crate_of(entry.module));
            backends.chain(linked_implementations().iter().map(|one| crate_of(one.module())))
        };
        if let Some(listed) = self.listed.iter().find(|listed| !crates().any(|one| one == **listed)) {
            let found = match crates().collect::<BTreeSet<_>>() {
                none if none.is_empty() => "no crate that does".to_owned(),
                found => format!("only {}", found.into_iter().collect::<Vec<_>>().join(", ")),
            };
            return Err(format!(
                "`export_plugin!` lists the crate `{listed}`: expected that it registers backends or kernels, found {found}; list crates by their own names, without `package = ..` in Cargo.toml, and switch on the features that their implementations need"
            ));
        }
        let own = crate_of(self.module);
        Ok(header(self.name, self.version, linked_implementations(), |module| {
            let of = crate_of(module);
            of == own || self.listed.contains(&of)
        }))
    }
}

/// The body of the exported symbol. Called by `export_plugin!`.
///
/// # Safety
/// `host` is NULL or an interface that lives for ever.
pub unsafe fn query(
    host_major: u32,
    host: *const HostApi,
    plugin: &'static PluginCrate,
) -> *const PluginHeader {
    if host.is_null() {
        return std::ptr::null();
    }
    let fail = |text: &str| {
        // SAFETY: the host's interface; the text lives for the call.
        if let Some(failed) = unsafe { (*host).query_failed } {
            // SAFETY: as above.
            unsafe { failed(Str::new(text)) };
        }
        std::ptr::null()
    };
    if host_major != abi::ABI_MAJOR {
        return fail(&format!(
            "the plugin was built for interface version {}, the program has {host_major}: rebuild the plugin",
            abi::ABI_MAJOR
        ));
    }
    loaded_by(host);
    // SAFETY: the caller vouches for the host.
    unsafe { notice::forward_to(host) };
    static EXPORTED: OnceLock<Result<Header, String>> = OnceLock::new();
    match caught(|| EXPORTED.get_or_init(|| plugin.header())) {
        Ok(Ok(exported)) => &exported.header,
        Ok(Err(why)) => fail(why),
        Err(panic) => fail(&format!("the plugin panicked in its query: {panic}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: PluginCrate = PluginCrate { name: "p", version: "1", module: "nothing", listed: &[] };

    /// What a plugin exports: numbers of backends and implementations.
    fn exported(plugin: &PluginCrate) -> Result<(usize, usize), String> {
        plugin.header().map(|made| (made.header.backend_count, made.header.implementation_count))
    }

    #[test]
    fn a_plugin_exports_its_own_crate_and_those_that_it_lists() {
        let (backends, implementations) =
            exported(&PluginCrate { module: module_path!(), ..NOTHING }).unwrap();
        assert!(implementations > 0 || backends > 0, "this crate's tests register some");
        assert_eq!(exported(&NOTHING), Ok((0, 0)));
        let listed = PluginCrate { listed: &["flash_backend"], ..NOTHING };
        assert_eq!(exported(&listed), Ok((backends, implementations)));
        // A name is a whole one.
        assert_eq!(exported(&PluginCrate { module: "flash_backend_and_more::a", ..NOTHING }), Ok((0, 0)));
    }

    #[test]
    fn a_listed_crate_that_registers_nothing_is_an_error_that_says_what_does() {
        let error = exported(&PluginCrate { listed: &["kernels"], ..NOTHING }).unwrap_err();
        for part in ["lists the crate `kernels`", "found only flash_backend", "`package = ..`", "features"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
    }
}
