//! Which implementations never run, because nothing but its place, or its priority, tells another one from
//! them.

use super::reports::BackendReport;
use flash_backend::__host::rank;
use flash_types::abi::{self, Implementation};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One implementation of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImplementationReport {
    /// The kernel's name.
    pub kernel: String,
    /// Its name among the kernel's implementations.
    pub name: String,
    /// The kind of devices that it is for, such as `cpu`.
    pub target: String,
    /// Where another implementation of the same name, arguments and target is from that is always taken in
    /// place of this one: it has a higher priority or, at the same one, is found before this one, as the
    /// program's own are.
    pub shadowed_by: Option<String>,
    /// A hash of what has to be equal before an implementation shadows another. It is the same in every
    /// process of the program.
    likeness: u64,
    /// Of those alike, the highest is taken.
    rank: (i32, u32),
}

impl fmt::Display for ImplementationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.kernel, self.name, self.target)
    }
}

impl ImplementationReport {
    /// Of an implementation by itself: nothing shadows it.
    pub(super) fn of(raw: &Implementation) -> ImplementationReport {
        // SAFETY: strings of implementations live for ever.
        let [kernel, name, target] = unsafe { [raw.kernel, raw.name, raw.target].map(|text| text.text()) };
        ImplementationReport {
            kernel,
            name,
            target,
            shadowed_by: None,
            likeness: likeness(raw),
            rank: rank(raw),
        }
    }
}

/// A hash of the kernel, name, target and arguments of an implementation, and of the CPU and the devices that
/// it is for.
fn likeness(raw: &Implementation) -> u64 {
    let mut hash = DefaultHasher::new();
    // SAFETY: strings and attributes of implementations live for ever.
    unsafe {
        let attributes = (0..raw.attribute_count).map(|i| &*raw.attributes.add(i));
        let attributes = attributes.map(|attribute| (attribute.key.text(), attribute.value.text()));
        let needs = ["vendor", "device", "architecture", "version", "library"];
        let mut needed: Vec<_> = attributes.filter(|(key, _)| needs.contains(&key.as_str())).collect();
        needed.sort();
        let texts = [raw.kernel, raw.name, raw.target, raw.descriptor, raw.cpu_features];
        (texts.map(|text: abi::Str| text.text()), needed).hash(&mut hash);
    }
    hash.finish()
}

/// Says of each implementation what shadows it. The plugins are in the order in which implementations are
/// looked through.
pub(super) fn mark<'a>(plugins: impl Iterator<Item = &'a mut Vec<BackendReport>>) {
    let reports: Vec<&mut BackendReport> = plugins.flatten().collect();
    // Of each likeness the one that is taken: its rank, its report, and its number there.
    let mut taken: HashMap<u64, ((i32, u32), usize, usize)> = HashMap::new();
    for (at, report) in reports.iter().enumerate() {
        for (number, one) in report.implementations.iter().enumerate() {
            let first = taken.entry(one.likeness).or_insert((one.rank, at, number));
            if one.rank > first.0 {
                *first = (one.rank, at, number);
            }
        }
    }
    let origins: Vec<String> = reports.iter().map(|report| report.plugin.clone()).collect();
    for (at, report) in reports.into_iter().enumerate() {
        for (number, one) in report.implementations.iter_mut().enumerate() {
            let (_, by, which) = taken[&one.likeness];
            one.shadowed_by = ((by, which) != (at, number)).then(|| origins[by].clone());
        }
    }
}
