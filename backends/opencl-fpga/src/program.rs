//! Programs: from source, from the cache on disk, from a binary.

use crate::device::OpenClDevice;
use crate::failure::{Call, failed};
use flash_core::Code;
use flash_core::backend::Failure;
use flash_core::backend::offload::{KernelSpec, Payload, ProgramCache};
use opencl3::error_codes::{CL_BUILD_PROGRAM_FAILURE, CL_INVALID_PROGRAM_EXECUTABLE};
use opencl3::program::Program;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The programs of a device.
pub(crate) struct Programs {
    cache: ProgramCache,
    /// By key. They stay: to load an FPGA's image takes seconds.
    loaded: Mutex<HashMap<String, Arc<Program>>>,
}

/// The first bytes of a module in SPIR-V, in both byte orders.
const SPIR_V: [[u8; 4]; 2] = [[0x03, 0x02, 0x23, 0x07], [0x07, 0x23, 0x02, 0x03]];

impl Programs {
    pub fn new(cache: ProgramCache) -> Programs {
        Programs { cache, loaded: Mutex::default() }
    }

    /// The program of a kernel, built for the device.
    pub fn get(
        &self,
        device: &OpenClDevice,
        spec: &KernelSpec,
        payload: Payload,
    ) -> Result<Arc<Program>, Failure> {
        let options = spec.build_options.as_str();
        if options.contains('\0') {
            return Err(Failure::new(Code::Invalid, format!("{}: a NUL in the build options", spec.title)));
        }
        let text = match payload {
            Payload::Source(text) => text,
            // Nothing to compile, nothing to keep for others.
            Payload::Binary(bytes) => return of_binary(device, spec, &bytes).map(Arc::new),
        };
        let source = spec.source(&text);
        let key = format!("{}\n{}\n{options}\n{source}", device.found.driver, device.found.info.name);
        // Held while it is built: of two threads that want one program the second finds it.
        let mut loaded = self.loaded.lock().unwrap_or_else(|e| e.into_inner());
        if KernelSpec::includes(&text) {
            // What it includes may change, and is not in the key.
            return build(device, spec, &source).map(Arc::new);
        }
        if let Some(program) = loaded.get(&key) {
            return Ok(program.clone());
        }
        let program = Arc::new(self.of_source(device, spec, &key, &source)?);
        loaded.insert(key, program.clone());
        Ok(program)
    }

    fn of_source(
        &self,
        device: &OpenClDevice,
        spec: &KernelSpec,
        key: &str,
        source: &str,
    ) -> Result<Program, Failure> {
        if let Some(binary) = self.cache.get(key) {
            match binary_program(device, &binary, &spec.build_options) {
                Ok(program) => return Ok(program),
                // Whole, and nothing that this driver takes: it is built anew.
                Err(_) => self.cache.forget(key),
            }
        }
        let program = build(device, spec, source)?;
        // A program that cannot be kept is compiled again next time.
        if let Ok(binaries) = program.get_binaries()
            && let [binary] = &binaries[..]
            && !binary.is_empty()
            && let Err(why) = self.cache.put(key, binary)
        {
            warn_once(&why);
        }
        Ok(program)
    }
}

/// Says once that compiled programs are not kept.
fn warn_once(why: &std::io::Error) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        eprintln!("flash: compiled programs are not kept: {why}: set FLASH_CACHE_DIR to a folder of yours");
    });
}

fn build(device: &OpenClDevice, spec: &KernelSpec, source: &str) -> Result<Program, Failure> {
    let opened = device.opened()?;
    let mut program =
        Program::create_from_source(&opened.context, source).call("clCreateProgramWithSource")?;
    match program.build(opened.context.devices(), &spec.build_options) {
        Ok(()) => Ok(program),
        Err(error) => Err(build_failed(device, spec, &program, error.0)),
    }
}

fn of_binary(device: &OpenClDevice, spec: &KernelSpec, bytes: &[u8]) -> Result<Program, Failure> {
    let opened = device.opened()?;
    let refused = |failure: Failure| {
        Failure::new(
            failure.code,
            format!(
                "{}: expected a program for {} ({}), found {} bytes that it does not take: {}",
                spec.title,
                device.found.info.name,
                device.found.platform,
                bytes.len(),
                failure.text
            ),
        )
    };
    let is_spir_v = bytes.get(..4).is_some_and(|head| SPIR_V.iter().any(|magic| magic == head));
    if !is_spir_v {
        return binary_program(device, bytes, &spec.build_options).map_err(refused);
    }
    let mut program =
        Program::create_from_il(&opened.context, bytes).call("clCreateProgramWithIL").map_err(refused)?;
    match program.build(opened.context.devices(), &spec.build_options) {
        Ok(()) => Ok(program),
        Err(error) => Err(build_failed(device, spec, &program, error.0)),
    }
}

fn binary_program(device: &OpenClDevice, bytes: &[u8], options: &str) -> Result<Program, Failure> {
    let opened = device.opened()?;
    let devices = opened.context.devices();
    // SAFETY: the context's own devices, one binary for its one device.
    let mut program = unsafe { Program::create_from_binary(&opened.context, devices, &[bytes]) }
        .call("clCreateProgramWithBinary")?;
    program.build(devices, options).call("clBuildProgram")?;
    Ok(program)
}

/// The error of a build, with what the compiler says.
fn build_failed(device: &OpenClDevice, spec: &KernelSpec, program: &Program, code: i32) -> Failure {
    let log = program.get_build_log(device.found.device.id()).unwrap_or_default();
    let log = match log.trim() {
        "" => "the compiler says nothing",
        log => log,
    };
    let failure = failed("clBuildProgram", code);
    let hint = match code {
        CL_BUILD_PROGRAM_FAILURE => "it does not compile".to_owned(),
        // Some drivers say so of a program that compiles and has nothing in it.
        CL_INVALID_PROGRAM_EXECUTABLE => {
            format!("expected a kernel `{}` in the program, found none", spec.entry)
        }
        _ => "it was not built".to_owned(),
    };
    Failure::new(
        failure.code,
        format!(
            "{}: {hint} for {} ({}): {}\n{log}",
            spec.title, device.found.info.name, device.found.platform, failure.text
        ),
    )
}
