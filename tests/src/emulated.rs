//! Tests of the CUDA backend on the emulated driver of `tests/cuda`, where there is no GPU.

use crate::READ_BY_FLASH;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Set for a process that has the emulated driver.
const EMULATED: &str = "FLASH_TEST_EMULATED";

/// Set to run the tests on the machine's own GPU.
const GPU: &str = "FLASH_TEST_GPU";

/// True in a process that has a driver to test: the emulated one, or, if it is asked for, the machine's.
pub fn has_driver() -> bool {
    is_here() || on_gpu()
}

/// True in a process that has the emulated driver.
pub fn is_here() -> bool {
    std::env::var_os(EMULATED).is_some()
}

/// True if the machine's own GPU is asked for.
pub fn on_gpu() -> bool {
    std::env::var_os(GPU).is_some()
}

/// The environment of a process with the emulated driver.
///
/// # Panics
/// If the driver does not build.
pub fn environment() -> Vec<(&'static str, OsString)> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let place = crate::plugins::build(&["flash-tests-cuda"]);
        let folder = place.join("cuda-driver");
        std::fs::create_dir_all(&folder).expect("the build directory can be written");
        let link = folder.join("libcuda.so");
        // Another process may make it, too. A copy of the build directory has its own driver.
        let _ = std::os::unix::fs::symlink("../libflash_tests_cuda_driver.so", &link);
        assert!(link.exists(), "{} is not there", link.display());
        folder
    });
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = std::env::join_paths([folder.clone()].into_iter().chain(std::env::split_paths(&before)));
    vec![
        ("LD_LIBRARY_PATH", path.expect("folders without colons")),
        // Programs that one test compiles are found by the next.
        ("FLASH_CACHE_DIR", folder.join("programs").into_os_string()),
        (EMULATED, "1".into()),
    ]
}

/// Runs a test of this program in a process with the emulated driver, once, by the name that the harness
/// prints.
///
/// # Panics
/// If the test does, with its output.
pub fn run_emulated(test: &str) {
    static RAN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !RAN.lock().unwrap_or_else(|e| e.into_inner()).insert(test.to_owned()) {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    for variable in READ_BY_FLASH {
        command.env_remove(variable);
    }
    let output = command.envs(environment()).output().expect("this program can be run again");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).replace('\n', "\n  | ");
    let ran = text.contains("1 passed");
    assert!(output.status.success() && ran, "{test} on the emulated driver: {}\n  | {text}", output.status);
}
