//! The builder of a [`Context`](crate::Context): the settings of `flash_backend::settings`, for host
//! programs.

use crate::error::Error;
use flash_backend::settings::{self, Refused, Values, Variable};

/// The settings of a [`Context`](crate::Context) to be made, see
/// [`Context::builder`](crate::Context::builder).
///
/// | name | environment | value | default |
/// |---|---|---|---|
/// | `plugin_path` | `FLASH_BACKEND_PATH` | directories and files of plugins, separated by colons | `flash-backends` beside the program |
/// | `check_writes` | `FLASH_CHECK_WRITES` | flag: check that kernels write all that they promise to, and store an element of a `Scatter` once in a phase, where they run on the CPU | 0 |
/// | `check_bounds` (p) | `FLASH_CHECK_BOUNDS` | flag: check the indices of `FLASH_AT` in kernels that devices compile and, before each launch, what kernels index with, see [`ContentsCheck`](crate::kernel::ContentsCheck) | 0 |
/// | `check_maps` (p) | `FLASH_CHECK_MAPS` | flag: cut every launch that may be cut, on one device, too, and check that each part stays inside the boxes that its map says; in kernels that devices compile, indices of `FLASH_AT` are checked | 0 |
/// | `host_budget` (p) | `FLASH_HOST_BUDGET` | bytes of the host's memory that arrays of 4 MiB and more are to take | no limit |
/// | `host_granule` | `FLASH_HOST_GRANULE` | bytes that the host fetches at least from a device's memory | 65536 |
/// | `allow_world_writable` (p) | `FLASH_ALLOW_WORLD_WRITABLE` | flag: also load plugins that every user can write | 0 |
/// | `cache_dir` (p) | `FLASH_CACHE_DIR` | folder of compiled programs | `flash` in `XDG_CACHE_HOME` or `~/.cache` |
/// | `cache_limit` (p) | `FLASH_CACHE_LIMIT` | bytes of all of them; 0: none is kept | 512 MiB |
/// | `threads` (p) | `FLASH_CPU_THREADS` | threads that run kernels, 1 to 1024 | what affinity and cgroups allow |
/// | `stack_size` (p) | `FLASH_STACK_SIZE` | bytes of the stack of each of those threads, 64 KiB to 4 GiB | 8 MiB |
/// | `blocking_threads` (p) | `FLASH_BLOCKING_THREADS` | extra threads, at most, for functions of the host that block and for pipelines that wait for devices, 1 to 1024 | 8 |
/// | `cpu.linger_us` (p) | `FLASH_CPU_LINGER_US` | microseconds that an idle thread waits before it parks | 200 |
/// | `cpu.devices` | `FLASH_CPU_DEVICES` | devices that the threads are split into, 1 to 1024 | 1 |
/// | `cpu.copy` | `FLASH_CPU_COPY` | flag: each of those devices has a memory of its own; for tests | 0 |
/// | `cpu.throttle` | `FLASH_CPU_THROTTLE` | fraction of its speed at which each device runs, such as `1,0.5`; for tests | 1 |
/// | `test.setup` | `FLASH_TEST` | devices of the test backend, such as `devices=2 ns=0,100` | `devices=1` |
/// | `texts` (p) | `FLASH_TEXTS` | folder into which a program writes the text of each of its kernels for devices, when it first asks for a runtime | none |
/// | `graph_dot` (p) | `FLASH_GRAPH_DOT` | file for a picture of each dataflow graph when it ends, and of those that run at Ctrl-C; SVG if its name ends in `.svg`, else DOT | none |
/// | `rank.mpi_lib` (p) | `FLASH_MPI_LIB` | the library of MPI for processes that `mpirun` has started | the launcher's own |
/// | `rank.mpi_shared` (p) | `FLASH_MPI_SHARED` | so many processes that `mpirun` has started on one host share memory, one after the other by their ranks; 1: none does, and all send messages as if they were on several hosts | all |
/// | `rank.timeout_ms` (p) | `FLASH_RANK_TIMEOUT_MS` | milliseconds after which a process of `flash run` that gives no sign of life is lost, 50 to 3600000 | 5000 |
/// | `halo.config` (p) | `FLASH_HALO_CONFIG` | the configuration of programs of C2MPI, see `docs/halo.md` | the functions of the library |
/// | `opencl.copy` | `FLASH_OPENCL_COPY` | flag: OpenCL devices that could use the host's memory get memories of their own; for tests | 0 |
///
/// A flag is `1`, `true`, `yes` or `on`, or `0`, `false`, `no` or `off`. An environment variable that is
/// empty counts as unset. One whose value does not fit is reported once on standard error, and the default
/// holds; so is one whose name is nearly that of a setting.
///
/// Settings with (p) are the process's: the first context that is made fixes them, and a later one that asks
/// for another value is refused.
///
/// # Examples
/// ```
/// use flash_core::Context;
/// let context = Context::builder().set("check_writes", true).set("plugin_path", "/opt/flash").build()?;
/// assert!(Context::builder().set("check_write", true).build().is_err()); // no such setting
/// # Ok::<(), flash_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "settings do nothing until `build` makes a context of them"]
pub struct Settings {
    values: Values,
    /// The first that was refused.
    error: Option<Error>,
}

