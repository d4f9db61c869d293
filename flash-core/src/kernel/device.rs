//! How `#[implementations(..)]` describes code for devices.

use super::implementation::{definition_of, descriptor_text};
use super::{Element, KernelDefinition};
use crate::devices::attribute;
use flash_types::abi;
use serde_json::{Map, Value};
use std::path::Path;

/// A file with code, and its attributes. Made by `#[implementations(..)]`; the attributes are sorted by the
/// types of their values.
pub struct DeviceCode<'a> {
    /// Kind of device.
    pub target: &'static str,
    /// Name of the implementation.
    pub name: &'static str,
    /// Priority among equals.
    pub priority: i32,
    /// False if it is source text.
    pub binary: bool,
    /// A binary, or texts, of which each builds on those before it: the path relative to `beside`, and the
    /// content.
    pub files: &'a [(&'static str, &'static [u8])],
    /// The Rust source file of the definition.
    pub beside: &'static str,
    /// Macros of source text; one without a value is left out.
    pub defines: &'a [(&'static str, Option<String>)],
    /// Attributes.
    pub texts: &'a [(&'static str, &'static str)],
    /// Attributes.
    pub numbers: &'a [(&'static str, u32)],
    /// Attributes that are true.
    pub flags: &'a [&'static str],
    /// What the faults say that its text notes, by their numbers.
    pub messages: &'a [String],
    /// What a launch has to prove before it takes the text's program with `FLASH_SURE`.
    pub facts: &'a [String],
}

/// Describes code for a device as an implementation of `D`. Its allocations live for ever: there is one per
/// file and element type.
pub fn device_implementation<D: KernelDefinition>(code: &DeviceCode<'_>) -> &'static abi::Implementation {
    let descriptor = descriptor_text::<D>();
    let path = |file: &str| Path::new(code.beside).with_file_name(file).display().to_string();
    let (file, payload) = match code.files {
        [(file, payload)] => (path(file), *payload),
        files => (path(files[files.len() - 1].0), joined(files, path)),
    };
    let mut attributes = vec![attribute("file", file.into())];
    let defines = code.defines.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let defines: Map<String, Value> = defines.map(|(name, value)| (name.into(), value.into())).collect();
    if !defines.is_empty() {
        attributes.push(attribute("defines", defines.into()));
    }
    attributes.extend(code.texts.iter().map(|(key, value)| attribute(key, (*value).into())));
    attributes.extend(code.numbers.iter().map(|(key, value)| attribute(key, (*value).into())));
    attributes.extend(code.flags.iter().map(|key| attribute(key, true.into())));
    if !code.messages.is_empty() {
        attributes.push(attribute("messages", code.messages.into()));
    }
    if !code.facts.is_empty() {
        attributes.push(attribute("facts", code.facts.into()));
    }
    let attributes = attributes.leak();
    Box::leak(Box::new(abi::Implementation {
        struct_size: size_of::<abi::Implementation>() as u32,
        // An implementation that does not cooperate needs all of every array, and cannot be cut.
        door: if code.flags.contains(&"cooperating") { abi::DOOR_ITEM } else { abi::DOOR_WHOLE },
        kind: if code.binary { abi::KIND_INT_BIN } else { abi::KIND_INT_SRC },
        priority: code.priority,
        kernel: abi::Str::new(D::NAME),
        name: abi::Str::new(code.name),
        target: abi::Str::new(code.target),
        descriptor: abi::Str::new(descriptor),
        cpu_features: abi::Str::new(""),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        share: None,
        span: None,
        payload: payload.as_ptr(),
        payload_len: payload.len(),
        definition: abi::Str::new(definition_of::<D>()),
    }))
}

/// Texts one after the other, each with its name for the compiler's messages.
fn joined(files: &[(&str, &[u8])], path: impl Fn(&str) -> String) -> &'static [u8] {
    let mut text = Vec::new();
    for (file, part) in files {
        text.extend_from_slice(format!("\n#line 1 {:?}\n", path(file).replace('\\', "/")).as_bytes());
        text.extend_from_slice(part);
    }
    text.leak()
}

/// What `T` is called in the language of device kernels; `None` if it is no number.
pub fn c_type<T: Element>() -> Option<String> {
    let name = match T::ELEMENT_NAME {
        "f32" => "float",
        "f64" => "double",
        "i8" => "signed char",
        "u8" => "unsigned char",
        "i16" => "short",
        "u16" => "unsigned short",
        "i32" => "int",
        "u32" => "flash_u32",
        "i64" => "flash_i64",
        "u64" => "flash_u64",
        "isize" if size_of::<T>() == 8 => "flash_i64",
        "usize" if size_of::<T>() == 8 => "flash_u64",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_each_with_its_name_and_lines() {
        let path = |file: &str| format!("src/{file}");
        let text = joined(&[("../a.cl", b"one"), ("b.cl", b"two\n")], path);
        let expected = "\n#line 1 \"src/../a.cl\"\none\n#line 1 \"src/b.cl\"\ntwo\n";
        assert_eq!(std::str::from_utf8(text).unwrap(), expected);
    }
}
