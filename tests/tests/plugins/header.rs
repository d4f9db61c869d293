//! The C headers in `flash-backend/include` are made from `flash-types/src/abi`; their layout is the one in
//! `layout.txt`.
//!
//! `FLASH_BLESS=1 cargo test -p flash-tests --test plugins` writes all three: read the difference. A changed
//! line of `layout.txt` is a break of the interface; lines may be added.

use flash_core::abi::{self, space, workers};
use flash_tests::plugins::{self, Language};
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;
use std::path::PathBuf;

/// The items for kernels: declared in `flash_device.h`, all others in `flash_backend.h`.
fn of_device(name: &str) -> bool {
    matches!(name, "Arg" | "Part" | "Span" | "SpanFn" | "SPACE_HOST")
        || name.starts_with("ARG_")
        || name.starts_with("ACCESS_")
}

fn include(file: &str) -> PathBuf {
    plugins::workspace().join("flash-backend/include").join(file)
}

/// The interface in one file, in a form that cbindgen can read: an opaque type is a struct without fields.
fn source() -> String {
    let read = |file: &str| {
        let path = plugins::workspace().join("flash-types/src/abi").join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let (mut source, mut comment) = (String::new(), String::new());
    for line in [read("space.rs"), read("mod.rs"), read("workers.rs")].iter().flat_map(|text| text.lines()) {
        if line.starts_with("///") {
            comment.push_str(line);
            comment.push('\n');
            continue;
        }
        // Constants that C cannot express are in the tail.
        if !line.starts_with("//!") && !line.contains("MAGIC: u64") && !line.contains(": &str = ") {
            source.push_str(&comment);
            source.push_str(line);
            source.push('\n');
        }
        comment.clear();
    }
    // C has NULL for every function, and C++ has a keyword `class`.
    source = source.replace("Option<ShareFn>", "ShareFn").replace("Option<SpanFn>", "SpanFn");
    source = source
        .replace("pub class: u32", "pub device_class: u32")
        .replace("DeviceInfo::class", "DeviceInfo::device_class");
    for opaque in ["Error", "Device", "Kernel", "Event", "WorkSource"] {
        let with_fields = format!("#[repr(C)]\npub struct {opaque} {{\n    _opaque: [u8; 0],\n}}");
        assert!(source.contains(&with_fields), "{opaque} is no opaque type any more: change this list");
        source = source.replace(&with_fields, &format!("pub struct {opaque} {{}}"));
    }
    source
}

fn snake_case(name: &str) -> String {
    let mut snake = String::from("flash");
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// C names by Rust names, in the order of the source.
fn names(source: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for line in source.lines() {
        let named = |keyword: &str| {
            let rest = line.strip_prefix(keyword)?;
            Some(rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?.to_owned())
        };
        if let Some(name) = named("pub const ") {
            names.push((name.clone(), format!("FLASH_{name}")));
        } else if let Some(name) = named("pub struct ").or_else(|| named("pub type ")) {
            names.push((
                name.clone(),
                if name == "PluginQuery" { "flash_query_fn".into() } else { snake_case(&name) },
            ));
        }
    }
    names
}

/// [`X`], [`X::y`] and `X_*` in comments become the C names.
fn link(text: &str, names: &HashMap<String, String>) -> String {
    let mut linked = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((path, after)) = after.split_once("`]") else { break };
        // [`text`](path): the path is for rustdoc.
        let after = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or(after, |(_, after)| after),
            None => after,
        };
        linked.push_str(before);
        let path = path.rsplit("super::").next().unwrap_or(path);
        let (first, field) =
            path.split_once("::").map_or((path, None), |(first, field)| (first, Some(field)));
        linked.push_str(names.get(first).map_or(first, String::as_str));
        if let Some(field) = field {
            linked.push('.');
            linked.push_str(field);
        }
        rest = after;
    }
    linked.push_str(rest);
    for group in ["ACCESS", "ARG", "BARRIER", "CLASS", "DEVICE", "DOOR", "HAS", "KIND", "LOOP", "SUBMIT"] {
        linked = linked.replace(&format!("`{group}_"), &format!("`FLASH_{group}_"));
    }
    linked
}

fn generate(device: bool) -> String {
    let source = source();
    let names = names(&source);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("abi.rs");
    std::fs::write(&file, source).unwrap();
    let (guard, head, tail) = match device {
        true => ("FLASH_DEVICE_H", DEVICE_HEAD, DEVICE_TAIL),
        false => ("FLASH_BACKEND_H", BACKEND_HEAD, BACKEND_TAIL),
    };
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        no_includes: true,
        style: cbindgen::Style::Both,
        line_length: 100,
        documentation_style: cbindgen::DocumentationStyle::C99,
        // cbindgen's own guard ends before the tail.
        header: Some(format!("{}\n\n#ifndef {guard}\n#define {guard}", head.trim())),
        after_includes: Some(if device { DEVICE_KERNEL.trim() } else { BACKEND_INCLUDES }.into()),
        trailer: Some(format!("{}\n\n#endif /* {guard} */", tail.trim())),
        usize_is_size_t: true,
        ..Default::default()
    };
    config.export.rename = names.iter().cloned().collect();
    let (mine, others): (Vec<_>, Vec<_>) =
        names.iter().map(|(rust, _)| rust.clone()).partition(|name| of_device(name) == device);
    config.export.include = mine;
    config.export.exclude = others;
    let bindings = cbindgen::Builder::new().with_config(config).with_src(&file).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    link(&text, &names.into_iter().collect())
}

