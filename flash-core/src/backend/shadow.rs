//! Which implementations never run, because nothing but its place, or its priority, tells another one from
//! them.

use super::registry::RegisteredImplementation;
use crate::abi::{self, Implementation};
use crate::kernel::implementation::rank;
use std::collections::HashMap;
use std::fmt;

/// One implementation of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ImplementationReport {
    /// Its kernel.
    pub kernel: String,
    /// Its name among the kernel's implementations.
    pub name: String,
    /// The kind of devices that it is for.
    pub target: String,
    /// Where another implementation of the same name, arguments and target is from that is always taken in
    /// place of this one: it has a higher priority or, at the same one, is found before this one, as the
    /// program's own are.
    pub shadowed_by: Option<String>,
}

impl fmt::Display for ImplementationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.kernel, self.name, self.target)
    }
}

/// What has to be equal before an implementation shadows another: kernel, name, target, arguments, the CPU
/// and the devices that it is for.
type Likeness = (String, String, String, String, String, Vec<(String, String)>);

fn likeness(raw: &Implementation) -> Likeness {
    // SAFETY: strings and attributes of implementations live for ever.
    unsafe {
        let attributes = (0..raw.attribute_count).map(|i| &*raw.attributes.add(i));
        let attributes = attributes.map(|attribute| (attribute.key.text(), attribute.value.text()));
        let needs = ["vendor", "device", "architecture", "version", "library"];
        let mut needed: Vec<_> = attributes.filter(|(key, _)| needs.contains(&key.as_str())).collect();
        needed.sort();
        let texts = [raw.kernel, raw.name, raw.target, raw.descriptor, raw.cpu_features];
        let [kernel, name, target, descriptor, features] = texts.map(|text: abi::Str| text.text());
        (kernel, name, target, descriptor, features, needed)
    }
}

/// The implementation of each likeness that is taken.
pub(super) struct Shadows(HashMap<Likeness, RegisteredImplementation>);

impl Shadows {
    /// Of all implementations, in the order in which they are looked through.
    pub fn of(all: impl Iterator<Item = RegisteredImplementation>) -> Shadows {
        let mut taken: HashMap<Likeness, RegisteredImplementation> = HashMap::new();
        for one in all {
            let first = taken.entry(likeness(one.raw)).or_insert(one);
            if rank(one.raw) > rank(first.raw) {
                *first = one;
            }
        }
        Shadows(taken)
    }

    /// What is said of an implementation; `origin` says where those of a plugin are from.
    pub fn report(&self, raw: &Implementation, origin: impl Fn(usize) -> String) -> ImplementationReport {
        let alike = likeness(raw);
        let taken = self.0.get(&alike).filter(|taken| !std::ptr::eq(taken.raw, raw));
        let shadowed_by = taken.map(|taken| origin(taken.plugin));
        let (kernel, name, target, ..) = alike;
        ImplementationReport { kernel, name, target, shadowed_by }
    }
}
