//! A plugin that brings what its own crate registers.
#![deny(warnings, missing_docs)]

flash_core::export_plugin!();

#[test]
fn a_plugin_exports_its_query() {
    let query: flash_core::abi::PluginQuery = flash_plugin_query;
    let _ = query;
}
