//! CUDA C++ compiled at run time by NVRTC, a library that is loaded at its first use.
//!
//! The binding panics where a function is missing. So nothing of it is called before `nvrtc` has found
//! all of `SYMBOLS`, and a function that is called here must be listed there. The library is loaded
//! once; a failure is kept, too, and is the error of each later compilation.
//!
//! A program is compiled together with a template whose name tells the types of the kernel's parameters
//! (`TELLER`). If that does not compile, it is compiled again without; then the types are unknown, or
//! follow from the kernel's own name. A `Program` belongs to the call that makes it.

use cudarc::nvrtc::sys::nvrtcProgram;
use cudarc::nvrtc::{result, sys};
use flash_backend::Code;
use flash_backend::Failure;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Options of every program, before those of its implementation: the language's version, and functions
/// without an execution space run on the device, as in C and OpenCL C.
const OPTIONS: [&str; 2] = ["--std=c++17", "--device-as-default-execution-space"];

/// The functions of NVRTC that are called here. Its binding panics where one is missing.
const SYMBOLS: [&str; 15] = [
    "nvrtcAddNameExpression",
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetErrorString",
    "nvrtcGetLoweredName",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// The target of a compilation, by compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Machine code for just these devices.
    Machine {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    /// PTX, which drivers translate for these devices and all later ones.
    Ptx {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
}

impl Architecture {
    /// The target for a device: its machine code if NVRTC knows the device, else the newest PTX that it
    /// takes.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if NVRTC cannot be loaded, or knows only newer devices.
    pub fn of(major: u32, minor: u32) -> Result<Architecture, Failure> {
        let nvrtc = nvrtc()?;
        choose(&nvrtc.architectures, major, minor).ok_or_else(|| {
            let known: Vec<String> = nvrtc.architectures.iter().map(|a| format!("sm_{a}")).collect();
            Failure::new(
                Code::Unavailable,
                format!(
                    "expected an NVRTC that compiles for compute capability {major}.{minor}, found {}.{}, which knows {}: install that of an older CUDA, or give the kernel as PTX or cubin",
                    nvrtc.version.0,
                    nvrtc.version.1,
                    known.join(", ")
                ),
            )
        })
    }
}

/// The target among the `known` ones: 10 times the major number, plus the minor one.
fn choose(known: &[u32], major: u32, minor: u32) -> Option<Architecture> {
    let wanted = 10 * major + minor;
    if known.contains(&wanted) {
        return Some(Architecture::Machine { major, minor });
    }
    let newest = known.iter().copied().filter(|&a| a < wanted).max()?;
    Some(Architecture::Ptx { major: newest / 10, minor: newest % 10 })
}

/// The name that compilers use: `sm_90`, `compute_90`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Architecture::Machine { major, minor } => write!(f, "sm_{major}{minor}"),
            Architecture::Ptx { major, minor } => write!(f, "compute_{major}{minor}"),
        }
    }
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// A cubin, or PTX with its final NUL.
    pub image: Vec<u8>,
    /// Whether it is PTX.
    pub is_ptx: bool,
    /// The compiler's output: warnings.
    pub log: String,
    /// The kernel's name in the image.
    pub entry: String,
    /// The types of the kernel's parameters, in C++; empty if the compiler does not tell them.
    pub parameters: Vec<String>,
}

/// Version of NVRTC; `None` if it cannot be loaded.
pub fn version() -> Option<(i32, i32)> {
    nvrtc().ok().map(|nvrtc| nvrtc.version)
}

