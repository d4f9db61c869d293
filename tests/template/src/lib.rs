//! The template `flash-conformance/src/null.rs` as a plugin of its own, which `build.rs` copies.

include!(concat!(env!("OUT_DIR"), "/backend.rs"));

flash_backend::export_plugin!();
