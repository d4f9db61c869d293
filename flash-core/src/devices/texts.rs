//! The texts of kernels: implementations that devices compile.

use super::catalog::Catalog;
use flash_types::abi::{self, Implementation};

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
    let registry = Catalog::of_process().registry();
    registry.implementations().filter_map(|found| text_of(found.raw)).collect()
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
