//! The extension `workers` of the host's interface: a plugin has its work run by the worker threads of the
//! program that loaded it. A plugin has no workers of its own to ask: what it links of this crate is a copy.

use super::{Registration, Source, register, wake};
use crate::devices::extension::error;
use flash_backend::__host::HostExtension;
use flash_types::abi;
use flash_types::abi::workers::{WORKERS_EXTENSION, WorkSource, WorkSourcesApi};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::sync::{Arc, PoisonError, RwLock};

/// Version 1 of it.
static WORKERS: WorkSourcesApi = WorkSourcesApi {
    struct_size: size_of::<WorkSourcesApi>() as u32,
    reserved: 0,
    add: Some(add),
    remove: Some(remove),
    wake: Some(announce),
};

inventory::submit! {
    HostExtension { name: WORKERS_EXTENSION, version: 1, table: || (&raw const WORKERS).cast() }
}

/// Work of a plugin.
struct OfPlugin {
    run_one: unsafe extern "C" fn(*mut c_void) -> u32,
    context: *mut c_void,
    /// False once it was removed. Pieces run with it locked for reading.
    is_there: RwLock<bool>,
}

// SAFETY: the plugin has promised that its function may be called with its context from any thread, and from
// several at once.
unsafe impl Send for OfPlugin {}
// SAFETY: as above.
unsafe impl Sync for OfPlugin {}

/// What a plugin holds.
struct Added {
    source: Arc<OfPlugin>,
    _registration: Registration,
}

thread_local! {
    /// The sources of which this thread runs pieces.
    static RUNNING: RefCell<Vec<*const OfPlugin>> = const { RefCell::new(Vec::new()) };
}

impl Source for OfPlugin {
    fn run_one(&self) -> bool {
        let is_there = self.is_there.read().unwrap_or_else(PoisonError::into_inner);
        if !*is_there {
            return false;
        }
        RUNNING.with_borrow_mut(|running| running.push(self));
        // SAFETY: the plugin's function with its own context, until it was removed.
        let any = unsafe { (self.run_one)(self.context) } != 0;
        RUNNING.with_borrow_mut(Vec::pop);
        any
    }
}

unsafe extern "C" fn add(
    run_one: unsafe extern "C" fn(*mut c_void) -> u32,
    context: *mut c_void,
    source: *mut *mut WorkSource,
) -> *mut abi::Error {
    if source.is_null() {
        return error("expected a place for the source, found NULL");
    }
    let added = Arc::new(OfPlugin { run_one, context, is_there: RwLock::new(true) });
    let added = Added { source: added.clone(), _registration: register(added) };
    // SAFETY: the plugin's variable.
    unsafe { *source = Box::into_raw(Box::new(added)).cast() };
    null_mut()
}

unsafe extern "C" fn remove(source: *mut WorkSource) -> *mut abi::Error {
    let added = source.cast::<Added>();
    // SAFETY: made by `add`, and not removed yet, as the plugin promises.
    let Some(of_plugin) = (unsafe { added.as_ref() }).map(|added| &*added.source) else {
        return error("expected a source that was added, found NULL");
    };
    if RUNNING.with_borrow(|running| running.contains(&from_ref(of_plugin))) {
        return error(
            "expected a thread that runs no piece of this source, found one from within a piece, for whose end it would wait",
        );
    }
    *of_plugin.is_there.write().unwrap_or_else(PoisonError::into_inner) = false;
    // SAFETY: as above; nothing uses it after this.
    drop(unsafe { Box::from_raw(added) });
    null_mut()
}

unsafe extern "C" fn announce(count: u32) {
    wake(count as usize);
}
