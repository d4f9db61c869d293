//! `flash kernels --text NAME`: the texts of a kernel.

use flash_core::devices::{KernelText, listed, texts};
use std::collections::BTreeSet;

/// The texts of a kernel.
pub fn run(name: &str) -> anyhow::Result<String> {
    let all = texts();
    let ours: Vec<&KernelText> = all.iter().filter(|text| is_named(&text.kernel, name)).collect();
    if ours.is_empty() {
        let there: BTreeSet<&str> = all.iter().map(|text| text.kernel.as_str()).collect();
        let there: Vec<&str> = there.into_iter().collect();
        anyhow::bail!(
            "expected a kernel with a text for devices in this command or its plugins, found none named `{name}`: run a program with FLASH_TEXTS=DIR to see those of its own; available: {}",
            there.join(", ")
        );
    }
    Ok(listed(ours))
}

/// The whole name, or its end behind a dot.
fn is_named(kernel: &str, name: &str) -> bool {
    kernel == name || kernel.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
}
