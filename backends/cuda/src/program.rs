//! Modules: from source, from the cache on disk, from PTX, cubin or fatbin.

use crate::context::Current;
use crate::device::CudaDevice;
use crate::failure::failed;
use crate::nvrtc::{self, Architecture};
use cudarc::driver::sys::{
    CUfunction, CUjit_option, CUmodule, CUresult, cuFuncGetName, cuModuleEnumerateFunctions,
    cuModuleGetFunction, cuModuleGetFunctionCount, cuModuleLoadDataEx,
};
use flash_backend::Code;
use flash_backend::Failure;
use flash_backend::offload::{KernelSpec, ToldParameter};
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

/// A program that is loaded. It is never unloaded: a launch or a graph may name its functions.
pub struct Module {
    module: CUmodule,
    /// The kernel's name in it, if it was compiled for one.
    entry: Option<String>,
}

// SAFETY: a module may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// First bytes of a cubin, which is an ELF file, and of a fatbin.
const ELF: &[u8] = b"\x7fELF";
const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

/// Compiles a source, and compares the kernel's parameters with the definition's arguments. What is kept of
/// it: the version of NVRTC and the entry's name, each with a NUL, then the image.
pub(crate) fn compile(
    device: CudaDevice,
    spec: &KernelSpec,
    source: &str,
) -> Result<(Module, Vec<u8>), Failure> {
    let (major, minor) = device.0.found.limits.capability;
    let architecture = Architecture::of(major, minor)?;
    let built =
        nvrtc::compile(&spec.title, source, "kernel.cu", &spec.entry, &spec.build_options, architecture)?;
    check_types(spec, &built.parameters)?;
    let version = nvrtc::version().unwrap_or_default();
    let current = device.0.opened()?.context.enter()?;
    let module = of_image(&current, spec, &built.image, Some(built.entry.clone())).map_err(|failure| {
        let driver = device.0.found.limits.driver;
        // PTX is for drivers as new as its compiler, machine code for those of the same major version.
        if failure.code != Code::Unsupported || version <= (driver / 1000, driver % 1000 / 10) {
            return failure;
        }
        let text = format!(
            "{}: NVRTC {} is newer than the driver, for CUDA {}.{}: update the driver, or install NVRTC of that version",
            failure.text,
            shown(version),
            driver / 1000,
            driver % 1000 / 10
        );
        Failure::new(failure.code, text)
    })?;
    let mut kept = format!("{}\0{}\0", shown(version), built.entry).into_bytes();
    kept.extend(&built.image);
    Ok((module, kept))
}

/// Loads what was kept. If NVRTC is available, the versions must match; otherwise any version is good.
pub(crate) fn load(device: CudaDevice, spec: &KernelSpec, kept: &[u8]) -> Result<Module, Failure> {
    let mut parts = kept.splitn(3, |&byte| byte == 0);
    let version = parts.next().unwrap_or_default();
    let (Some(entry), Some(image)) = (parts.next(), parts.next()) else {
        return Err(Failure::new(Code::Invalid, "expected a version, a name and an image"));
    };
    if nvrtc::version().is_some_and(|here| shown(here).as_bytes() != version) {
        return Err(Failure::new(Code::Unsupported, "expected an image by this version of NVRTC"));
    }
    let current = device.0.opened()?.context.enter()?;
    of_image(&current, spec, image, Some(String::from_utf8_lossy(entry).into_owned()))
}

