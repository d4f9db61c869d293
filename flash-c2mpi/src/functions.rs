//! The functions of the library, those of packages, and the kernels that attributes select.

use crate::attributes::{Attribute, Attributes};
use crate::config::Function as Entry;
use crate::error::{Code, Error, Result};
use flash_core::Context;
use flash_types::abi;
use std::collections::BTreeSet;

/// A function of the library.
#[derive(Debug)]
pub struct Function {
    /// Its alias in the paper.
    pub alias: &'static str,
    /// Its number in the paper's example of a configuration.
    pub sw_fid: &'static str,
    /// Its class.
    pub sw_clid: &'static str,
    /// The kernel.
    pub kernel: &'static str,
}

const fn function(
    alias: &'static str,
    sw_fid: &'static str,
    sw_clid: &'static str,
    kernel: &'static str,
) -> Function {
    Function { alias, sw_fid, sw_clid, kernel }
}

/// The functions of the paper's Table 1. `MVM` is the name in its text of what that table calls `FC`.
pub const FUNCTIONS: [Function; 9] = [
    function("MMM", "12345", "dense", "flash.mmm"),
    function("EWMM", "123456", "elementwise", "flash.ewmm"),
    function("SMMM", "1234567", "sparse", "flash.smmm"),
    function("EWMD", "12345678", "elementwise", "flash.ewmd"),
    function("VDP", "123456789", "reduction", "flash.vdp"),
    function("JS", "123456789A", "stencil", "flash.js"),
    function("FC", "123456789B", "dense", "flash.mvm"),
    function("MVM", "123456789B", "dense", "flash.mvm"),
    function("1DCONV", "123456789C", "convolution", "flash.conv1d"),
];

/// The version that the library's kernels have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A kernel with an implementation, and what it is as a function: empty texts where it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    kernel: &'static str,
    alias: &'static str,
    sw_fid: &'static str,
    sw_clid: &'static str,
    sw_verid: &'static str,
}

impl Known {
    /// True if the attributes of a function are those of this one. A kernel has its own name as a function's
    /// number, too.
    fn fits(&self, attributes: &Attributes) -> bool {
        let takes = |of: Attribute, text: &str| attributes.takes(of, text);
        let is_numbered = !self.sw_fid.is_empty() && takes(Attribute::SwFid, self.sw_fid);
        let space = self.kernel.split('.').next().unwrap_or_default();
        (is_numbered || takes(Attribute::SwFid, self.kernel))
            && takes(Attribute::SwClid, self.sw_clid)
            && takes(Attribute::SwVid, space)
            && takes(Attribute::SwVerid, self.sw_verid)
    }
}

/// All kernels with an implementation: those of the library as its functions, those of packages as their
/// manifests say.
fn known(context: &Context) -> BTreeSet<Known> {
    let mut known = BTreeSet::new();
    for implementation in context.implementations() {
        // SAFETY: strings of implementations live for ever.
        let kernel = unsafe { implementation.kernel.as_str() };
        let mut of_library = FUNCTIONS.iter().filter(|function| function.kernel == kernel).peekable();
        if of_library.peek().is_none() {
            let [alias, sw_fid, sw_clid, sw_verid] =
                ["alias", "sw_fid", "sw_clid", "sw_verid"].map(|key| text_of(implementation, key));
            known.insert(Known { kernel, alias, sw_fid, sw_clid, sw_verid });
        }
        known.extend(of_library.map(|&Function { alias, sw_fid, sw_clid, kernel }| Known {
            kernel,
            alias,
            sw_fid,
            sw_clid,
            sw_verid: VERSION,
        }));
    }
    known
}

/// A text among the attributes of an implementation; empty if it has none.
fn text_of(implementation: &abi::Implementation, key: &str) -> &'static str {
    // SAFETY: attributes of implementations, and their strings, live for ever.
    let attribute = |i| unsafe {
        let abi::Attr { key, value, .. } = &*implementation.attributes.add(i);
        (key.as_str(), value.as_str())
    };
    let mut attributes = (0..implementation.attribute_count).map(attribute);
    let value = attributes.find(|(name, _)| *name == key).map_or("", |(_, value)| value);
    serde_json::from_str(value).unwrap_or_default()
}

/// True if a kernel has this alias.
pub fn has_alias(context: &Context, alias: &str) -> bool {
    !alias.is_empty() && known(context).iter().any(|known| known.alias == alias)
}

/// The names of a kernel's implementations that `sw_pid` takes.
pub fn implementations(context: &Context, kernel: &str, attributes: &Attributes) -> BTreeSet<String> {
    // SAFETY: strings of implementations live for ever.
    let named = context.implementations().map(|one| unsafe { (one.kernel.text(), one.name.text()) });
    let fitting = named.filter(|(of, name)| of == kernel && attributes.takes(Attribute::SwPid, name));
    fitting.map(|(_, name)| name).collect()
}

/// The one kernel that the attributes of a function select. Of several it is that with the same alias.
///
/// # Errors
/// [`Code::Implementation`] lists what there is.
pub fn kernel_of(entry: &Entry, context: &Context) -> Result<String> {
    let (alias, attributes, known) = (&*entry.alias, &entry.attributes, known(context));
    let fitting = |of: &dyn Fn(&Known) -> bool| -> BTreeSet<&str> {
        known.iter().filter(|known| known.fits(attributes) && of(known)).map(|known| known.kernel).collect()
    };
    let of_alias = fitting(&|known| known.alias == alias);
    let mut found = fitting(&|_| true);
    let is_meant = entry.is_packaged && attributes.get(Attribute::SwFid).is_none();
    if is_meant || found.len() > 1 && !of_alias.is_empty() {
        found = of_alias;
    }
    let names: Vec<&str> = found.into_iter().collect();
    match names[..] {
        [kernel] => Ok(kernel.to_owned()),
        [] => Err(Error::new(Code::Implementation, none(alias, attributes, &known))),
        _ => {
            let text = format!(
                "`{alias}` ({}): expected one kernel, found {}: say which by `sw_fid`",
                attributes.words(),
                names.join(", ")
            );
            Err(Error::new(Code::Implementation, text))
        }
    }
}

fn none(alias: &str, attributes: &Attributes, known: &BTreeSet<Known>) -> String {
    let functions = known.iter().filter(|known| !known.alias.is_empty());
    let functions: Vec<String> =
        functions.map(|known| format!("{} {} {}", known.sw_fid, known.alias, known.kernel)).collect();
    let kernels: BTreeSet<&str> = known.iter().map(|known| known.kernel).collect();
    let kernels: Vec<&str> = kernels.into_iter().collect();
    format!(
        "`{alias}`: expected a kernel of {}, found none; functions: {}; kernels: {}",
        attributes.words(),
        functions.join(", "),
        kernels.join(", ")
    )
}