const DEVICE_HEAD: &str = include_str!("device_head.h");
const DEVICE_KERNEL: &str = include_str!("device_kernel.h");
const DEVICE_TAIL: &str = include_str!("device_tail.h");
const BACKEND_HEAD: &str = include_str!("backend_head.h");
const BACKEND_TAIL: &str = include_str!("backend_tail.h");
const BACKEND_INCLUDES: &str = "#include \"flash_device.h\"\n#include <stddef.h>\n#include <string.h>";

/// Compares with a file of the folder of headers.
fn same_as_file(file: &str, made: &str) {
    flash_tests::same_as_file(&include(file), made, "flash-types/src/abi");
}

#[test]
fn the_headers_are_made_from_the_interface() {
    same_as_file("flash_device.h", &generate(true));
    same_as_file("flash_backend.h", &generate(false));
}

/// `Struct size alignment` and `Struct.field offset size` of every type of the interface.
macro_rules! layout {
    ($($module:ident :: $name:ident { $($field:ident),* $(,)? })*) => {{
        let mut lines = Vec::new();
        $(
            lines.push(format!("{} {} {}", stringify!($name), size_of::<$module::$name>(), align_of::<$module::$name>()));
            $({
                fn size<T>(_: impl Fn(&$module::$name) -> *const T) -> usize {
                    size_of::<T>()
                }
                lines.push(format!(
                    "{}.{} {} {}",
                    stringify!($name),
                    stringify!($field),
                    offset_of!($module::$name, $field),
                    size(|s| &raw const s.$field)
                ));
            })*
        )*
        lines
    }};
}

fn layout() -> Vec<String> {
    layout! {
        space::Space { struct_size, ndims, items, phases, phase_items, nloops, reserved, dims, loops }
        space::SpaceDim { kind, reserved, start, step, count, values }
        space::Loop { dim, kind, barrier, group_loop, count, barriers, nbarriers, order, starts }
        abi::Str { ptr, len }
        abi::Attr { key, value, required, reserved }
        abi::HostApi {
            struct_size, abi_major, abi_minor, reserved, error_create, error_code, error_text, error_free,
            query_failed, phase_rows, run_rows, get_extension, notice
        }
        abi::RegisteredDevice { struct_size, reserved, id, api, device }
        abi::RegistryApi { struct_size, reserved, devices, implementations, add, devices_of }
        abi::PluginHeader {
            magic, struct_size, abi_major, abi_minor, reserved, name, version, build, backends, backend_count,
            implementations, implementation_count
        }
        abi::Implementation {
            struct_size, door, kind, priority, kernel, name, target, descriptor, cpu_features, attributes,
            attribute_count, share, span, payload, payload_len, definition
        }
        abi::QueueCall { struct_size, arg_count, space, phase, args, context, native_handle, fail }
        abi::Part { begin, end, stride, origin, next_origin }
        abi::Arg { kind, access, space, element_size, data, next, buffer, len, row_len, flags, strides, part }
        abi::Threads { struct_size, count, context, install, each }
        abi::Share { struct_size, arg_count, host, space, phase, begin, end, threads }
        abi::Span { struct_size, dimensions, index, count, step, dimension, arg_count, phase }
        abi::DeviceInfo {
            struct_size, class, flags, threads, name, vendor, version, physical_id, rate_hint, memory_bytes, features,
            targets, suffix
        }
        abi::MemorySpace { struct_size, id, kind, numa_node, size, host_visible, alignment }
        abi::Buffer { space, reserved, handle }
        abi::CopyBox {
            extent, source_offset, source_stride, destination_offset, destination_stride
        }
        abi::Submission {
            struct_size, flags, kernel, space, args, arg_count, wait_count, waits, signal, nanoseconds, attributes,
            attribute_count, phase_begin, phase_end, stop, like
        }
        abi::BackendApi {
            struct_size, flags, key, description, probe, devices, device_info, prepare, release, submit, target,
            get_extension, query, generation, spaces, alloc, free, register_host, copy_box, can_copy, event_create, event_signal, event_ready, event_wait,
            event_on_ready, event_times, event_release, native_handle, inline_items,
            preload, image, forget_host, open, resolve, resolve_kernel, has, clear, shared_file,
            event_in_queue
        }
        workers::Workers { struct_size, count, wake }
        workers::WorkerHost { struct_size, reserved, news, serve, pass_on }
        workers::WorkSourcesApi { struct_size, reserved, add, remove, wake }
    }
}

