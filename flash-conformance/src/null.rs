//! A backend that accepts everything and runs nothing, key `NULL`: the template for a new backend, and the
//! lower bound of the cost of a dispatch.
//!
//! To write a backend of your own, copy this file into a crate that depends on `flash-backend` and go from
//! top to bottom. It compiles as it is; what to change is marked with `FILL IN`:
//!
//! 1. Give it a key, and look for your driver in [`probe`](Backend::probe). Load the driver there,
//!    with `dlopen`, never by linking: on a machine without it the backend is *unavailable*, with a
//!    reason that says what to install, and everything else works.
//! 2. Describe your devices in [`info`](Device::info).
//! 3. Prepare kernels in [`prepare`](Device::prepare), run them in [`submit`](Device::submit).
//! 4. Uncomment the last line. A crate `plugin/` beside it with `crate-type = ["cdylib"]` and the one line
//!    `flash_backend::export_plugin!(my_backend);` makes the library that is dropped into a directory of
//!    `FLASH_BACKEND_PATH`.
//! 5. `flash list` shows it, `flash conformance MY_ACCEL` reports what it does wrong. Its last line says that
//!    no result was checked, until you remove [`query`](Device::query).

use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::{
    Backend, Class, Code, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, abi,
    physical_id,
};

/// The backend. It has no fields: its state is in its devices.
pub struct Null;

// SAFETY: FILL IN why `submit` keeps its promises: every row of every phase runs exactly once, a phase
// after the one before it has drained, memory is touched through the arguments only, and the event fires
// after all of it. This backend is the exception, which only an explicit key selects: it touches nothing, so
// that arrays keep their values. They are always initialised.
unsafe impl Backend for Null {
    // FILL IN: the key that selects it. Capital letters; no colon, no comma, no leading digit.
    const KEY: &'static str = "NULL";
    const DESCRIPTION: &'static str = "accepts everything, runs nothing";
    // FILL IN: the kind of implementations that `prepare` gets. For a device with a kernel language of its
    // own it is the name of that language; functions for the CPU are `cpu`.
    const TARGET: &'static str = "cpu";
    type Device = NullDevice;

    // FILL IN: called once, when a program first needs a device, from whatever thread. Keep it fast: it is
    // part of the time to a program's first result. `Err(Unavailable(..))` says what was expected,
    // what was found and what to do. A panic here is caught and reported in the same way.
    fn probe(_: &HostSettings<'_>) -> Result<Vec<NullDevice>, Unavailable> {
        Ok(vec![NullDevice { buffers: HostBuffers::default() }])
    }
}

/// Its one device. State of a device, such as a context or a queue, is in its fields.
pub struct NullDevice {
    buffers: HostBuffers,
}

/// The result of [`prepare`](Device::prepare): for a device a loaded module and an entry point. It is dropped
/// when the last runtime that uses it is.
pub struct NullKernel;

impl Device for NullDevice {
    type Kernel = NullKernel;

    fn info(&self) -> DeviceInfo {
        // FILL IN: what the device is.
        DeviceInfo {
            class: Class::Other,
            emulated: false,
            // Groups such as ALL_ACCEL leave test devices out.
            test: true,
            // Arguments are pointers into host memory, used in place.
            host_memory: true,
            threads: 1,
            name: "null".into(),
            vendor: "FLASH".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            // Two devices of one physical id are the same hardware, reached in two ways: a group takes one of
            // them. For a GPU it is the PCI address.
            physical_id: physical_id("null"),
            // Groups put the fastest first. 0: unknown.
            rate_hint: 0.0,
            memory_bytes: 0,
            // Compared with the `architecture` of an implementation.
            features: String::new(),
            // Its work is done when `submit` returns, and it takes functions of this process.
            synchronous: true,
            runs_functions: true,
            ..DeviceInfo::default()
        }
    }

    // FILL IN: called once per kernel and runtime, never for a warm launch. Compile, load and look things up.
    // `implementation` lives for ever. It is a function (`share`, `span`) or a binary or a source text
    // (`payload`, by `kind`).
    fn prepare(&self, _implementation: &'static abi::Implementation) -> Result<NullKernel, Failure> {
        Ok(NullKernel)
    }

    // FILL IN: called for every launch, from any thread, several at once. A backend that runs functions for
    // the CPU does this:
    //
    //     for phase in launch.phases() {
    //         let rows = launch.space().phase(phase);
    //         let share = Share { phase, begin: rows.start, end: rows.end, ..launch.share() };
    //         let error = run_rows(launch.kernel().implementation, &share, launch.args().as_ptr());
    //         if !error.is_null() { return Err(Failure::of_host(error)) }
    //     }
    //
    // and exchanges `data` and `next` of arguments of kind ARG_PHASED between phases (see there). `Ok(None)`:
    // all is done. `Ok(Some(event))`: it is not; the event fires when it is.
    #[inline]
    fn submit(&self, launch: &Launch<'_, NullKernel>) -> Result<Option<Event>, Failure> {
        // Unknown options may be ignored, unless they are marked as required.
        match launch.attributes().find(|(_, _, required)| *required) {
            Some((key, _, _)) => Err(Failure::new(
                Code::Unsupported,
                format!(
                    "the option `{key}` is marked as required and this backend does not know it; it knows none"
                ),
            )),
            None => Ok(None),
        }
    }

    // Everything from here on may be left out: the device then answers "unsupported".

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }

    // `HostBuffers` keeps track of buffers for devices that share the host's memory.
    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        // SAFETY: the caller vouches for the boxes.
        unsafe { host_memory::copy_box(from, to, shape) }
    }

    fn can_copy(&self, from: u32, to: u32) -> Option<f64> {
        (from == abi::SPACE_HOST && to == abi::SPACE_HOST).then_some(10e9)
    }

    // FILL IN: remove it. The conformance suite asks for this property, and checks no result where it is
    // `true`.
    fn query(&self, key: &str) -> Option<String> {
        (key == "conformance.dry").then(|| "true".into())
    }
}

// FILL IN: puts the backend into the inventory of every program that links the crate.
// flash_backend::register_backend!(Null);
