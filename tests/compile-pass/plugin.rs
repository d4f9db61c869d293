//! A plugin that brings what its own crate registers.
#![deny(warnings, missing_docs)]

flash_core::export_plugin!();

fn main() {
    let query: flash_core::abi::PluginQuery = flash_plugin_query;
    let _ = query;
}
