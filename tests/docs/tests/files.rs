//! The crate `my_kernels` is on a page, as it is.

use std::fs;
use std::path::Path;

#[test]
fn the_crate_of_implementations_is_that_of_the_page() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(here.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (page, code) = (read("../../docs/start.md"), read("my-kernels/src/lib.rs"));
    assert!(page.contains(&format!("```rust\n{code}```\n")), "docs/start.md does not have\n{code}");
}
