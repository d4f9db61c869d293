//! What a process did first with Intel's runtime for CPUs, which its FPGA emulator shares: compile a program, or load a
//! binary. On CPUs with AVX-512 the compiler then calls functions of one library or of another (`__ocl_svml_z1` or
//! `__ocl_svml_z0`, seen in version 2024.16), and a binary finds those of the second only where a binary was loaded first
//! and something was compiled after. Where it does not, `clBuildProgram` says "Symbols not found", and programs that
//! are compiled later may fail with the same words. So kept programs of the second kind have keys of their own, and are
//! taken in such processes only.

use std::sync::{Mutex, MutexGuard};

/// What the keys of programs compiled after a binary was loaded end in.
const AFTER_A_BINARY: &str = "\nafter a binary";

#[derive(Clone, Copy, PartialEq)]
enum Past {
    Nothing,
    Compiled,
    Loaded,
    LoadedThenCompiled,
}

/// That of a platform for which it matters, locked.
fn of(platform: &str) -> Option<MutexGuard<'static, Past>> {
    static CPU: Mutex<Past> = Mutex::new(Past::Nothing);
    static FPGA: Mutex<Past> = Mutex::new(Past::Nothing);
    let past = match platform {
        "Intel(R) OpenCL" => &CPU,
        _ if platform.starts_with("Intel(R) FPGA Emulation") => &FPGA,
        _ => return None,
    };
    Some(past.lock().unwrap_or_else(|e| e.into_inner()))
}

/// Compiles a program; nothing else is compiled or loaded meanwhile where that matters.
pub(crate) fn compile<T, E>(platform: &str, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let past = of(platform);
    let compiled = body()?;
    if let Some(mut past) = past {
        *past = match *past {
            Past::Nothing | Past::Compiled => Past::Compiled,
            Past::Loaded | Past::LoadedThenCompiled => Past::LoadedThenCompiled,
        };
    }
    Ok(compiled)
}

/// Loads a binary, in the same way.
pub(crate) fn load<T>(platform: &str, body: impl FnOnce() -> T) -> T {
    let mut past = of(platform);
    if let Some(past) = past.as_deref_mut().filter(|past| **past == Past::Nothing) {
        *past = Past::Loaded;
    }
    body()
}

/// True if a binary that was refused may be taken once something was compiled.
pub(crate) fn compiling_may_help(platform: &str) -> bool {
    of(platform).is_some_and(|past| *past == Past::Loaded)
}

/// What the keys of programs end in that this process can load; the last is for those that it has compiled.
pub(crate) fn key_ends(platform: &str) -> &'static [&'static str] {
    match of(platform) {
        Some(past) if *past == Past::LoadedThenCompiled => &["", AFTER_A_BINARY],
        _ => &[""],
    }
}
