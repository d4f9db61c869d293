//! A backend for the unit tests, small enough for an interpreter: device 0 runs every row in order on
//! the calling thread, device 1 cuts each phase in two, runs the halves on two threads and hands over
//! a completion event.

use flash_backend::host_memory::{self, HostBuffers};
use flash_backend::register_backend;
use flash_backend::{
    Backend, Completion, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, run_rows,
};
use flash_types::abi::{self, Arg, Implementation, Share};
use std::sync::Mutex;

struct Serial;

// SAFETY: `submit` runs every row of every phase once, the phases one after the other, and returns
// when all have run.
unsafe impl Backend for Serial {
    const KEY: &'static str = "TEST_SERIAL";
    const DESCRIPTION: &'static str = "for unit tests";
    const TARGET: &'static str = "cpu";
    type Device = SerialDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<SerialDevice>, Unavailable> {
        Ok([false, true].map(|two| SerialDevice { two, buffers: HostBuffers::default() }).into())
    }
}

register_backend!(Serial);

/// Names of the kernels that were prepared, once for each time.
static PREPARED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How often a kernel was prepared by any of these devices.
pub(super) fn prepared(kernel: &str) -> usize {
    PREPARED.lock().unwrap().iter().filter(|name| *name == kernel).count()
}

/// What the next preparations of a kernel say.
static REFUSALS: Mutex<Vec<(&str, Failure)>> = Mutex::new(Vec::new());

/// Lets the next preparation of a kernel fail. That of the first call is first.
pub(super) fn refuse(kernel: &'static str, why: Failure) {
    REFUSALS.lock().unwrap().push((kernel, why));
}

struct SerialDevice {
    two: bool,
    buffers: HostBuffers,
}

/// An event that has fired.
pub(super) struct Done(pub Result<(), Failure>);

impl Completion for Done {
    fn ready(&self) -> bool {
        true
    }

    fn wait(&self) -> Result<(), Failure> {
        self.0.clone()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        callback();
    }

    fn times(&self) -> Option<(u64, u64)> {
        Some((1_000, 1_077))
    }
}

impl Device for SerialDevice {
    type Kernel = &'static Implementation;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            synchronous: true,
            runs_functions: true,
            emulated: true,
            test: true,
            host_memory: true,
            threads: 1 + u32::from(self.two),
            name: "serial".into(),
            vendor: "FLASH".into(),
            version: "0".into(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, implementation: &'static Implementation) -> Result<Self::Kernel, Failure> {
        // SAFETY: strings of implementations live for ever.
        let kernel = unsafe { implementation.kernel.text() };
        let mut refusals = REFUSALS.lock().unwrap();
        if let Some(at) = refusals.iter().position(|(of, _)| *of == kernel) {
            return Err(refusals.remove(at).1);
        }
        PREPARED.lock().unwrap().push(kernel);
        Ok(implementation)
    }

    fn submit(&self, launch: &Launch<'_, Self::Kernel>) -> Result<Option<Event>, Failure> {
        let (kernel, space, mut args) = (*launch.kernel(), launch.space(), launch.args().to_vec());
        for phase in launch.phases() {
            let rows = space.phase(phase);
            args.iter().for_each(copy_over);
            let all = launch.share(phase, rows.clone());
            if self.two && kernel.door != abi::DOOR_WHOLE {
                // A block of an accumulator is in one half.
                let block = |a: &Arg| if a.kind == abi::ARG_REDUCE { a.row_len } else { 1 };
                let align = args.iter().map(block).max().unwrap_or(1);
                let middle = rows.start + (rows.end - rows.start) / 2 / align * align;
                let halves = [Share { end: middle, ..all }, Share { begin: middle, ..all }];
                let [first, second] = std::thread::scope(|scope| {
                    halves
                        .map(|half| {
                            scope.spawn({
                                let args = &args;
                                move || run(kernel, half, args)
                            })
                        })
                        .map(|t| t.join().unwrap())
                });
                first.and(second)?;
            } else {
                run(kernel, all, &args)?;
            }
            args.iter_mut().filter(|a| two_buffers(a)).for_each(|a| std::mem::swap(&mut a.data, &mut a.next));
        }
        if (launch.phases().end - launch.phases().start) % 2 == 1 {
            args.iter().for_each(copy_over);
        }
        launch.report(55);
        Ok(if self.two { Some(Event::new(Done(Ok(())))) } else { None })
    }

    fn spaces(&self) -> Vec<abi::MemorySpace> {
        vec![host_memory::space(abi::SPACE_HOST, 0)]
    }

    fn alloc(&self, space: u32, bytes: u64) -> Result<abi::Buffer, Failure> {
        self.buffers.alloc(space, bytes)
    }

    fn free(&self, buffer: abi::Buffer) -> Result<(), Failure> {
        self.buffers.free(buffer)
    }

    unsafe fn register_host(&self, pointer: *mut u8, _: u64) -> Result<abi::Buffer, Failure> {
        Ok(self.buffers.register(pointer))
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

    fn can_copy(&self, _: u32, _: u32) -> Option<f64> {
        (!self.two).then_some(1e9)
    }

    fn query(&self, key: &str) -> Option<String> {
        assert!(key != "panic", "asked to");
        (key == "threads").then(|| (1 + u32::from(self.two)).to_string())
    }
}

fn run(kernel: &Implementation, share: Share, args: &[Arg]) -> Result<(), Failure> {
    if share.begin == share.end {
        return Ok(());
    }
    // SAFETY: rows of the launch, without another user, and its arguments.
    let error = unsafe { run_rows(kernel, &share, args.as_ptr()) };
    // SAFETY: an error of this host.
    if error.is_null() { Ok(()) } else { Err(unsafe { Failure::of_host(error) }) }
}

fn two_buffers(arg: &Arg) -> bool {
    arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0
}

/// Copies the written buffer to the read one, or back.
fn copy_over(arg: &Arg) {
    if two_buffers(arg) {
        let bytes = (arg.len * u64::from(arg.element_size)) as usize;
        // SAFETY: two buffers of this size, the launch's, and nothing of it runs.
        unsafe { std::ptr::copy_nonoverlapping(arg.data.cast::<u8>(), arg.next.cast::<u8>(), bytes) };
    }
}