/// Compiles a program.
///
/// `title` is for messages; `file` names the text in the compiler's log where no `#line` does. `entry` is the
/// kernel: the name of an `extern "C"` function; a name in C++ such as `ns::kernel` or `scale<float>`, which
/// is instantiated; or a mangled name. `options` are separated by white space, and none has any inside.
///
/// # Errors
/// [`Code::Unavailable`] if NVRTC cannot be loaded; [`Code::Invalid`], with the compiler's log, if it does
/// not compile.
pub fn compile(
    title: &str,
    source: &str,
    file: &str,
    entry: &str,
    options: &str,
    architecture: Architecture,
) -> Result<Compiled, Failure> {
    let nvrtc = nvrtc()?;
    let text = |what: &str, text: &str| {
        CString::new(text).map_err(|nul| {
            let at = nul.nul_position();
            let why = format!("{title}: expected {what} without a NUL, found one at byte {at}: remove it");
            Failure::new(Code::Invalid, why)
        })
    };
    // A kernel whose name tells the type of another one.
    let telling = text("a source", &format!("{source}\ntemplate <class> __global__ void {TELLER}() {{}}\n"))?;
    let (source, file) = (text("a source", source)?, text("a file name", file)?);
    let (name, options) = (text("an entry", entry)?, text("build options", options)?);
    let options = options.to_string_lossy();
    let architecture_option = format!("--gpu-architecture={architecture}");
    let options: Vec<&str> =
        OPTIONS.into_iter().chain([architecture_option.as_str()]).chain(options.split_whitespace()).collect();

    let failed = |call: &str, error: result::NvrtcError| {
        // SAFETY: the symbol exists (`nvrtc()` has checked), and the returned text lives for ever.
        let why = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(error.0)) };
        Failure::new(Code::Invalid, format!("{title}: {call}: {} ({:?})", why.to_string_lossy(), error.0))
    };
    // Mangled names are used as they are; NVRTC looks up all others, including those of `extern "C"`.
    let mangled = entry.starts_with("_Z");
    let run = |tells: bool, names: &[&CStr]| {
        let source = if tells { &telling } else { &source };
        let program = Program::new(source, &file).map_err(|error| failed("nvrtcCreateProgram", error))?;
        for name in names {
            // SAFETY: the program lives, and the name is a C string.
            let added = unsafe { sys::nvrtcAddNameExpression(program.0, name.as_ptr()) }.result();
            added.map_err(|error| failed("nvrtcAddNameExpression", error))?;
        }
        // SAFETY: the program lives; the options have no NUL, which would panic.
        let outcome = unsafe { result::compile_program(program.0, &options) };
        Ok((program, outcome))
    };
    let teller = text("a name", &format!("{TELLER}<decltype({entry})>"))?;
    let names: &[&CStr] = if mangled { &[] } else { &[&name, &teller] };
    let mut tells = !mangled;
    let (mut program, mut outcome) = run(tells, names)?;
    if outcome.is_err() && tells {
        // It may be the question about parameters that does not compile.
        tells = false;
        (program, outcome) = run(tells, &names[..1])?;
    }
    let log = program.log().map_err(|error| failed("nvrtcGetProgramLog", error))?;
    if outcome.is_err() {
        let (major, minor) = nvrtc.version;
        let log = if log.is_empty() { "the compiler says nothing" } else { &log };
        return Err(Failure::new(
            Code::Invalid,
            format!(
                "{title}: kernel `{entry}` does not compile for {architecture} with NVRTC {major}.{minor} and {}:\n{log}",
                options.join(" ")
            ),
        ));
    }
    let entry = match mangled {
        true => entry.to_owned(),
        false => program.lowered(&name).map_err(|error| failed("nvrtcGetLoweredName", error))?,
    };
    let parameters = match tells {
        true => program.lowered(&teller).map_or(Vec::new(), |symbol| parameters_of(&symbol)),
        false => parameters_of(&entry),
    };
    let is_ptx = matches!(architecture, Architecture::Ptx { .. });
    let (call, image) = match is_ptx {
        true => ("nvrtcGetPTX", program.bytes(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)),
        false => ("nvrtcGetCUBIN", program.bytes(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)),
    };
    let image = image.map_err(|error| failed(call, error))?;
    Ok(Compiled { image, is_ptx, log, entry, parameters })
}

/// The kernel, in every program, whose name tells the type of another one.
const TELLER: &str = "flash_told";

/// The types of a function's parameters, by its mangled name: that of the function, or of the template
/// [`TELLER`] for its type. Empty if the name does not tell.
pub(crate) fn parameters_of(symbol: &str) -> Vec<String> {
    if !symbol.starts_with("_Z") {
        return Vec::new();
    }
    let signature = flash_backend::signature(symbol);
    let signature = signature.strip_suffix(">()").filter(|s| s.contains(TELLER)).unwrap_or(&signature);
    let Some(inner) = signature.strip_suffix(')') else { return Vec::new() };
    // The last pair of brackets, and what stands between commas outside of all others.
    let (mut depth, mut parts, mut end) = (0, Vec::new(), inner.len());
    for (at, c) in inner.char_indices().rev() {
        match c {
            ')' | '>' | ']' => depth += 1,
            '(' if depth == 0 => {
                parts.push(inner[at + 1..end].trim().to_owned());
                parts.reverse();
                return parts;
            }
            '(' | '<' | '[' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inner[at + 1..end].trim().to_owned());
                end = at;
            }
            _ => {}
        }
    }
    Vec::new()
}

/// NVRTC as it was loaded.
struct Nvrtc {
    version: (i32, i32),
    /// 10 times the major number, plus the minor one.
    architectures: Vec<u32>,
}

/// Loads NVRTC, once.
fn nvrtc() -> Result<&'static Nvrtc, Failure> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let loaded = NVRTC.get_or_init(|| {
        load().map_err(|found| {
            format!(
                "expected NVRTC of CUDA 12 or later (libnvrtc.so) to compile CUDA C++, found {found}: install it, and put its folder on LD_LIBRARY_PATH, or give kernels as PTX or cubin"
            )
        })
    });
    loaded.as_ref().map_err(|text| Failure::new(Code::Unavailable, text))
}

