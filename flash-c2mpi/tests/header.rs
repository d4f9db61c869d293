//! `include/mpix.h` is made from the sources of this crate. `FLASH_BLESS=1 cargo test -p flash-c2mpi --test
//! header` writes it: read the difference.

use flash_c2mpi::c::types;
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
const MODULES: [&str; 7] = ["status", "types", "calls", "info", "object", "messages", "collective"];

/// The sources as one, with what comments say put into the words of C.
fn source() -> String {
    let mut source = String::new();
    for module in MODULES {
        let text = read(&format!("src/c/{module}.rs"));
        for line in text.lines().filter(|line| !line.starts_with("//!")) {
            source.push_str(line);
            source.push('\n');
        }
    }
    source.replace("/// # Safety\n/// ", "/// The caller's duty: ")
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
        header: Some(format!("{}\n\n#ifndef MPIX_H\n#define MPIX_H", read("tests/head.h").trim())),
        after_includes: Some("#include <stddef.h>\n#include <stdint.h>".into()),
        trailer: Some(format!("{}\n\n#endif /* MPIX_H */", read("tests/tail.h").trim())),
        usize_is_size_t: true,
        ..Default::default()
    };
    config.export.rename = constants(&source).map(|name| (name.to_owned(), format!("MPIX_{name}"))).collect();
    config.export.include = ["MPIX_Argument", "MPIX_Failsafe"].map(str::to_owned).into();
    let bindings = cbindgen::Builder::new().with_config(config).with_src(&file).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_made_from_the_sources() {
    flash_tests::same_as_file(&here("include/mpix.h"), &generate(), "flash-c2mpi/src/c");
}

#[test]
fn every_function_and_constant_is_in_the_header_with_words_above_it() {
    let (source, header) = (source(), read("include/mpix.h"));
    let functions = functions(&source);
    assert!(functions.len() >= 40, "{functions:?}");
    has_words(&header, "mpix.h", &functions);
    for name in constants(&source) {
        assert!(header.contains(&format!("#define MPIX_{name} ")), "mpix.h does not define MPIX_{name}");
    }
}

#[test]
fn every_entry_runs_where_panics_are_caught() {
    let source = source();
    for name in functions(&source) {
        let body = function(&source, name);
        assert!(
            body.contains("    call(||") || name == "MPIX_Last_error",
            "{name} does not run inside `call`"
        );
    }
}

#[test]
fn the_header_compiles_as_c99_c11_and_cpp17_without_warnings() {
    let include = format!("-I{}", here("include").display());
    let body = |claim: &str, free: &str| {
        format!(
            "#include \"mpix.h\"\n#include \"mpix.h\"\nint use(void);\nint use(void) {{\n    int a = 0;\n    \
             unsigned long b = 0;\n    MPIX_ComputeObj o;\n    MPIX_ComputeObj_create(&o);\n    {claim}\n    {free}\n    \
             return MPIX_Send(o, 1, MPIX_CompObj, a, 0, MPIX_COMM_WORLD) + (int)b;\n}}\n"
        )
    };
    let generic = body(
        "MPIX_Claim(\"A\", NULL, NULL, &a); MPIX_Claim(\"A\", NULL, NULL, &b); MPIX_CreateBuffer(b, 1, 1, 4, 8, &b); MPIX_CreateBuffer(0, 1, 1, 4, 8, &a);",
        "MPIX_Free(&a); MPIX_Free(&b); MPIX_Free(&o);",
    );
    let strict = [&*include, "-pedantic", "-Wconversion", "-Wshadow"];
    compile_only(Language::C, &generic, &[&strict[..], &["-std=c11"]].concat());
    compile_only(Language::Cpp, &generic, &strict);
    let plain = body("MPIX_Claim_int(\"A\", NULL, NULL, &a);", "MPIX_Free_int(&a);");
    compile_only(Language::C, &plain, &[&strict[..], &["-std=c99"]].concat());
}

#[test]
fn structs_have_the_same_layout_in_c() {
    let mut text =
        String::from("#include \"mpix.h\"\n#define same(c, rust) _Static_assert((c) == (rust), #c)\n");
    macro_rules! layout {
        ($($name:ident { $($field:ident),* };)*) => {$(
            text += &format!("same(sizeof({}), {});\n", stringify!($name), size_of::<types::$name>());
            $(text += &format!(
                "same(offsetof({}, {}), {});\n", stringify!($name), stringify!($field), offset_of!(types::$name, $field)
            );)*
        )*};
    }
    layout! {
        MPIX_Status { MPIX_SOURCE, MPIX_TAG, MPIX_ERROR, bytes };
        MPIX_Argument { kind, datatype, count, axes, shape, data };
    }
    compile_only(Language::C, &text, &[&format!("-I{}", here("include").display())]);
    assert!(text.matches("same(").count() >= 12);
}
