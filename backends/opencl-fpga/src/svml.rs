//! A library that programs of Intel's runtime for CPUs need; its FPGA emulator shares it.
//!
//! On CPUs with AVX-512 its compiler calls vector functions of one library (`__ocl_svml_z1.so`) until the
//! process has loaded a binary, and from then on those of another (`__ocl_svml_z0.so`). The runtime loads the
//! latter only if the binary came before everything that was compiled (seen in version 2024.16). Otherwise
//! `clBuildProgram` reports "Symbols not found" for programs compiled after a binary, and for their binaries
//! in other processes. So the library is loaded here, visible to all.

use flash_backend::keep_float_state;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::mem::forget;
use std::path::Path;
use std::sync::Once;

/// Loads the library, if the runtime has it. Versions without it do not need it.
pub(crate) fn load(platform: &str) {
    static ONCE: Once = Once::new();
    if platform.starts_with("Intel(R)") {
        // Both platforms have one folder, and are loaded when devices are discovered.
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
        // SAFETY: a library that the runtime itself loads, which has only functions. It is never unloaded.
        let load = || unsafe { Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL) };
        if let Ok(library) = keep_float_state(load) {
            forget(library);
        }
    }
}
