//! `include/flash.h` is made from the sources of this crate. `FLASH_BLESS=1 cargo test -p flash-c --test
//! header` writes it: read the difference.

use flash_c::{agents, memory, runtime, types};
use flash_tests::c_header::{constants, function, functions, has_words};
use flash_tests::plugins::{Language, compile_only};
use std::mem::offset_of;
use std::path::{Path, PathBuf};

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(here(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The modules in the order of the header.
const MODULES: [&str; 8] = ["status", "error", "types", "runtime", "memory", "kernel", "pipeline", "agents"];

/// Types by their names in C.
const TYPES: [(&str, &str); 12] = [
    ("Value", "flash_value"),
    ("Dimension", "flash_dimension"),
    ("DeviceReport", "flash_device_report"),
    ("MemoryReport", "flash_memory_report"),
    ("RuntimeHandle", "flash_runtime"),
    ("MemoryHandle", "flash_memory"),
    ("NamedKernelHandle", "flash_named_kernel"),
    ("PipelineHandle", "flash_pipeline"),
    ("StartedHandle", "flash_handle"),
    ("AgentsHandle", "flash_agents"),
    ("AgentReport", "flash_agent_report"),
    ("ClientReport", "flash_client_report"),
];

/// The sources as one, with what comments say put into the words of C.
fn source() -> String {
    let mut source = String::new();
    for module in MODULES {
        let text = read(&format!("src/{module}.rs"));
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in text.lines().filter(|line| !line.starts_with("//!")) {
            source.push_str(line);
            source.push('\n');
        }
    }
    source = source.replace("memory::MemoryHandle", "MemoryHandle").replace("status: Status", "status: i32");
    source = source.replace("/// # Safety\n/// ", "/// The caller's duty: ");
    let words = [("Value::", "flash_value."), ("[`", "`"), ("`]", "`")];
    let comment = |line: &str| match line.trim_start().starts_with("///") {
        true => words.iter().fold(line.to_owned(), |line, (rust, c)| line.replace(rust, c)),
        false => line.to_owned(),
    };
    source.lines().map(|line| comment(line) + "\n").collect()
}

fn generate() -> String {
    let source = source();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.rs");
    std::fs::write(&file, &source).unwrap();
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        no_includes: true,
        style: cbindgen::Style::Both,
        line_length: 100,
        documentation_style: cbindgen::DocumentationStyle::C99,
        header: Some(format!("{}\n\n#ifndef FLASH_H\n#define FLASH_H", read("tests/head.h").trim())),
        after_includes: Some("#include <stddef.h>\n#include <stdint.h>\n#include <string.h>".into()),
        trailer: Some(format!("{}\n\n#endif /* FLASH_H */", read("tests/tail.h").trim())),
        usize_is_size_t: true,
        ..Default::default()
    };
    config.export.rename =
        constants(&source).map(|name| (name.to_owned(), format!("FLASH_{name}"))).collect();
    config.export.rename.extend(TYPES.map(|(rust, c)| (rust.to_owned(), c.to_owned())));
    config.export.include = TYPES.map(|(rust, _)| rust.to_owned()).into();
    let bindings = cbindgen::Builder::new().with_config(config).with_src(&file).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_made_from_the_sources() {
    flash_tests::same_as_file(&here("include/flash.h"), &generate(), "flash-c/src");
}

#[test]
fn every_function_and_constant_is_in_the_header_with_words_above_it() {
    let (source, header) = (source(), read("include/flash.h"));
    let functions = functions(&source);
    assert!(functions.len() >= 28, "{functions:?}");
    has_words(&header, "flash.h", &functions);
    for name in constants(&source).filter(|name| name.starts_with("STATUS_") || name.starts_with("VALUE_")) {
        assert!(header.contains(&format!("#define FLASH_{name} ")), "flash.h does not define FLASH_{name}");
    }
}

#[test]
fn every_entry_runs_where_panics_are_caught() {
    let source = source();
    for name in functions(&source) {
        let body = function(&source, name);
        let calls_nothing = ["flash_last_error", "flash_status_name", "flash_text_free"].contains(&name);
        assert!(body.contains("    call(|| {") || calls_nothing, "{name} does not run inside `call`");
    }
}

#[test]
fn the_header_compiles_in_any_order_as_c99_and_cpp17_without_warnings() {
    let include = format!("-I{}", here("include").display());
    let mut uses = String::from("#include \"flash.h\"\n#include \"flash_backend.h\"\n#include \"flash.h\"\n");
    uses.push_str("int use(flash_memory *m);\nint use(flash_memory *m) {\n");
    uses.push_str("    flash_value v = flash_as_range(m, 0, 1);\n    flash_dimension d = flash_count(3);\n");
    uses.push_str("    return (int)v.kind + (int)d.count + (int)flash_as_i8(-1).bits;\n}\n");
    compile_only(Language::C, &uses, &[&include, "-pedantic"]);
    compile_only(Language::Cpp, &uses, &[&include, "-pedantic"]);
    // Without the plugins' header, which is C11.
    let alone = uses.replace("#include \"flash_backend.h\"\n", "");
    compile_only(Language::C, &alone, &[&include, "-std=c99", "-pedantic", "-Wconversion", "-Wshadow"]);
    compile_only(Language::Cpp, &alone, &[&include, "-pedantic", "-Wconversion", "-Wshadow"]);
    let wrapped = "#include \"flash.hpp\"\n";
    compile_only(Language::Cpp, wrapped, &[&include, "-pedantic", "-Wconversion", "-Wshadow"]);
}

#[test]
fn structs_have_the_same_layout_in_c() {
    let mut text =
        String::from("#include \"flash.h\"\n#define same(c, rust) _Static_assert((c) == (rust), #c)\n");
    macro_rules! layout {
        ($($c:ident = $module:ident :: $name:ident { $($field:ident),* };)*) => {$(
            text += &format!("same(sizeof({}), {});\n", stringify!($c), size_of::<$module::$name>());
            $(text += &format!(
                "same(offsetof({}, {}), {});\n", stringify!($c), stringify!($field), offset_of!($module::$name, $field)
            );)*
        )*};
    }
    layout! {
        flash_value = types::Value { kind, reserved, bits, begin, end };
        flash_dimension = types::Dimension { start, step, count, values };
        flash_device_report = runtime::DeviceReport {
            id, name, vendor, version, kind, memory_bytes, threads, host_memory
        };
        flash_agent_report = agents::AgentReport { name, key, uptime_s, pid, clients };
        flash_client_report = agents::ClientReport { devices, uptime_s, launches, bytes, pid, agent };
        flash_memory_report = memory::MemoryReport { type_name, element_size, len, axes, shape };
    }
    let include = format!("-I{}", here("include").display());
    compile_only(Language::C, &text, &[&include]);
    assert!(text.matches("same(").count() > 20);
}
