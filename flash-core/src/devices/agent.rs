//! A process that was started as an agent serves its devices to another process in place of its program.

use super::catalog::Catalog;
use super::registry::Registry;
use super::take_error;
use crate::nested::in_kernel;
use flash_backend::notice;
use flash_backend::settings::Values;
use flash_types::abi::agent::{AGENT_EXTENSION, Agent};
use flash_types::abi::{self, BackendApi, Str};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// The name, in keys, of an agent that is this program.
pub(super) const OWN: &str = "agent";

/// This program begins with [`agent_here`].
static IS_HERE: AtomicBool = AtomicBool::new(false);

/// Says that this program may be started again as an agent of its own, for keys such as `OPENCL@agent`, and
/// becomes the agent in a process that was started for that: then this does not return.
///
/// It stands at the beginning of `main`: an agent runs what comes before it, and nothing that comes after.
///
/// # Examples
/// ```no_run
/// fn main() -> Result<(), flash_core::Error> {
///     flash_core::agent_here();
///     // A driver that crashes ends the agent, and this program has an error.
///     let rt = flash_core::get_runtime("OPENCL@agent")?;
///     # let _ = rt;
///     Ok(())
/// }
/// ```
pub fn agent_here() {
    IS_HERE.store(true, Relaxed);
    // Asked of what is linked in. Plugins and the settings of the process are left to the program.
    let linked = Registry::of_file(&Values::default(), None);
    if linked.extensions(AGENT_EXTENSION).any(|extension| agent(extension).is_some()) {
        serve_if_one(Catalog::of_process().registry());
    }
}

fn agent(extension: *const std::ffi::c_void) -> Option<unsafe extern "C" fn() -> *mut abi::Error> {
    // SAFETY: the extension of this name and version is of this type, and lives for ever.
    let agent = unsafe { extension.cast::<Agent>().as_ref() }?;
    let whole = agent.struct_size as usize >= std::mem::offset_of!(Agent, isolate);
    agent.serve.filter(|_| whole && agent.is_agent != 0)
}

impl Registry {
    /// The extensions of a name that backends have, in version 1.
    fn extensions(&self, name: &'static str) -> impl Iterator<Item = *const std::ffi::c_void> {
        self.apis().filter_map(move |api| extension(api, name))
    }

    /// The backend that has agents, and how it is asked for this one.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn isolating(&self, agent: &str) -> Result<(&'static BackendApi, Isolate), String> {
        if agent == OWN && !IS_HERE.load(Relaxed) {
            return Err(
                "the agent is this program, started again: call `agent_here()` of `flash::prelude` first of all in \
                        `main`"
                    .to_owned(),
            );
        }
        let isolate = |api: &'static BackendApi| {
            // SAFETY: the extension of this name and version is of this type, and lives for ever.
            let agent = unsafe { extension(api, AGENT_EXTENSION)?.cast::<Agent>().as_ref() }?;
            let whole = agent.struct_size as usize >= size_of::<Agent>();
            Some((api, Isolate(agent.isolate.filter(|_| whole)?)))
        };
        let none =
            || "no backend of this program has agents; `RANK` does, feature `ranks` of `flash`".to_owned();
        self.apis().find_map(isolate).ok_or_else(none)
    }
}

/// How a backend is asked for an agent.
pub(super) struct Isolate(unsafe extern "C" fn(key: Str));

impl Isolate {
    /// Asks for it, as `KEY@AGENT`.
    pub fn ask(&self, key: &str) {
        // SAFETY: the text lives for the call.
        unsafe { (self.0)(Str::new(key)) }
    }
}

fn extension(api: &BackendApi, name: &str) -> Option<*const std::ffi::c_void> {
    // SAFETY: a checked vtable; the text lives for the call.
    Some(unsafe { api.get_extension?(Str::new(name), 1) }).filter(|found| !found.is_null())
}
