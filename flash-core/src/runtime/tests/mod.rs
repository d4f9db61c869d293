//! Whole launches through the vtable, small enough for an interpreter that checks every access.

mod devices;
mod failing;
mod kept;
mod kernels;
mod launches;
mod plans;
mod recordings;
mod replay;
mod serial;
mod small;
mod twins;

use super::{RuntimeObj, get_runtime};
use flash_backend::{Failure, Launch, run_rows};
use flash_types::abi::Implementation;
use std::sync::OnceLock;

/// Runs all rows of a launch on this thread, phase by phase.
fn run_all(launch: &Launch<'_, &'static Implementation>) -> Result<(), Failure> {
    for phase in launch.phases() {
        let share = launch.share(phase, launch.space().phase(phase));
        // SAFETY: all rows of the phase, which nothing else has, and the launch's arguments.
        let error = unsafe { run_rows(*launch.kernel(), &share, launch.args().as_ptr()) };
        if !error.is_null() {
            // SAFETY: an error of this host.
            return Err(unsafe { Failure::of_host(error) });
        }
    }
    Ok(())
}

/// On one thread, and on two. Shared, because an interpreter needs a second to prepare a kernel.
fn runtimes() -> &'static [RuntimeObj; 2] {
    static RUNTIMES: OnceLock<[RuntimeObj; 2]> = OnceLock::new();
    RUNTIMES.get_or_init(fresh)
}

/// Runtimes of this test only.
fn fresh() -> [RuntimeObj; 2] {
    ["TEST_SERIAL:0", "TEST_SERIAL:1"].map(|key| get_runtime(key).unwrap())
}

fn serial() -> &'static RuntimeObj {
    &runtimes()[0]
}
