//! The template `flash-core/src/backend/conformance/null.rs` as a plugin of its own, which `build.rs` copies.

include!(concat!(env!("OUT_DIR"), "/backend.rs"));

flash_core::export_plugin!();
