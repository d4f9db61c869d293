//! CUDA kernels without a GPU: whether each compiles, in the same way as in the backend, and the resources
//! that it uses.

use flash_backend::offload::{KernelSpec, Payload};
use flash_backend_cuda::nvrtc::{self, Architecture};
use flash_core::__private::inventory;
use flash_core::abi;
use flash_core::kernel::ImplementationEntry;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// The architectures for which kernels are compiled.
const CAPABILITIES: [(u32, u32); 2] = [(8, 0), (9, 0)];

/// The resources that a kernel uses, from `ptxas -v`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of shared memory of a block that are known before the launch.
    pub shared: u64,
    /// Bytes of a thread in memory: indexed arrays, and spilled registers.
    pub stack: u64,
    /// Bytes that are written for want of registers.
    pub spill_stores: u64,
    /// Bytes that are read again.
    pub spill_loads: u64,
}

impl Usage {
    /// Reads the output of `ptxas -v` for a kernel.
    pub fn read(output: &str, entry: &str) -> Option<Usage> {
        let of = format!("Compiling entry function '{entry}'");
        let (_, after) = output.split_once(&of)?;
        // Up to the next one. Device functions that were not inlined have properties of their own.
        let text = after.split_once("Compiling entry function").map_or(after, |(text, _)| text);
        let properties = format!("Function properties for {entry}\n");
        let (_, properties) = text.split_once(&properties)?;
        let properties = properties.lines().next()?;
        let used = text.lines().find_map(|line| line.split_once("Used ").map(|(_, used)| used))?;
        Some(Usage {
            registers: before(used, "registers")?,
            // Left out where it is 0.
            shared: before(used, "bytes smem").unwrap_or(0),
            stack: before(properties, "bytes stack frame")?,
            spill_stores: before(properties, "bytes spill stores")?,
            spill_loads: before(properties, "bytes spill loads")?,
        })
    }
}

/// The number before some words, in parts that commas separate.
fn before(line: &str, words: &str) -> Option<u64> {
    line.split(',').find_map(|part| part.trim().strip_suffix(words)?.trim().parse().ok())
}

/// A kernel on an architecture.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Row {
    /// Its name.
    pub kernel: String,
    /// The implementation's name.
    pub implementation: String,
    /// The types of floating-point numbers in its arguments.
    pub types: String,
    /// The launches that it is compiled for: `all`, or `boxes`.
    pub launches: &'static str,
    /// Such as `sm_90`.
    pub architecture: String,
    /// What it uses.
    #[serde(flatten)]
    pub usage: Usage,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Checked {
    /// The kernels that were compiled.
    pub rows: Vec<Row>,
    /// The kernels that were not compiled, and the compilers' messages.
    pub failures: Vec<String>,
}

impl Checked {
    /// True if there are kernels, all compile without a warning, and none spills registers.
    pub fn passed(&self) -> bool {
        !self.rows.is_empty() && self.failures.is_empty() && self.spilling().next().is_none()
    }

    /// The rows as a JSON list.
    ///
    /// # Panics
    /// Never: rows are texts and numbers.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.rows).expect("texts and numbers") + "\n"
    }

    fn spilling(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.usage.spill_stores + row.usage.spill_loads > 0)
    }
}

/// A table, and the failures.
impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.rows.iter().map(|row| row.kernel.len()).max().unwrap_or(0).max(6);
        let of = self.rows.iter().map(|row| row.implementation.len()).max().unwrap_or(0).max(4);
        writeln!(
            f,
            "{:<wide$}  {:<of$}  {:<7}  {:<8}  {:<6}  registers  shared  stack  spill stores  spill loads",
            "kernel", "file", "types", "launches", "for"
        )?;
        for Row { kernel, implementation, types, launches, architecture, usage } in &self.rows {
            let Usage { registers, shared, stack, spill_stores, spill_loads } = usage;
            writeln!(
                f,
                "{kernel:<wide$}  {implementation:<of$}  {types:<7}  {launches:<8}  {architecture:<6}  {registers:>9}  {shared:>6}  {stack:>5}  {spill_stores:>12}  {spill_loads:>11}"
            )?;
        }
        for row in self.spilling() {
            writeln!(f, "error: {} for {} spills registers", row.kernel, row.architecture)?;
        }
        for failure in &self.failures {
            writeln!(f, "error: {failure}")?;
        }
        writeln!(f, "{} programs of CUDA kernels compiled, {} not", self.rows.len(), self.failures.len())
    }
}

