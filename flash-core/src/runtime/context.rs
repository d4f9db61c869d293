//! Contexts: which plugins and devices a program sees, with which settings, and what was learnt of them.
//!
//! A context owns a [catalog](Catalog) (settings, registry, rates) and its plans. What exists once in a
//! process is not its own: a loaded library, a device that several contexts see, that device's memory with
//! its budget, and the order of pipelines. So a memory may be used in several contexts.

use super::plans::PlanTables;
use crate::devices::catalog::Catalog;
use crate::devices::registry::Registry;
use crate::devices::{BackendReport, agent};
use crate::error::Error;
use crate::settings::Settings;
use flash_backend::settings::Values;
use flash_types::abi;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Plugins, devices and implementations with settings of their own. Cheap to clone.
///
/// Most programs need none: [`get_runtime`](crate::get_runtime) uses the default context, whose settings are
/// those of the environment. A program that makes others has several sets of plugins or settings at once; its
/// memories may be used in all of them.
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
    catalog: Arc<Catalog>,
    plans: PlanTables,
}

impl Settings {
    /// A context with these settings. Plugins are loaded, and devices looked for, when they are first needed.
    ///
    /// # Errors
    /// [`Error::Setting`]: a name that is none, a value that does not fit, or a setting of the process that
    /// has another value already.
    pub fn build(self) -> Result<Context, Error> {
        Ok(Context::of(Arc::new(Catalog::new(self.resolve()?))))
    }
}

impl Context {
    /// The settings of a context to be made.
    pub fn builder() -> Settings {
        Settings::default()
    }

    fn of(catalog: Arc<Catalog>) -> Context {
        Context { inner: Arc::new(Inner { catalog, plans: PlanTables::default() }) }
    }

    /// Everything that was found, for people to read: plugins, backends, devices, implementations. Looks for
    /// all devices.
    pub fn list(&self) -> Vec<BackendReport> {
        agent::serve_if_one(self.registry());
        self.registry().report()
    }

    /// All implementations that were found, for the suite of backends.
    #[doc(hidden)]
    pub fn implementations(&self) -> impl Iterator<Item = &'static abi::Implementation> {
        self.registry().implementations().map(|found| found.raw)
    }

    pub(crate) fn settings(&self) -> &Values {
        self.catalog().settings()
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.catalog().registry()
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub(super) fn plans(&self) -> &PlanTables {
        &self.inner.plans
    }
}

impl Default for Context {
    /// The default context: the same for the whole process, with the settings of the environment.
    fn default() -> Context {
        static DEFAULT: OnceLock<Context> = OnceLock::new();
        DEFAULT.get_or_init(|| Context::of(Catalog::of_process().clone())).clone()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.settings().iter()).finish()
    }
}
