//! The functions of the library, and the kernels that attributes select.

use crate::attributes::{Attribute, Attributes};
use crate::error::{Code, Error, Result};
use flash_core::Context;
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

/// The namespace of the library's kernels.
const LIBRARY: &str = "flash";

/// The names of all kernels with an implementation.
pub fn kernels(context: &Context) -> BTreeSet<String> {
    // SAFETY: strings of implementations live for ever.
    context.implementations().map(|implementation| unsafe { implementation.kernel.text() }).collect()
}

/// The names of a kernel's implementations that `sw_pid` takes.
pub fn implementations(context: &Context, kernel: &str, attributes: &Attributes) -> BTreeSet<String> {
    // SAFETY: strings of implementations live for ever.
    let named = context.implementations().map(|one| unsafe { (one.kernel.text(), one.name.text()) });
    let fitting = named.filter(|(of, name)| of == kernel && attributes.takes(Attribute::SwPid, name));
    fitting.map(|(_, name)| name).collect()
}

/// The one kernel that the attributes of a function select. A function that only has a class is the one of
/// that class with the same alias, else the only one of the class.
///
/// # Errors
/// [`Code::Implementation`] lists what there is.
pub fn kernel_of(alias: &str, attributes: &Attributes, context: &Context) -> Result<String> {
    let registered = kernels(context);
    let takes = |of: Attribute, text: &str| attributes.takes(of, text);
    // A kernel has its own name as a function's number, too.
    let fits = |kernel: &str| {
        let known: Vec<&Function> = FUNCTIONS.iter().filter(|known| known.kernel == kernel).collect();
        let is_function = match attributes.get(Attribute::SwFid) {
            None => true,
            Some(_) => {
                takes(Attribute::SwFid, kernel) || known.iter().any(|f| takes(Attribute::SwFid, f.sw_fid))
            }
        };
        let is_of_class = match known.first() {
            Some(function) => takes(Attribute::SwClid, function.sw_clid),
            None => takes(Attribute::SwClid, ""),
        };
        let version = if known.is_empty() { "" } else { VERSION };
        let space = kernel.split('.').next().unwrap_or_default();
        is_function && is_of_class && takes(Attribute::SwVid, space) && takes(Attribute::SwVerid, version)
    };
    let mut fitting: Vec<&String> = registered.iter().filter(|kernel| fits(kernel)).collect();
    let own = FUNCTIONS.iter().find(|known| known.alias == alias);
    if fitting.len() > 1
        && let Some(own) = own
        && let Some(at) = fitting.iter().position(|kernel| *kernel == own.kernel)
    {
        fitting = vec![fitting[at]];
    }
    match fitting[..] {
        [kernel] => Ok(kernel.clone()),
        [] => Err(Error::new(Code::Implementation, none(alias, attributes, &registered))),
        _ => {
            let names: Vec<&str> = fitting.iter().map(|kernel| kernel.as_str()).collect();
            let text = format!(
                "`{alias}` ({}): expected one kernel, found {}: say which by `sw_fid`",
                attributes.words(),
                names.join(", ")
            );
            Err(Error::new(Code::Implementation, text))
        }
    }
}

fn none(alias: &str, attributes: &Attributes, registered: &BTreeSet<String>) -> String {
    let known = FUNCTIONS.iter().map(|f| format!("{} {} {}", f.sw_fid, f.alias, f.kernel));
    let library =
        if registered.iter().any(|name| name.starts_with(LIBRARY)) { known.collect() } else { Vec::new() };
    let library: Vec<String> = library;
    let others: Vec<&str> = registered.iter().map(String::as_str).collect();
    format!(
        "`{alias}`: expected a kernel of {}, found none; functions: {}; kernels: {}",
        attributes.words(),
        library.join(", "),
        others.join(", ")
    )
}
