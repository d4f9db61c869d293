//! Programs: compiled from text or SPIR-V, or in the device's own format.

use crate::counted::Counted;
use crate::device::OpenClDevice;
use crate::failure::{Call, failed};
use flash_backend::Code;
use flash_backend::offload::KernelSpec;
use flash_backend::{Class, Failure};
use opencl3::error_codes::{CL_BUILD_PROGRAM_FAILURE, CL_INVALID_PROGRAM_EXECUTABLE};
use opencl3::program::Program;

/// The first bytes of a module in SPIR-V, in both byte orders.
const SPIR_V: [[u8; 4]; 2] = [[0x03, 0x02, 0x23, 0x07], [0x07, 0x23, 0x02, 0x03]];

/// Compiles a text. The second value is its binary, or empty.
pub(crate) fn compile(
    device: &OpenClDevice,
    spec: &KernelSpec,
    source: &str,
) -> Result<(Counted<Program>, Vec<u8>), Failure> {
    let mut options = spec.build_options.clone();
    // Compilers know since OpenCL 1.2 that they are to tell of the parameters.
    if device.found.tells_parameters {
        options.push_str(" -cl-kernel-arg-info");
    }
    // A text that was written from a function in Rust means what that does.
    if spec.checked && device.found.rounds_divisions {
        options.push_str(" -cl-fp32-correctly-rounded-divide-sqrt");
    }
    let context = &device.opened()?.context;
    let program = match device.found.info.class {
        Class::Fpga => Program::create_from_source(context, &format!("#define FLASH_FPGA 1\n{source}")),
        _ => Program::create_from_source(context, source),
    };
    let program = program.call("clCreateProgramWithSource")?;
    let program = built(device, spec, Counted::new(program), &options)?;
    let binary = program.get_binaries().unwrap_or_default().pop().unwrap_or_default();
    Ok((program, binary))
}

/// A program in text or in SPIR-V, compiled.
fn built(
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

/// A program that came as a binary.
pub(crate) fn of_binary(
    device: &OpenClDevice,
    spec: &KernelSpec,
    bytes: &[u8],
) -> Result<Counted<Program>, Failure> {
    let is_spir_v = bytes.get(..4).is_some_and(|head| SPIR_V.iter().any(|magic| magic == head));
    if !is_spir_v {
        return load(device, spec, bytes);
    }
    if device.found.limits.spir_v.is_empty() {
        let text = format!(
            "expected a device that takes SPIR-V, found one of {}, which does not: give it source",
            device.found.platform
        );
        return Err(Failure::new(Code::Unsupported, text));
    }
    let program = Program::create_from_il(&device.opened()?.context, bytes).call("clCreateProgramWithIL")?;
    built(device, spec, Counted::new(program), &spec.build_options)
}

/// A program in the device's own format.
pub(crate) fn load(
    device: &OpenClDevice,
    spec: &KernelSpec,
    bytes: &[u8],
) -> Result<Counted<Program>, Failure> {
    let context = &device.opened()?.context;
    // SAFETY: the context's own devices, one binary for its one device.
    let mut program = unsafe { Program::create_from_binary(context, context.devices(), &[bytes]) }
        .call("clCreateProgramWithBinary")?;
    program.build(context.devices(), &spec.build_options).call("clBuildProgram")?;
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
            "{}, {}: {hint} for {} ({}): {}\n{log}",
            spec.title, spec.file, device.found.info.name, device.found.platform, failure.text
        ),
    )
}
