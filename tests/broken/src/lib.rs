//! A plugin that panics in the function that `FLASH_BROKEN` names: for the tests of the loader.

use flash_backend::ImplementationEntry;
use flash_backend::abi;
use flash_backend::host_memory::HostBuffers;
use flash_backend::{
    Backend, Completion, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, host_memory,
};

/// Panics if this is the function that `FLASH_BROKEN` names.
fn maybe(function: &str) {
    if std::env::var("FLASH_BROKEN").is_ok_and(|name| name == function) {
        panic!("broken on purpose in {function}");
    }
}

/// The backend.
struct Broken;

// SAFETY: the device has the host's memory and runs every row of every phase, one after the other, in
// the call, or panics.
unsafe impl Backend for Broken {
    const KEY: &'static str = "BROKEN";
    const DESCRIPTION: &'static str = "panics where FLASH_BROKEN says";
    const TARGET: &'static str = "cpu";
    type Device = BrokenDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<BrokenDevice>, Unavailable> {
        maybe("probe");
        if std::env::var("FLASH_BROKEN").is_ok_and(|name| name == "unavailable") {
            return Err(Unavailable("expected a driver, found none: install it".into()));
        }
        Ok(vec![BrokenDevice(HostBuffers::default())])
    }
}

/// Its device.
struct BrokenDevice(HostBuffers);

/// A kernel, which may panic when it is given back.
struct Kernel(&'static abi::Implementation);

impl Drop for Kernel {
    fn drop(&mut self) {
        maybe("release");
    }
}

/// An event that has fired, and may panic.
struct Done;

impl Completion for Done {
    fn ready(&self) -> bool {
        maybe("event_ready");
        true
    }

    fn wait(&self) -> Result<(), Failure> {
        maybe("event_wait");
        Ok(())
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        maybe("event_on_ready");
        callback();
    }

    fn times(&self) -> Option<(u64, u64)> {
        maybe("event_times");
        None
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        maybe("event_release");
    }
}

impl Device for BrokenDevice {
    type Kernel = Kernel;

    fn info(&self) -> DeviceInfo {
        maybe("device_info");
        DeviceInfo {
            synchronous: true,
            runs_functions: true,
            test: true,
            host_memory: true,
            name: "broken".into(),
            vendor: "tests".into(),
            version: "1".into(),
            physical_id: "broken".into(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static abi::Implementation) -> Result<Kernel, Failure> {
        maybe("prepare");
        Ok(Kernel(implementation))
    }

    fn submit(&self, launch: &Launch<'_, Kernel>) -> Result<Option<Event>, Failure> {
        maybe("submit");
        let space = launch.space();
        for phase in launch.phases() {
            let rows = space.phase(phase);
            let share = launch.share(phase, rows);
            // SAFETY: all rows of the phase, once; the launch's own arguments.
            let error = unsafe { flash_backend::run_rows(launch.kernel().0, &share, launch.args().as_ptr()) };
            if !error.is_null() {
                // SAFETY: an error of the host, which is ours now.
                return Err(unsafe { Failure::of_host(error) });
            }
        }
        Ok(Some(Event::new(Done)))
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        maybe("spaces");
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        maybe("alloc");
        self.0.alloc(space, bytes)
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        maybe("free");
        self.0.free(buffer)
    }

    unsafe fn register_host(&self, pointer: *mut u8, _bytes: u64) -> Result<abi::Buffer, Failure> {
        maybe("register_host");
        Ok(self.0.register(pointer))
    }

    unsafe fn copy_box(
        &self,
        from: abi::Buffer,
        to: abi::Buffer,
        shape: &abi::CopyBox,
    ) -> Result<(), Failure> {
        maybe("copy_box");
        // SAFETY: the caller vouches for the boxes.
        unsafe { host_memory::copy_box(from, to, shape) }
    }

    fn can_copy(&self, _from: u32, _to: u32) -> Option<f64> {
        maybe("can_copy");
        Some(1e9)
    }

    fn query(&self, _key: &str) -> Option<String> {
        maybe("query");
        None
    }
}

flash_backend::register_backend!(Broken);

// Runs inside the plugin's query.
flash_backend::__private::inventory::submit! {
    ImplementationEntry {
        kernel: "",
        build: || {
            maybe("plugin_query");
            &NOTHING
        },
        module: module_path!(),
    }
}

/// An implementation without a function.
static NOTHING: abi::Implementation = abi::Implementation {
    struct_size: size_of::<abi::Implementation>() as u32,
    door: abi::DOOR_SPAN,
    kind: abi::KIND_INT_BIN,
    priority: 0,
    kernel: abi::Str::new("broken.nothing"),
    name: abi::Str::new("nothing"),
    target: abi::Str::new("cpu"),
    descriptor: abi::Str::new(""),
    cpu_features: abi::Str::new(""),
    attributes: std::ptr::null(),
    attribute_count: 0,
    share: None,
    span: None,
    payload: std::ptr::null(),
    payload_len: 0,
    definition: abi::Str::new(""),
};

flash_backend::export_plugin!();
