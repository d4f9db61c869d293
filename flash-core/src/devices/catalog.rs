//! [`Catalog`]: the plugins and devices that a context sees, its settings, and the rates measured in it.
//!
//! It stands below plans and runtimes, which look things up in it. It changes in two things only: the rates,
//! and the registry, which is made when it is first needed. Plugins are loaded, and devices looked for, then.

use super::registry::Registry;
use super::texts::write_if_asked;
use crate::runtime::rate::Rates;
use flash_backend::settings::{self, Values};
use std::sync::{Arc, OnceLock};

/// Settings, plugins with their devices and implementations, and rates.
pub(crate) struct Catalog {
    settings: Values,
    registry: OnceLock<Registry>,
    rates: Rates,
}

impl Catalog {
    pub fn new(settings: Values) -> Catalog {
        Catalog { settings, registry: OnceLock::new(), rates: Rates::default() }
    }

    /// The catalog of the default context: the same for the whole process, with the settings of the
    /// environment.
    pub fn of_process() -> &'static Arc<Catalog> {
        static DEFAULT: OnceLock<Arc<Catalog>> = OnceLock::new();
        DEFAULT.get_or_init(|| Arc::new(Catalog::new(settings::of_default_context().clone())))
    }

    pub fn settings(&self) -> &Values {
        &self.settings
    }

    pub fn registry(&self) -> &Registry {
        self.registry.get_or_init(|| {
            let registry = Registry::find(&self.settings);
            write_if_asked(&registry);
            registry
        })
    }

    pub fn rates(&self) -> &Rates {
        &self.rates
    }
}
