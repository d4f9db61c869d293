//! A plugin that brings what its own crate registers: a backend, of which one impl alone is unsafe.
#![deny(warnings, missing_docs, unsafe_code)]

use flash_backend::{Backend, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable};
use flash_core::abi;

/// Has no device.
struct Nowhere;

#[allow(unsafe_code)]
// SAFETY: without a device nothing is submitted.
unsafe impl Backend for Nowhere {
    const KEY: &'static str = "NOWHERE";
    const DESCRIPTION: &'static str = "no device";
    const TARGET: &'static str = "nothing";
    type Device = Nothing;
    fn probe(_: &HostSettings<'_>) -> Result<Vec<Nothing>, Unavailable> {
        Err(Unavailable("expected a device, found a test".into()))
    }
}

struct Nothing;

impl Device for Nothing {
    type Kernel = ();
    fn info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }
    fn prepare(&self, _: &'static abi::Implementation) -> Result<(), Failure> {
        Ok(())
    }
    fn submit(&self, _: &Launch<'_, ()>) -> Result<Option<Event>, Failure> {
        Ok(None)
    }
}

flash_backend::register_backend!(Nowhere);
flash_core::export_plugin!();

#[test]
fn a_plugin_exports_its_query() {
    let query: abi::PluginQuery = flash_plugin_query;
    let _ = query;
}

#[test]
fn what_a_crate_without_unsafe_registers_is_listed() {
    let found =
        flash_core::devices::list().into_iter().find(|backend| backend.key.as_deref() == Some("NOWHERE"));
    assert!(found.unwrap().outcome.to_string().contains("expected a device, found a test"));
}