/// Compiles every implementation for CUDA with a source that is linked into this program, to PTX with the
/// backend's compiler and to machine code with `ptxas`.
///
/// # Panics
/// If there is no directory for temporary files.
pub fn check(ptxas: &Path) -> Checked {
    let all = inventory::iter::<ImplementationEntry>().map(|entry| (entry.build)());
    // Binaries and functions of the host have nothing to check.
    let sources = all.filter(|made| matches!(made.kind, abi::KIND_INT_SRC | abi::KIND_EXT_SRC));
    // SAFETY: strings of implementations live for ever.
    let ours = sources.filter(|made| unsafe { made.target.text() } == "cuda");
    let ours: Vec<&'static abi::Implementation> = ours.collect();
    let jobs = CAPABILITIES.iter().flat_map(|at| ours.iter().map(move |made| (*made, *at)));
    let (jobs, checked) = (Mutex::new(jobs), Mutex::new(Checked::default()));
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (jobs, checked, ptx) = (&jobs, &checked, place.path().join(format!("{worker}.ptx")));
            scope.spawn(move || {
                let next = || jobs.lock().unwrap_or_else(|e| e.into_inner()).next();
                while let Some((made, at)) = next() {
                    let outcome = rows(made, at, ptxas, &ptx);
                    let mut checked = checked.lock().unwrap_or_else(|e| e.into_inner());
                    match outcome {
                        Ok(rows) => checked.rows.extend(rows),
                        Err(failure) => checked.failures.push(failure),
                    }
                }
            });
        }
    });
    let mut checked = checked.into_inner().unwrap_or_else(|e| e.into_inner());
    let key = |row: &Row| (row.kernel.clone(), row.implementation.clone(), row.types.clone(), row.launches);
    checked.rows.sort_by_cached_key(|row| (key(row), row.architecture.clone()));
    checked
}

/// Every program of an implementation.
fn rows(
    made: &'static abi::Implementation,
    at: (u32, u32),
    ptxas: &Path,
    ptx: &Path,
) -> Result<Vec<Row>, String> {
    let text = |failure: flash_backend::Failure| failure.text;
    let mut spec = KernelSpec::read(made).map_err(text)?;
    let Payload::Source(source) = spec.payload(made).map_err(text)? else {
        return Err(format!("{}: expected a source, found a binary", spec.title));
    };
    let row = |spec: &KernelSpec, launches| {
        // SAFETY: strings of implementations live for ever.
        let implementation = unsafe { made.name.text() };
        let names: Vec<&str> = spec.descriptor.arguments.iter().map(|a| a.element.name.as_str()).collect();
        let types = ["f32", "f64"].into_iter().filter(|ty| names.iter().any(|name| name.contains(ty)));
        let types = types.collect::<Vec<_>>().join(" ");
        let (architecture, usage) = used(spec, &source, at, ptxas, ptx)?;
        let kernel = spec.descriptor.name.clone();
        Ok(Row { kernel, implementation, types, launches, architecture, usage })
    };
    let of_boxes = spec.for_grid().map(|spec| row(&spec, "boxes"));
    of_boxes.into_iter().chain([row(&spec, "all")]).collect()
}

