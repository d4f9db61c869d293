//! A library that programs of Intel's runtime for CPUs need, which its FPGA emulator shares.
//!
//! On CPUs with AVX-512 its compiler calls vector functions of one library (`__ocl_svml_z1.so`) until the process has
//! loaded a binary, and from then on those of another (`__ocl_svml_z0.so`), which the runtime loads only where the binary
//! came before all that was compiled (seen in version 2024.16). Elsewhere `clBuildProgram` says "Symbols not found" of
//! what is compiled after a binary, and of its binaries in other processes. So it is loaded here, for all to see.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::mem::forget;
use std::path::Path;
use std::sync::Once;

/// Loads it where such a runtime is. Without it, in other versions, nothing is lost.
pub(crate) fn load(platform: &str) {
    static ONCE: Once = Once::new();
    if platform.starts_with("Intel(R)") {
        // Both platforms have one folder, and are loaded when devices are looked for.
        ONCE.call_once(load_beside);
    }
}

fn load_beside() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps
        .lines()
        .find_map(|line| line.find('/').map(|at| &line[at..]).filter(|f| f.contains("/libintelocl")));
    let Some(library) = file.map(|file| Path::new(file).with_file_name("__ocl_svml_z0.so")) else { return };
    if library.exists() {
        // SAFETY: a library that the runtime itself loads, of functions alone. It stays.
        if let Ok(library) = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL) } {
            forget(library);
        }
    }
}