impl Settings {
    /// Sets one of the settings in the table above, in place of what the environment says. `build` refuses a
    /// name that is not in it, and a value that does not fit.
    pub fn set(mut self, name: &str, value: impl ToString) -> Settings {
        let set = self.values.set(name, &value.to_string());
        self.error = self.error.take().or(set.err().map(Error::from));
        self
    }

    /// With those of the environment and of the process.
    pub(crate) fn resolve(self) -> Result<Values, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.values.resolve()?),
        }
    }

    /// The variables of the environment that begin with `FLASH_`, by name.
    pub fn variables() -> Vec<Variable> {
        settings::variables()
    }
}

impl From<Refused> for Error {
    fn from(Refused { setting, text }: Refused) -> Error {
        Error::Setting { setting, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_backend::settings::{SETTINGS, Setting};

    #[test]
    fn each_setting_is_in_the_table_of_the_documentation() {
        let documented = include_str!("settings.rs");
        for Setting { name, variable, of_process, .. } in SETTINGS {
            let mark = if *of_process { " (p)" } else { "" };
            let row = format!("/// | `{name}`{mark} | `{variable}` |");
            assert!(documented.contains(&row), "no row {row}");
        }
        assert_eq!(documented.matches("\n/// | `").count(), SETTINGS.len());
    }

    #[test]
    fn names_and_values_that_do_not_fit_are_refused() {
        let refused = |settings: Settings| settings.resolve().unwrap_err().to_string();
        let text = refused(Settings::default().set("check_write", 1).set("cpu.devices", 0));
        assert!(
            text.contains("`check_write`")
                && text.contains("check_bounds, check_maps, check_writes, host_budget"),
            "{text}"
        );
        let text = refused(Settings::default().set("cpu.devices", 0));
        assert_eq!(text, "setting `cpu.devices`: expected a whole number from 1 to 1024, found `0`");
        let resolved = Settings::default().set("cpu.copy", true).set("host_granule", 8).resolve().unwrap();
        assert!(resolved.flag("cpu.copy") && !resolved.flag("check_writes"));
        assert_eq!(resolved.number("host_granule"), Some(8));
    }

    #[test]
    fn settings_of_the_process_are_those_of_its_first_context() {
        let first = Settings::default().resolve().unwrap();
        let same = Settings::default().set("stack_size", 1 << 20).resolve();
        match first.number("stack_size") {
            Some(size) if size == 1 << 20 => drop(same.unwrap()),
            _ => {
                let text = same.unwrap_err().to_string();
                assert!(text.contains("`stack_size`") && text.contains("found `1048576`"), "{text}");
                assert!(text.contains("expected the default") || text.contains("expected `"), "{text}");
            }
        }
    }
}
