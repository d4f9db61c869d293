//! `flash kernels --text NAME`: the texts of a kernel.

use flash_core::devices::{KernelText, texts};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The texts of a kernel, each below a line that says which it is. Implementations that share a text are in
/// one line.
pub fn run(name: &str) -> anyhow::Result<String> {
    let all = texts();
    let mut ours: Vec<&KernelText> = all.iter().filter(|text| is_named(&text.kernel, name)).collect();
    // Not as the linker put them.
    ours.sort_by(|a, b| order(a).cmp(&order(b)));
    if ours.is_empty() {
        let there: BTreeSet<&str> = all.iter().map(|text| text.kernel.as_str()).collect();
        let there: Vec<&str> = there.into_iter().collect();
        anyhow::bail!(
            "expected a kernel with a text for devices, found none named `{name}`; available: {}",
            there.join(", ")
        );
    }
    let mut out = String::new();
    let mut shown: Vec<&KernelText> = Vec::new();
    for text in &ours {
        if shown.iter().any(|known| same(known, text)) {
            continue;
        }
        shown.push(text);
        let targets: Vec<&str> =
            ours.iter().filter(|other| same(text, other)).map(|other| other.target.as_str()).collect();
        let KernelText { kernel, implementation, arguments, text, .. } = text;
        let _ = write!(
            out,
            "// `{kernel}`, implementation `{implementation}`, for {}, of {arguments}\n{text}\n",
            targets.join(" and ")
        );
    }
    Ok(out)
}

/// The whole name, or its end behind a dot.
fn is_named(kernel: &str, name: &str) -> bool {
    kernel == name || kernel.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
}

fn order(of: &KernelText) -> [&str; 4] {
    [&of.kernel, &of.target, &of.implementation, &of.arguments]
}

fn same(a: &KernelText, b: &KernelText) -> bool {
    (&a.kernel, &a.implementation, &a.arguments, &a.text)
        == (&b.kernel, &b.implementation, &b.arguments, &b.text)
}
