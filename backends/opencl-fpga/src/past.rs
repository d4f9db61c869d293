//! What a process did first with Intel's runtime for CPUs, which its FPGA emulator shares: compile a program, or load a
//! binary. On CPUs with AVX-512 the compiler then calls functions of one library or of another (`__ocl_svml_z1` or
//! `__ocl_svml_z0`, seen in version 2024.16), and a binary finds those of the second only where a binary was loaded first
//! and something was compiled after. Where it does not, `clBuildProgram` says "Symbols not found", and programs that
//! are compiled later may fail with the same words. So kept programs of the second kind have keys of their own, and are
//! taken in such processes only.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// What the keys of programs compiled after a binary was loaded end in.
const AFTER_A_BINARY: &str = "\nafter a binary";

#[derive(Clone, Copy, Default, PartialEq)]
enum Past {
    #[default]
    Nothing,
    Compiled,
    Loaded,
    LoadedThenCompiled,
}

/// By the names of the platforms.
type Pasts = HashMap<String, Past>;

fn pasts() -> MutexGuard<'static, Pasts> {
    static PASTS: LazyLock<Mutex<Pasts>> = LazyLock::new(Mutex::default);
    PASTS.lock().unwrap_or_else(|e| e.into_inner())
}

fn matters(platform: &str) -> bool {
    platform == "Intel(R) OpenCL" || platform.starts_with("Intel(R) FPGA Emulation")
}

fn of(platform: &str) -> Past {
    pasts().get(platform).copied().unwrap_or_default()
}

/// Compiles a program: no other is compiled or loaded meanwhile where that matters.
pub(crate) fn compile<T, E>(platform: &str, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    if !matters(platform) {
        return body();
    }
    let mut pasts = pasts();
    let compiled = body()?;
    let past = pasts.entry(platform.to_owned()).or_default();
    *past = match *past {
        Past::Nothing | Past::Compiled => Past::Compiled,
        Past::Loaded | Past::LoadedThenCompiled => Past::LoadedThenCompiled,
    };
    Ok(compiled)
}

/// Loads a binary, in the same way.
pub(crate) fn load<T>(platform: &str, body: impl FnOnce() -> T) -> T {
    if !matters(platform) {
        return body();
    }
    let mut pasts = pasts();
    let past = pasts.entry(platform.to_owned()).or_default();
    if *past == Past::Nothing {
        *past = Past::Loaded;
    }
    body()
}

/// True if a binary that was refused may be taken once something was compiled.
pub(crate) fn compiling_may_help(platform: &str) -> bool {
    of(platform) == Past::Loaded
}

/// What the key of a program ends in that this process has compiled.
pub(crate) fn kept_as(platform: &str) -> &'static str {
    match of(platform) {
        Past::Nothing | Past::Compiled => "",
        Past::Loaded | Past::LoadedThenCompiled => AFTER_A_BINARY,
    }
}

/// What the keys of programs end in that this process can load.
pub(crate) fn loadable(platform: &str) -> &'static [&'static str] {
    match of(platform) {
        Past::LoadedThenCompiled => &["", AFTER_A_BINARY],
        _ => &[""],
    }
}
