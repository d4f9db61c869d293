//! A process that was started as an agent serves its devices to another process in place of its program.

use super::registry::Registry;
use super::take_error;
use crate::nested::in_kernel;
use flash_backend::notice;
use flash_types::abi::Str;
use flash_types::abi::agent::{AGENT_EXTENSION, Agent};
use std::sync::Once;

/// Does nothing, unless a backend says that this process is an agent. Then it serves, and ends the process.
/// The caller holds nothing.
pub(crate) fn serve_if_one(registry: &Registry) {
    static ASKED: Once = Once::new();
    // A kernel of an agent gets its error where it launches.
    if in_kernel() {
        return;
    }
    // Other threads of the program wait here for as long as this one serves.
    ASKED.call_once(|| {
        if let Some(serve) = registry.extensions(AGENT_EXTENSION).find_map(agent) {
            // SAFETY: a backend's function, called once, by a thread that holds nothing.
            let served = unsafe { take_error(serve()) };
            if let Err(error) = &served {
                notice(format_args!("this process was started as an agent, and cannot be one: {error}"));
            }
            std::process::exit(i32::from(served.is_err()));
        }
    });
}

type Serve = unsafe extern "C" fn() -> *mut flash_types::abi::Error;

fn agent(extension: *const std::ffi::c_void) -> Option<Serve> {
    // SAFETY: the extension of this name and version is of this type, and lives for ever.
    let agent = unsafe { extension.cast::<Agent>().as_ref() }?;
    let whole = agent.struct_size as usize >= size_of::<Agent>();
    agent.serve.filter(|_| whole && agent.is_agent != 0)
}

impl Registry {
    /// The extensions of a name that backends have, in version 1.
    fn extensions(&self, name: &'static str) -> impl Iterator<Item = *const std::ffi::c_void> {
        self.apis().filter_map(move |api| {
            // SAFETY: a checked vtable; the text lives for the call.
            Some(unsafe { api.get_extension?(Str::new(name), 1) }).filter(|found| !found.is_null())
        })
    }
}
