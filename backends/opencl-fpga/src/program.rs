//! Programs: from source, from the cache on disk, from a binary.

use crate::counted::Counted;
use crate::device::OpenClDevice;
use crate::failure::{Call, failed};
use crate::kernel::{check_parameters, create};
use flash_core::Code;
use flash_core::backend::offload::{KernelSpec, Payload, ProgramCache};
use flash_core::backend::{Class, Failure};
use opencl3::error_codes::{CL_BUILD_PROGRAM_FAILURE, CL_INVALID_PROGRAM_EXECUTABLE};
use opencl3::program::Program;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The programs of a device.
pub(crate) struct Programs {
    cache: ProgramCache,
    /// They are kept: loading an FPGA's image takes seconds, and its kernels are all in one.
    loaded: Mutex<Loaded>,
}

/// Programs that are loaded. Those that no kernel has any more are released, the least recently used first,
/// when there are more than [`UNUSED`] of them.
#[derive(Default)]
struct Loaded {
    programs: HashMap<Key, Entry>,
    /// Number of uses so far.
    uses: u64,
}

struct Entry {
    program: Arc<Counted<Program>>,
    /// Number of its latest use by a kernel; 0: it waits for its first kernel.
    used: u64,
}

/// Programs without a kernel that are kept for the next one.
const UNUSED: usize = 32;

/// All that a program depends on.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// Versions of everything that compiles it, options, and the whole text.
    Source(String),
    /// The options, and the program.
    Binary(String, Vec<u8>),
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
    ) -> Result<Arc<Counted<Program>>, Failure> {
        let program = self.load(device, spec, payload, true)?;
        Ok(program.unwrap_or_else(|| unreachable!("what is not there is compiled")))
    }

    /// Loads a program, if that needs no compiler.
    pub fn preload(&self, device: &OpenClDevice, spec: &KernelSpec, payload: Payload) -> Result<(), Failure> {
        self.load(device, spec, payload, false).map(|_| ())
    }

    /// A program that is loaded, is a binary or is on disk; any other is compiled, or `None`.
    fn load(
        &self,
        device: &OpenClDevice,
        spec: &KernelSpec,
        payload: Payload,
        compile: bool,
    ) -> Result<Option<Arc<Counted<Program>>>, Failure> {
        let options = &options(device, spec);
        if options.contains('\0') {
            return Err(Failure::new(Code::Invalid, format!("{}: a NUL in the build options", spec.title)));
        }
        let (key, source) = match payload {
            Payload::Binary(bytes) => (Key::Binary(spec.build_options.clone(), bytes), String::new()),
            // The key would miss a change of a file that the compiler looks for.
            Payload::Source(text) if KernelSpec::includes(&text) => {
                let build = || build(device, spec, &source(device, spec, &text), options).map(Arc::new);
                return compile.then(build).transpose();
            }
            Payload::Source(text) => {
                let source = source(device, spec, &text);
                let (driver, name) = (&device.found.driver, &device.found.info.name);
                let parameters = spec.expected_parameters();
                (Key::Source(format!("{driver}\n{name}\n{options}\n{parameters}\n{source}")), source)
            }
        };
        // Held while it is built, so that of two threads that want one program the second finds it.
        let mut loaded = self.loaded.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(program) = loaded.get(&key, compile) {
            return Ok(Some(program));
        }
        let program = match &key {
            // A binary is not compiled, and not kept for others.
            Key::Binary(_, bytes) => of_binary(device, spec, bytes)?,
            Key::Source(key) => match self.of_disk(device, spec, key) {
                Some(program) => program,
                None if !compile => return Ok(None),
                None => {
                    let program = build(device, spec, &source, options)?;
                    // What is kept is right: some drivers do not tell of the parameters of a binary.
                    check_parameters(spec, &create(spec, &program)?)?;
                    self.keep(key, &program);
                    program
                }
            },
        };
        Ok(Some(loaded.insert(key, Arc::new(program), compile)))
    }

    /// A program that an earlier process kept.
    fn of_disk(&self, device: &OpenClDevice, spec: &KernelSpec, key: &str) -> Option<Counted<Program>> {
        let program = binary_program(device, &self.cache.get(key)?, &spec.build_options);
        if program.is_err() {
            // It is intact, but this driver does not take it: it is built anew.
            self.cache.forget(key);
        }
        program.ok()
    }

    /// Writes a compiled program to disk. If that fails, it is compiled again next time.
    fn keep(&self, key: &str, program: &Program) {
        if let Ok(binaries) = program.get_binaries()
            && let [binary] = &binaries[..]
            && !binary.is_empty()
        {
            self.cache.keep(key, binary);
        }
    }
}

