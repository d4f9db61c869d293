//! Whole launches through the vtable, small enough for an interpreter that checks every access.

mod devices;
mod failing;
mod kernels;
mod launches;
mod plans;
mod recordings;
mod replay;
mod serial;
mod small;
mod twins;

use super::{RuntimeObj, get_runtime};
use std::sync::OnceLock;

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
