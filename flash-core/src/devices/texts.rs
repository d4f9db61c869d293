//! The texts of kernels: implementations that devices compile.

use super::catalog::Catalog;
use super::registry::Registry;
use flash_backend::notice;
use flash_backend::settings;
use flash_types::abi::{self, Implementation};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Once;

/// The text of an implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelText {
    /// The kernel's name.
    pub kernel: String,
    /// The implementation's name among the kernel's.
    pub implementation: String,
    /// The kind of devices that compile it.
    pub target: String,
    /// Names and element types of its arguments, such as `a: f32, x: f32`.
    pub arguments: String,
    /// The text, without what the backend puts before it.
    pub text: String,
}

/// The texts of all implementations in the program and its plugins, which are loaded.
///
/// # Examples
/// ```
/// use flash_core::kernel::prelude::*;
///
/// #[derive(KernelDefinition)]
/// #[kernel(name = "doc.twice", dims(i))]
/// struct Twice<'a> {
///     x: Item<'a, ReadWrite<f32>>,
/// }
///
/// struct Once;
///
/// #[kernel(devices)]
/// impl CpuItem<Twice<'_>> for Once {
///     fn item(_: Index<1>, k: TwiceItem<'_>) {
///         *k.x *= 2.0;
///     }
/// }
///
/// let texts = flash_core::devices::texts();
/// let text = texts.iter().find(|text| text.kernel == "doc.twice" && text.target == "opencl").unwrap();
/// assert!(text.text.contains("FLASH_KERNEL"));
/// ```
pub fn texts() -> Vec<KernelText> {
    all(Catalog::of_process().registry())
}

fn all(registry: &Registry) -> Vec<KernelText> {
    registry.implementations().filter_map(|found| text_of(found.raw)).collect()
}

/// Texts one after the other, each below a line that says of what it is: by kernel, kind of device,
/// implementation and element types. What several kinds of devices share is there once.
pub fn listed<'a>(texts: impl IntoIterator<Item = &'a KernelText>) -> String {
    let mut texts: Vec<&KernelText> = texts.into_iter().collect();
    let order =
        |of: &KernelText| [&of.kernel, &of.target, &of.implementation, &of.arguments].map(String::clone);
    texts.sort_by_cached_key(|text| order(text));
    let same = |a: &KernelText, b: &KernelText| {
        (&a.kernel, &a.implementation, &a.arguments, &a.text)
            == (&b.kernel, &b.implementation, &b.arguments, &b.text)
    };
    let mut out = String::new();
    for (at, text) in texts.iter().enumerate() {
        if texts[..at].iter().any(|known| same(known, text)) {
            continue;
        }
        let targets = texts.iter().filter(|other| same(text, other)).map(|other| other.target.as_str());
        let targets = targets.collect::<Vec<_>>().join(" and ");
        let KernelText { kernel, implementation, arguments, text, .. } = text;
        out.push_str(&format!(
            "// `{kernel}`, implementation `{implementation}`, for {targets}, of {arguments}\n{text}\n"
        ));
    }
    out
}

/// Writes the texts of all kernels, if the setting `texts` asks for it, once in a process: each kernel's into
/// a file of its name.
pub(super) fn write_if_asked(registry: &Registry) {
    static ONCE: Once = Once::new();
    let Some(folder) = &settings::process_text("texts") else { return };
    ONCE.call_once(|| {
        if let Err(error) = write(&all(registry), Path::new(folder)) {
            notice(format_args!(
                "FLASH_TEXTS: expected a folder that can be written, found that `{folder}` cannot: {error}"
            ));
        }
    });
}

fn write(texts: &[KernelText], folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let kernels: BTreeSet<&str> = texts.iter().map(|text| text.kernel.as_str()).collect();
    for kernel in kernels {
        let text = listed(texts.iter().filter(|text| text.kernel == kernel));
        // A plugin may call its kernels as it likes.
        let name: String =
            kernel.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
        std::fs::write(folder.join(format!("{name}.c")), text)?;
    }
    Ok(())
}

fn text_of(implementation: &Implementation) -> Option<KernelText> {
    if implementation.kind != abi::KIND_INT_SRC || implementation.payload.is_null() {
        return None;
    }
    // SAFETY: not NULL, and an implementation's payload and texts live for ever.
    let (payload, [kernel, name, target, descriptor]) = unsafe {
        let texts = [
            implementation.kernel.text(),
            implementation.name.text(),
            implementation.target.text(),
            implementation.descriptor.text(),
        ];
        (std::slice::from_raw_parts(implementation.payload, implementation.payload_len), texts)
    };
    let descriptor = flash_types::descriptor::KernelDescriptor::from_json(&descriptor).ok()?;
    let arguments: Vec<String> = descriptor
        .arguments
        .iter()
        .map(|argument| format!("{}: {}", argument.name, argument.element.name))
        .collect();
    Some(KernelText {
        kernel,
        implementation: name,
        target,
        arguments: arguments.join(", "),
        text: String::from_utf8_lossy(payload).into_owned(),
    })
}
