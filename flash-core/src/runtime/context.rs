//! Contexts: which plugins and devices a program sees, with which settings, and what was learnt of them.
//!
//! A context owns its registry, its plans and the rates that it has measured. What exists once in a process is not its
//! own: a loaded library, a device that several contexts see, that device's memory with its budget, and the order of
//! pipelines. So a memory may be used in several contexts.
//!
//! `registry` is made when it is first needed; plugins and devices are looked for there.

use super::options::Options;
use super::plans::PlanTables;
use super::rate::Rates;
use super::{RuntimeObj, preload};
use crate::backend::BackendReport;
use crate::backend::registry::Registry;
use crate::descriptor::Attributes;
use crate::error::Error;
use crate::settings::Settings;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Plugins, devices and implementations with settings of their own. Cheap to clone.
///
/// Most programs need none: [`get_runtime`](crate::get_runtime) uses the default context, whose settings are those of
/// the environment. A program that makes others has several sets of plugins or settings at once; its memories may be
/// used in all of them.
///
/// # Examples
/// ```
/// use flash_core::Context;
/// let careful = Context::builder().set("check_writes", true).set("cpu.devices", 2).build()?;
/// let error = careful.runtime("ABACUS").unwrap_err();
/// assert!(error.to_string().contains("there is no backend `ABACUS`"));
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    registry: OnceLock<Registry>,
    plans: PlanTables,
    rates: Rates,
}

impl Context {
    /// The settings of a context to be made.
    pub fn builder() -> Settings {
        Settings::default()
    }

    pub(crate) fn of(settings: Settings) -> Context {
        let (registry, plans, rates) = (OnceLock::new(), PlanTables::default(), Rates::default());
        Context { inner: Arc::new(Inner { settings, registry, plans, rates }) }
    }

    /// The runtime of a key in this context, see [`get_runtime`](crate::get_runtime).
    ///
    /// # Errors
    /// [`Error::Key`] lists the keys there are and, for each plugin found but not usable, why.
    pub fn runtime(&self, key: &str) -> Result<RuntimeObj, Error> {
        crate::memory::state::agree();
        let devices = self.registry().resolve(key)?;
        preload::early(self.registry(), &devices);
        let plans = self.plans().of(&devices, &Attributes::default());
        Ok(RuntimeObj::new(self.clone(), key.to_owned(), devices, Options::default(), None, plans))
    }

    /// Everything that was found, for people to read: plugins, backends, devices, implementations. Looks for all
    /// devices.
    pub fn list(&self) -> Vec<BackendReport> {
        self.registry().report()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.inner.registry.get_or_init(|| Registry::find(&self.inner.settings))
    }

    pub(super) fn plans(&self) -> &PlanTables {
        &self.inner.plans
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.inner.rates
    }
}

impl Default for Context {
    /// The default context: the same for the whole process, with the settings of the environment.
    fn default() -> Context {
        static DEFAULT: OnceLock<Context> = OnceLock::new();
        let of_environment = || Settings::default().resolve();
        let make = || of_environment().unwrap_or_else(|_| unreachable!("nothing was asked for"));
        DEFAULT.get_or_init(|| Context::of(make())).clone()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.settings().iter()).finish()
    }
}
