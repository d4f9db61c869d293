//! Descriptions of CPU implementations, which `#[kernel]` puts into the inventory of the program or plugin.

use super::team::OfTeam;
use super::views::Operation;
use super::{
    CpuItem, CpuSpan, CpuTeam, CpuWhole, KernelDefinition, descriptor_of, item_share, span_share, whole_share,
};
use crate::devices::attribute;
use flash_backend::__host::{PARTS, STRIDES, linked_implementations};
use flash_types::abi;
use flash_types::descriptor::{ArgumentDescriptor, KernelDescriptor};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

/// The generated function of a door.
pub struct CpuFunction {
    door: u32,
    share: abi::ShareFn,
    /// The attribute that it has of itself.
    attribute: Option<&'static str>,
}

impl CpuFunction {
    /// The `item` door of `I`.
    pub fn item<D: KernelDefinition, I: CpuItem<D>>() -> CpuFunction {
        CpuFunction { door: abi::DOOR_ITEM, share: item_share::<D, I>, attribute: Some(STRIDES) }
    }

    /// The `team` door of `I`.
    pub fn team<D: KernelDefinition, I: CpuTeam<D, THREADS>, const THREADS: usize>() -> CpuFunction {
        Self::item::<D, OfTeam<I, THREADS>>()
    }

    /// The `span` door of `I`.
    pub fn span<D: KernelDefinition, I: CpuSpan<D>>() -> CpuFunction {
        CpuFunction { door: abi::DOOR_SPAN, share: span_share::<D, I>, attribute: Some(STRIDES) }
    }

    /// The `whole` door of `I`.
    pub fn whole<D: KernelDefinition, I: CpuWhole<D>>() -> CpuFunction {
        let attribute = I::PARTS.then_some(PARTS);
        CpuFunction { door: abi::DOOR_WHOLE, share: whole_share::<D, I>, attribute }
    }
}

/// The descriptor of a definition as text: the same for all of its implementations, made for the first.
pub(super) fn descriptor_text<D: KernelDefinition>() -> &'static str {
    static KNOWN: Mutex<BTreeMap<TypeId, &'static str>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(TypeId::of::<D::Static>()).or_insert_with(|| {
        let descriptor = descriptor_of::<D>();
        let text = descriptor.to_json().leak();
        if !D::REDUCES.is_empty() {
            let operations = D::REDUCES.iter().copied().zip(D::operations()).collect();
            let mut reducing = REDUCING.write().unwrap_or_else(PoisonError::into_inner);
            reducing.push(Reducing { descriptor, operations });
        }
        text
    })
}

/// The definitions with accumulators of which this program has an implementation.
static REDUCING: RwLock<Vec<Reducing>> = RwLock::new(Vec::new());

struct Reducing {
    descriptor: KernelDescriptor,
    /// Positions of its accumulators, and their operations.
    operations: Vec<(usize, Operation)>,
}

/// The operation of an accumulator, an argument of a kernel that is known by its descriptor. `None`: it is no
/// operation that has a name, and the definition is not of this program.
pub(crate) fn operation_of(
    kernel: &str,
    position: usize,
    argument: &ArgumentDescriptor,
) -> Option<Operation> {
    if let Some(named) = Operation::named(&argument.reduce.as_ref()?.operation, &argument.element.name) {
        return Some(named);
    }
    // Definitions that no launch has used are not known yet.
    for one in linked_implementations().iter().filter(|one| one.kernel() == kernel) {
        one.description();
    }
    let reducing = REDUCING.read().unwrap_or_else(PoisonError::into_inner);
    reducing.iter().filter(|known| known.descriptor.name == kernel).find_map(|known| {
        let (_, operation) = known.operations.iter().find(|(at, _)| *at == position)?;
        let same = &known.descriptor.arguments[position];
        (same.reduce == argument.reduce && same.element.agrees(&argument.element)).then_some(*operation)
    })
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
    let descriptor = descriptor_text::<D>();
    let mut attributes: Vec<abi::Attr> =
        attributes.iter().map(|(key, value)| attribute(key, (*value).into())).collect();
    attributes.extend(function.attribute.map(|key| attribute(key, true.into())));
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
