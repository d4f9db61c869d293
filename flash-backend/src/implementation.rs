//! What an implementation says of itself: how it enters the inventory of the program or plugin, and the
//! attributes that the runtime and the registry read.

use flash_types::abi;
use std::sync::OnceLock;

/// An implementation that is linked in. Made by `#[kernel]` and `#[implementations]`.
pub struct ImplementationEntry {
    /// The name of its kernel.
    pub kernel: &'static str,
    /// Makes the implementation's description; called once.
    pub build: fn() -> &'static abi::Implementation,
    /// The module that registers it, as `module_path!` gives it: it begins with the crate's name.
    pub module: &'static str,
}

inventory::collect!(ImplementationEntry);

/// An implementation that is linked in, described when it is first asked for: a program links hundreds, and
/// runs few.
pub struct LinkedImplementation {
    entry: &'static ImplementationEntry,
    description: OnceLock<&'static abi::Implementation>,
}

impl LinkedImplementation {
    /// The name of its kernel.
    pub fn kernel(&self) -> &'static str {
        self.entry.kernel
    }

    /// The module that registers it.
    pub(crate) fn module(&self) -> &'static str {
        self.entry.module
    }

    /// Its description.
    pub fn description(&self) -> &'static abi::Implementation {
        self.description.get_or_init(self.entry.build)
    }
}

/// All that are linked with this copy of the library: the program's own, or, for a program within a plugin,
/// the plugin's and those that it uses.
pub fn linked_implementations() -> &'static [LinkedImplementation] {
    static ALL: OnceLock<Vec<LinkedImplementation>> = OnceLock::new();
    let linked = |entry| LinkedImplementation { entry, description: OnceLock::new() };
    ALL.get_or_init(|| inventory::iter::<ImplementationEntry>().map(linked).collect())
}

/// The attribute of a `whole` implementation that computes parts of a launch, too; its value is `true`.
pub const PARTS: &str = "parts";

/// Whether an implementation may be given a part of a launch: the doors of single items may, the `whole` door
/// must declare it.
pub fn takes_parts(implementation: &abi::Implementation) -> bool {
    implementation.door != abi::DOOR_WHOLE || says(implementation, PARTS)
}

/// The attribute of an implementation that finds the elements of every `Item` by its strides alone, whatever
/// these are; its value is `true`.
pub const STRIDES: &str = "strides";

/// Whether an implementation may be given views with gaps as items.
pub fn takes_strides(implementation: &abi::Implementation) -> bool {
    says(implementation, STRIDES)
}

/// The attribute of an implementation that names the elements of a `Window` by an index per axis alone, never
/// by their number; its value is `true`. The text of `#[kernel(devices)]` has it, for it is written by a run
/// of the kernel's body, in which all that is asked of a window is seen.
pub const AXES: &str = "axes";

/// The attribute of a function and of a text that `#[kernel(devices)]` makes of the same tokens: their
/// number.
const TOKENS: &str = "tokens";

/// Whether an implementation may be given views with gaps as windows: it has [`AXES`], or is a function for
/// the same definition and types, and of the same tokens, as a text that does, among `others` of its kernel.
pub fn takes_axes<'a>(
    implementation: &abi::Implementation,
    mut others: impl Iterator<Item = &'a abi::Implementation>,
) -> bool {
    // SAFETY: strings of implementations live for ever.
    let of = |one: &abi::Implementation| unsafe { (one.definition.text(), one.descriptor.text()) };
    let Some(tokens) = value_of(implementation, TOKENS) else { return says(implementation, AXES) };
    let is_beside = |text: &abi::Implementation| {
        value_of(text, TOKENS).is_some_and(|others| others == tokens) && of(text) == of(implementation)
    };
    says(implementation, AXES) || others.any(|text| says(text, AXES) && is_beside(text))
}

/// The value of an attribute of an implementation.
fn value_of(implementation: &abi::Implementation, key: &str) -> Option<String> {
    // SAFETY: attributes and strings of implementations live for ever.
    let of = |i| unsafe {
        let attribute = &*implementation.attributes.add(i);
        (attribute.key.text() == key).then(|| attribute.value.text())
    };
    (0..implementation.attribute_count).find_map(of)
}

/// Whether an implementation has an attribute with the value `true`.
fn says(implementation: &abi::Implementation, key: &str) -> bool {
    value_of(implementation, key).is_some_and(|value| value == "true")
}

/// Among implementations that fit equally well the highest is taken: by priority, then by the door, of which
/// spans are the fastest.
pub fn rank(implementation: &abi::Implementation) -> (i32, u32) {
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
    // A number, or the text of one.
    let value = value_of(implementation, ALIGNMENT);
    value.and_then(|value| value.trim_matches('"').parse().ok()).map(|value: u64| value.max(1))
}