/// `Struct` and `Struct.field` of every struct of the source that has fields, in order.
fn fields_of_source() -> Vec<String> {
    let mut fields = Vec::new();
    let mut inside: Option<String> = None;
    for line in source().lines() {
        match &inside {
            None => {
                if let Some(name) = line.strip_prefix("pub struct ").and_then(|l| l.strip_suffix(" {")) {
                    fields.push(name.to_owned());
                    inside = Some(name.to_owned());
                }
            }
            Some(_) if line == "}" => inside = None,
            Some(name) => {
                if let Some((field, _)) = line.strip_prefix("    pub ").and_then(|l| l.split_once(':')) {
                    fields.push(format!("{name}.{field}"));
                }
            }
        }
    }
    fields
}

#[test]
fn the_layout_is_the_one_written_down() {
    let lines = layout();
    let named: BTreeSet<String> =
        lines.iter().filter_map(|l| Some(l.split_once(' ')?.0.to_owned())).collect();
    let in_source: BTreeSet<String> =
        fields_of_source().into_iter().map(|f| f.replace(".device_class", ".class")).collect();
    assert_eq!(
        named, in_source,
        "the table in this file lists every field of every struct in flash-types/src/abi"
    );
    same_as_file("layout.txt", &(lines.join("\n") + "\n"));
}

#[test]
fn the_constants_of_the_tail_are_those_of_the_interface() {
    let header = generate(false);
    assert!(
        header.contains(&format!("#define FLASH_MAGIC UINT64_C({:#x})", abi::MAGIC)),
        "FLASH_MAGIC is not {:#x}",
        abi::MAGIC
    );
    assert!(
        header.contains(&format!("*{}(uint32_t host_abi_major", abi::QUERY_SYMBOL)),
        "the query is {}",
        abi::QUERY_SYMBOL
    );
}

/// A C file that fails to compile if the headers do not have the layout in the file.
fn assertions(device_only: bool) -> String {
    let mut text = String::from(if device_only {
        "#include \"flash_device.h\"\n"
    } else {
        "#include \"flash_backend.h\"\n"
    });
    text.push_str("#include <stddef.h>\n#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif\n");
    for line in layout() {
        let parts: Vec<&str> = line.split(' ').collect();
        let (name, field) = parts[0].split_once('.').map_or((parts[0], None), |(n, f)| (n, Some(f)));
        let field = field.map(|field| if field == "class" { "device_class" } else { field });
        if device_only && !of_device(name) {
            continue;
        }
        let c = snake_case(name);
        text.push_str(&match field {
            None => format!("static_assert(sizeof({c}) == {}, \"{line}\");\n", parts[1]),
            Some(field) => format!(
                "static_assert(offsetof({c}, {field}) == {} && sizeof((({c} *)0)->{field}) == {}, \"{line}\");\n",
                parts[1], parts[2]
            ),
        });
    }
    text
}

#[test]
fn the_headers_have_that_layout_in_c_and_in_cpp() {
    for device_only in [true, false] {
        let text = assertions(device_only);
        assert!(text.matches("static_assert(").count() > if device_only { 15 } else { 150 });
        plugins::compile_only(Language::C, &text, &["-pedantic"]);
        plugins::compile_only(Language::Cpp, &text, &["-pedantic"]);
    }
    // In any order, and twice.
    let both = "#include \"flash_backend.h\"\n#include \"flash_device.h\"\n#include \"flash_backend.h\"\n";
    plugins::compile_only(Language::C, both, &["-pedantic"]);
    plugins::compile_only(Language::Cpp, both, &["-pedantic"]);
}

#[test]
fn a_plugin_can_be_written_in_cpp() {
    let place = plugins::directory();
    let file = place.path().join("kernels.so");
    // The source has designated initialisers, which C++ knows since 2020.
    plugins::shared(
        Language::Cpp,
        &plugins::c_source("kernels.c"),
        &["-std=c++20", "-Wno-missing-field-initializers"],
        &file,
    );
    let output = plugins::flash(place.path(), &["list"]).output().unwrap();
    let text = plugins::text_of(&output);
    assert!(text.contains("(my-kernels 2.1)") && text.contains("plugins.fill"), "{text}");
}

#[test]
fn a_layout_that_differs_does_not_compile() {
    let size = size_of::<abi::Arg>();
    let text = assertions(true)
        .replace(&format!("sizeof(flash_arg) == {size}"), &format!("sizeof(flash_arg) == {}", size + 8));
    let message =
        plugins::compile(Language::C, &text, &["-c"], &plugins::directory().path().join("layout.o"))
            .unwrap_err();
    assert!(message.contains(&format!("Arg {size} 8")), "{message}");
}

#[test]
fn names_in_comments_become_those_of_c() {
    let names = HashMap::from([
        ("HostApi".to_owned(), "flash_host_api".to_owned()),
        ("DOOR_ITEM".to_owned(), "FLASH_DOOR_ITEM".to_owned()),
    ]);
    assert_eq!(
        link("see [`HostApi::error_create`], [`DOOR_ITEM`].", &names),
        "see flash_host_api.error_create, FLASH_DOOR_ITEM."
    );
    assert_eq!(snake_case("BackendApi"), "flash_backend_api");
}
