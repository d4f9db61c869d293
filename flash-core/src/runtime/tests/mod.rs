//! Whole launches through the vtable, small enough for an interpreter that checks every access.

mod kernels;
mod launches;
mod recordings;
mod serial;

use super::{RuntimeObj, get_runtime};

/// On one thread, and on two.
fn runtimes() -> [RuntimeObj; 2] {
    ["TEST_SERIAL:0", "TEST_SERIAL:1"].map(|key| get_runtime(key).unwrap())
}

fn serial() -> RuntimeObj {
    get_runtime("TEST_SERIAL:0").unwrap()
}
