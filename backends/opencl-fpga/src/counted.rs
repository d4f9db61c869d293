//! OpenCL's objects, counted, so that tests can check that every object is released.

use crate::failure::Call;
use flash_backend::Failure;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::release_mem_object;
use opencl3::program::Program;
use opencl3::types::cl_mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of objects of a kind that this process has made, and released.
pub struct Count {
    made: AtomicU64,
    released: AtomicU64,
}

impl Count {
    const fn new() -> Count {
        Count { made: AtomicU64::new(0), released: AtomicU64::new(0) }
    }
}

static BUFFERS: Count = Count::new();
static EVENTS: Count = Count::new();
static KERNELS: Count = Count::new();
static PROGRAMS: Count = Count::new();

/// A kind of object.
pub trait Object {
    /// The count of the kind.
    fn count() -> &'static Count;
}

impl Object for Memory {
    fn count() -> &'static Count {
        &BUFFERS
    }
}

impl Object for Event {
    fn count() -> &'static Count {
        &EVENTS
    }
}

impl Object for Kernel {
    fn count() -> &'static Count {
        &KERNELS
    }
}

impl Object for Program {
    fn count() -> &'static Count {
        &PROGRAMS
    }
}

/// An object, released when it is dropped.
pub struct Counted<T: Object>(T);

impl<T: Object> Counted<T> {
    /// Takes ownership of an object.
    pub fn new(object: T) -> Counted<T> {
        T::count().made.fetch_add(1, Relaxed);
        Counted(object)
    }
}

impl<T: Object> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Object> DerefMut for Counted<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Object> Drop for Counted<T> {
    fn drop(&mut self) {
        T::count().released.fetch_add(1, Relaxed);
    }
}

/// An OpenCL buffer.
pub(crate) struct Memory(cl_mem);

// SAFETY: the handle of a buffer may be used from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes the result of `clCreateBuffer`.
    ///
    /// # Errors
    /// That of the call.
    pub fn created(outcome: Result<cl_mem, i32>) -> Result<Counted<Memory>, Failure> {
        outcome.call("clCreateBuffer").map(Memory::taken)
    }

    /// Takes the one reference to a buffer.
    pub fn taken(buffer: cl_mem) -> Counted<Memory> {
        Counted::new(Memory(buffer))
    }

    /// Its handle.
    pub fn get(&self) -> cl_mem {
        self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `created` took the one reference to it. OpenCL keeps it until commands that use it have
        // ended.
        let _ = unsafe { release_mem_object(self.0) };
    }
}

/// All counts of this process, as JSON.
pub(crate) fn report() -> String {
    let one = |count: &Count| {
        // `released` is read before `made`: an object made and released meanwhile cannot count as released
        // only.
        let released = count.released.load(Relaxed);
        serde_json::json!({ "made": count.made.load(Relaxed), "released": released })
    };
    serde_json::json!({
        "buffers": one(&BUFFERS),
        "events": one(&EVENTS),
        "kernels": one(&KERNELS),
        "programs": one(&PROGRAMS),
    })
    .to_string()
}