/// A version of NVRTC.
fn shown((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

/// Compares types of parameters, if they are told, with the definition's arguments.
fn check_types(spec: &KernelSpec, types: &[String]) -> Result<(), Failure> {
    let told = |name: &String| ToldParameter { type_name: Some(name.clone()), ..ToldParameter::default() };
    // Another number is an error of its own.
    match types.len() < spec.parameters().len() {
        true => Ok(()),
        false => spec.check_told(&types.iter().map(told).collect::<Vec<_>>()),
    }
}

/// Loads a program that came as a binary.
pub(crate) fn of_binary(device: CudaDevice, spec: &KernelSpec, bytes: &[u8]) -> Result<Module, Failure> {
    let refused = |why: String| Failure::new(Code::Unsupported, why);
    if bytes.is_empty() {
        return Err(refused("it is empty".into()));
    }
    // The driver trusts the sizes in an image.
    if bytes.starts_with(ELF) {
        check_elf(bytes).map_err(refused)?;
    } else if bytes.starts_with(&FATBIN) {
        check_fatbin(bytes).map_err(refused)?;
    } else if !std::str::from_utf8(bytes).is_ok_and(|text| text.contains(".version")) {
        return Err(refused("it begins like none of them".into()));
    }
    let mut image = bytes.to_vec();
    // PTX is a text that ends with a NUL.
    image.push(0);
    of_image(&device.0.opened()?.context.enter()?, spec, &image, None)
}

/// Checks that the tables of an ELF file lie inside it.
fn check_elf(bytes: &[u8]) -> Result<(), String> {
    let number = |at: usize, size: usize| -> Option<u64> {
        let field = bytes.get(at..at + size)?;
        Some(field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let header = || -> Option<(u64, u64, u64, u64, u64, u64)> {
        let (programs, sections) = (number(0x20, 8)?, number(0x28, 8)?);
        Some((programs, number(0x36, 2)?, number(0x38, 2)?, sections, number(0x3a, 2)?, number(0x3c, 2)?))
    };
    let Some((programs, program_size, program_count, sections, section_size, section_count)) = header()
    else {
        return Err("its header is cut off".into());
    };
    let length = bytes.len() as u64;
    let inside =
        |from: u64, size: u64, count: u64| from.checked_add(size * count).is_some_and(|e| e <= length);
    if !inside(programs, program_size, program_count) || !inside(sections, section_size, section_count) {
        return Err("its tables lie behind its end: is the file complete?".into());
    }
    // Contents of sections: offset at 0x18, size at 0x20, type at 4. Type 8 has no contents.
    for section in 0..section_count {
        let at = (sections + section * section_size) as usize;
        let (Some(kind), Some(offset), Some(size)) =
            (number(at + 4, 4), number(at + 0x18, 8), number(at + 0x20, 8))
        else {
            return Err("its table of sections is cut off".into());
        };
        if kind != 8 && offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(format!("its section {section} lies behind its end: is the file complete?"));
        }
    }
    Ok(())
}

/// Checks that a fatbin is as long as its header says: header bytes at 6, bytes after it at 8.
fn check_fatbin(bytes: &[u8]) -> Result<(), String> {
    let header = bytes.get(6..8).map(|field| u64::from(u16::from_le_bytes([field[0], field[1]])));
    let rest = bytes.get(8..16).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes);
    match header.zip(rest).and_then(|(header, rest)| header.checked_add(rest)) {
        Some(whole) if whole <= bytes.len() as u64 => Ok(()),
        Some(whole) => Err(format!("it says that it has {whole} bytes: is the file complete?")),
        None => Err("its header is cut off".into()),
    }
}

/// Loads an image.
fn of_image(_: &Current, spec: &KernelSpec, image: &[u8], entry: Option<String>) -> Result<Module, Failure> {
    let mut log = vec![0u8; 8192];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes numbers as pointers here.
    let mut values =
        [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut::<c_void>(log.len() - 1)];
    let mut module = null_mut();
    // SAFETY: a local variable; the image ends with a NUL if it is a text, and was checked if it came from
    // elsewhere; two options and their values, the first of which is a buffer of the size that the second
    // says.
    let result = unsafe {
        cuModuleLoadDataEx(&mut module, image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr())
    };
    if result == CUresult::CUDA_SUCCESS {
        return Ok(Module { module, entry });
    }
    let failure = failed("cuModuleLoadDataEx", result);
    let said = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
    let said = if said.trim().is_empty() { String::new() } else { format!(":\n{}", said.trim()) };
    Err(Failure::new(failure.code, format!("{}: {}{said}", spec.title, failure.text)))
}

impl Module {
    /// A kernel by its name: as it stands in the module, or demangled.
    pub(crate) fn function(&self, spec: &KernelSpec) -> Result<CUfunction, Failure> {
        let wanted = self.entry.as_deref().unwrap_or(&spec.entry);
        if let Some(function) = self.named(spec, wanted)? {
            return Ok(function);
        }
        let there = self.names();
        let plain = |symbol: &str| {
            // `void scale<float>(float*)`: a function made from a template has its return type in its name.
            let signature = flash_backend::signature(symbol);
            let name = signature.split('(').next().unwrap_or_default();
            signature == wanted || name == wanted || name.strip_prefix("void ") == Some(wanted)
        };
        let mut found = there.iter().filter(|name| plain(name));
        let (first, second) = (found.next(), found.next());
        // By its own name once more: a function of the list may not be loaded.
        match first.filter(|_| second.is_none()).map(|symbol| self.named(spec, symbol)).transpose()?.flatten()
        {
            Some(function) => Ok(function),
            None => {
                let several = if first.is_some() { ", of which several have that name" } else { "" };
                let text = format!(
                    "{}: expected a kernel `{wanted}` in the program, found {there:?}{several}: attribute `entry` names it",
                    spec.title
                );
                Err(Failure::new(Code::Invalid, text))
            }
        }
    }

    /// A kernel by the name that it has in the module, if there is one, loaded.
    fn named(&self, spec: &KernelSpec, symbol: &str) -> Result<Option<CUfunction>, Failure> {
        let name = CString::new(symbol)
            .map_err(|_| Failure::new(Code::Invalid, format!("{}: a NUL in the entry's name", spec.title)))?;
        let mut function = null_mut();
        // SAFETY: a loaded module and a local variable.
        match unsafe { cuModuleGetFunction(&mut function, self.module, name.as_ptr()) } {
            CUresult::CUDA_SUCCESS => {
                check_types(spec, &nvrtc::parameters_of(symbol))?;
                Ok(Some(function))
            }
            CUresult::CUDA_ERROR_NOT_FOUND => Ok(None),
            result => {
                let failure = failed("cuModuleGetFunction", result);
                Err(Failure::new(failure.code, format!("{}: {}", spec.title, failure.text)))
            }
        }
    }

    /// The names of its kernels.
    fn names(&self) -> Vec<String> {
        let mut count = 0;
        // SAFETY: a loaded module and a local variable.
        if unsafe { cuModuleGetFunctionCount(&mut count, self.module) } != CUresult::CUDA_SUCCESS {
            return Vec::new();
        }
        let mut functions: Vec<CUfunction> = vec![null_mut(); count as usize];
        // SAFETY: `functions` has room for that many.
        let listed = unsafe { cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, self.module) };
        if listed != CUresult::CUDA_SUCCESS {
            return Vec::new();
        }
        let named = functions.into_iter().filter_map(|function| {
            let mut name = null();
            // SAFETY: a function of the module; its name lives as long as that.
            unsafe {
                let known = cuFuncGetName(&mut name, function) == CUresult::CUDA_SUCCESS && !name.is_null();
                known.then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
            }
        });
        named.collect()
    }
}
