//! The implementations that an agent has: those of its program and plugins, and texts and binaries that came
//! from the controller, each once.

use super::lock;
use crate::wire::ImplementationImage;
use flash_backend::abi::{self, Implementation, RegistryApi};
use flash_backend::{Code, Failure, host_extension};
use std::ffi::c_void;
use std::sync::Mutex;

/// Those that came.
static CAME: Mutex<Vec<(ImplementationImage<'static>, &'static Implementation)>> = Mutex::new(Vec::new());

/// The program's registry.
///
/// # Errors
/// If the program has none.
pub(super) fn registry() -> Result<&'static RegistryApi, Failure> {
    // SAFETY: the extension of this name and version is of this type, and lives for ever.
    let found = unsafe { host_extension("registry", 1).cast::<RegistryApi>().as_ref() };
    found.ok_or_else(|| Failure::new(Code::Unsupported, "this program has no registry of devices"))
}

/// All implementations of the registry.
fn all() -> Result<Vec<&'static Implementation>, Failure> {
    unsafe extern "C" fn visit(argument: *mut c_void, found: *const Implementation) -> *mut abi::Error {
        // SAFETY: the list below; implementations live for ever.
        unsafe { (*argument.cast::<Vec<&'static Implementation>>()).extend(found.as_ref()) };
        std::ptr::null_mut()
    }
    let mut found: Vec<&'static Implementation> = Vec::new();
    if let Some(each) = registry()?.implementations {
        // SAFETY: the function takes the list as its argument, for the call.
        let error = unsafe { each(visit, (&raw mut found).cast()) };
        if !error.is_null() {
            // SAFETY: an error of the host, which this takes.
            return Err(unsafe { Failure::of_host(error) });
        }
    }
    Ok(found)
}

/// What is meant: this process's own, or one made of what came.
///
/// # Errors
/// A function that this process does not have.
pub(super) fn of(image: &ImplementationImage<'_>) -> Result<&'static Implementation, Failure> {
    let mut came = lock(&CAME);
    if let Some((_, known)) = came.iter().find(|(known, _)| known == image) {
        return Ok(known);
    }
    let own = all()?.into_iter().find(|own| ImplementationImage::of(own) == *image);
    let made = match own {
        Some(own) => own,
        None if !image.is_complete() => {
            let text = format!(
                "kernel `{}`, implementation `{}` for {}: expected it in the agent's program or plugins, found none such: start the same program there, or give it the plugin",
                image.kernel, image.name, image.target
            );
            return Err(Failure::new(Code::Unsupported, text));
        }
        None => image.leak(),
    };
    came.push((ImplementationImage::of(made), made));
    Ok(made)
}
