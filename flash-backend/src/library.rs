//! Shared libraries: whether one is there, and what its symbols mean.

use crate::float_state::keep_float_state;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// True if a shared library can be loaded into this process, by one of the names, with commas, that the
/// loader knows it by. It stays loaded: what requires it is about to use it.
pub fn has_library(names: &str) -> bool {
    static LOADED: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    *loaded.entry(names.to_owned()).or_insert_with(|| {
        // SAFETY: loading runs the library's initialisers: the developer who links an implementation into the
        // program, or has it as a plugin, trusts what it requires.
        let opened = |name: &str| keep_float_state(|| unsafe { libloading::Library::new(name) });
        names.split(',').any(|name| opened(name).map(std::mem::forget).is_ok())
    })
}

/// A demangled symbol: the function's name and, if the symbol has them, its parameters. What does not begin
/// as mangled names do is a name: `f` is a function of C, and no `float`.
pub fn signature(symbol: &str) -> String {
    let is_mangled = ["_Z", "_R"].iter().any(|begin| symbol.starts_with(begin));
    let demangled = || cpp_demangle::Symbol::new(symbol).ok().and_then(|s| s.demangle().ok());
    let demangled = if is_mangled { demangled() } else { None };
    demangled.unwrap_or_else(|| symbol.to_owned())
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn only_mangled_names_are_demangled() {
        for name in ["f", "i", "d", "PKf", "St4pairIiiE", "_f", "saxpy"] {
            assert_eq!(signature(name), name);
        }
        assert_eq!(signature("_ZN7kernels4fillEi"), "kernels::fill(int)");
    }
}
