//! The finished text, as an implementation for a kind of device.

use super::barriers::{Names, thin};
use super::control::function;
use super::kept::keep;
use super::number::TYPES;
use super::writer::{self, Writer};
use crate::kernel::KernelDefinition;
use crate::kernel::device::{DeviceCode, device_implementation};
use flash_backend::__host::{AXES, STRIDES};
use flash_types::abi;

/// The text of a kernel for one set of types.
pub struct Text {
    /// OpenCL C and CUDA C++ at once.
    pub source: String,
    /// What a fault says, by its number.
    pub messages: Vec<String>,
    /// What a launch has to prove before it takes the program with `FLASH_SURE`.
    pub facts: Vec<String>,
    /// Elements of windows are named by an index per axis alone.
    pub axes: bool,
}

/// Notes a fault, which fails the launch: the words behind the table's details, of which the first fault
/// takes hold. An array of this number is none. Gives 1 if this is the first.
const FAULT: &str = "\
FLASH_FUNCTION int flash_fault(flash_u64 number, FLASH_GLOBAL const flash_u64 *table) {
    FLASH_GLOBAL flash_u64 *fault = (FLASH_GLOBAL flash_u64 *)(table + FLASH_FAULT);
#ifdef __OPENCL_VERSION__
    if (atomic_cmpxchg((volatile __global uint *)fault, 0u, 1u) == 0u) {
#else
    if (atomicCAS((flash_u32 *)fault, 0u, 1u) == 0u) {
#endif
        fault[1] = ~(flash_u64)0;
        fault[2] = number;
        fault[3] = 0;
        return 1;
    }
    return 0;
}
";

/// The same, with the index of the work item: its number of dimensions, and its values.
fn fault_at(dimensions: usize) -> String {
    let parameters: String = (0..dimensions).map(|dim| format!("flash_u64 i{dim}, ")).collect();
    let stores: String =
        (0..dimensions).map(|dim| format!("        fault[{}] = i{dim};\n", 4 + dim)).collect();
    format!(
        "\
FLASH_FUNCTION void flash_fault_at(flash_u64 number, {parameters}FLASH_GLOBAL const flash_u64 *table) {{
    FLASH_GLOBAL flash_u64 *fault = (FLASH_GLOBAL flash_u64 *)(table + FLASH_FAULT);
    if (flash_fault(number, table)) {{
        fault[3] = {dimensions};
{stores}    }}
}}
"
    )
}

/// What a kernel asks for beyond its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextOptions {
    /// Sums and products may be contracted, and functions estimated.
    pub fast_math: bool,
    /// Indices are not compared with their arrays, unless the setting `check_bounds` asks for it.
    pub unchecked: bool,
}

/// Before the text: sums and products are rounded as they are written.
const ROUNDED: &str = "\
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#endif
";

/// Before the text: an element that the proof of a launch covers.
const PROVED: &str = "\
#define FLASH_PROVED(pointer, index, origin) \\
    ((pointer)[(flash_i64)(index) - (flash_i64)(origin) / (flash_i64)sizeof(*(pointer))])
";

/// Before a text without checks of indices.
const UNCHECKED: &str = "\
#ifndef FLASH_CHECK_ALL
#undef FLASH_CHECKED
#define FLASH_CHECKED(array, pointer, index, origin, end) FLASH_PROVED(pointer, index, origin)
#undef FLASH_HAS
#define FLASH_HAS(array, axis, i) 1
#define FLASH_UNCHECKED 1
#endif
";

/// The name of the kernel function: no name of the languages, whatever the kernel's.
pub const ENTRY: &str = "flash_kernel";

/// Writes the text of a kernel: `body` is its second function.
pub fn text(kernel: &str, options: TextOptions, body: impl FnOnce()) -> Text {
    let ((), writer) = writer::fresh(|| function(body));
    let errors: String =
        writer.errors.iter().map(|error| format!("#error \"{}\"\n", error.replace('"', "'"))).collect();
    let definitions = writer.definitions();
    // What has no text may ask for anything.
    let axes = !writer.numbers_windows && writer.errors.is_empty();
    let Writer { mut statements, mut parameters, messages, mut group_memory, work_item, facts, team, .. } =
        writer;
    if let Some(team) = team {
        let names = Names { shared: &group_memory, parameters: &parameters, own: &team.own };
        let kept = keep(&statements, &names);
        statements = thin(&kept.statements, &Names { shared: &kept.shared, ..names });
        group_memory = kept.shared;
    }
    let fault_at = fault_at(work_item.len());
    let group_memory: String =
        group_memory.iter().map(|declaration| format!("FLASH_LOCAL {declaration};\n")).collect();
    parameters.push("FLASH_ARGS".to_owned());
    let parameters = parameters.join(", ");
    let kernel_text = indented(&format!(
        "FLASH_KERNEL {ENTRY}({parameters}) {{\n{group_memory}FLASH_FOR_ITEMS {{\n{statements}}}\n}}\n"
    ));
    let rounded = if options.fast_math { "" } else { ROUNDED };
    let unchecked = if options.unchecked { UNCHECKED } else { "" };
    let source = format!(
        "/* Written by `#[kernel(devices)]` of {kernel}. */\n{rounded}{errors}{TYPES}{PROVED}{unchecked}{FAULT}{fault_at}{definitions}\n{kernel_text}"
    );
    Text { source, messages, facts: facts.list, axes }
}

/// With the indentation of its braces.
fn indented(source: &str) -> String {
    let mut depth = 0_usize;
    let mut out = String::new();
    for line in source.lines() {
        let line = line.trim_end();
        if line.starts_with(' ') || line.starts_with('#') {
            out.push_str(line);
        } else {
            let closing = usize::from(line.starts_with('}'));
            if !line.is_empty() {
                out.push_str(&"    ".repeat(depth.saturating_sub(closing)));
            }
            out.push_str(line);
        }
        out.push('\n');
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
    }
    out
}

/// An implementation whose text `#[kernel(devices)]` writes.
pub struct StagedCode {
    /// The kind of device.
    pub target: &'static str,
    /// The implementation's name.
    pub name: &'static str,
    /// Its priority.
    pub priority: i32,
    /// The threads of its team; `None`: a thread has a work item of its own.
    pub threads: Option<u32>,
    /// The kernel's source file.
    pub beside: &'static str,
    /// Attributes: for its selection, and options of the compiler.
    pub texts: &'static [(&'static str, &'static str)],
    /// Writes the text.
    pub text: fn() -> Text,
}

/// Describes a text as an implementation of `D` for a kind of device. What it allocates lives for ever: there
/// is one per target and set of types.
pub fn staged_implementation<D: KernelDefinition>(code: &StagedCode) -> &'static abi::Implementation {
    let StagedCode { target, name, priority, threads, beside, texts, text } = *code;
    let Text { source, messages, facts, axes } = text();
    let source: &'static str = source.leak();
    let mut texts = texts.to_vec();
    texts.push(("entry", ENTRY));
    // A work-group is one team: it has the memory, and meets at the barriers.
    let team = threads.map(|threads| [("threads_per_item", threads), ("work_group_size", threads)]);
    device_implementation::<D>(&DeviceCode {
        target,
        name,
        priority,
        binary: false,
        files: &[("once", source.as_bytes())],
        beside,
        defines: &[],
        texts: &texts,
        numbers: team.as_ref().map_or(&[], |team| team),
        flags: &["cooperating", "checked", STRIDES, AXES][..if axes { 4 } else { 3 }],
        messages: &messages,
        facts: &facts,
    })
}
