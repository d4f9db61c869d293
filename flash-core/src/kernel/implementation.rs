//! The entries that `#[kernel]` puts into the program's or plugin's inventory for CPU implementations.

use super::device::attribute;
use super::{CpuItem, CpuSpan, CpuWhole, KernelDefinition, item_share, span_share, whole_share};
use crate::abi;
use crate::descriptor::KernelDescriptor;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// An implementation that is linked in. Made by `#[kernel]` and `#[implementations]`.
pub struct ImplementationEntry {
    /// Makes the implementation's description; called once.
    pub build: fn() -> &'static abi::Implementation,
    /// The module that registers it, as `module_path!` gives it: it begins with the crate's name.
    pub module: &'static str,
}

inventory::collect!(ImplementationEntry);

/// The attribute of a `whole` implementation that computes parts of a launch, too; its value is `true`.
pub(super) const PARTS: &str = "parts";

/// Whether an implementation may be given a part of a launch: the doors of single items may, the `whole` door
/// must declare it.
pub(crate) fn takes_parts(implementation: &abi::Implementation) -> bool {
    // SAFETY: attributes and strings of implementations live for ever.
    let says = |i| unsafe {
        let attribute = &*implementation.attributes.add(i);
        attribute.key.text() == PARTS && attribute.value.text() == "true"
    };
    implementation.door != abi::DOOR_WHOLE || (0..implementation.attribute_count).any(says)
}

/// Among implementations that fit equally well the highest is taken: by priority, then by the door, of which
/// spans are the fastest.
pub(crate) fn rank(implementation: &abi::Implementation) -> (i32, u32) {
    let door = match implementation.door {
        abi::DOOR_SPAN => 2,
        abi::DOOR_ITEM => 1,
        _ => 0,
    };
    (implementation.priority, door)
}

/// The attribute of an implementation that asks to be cut at multiples of a number of positions.
const ALIGNMENT: &str = "alignment";

/// The multiple, in positions of a dimension, at which launches of an implementation are cut, if it declares
/// one. It is 1 or more, and holds for whichever dimension they are cut along.
pub fn alignment(implementation: &abi::Implementation) -> Option<u64> {
    // SAFETY: attributes and strings of implementations live for ever.
    let said = |i| unsafe {
        let attribute = &*implementation.attributes.add(i);
        (attribute.key.text() == ALIGNMENT).then(|| attribute.value.text())
    };
    // A number, or the text of one.
    let value = (0..implementation.attribute_count).find_map(said);
    value.and_then(|value| value.trim_matches('"').parse().ok()).map(|value: u64| value.max(1))
}

/// The generated function of a door.
pub struct CpuFunction {
    door: u32,
    share: abi::ShareFn,
    /// It has the attribute [`PARTS`].
    parts: bool,
}

impl CpuFunction {
    /// The `item` door of `I`.
    pub fn item<D: KernelDefinition, I: CpuItem<D>>() -> CpuFunction {
        CpuFunction { door: abi::DOOR_ITEM, share: item_share::<D, I>, parts: false }
    }

    /// The `span` door of `I`.
    pub fn span<D: KernelDefinition, I: CpuSpan<D>>() -> CpuFunction {
        CpuFunction { door: abi::DOOR_SPAN, share: span_share::<D, I>, parts: false }
    }

    /// The `whole` door of `I`.
    pub fn whole<D: KernelDefinition, I: CpuWhole<D>>() -> CpuFunction {
        CpuFunction { door: abi::DOOR_WHOLE, share: whole_share::<D, I>, parts: I::PARTS }
    }
}

/// The descriptor of a definition as text: the same for all of its implementations, made for the first.
pub(super) fn descriptor_of<D: KernelDefinition>() -> &'static str {
    static KNOWN: Mutex<BTreeMap<TypeId, &'static str>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    known.entry(TypeId::of::<D::Static>()).or_insert_with(|| KernelDescriptor::of::<D>().to_json().leak())
}

/// The type of a definition with its path, for [`abi::Implementation::definition`]. Without parameters: an
/// implementation for `f64` may run a launch of `f32`.
pub(crate) fn definition_of<D: KernelDefinition>() -> &'static str {
    let name = std::any::type_name::<D::Static>();
    name.split_once('<').map_or(name, |(name, _)| name)
}

/// Describes a CPU implementation of `D`. What it allocates lives for ever: there is one per
/// implementation and element type.
pub fn cpu_implementation<D: KernelDefinition>(
    function: CpuFunction,
    name: &'static str,
    target: &'static str,
    priority: i32,
    cpu_features: &'static str,
    attributes: &[(&'static str, &'static str)],
) -> &'static abi::Implementation {
    let descriptor = descriptor_of::<D>();
    let mut attributes: Vec<abi::Attr> =
        attributes.iter().map(|(key, value)| attribute(key, (*value).into())).collect();
    if function.parts {
        attributes.push(attribute(PARTS, true.into()));
    }
    let attributes = attributes.leak();
    Box::leak(Box::new(abi::Implementation {
        struct_size: size_of::<abi::Implementation>() as u32,
        door: function.door,
        kind: abi::KIND_INT_BIN,
        priority,
        kernel: abi::Str::new(D::NAME),
        name: abi::Str::new(name),
        target: abi::Str::new(target),
        descriptor: abi::Str::new(descriptor),
        cpu_features: abi::Str::new(cpu_features),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        share: Some(function.share),
        span: None,
        payload: std::ptr::null(),
        payload_len: 0,
        definition: abi::Str::new(definition_of::<D>()),
    }))
}
