//! The devices and implementations of a program: what is linked in, what plugins bring, and what keeps one
//! from being used.
//!
//! A context has a catalog of them (`catalog.rs`). Plugins are checked before they are loaded and after
//! (`loader.rs`); their devices are looked for when they are first needed (`registry.rs`), and each is a
//! [`DeviceHandle`] from then on.

pub(crate) mod agent;
pub(crate) mod catalog;
mod device_handle;
mod elf;
pub(crate) mod extension;
pub(crate) mod host_handles;
mod loader;
mod package;
pub(crate) mod registry;
mod reports;
mod shadow;
mod spaces;
#[cfg(test)]
mod tests;
mod texts;

pub(crate) use device_handle::After;
pub use device_handle::DeviceHandle;
pub(crate) use loader::library_function;
pub use loader::{Outcome, check_file};
pub use package::{Manifest, Package, PackagedArgument, PackagedCode, PackagedElement, PackagedKernel};
pub use reports::{
    BackendReport, DeviceReport, Entry, Found, SpaceReport, again, combined, entries, list, list_file,
    searched,
};
pub use shadow::ImplementationReport;
pub use texts::{KernelText, listed, texts};

use crate::error::Error;
use flash_backend::__host::take_failure;
use flash_types::{Code, abi};

/// Takes ownership of an error from a vtable.
///
/// # Safety
/// `error` is NULL or was made by this host's `error_create`.
#[inline]
pub unsafe fn take_error(error: *mut abi::Error) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches.
    Err(unsafe { taken(error) })
}

#[cold]
unsafe fn taken(error: *mut abi::Error) -> Error {
    // SAFETY: the caller vouches.
    match Error::from(unsafe { take_failure(error) }) {
        Error::Backend { code: Code::Cancelled, .. } => Error::Cancelled,
        error => error,
    }
}

/// An attribute of an implementation. Its value lives for ever.
pub(crate) fn attribute(key: &'static str, value: serde_json::Value) -> abi::Attr {
    abi::Attr {
        key: abi::Str::new(key),
        value: abi::Str::new(value.to_string().leak()),
        required: 0,
        reserved: 0,
    }
}

/// The text of an error.
fn words(error: Error) -> String {
    match error {
        Error::Backend { text, .. } => text,
        other => other.to_string(),
    }
}