/// Loads NVRTC, or says what was found instead. No function of the binding may be called before: it panics.
fn load() -> Result<Nvrtc, String> {
    // SAFETY: runs the initialisers of the library with NVRTC's name, and no others.
    if !unsafe { sys::is_culib_present() } {
        return Err("none on the way that libraries are looked for".into());
    }
    // SAFETY: as above; it is present.
    let library = unsafe { sys::culib() };
    let missing = SYMBOLS.iter().find(|symbol| {
        // SAFETY: it is only looked up, not called.
        unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err()
    });
    if let Some(symbol) = missing {
        return Err(format!("one without {symbol}"));
    }
    let (mut version, mut count) = ((0, 0), 0);
    // SAFETY: the symbols are there; the places live for the calls.
    let asked = unsafe {
        sys::nvrtcVersion(&mut version.0, &mut version.1)
            .result()
            .and_then(|()| sys::nvrtcGetNumSupportedArchs(&mut count).result())
    };
    asked.map_err(|error| format!("one that does not say its version: {error}"))?;
    let mut architectures: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is a place for each of the `count` numbers.
    let asked = unsafe { sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr()) }.result();
    asked.map_err(|error| format!("one that does not say its architectures: {error}"))?;
    let architectures = architectures.into_iter().filter_map(|a| u32::try_from(a).ok()).collect();
    Ok(Nvrtc { version, architectures })
}

/// A function that gives a number of bytes, and one that writes them.
type SizeOf = unsafe fn(nvrtcProgram, *mut usize) -> sys::nvrtcResult;
type BytesOf = unsafe fn(nvrtcProgram, *mut c_char) -> sys::nvrtcResult;

/// A program, destroyed when dropped. Its texts live until then: NVRTC may not have copied them.
struct Program<'a>(nvrtcProgram, PhantomData<&'a CStr>);

impl<'a> Program<'a> {
    fn new(source: &'a CStr, file: &'a CStr) -> Result<Program<'a>, result::NvrtcError> {
        result::create_program(source, Some(file)).map(|program| Program(program, PhantomData))
    }

    /// The compiler's log, without the final NUL.
    fn log(&self) -> Result<String, result::NvrtcError> {
        let bytes = self.bytes(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim_end().to_owned())
    }

    fn bytes(&self, size_of: SizeOf, bytes_of: BytesOf) -> Result<Vec<u8>, result::NvrtcError> {
        let mut size = 0;
        // SAFETY: the program lives; the place lives for the call.
        unsafe { size_of(self.0, &mut size) }.result()?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the program lives; the place has the `size` bytes that it writes.
        unsafe { bytes_of(self.0, bytes.as_mut_ptr().cast()) }.result()?;
        Ok(bytes)
    }

    /// The name in the compiled program of a name in C++.
    fn lowered(&self, name: &CStr) -> Result<String, result::NvrtcError> {
        let mut lowered = std::ptr::null();
        // SAFETY: the program lives and was compiled; the place lives for the call.
        unsafe { sys::nvrtcGetLoweredName(self.0, name.as_ptr(), &mut lowered) }.result()?;
        // SAFETY: a C string that lives as long as the program, and is copied.
        Ok(unsafe { CStr::from_ptr(lowered) }.to_string_lossy().into_owned())
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `create_program` and destroyed only here. A failure could not be reported.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_parameters_are_in_mangled_names() {
        let saxpy = ["float", "float const*", "float*"];
        assert_eq!(parameters_of("_ZN4mine5scaleEfPKfPf"), saxpy);
        assert_eq!(parameters_of("_ZN4mine4manyIfEEvT_PKS1_PS1_").len(), 3);
        assert_eq!(parameters_of("_Z10flash_toldIFvfPKfPfEEvv"), saxpy);
        let told = parameters_of("_Z10flash_toldIFvm4PairIffEPA3_dEEvv");
        assert_eq!(told[..2], ["unsigned long", "Pair<float, float>"], "{told:?}");
        assert_eq!(parameters_of("scale"), [""; 0]);
        assert_eq!(parameters_of("_Z5scale"), [""; 0]);
    }

    #[test]
    fn a_device_gets_machine_code_if_it_is_known_and_else_the_newest_ptx_that_it_takes() {
        let known = [75, 80, 90, 100, 121];
        assert_eq!(choose(&known, 9, 0), Some(Architecture::Machine { major: 9, minor: 0 }));
        assert_eq!(choose(&known, 12, 1), Some(Architecture::Machine { major: 12, minor: 1 }));
        assert_eq!(choose(&known, 8, 9), Some(Architecture::Ptx { major: 8, minor: 0 }));
        assert_eq!(choose(&known, 13, 0), Some(Architecture::Ptx { major: 12, minor: 1 }));
        assert_eq!(choose(&known, 7, 0), None);
        assert_eq!(Architecture::Ptx { major: 10, minor: 3 }.to_string(), "compute_103");
    }
}
