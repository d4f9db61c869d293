//! What few submissions have: options, shapes and a failsafe of their own.

use super::Node;
use crate::error::Error;
use crate::runtime::failsafe::Failsafe;
use crate::runtime::options::Options;
use crate::runtime::plans::OwnPlan;
use crate::runtime::state::Runtime;
use flash_types::abi;
use smallvec::SmallVec;

/// Properties that few submissions have.
#[derive(Default)]
pub(crate) struct Extra {
    pub options: Options,
    pub sizes: Option<Vec<SmallVec<[u64; 4]>>>,
    pub failsafe: Option<Failsafe>,
    /// The plan with these options.
    pub(super) plan: Option<OwnPlan>,
    /// Attributes for the backend, with the texts that they point to.
    pub attributes: Vec<abi::Attr>,
    _texts: Vec<String>,
}

/// Makes the plan for a submission's own options, and the attributes for the backend.
#[cold]
pub(super) fn prepare(node: &mut Node, runtime: &Runtime) -> Result<(), Error> {
    let own = node.extra.get_or_insert_default().options.clone();
    let mut all = runtime.options.attributes.clone();
    all.merge(&own.attributes);
    if !own.attributes.is_empty() || !own.predicates.is_empty() {
        let devices = own.select(runtime.context.registry(), &runtime.devices)?;
        let plan = runtime.plan_with(node.plan(), &devices, &all);
        node.extra.get_or_insert_default().plan = plan;
    }
    let extra = node.extra.get_or_insert_default();
    for (key, value, required) in all.for_backends() {
        let (key, value) = (key.to_owned(), value.to_string());
        // The texts are kept in the same struct, and a String's bytes do not move with it.
        let text = |s: &String| abi::Str { ptr: s.as_ptr(), len: s.len() };
        let required = u32::from(required);
        extra.attributes.push(abi::Attr { key: text(&key), value: text(&value), required, reserved: 0 });
        extra._texts.extend([key, value]);
    }
    Ok(())
}