impl Loaded {
    /// A program; `used`: for a kernel.
    fn get(&mut self, key: &Key, used: bool) -> Option<Arc<Counted<Program>>> {
        let entry = self.programs.get_mut(key)?;
        if used {
            self.uses += 1;
            entry.used = self.uses;
        }
        Some(entry.program.clone())
    }

    fn insert(&mut self, key: Key, program: Arc<Counted<Program>>, used: bool) -> Arc<Counted<Program>> {
        self.uses += u64::from(used);
        let entry = Entry { program: program.clone(), used: if used { self.uses } else { 0 } };
        self.programs.insert(key, entry);
        // A program that only this table has cannot be had by anything else while the lock is held.
        let unused = |entry: &Entry| entry.used > 0 && Arc::strong_count(&entry.program) == 1;
        let mut uses: Vec<u64> = self.programs.values().filter(|e| unused(e)).map(|e| e.used).collect();
        if let Some(oldest) = uses.len().checked_sub(UNUSED + 1) {
            let last = *uses.select_nth_unstable(oldest).1;
            self.programs.retain(|_, entry| !unused(entry) || entry.used > last);
        }
        program
    }
}

/// The source that is compiled for a device.
fn source(device: &OpenClDevice, spec: &KernelSpec, text: &str) -> String {
    let source = spec.source(text);
    match device.found.info.class {
        Class::Fpga => format!("#define FLASH_FPGA 1\n{source}"),
        _ => source,
    }
}

/// The options for the compiler: the implementation's, and that it is to tell of the parameters, which
/// compilers know since OpenCL 1.2.
fn options(device: &OpenClDevice, spec: &KernelSpec) -> String {
    match device.found.tells_parameters {
        true => format!("{} -cl-kernel-arg-info", spec.build_options),
        false => spec.build_options.clone(),
    }
}

fn build(
    device: &OpenClDevice,
    spec: &KernelSpec,
    source: &str,
    options: &str,
) -> Result<Counted<Program>, Failure> {
    let opened = device.opened()?;
    let program = Program::create_from_source(&opened.context, source).call("clCreateProgramWithSource")?;
    compiled(device, spec, Counted::new(program), options)
}

/// A program in text or in SPIR-V, compiled.
fn compiled(
    device: &OpenClDevice,
    spec: &KernelSpec,
    mut program: Counted<Program>,
    options: &str,
) -> Result<Counted<Program>, Failure> {
    let context = &device.opened()?.context;
    match program.build(context.devices(), options) {
        Ok(()) => Ok(program),
        Err(error) => Err(build_failed(device, spec, &program, error.0)),
    }
}

fn of_binary(device: &OpenClDevice, spec: &KernelSpec, bytes: &[u8]) -> Result<Counted<Program>, Failure> {
    let (info, platform) = (&device.found.info, &device.found.platform);
    let refused = |failure: Failure| {
        Failure::new(
            failure.code,
            format!(
                "{}: expected a program for {} ({platform}), found {} bytes that it does not take: {}",
                spec.title,
                info.name,
                bytes.len(),
                failure.text
            ),
        )
    };
    let is_spir_v = bytes.get(..4).is_some_and(|head| SPIR_V.iter().any(|magic| magic == head));
    if !is_spir_v {
        return binary_program(device, bytes, &spec.build_options).map_err(refused);
    }
    if device.found.limits.spir_v.is_empty() {
        return Err(Failure::new(
            Code::Unsupported,
            format!(
                "{}: expected a device that takes SPIR-V, found {} ({platform}), which does not: give it source",
                spec.title, info.name
            ),
        ));
    }
    let program = Program::create_from_il(&device.opened()?.context, bytes).call("clCreateProgramWithIL");
    compiled(device, spec, Counted::new(program.map_err(refused)?), &spec.build_options)
}

/// A program in the device's own format.
fn binary_program(device: &OpenClDevice, bytes: &[u8], options: &str) -> Result<Counted<Program>, Failure> {
    let context = &device.opened()?.context;
    // SAFETY: the context's own devices, one binary for its one device.
    let mut program = unsafe { Program::create_from_binary(context, context.devices(), &[bytes]) }
        .call("clCreateProgramWithBinary")?;
    program.build(context.devices(), options).call("clBuildProgram")?;
    Ok(Counted::new(program))
}

/// The error of a build, with the compiler's log.
fn build_failed(device: &OpenClDevice, spec: &KernelSpec, program: &Program, code: i32) -> Failure {
    let log = program.get_build_log(device.found.device.id()).unwrap_or_default();
    let log = match log.trim() {
        "" => "the compiler says nothing",
        log => log,
    };
    let failure = failed("clBuildProgram", code);
    let hint = match code {
        CL_BUILD_PROGRAM_FAILURE => "it does not compile".to_owned(),
        // Some drivers report this for a program that compiles and is empty.
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
