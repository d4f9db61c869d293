//! Looks at a shared library before the loader does: a library that is cut inside a loadable segment
//! kills the process with SIGBUS inside `dlopen`.

use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::File;
use std::io::Read;
use std::path::Path;

#[cfg(target_arch = "x86_64")]
const MACHINE: (object::elf::Machine, &str) = (elf::EM_X86_64, "x86-64");
#[cfg(target_arch = "aarch64")]
const MACHINE: (object::elf::Machine, &str) = (elf::EM_AARCH64, "AArch64");

/// Expected and found.
pub(super) type Mismatch = (String, String);

fn mismatch(expected: impl Into<String>, found: impl Into<String>) -> Mismatch {
    (expected.into(), found.into())
}

/// Checks that the file is a whole shared library for this machine.
pub(super) fn check(path: &Path) -> Result<(), Mismatch> {
    let readable =
        |e: std::io::Error| mismatch("a readable shared library", format!("it cannot be read: {e}"));
    let mut file = File::open(path).map_err(readable)?;
    let len = file.metadata().map_err(readable)?.len();
    if len == 0 {
        return Err(mismatch("a shared library", "an empty file"));
    }
    // Headers stand at the beginning in every library that linkers make.
    let mut head = vec![0; len.min(64 << 10) as usize];
    file.read_exact(&mut head).map_err(readable)?;
    if !head.starts_with(&elf::ELFMAG) {
        let text = head.iter().take(256).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
        return Err(mismatch(
            "a shared library (ELF)",
            if text { "a text file" } else { "a file of another kind" },
        ));
    }
    if head.get(4) != Some(&elf::ELFCLASS64.0) || head.get(5) != Some(&elf::ELFDATA2LSB.0) {
        return Err(mismatch("a 64-bit little-endian library", "one of another word size or byte order"));
    }
    let data = &head[..];
    let header = FileHeader64::<LittleEndian>::parse(data).map_err(|_| {
        mismatch("a shared library", format!("an ELF header that is cut: the file has {len} bytes"))
    })?;
    let endian = LittleEndian;
    if header.e_machine(endian) != MACHINE.0 {
        return Err(mismatch(
            format!("a library for this machine, {}", MACHINE.1),
            format!("one for ELF machine {}", header.e_machine(endian).0),
        ));
    }
    if header.e_type(endian) != elf::ET_DYN {
        return Err(mismatch("a shared library", format!("an ELF file of type {}", header.e_type(endian).0)));
    }
    let segments = header.program_headers(endian, data).map_err(|_| {
        mismatch("a whole library", "its program headers lie outside the file or far from its start")
    })?;
    let cut = |what: &str, end: Option<u64>| match end {
        Some(end) if end <= len => Ok(()),
        end => Err(mismatch(
            "a whole library",
            format!(
                "{what} ends at byte {} of a file of {len} bytes: the file is cut, copy it again",
                end.map_or("2^64".to_owned(), |e| e.to_string())
            ),
        )),
    };
    let mut loads = 0;
    for segment in segments {
        let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian));
        match segment.p_type(endian) {
            elf::PT_LOAD => {
                loads += 1;
                cut("a loadable segment", end)?;
            }
            elf::PT_DYNAMIC => cut("the dynamic table", end)?,
            _ => {}
        }
    }
    if loads == 0 {
        return Err(mismatch("a shared library", "an ELF file with nothing to load"));
    }
    let sections = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    cut("the section table", header.e_shoff(endian).checked_add(sections))
}

/// A function that a library exports.
pub(super) struct Function {
    /// Its symbol.
    pub symbol: String,
    /// `kernels::fill` for `_ZN7kernels4fillEi`; the symbol where it is no mangled name.
    pub name: String,
    /// `kernels::fill(int)`.
    pub signature: String,
}

/// The functions that a library exports.
pub(super) fn functions(path: &Path) -> Option<Vec<Function>> {
    use object::{Object, ObjectSymbol, SymbolKind};
    let data = std::fs::read(path).ok()?;
    let file = object::File::parse(&*data).ok()?;
    let functions = file.dynamic_symbols().filter(|s| s.is_definition() && s.kind() == SymbolKind::Text);
    Some(
        functions
            .filter_map(|s| s.name().ok())
            .filter(|name| !matches!(*name, "_init" | "_fini"))
            .map(function)
            .collect(),
    )
}

fn function(symbol: &str) -> Function {
    let demangled = cpp_demangle::Symbol::new(symbol).ok().and_then(|s| s.demangle().ok());
    let signature = demangled.unwrap_or_else(|| symbol.to_owned());
    let name = signature.split('(').next().unwrap_or(symbol).to_owned();
    Function { symbol: symbol.to_owned(), name, signature }
}
