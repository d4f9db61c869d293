//! Checks of a shared library before the loader opens it: a library that is cut inside a loadable segment
//! kills the process with SIGBUS inside `dlopen`.

use flash_backend::signature;
use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

#[cfg(target_arch = "x86_64")]
const MACHINE: (object::elf::Machine, &str) = (elf::EM_X86_64, "x86-64");
#[cfg(target_arch = "aarch64")]
const MACHINE: (object::elf::Machine, &str) = (elf::EM_AARCH64, "AArch64");

/// What was expected, and what was found.
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
    // Headers are at the beginning of every library that linkers make.
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
                "one whose {what} ends at byte {} of a file of {len} bytes: the file is cut, copy it again",
                end.map_or("2^64".to_owned(), |e| e.to_string())
            ),
        )),
    };
    let mut loads: Vec<Range<u64>> = Vec::new();
    let mut dynamic: Option<(u64, u64)> = None;
    for segment in segments {
        let (offset, size) = (segment.p_offset(endian), segment.p_filesz(endian));
        let end = offset.checked_add(size);
        match segment.p_type(endian) {
            elf::PT_LOAD => {
                cut("loadable segment", end)?;
                let address = segment.p_vaddr(endian);
                loads.push(address..address.saturating_add(size));
            }
            elf::PT_DYNAMIC => {
                cut("dynamic table", end)?;
                dynamic = Some((offset, size));
            }
            _ => {}
        }
    }
    if loads.is_empty() {
        return Err(mismatch("a shared library", "an ELF file with nothing to load"));
    }
    let Some((offset, size)) = dynamic else {
        return Err(mismatch(
            "a shared library",
            "an ELF file without a dynamic table, such as a static program",
        ));
    };
    let mut table = vec![0; size.min(TABLE) as usize];
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut table)).map_err(readable)?;
    check_dynamic(&table, &loads)?;
    let size = u64::from(header.e_shentsize(endian));
    let sections = u64::from(header.e_shnum(endian)) * size;
    let end = header.e_shoff(endian).checked_add(sections);
    cut("section table", end)?;
    // The table is at the end of the file. An interrupted copy may have its full length, with zeros in the
    // missing part; no linker ends the table with zeros.
    if let (Some(end), true) = (end, sections > size) {
        let mut last = vec![0; size as usize];
        file.seek(SeekFrom::Start(end - size)).and_then(|_| file.read_exact(&mut last)).map_err(readable)?;
        if last.iter().all(|&byte| byte == 0) {
            return Err(damaged("its section table ends with zeros"));
        }
    }
    Ok(())
}

fn damaged(found: impl fmt::Display) -> Mismatch {
    mismatch("a whole library", format!("{found}: the file is damaged, copy it again"))
}

/// Bytes of a dynamic table that are read; real ones have some hundred.
const TABLE: u64 = 64 << 10;

/// Tags of a dynamic table whose values are addresses, with the tag of their size in bytes.
const TABLES: [(u64, Option<u64>, &str); 7] = [
    (5, Some(10), "string table"),
    (6, None, "symbol table"),
    (7, Some(8), "relocations"),
    (23, Some(2), "relocations of functions"),
    (25, Some(27), "initialisers"),
    (26, Some(28), "finalisers"),
    (0x6fff_fef5, None, "hash table"),
];

/// Checks that the parts that `dlopen` reads first lie in what is loaded from the file. It would crash on a
/// file that has debug information only, or zeros in place of the table.
fn check_dynamic(table: &[u8], loads: &[Range<u64>]) -> Result<(), Mismatch> {
    let damaged =
        |found: String| mismatch("a whole library", format!("{found}: the file is damaged, copy it again"));
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let entries: Vec<(u64, u64)> = table
        .chunks_exact(16)
        .map(|entry| (word(&entry[..8]), word(&entry[8..])))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let value = |tag: u64| entries.iter().find(|(t, _)| *t == tag).map(|(_, value)| *value);
    for (tag, size, name) in TABLES {
        let required = tag == 5 || tag == 6;
        match value(tag) {
            None if required => return Err(damaged(format!("its dynamic table names no {name}"))),
            None => {}
            Some(address) => {
                let Some(size) = size.map_or(Some(1), value) else {
                    return Err(damaged(format!("its dynamic table has no size for the {name}")));
                };
                let inside = |load: &Range<u64>| {
                    load.start <= address && address.checked_add(size).is_some_and(|end| end <= load.end)
                };
                if !loads.iter().any(inside) {
                    return Err(damaged(format!("its {name} lies outside of what is loaded")));
                }
            }
        }
    }
    Ok(())
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
    let signature = signature(symbol);
    let name = signature.split('(').next().unwrap_or(symbol).to_owned();
    Function { symbol: symbol.to_owned(), name, signature }
}