/// The resources that a program uses, with its name.
fn used(
    spec: &KernelSpec,
    source: &str,
    (major, minor): (u32, u32),
    ptxas: &Path,
    ptx: &Path,
) -> Result<(String, Usage), String> {
    let title = &spec.title;
    let compiled = nvrtc::compile(
        title,
        &spec.source(source),
        "kernel",
        &spec.entry,
        &spec.build_options,
        Architecture::Ptx { major, minor },
    );
    let compiled = compiled.map_err(|failure| failure.text)?;
    if !compiled.log.is_empty() {
        return Err(format!("{title}: compiles with warnings:\n{}", compiled.log));
    }
    let image = compiled.image.strip_suffix(&[0]).unwrap_or(&compiled.image);
    std::fs::write(ptx, image).map_err(|why| format!("{}: {why}", ptx.display()))?;
    let architecture = Architecture::Machine { major, minor }.to_string();
    let mut command = Command::new(ptxas);
    command
        .arg("-v")
        .arg(format!("-arch={architecture}"))
        .arg("-o")
        .arg(ptx.with_extension("cubin"))
        .arg(ptx);
    let output = command.output().map_err(|why| format!("{}: {why}", ptxas.display()))?;
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    if !output.status.success() {
        return Err(format!("{title}: no machine code for {architecture}:\n{said}"));
    }
    let usage = Usage::read(&said, &compiled.entry)
        .ok_or_else(|| format!("{title}: expected what `{}` uses, found:\n{said}", compiled.entry))?;
    Ok((architecture, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_uses_is_read_from_what_ptxas_says_of_it_and_not_of_another() {
        let output = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN1n1hEPf' for 'sm_90'
ptxas info    : Function properties for _ZN1n1hEPf
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 8 bytes cumulative stack size
ptxas info    : Compile time = 2.517 ms
ptxas info    : Compiling entry function 'tiles' for 'sm_90'
ptxas info    : Function properties for tiles
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem
ptxas info    : Compile time = 1.794 ms
";
        let spilling = Usage { registers: 8, shared: 0, stack: 8, spill_stores: 16, spill_loads: 24 };
        assert_eq!(Usage::read(output, "_ZN1n1hEPf"), Some(spilling));
        let tiles = Usage { registers: 40, shared: 4096, ..Usage::default() };
        assert_eq!(Usage::read(output, "tiles"), Some(tiles));
        assert_eq!(Usage::read(output, "h"), None);
        assert_eq!(Usage::read("", "tiles"), None);
    }

    #[test]
    fn a_kernel_that_spills_fails_the_check_and_so_does_one_that_does_not_compile() {
        let row = |spill_loads| Row {
            kernel: "k".into(),
            implementation: "k.cu".into(),
            types: "f32".into(),
            launches: "all",
            architecture: "sm_80".into(),
            usage: Usage { spill_loads, ..Usage::default() },
        };
        let passed = |rows, failures: &[&str]| {
            let failures = failures.iter().map(|&text| text.into()).collect();
            Checked { rows, failures }.passed()
        };
        assert!(passed(vec![row(0)], &[]));
        assert!(!passed(vec![row(0), row(4)], &[]));
        assert!(!passed(vec![row(0)], &["no"]));
        assert!(!passed(vec![], &[]), "nothing was checked");
    }

    const PTX: Architecture = Architecture::Ptx { major: 8, minor: 0 };

    /// Skips a test where there is no NVRTC.
    fn is_there(test: &str) -> bool {
        let there = nvrtc::version().is_some();
        if !there {
            flash_tests::skip(&format!("check::tests::{test}"), "no NVRTC: `cargo xtask setup` downloads it");
        }
        there
    }

    #[test]
    fn kernels_are_found_by_names_of_c_of_cpp_and_by_mangled_ones() {
        if !is_there("kernels_are_found_by_names_of_c_of_cpp_and_by_mangled_ones") {
            return;
        }
        let source = "extern \"C\" __global__ void plain(float *x) { *x = 1; }
            template <class T> __global__ void scale(T *x) { *x *= 2; }
            namespace ns { __global__ void inner(int *x) { *x = 1; } }";
        for (entry, expected) in [
            ("plain", "plain"),
            ("scale<double>", "_Z5scaleIdEvPT_"),
            ("ns::inner", "_ZN2ns5innerEPi"),
            ("_ZN2ns5innerEPi", "_ZN2ns5innerEPi"),
        ] {
            let compiled = nvrtc::compile("test", source, "test.cu", entry, "", PTX).unwrap();
            assert_eq!(compiled.entry, expected);
            let text = String::from_utf8(compiled.image).unwrap();
            assert!(compiled.is_ptx && text.ends_with('\0'), "{entry}");
            assert!(text.contains(&format!(".entry {expected}(")), "{entry}: {text}");
        }
    }

    #[test]
    fn machine_code_is_an_elf_file() {
        if !is_there("machine_code_is_an_elf_file") {
            return;
        }
        let source = "extern \"C\" __global__ void one(float *x) { *x = VALUE; }";
        let architecture = Architecture::of(9, 0).unwrap();
        let compiled =
            nvrtc::compile("test", source, "test.cu", "one", " -D VALUE=1.0f  --fmad=false ", architecture);
        let compiled = compiled.unwrap();
        assert!(!compiled.is_ptx && compiled.image.starts_with(b"\x7fELF"));
        assert_eq!(compiled.log, "");
    }

    #[test]
    fn what_does_not_compile_is_an_error_with_file_line_options_and_what_to_compare() {
        if !is_there("what_does_not_compile_is_an_error_with_file_line_options_and_what_to_compare") {
            return;
        }
        let fails = |source: &str, entry: &str, options: &str| {
            let failure = nvrtc::compile("`k`, implementation `k.cu`", source, "k", entry, options, PTX);
            let failure = failure.unwrap_err();
            assert_eq!(failure.code, flash_core::Code::Invalid);
            assert!(failure.text.starts_with("`k`, implementation `k.cu`: "), "{}", failure.text);
            failure.text
        };
        let text =
            fails("#line 7 \"kernels/k.cu\"\nextern \"C\" __global__ void k() { nothing(); }", "k", "-DX");
        for part in ["kernels/k.cu(7): error", "nothing", "compute_80", "NVRTC ", " -DX"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = fails("extern \"C\" __global__ void k() {}", "other", "");
        assert!(text.contains("kernel `other`") && text.contains("identifier \"other\""), "{text}");
        let text = fails("", "k", "--no-such-option");
        assert!(text.contains("unrecognized option --no-such-option"), "{text}");
        let text = fails("a\0b", "k", "");
        assert!(text.contains("a NUL, found one at byte 1"), "{text}");
    }
}
