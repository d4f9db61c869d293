//! Handles: numbers that may stand for an object. They are never followed as pointers.

use super::Answer;
use cudarc::driver::sys::CUresult;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The live objects of one kind.
pub(crate) struct Handles<T>(LazyLock<Mutex<HashMap<usize, Arc<T>>>>);

/// The next handle; those of all kinds differ.
static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);

impl<T> Handles<T> {
    pub const fn new() -> Self {
        Handles(LazyLock::new(Mutex::default))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<usize, Arc<T>>> {
        lock(&self.0)
    }

    pub fn add<H>(&self, object: Arc<T>) -> *mut H {
        let handle = NEXT.fetch_add(16, Relaxed);
        self.all().insert(handle, object);
        std::ptr::without_provenance_mut(handle)
    }

    pub fn get<H>(&self, handle: *mut H) -> Answer<Arc<T>> {
        self.all().get(&handle.addr()).cloned().ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    pub fn remove<H>(&self, handle: *mut H) -> Answer<Arc<T>> {
        self.all().remove(&handle.addr()).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// The handle of the first object for which `right` holds.
    pub fn find<H>(&self, right: impl Fn(&Arc<T>) -> bool) -> Option<*mut H> {
        let all = self.all();
        let found = all.iter().find(|(_, object)| right(object));
        found.map(|(handle, _)| std::ptr::without_provenance_mut(*handle))
    }
}

/// Locks; a thread that panicked has left the data consistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
